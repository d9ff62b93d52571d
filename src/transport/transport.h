/* SPDX-License-Identifier: Apache-2.0 */
/* transport.h - carries messages from node to node, as bytes, and knows nothing of what they say.
 *
 * `inproc` carries nothing: all nodes are in one process, packets are read where they were made, and
 * their exact length on the wire is counted. `loopback` makes every message travel as bytes inside
 * the process; it gives the same bits and proves the format. With `mpi` nodes live in many processes
 * (ranks.h): messages inside one are as with inproc, and those to another are carried by its ranks. A
 * plug-in is one file with one exported `const struct oct_transport_kind oct_transport_NAME` and one
 * row in transports.def.
 */
#ifndef OCT_TRANSPORT_TRANSPORT_H
#define OCT_TRANSPORT_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

#include <octet/plugin.h>

#include "base/fail.h"
#include "transport/ranks.h"

struct oct__transport {
    const struct oct_transport_kind *kind;
    uint64_t n_messages, n_bytes; /* carried so far */
};

struct oct_transport_kind {
    struct oct_plugin plugin;
    int is_by_reference;  /* nothing is carried inside a rank: send and receive are never called */
    int simulates_faults; /* its messages may be held back, lost and repeated on purpose */
    oct_status (*open)(int n_nodes, struct oct__transport **out);
    void (*close)(struct oct__transport *transport);
    /* Takes a copy. Every edge holds at most one message that was not received. */
    oct_status (*send)(struct oct__transport *transport, int from, int to, const uint8_t *bytes,
                       size_t n_bytes);
    /* The message that `from` sent to `to`; borrowed until the next send over that edge. */
    oct_status (*receive)(struct oct__transport *transport, int from, int to, const uint8_t **bytes,
                          size_t *n_bytes);
    /* The ranks that this process is one of, which all their processes call. NULL: there is one. */
    oct_status (*join)(struct oct__ranks **out);
};

const struct oct_transport_kind *oct__transport_at(int index);
/* Opens by name; NOT_FOUND lists the names. */
OCT_MUST_CHECK oct_status oct__transport_open(const char *name, int n_nodes,
                                              struct oct__transport **out);
/* The ranks of a transport, before it is opened. */
OCT_MUST_CHECK oct_status oct__transport_join(const char *name, struct oct__ranks **out);
void oct__transport_close(struct oct__transport *transport);

#endif
