/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c - single operations, with operands on the host: see launch.h. */
#include "support/launch.h"

#include <math.h>
#include <stdlib.h>

#include "support/rig.h"

const struct oct__tensor absent = {.n = 0};
const struct launch_way launch_plain = {0, LAUNCH_NODES, 1, 9, 4};

/* --- tensors --------------------------------------------------------------------------------- */

static void *taken[4096];
static size_t n_taken;

int tensors_free(void **state) {
    (void)state;
    while (n_taken > 0) {
        free(taken[--n_taken]);
    }
    return 0;
}

struct oct__tensor tensor_new(enum oct__dtype dtype, int n, int h, int w, int c) {
    struct oct__tensor t = {.dtype = dtype, .n = n, .h = h, .w = w, .c = c};
    t.stride = oct__tensor_bytes(&t);
    t.at = calloc(LAUNCH_NODES, t.stride);
    assert_non_null(t.at);
    assert_true(n_taken < OCT_COUNT_OF(taken));
    taken[n_taken++] = t.at;
    return t;
}

struct oct__tensor tensor_like(struct oct__tensor t, enum oct__dtype dtype) {
    return tensor_new(dtype, t.n, t.h, t.w, t.c);
}

void fill_normal(struct oct__tensor t, struct dice *dice, double scale) {
    for (int node = 0; node < LAUNCH_NODES; node++) {
        for (size_t i = 0; i < count(t); i++) {
            floats(t, node)[i] = (float)(scale * dice_normal(dice));
        }
    }
}

void fill_positive(struct oct__tensor t, struct dice *dice, double scale) {
    for (int node = 0; node < LAUNCH_NODES; node++) {
        for (size_t i = 0; i < count(t); i++) {
            floats(t, node)[i] = (float)(scale * (0.2 + fabs(dice_normal(dice))));
        }
    }
}

void fill_bytes(struct oct__tensor t, struct dice *dice) {
    uint8_t *bytes = t.at;
    for (size_t i = 0; i < LAUNCH_NODES * count(t); i++) {
        int v = dice_below(dice, 280);
        bytes[i] = (uint8_t)(v < 256 ? v : v % 2 * 255);
    }
}

void fill_sums(struct oct__tensor t, struct dice *dice, int most) {
    int32_t *sums = t.at;
    for (size_t i = 0; i < LAUNCH_NODES * count(t); i++) {
        sums[i] = dice_below(dice, 2 * most + 1) - most;
    }
}

void set_grid(struct oct__tensor t, float scale, float zero) {
    for (int node = 0; node < LAUNCH_NODES; node++) {
        *grid_at(t, node) = (struct oct__grid){scale, 1.0F / scale, zero, 0};
    }
}

struct oct__tensor random_grid(struct dice *dice) {
    struct oct__tensor t = vector_new(OCT_GRID);
    set_grid(t, (float)(0.01 + 0.01 * fabs(dice_normal(dice))), (float)(dice_below(dice, 3) * 100));
    return t;
}

void expect_bits(const char *who, const char *what, struct oct__tensor found,
                 struct oct__tensor expected) {
    assert_int_equal(found.stride, expected.stride);
    const uint8_t *a = found.at, *b = expected.at;
    const size_t bytes = oct__dtype_bytes(found.dtype);
    for (size_t i = 0; i < LAUNCH_NODES * found.stride; i++) {
        if (a[i] != b[i]) {
            uint32_t x = 0, y = 0;
            memcpy(&x, a + i / bytes * bytes, bytes);
            memcpy(&y, b + i / bytes * bytes, bytes);
            fail_msg("%s, %s: element %zu of node %zu has bits %x, expected %x", who, what,
                     i % found.stride / bytes, i / found.stride, x, y);
        }
    }
}

void fill_batch(struct oct__tensor x, float base, float odd) {
    for (int node = 0; node < LAUNCH_NODES; node++) {
        for (size_t i = 0; i < count(x); i++) {
            floats(x, node)[i] = i == count(x) - sample_count(x) ? odd : base;
        }
    }
}

