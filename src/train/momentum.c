/* SPDX-License-Identifier: Apache-2.0 */
/* momentum.c - see momentum.h. */
#include "train/momentum.h"

#include "gossip/gossip.h"
#include "gossip/growth.h"

/* Beyond this the graph alone may be larger than whoever asks for an option expects. */
#define NODES_MOST 1024

oct_status oct__config_growth(const struct oct_config *config, double *out) {
    const struct oct_algorithm_kind *algorithm;
    struct oct__compression compression;
    struct oct_topology *topology;
    *out = 0.0;
    OCT_TRY(oct__algorithm_find(config->algorithm, &algorithm));
    if (algorithm->mixing != OCT_MIXING_GOSSIP || config->nodes == 1 ||
        config->nodes > NODES_MOST) {
        return OCT_OK;
    }
    OCT_TRY(oct__compression_read(config->compress, &compression));
    const double gamma = config->gamma > 0 ? config->gamma : algorithm->gamma(&compression);
    OCT_TRY(oct__config_topology(config, &topology));
    oct_status status = oct__qgm_growth(topology, gamma, config->beta, out);
    oct_topology_destroy(topology);
    return status;
}

oct_status oct__config_momentum(const struct oct_config *config, const char **out) {
    double growth = 0.0;
    *out = config->momentum;
    if (!config->momentum[0]) {
        OCT_TRY(oct__config_growth(config, &growth));
        *out = growth > 0.0 && growth <= OCT_GROWTH_STABLE ? "qgm" : "local";
    }
    return OCT_OK;
}
