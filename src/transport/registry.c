/* SPDX-License-Identifier: Apache-2.0 */
/* registry.c - the transports there are. */
#include "base/choose.h"
#include "transport/transport.h"

#define OCT_TRANSPORT(name) extern const struct oct_transport_kind oct_transport_##name;
#include "transport/transports.def"
#undef OCT_TRANSPORT

static const void *const kinds[] = {
#define OCT_TRANSPORT(name) &oct_transport_##name,
#include "transport/transports.def"
#undef OCT_TRANSPORT
    NULL};

const struct oct_transport_kind *oct__transport_at(int index) {
    return oct__choice_at(kinds, OCT_COUNT_OF(kinds) - 1, index);
}

static oct_status find(const char *name, const struct oct_transport_kind **out) {
    const void *found;
    const char *options;
    OCT_TRY(oct__choose("transport", name, kinds, &found, &options));
    if (options) {
        OCT_FAIL(INVALID, "transport '%s': it takes no options", name);
    }
    *out = found;
    return OCT_OK;
}

oct_status oct__transport_join(const char *name, struct oct__ranks **out) {
    const struct oct_transport_kind *kind;
    OCT_TRY(find(name, &kind));
    if (kind->join) {
        return kind->join(out);
    }
    *out = oct__ranks_alone();
    return OCT_OK;
}

oct_status oct_ranks_join(const char *transport) {
    struct oct__ranks *ranks;
    if (!transport) {
        OCT_FAIL(INVALID, "joining ranks needs the name of a transport");
    }
    return oct__transport_join(transport, &ranks);
}

oct_status oct__transport_open(const char *name, int n_nodes, struct oct__transport **out) {
    const struct oct_transport_kind *kind;
    OCT_TRY(find(name, &kind));
    OCT_TRY(kind->open(n_nodes, out));
    (*out)->kind = kind;
    return OCT_OK;
}

void oct__transport_close(struct oct__transport *transport) {
    if (transport) {
        transport->kind->close(transport);
    }
}
