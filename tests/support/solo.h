/* SPDX-License-Identifier: Apache-2.0 */
/* solo.h - a configuration whose nodes do not talk: what tests of single nodes begin with. */
#ifndef OCT_TESTS_SOLO_H
#define OCT_TESTS_SOLO_H

#include <octet/config.h>

/* Sets nodes, and neither gossip nor skew, with local momentum. */
OCT_MUST_CHECK oct_status solo(struct oct_config *config, int n_nodes);

#endif
