/* SPDX-License-Identifier: Apache-2.0 */
/* momentum.h - whose momentum a run has when its options do not say. */
#ifndef OCT_TRAIN_MOMENTUM_H
#define OCT_TRAIN_MOMENTUM_H

#include "train/config.h"

/* "qgm", "local" or "none": the option, or by itself quasi-global where nodes talk and it holds on
 * their graph with the whole gamma of the rule, else local; and local with slow momentum. */
OCT_MUST_CHECK oct_status oct__config_momentum(const struct oct_config *config, const char **out);

/* How a disagreement grows from round to round with quasi-global momentum; 0 when nobody talks, and
 * not found for more than 1,024 nodes. All three fail where the options make no graph. */
OCT_MUST_CHECK oct_status oct__config_growth(const struct oct_config *config, double *out);

/* How far a round moves: the option, or the algorithm's rule for the compressor. Quasi-global momentum
 * repeats every round's move 1 / (1 - beta^2) times in the long run; where it does not hold with the
 * rule and holds with 1 - beta^2 of it (half of that where messages are sparse), or holds better and
 * messages are sparse or rare, it gets that. */
OCT_MUST_CHECK oct_status oct__config_gamma(const struct oct_config *config, double *out);

/* A global-beta with which a disagreement does not grow, at the option's gamma or the rule's, on a
 * graph that there is; 0: none of those that are tried. */
OCT_MUST_CHECK oct_status oct__config_steady(const struct oct_config *config, double *out);

/* Whether such growth is called stable: a disagreement needs more than a thousand rounds to double.
 * One with a global-beta, which follows over thousands of rounds, may not grow at all. */
int oct__config_holds(const struct oct_config *config, double growth);

#endif
