/* SPDX-License-Identifier: Apache-2.0 */
/* test_integer.c - integer products of every engine, bit for bit against loops in 64 bits.
 *
 * A product that is wrong only for full-range data still trains, a little worse; so the data here
 * is what a network rarely shows: all bytes, the largest against the largest, signs that alternate,
 * sums that fill 32 bits. Kernels, strides, pads and groups are swept, every node has a zero point
 * of its own, batches end with a short shard.
 *
 * OCT_CPU limits the instructions, as it does for the command `octet`; the test list runs this
 * program once for each level (a library underneath can be limited only before its first use). On a
 * machine without that level it exits with 77, which counts as skipped.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include <octet/cpu.h>

#include "engine/engine.h"
#include "support/check.h"
#include "support/rig.h"

enum { N_NODES = 3, SHARD = 4, GAP = 64, CANARY = 0xA5, SKIPPED = 77 };

/* What the operands hold. */
enum data {
    ANY,       /* every byte and weight alike */
    LARGEST,   /* all 255 x all 127: what saturates 16-bit pair sums upwards */
    LOWEST,    /* all 255 x all -127: downwards */
    ALTERNATE, /* neighbours of opposite sign: sums that cancel only if none was clipped */
    CORNERS,   /* the ends of each range, and what is next to them */
    ORDERED,   /* 0, 1, 2 … 255 */
    HIGH,      /* just below the largest: long sums that are not round numbers */
    DEEP,      /* the same with weights just above the lowest */
    N_DATA
};

static const char *const data_names[] = {"any",     "largest", "lowest", "alternate",
                                         "corners", "ordered", "high",   "deep"};
static const int zeros[] = {0, 1, 128, 255, 127, 77};

struct shape {
    int kernel, stride, pad, groups;
    int n, h, w, in, out;
    int out_h, out_w;
};

/* kernel, stride, pad, groups; samples, rows, columns, channels in and out */
#define SHAPE(k, s, p, g, n_, h_, w_, in_, out_)                                                   \
    {                                                                                              \
        .kernel = (k), .stride = (s), .pad = (p), .groups = (g), .n = (n_), .h = (h_), .w = (w_),  \
        .in = (in_), .out = (out_)                                                                 \
    }

/* Operands of all nodes; sums and gradients as the loops have them. */
struct problem {
    struct shape s;
    enum data data;
    int zero[N_NODES];
    uint8_t *x;  /* [node][n][h][w][in] */
    int8_t *w;   /* [node][out][in / groups][kernel][kernel] */
    int8_t *dy;  /* [node][n][out_h][out_w][out] */
    int64_t *y;  /* [node][n][out_h][out_w][out] */
    int64_t *dx; /* [node][n][h][w][in] */
};

static size_t x_count(const struct shape *s) {
    return (size_t)s->n * (size_t)s->h * (size_t)s->w * (size_t)s->in;
}

static size_t y_count(const struct shape *s) {
    return (size_t)s->n * (size_t)s->out_h * (size_t)s->out_w * (size_t)s->out;
}

static size_t w_count(const struct shape *s) {
    return (size_t)s->out * (size_t)(s->in / s->groups) * (size_t)(s->kernel * s->kernel);
}

static void *memory_of(size_t count, size_t element) {
    void *memory = calloc(count ? count : 1, element);
    assert_non_null(memory);
    return memory;
}

static uint8_t draw_byte(enum data data, struct dice *dice, size_t i) {
    static const uint8_t corners[] = {0, 1, 127, 128, 254, 255};
    switch (data) {
    case LARGEST:
    case LOWEST:
        return 255;
    case ALTERNATE:
        return i % 2 ? 255 : 0;
    case CORNERS:
        return corners[dice_below(dice, 6)];
    case ORDERED:
        return (uint8_t)i;
    case HIGH:
    case DEEP:
        return (uint8_t)(253 + dice_below(dice, 3));
    default:
        return (uint8_t)dice_below(dice, 256);
    }
}

static int8_t draw_signed(enum data data, struct dice *dice, size_t i) {
    static const int8_t corners[] = {0, 1, -1, 126, -126, 127, -127};
    switch (data) {
    case LARGEST:
        return 127;
    case LOWEST:
        return -127;
    case ALTERNATE:
        return i % 2 ? -127 : 127;
    case CORNERS:
        return corners[dice_below(dice, 7)];
    case ORDERED:
        return (int8_t)((int)(i % 255) - 127);
    case HIGH:
        return (int8_t)(125 + dice_below(dice, 3));
    case DEEP:
        return (int8_t)(-127 + dice_below(dice, 3));
    default:
        return (int8_t)(dice_below(dice, 255) - 127);
    }
}

