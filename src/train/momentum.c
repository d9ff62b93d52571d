/* SPDX-License-Identifier: Apache-2.0 */
/* momentum.c - see momentum.h. */
#include "train/momentum.h"

#include <math.h>
#include <string.h>

#include "gossip/gossip.h"
#include "gossip/growth.h"

/* Beyond this the graph alone may be larger than whoever asks for an option expects. */
#define NODES_MOST 1024

struct plan {
    double gamma;  /* with quasi-global momentum */
    double rule;   /* with any other */
    double growth; /* with quasi-global momentum; 0: nobody talks, or not looked for */
};

/* What quasi-global momentum has of the rule where the whole is too much. It repeats a round's move
 * 1 / (1 - beta²) times; and where elements wait for their turn, that late, so half of it. */
static double share_of_rule(const struct oct__compression *compression, double beta) {
    return (1.0 - beta * beta) / (compression->select == OCT_SELECT_ALL ? 1.0 : 2.0);
}

/* Growth at `gamma` where a step leaves `keep` of the momentum (0: beta), at the worst. Elements that
 * wait for their turn answer late, which may be as bad as twice as much at once, or, of a momentum
 * that follows slowly, as one that follows twice as fast: what is called stable so shrinks in 12,000
 * rounds of CHOCO with top-k, too. */
static oct_status growth_at(const struct oct_topology *topology, const struct oct_config *config,
                            const struct oct__compression *compression, double keep, double gamma,
                            double *out) {
    struct oct__qgm qgm = {
        .beta = config->beta, .own = config->own_momentum, .every = config->gossip_every};
    double late;
    qgm.keep = keep > 0.0 ? keep : config->beta;
    OCT_TRY(oct__qgm_growth(topology, gamma, &qgm, out));
    if (compression->select == OCT_SELECT_ALL) {
        return OCT_OK;
    }
    OCT_TRY(oct__qgm_growth(topology, fmin(1.0, 2.0 * gamma), &qgm, &late));
    *out = fmax(*out, late);
    if (qgm.keep > config->beta) {
        qgm.keep = fmax(config->beta, 1.0 - 2.0 * (1.0 - qgm.keep));
        OCT_TRY(oct__qgm_growth(topology, gamma, &qgm, &late));
        *out = fmax(*out, late);
    }
    return OCT_OK;
}

int oct__config_holds(const struct oct_config *config, double growth) {
    return growth <= (config->global_beta > 0.0 ? 1.0 : 1.0005);
}

/* With a gamma of its own choice, quasi-global momentum may take less than the rule. */
static oct_status find_gamma(const struct oct_topology *topology, const struct oct_config *config,
                             const struct oct__compression *compression, struct plan *plan) {
    const double keep = config->global_beta;
    OCT_TRY(growth_at(topology, config, compression, keep, plan->gamma, &plan->growth));
    if (config->gamma <= 0.0 && !oct__config_holds(config, plan->growth)) {
        const double less = plan->rule * share_of_rule(compression, config->beta);
        double growth;
        OCT_TRY(growth_at(topology, config, compression, keep, less, &growth));
        const int is_slow = compression->select != OCT_SELECT_ALL || config->gossip_every > 1;
        /* sparse and rare messages have the smaller one even where that is too much; a run is warned
         * of it */
        if (oct__config_holds(config, growth) || (is_slow && growth < plan->growth)) {
            plan->gamma = less;
            plan->growth = growth;
        }
    }
    return OCT_OK;
}

/* The quickest that holds, without a part of its own. */
static oct_status find_keep(const struct oct_topology *topology, const struct oct_config *config,
                            const struct oct__compression *compression, double gamma, double *out) {
    static const double keeps[] = {0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999};
    struct oct_config alone = *config; /* which owns nothing */
    double growth = INFINITY;
    alone.own_momentum = 0.0;
    *out = 0.0;
    for (size_t i = 0; growth > 1.0 && i < OCT_COUNT_OF(keeps); i++) {
        if (keeps[i] > config->beta) {
            OCT_TRY(growth_at(topology, &alone, compression, keeps[i], gamma, &growth));
            *out = growth > 1.0 ? 0.0 : keeps[i];
        }
    }
    return OCT_OK;
}

static oct_status make_plan(const struct oct_config *config, struct plan *plan) {
    const struct oct_algorithm_kind *algorithm;
    struct oct__compression compression;
    struct oct_topology *topology;
    *plan = (struct plan){.gamma = config->gamma, .rule = config->gamma};
    OCT_TRY(oct__algorithm_find(config->algorithm, &algorithm));
    if (algorithm->mixing != OCT_MIXING_GOSSIP || config->nodes == 1) {
        return OCT_OK;
    }
    OCT_TRY(oct__compression_read(config->compress, &compression));
    if (config->gamma <= 0.0) {
        plan->gamma = plan->rule = algorithm->gamma(&compression);
    }
    if (config->nodes > NODES_MOST) {
        return OCT_OK;
    }
    OCT_TRY(oct__config_topology(config, &topology));
    oct_status status = find_gamma(topology, config, &compression, plan);
    oct_topology_destroy(topology);
    return status;
}

oct_status oct__config_growth(const struct oct_config *config, double *out) {
    struct plan plan;
    OCT_TRY(make_plan(config, &plan));
    *out = plan.growth;
    return OCT_OK;
}

oct_status oct__config_steady(const struct oct_config *config, double *out) {
    const struct oct_algorithm_kind *algorithm;
    struct oct__compression compression;
    struct oct_topology *topology;
    OCT_TRY(oct__algorithm_find(config->algorithm, &algorithm));
    OCT_TRY(oct__compression_read(config->compress, &compression));
    OCT_TRY(oct__config_topology(config, &topology));
    const double gamma = config->gamma > 0.0 ? config->gamma : algorithm->gamma(&compression);
    oct_status status = find_keep(topology, config, &compression, gamma, out);
    oct_topology_destroy(topology);
    return status;
}

static const char *momentum_by_plan(const struct oct_config *config, const struct plan *plan) {
    if (config->momentum[0]) {
        return config->momentum;
    }
    /* With less than the rule it holds, and is no better than local momentum with the rule. Of slow
     * momentum's leaps it must know nothing. */
    const int is_stable = config->slow_momentum <= 0.0 && plan->growth > 0.0 &&
                          oct__config_holds(config, plan->growth);
    return is_stable && plan->gamma >= plan->rule ? "qgm" : "local";
}

oct_status oct__config_momentum(const struct oct_config *config, const char **out) {
    struct plan plan = {0};
    if (!config->momentum[0]) {
        OCT_TRY(make_plan(config, &plan));
    }
    *out = momentum_by_plan(config, &plan);
    return OCT_OK;
}

oct_status oct__config_gamma(const struct oct_config *config, double *out) {
    struct plan plan;
    OCT_TRY(make_plan(config, &plan));
    *out = strcmp(momentum_by_plan(config, &plan), "qgm") == 0 ? plan.gamma : plan.rule;
    return OCT_OK;
}
