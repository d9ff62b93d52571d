/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - see check.h.
 *
 * What is wrong with one value was refused when it was set. Here are the combinations. What they
 * need of the data (how many steps there are, whether a network takes such samples) is found by
 * set_up.c.
 */
#include "train/check.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "train/fault.h"
#include "train/momentum.h"

/* --- what cannot be --------------------------------------------------------------------------- */

/* An option of quasi-global momentum in a run that has another, and why it has that. */
static oct_status refuse_local(const struct oct_config *config, int is_talking,
                               const char *momentum, const char *name, double value) {
    char why[128] = "because slow-momentum goes with that; leave one of them out";
    double keep;
    if (config->momentum[0]) {
        snprintf(why, sizeof why, "and it is of momentum qgm; give that, or leave it out");
    } else if (!is_talking) {
        snprintf(why, sizeof why, "because nodes do not talk; leave it out");
    } else if (config->slow_momentum <= 0.0) {
        OCT_TRY(oct__config_steady(config, &keep));
        const int n = snprintf(why, sizeof why, "because qgm is not stable with it; ");
        if (keep > 0.0) {
            snprintf(why + n, sizeof why - (size_t)n, "global-beta %g alone is", keep);
        } else {
            snprintf(why + n, sizeof why - (size_t)n, "leave it out");
        }
    }
    OCT_FAIL(INVALID, "%s is %g, but momentum is %s here, %s", name, value, momentum, why);
}

static oct_status check_momentum(const struct oct_config *config, int is_talking) {
    const char *momentum;
    OCT_TRY(oct__config_momentum(config, &momentum));
    const int is_global = strcmp(momentum, "qgm") == 0;
    if (!is_global && config->own_momentum > 0.0) {
        return refuse_local(config, is_talking, momentum, "own-momentum", config->own_momentum);
    }
    if (!is_global && config->global_beta > 0.0) {
        return refuse_local(config, is_talking, momentum, "global-beta", config->global_beta);
    }
    if (config->global_beta > 0.0 && config->own_momentum > 0.0) {
        OCT_FAIL(INVALID,
                 "global-beta and own-momentum are two ways to steady momentum qgm; give one");
    }
    if (is_global && config->slow_momentum > 0.0) {
        OCT_FAIL(INVALID,
                 "slow-momentum goes with momentum local or none, not with qgm, which would take "
                 "its leaps for steps");
    }
    return OCT_OK;
}

oct_status oct__check_options(const struct oct_config *config,
                              const struct oct_algorithm_kind *algorithm,
                              struct oct_topology *topology) {
    if (topology) {
        struct oct_topology_info info;
        oct_topology_info(topology, &info);
        OCT_TRY(oct__algorithm_check(algorithm, &info));
    }
    if (!algorithm->compensates && config->compensation_rounds > 0 && config->nodes > 1) {
        OCT_FAIL(INVALID, "compensation-rounds: algorithm %s has none (sc-sparse-push has)",
                 config->algorithm);
    }
    return check_momentum(config, topology && config->nodes > 1);
}

/* --- what was hardly meant -------------------------------------------------------------------- */

/* Somebody may want quasi-global momentum where it does not hold, in a short run say. */
static oct_status warn_of_growth(const struct oct_config *config) {
    double growth = 0.0;
    if (strcmp(config->momentum, "qgm") == 0) {
        OCT_TRY(oct__config_growth(config, &growth));
    }
    if (!oct__config_holds(config, growth)) {
        const int is_rare = config->gossip_every > 1;
        double keep;
        OCT_TRY(oct__config_steady(config, &keep));
        char by[40] = "grow without bound", instead[80] = "";
        if (growth < 2.0) {
            snprintf(by, sizeof by, "grow by %.2g %% a round", 100.0 * (growth - 1.0));
        } else if (growth < 1e6) {
            snprintf(by, sizeof by, "grow %.3g times a round", growth);
        }
        if (keep > 0.0) {
            snprintf(instead, sizeof instead, "global-beta %g%s, which is stable, or ", keep,
                     config->own_momentum > 0.0 ? " instead of own-momentum" : "");
        }
        oct__log(OCT_LOG_WARNING,
                 "momentum qgm is unstable on this graph%s: without gradients, differences between "
                 "nodes %s; use %smomentum local%s",
                 is_rare ? " with rounds so rare" : "", by, instead,
                 is_rare || keep > 0.0 ? "" : ", or an undirected graph");
    }
    return OCT_OK;
}

