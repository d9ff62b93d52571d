/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h - single operations, with operands on the host: for tests of what an operation computes.
 *
 * A tensor of the test is a struct oct__tensor whose memory is the test's own, for LAUNCH_NODES
 * nodes one after another. A launch carries its operands to the engine, runs the operation, and
 * brings the written ones back; two operands with the same memory share it there too. Failures fail
 * the test.
 */
#ifndef OCT_TESTS_LAUNCH_H
#define OCT_TESTS_LAUNCH_H

#include "engine/engine.h"
#include "support/check.h"

enum { LAUNCH_NODES = 3, LAUNCH_SHARD = 16, LAUNCH_LAYER = 17, LAUNCH_FIRST_NODE = 20 };

/* How a call is laid over nodes and threads, and the names of its random bits. */
struct launch_way {
    int first, n_nodes, n_threads; /* of the LAUNCH_NODES, or of more that the operands have */
    uint64_t seed;
    uint32_t step;
};

/* All nodes on one thread. */
extern const struct launch_way launch_plain;

void launch(struct oct__engine *engine, enum oct__op op, union oct__attr attr,
            struct launch_way way, const struct oct__tensor *operands);

/* The same, but the operation may fail: returns its status. */
oct_status launch_try(struct oct__engine *engine, enum oct__op op, union oct__attr attr,
                      struct launch_way way, const struct oct__tensor *operands);

#define LAUNCH(engine, op, attr, way, ...)                                                         \
    launch((engine), OCT_OP_##op, (attr), (way),                                                   \
           (const struct oct__tensor[OCT_ARGS_MOST]){__VA_ARGS__})

/* Calls `check` with every engine of the registry but the oracle: that rounds once where the others
 * round every operation, and is held to the formulas elsewhere. */
void launch_engines(void (*check)(struct oct__engine *engine));

/* --- tensors --------------------------------------------------------------------------------- */

/* Zeroed; given back by tensors_free, which is also a teardown of cmocka's. */
struct oct__tensor tensor_new(enum oct__dtype dtype, int n, int h, int w, int c);
struct oct__tensor tensor_like(struct oct__tensor t, enum oct__dtype dtype);
int tensors_free(void **state);

extern const struct oct__tensor absent;

static inline struct oct__tensor vector_new(int c) {
    return tensor_new(OCT_DTYPE_F32, 1, 1, 1, c);
}

/* A scale for each of n samples. */
static inline struct oct__tensor scales_new(int n) {
    return tensor_new(OCT_DTYPE_F32, n, 1, 1, 1);
}

static inline size_t count(struct oct__tensor t) {
    return oct__tensor_count(&t);
}

static inline size_t sample_count(struct oct__tensor t) {
    return count(t) / (size_t)t.n;
}

/* The tensor of one node. */
static inline void *at(struct oct__tensor t, int node) {
    return (char *)t.at + (size_t)node * t.stride;
}

static inline float *floats(struct oct__tensor t, int node) {
    return at(t, node);
}

static inline uint8_t *bytes_at(struct oct__tensor t, int node) {
    return at(t, node);
}

static inline int8_t *signed_at(struct oct__tensor t, int node) {
    return at(t, node);
}

static inline struct oct__grid *grid_at(struct oct__tensor t, int node) {
    return at(t, node);
}

void fill_normal(struct oct__tensor t, struct dice *dice, double scale);
void fill_positive(struct oct__tensor t, struct dice *dice, double scale);
/* All values, and some more of 0 and 255. */
void fill_bytes(struct oct__tensor t, struct dice *dice);
/* -most … most */
void fill_sums(struct oct__tensor t, struct dice *dice, int most);
/* `base` everywhere, but `odd` in the first element of the last sample. */
void fill_batch(struct oct__tensor t, float base, float odd);

void set_grid(struct oct__tensor t, float scale, float zero);
struct oct__tensor random_grid(struct dice *dice);

/* All nodes, bit by bit. */
void expect_bits(const char *who, const char *what, struct oct__tensor found,
                 struct oct__tensor expected);

/* What becomes of t when it is rounded by chance as element e: kernels.def. */
double by_chance(const struct oct__stream *stream, uint64_t e, double t);

#endif