/* --- the loops -------------------------------------------------------------------------------- */

typedef void tap_fn(const struct problem *p, int node, size_t x, size_t w, size_t y);

static void forward_tap(const struct problem *p, int node, size_t x, size_t w, size_t y) {
    p->y[y] += ((int64_t)p->x[x] - p->zero[node]) * p->w[w];
}

static void gradient_tap(const struct problem *p, int node, size_t x, size_t w, size_t y) {
    (void)node;
    p->dx[x] += (int64_t)p->dy[y] * p->w[w];
}

/* Everything that meets everything, of one output position: `tap` gets places in x, w and y. */
static void each_tap_at(const struct problem *p, int node, int n, int row, int column,
                        tap_fn *tap) {
    const struct shape *s = &p->s;
    const int in = s->in / s->groups, out = s->out / s->groups;
    for (int r = 0; r < s->kernel; r++) {
        for (int q = 0; q < s->kernel; q++) {
            int x_row = row * s->stride - s->pad + r, x_column = column * s->stride - s->pad + q;
            if (x_row < 0 || x_row >= s->h || x_column < 0 || x_column >= s->w) {
                continue;
            }
            for (int o = 0; o < s->out; o++) {
                for (int i = 0; i < in; i++) {
                    int x_at = ((n * s->h + x_row) * s->w + x_column) * s->in + o / out * in + i;
                    int y_at = ((n * s->out_h + row) * s->out_w + column) * s->out + o;
                    int w_at = ((o * in + i) * s->kernel + r) * s->kernel + q;
                    tap(p, node, (size_t)node * x_count(s) + (size_t)x_at,
                        (size_t)node * w_count(s) + (size_t)w_at,
                        (size_t)node * y_count(s) + (size_t)y_at);
                }
            }
        }
    }
}

static void each_tap(const struct problem *p, tap_fn *tap) {
    for (int node = 0; node < N_NODES; node++) {
        for (int n = 0; n < p->s.n; n++) {
            for (int row = 0; row < p->s.out_h; row++) {
                for (int column = 0; column < p->s.out_w; column++) {
                    each_tap_at(p, node, n, row, column, tap);
                }
            }
        }
    }
}

/* --- problems --------------------------------------------------------------------------------- */

static struct problem problem_of(struct shape s, enum data data, struct dice *dice) {
    struct problem p = {.data = data};
    s.out_h = (s.h + 2 * s.pad - s.kernel) / s.stride + 1;
    s.out_w = (s.w + 2 * s.pad - s.kernel) / s.stride + 1;
    assert_true(s.out_h > 0 && s.out_w > 0);
    p.s = s;
    p.x = memory_of(N_NODES * x_count(&s), 1);
    p.w = memory_of(N_NODES * w_count(&s), 1);
    p.dy = memory_of(N_NODES * y_count(&s), 1);
    p.y = memory_of(N_NODES * y_count(&s), sizeof *p.y);
    p.dx = memory_of(N_NODES * x_count(&s), sizeof *p.dx);
    const int first = dice_below(dice, (int)OCT_COUNT_OF(zeros));
    for (int node = 0; node < N_NODES; node++) {
        p.zero[node] = zeros[(first + node) % (int)OCT_COUNT_OF(zeros)];
    }
    for (size_t i = 0; i < N_NODES * x_count(&s); i++) {
        p.x[i] = draw_byte(data, dice, i);
    }
    for (size_t i = 0; i < N_NODES * w_count(&s); i++) {
        p.w[i] = draw_signed(data, dice, i);
    }
    for (size_t i = 0; i < N_NODES * y_count(&s); i++) {
        p.dy[i] = draw_signed(data == LOWEST ? LARGEST : data == DEEP ? HIGH : data, dice, i);
    }
    return p;
}

static void problem_free(struct problem *p) {
    free(p->x);
    free(p->w);
    free(p->dy);
    free(p->y);
    free(p->dx);
}

static void describe(const struct problem *p, char text[256]) {
    const struct shape *s = &p->s;
    snprintf(text, 256,
             "%d of %dx%dx%d to %d, kernel %d, stride %d, pad %d, groups %d, data %s, zero points "
             "%d %d %d, level %s",
             s->n, s->h, s->w, s->in, s->out, s->kernel, s->stride, s->pad, s->groups,
             data_names[p->data], p->zero[0], p->zero[1], p->zero[2],
             oct_cpu_level_name(oct_cpu_level()));
}

/* --- running ---------------------------------------------------------------------------------- */

