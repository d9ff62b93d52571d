/* SPDX-License-Identifier: Apache-2.0 */
/* test_wgrad.c - our own weight gradients of bytes (engine/wgrad.c, engine/cuda/wgrad_u8.cu).
 *
 * The engine `cpu` uses its one at one CPU level and for most shapes; here it stands in that
 * engine's slot for all of them, whatever the CPU. Both are compared with sums in double, within
 * the rounding errors of adding as many terms one by one, and must have the same bits on 1, 2 and 3
 * threads: with one, shards are added up as they come, with more they are kept apart and folded. (A
 * GPU has no threads in this sense: there it is the same launch three times.)
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include <octet/cpu.h>

#include "engine/cpu.h"
#include "support/launch.h"
#include "support/rig.h"

struct shape {
    int kernel, stride, pad, n, h, w, in, out;
};

static oct_status prepare(struct oct__engine *engine, enum oct__op op,
                          const struct oct__lane_form *form, const struct oct__args *args,
                          struct oct__plan *plan) {
    (void)engine;
    assert_int_equal(op, OCT_OP_CONV_U8_WGRAD);
    oct__wgrad_scratch(form, args, plan);
    return OCT_OK;
}

static struct oct__engine *open_cpu(void) {
    struct oct__engine *engine;
    EXPECT_OK(oct__engine_open("cpu", 3, &engine));
    engine->prepare = prepare;
    engine->run[OCT_OP_CONV_U8_WGRAD] = oct__wgrad_conv_u8;
    return engine;
}

/* NULL: there is none. */
static struct oct__engine *open_cuda(void) {
    struct oct__engine *engine;
    for (int i = 0; (engine = rig_engine_at(i, 1)); i++) {
        if (strcmp(engine->kind->plugin.name, "cuda") == 0) {
            return engine;
        }
        oct__engine_close(engine);
    }
    return NULL;
}

static int slide(int size, const struct shape *s) {
    return (size + 2 * s->pad - s->kernel) / s->stride + 1;
}

static double bf16_value(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static uint16_t bf16_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)(bits >> 16);
}

/* One weight's gradient before the scale, and the sum of its terms' sizes. */
static double one_weight(const struct shape *s, const uint8_t *x, const uint16_t *dy, double zero,
                         size_t index, double *size) {
    const int q = (int)(index % (size_t)s->kernel),
              r = (int)(index / (size_t)s->kernel) % s->kernel;
    const int map = (int)(index / (size_t)(s->kernel * s->kernel)), i = map % s->in,
              o = map / s->in;
    const int out_h = slide(s->h, s), out_w = slide(s->w, s);
    double sum = 0.0;
    *size = 0.0;
    for (int at = 0; at < s->n * out_h * out_w; at++) {
        const int column = at % out_w * s->stride + q - s->pad;
        const int row = at / out_w % out_h * s->stride + r - s->pad, n = at / out_w / out_h;
        if (row < 0 || row >= s->h || column < 0 || column >= s->w) {
            continue;
        }
        const double byte = x[((n * s->h + row) * s->w + column) * s->in + i];
        const double term = (byte - zero) * bf16_value(dy[at * s->out + o]);
        sum += term;
        *size += fabs(term);
    }
    return sum;
}

/* The worst error, relative to the sum of sizes. `each`: every how many weights are looked at. */
static double check_node(const struct shape *s, int node, struct oct__tensor x,
                         struct oct__tensor grid, struct oct__tensor dy, struct oct__tensor dw,
                         size_t each) {
    const struct oct__grid *of_x = grid_at(grid, node);
    const int terms = s->n * slide(s->h, s) * slide(s->w, s);
    double worst = 0.0;
    for (size_t i = 0; i < count(dw); i += each) {
        double size,
            expected = one_weight(s, bytes_at(x, node), at(dy, node), (double)of_x->zero, i, &size);
        const double found = (double)floats(dw, node)[i];
        expected *= (double)of_x->scale;
        size *= (double)of_x->scale;
        if (isnan(expected) ? isnan(found) : isinf(expected) && found == expected) {
            continue;
        }
        const double error = fabs(found - expected) / (size + DBL_MIN);
        if (!(error <= (terms + 2) * 0x1p-24)) {
            fail_msg("kernel %d, stride %d, pad %d, %dx%dx%dx%d -> %d, zero %g: weight %zu of node "
                     "%d is %.9g, in double %.9g",
                     s->kernel, s->stride, s->pad, s->n, s->h, s->w, s->in, s->out,
                     (double)of_x->zero, i, node, found, expected);
        }
        worst = fmax(worst, error);
    }
    return worst;
}

