/* SPDX-License-Identifier: Apache-2.0 */
/* engine.h - an engine owns memory and computes on cohort tensors; nobody else touches them.
 *
 * A *cohort tensor* is [node][n][h][w][c]: the same tensor for several nodes, `stride` bytes apart.
 * A *lane* is a stream of launches: each launch is one operation on the lane's nodes. A CPU has a
 * lane for each worker thread, covering one node at a time; an accelerator would have one lane that
 * covers the whole cohort. So the layers above are written once, in terms of launches, and the
 * engine decides how much runs side by side.
 *
 *     nodes >= threads                      nodes < threads
 *     lane 0: node 0, node 2, …  1 thread   lane 0: all nodes, all threads share
 *     lane 1: node 1, node 3, …  1 thread           the (node, shard) pieces of each operation
 *
 * A node's batch is always cut into *shards* of a fixed size, whatever the thread count, and sums
 * over the batch are folded in shard order. That is why a run's bits do not depend on threads.
 *
 * Addresses in a tensor are the engine's own: outside an engine they may be offset, never
 * dereferenced (the test engine `fence` makes that a fault). `write` and `read` are the only way in
 * and out.
 *
 * An engine fills the slots it has. An empty slot means: fetch the operands, run the CPU's
 * operation, put the results back (fallback.c). An engine with memory alone therefore already
 * trains.
 */
#ifndef OCT_ENGINE_ENGINE_H
#define OCT_ENGINE_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include <octet/plugin.h>

#include "base/fail.h"
#include "base/rng.h"

enum oct__dtype {
    OCT_DTYPE_F32,
    OCT_DTYPE_S32,
    OCT_DTYPE_U8,
    OCT_DTYPE_S8,
    OCT_DTYPE_BF16, /* the upper half of an f32 */
    OCT_DTYPE_E8,   /* s8 in excess 128: a byte without a sign, 128 stands for 0 */
    OCT_DTYPE_COUNT
};

static inline size_t oct__dtype_bytes(enum oct__dtype dtype) {
    return dtype == OCT_DTYPE_F32 || dtype == OCT_DTYPE_S32 ? 4 : dtype == OCT_DTYPE_BF16 ? 2 : 1;
}

enum oct__op {
#define OCT_OP(name, text, product, operands, summary) OCT_OP_##name,
#include "engine/ops.def"
#undef OCT_OP
    OCT_OP_COUNT
};

struct oct__op_info {
    const char *name;     /* "conv_dgrad" */
    int is_product;       /* counts towards the floor */
    const char *operands; /* "iiIo", see ops.def */
};

extern const struct oct__op_info oct__op_info[OCT_OP_COUNT];

struct oct__args;

/* Whether a call only reads an operand that its operation may also write: a quantizer's running
 * range at evaluation, which many lanes read at once. */
int oct__op_only_reads(enum oct__op op, const struct oct__args *args, int operand);

struct oct__tensor {
    void *at;      /* the lane's first node; never dereferenced outside an engine */
    size_t stride; /* bytes from one node to the next; 0: shared by all nodes */
    enum oct__dtype dtype;
    int n, h, w, c; /* of one node; n == 0: an optional operand that is absent */
};

static inline size_t oct__tensor_count(const struct oct__tensor *tensor) {
    return (size_t)tensor->n * (size_t)tensor->h * (size_t)tensor->w * (size_t)tensor->c;
}

static inline size_t oct__tensor_bytes(const struct oct__tensor *tensor) {
    return oct__tensor_count(tensor) * oct__dtype_bytes(tensor->dtype);
}

/* The byte that a 0 in excess 128 is. */
#define OCT_EXCESS 128

/* The grid of a quantized tensor, real = scale * (byte - zero): what a tensor of OCT_GRID floats
 * holds. Zero is a whole number of 0 … 255. */
struct oct__grid {
    float scale, inverse, zero, unused;
};

#define OCT_GRID 4

/* Where the range of a quantizer comes from. */
enum oct__range {
    OCT_RANGE_MEAN,    /* extremes of each sample, averaged over the batch: outliers clip */
    OCT_RANGE_FULL,    /* extremes of the batch: nothing clips */
    OCT_RANGE_RUNNING, /* what earlier batches left, for evaluation; read, not updated */
};

