/* SPDX-License-Identifier: Apache-2.0 */
/* fallback.c - empty slots, filled by the host: see fallback.h. */
#include "engine/fallback.h"

#include <string.h>

#include "base/alloc.h"
#include "engine/packet.h"

/* One call's stand-in. A plan is shared by the lanes of a program, which may run it at the same
 * time, so each run takes its staging memory anew: this path is for correctness, not for speed. */
struct stand_in {
    struct oct__engine *host; /* a portable engine of its own */
    struct oct__plan plan;    /* the host's */
    enum oct__op op;
};

oct_status oct__fallback_prepare(struct oct__engine *engine, enum oct__op op,
                                 const struct oct__lane_form *form, const struct oct__args *args,
                                 struct oct__plan *plan) {
    void *memory;
    OCT_TRY(oct__alloc(sizeof(struct stand_in), "fallback", &memory));
    struct stand_in *stand_in = memory;
    stand_in->op = op;
    oct_status status = oct__engine_open("portable", engine->n_threads, &stand_in->host);
    if (status == OCT_OK) {
        status = oct__engine_prepare(stand_in->host, op, form, args, &stand_in->plan);
    }
    if (status != OCT_OK) {
        oct__fallback_release(stand_in);
        return status;
    }
    plan->handle = stand_in;
    return OCT_OK;
}

void oct__fallback_release(void *handle) {
    struct stand_in *stand_in = handle;
    if (stand_in->host) {
        oct__engine_release(stand_in->host, stand_in->op, stand_in->plan.handle);
        oct__engine_close(stand_in->host);
    }
    oct__free(stand_in);
}

/* Bytes of operand `t` over the launch's nodes, packed node after node on the host. */
static size_t launch_bytes(const struct oct__lane *lane, const struct oct__tensor *t) {
    return oct__tensor_bytes(t) * (t->stride ? (size_t)lane->form.n_nodes : 1);
}

/* Moves every operand whose letter is in `letters`, node by node. */
static oct_status transfer(const struct oct__lane *lane, enum oct__op op,
                           const struct oct__args *device, const struct oct__args *host,
                           const char *letters, int to_host) {
    struct oct__engine *engine = lane->engine;
    const char *operands = oct__op_info[op].operands;
    for (int i = 0; operands[i]; i++) {
        const struct oct__tensor *from = &device->t[i];
        if (from->n == 0 || !strchr(letters, operands[i]) ||
            (!to_host && oct__op_only_reads(op, device, i))) {
            continue;
        }
        size_t bytes = oct__tensor_bytes(from);
        for (int node = 0; node < (from->stride ? lane->form.n_nodes : 1); node++) {
            char *there = (char *)from->at + (size_t)node * from->stride;
            char *here = (char *)host->t[i].at + (size_t)node * bytes;
            OCT_TRY(to_host ? engine->read(engine, here, there, bytes)
                            : engine->write(engine, there, here, bytes));
        }
    }
    return OCT_OK;
}

/* Packets that FOLD is given besides its operands come to the host, too; `out` is for the caller to
 * free. */
static oct_status bring_shares(const struct oct__lane *lane, struct oct__args *host, void **out) {
    const struct oct__share *from = host->attr.packet.shares;
    const size_t n = from ? (size_t)host->attr.packet.start[lane->form.n_nodes] : 0;
    const size_t list = (n * sizeof *from + 63) & ~(size_t)63;
    const size_t bytes = host->attr.packet.form->n_bytes; /* whole cache lines */
    if (n == 0) {
        return OCT_OK;
    }
    OCT_TRY(oct__alloc(list + n * bytes, "fallback staging", out));
    struct oct__share *shares = *out;
    for (size_t i = 0; i < n; i++) {
        char *here = (char *)*out + list + i * bytes;
        OCT_TRY(lane->engine->read(lane->engine, here, from[i].packet, bytes));
        shares[i] = (struct oct__share){here, from[i].factor};
    }
    host->attr.packet.shares = shares;
    return OCT_OK;
}

oct_status oct__fallback_run(const struct oct__lane *lane, enum oct__op op,
                             const struct oct__args *args) {
    struct stand_in *stand_in = args->handle;
    const char *operands = oct__op_info[op].operands;
    size_t total = 0;
    for (int i = 0; operands[i]; i++) {
        total += (launch_bytes(lane, &args->t[i]) + 63) & ~(size_t)63;
    }
    size_t scratch = stand_in->plan.shared_bytes +
                     stand_in->plan.thread_bytes * (size_t)lane->form.n_threads + 64;
    void *memory;
    OCT_TRY(oct__alloc(total + scratch, "fallback staging", &memory));

    struct oct__args on_host = *args;
    on_host.handle = stand_in->plan.handle;
    char *next = memory;
    for (int i = 0; operands[i]; i++) {
        struct oct__tensor *t = &on_host.t[i];
        if (t->n == 0) {
            continue;
        }
        size_t bytes = launch_bytes(lane, &args->t[i]);
        t->at = next;
        t->stride = t->stride ? oct__tensor_bytes(t) : 0;
        next += (bytes + 63) & ~(size_t)63;
    }
    struct oct__lane host_lane = *lane;
    host_lane.engine = stand_in->host;
    host_lane.shared_scratch = next;
    host_lane.thread_scratch = next + ((stand_in->plan.shared_bytes + 63) & ~(size_t)63);
    host_lane.thread_scratch_bytes = stand_in->plan.thread_bytes;

    void *shares = NULL;
    oct_status status = transfer(lane, op, args, &on_host, "iIbB", 1);
    if (status == OCT_OK && op == OCT_OP_FOLD) {
        status = bring_shares(lane, &on_host, &shares);
    }
    if (status == OCT_OK) {
        status = oct__engine_run(&host_lane, op, &on_host);
    }
    if (status == OCT_OK) {
        status = transfer(lane, op, args, &on_host, "oObB", 0);
    }
    oct__free(shares);
    oct__free(memory);
    return status;
}
