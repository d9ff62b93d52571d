/* SPDX-License-Identifier: Apache-2.0 */
/* inproc.c - all nodes in one process: a receiver reads the sender's packet where it lies. */
#include "base/alloc.h"
#include "transport/transport.h"

static oct_status inproc_open(int n_nodes, struct oct__transport **out) {
    (void)n_nodes;
    void *memory;
    OCT_TRY(oct__alloc(sizeof(struct oct__transport), "transport", &memory));
    *out = memory;
    return OCT_OK;
}

static void inproc_close(struct oct__transport *transport) {
    oct__free(transport);
}

const struct oct_transport_kind oct_transport_inproc = {
    .plugin = {.name = "inproc",
               .summary = "one process: packets are read where they were made, bytes are counted"},
    .is_by_reference = 1,
    .simulates_faults = 1,
    .open = inproc_open,
    .close = inproc_close,
};