static struct oct__tensor tensor(enum oct__dtype dtype, int n, int h, int w, int c) {
    return (struct oct__tensor){.dtype = dtype, .n = n, .h = h, .w = w, .c = c};
}

/* One launch over all nodes. host[i] holds operand i of all nodes one after the other: it is read
 * when `written` has no bit i, else filled. In the engine nodes are further apart than they are
 * large. */
static void launch(struct oct__engine *engine, enum oct__op op, struct oct__args *args,
                   void *const *host, unsigned written, int n_threads, const char *what) {
    struct oct__lane lane = {.engine = engine, .form = {N_NODES, n_threads, SHARD}};
    struct oct__plan plan;
    void *scratch = NULL;
    EXPECT_OK(oct__engine_prepare(engine, op, &lane.form, args, &plan));
    args->handle = plan.handle;
    const size_t shared = (plan.shared_bytes + 63) / 64 * 64;
    lane.thread_scratch_bytes = (plan.thread_bytes + 63) / 64 * 64;
    const size_t scratch_bytes = shared + (size_t)n_threads * lane.thread_scratch_bytes;
    EXPECT_OK(engine->alloc(engine, scratch_bytes, "scratch", &scratch));
    uint8_t *dirt = memory_of(scratch_bytes, 1); /* scratch is not zero when a program runs */
    memset(dirt, CANARY, scratch_bytes);
    EXPECT_OK(engine->write(engine, scratch, dirt, scratch_bytes));
    free(dirt);
    lane.shared_scratch = scratch;
    lane.thread_scratch = (char *)scratch + shared;
    const char *operands = oct__op_info[op].operands;
    for (int i = 0; operands[i]; i++) {
        struct oct__tensor *t = &args->t[i];
        if (t->n == 0) {
            continue;
        }
        const size_t bytes = oct__tensor_bytes(t);
        t->stride = (bytes + 63) / 64 * 64 + GAP;
        EXPECT_OK(engine->alloc(engine, N_NODES * t->stride, "operand", &t->at));
        uint8_t *whole = memory_of(N_NODES * t->stride, 1);
        memset(whole, CANARY, N_NODES * t->stride);
        for (size_t node = 0; node < N_NODES && !(written >> i & 1U); node++) {
            memcpy(whole + node * t->stride, (const char *)host[i] + node * bytes, bytes);
        }
        EXPECT_OK(engine->write(engine, t->at, whole, N_NODES * t->stride));
        free(whole);
    }
    EXPECT_OK(oct__engine_run(&lane, op, args));
    for (int i = 0; operands[i]; i++) {
        struct oct__tensor *t = &args->t[i];
        if (t->n == 0) {
            continue;
        }
        const size_t bytes = oct__tensor_bytes(t);
        uint8_t *whole = memory_of(N_NODES * t->stride, 1);
        EXPECT_OK(engine->read(engine, whole, t->at, N_NODES * t->stride));
        for (size_t node = 0; node < N_NODES; node++) {
            char *there = (char *)host[i] + node * bytes;
            if (written >> i & 1U) {
                memcpy(there, whole + node * t->stride, bytes);
            } else if (memcmp(there, whole + node * t->stride, bytes) != 0) {
                fail_msg("%s: %s changed its operand %d", what, oct__op_info[op].name, i);
            }
            for (size_t j = bytes; j < t->stride; j++) {
                if (whole[node * t->stride + j] != CANARY) {
                    fail_msg("%s: %s wrote beyond operand %d", what, oct__op_info[op].name, i);
                }
            }
        }
        free(whole);
        engine->free(engine, t->at);
    }
    engine->free(engine, scratch);
    oct__engine_release(engine, op, plan.handle);
}

static struct oct__args args_of(const struct shape *s) {
    struct oct__args args = {.layer = 1};
    args.attr.conv.kernel = s->kernel;
    args.attr.conv.stride = s->stride;
    args.attr.conv.pad = s->pad;
    args.attr.conv.groups = s->groups;
    return args;
}

static void check_sums(const char *who, const char *op, const char *what, const int32_t *found,
                       const int64_t *expected, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (found[i] != expected[i]) {
            fail_msg("%s, %s: sum %zu of %zu is %ld, must be %ld; %s", who, op, i, count,
                     (long)found[i], (long)expected[i], what);
        }
    }
}

/* Sums that whoever reads them turns into floats: equal as such. */
static void check_floats(const char *who, const char *what, const int32_t *found,
                         const int64_t *expected, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if ((float)found[i] != (float)(int32_t)expected[i]) {
            fail_msg("%s, conv_u8 as floats: sum %zu of %zu is %ld, must be near %ld; %s", who, i,
                     count, (long)found[i], (long)expected[i], what);
        }
    }
}