struct oct__quant_attr {
    enum oct__range range;
    int stochastic; /* round activations by chance, not to the nearest */
    int mask;       /* a gradient is 0 where its value's byte was clipped */
};

struct oct__packet_form; /* engine/packet.h */
struct oct__share;

/* CLIP's norm is the same on every engine, to the bit. Squares are summed up in double, those of
 * OCT_CLIP_PIECE elements by themselves: element i goes into sum i modulo OCT_CLIP_LANES, and the second
 * half of these is added to the first until one is left. The pieces' sums are added in order. */
#define OCT_CLIP_PIECE 16384
#define OCT_CLIP_LANES 256

union oct__attr {
    struct oct__conv_attr {
        int kernel, stride, pad, groups;
        int as_floats; /* CONV_U8: whoever reads the sums makes floats of them first, so that those
                          beyond 2^24 may already be the nearest float */
    } conv;
    struct oct__pool_attr {
        int kernel_h, kernel_w, stride, pad;
    } pool;
    struct oct__norm_attr {
        int groups;
        float eps;
        float reach;        /* of RANGE_EVONORM_U8: deviations that a value may be, or 0 */
        float momentum;     /* of running statistics: run = (1 - momentum) * run + momentum * new */
        int quantize_scale; /* the range norms' scale takes one of 256 values */
        struct oct__quant_attr quant; /* of norms that read and write bytes */
    } norm;
    struct oct__quant_attr quant;
    struct {
        float rate;
    } dropout;
    struct {
        double norm;
    } clip;
    struct {
        float beta, decay;
        int is_global; /* SETTLE brings the momentum up to date, after gossip, */
        float own;     /* … and so much of the step is in it before; 0: it is only read */
    } sgd;
    struct {
        const struct oct__packet_form *form;
        float factor; /* of what is packed, or folded */
        /* FOLD: what each node of the launch folds, one after the other; node i has those from start[i]
         * to start[i + 1] - 1, and there may be none. Both are on the host, and are not read after the
         * launch has returned. The operand is then absent, the factor not read. NULL: its own packet. */
        const struct oct__share *shares;
        const int *start; /* [n_nodes + 1] */
        float onto;       /* FOLD: how much of the row goes onto x */
        uint32_t salt; /* PACK: names its random stream besides node and step; 0, or receiver + 1 */
    } packet;
    struct {
        float factor;
    } row;
    struct {
        float beta;   /* what stays of the momentum: 1 where SGD has seen to it */
        double share; /* what a move adds to it, at a rate of 1 */
    } settle;
    struct {
        float beta;
        double rate; /* of the learning rate */
    } slow;
};

#define OCT_ARGS_MOST 16

struct oct__args {
    struct oct__tensor t[OCT_ARGS_MOST]; /* in the order of ops.def */
    union oct__attr attr;
    int layer;          /* the layer's number: part of the name of its random streams */
    void *handle;       /* what `prepare` made for this call */
    void *kept;         /* what `keep` made of an operand, which is then not read; NULL: nothing */
    size_t kept_stride; /* from one node to the next */
};

/* What a call needs besides its operands, found once when a program is planned. */
struct oct__plan {
    void *handle;        /* the engine's own; NULL when it needs none */
    size_t shared_bytes; /* scratch for a launch */
    size_t thread_bytes; /* scratch for each thread of the lane */
    size_t kept_bytes; /* of what the call could keep of an operand that stays the same from launch
                            to launch, in a form of its own (packed weights); a node's */
    int kept_operand;
};

/* The form of a lane, known before its memory is. */
struct oct__lane_form {
    int n_nodes;   /* covered by a launch */
    int n_threads; /* that an operation may use */
    int shard;     /* samples in a shard */
};

/* Runs side by side at the most. */
#define OCT_RUNS_MOST 256