/* `odd` takes the place of the first and the last gradient of every sample, unless it is 0. */
static double check(struct oct__engine *engine, const struct shape *s, float zero, float odd,
                    size_t each, struct dice *dice) {
    struct oct__tensor x = tensor_new(OCT_DTYPE_U8, s->n, s->h, s->w, s->in);
    struct oct__tensor dy =
        tensor_new(OCT_DTYPE_BF16, s->n, slide(s->h, s), slide(s->w, s), s->out);
    struct oct__tensor grid = vector_new(OCT_GRID), dw[3];
    const union oct__attr attr = {
        .conv = {.kernel = s->kernel, .stride = s->stride, .pad = s->pad, .groups = 1}};
    fill_bytes(x, dice);
    set_grid(grid, 0.0123F, zero);
    uint16_t *halves = dy.at;
    for (size_t i = 0; i < LAUNCH_NODES * count(dy); i++) {
        const size_t place = i % sample_count(dy);
        const int is_odd = odd != 0.0F && (place == 0 || place + 1 == sample_count(dy));
        halves[i] = bf16_of(is_odd ? odd : (float)dice_normal(dice));
    }
    for (int threads = 1; threads <= 3; threads++) {
        struct launch_way way = launch_plain;
        way.n_threads = threads;
        dw[threads - 1] = tensor_new(OCT_DTYPE_F32, s->out, s->kernel, s->kernel, s->in);
        memset(dw[threads - 1].at, 0x3b, LAUNCH_NODES * dw[threads - 1].stride);
        LAUNCH(engine, CONV_U8_WGRAD, attr, way, x, grid, dy, dw[threads - 1], absent);
        expect_bits("threads", "dw", dw[threads - 1], dw[0]);
    }
    double worst = 0.0;
    for (int node = 0; node < LAUNCH_NODES; node++) {
        worst = fmax(worst, check_node(s, node, x, grid, dy, dw[0], each));
    }
    tensors_free(NULL);
    return worst;
}

static void check_all(struct oct__engine *engine, const struct shape *shapes, size_t n_shapes) {
    double worst = 0.0;
    for (size_t i = 0; i < n_shapes; i++) {
        struct dice dice = dice_of((uint32_t)(100 + i));
        const struct shape *s = &shapes[i];
        const size_t weights = (size_t)(s->in * s->out * s->kernel * s->kernel);
        const size_t products = weights * (size_t)(s->n * slide(s->h, s) * slide(s->w, s));
        worst = fmax(worst,
                     check(engine, s, i % 2 ? 0.0F : 128.0F, 0.0F, 1 + products / 500000, &dice));
    }
    print_message("%s, %zu layers: at most %.1e of the sum of sizes\n", engine->kind->plugin.name,
                  n_shapes, worst);
    oct__engine_close(engine);
}

/* Where the network's own layers are, and what lies at the borders of the way it is computed:
 * images of one pixel, kernels that hang over both sides, strides that leave rows out, shards with
 * a sample left over, and more rows than fit into a band. */
static void layers(void **state) {
    (void)state;
    static const struct shape shapes[] = {
        {3, 1, 1, 2, 32, 32, 16, 16},  {3, 2, 1, 3, 32, 32, 16, 32}, {1, 2, 0, 4, 16, 16, 32, 64},
        {3, 1, 1, 5, 16, 16, 32, 32},  {3, 1, 1, 9, 8, 8, 64, 64},   {3, 1, 1, 17, 3, 2, 16, 16},
        {3, 1, 1, 35, 2, 3, 16, 16},   {3, 1, 1, 6, 1, 1, 16, 16},   {7, 1, 3, 4, 2, 3, 16, 16},
        {7, 3, 3, 3, 5, 4, 32, 16},    {5, 3, 2, 2, 3, 11, 16, 48},  {1, 3, 1, 3, 7, 8, 16, 16},
        {1, 2, 1, 2, 1, 1, 16, 16},    {3, 1, 3, 2, 2, 2, 16, 16},   {3, 1, 0, 7, 33, 5, 16, 16},
        {3, 1, 1, 2, 12, 200, 16, 16}, {1, 1, 0, 33, 1, 1, 64, 16},  {3, 1, 1, 1, 6, 6, 16, 16},
    };
    check_all(open_cpu(), shapes, OCT_COUNT_OF(shapes));
}

