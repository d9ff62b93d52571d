/* SPDX-License-Identifier: Apache-2.0 */
/* check.h - what options mean together, as far as it shows before any data is opened. */
#ifndef OCT_TRAIN_CHECK_H
#define OCT_TRAIN_CHECK_H

#include "gossip/gossip.h"
#include "train/config.h"

/* Fails where they cannot go together. `topology` is their graph; NULL: nobody sends. */
OCT_MUST_CHECK oct_status oct__check_options(const struct oct_config *config,
                                             const struct oct_algorithm_kind *algorithm,
                                             struct oct_topology *topology);

/* Warns of what goes together and was hardly meant: a momentum that is unstable, options that were
 * set and have no effect. */
OCT_MUST_CHECK oct_status oct__check_effects(const struct oct_config *config,
                                             const struct oct_algorithm_kind *algorithm,
                                             struct oct_topology *topology);

#endif