double by_chance(const struct oct__stream *stream, uint64_t e, double t) {
    uint32_t words[4], j = (uint32_t)(e % 128);
    oct__rounding_block(stream, (uint32_t)(16 * (e / 128) + j % 32 / 2), words);
    uint32_t k = words[j / 32] >> 16 * (j % 2) & 0xffff;
    return floor((rint(65536.0 * t) + (double)k) / 65536.0);
}

/* --- launches -------------------------------------------------------------------------------- */

static int is_written(char letter) {
    return letter != 'i' && letter != 'I';
}

oct_status launch_try(struct oct__engine *engine, enum oct__op op, union oct__attr attr,
                      struct launch_way way, const struct oct__tensor *operands) {
    const char *letters = oct__op_info[op].operands;
    struct oct__lane lane = {
        .engine = engine,
        .form = {way.n_nodes, way.n_threads, LAUNCH_SHARD},
        .first_node = LAUNCH_FIRST_NODE + way.first,
        .seed = way.seed,
        .step = way.step,
    };
    const size_t last = (size_t)(way.first + way.n_nodes);
    const size_t n_nodes = last > LAUNCH_NODES ? last : LAUNCH_NODES;
    struct oct__args args = {.attr = attr, .layer = LAUNCH_LAYER};
    struct oct__plan plan;
    void *there[OCT_ARGS_MOST] = {NULL}, *scratch = NULL;
    for (int i = 0; letters[i]; i++) {
        args.t[i] = operands[i];
        args.t[i].at = NULL;
    }
    EXPECT_OK(oct__engine_prepare(engine, op, &lane.form, &args, &plan));
    args.handle = plan.handle;
    const size_t shared = (plan.shared_bytes + 63) / 64 * 64;
    lane.thread_scratch_bytes = (plan.thread_bytes + 63) / 64 * 64;
    EXPECT_OK(engine->alloc(engine, shared + (size_t)way.n_threads * lane.thread_scratch_bytes,
                            "scratch", &scratch));
    lane.shared_scratch = scratch;
    lane.thread_scratch = (char *)scratch + shared;
    for (int i = 0; letters[i]; i++) {
        const struct oct__tensor *t = &operands[i];
        if (t->n == 0) {
            continue;
        }
        for (int j = 0; j < i; j++) {
            there[i] = operands[j].at == t->at ? there[j] : there[i];
        }
        if (!there[i]) {
            EXPECT_OK(engine->alloc(engine, n_nodes * t->stride, "operand", &there[i]));
            EXPECT_OK(engine->write(engine, there[i], t->at, n_nodes * t->stride));
        }
        args.t[i].at = (char *)there[i] + (size_t)way.first * t->stride;
    }
    oct_status status = oct__engine_run(&lane, op, &args);
    if (status == OCT_OK && engine->finish) {
        status = engine->finish(engine);
    }
    for (int i = 0; letters[i]; i++) {
        const struct oct__tensor *t = &operands[i];
        if (t->n != 0 && is_written(letters[i])) {
            EXPECT_OK(engine->read(engine, t->at, there[i], n_nodes * t->stride));
        }
    }
    for (int i = 0; letters[i]; i++) {
        int is_shared = 0;
        for (int j = 0; j < i; j++) {
            is_shared |= there[j] == there[i];
        }
        if (there[i] && !is_shared) {
            engine->free(engine, there[i]);
        }
    }
    engine->free(engine, scratch);
    oct__engine_release(engine, op, plan.handle);
    return status;
}

void launch(struct oct__engine *engine, enum oct__op op, union oct__attr attr,
            struct launch_way way, const struct oct__tensor *operands) {
    EXPECT_OK(launch_try(engine, op, attr, way, operands));
}

void launch_engines(void (*check)(struct oct__engine *engine)) {
    struct oct__engine *engine;
    for (int e = 0; (engine = rig_engine_at(e, 3)); e++) {
        if (!engine->kind->is_oracle) {
            check(engine);
        }
        oct__engine_close(engine);
    }
}