static void grids_of(const struct problem *p, struct oct__grid grids[N_NODES]) {
    for (int node = 0; node < N_NODES; node++) {
        const float scale = 0.25F + 0.5F * (float)node;
        grids[node] = (struct oct__grid){scale, 1.0F / scale, (float)p->zero[node], 0.0F};
    }
}

static void check_engine(struct oct__engine *engine, struct problem *p, int n_threads,
                         const char *what) {
    const struct shape *s = &p->s;
    const char *who = engine->kind->plugin.name;
    struct oct__tensor x = tensor(OCT_DTYPE_U8, s->n, s->h, s->w, s->in);
    struct oct__tensor y = tensor(OCT_DTYPE_S32, s->n, s->out_h, s->out_w, s->out);
    struct oct__tensor w = tensor(OCT_DTYPE_S8, s->out, s->kernel, s->kernel, s->in / s->groups);
    struct oct__tensor grid = tensor(OCT_DTYPE_F32, 1, 1, 1, OCT_GRID);
    struct oct__grid grids[N_NODES];
    grids_of(p, grids);
    int32_t *sums = memory_of(N_NODES * y_count(s), sizeof *sums);
    struct oct__args args = args_of(s);
    args.t[0] = x, args.t[1] = grid, args.t[2] = w, args.t[3] = y;
    launch(engine, OCT_OP_CONV_U8, &args, (void *[]){p->x, grids, p->w, sums}, 1U << 3, n_threads,
           what);
    check_sums(who, "conv_u8", what, sums, p->y, N_NODES * y_count(s));
    args = args_of(s);
    args.attr.conv.as_floats = 1;
    args.t[0] = x, args.t[1] = grid, args.t[2] = w, args.t[3] = y;
    launch(engine, OCT_OP_CONV_U8, &args, (void *[]){p->x, grids, p->w, sums}, 1U << 3, n_threads,
           what);
    check_floats(who, what, sums, p->y, N_NODES * y_count(s));
    free(sums);
    sums = memory_of(N_NODES * x_count(s), sizeof *sums);
    args = args_of(s);
    y.dtype = OCT_DTYPE_E8, x.dtype = OCT_DTYPE_S32;
    args.t[0] = y, args.t[1] = w, args.t[2] = x;
    uint8_t *excess = memory_of(N_NODES * y_count(s), 1);
    for (size_t i = 0; i < N_NODES * y_count(s); i++) {
        excess[i] = (uint8_t)(p->dy[i] + OCT_EXCESS);
    }
    launch(engine, OCT_OP_CONV_S8_DGRAD, &args, (void *[]){excess, p->w, sums}, 1U << 2, n_threads,
           what);
    check_sums(who, "conv_s8_dgrad", what, sums, p->dx, N_NODES * x_count(s));
    free(excess);
    free(sums);
}

/* Returns how many sums were compared. */
static size_t check_shape(const struct shape *s, enum data data, struct dice *dice) {
    struct problem p = problem_of(*s, data, dice);
    const int n_threads = 1 + dice_below(dice, 2);
    size_t compared = 0;
    char what[256];
    describe(&p, what);
    each_tap(&p, forward_tap);
    each_tap(&p, gradient_tap);
    for (int index = 0;; index++) {
        struct oct__engine *engine = rig_engine_at(index, n_threads);
        if (!engine) {
            break;
        }
        check_engine(engine, &p, n_threads, what);
        compared += N_NODES * (x_count(&p.s) + y_count(&p.s));
        oct__engine_close(engine);
    }
    problem_free(&p);
    return compared;
}

/* --- the tests -------------------------------------------------------------------------------- */

/* Every kernel, stride and pad, on maps where the last rows may go unused; groups and data in turn.
 * */
static void geometry(void **state) {
    (void)state;
    static const int kernels[] = {1, 3, 5, 7};
    static const int channels[][3] = {{1, 3, 5},    {2, 6, 10}, {5, 5, 5},  {1, 1, 1},
                                      {16, 16, 32}, {1, 17, 3}, {2, 4, 64}, {3, 3, 6}};
    size_t compared = 0, trial = 0;
    for (size_t k = 0; k < OCT_COUNT_OF(kernels); k++) {
        for (int stride = 1; stride <= 3; stride++) {
            for (int pad = 0; pad <= 3; pad++) {
                for (int again = 0; again < 2; again++, trial++) {
                    struct dice dice = dice_of((uint32_t)trial);
                    const int *c = channels[(trial * 3 + (size_t)again) % OCT_COUNT_OF(channels)];
                    struct shape s = {
                        .kernel = kernels[k],
                        .stride = stride,
                        .pad = pad,
                        .groups = c[0],
                        .in = c[1],
                        .out = c[2],
                        .n = 1 + dice_below(&dice, 6),
                        .h = kernels[k] + dice_below(&dice, 6),
                        .w = kernels[k] + dice_below(&dice, 6),
                    };
                    compared += check_shape(&s, (enum data)(trial % N_DATA), &dice);
                }
            }
        }
    }
    print_message("%zu geometries, %zu sums compared\n", trial, compared);
}