/* Names those of the options that were set to something else than their default. A run file may spell out
 * a default for its reader. */
static oct_status warn_of(const struct oct_config *config, const enum oct__option_index *rows,
                          int n_rows, const char *why) {
    struct oct__text names = {0};
    oct_status status = OCT_OK;
    for (int i = 0; i < n_rows && status == OCT_OK; i++) {
        const struct oct_option *option = oct_option_at((int)rows[i]);
        if (config->is_set[rows[i]] &&
            !oct__option_same(option, config->text[rows[i]], option->fallback)) {
            status = oct__text_add(&names, "%s%s", names.at ? ", " : "", option->name);
        }
    }
    if (status == OCT_OK && names.at) {
        oct__log(OCT_LOG_WARNING, "no effect, because %s: %s", why, names.at);
    }
    oct__free(names.at);
    return status;
}

/* Nobody sends to anybody: because of the algorithm, or because there is one node. */
static oct_status warn_of_silence(const struct oct_config *config,
                                  const struct oct_algorithm_kind *algorithm) {
    static const enum oct__option_index of_messages[] = {
        OCT__OPTION_topology, OCT__OPTION_weights, OCT__OPTION_graph_hold,
        OCT__OPTION_compress, OCT__OPTION_gamma,   OCT__OPTION_final_gossip,
        OCT__OPTION_momentum,
    };
    const int averages = algorithm->mixing == OCT_MIXING_AVERAGE;
    const int is_alone = strcmp(config->momentum, "qgm") == 0 && (config->nodes == 1 || !averages);
    const int n_rows = (int)OCT_COUNT_OF(of_messages) - !is_alone; /* qgm of one node is local */
    char why[80] = "nodes is 1";
    if (config->nodes > 1) {
        snprintf(why, sizeof why, "algorithm %s %s", config->algorithm,
                 averages ? "averages whole models" : "sends nothing");
    }
    return warn_of(config, of_messages, n_rows, why);
}

oct_status oct__check_effects(const struct oct_config *config,
                              const struct oct_algorithm_kind *algorithm,
                              struct oct_topology *topology) {
    static const enum oct__option_index of_none[] = {OCT__OPTION_beta},
                                        of_slow[] = {OCT__OPTION_slow_rate},
                                        of_final[] = {OCT__OPTION_final_statistics},
                                        of_change[] = {OCT__OPTION_graph_hold};
    OCT_TRY(warn_of_growth(config));
    if (!topology || config->nodes == 1) {
        OCT_TRY(warn_of_silence(config, algorithm));
    } else {
        struct oct_topology_info info;
        oct_topology_info(topology, &info);
        if (info.period == 1) {
            OCT_TRY(warn_of(config, of_change, 1, "this graph does not change"));
        }
        if (config->final_gossip == 0) {
            OCT_TRY(warn_of(config, of_final, 1, "final-gossip is 0"));
        }
    }
    if (strcmp(config->momentum, "none") == 0) {
        OCT_TRY(warn_of(config, of_none, 1, "momentum is none"));
    }
    return config->slow_momentum > 0.0 ? OCT_OK
                                       : warn_of(config, of_slow, 1, "there is no slow-momentum");
}

/* --- both, for whoever has not set up anything ------------------------------------------------ */

static oct_status check_faults(const struct oct_config *config) {
    struct oct__fault_plan plan;
    oct_status status = oct__fault_read(config->fault, &plan);
    if (status == OCT_OK) {
        status = oct__fault_check(&plan, (int)config->nodes, 0);
    }
    oct__fault_fini(&plan);
    return status;
}

static oct_status check_all(const struct oct_config *config) {
    const struct oct_algorithm_kind *algorithm;
    struct oct_topology *topology = NULL;
    OCT_TRY(oct__config_check_precision(config));
    OCT_TRY(check_faults(config));
    OCT_TRY(oct__algorithm_find(config->algorithm, &algorithm));
    if (algorithm->mixing == OCT_MIXING_GOSSIP) {
        OCT_TRY(oct__config_topology(config, &topology));
    }
    oct_status status = oct__check_options(config, algorithm, topology);
    if (status == OCT_OK) {
        status = oct__check_effects(config, algorithm, topology);
    }
    oct_topology_destroy(topology);
    return status;
}

oct_status oct_config_check(const struct oct_config *config) {
    if (!config) {
        OCT_FAIL(INVALID, "oct_config_check: the configuration is NULL");
    }
    return oct_config_locate(config, check_all(config));
}
