/* SPDX-License-Identifier: Apache-2.0 */
/* solo.c - see solo.h. */
#include "support/solo.h"

#include <stdio.h>

#include "base/fail.h"

oct_status solo(struct oct_config *config, int n_nodes) {
    char number[16];
    snprintf(number, sizeof number, "%d", n_nodes);
    OCT_TRY(oct_config_set(config, "nodes", number));
    OCT_TRY(oct_config_set(config, "algorithm", "none"));
    OCT_TRY(oct_config_set(config, "partition", "skew:0"));
    return oct_config_set(config, "momentum", "local");
}