/* Channels around every vector's width, each with all kinds of data. */
static void channels(void **state) {
    (void)state;
    static const int widths[] = {1, 3, 5, 16, 17, 64};
    size_t compared = 0;
    for (size_t i = 0; i < OCT_COUNT_OF(widths); i++) {
        for (size_t j = 0; j < OCT_COUNT_OF(widths); j++) {
            for (int data = 0; data < N_DATA; data++) {
                struct dice dice = dice_of((uint32_t)(1000 + 100 * i + 10 * j) + (uint32_t)data);
                const int kernel = data % 2 ? 1 : 3, large = widths[i] * widths[j] > 1000;
                struct shape s = {
                    .kernel = kernel,
                    .stride = 1,
                    .pad = kernel / 2,
                    .groups = 1,
                    .in = widths[i],
                    .out = widths[j],
                    .n = large ? 1 : 5,
                    .h = 3,
                    .w = large ? 3 : 7,
                };
                compared += check_shape(&s, (enum data)data, &dice);
            }
        }
    }
    print_message("%zu sums compared\n", compared);
}

/* The layers of a ResNet, depth-wise ones, and the odd ones out. */
static void layers(void **state) {
    (void)state;
    static const struct shape shapes[] = {
        SHAPE(3, 1, 1, 1, 1, 32, 32, 3, 16),  SHAPE(3, 1, 1, 1, 1, 32, 32, 16, 16),
        SHAPE(3, 2, 1, 1, 1, 32, 32, 16, 32), SHAPE(1, 2, 0, 1, 2, 15, 15, 32, 64),
        SHAPE(3, 1, 1, 1, 2, 8, 8, 64, 64),   SHAPE(7, 2, 3, 1, 1, 28, 28, 1, 64),
        SHAPE(1, 1, 0, 1, 9, 1, 1, 64, 10),   SHAPE(3, 1, 1, 1, 6, 1, 1, 16, 16),
        SHAPE(3, 1, 1, 64, 3, 8, 8, 64, 64),  SHAPE(1, 3, 3, 1, 2, 4, 5, 5, 16),
        SHAPE(3, 2, 1, 96, 5, 9, 8, 96, 96),  SHAPE(3, 1, 1, 24, 3, 7, 5, 24, 24),
        SHAPE(3, 2, 1, 20, 2, 8, 7, 20, 20),  SHAPE(3, 1, 1, 33, 2, 1, 1, 33, 33),
    };
    size_t compared = 0;
    for (size_t i = 0; i < OCT_COUNT_OF(shapes); i++) {
        static const enum data kinds[] = {ANY, LARGEST, ALTERNATE};
        for (size_t j = 0; j < OCT_COUNT_OF(kinds); j++) {
            struct dice dice = dice_of((uint32_t)(5000 + 10 * i + j));
            compared += check_shape(&shapes[i], kinds[j], &dice);
        }
    }
    print_message("%zu sums compared\n", compared);
}

/* Where a library was found wrong once: sums of more products than an f32 has bits for, by every way
 * there is to compute them; strides that leave places between the taps or at the border; groups of
 * odd widths and padding beyond half the kernel; results that end in the middle of a tile. */