/* So many weights on so small a map that one thread takes them in blocks. */
static void blocks(void **state) {
    (void)state;
    static const struct shape shapes[] = {
        {3, 2, 1, 18, 1, 1, 512, 192},  {3, 1, 1, 19, 2, 2, 304, 304},
        {1, 1, 0, 33, 2, 1, 896, 1024}, {7, 1, 3, 3, 2, 2, 128, 144},
        {5, 2, 2, 2, 3, 3, 160, 208},
    };
    check_all(open_cpu(), shapes, oct_cpu_level() < OCT_CPU_AVX512BF16 ? 1 : OCT_COUNT_OF(shapes));
}

/* What lies at the borders of the way a GPU computes it: 16, 32, 64 and more outputs; chunks that
 * are rows, images, or more images than there are, one or several to a part, or all in one part;
 * rows and images left over; strides; first layers of 1 to 5 channels; and next to each, what is
 * left to other kernels. */
static void on_a_gpu(void **state) {
    (void)state;
    static const struct shape shapes[] = {
        {3, 1, 1, 2, 32, 32, 16, 16},  {3, 1, 1, 3, 16, 16, 32, 32}, {3, 1, 1, 5, 8, 8, 64, 64},
        {3, 2, 1, 2, 32, 32, 16, 32},  {3, 2, 1, 3, 16, 16, 32, 64}, {1, 2, 0, 3, 32, 32, 16, 32},
        {1, 2, 0, 5, 16, 16, 32, 64},  {3, 1, 1, 2, 32, 32, 3, 16},  {3, 2, 1, 2, 33, 31, 3, 32},
        {3, 1, 1, 3, 13, 11, 1, 64},   {3, 1, 0, 3, 9, 10, 5, 24},   {3, 1, 2, 3, 5, 3, 4, 8},
        {3, 1, 1, 2, 5, 5, 6, 16},     {3, 1, 1, 3, 37, 19, 16, 8},  {3, 1, 2, 7, 5, 9, 16, 24},
        {3, 3, 1, 4, 20, 17, 32, 40},  {3, 2, 0, 3, 9, 30, 16, 72},  {3, 1, 0, 2, 4, 256, 16, 16},
        {3, 1, 1, 1, 2, 256, 16, 16},  {3, 1, 1, 300, 1, 1, 16, 16}, {3, 1, 3, 40, 2, 1, 32, 136},
        {1, 1, 0, 3, 3, 200, 16, 16},  {1, 3, 2, 6, 10, 11, 48, 48}, {1, 1, 0, 2, 2, 257, 16, 16},
        {1, 1, 0, 70, 1, 1, 64, 10},   {3, 1, 1, 35, 8, 8, 16, 16},  {5, 1, 2, 2, 6, 7, 16, 16},
        {3, 2, 1, 1, 1, 511, 3, 16},   {3, 2, 1, 5, 1, 1, 2, 16},    {3, 1, 1, 1, 1, 1, 16, 128},
        {3, 1, 1, 1, 17, 129, 64, 16}, {3, 1, 1, 1, 9, 129, 64, 32}, {1, 1, 0, 2, 9, 129, 64, 16},
        {3, 1, 1, 1, 40, 129, 3, 16},  {3, 1, 1, 9, 4, 4, 128, 256}, {1, 1, 0, 9, 8, 8, 128, 264},
        {3, 1, 1, 2, 3, 112, 32, 64},  {3, 1, 1, 1, 2, 224, 3, 64},
    };
    struct oct__engine *engine = open_cuda();
    if (!engine) {
        skip();
    }
    check_all(engine, shapes, OCT_COUNT_OF(shapes));
}

