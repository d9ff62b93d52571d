/* SPDX-License-Identifier: Apache-2.0 */
/* momentum.c - see momentum.h. */
#include "train/momentum.h"

#include "gossip/gossip.h"
#include "gossip/growth.h"

static oct_status find_growth(const struct oct_config *config, double *out) {
    const struct oct_algorithm_kind *algorithm;
    struct oct__compression compression;
    struct oct_topology *topology;
    OCT_TRY(oct__algorithm_find(config->algorithm, &algorithm));
    if (algorithm->mixing != OCT_MIXING_GOSSIP || config->nodes == 1) {
        return OCT_OK;
    }
    OCT_TRY(oct__compression_read(config->compress, &compression));
    const double gamma = config->gamma > 0 ? config->gamma : algorithm->gamma(&compression);
    OCT_TRY(oct__config_topology(config, &topology));
    oct_status status = oct__qgm_growth(topology, gamma, config->beta, out);
    oct_topology_destroy(topology);
    return status;
}

/* What is wrong with the options is said by whoever sets the run up. */
double oct__config_growth(const struct oct_config *config) {
    char detail[OCT_DETAIL_BYTES];
    double growth = 0.0;
    oct__detail_take(detail);
    oct_status status = find_growth(config, &growth);
    oct__detail_give(detail);
    return status == OCT_OK ? growth : 0.0;
}

const char *oct__config_momentum(const struct oct_config *config) {
    if (config->momentum[0]) {
        return config->momentum;
    }
    const double growth = oct__config_growth(config);
    return growth > 0.0 && growth <= OCT_GROWTH_STABLE ? "qgm" : "local";
}