static void traps(void **state) {
    (void)state;
    static const struct shape shapes[] = {
        SHAPE(3, 1, 1, 1, 5, 4, 4, 64, 64),   SHAPE(3, 2, 1, 1, 1, 5, 4, 128, 128),
        SHAPE(1, 1, 0, 1, 2, 2, 3, 600, 8),   SHAPE(1, 1, 0, 1, 2, 2, 3, 8, 1100),
        SHAPE(1, 2, 0, 1, 1, 4, 4, 528, 16),  SHAPE(1, 2, 0, 1, 1, 4, 4, 16, 1040),
        SHAPE(7, 1, 3, 2, 1, 7, 7, 34, 34),   SHAPE(5, 1, 0, 1, 1, 6, 7, 21, 43),
        SHAPE(7, 1, 3, 2, 1, 4, 5, 128, 34),  SHAPE(3, 3, 1, 48, 1, 8, 6, 48, 48),
        SHAPE(3, 3, 0, 1, 3, 8, 5, 10, 37),   SHAPE(1, 3, 0, 1, 1, 5, 6, 48, 48),
        SHAPE(1, 4, 0, 2, 1, 4, 5, 128, 128), SHAPE(3, 2, 1, 48, 1, 8, 6, 48, 48),
        SHAPE(2, 2, 0, 1, 2, 3, 9, 16, 96),   SHAPE(4, 2, 0, 1, 3, 6, 5, 112, 16),
        SHAPE(4, 1, 1, 2, 1, 8, 6, 66, 38),   SHAPE(4, 3, 3, 3, 3, 7, 6, 66, 81),
        SHAPE(7, 1, 6, 1, 1, 7, 7, 84, 10),   SHAPE(5, 1, 4, 2, 1, 9, 7, 224, 32),
        SHAPE(1, 1, 0, 1, 4, 6, 7, 80, 16),   SHAPE(1, 1, 0, 1, 3, 7, 6, 512, 96),
    };
    static const enum data kinds[] = {ANY, HIGH, DEEP};
    size_t compared = 0;
    for (size_t i = 0; i < OCT_COUNT_OF(shapes); i++) {
        for (size_t j = 0; j < OCT_COUNT_OF(kinds); j++) {
            struct dice dice = dice_of((uint32_t)(7000 + 10 * i + j));
            compared += check_shape(&shapes[i], kinds[j], &dice);
        }
    }
    print_message("%zu sums compared\n", compared);
}

/* Results that do not fill the tiles of an engine that makes them by tiles: of several images, of a few
 * rows, of wide rows in pieces; channels that are some of a slice or several; maps with pixels between
 * which there is nothing; kernels for which there is little room, and too little; enough tiles for
 * the larger of two sizes. */
static void tiles(void **state) {
    (void)state;
    static const struct shape shapes[] = {
        SHAPE(3, 1, 1, 1, 2, 16, 16, 32, 32),  SHAPE(3, 2, 1, 1, 3, 16, 16, 32, 64),
        SHAPE(3, 1, 1, 1, 3, 9, 7, 48, 16),    SHAPE(3, 1, 1, 1, 1, 5, 70, 16, 48),
        SHAPE(3, 1, 1, 1, 1, 6, 33, 80, 32),   SHAPE(3, 1, 0, 1, 2, 10, 12, 16, 16),
        SHAPE(3, 1, 2, 1, 2, 7, 7, 32, 16),    SHAPE(3, 1, 3, 1, 2, 6, 7, 16, 32),
        SHAPE(3, 3, 1, 1, 2, 11, 10, 16, 32),  SHAPE(1, 2, 0, 1, 3, 16, 16, 16, 32),
        SHAPE(1, 2, 0, 1, 5, 8, 8, 64, 32),    SHAPE(3, 2, 1, 1, 1, 33, 35, 64, 16),
        SHAPE(11, 1, 5, 1, 1, 8, 9, 16, 20),   SHAPE(13, 1, 6, 1, 1, 8, 14, 3, 4),
        SHAPE(15, 1, 7, 1, 1, 8, 9, 2, 3),     SHAPE(3, 1, 1, 1, 3, 12, 12, 16, 928),
        SHAPE(3, 1, 1, 1, 3, 12, 12, 928, 16),
    };
    size_t compared = 0;
    for (size_t i = 0; i < OCT_COUNT_OF(shapes); i++) {
        struct dice dice = dice_of((uint32_t)(9000 + i));
        compared += check_shape(&shapes[i], i % 3 == 1 ? CORNERS : ANY, &dice);
    }
    print_message("%zu sums compared\n", compared);
}