static void any_shape(void **state) {
    (void)state;
    const int rounds =
        oct_cpu_level() < OCT_CPU_AVX512BF16 ? 15 : 150; /* ref is 400 times slower */
    static const int kernels[] = {1, 3, 5, 7}, widths[] = {16, 32, 48, 64};
    static const float zeros[] = {0.0F, 1.0F, 128.0F, 255.0F};
    struct oct__engine *engine = open_cpu();
    double worst = 0.0;
    for (int round = 0; round < rounds; round++) {
        struct dice dice = dice_of((uint32_t)round);
        struct shape s = {
            .kernel = kernels[dice_below(&dice, 4)],
            .stride = 1 + dice_below(&dice, 3),
            .pad = dice_below(&dice, 4),
            .n = 1 + dice_below(&dice, 9),
            .in = widths[dice_below(&dice, 4)],
            .out = widths[dice_below(&dice, 4)],
        };
        const int most = round % 10 == 0 ? 33 : 12; /* large ones now and then: time is short */
        s.h = 1 + dice_below(&dice, most);
        s.w = 1 + dice_below(&dice, most);
        s.h = s.h + 2 * s.pad < s.kernel ? s.kernel : s.h;
        s.w = s.w + 2 * s.pad < s.kernel ? s.kernel : s.w;
        const float zero = zeros[dice_below(&dice, 4)];
        worst = fmax(worst, check(engine, &s, zero, 0.0F, 97, &dice));
    }
    print_message("%d shapes: at most %.1e of the sum of sizes\n", rounds, worst);
    oct__engine_close(engine);
}

/* An infinity or a NaN reaches the weights that meet it and no others: padding is left out, not
 * multiplied by zero. */
static void not_finite(void **state) {
    (void)state;
    static const struct shape shapes[] = {
        {3, 1, 1, 2, 5, 5, 16, 16}, {3, 1, 1, 3, 4, 6, 16, 16}, {3, 2, 1, 2, 7, 7, 16, 32}};
    static const float odd[] = {INFINITY, NAN};
    struct oct__engine *engine = open_cpu();
    for (size_t i = 0; i < OCT_COUNT_OF(shapes); i++) {
        for (size_t j = 0; j < OCT_COUNT_OF(odd); j++) {
            struct dice dice = dice_of((uint32_t)(500 + 2 * i + j));
            check(engine, &shapes[i], 128.0F, odd[j], 1, &dice);
        }
    }
    oct__engine_close(engine);
}

static struct oct__tensor of(enum oct__dtype dtype, int n, int h, int w, int c) {
    return (struct oct__tensor){.dtype = dtype, .n = n, .h = h, .w = w, .c = c};
}

/* What is left to others. */
static void served(void **state) {
    (void)state;
    const struct oct__args good = {
        .t = {of(OCT_DTYPE_U8, 2, 4, 4, 16), of(OCT_DTYPE_F32, 1, 1, 1, OCT_GRID),
              of(OCT_DTYPE_BF16, 2, 4, 4, 32), of(OCT_DTYPE_F32, 32, 3, 3, 16)},
        .attr.conv = {.kernel = 3, .stride = 1, .pad = 1, .groups = 1},
    };
    struct oct__args args = good;
    assert_true(oct__wgrad_serves(&args));
    args.t[4] = of(OCT_DTYPE_F32, 1, 1, 1, 32); /* a bias */
    assert_false(oct__wgrad_serves(&args));
    args = good;
    args.t[2].dtype = OCT_DTYPE_F32;
    assert_false(oct__wgrad_serves(&args));
    args = good;
    args.attr.conv.groups = 2;
    assert_false(oct__wgrad_serves(&args));
    args = good;
    args.t[0].n = args.t[2].n = 1; /* nothing to pair */
    assert_false(oct__wgrad_serves(&args));
    args = good;
    args.t[0].c = 24;
    assert_false(oct__wgrad_serves(&args));
    args = good;
    args.t[2].c = 40;
    assert_false(oct__wgrad_serves(&args));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(layers, tensors_free),
        cmocka_unit_test_teardown(blocks, tensors_free),
        cmocka_unit_test_teardown(on_a_gpu, tensors_free),
        cmocka_unit_test_teardown(any_shape, tensors_free),
        cmocka_unit_test_teardown(not_finite, tensors_free),
        cmocka_unit_test(served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