struct oct__lane {
    struct oct__engine *engine;
    struct oct__lane_form form;
    int first_thread; /* the lane's threads are first_thread … first_thread + n_threads - 1 of the
                         engine */
    int first_node;   /* global number of the launch's first node: names random streams */
    uint64_t seed;
    /* A launch for runs side by side has n_each nodes of each: its node i is node first_node + i %
     * n_each of the run whose seed is seeds[i / n_each], on the host and as the engine keeps it.
     * NULL: of one run. */
    const uint64_t *seeds, *seeds_there;
    int n_each;
    int run; /* of runs side by side, from 1 on; 0: of all of them, or there is one */
    uint32_t step;
    float learning_rate;
    void *shared_scratch, *thread_scratch;
    size_t thread_scratch_bytes;
    int watch; /* run the calls that look at quantizers, too */
    int bare;  /* products only, without packing and folding: the floor that `bench step` reports */
};

/* Units that products are done by. */
enum oct__unit {
    OCT_UNIT_S8, /* both factors are bytes */
    OCT_UNIT_BF16,
    OCT_UNIT_F32,
    OCT_UNIT_COUNT
};

/* What a device does at most. An addition counts as an operation and a multiplication, too. */
struct oct__ceilings {
    double bytes_per_s; /* between memory and the device, reads and writes together */
    double operations_per_s[OCT_UNIT_COUNT];
    double launch_s; /* of a launch that does nothing */
};

typedef oct_status oct__op_fn(const struct oct__lane *lane, const struct oct__args *args);
typedef oct_status oct__op_many_fn(const struct oct__lane *lane,
                                   const struct oct__args *const *args, int n);

struct oct__engine {
    const struct oct_engine_kind *kind;
    int n_threads;
    int uses_host_memory; /* reads host addresses as they are, so a dataset need not be copied */
    uint64_t n_programs;  /* so far: each gets a number, which no other had */
    int is_wide; /* a launch is best when it covers the whole cohort, and evaluates many samples */
    int is_shared;            /* by runs side by side: see `verdict` */
    enum oct__dtype gradient; /* of the float gradients that int8 weight gradients come from: BF16
                                 where products of it are fast, else F32 */

    /* Zeroed memory, aligned to 64 bytes. Mandatory, as are free, write and read. */
    oct_status (*alloc)(struct oct__engine *engine, size_t bytes, const char *what, void **at);
    void (*free)(struct oct__engine *engine, void *at);
    oct_status (*write)(struct oct__engine *engine, void *at, const void *host, size_t bytes);
    oct_status (*read)(struct oct__engine *engine, void *host, const void *at, size_t bytes);

    /* `rows` pieces of `bytes`, `stride` apart there and side by side on the host, at once. NULL: they
     * are read and written one by one. */
    oct_status (*write_rows)(struct oct__engine *engine, void *at, size_t stride, const void *host,
                             size_t bytes, int rows);
    oct_status (*read_rows)(struct oct__engine *engine, void *host, const void *at, size_t stride,
                            size_t bytes, int rows);

    /* As read_rows, but `host` is filled when `await` (or a read, or finish) has returned, and the
     * device is not kept from what is launched in between. NULL: read at once. */
    oct_status (*fetch_rows)(struct oct__engine *engine, void *host, const void *at, size_t stride,
                             size_t bytes, int rows);
    oct_status (*await)(struct oct__engine *engine);

    /* Operands have shapes but no addresses yet. Called from one thread, outside any parallel
     * region. NULL: no operation needs a plan. */
    oct_status (*prepare)(struct oct__engine *engine, enum oct__op op,
                          const struct oct__lane_form *form, const struct oct__args *args,
                          struct oct__plan *plan);
    void (*release)(struct oct__engine *engine, enum oct__op op, void *handle);

    oct__op_fn *run[OCT_OP_COUNT]; /* empty: the fallback */

    /* n calls none of which reads what another writes, at once. Empty: they are run one by one. A
     * program on an engine that has any brings such calls together. */
    oct__op_many_fn *run_many[OCT_OP_COUNT];

    /* Around launches that are the same again and again but for the lane's step and rate, which is what
     * `key` says: begin may have done all of them (*is_replayed), or they follow, and then end, with
     * their status, which it returns. NULL: nothing is replayed. */
    oct_status (*begin)(const struct oct__lane *lane, const void *key, size_t bytes,
                        int *is_replayed);
    oct_status (*end)(const struct oct__lane *lane, oct_status status);