/* As many products as 32 bits hold, all at their largest; one channel more is refused. */
static void borders(void **state) {
    (void)state;
    struct shape s = {.kernel = 7, .stride = 1, .groups = 1, .n = 1, .h = 7, .w = 7, .out = 2};
    s.in = INT32_MAX / (255 * 127) / 49;
    for (int data = LARGEST; data <= LOWEST; data++) {
        struct dice dice = dice_of(8);
        struct problem p = problem_of(s, (enum data)data, &dice);
        char what[256];
        for (int node = 0; node < N_NODES; node++) {
            p.zero[node] = node == 0 ? 0 : 255;
            memset(p.x + (size_t)node * x_count(&p.s), node == 0 ? 255 : 0, x_count(&p.s));
        }
        describe(&p, what);
        each_tap(&p, forward_tap);
        each_tap(&p, gradient_tap);
        print_message("sums %ld and %ld\n", (long)p.y[0], (long)p.y[y_count(&p.s)]);
        assert_true(llabs(p.y[0]) > INT32_MAX - 255 * 127 * 49 && llabs(p.y[0]) <= INT32_MAX);
        for (int index = 0;; index++) {
            struct oct__engine *engine = rig_engine_at(index, 1);
            if (!engine) {
                break;
            }
            check_engine(engine, &p, 1, what);
            oct__engine_close(engine);
        }
        problem_free(&p);
    }
    struct oct__args args = args_of(&s);
    struct oct__lane_form form = {1, 1, SHARD};
    struct oct__plan plan;
    args.t[0] = tensor(OCT_DTYPE_U8, 1, 7, 7, s.in + 1);
    args.t[1] = tensor(OCT_DTYPE_F32, 1, 1, 1, OCT_GRID);
    args.t[2] = tensor(OCT_DTYPE_S8, 2, 7, 7, s.in + 1);
    args.t[3] = tensor(OCT_DTYPE_S32, 1, 1, 1, 2);
    for (int index = 0;; index++) {
        struct oct__engine *engine = rig_engine_at(index, 1);
        if (!engine) {
            break;
        }
        EXPECT_FAILURE(oct__engine_prepare(engine, OCT_OP_CONV_U8, &form, &args, &plan),
                       OCT_STATUS_UNSUPPORTED, "32 bits");
        oct__engine_close(engine);
    }
}

/* --- the weight gradient, in floats ------------------------------------------------------------
 * */

static float bf16_value(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* dw = scale * sum of (x - zero) * dy, in double, with the sum of sizes that errors are relative
 * to. */
struct wgrad {
    const float *dy; /* [node][n][out_h][out_w][out] */
    double *dw, *dw_size, *db, *db_size;
    float *found_dw, *found_db;
};

static struct wgrad *wgrad_now;

static void wgrad_tap(const struct problem *p, int node, size_t x, size_t w, size_t y) {
    double term = ((double)p->x[x] - p->zero[node]) * (double)wgrad_now->dy[y];
    wgrad_now->dw[w] += term;
    wgrad_now->dw_size[w] += fabs(term);
}

static double compare_floats(const char *what, const char *name, const float *found,
                             const double *expected, const double *size, size_t count, int terms) {
    double worst = 0.0;
    for (size_t i = 0; i < count; i++) {
        double error = fabs((double)found[i] - expected[i]) / (size[i] + DBL_MIN);
        if (!(error <= (terms + 2) * 0x1p-24)) {
            fail_msg("%s: %s[%zu] is %.9g, in double %.9g", what, name, i, (double)found[i],
                     expected[i]);
        }
        worst = fmax(worst, error);
    }
    return worst;
}

static double check_wgrad(struct oct__engine *engine, enum oct__dtype dtype, const struct shape *of,
                          int with_bias, struct dice *dice) {
    struct problem p = problem_of(*of, ANY, dice);
    const struct shape *s = &p.s;
    const size_t n_y = N_NODES * y_count(s), n_w = N_NODES * w_count(s);
    const size_t n_b = (size_t)(N_NODES * s->out);
    uint16_t *halves = memory_of(n_y, sizeof *halves);
    float *dy = memory_of(n_y, sizeof *dy);
    struct wgrad g = {
        .dy = dy,
        .dw = memory_of(n_w, sizeof(double)),
        .dw_size = memory_of(n_w, sizeof(double)),
        .db = memory_of(n_b, sizeof(double)),
        .db_size = memory_of(n_b, sizeof(double)),
        .found_dw = memory_of(n_w, sizeof(float)),
        .found_db = memory_of(n_b, sizeof(float)),
    };
    for (size_t i = 0; i < n_y; i++) {
        float value = (float)dice_normal(dice);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        halves[i] = (uint16_t)(bits >> 16);
        dy[i] = dtype == OCT_DTYPE_BF16 ? bf16_value(halves[i]) : value;
    }
    struct oct__grid grids[N_NODES];
    grids_of(&p, grids);
    wgrad_now = &g;
    each_tap(&p, wgrad_tap);
    for (size_t i = 0; i < n_w; i++) {
        g.dw[i] *= (double)grids[i / w_count(s)].scale;
        g.dw_size[i] *= (double)grids[i / w_count(s)].scale;
    }
    for (size_t i = 0; i < n_y; i++) {
        size_t b = i / y_count(s) * (size_t)s->out + i % (size_t)s->out;
        g.db[b] += (double)dy[i];
        g.db_size[b] += fabs((double)dy[i]);
    }
    struct oct__args args = args_of(s);
    args.t[0] = tensor(OCT_DTYPE_U8, s->n, s->h, s->w, s->in);
    args.t[1] = tensor(OCT_DTYPE_F32, 1, 1, 1, OCT_GRID);
    args.t[2] = tensor(dtype, s->n, s->out_h, s->out_w, s->out);
    args.t[3] = tensor(OCT_DTYPE_F32, s->out, s->kernel, s->kernel, s->in / s->groups);
    args.t[4] = with_bias ? tensor(OCT_DTYPE_F32, 1, 1, 1, s->out) : args.t[4];
    char what[256], text[320];
    describe(&p, what);
    snprintf(text, sizeof text, "%s, conv_u8_wgrad: %s", engine->kind->plugin.name, what);
    void *gradient = dtype == OCT_DTYPE_BF16 ? (void *)halves : (void *)dy;
    launch(engine, OCT_OP_CONV_U8_WGRAD, &args,
           (void *[]){p.x, grids, gradient, g.found_dw, g.found_db}, 3U << 3, engine->n_threads,
           text);
    const int terms = s->n * s->out_h * s->out_w;
    double worst = compare_floats(text, "dw", g.found_dw, g.dw, g.dw_size, n_w, terms);
    if (with_bias) {
        worst = fmax(worst, compare_floats(text, "db", g.found_db, g.db, g.db_size, n_b, terms));
    }
    free(halves);
    free(dy);
    free(g.dw), free(g.dw_size), free(g.db), free(g.db_size), free(g.found_dw), free(g.found_db);
    problem_free(&p);
    return worst;
}

/* The last three have rows shorter than the stride. */
static void weight_gradient(void **state) {
    (void)state;
    static const struct shape shapes[] = {
        SHAPE(3, 1, 1, 1, 6, 5, 7, 16, 17),  SHAPE(3, 2, 1, 2, 5, 8, 9, 6, 10),
        SHAPE(1, 2, 0, 1, 3, 6, 6, 3, 64),   SHAPE(5, 1, 3, 5, 9, 4, 4, 5, 5),
        SHAPE(1, 1, 0, 1, 1, 1, 1, 64, 10),  SHAPE(3, 2, 1, 1, 7, 9, 8, 16, 32),
        SHAPE(3, 1, 1, 1, 5, 6, 6, 32, 16),  SHAPE(3, 1, 1, 24, 6, 7, 5, 24, 24),
        SHAPE(3, 2, 1, 96, 5, 9, 8, 96, 96), SHAPE(3, 2, 1, 20, 7, 8, 7, 20, 20),
        SHAPE(3, 1, 1, 33, 5, 1, 1, 33, 33), SHAPE(7, 2, 3, 1, 5, 14, 12, 3, 16),
        SHAPE(3, 2, 1, 1, 5, 1, 1, 8, 16),   SHAPE(3, 2, 1, 24, 5, 1, 1, 24, 24),
        SHAPE(5, 3, 2, 1, 5, 4, 2, 3, 8),
    };
    for (int index = 0;; index++) {
        struct oct__engine *engine = rig_engine_at(index, 2);
        if (!engine) {
            break;
        }
        double worst = 0.0;
        for (size_t i = 0; i < OCT_COUNT_OF(shapes); i++) {
            for (int with_bias = 0; with_bias < 2; with_bias++) {
                struct dice dice = dice_of((uint32_t)(7000 + 2 * i) + (uint32_t)with_bias);
                worst = fmax(worst,
                             check_wgrad(engine, engine->gradient, &shapes[i], with_bias, &dice));
                if (strcmp(engine->kind->plugin.name, "portable") == 0) { /* stands in for any */
                    worst = fmax(worst,
                                 check_wgrad(engine, OCT_DTYPE_BF16, &shapes[i], with_bias, &dice));
                }
            }
        }
        print_message("%s: at most %.1e of the sum of sizes\n", engine->kind->plugin.name, worst);
        oct__engine_close(engine);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(geometry),        cmocka_unit_test(channels), cmocka_unit_test(layers),
        cmocka_unit_test(traps),           cmocka_unit_test(tiles),    cmocka_unit_test(borders),
        cmocka_unit_test(weight_gradient),
    };
    const char *level = getenv("OCT_CPU");
    if (level && level[0]) {
        oct_status status = oct_cpu_limit(level);
        if (status != OCT_OK) {
            fprintf(stderr, "OCT_CPU: %s\n", oct_last_error());
            return status == OCT_STATUS_UNSUPPORTED ? SKIPPED : 2;
        }
    }
    print_message("level %s\n", oct_cpu_level_name(oct_cpu_level()));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