    /* Fills args->kept from the operand that the call's plan names; the other operands have no
     * address yet. NULL: no call keeps anything, whatever plans say. */
    oct_status (*keep)(const struct oct__lane *lane, enum oct__op op, const struct oct__args *args);

    /* Waits until everything that was launched is done. NULL: launches return when they are. Where they
     * return before, what one finds wrong (INVALID, NOT_FINITE) is told by a later finish, read or
     * await. */
    oct_status (*finish)(struct oct__engine *engine);

    /* What a launch of one of several runs side by side (lane.run is not 0) found wrong concerns
     * that run, and finish, read and await, which any of them may call, say nothing of it: this
     * tells, without a wait, with the run's number, one finding a call until there is none. NULL:
     * launches return their status. */
    oct_status (*verdict)(struct oct__engine *engine, int *run);

    /* Time by the device's own clock, which does not hold it up: `stamp` marks this place among the
     * launches, any number of times, by a number from 0 on; `stamped` says how long after stamp `from`
     * the device came to stamp `to`, once it has finished. What is replayed is stamped again. NULL:
     * launches are timed by the host's clock. */
    oct_status (*stamp)(struct oct__engine *engine, size_t index);
    oct_status (*stamped)(struct oct__engine *engine, size_t from, size_t to, double *seconds);

    /* Measures them, which takes some milliseconds. NULL: nobody knows. */
    oct_status (*ceilings)(struct oct__engine *engine, struct oct__ceilings *out);

    void (*close)(struct oct__engine *engine);
};

/* A plug-in: one file with one exported `const struct oct_engine_kind oct_engine_NAME` and a row in
 * engines.def. */
struct oct_engine_kind {
    struct oct_plugin plugin;
    int is_oracle; /* rounds differently on purpose: tests/oracle compares it, not conformance */
    oct_status (*open)(const struct oct_engine_kind *kind, int n_threads, struct oct__engine **out);
    /* What stands for this one on this machine: itself, or a twin whose plugin.unavailable says what
     * is missing. NULL: itself, everywhere. */
    const struct oct_engine_kind *(*here)(void);
};

/* The engine as this machine has it; NULL past the end. */
const struct oct_engine_kind *oct__engine_at(int index);

/* Opens by name; NOT_FOUND lists the names, UNSUPPORTED says why one is not in this build. */
OCT_MUST_CHECK oct_status oct__engine_open(const char *name, int n_threads,
                                           struct oct__engine **out);
void oct__engine_close(struct oct__engine *engine);

/* Gives memory back; nothing where `at` is NULL. */
void oct__engine_free(struct oct__engine *engine, void *at);

/* These go through the engine's slots or, where one is empty, through the fallback. */
OCT_MUST_CHECK oct_status oct__engine_write_rows(struct oct__engine *engine, void *at,
                                                 size_t stride, const void *host, size_t bytes,
                                                 int rows);
OCT_MUST_CHECK oct_status oct__engine_read_rows(struct oct__engine *engine, void *host,
                                                const void *at, size_t stride, size_t bytes,
                                                int rows);
OCT_MUST_CHECK oct_status oct__engine_fetch_rows(struct oct__engine *engine, void *host,
                                                 const void *at, size_t stride, size_t bytes,
                                                 int rows);
OCT_MUST_CHECK oct_status oct__engine_await(struct oct__engine *engine);
OCT_MUST_CHECK oct_status oct__engine_prepare(struct oct__engine *engine, enum oct__op op,
                                              const struct oct__lane_form *form,
                                              const struct oct__args *args, struct oct__plan *plan);
void oct__engine_release(struct oct__engine *engine, enum oct__op op, void *handle);

/* The random stream of a node of the launch, from 0 on. */
struct oct__stream oct__lane_stream(const struct oct__lane *lane, enum oct__purpose purpose,
                                    int node, uint32_t layer);

OCT_MUST_CHECK oct_status oct__engine_run(const struct oct__lane *lane, enum oct__op op,
                                          const struct oct__args *args);

#endif
