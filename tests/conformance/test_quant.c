/* SPDX-License-Identifier: Apache-2.0 */
/* test_quant.c - what the 8-bit operations on values owe one another, on every engine.
 *
 *   - an operation that does several things at once has the bits of those things one by one;
 *   - a grid, a scale and their bytes are what the formulas of grid.h say, written again here the
 *     plain way, for ordinary and for odd values: zeros, constants, an outlier, one sign only,
 *     denormals, a batch of one, maps of one position;
 *   - a NaN or an infinity is seen in the scale;
 *   - rounding by chance is unbiased, and its bits depend on seed, node, step and layer alone;
 *   - a cohort of any size has the bits of its nodes.
 *
 * Gradients are test_quant_grad.c's. test_engine.c holds all of these operations to threads,
 * launches and foreign memory, tests/oracle to an oracle in double.
 */
#include <math.h>

#include "kernels/chunks.h"
#include "support/launch.h"

/* --- quantizers, the plain way ---------------------------------------------------------------- */

/* The grid of node `node` of x, whose range (lo, hi) is known, and the bytes. */
static void expect_quantized(const char *what, struct oct__tensor x, int node,
                             const struct oct__grid *grid, struct oct__tensor q,
                             const struct oct__stream *stream_or_null) {
    const uint8_t *bytes = at(q, node);
    for (size_t i = 0; i < count(x); i++) {
        float t = floats(x, node)[i] * grid->inverse;
        t = stream_or_null ? (float)by_chance(stream_or_null, i, (double)t) : rintf(t);
        float byte = t + grid->zero;
        byte = byte > 0.0F ? (byte < 255.0F ? byte : 255.0F) : 0.0F;
        if ((float)bytes[i] != byte) {
            fail_msg("%s: element %zu, %.9g on a grid of %.9g from %g, is byte %d, expected %g",
                     what, i, (double)floats(x, node)[i], (double)grid->scale, (double)grid->zero,
                     bytes[i], (double)byte);
        }
    }
}

static union oct__attr quant_attr(enum oct__range range, int stochastic) {
    return (union oct__attr){.quant = {.range = range, .stochastic = stochastic}};
}

static const char *const range_names[] = {"mean", "full", "running"};

/* Batches and maps: one shard and more, the last one short; one position; blocks of several sizes;
 * so many samples that a block of a GPU has several. */
static const struct {
    int n, h, w, c;
} shapes[] = {{1, 1, 1, 1},    {1, 5, 3, 4},    {19, 1, 1, 10},   {37, 3, 3, 6},   {6, 4, 4, 32},
              {2, 14, 14, 16}, {2, 8, 8, 64},   {1, 2, 8, 128},   {2, 32, 32, 16}, {16, 5, 7, 64},
              {3, 1, 2, 5000}, {191, 2, 2, 16}, {191, 3, 3, 128}, {90, 16, 16, 32}};

/* --- the parts of an operation, one by one ---------------------------------------------------- */

/* A quantizer's three results. */
struct quantized {
    struct oct__tensor running, q, grid;
};

static struct quantized quantized_new(struct oct__tensor x, float lo, float hi) {
    struct quantized out = {vector_new(2), tensor_like(x, OCT_DTYPE_U8), vector_new(OCT_GRID)};
    for (int node = 0; node < LAUNCH_NODES; node++) {
        floats(out.running, node)[0] = lo;
        floats(out.running, node)[1] = hi;
    }
    return out;
}

static void expect_same(const char *who, const char *what, struct quantized found,
                        struct quantized expected) {
    expect_bits(who, what, found.grid, expected.grid);
    expect_bits(who, what, found.running, expected.running);
    expect_bits(who, what, found.q, expected.q);
}

static void check_add(struct oct__engine *engine) {
    const char *who = engine->kind->plugin.name;
    int n_calls = 0;
    for (size_t i = 0; i < OCT_COUNT_OF(shapes); i++) {
        for (int range = OCT_RANGE_MEAN; range <= OCT_RANGE_RUNNING; range++) {
            struct dice dice = dice_of((uint32_t)i);
            struct oct__tensor a =
                tensor_new(OCT_DTYPE_U8, shapes[i].n, shapes[i].h, shapes[i].w, shapes[i].c);
            struct oct__tensor b = tensor_like(a, OCT_DTYPE_U8), x = tensor_like(a, OCT_DTYPE_F32);
            struct oct__tensor y = tensor_like(a, OCT_DTYPE_F32),
                               sum = tensor_like(a, OCT_DTYPE_F32);
            struct oct__tensor a_grid = random_grid(&dice), b_grid = random_grid(&dice);
            struct quantized found = quantized_new(a, -1, 2), expected = quantized_new(a, -1, 2);
            union oct__attr attr = quant_attr((enum oct__range)range, (int)i % 2);
            fill_bytes(a, &dice);
            fill_bytes(b, &dice);
            LAUNCH(engine, ADD_U8, attr, launch_plain, a, a_grid, b, b_grid, found.running, found.q,
                   found.grid);
            LAUNCH(engine, DEQUANTIZE, attr, launch_plain, a, a_grid, x);
            LAUNCH(engine, DEQUANTIZE, attr, launch_plain, b, b_grid, y);
            LAUNCH(engine, ADD, attr, launch_plain, x, y, sum);
            LAUNCH(engine, ADD_DEQUANTIZE, attr, launch_plain, a, a_grid, b, b_grid, y);
            expect_bits(who, "add_dequantize", y, sum);
            LAUNCH(engine, QUANTIZE, attr, launch_plain, sum, expected.running, expected.q,
                   expected.grid);
            expect_same(who, "add_u8", found, expected);
            n_calls++;
        }
        tensors_free(NULL);
    }
    print_message("%s: add_u8 and add_dequantize have the bits of their parts, %d calls\n", who,
                  n_calls);
}

static void add_is_its_parts(void **state) {
    (void)state;
    launch_engines(check_add);
}

/* With and without a bias, with a scale for all outputs or one for each. */
static void check_sums(struct oct__engine *engine) {
    const char *who = engine->kind->plugin.name;
    int n_calls = 0;
    for (size_t i = 0; i < OCT_COUNT_OF(shapes); i++) {
        for (int form = 0; form < 12; form++) {
            struct dice dice = dice_of((uint32_t)(100 * i) + (uint32_t)form);
            const int range = form / 4, has_bias = form & 1, is_split = form >> 1 & 1;
            struct oct__tensor sums =
                tensor_new(OCT_DTYPE_S32, shapes[i].n, shapes[i].h, shapes[i].w, shapes[i].c);
            struct oct__tensor x = tensor_like(sums, OCT_DTYPE_F32), grid = random_grid(&dice);
            struct oct__tensor scale = vector_new(is_split ? sums.c : 1);
            struct oct__tensor bias = has_bias ? vector_new(sums.c) : absent;
            struct quantized found = quantized_new(sums, -1, 2);
            struct quantized expected = quantized_new(sums, -1, 2);
            union oct__attr attr = quant_attr((enum oct__range)range, (int)i % 2);
            fill_sums(sums, &dice, 1 << (3 * (i % 8) + 8)); /* up to sums that an f32 rounds */
            fill_positive(scale, &dice, 0.01);
            if (has_bias) {
                fill_normal(bias, &dice, 3);
            }
            LAUNCH(engine, SUMS_QUANTIZE, attr, launch_plain, sums, grid, scale, bias,
                   found.running, found.q, found.grid);
            LAUNCH(engine, SUMS_DEQUANTIZE, attr, launch_plain, sums, grid, scale, bias, x);
            for (size_t j = 0; j < count(x); j++) {
                const size_t o = j % (size_t)x.c;
                float m = grid_at(grid, 2)->scale * floats(scale, 2)[is_split ? o : 0];
                float real = m * (float)((int32_t *)at(sums, 2))[j];
                real = has_bias ? real + floats(bias, 2)[o] : real;
                if (floats(x, 2)[j] != real) {
                    fail_msg("%s, sums_dequantize: %.9g, expected %.9g", who,
                             (double)floats(x, 2)[j], (double)real);
                }
            }
            LAUNCH(engine, QUANTIZE, attr, launch_plain, x, expected.running, expected.q,
                   expected.grid);
            expect_same(who, "sums_quantize", found, expected);
            n_calls++;
        }
        tensors_free(NULL);
    }
    print_message("%s: sums_quantize has the bits of its parts, %d calls\n", who, n_calls);
}

static void sums_are_their_parts(void **state) {
    (void)state;
    launch_engines(check_sums);
}

/* Channels and groups for the shapes above. */
static int groups_of(int c) {
    return c % 8 == 0 ? 8 : c % 2 == 0 ? 2 : 1;
}

static union oct__attr norm_attr(struct oct__tensor x, enum oct__range range, int form) {
    return (union oct__attr){.norm = {.groups = groups_of(x.c),
                                      .eps = 1e-5F,
                                      .reach = form == 6   ? 2.0F
                                               : form == 7 ? 24.0F
                                                           : 0.0F,
                                      .quantize_scale = range != OCT_RANGE_RUNNING && form % 2,
                                      .quant = {range, form / 2 % 2, form % 2}}};
}

/* The largest magnitude in group `group` of all samples' groups. */
static float farthest(struct oct__tensor q, const struct oct__grid *grid, int node, int groups,
                      size_t group) {
    const size_t width = (size_t)(q.c / groups), hw = (size_t)q.h * (size_t)q.w;
    const size_t sample = group / (size_t)groups, first = group % (size_t)groups * width;
    const uint8_t *bytes = (const uint8_t *)q.at + (size_t)node * q.stride;
    float far = 0.0F;
    for (size_t i = 0; i < hw * width; i++) {
        const size_t at = (sample * hw + i / width) * (size_t)q.c + first + i % width;
        far = fmaxf(far, fabsf(grid->scale * ((float)bytes[at] - grid->zero)));
    }
    return far;
}

/* Holds the scales of floats to what a spread of one step of the bytes' grid gives, and to what
 * lets no value reach too far, as the norm on bytes does; whether that changed any. */
static int hold_scales(struct oct__tensor scale, struct oct__tensor grid, struct oct__tensor q,
                       const struct oct__norm_attr *attr) {
    const size_t n = (size_t)scale.n * (size_t)scale.c;
    const size_t values = (size_t)q.h * (size_t)q.w * (size_t)q.c / (size_t)scale.c;
    const float factor = oct__range_factor(values / oct__chunk_count(values));
    const float share = oct__spread_least(attr->reach, factor);
    int changed = 0;
    for (int node = 0; node < LAUNCH_NODES; node++) {
        for (size_t i = 0; i < n; i++) {
            const float far = farthest(q, grid_at(grid, node), node, scale.c, i);
            const float least = fmaxf(share * far, floats(grid, node)[0]);
            const float most = 1.0F / (least * factor + attr->eps);
            if (floats(scale, node)[i] > most) {
                floats(scale, node)[i] = most;
                changed = 1;
            }
        }
    }
    return changed;
}

/* Channels all of whose values lie beyond one end of their grid or the other. */
static void leave_grid(struct oct__tensor q) {
    const size_t n = oct__tensor_count(&q);
    for (int node = 0; node < LAUNCH_NODES; node++) {
        uint8_t *bytes = (uint8_t *)q.at + (size_t)node * q.stride;
        for (size_t i = 0; i < n; i++) {
            bytes[i] = i % (size_t)q.c % 3 == 1 ? 255 : 0;
        }
    }
}

/* Forward, then backward with what forward left. */
static void check_norm_call(struct oct__engine *engine, struct oct__tensor q,
                            struct oct__tensor grid, union oct__attr attr, int is_per_sample,
                            int is_bf16, struct dice *dice) {
    const char *who = engine->kind->plugin.name;
    const union oct__attr quant = {.quant = attr.norm.quant};
    struct oct__tensor x = tensor_like(q, OCT_DTYPE_F32), y = tensor_like(q, OCT_DTYPE_F32);
    struct oct__tensor gamma = vector_new(q.c), beta = vector_new(q.c), v = vector_new(q.c);
    struct oct__tensor scale[2], used[2], sums[2][3];
    struct quantized found = quantized_new(q, 0, 0), expected = quantized_new(q, 0, 0);
    fill_normal(gamma, dice, 1);
    fill_normal(beta, dice, 1);
    fill_normal(v, dice, 1);
    for (int i = 0; i < 2; i++) {
        scale[i] = tensor_new(OCT_DTYPE_F32, q.n, 1, 1, attr.norm.groups);
        used[i] = tensor_new(OCT_DTYPE_F32, q.n, 1, 1, attr.norm.groups);
        for (int j = 0; j < 3; j++) {
            sums[i][j] = vector_new(q.c);
        }
    }
    LAUNCH(engine, RANGE_EVONORM_U8, attr, launch_plain, q, grid, gamma, beta, v, found.running,
           scale[0], used[0], found.q, found.grid);
    LAUNCH(engine, DEQUANTIZE, quant, launch_plain, q, grid, x);
    LAUNCH(engine, RANGE_EVONORM, attr, launch_plain, x, gamma, beta, v, scale[1], used[1], y);
    LAUNCH(engine, QUANTIZE, quant, launch_plain, y, expected.running, expected.q, expected.grid);
    const int is_held = hold_scales(scale[1], grid, q, &attr.norm);
    expect_bits(who, "range_evonorm_u8's scale", scale[0], scale[1]);
    if (!is_held) {
        expect_bits(who, "range_evonorm_u8's used scale", used[0], used[1]);
        expect_same(who, "range_evonorm_u8", found, expected);
    }

    struct oct__tensor dy = tensor_like(q, OCT_DTYPE_S8), dy_float = tensor_like(q, OCT_DTYPE_F32);
    struct oct__tensor dy_scale = scales_new(is_per_sample ? q.n : 1);
    struct oct__tensor dx_float = tensor_like(q, OCT_DTYPE_F32);
    struct oct__tensor dx[2] = {tensor_like(q, is_bf16 ? OCT_DTYPE_BF16 : OCT_DTYPE_F32),
                                tensor_like(q, is_bf16 ? OCT_DTYPE_BF16 : OCT_DTYPE_F32)};
    const int has_mask = attr.norm.quant.mask;
    fill_bytes(dy, dice);
    fill_positive(dy_scale, dice, 0.01);
    LAUNCH(engine, RANGE_EVONORM_U8_GRAD, attr, launch_plain, q, grid, gamma, v, scale[0], used[0],
           dy, dy_scale, dx[0], sums[0][0], sums[0][1], sums[0][2]);
    LAUNCH(engine, GRAD_JOIN, quant, launch_plain, dy, dy_scale, absent, absent, absent, absent,
           dy_float);
    LAUNCH(engine, RANGE_EVONORM_GRAD, attr, launch_plain, x, gamma, v, scale[0], used[0], dy_float,
           dx_float, sums[1][0], sums[1][1], sums[1][2]);
    LAUNCH(engine, GRAD_JOIN, quant, launch_plain, dx_float, absent, absent, absent,
           has_mask ? q : absent, has_mask ? grid : absent, dx[1]);
    expect_bits(who, "range_evonorm_u8_grad's dx", dx[0], dx[1]);
    for (int j = 0; j < 3; j++) {
        expect_bits(who, "range_evonorm_u8_grad's sums", sums[0][j], sums[1][j]);
    }
}

static void check_norm(struct oct__engine *engine) {
    int n_calls = 0;
    for (size_t i = 0; i < OCT_COUNT_OF(shapes); i++) {
        for (int form = 0; form < 8; form++) {
            struct dice dice = dice_of((uint32_t)(100 * i) + (uint32_t)form);
            struct oct__tensor q =
                tensor_new(OCT_DTYPE_U8, shapes[i].n, shapes[i].h, shapes[i].w, shapes[i].c);
            struct oct__tensor grid = random_grid(&dice);
            fill_bytes(q, &dice);
            if (form == 5) { /* a map without a spread */
                memset(q.at, 77, LAUNCH_NODES * q.stride);
            }
            if (form == 7) {
                leave_grid(q);
            }
            check_norm_call(engine, q, grid, norm_attr(q, (enum oct__range)(form % 3), form),
                            form % 2, form / 2 % 2, &dice);
            tensors_free(NULL);
            n_calls++;
        }
    }
    print_message("%s: range_evonorm_u8 and its gradient have the bits of their parts, %d calls\n",
                  engine->kind->plugin.name, n_calls);
}

/* Chunks follow channels, so those of a sample that left its grid have no spread, and a scale that
 * knows nothing else makes its values hundreds of deviations. `reach` holds them. */
static void check_reach(struct oct__engine *engine) {
    struct dice dice = dice_of(3);
    struct oct__tensor q = tensor_new(OCT_DTYPE_U8, 2, 8, 8, 64), grid = random_grid(&dice);
    struct oct__tensor ones = vector_new(64), scale = tensor_new(OCT_DTYPE_F32, 2, 1, 1, 8);
    struct oct__tensor used = tensor_new(OCT_DTYPE_F32, 2, 1, 1, 8);
    struct quantized y = quantized_new(q, 0, 0);
    leave_grid(q);
    for (int i = 0; i < 2; i++) {
        const union oct__attr attr = {.norm = {.groups = 8,
                                               .eps = 1e-5F,
                                               .reach = i ? 24.0F : 0.0F,
                                               .quant = {OCT_RANGE_MEAN, 0, 0}}};
        LAUNCH(engine, RANGE_EVONORM_U8, attr, launch_plain, q, grid, ones, ones, ones, y.running,
               scale, used, y.q, y.grid);
        for (size_t group = 0; group < 16; group++) {
            const float far = farthest(q, grid_at(grid, 0), 0, 8, group);
            const float reach = far * floats(used, 0)[group];
            if (i ? reach > 24.001F || reach < 23.0F : reach < 200.0F) {
                fail_msg("%s: reach %g: a value of group %zu is %g deviations",
                         engine->kind->plugin.name, (double)attr.norm.reach, group, (double)reach);
            }
        }
    }
    tensors_free(NULL);
}

static void no_value_reaches_too_far(void **state) {
    (void)state;
    launch_engines(check_reach);
}

static void norms_are_their_parts(void **state) {
    (void)state;
    launch_engines(check_norm);
}

/* --- grids ----------------------------------------------------------------------------------- */

/* x = base for all, but x = odd for the first element of the last sample. Expected ranges. */
static const struct {
    const char *name;
    int n, h, w, c;
    float base, odd;
    float mean[2], full[2];
} batches[] = {
    {"zeros", 4, 3, 3, 2, 0, 0, {0, 0}, {0, 0}},
    {"minus zeros", 4, 3, 3, 2, -0.0F, -0.0F, {0, 0}, {0, 0}},
    {"the constant 5.1", 20, 3, 3, 2, 5.1F, 5.1F, {0, 5.1F}, {0, 5.1F}},
    {"the constant -5.1", 20, 3, 3, 2, -5.1F, -5.1F, {-5.1F, 0}, {-5.1F, 0}},
    {"positive values", 2, 3, 3, 2, 2, 6, {0, 4}, {0, 6}},
    {"negative values", 2, 3, 3, 2, -2, -6, {-4, 0}, {-6, 0}},
    {"both signs", 4, 3, 3, 2, -1, 254, {-1, 62.75F}, {-1, 254}},
    {"a huge outlier", 4, 3, 3, 2, 1, 0x1p100F, {0, 0x1p98F}, {0, 0x1p100F}},
    {"a huge negative outlier", 4, 3, 3, 2, 1, -0x1p100F, {-0x1p98F, 1}, {-0x1p100F, 1}},
    {"denormals", 4, 3, 3, 2, 1e-40F, -1e-40F, {0, 0}, {0, 0}},
    {"a batch of one", 1, 3, 3, 2, -3, 5, {-3, 5}, {-3, 5}},
    {"one number", 1, 1, 1, 1, 7, 7, {0, 7}, {0, 7}},
    {"maps of one position", 33, 1, 1, 5, -33, 0, {-33, 0}, {-33, 0}},
};

static void check_grids(struct oct__engine *engine) {
    for (size_t i = 0; i < OCT_COUNT_OF(batches); i++) {
        for (int range = OCT_RANGE_MEAN; range <= OCT_RANGE_FULL; range++) {
            struct oct__tensor x =
                tensor_new(OCT_DTYPE_F32, batches[i].n, batches[i].h, batches[i].w, batches[i].c);
            struct oct__tensor back = tensor_like(x, OCT_DTYPE_F32);
            struct quantized out = quantized_new(x, 0, 0);
            fill_batch(x, batches[i].base, batches[i].odd);
            LAUNCH(engine, QUANTIZE, quant_attr((enum oct__range)range, 0), launch_plain, x,
                   out.running, out.q, out.grid);
            LAUNCH(engine, DEQUANTIZE, quant_attr((enum oct__range)range, 0), launch_plain, out.q,
                   out.grid, back);
            const float *expected = range == OCT_RANGE_MEAN ? batches[i].mean : batches[i].full;
            const float *found = floats(out.running, 1);
            const struct oct__grid *grid = grid_at(out.grid, 1);
            print_message("%s, %s, %s: range %g … %g, scale %g, zero %g\n",
                          engine->kind->plugin.name, batches[i].name, range_names[range],
                          (double)found[0], (double)found[1], (double)grid->scale,
                          (double)grid->zero);
            /* A denormal's range is as good as none; it is what was seen all the same. */
            for (int j = 0; j < 2; j++) {
                assert_true(fabsf(found[j] - expected[j]) <= 1e-39F + 1e-6F * fabsf(expected[j]));
            }
            const double span = (double)found[1] - (double)found[0];
            const double scale = fmax(span, 1e-8) / 255;
            assert_true(fabs((double)grid->scale - scale) <= 1e-6 * scale);
            assert_true(fabs((double)grid->inverse * (double)grid->scale - 1) <= 1e-6);
            assert_true(grid->zero == rintf(grid->zero) && grid->zero >= 0 && grid->zero <= 255);
            assert_true(fabs((double)grid->zero + (double)found[0] / scale) <= 0.501);
            assert_true(grid->unused == 0);
            expect_quantized(batches[i].name, x, 1, grid, out.q, NULL);
            for (size_t j = 0; j < count(x); j++) { /* within half a step, or clipped */
                double real = (double)floats(x, 1)[j];
                real = fmin(fmax(real, (double)found[0]), (double)found[1]);
                assert_true(fabs(real - (double)floats(back, 1)[j]) <= 0.5001 * scale);
            }
        }
        tensors_free(NULL);
    }
}

static void grids_of_odd_batches(void **state) {
    (void)state;
    launch_engines(check_grids);
}

/* Two samples whose extremes average to -1 and 254, so that a step is 1. */
static void check_clipping(struct oct__engine *engine) {
    struct oct__tensor x = tensor_new(OCT_DTYPE_F32, 2, 10, 15, 2),
                       back = tensor_like(x, OCT_DTYPE_F32);
    struct quantized mean = quantized_new(x, 0, 0), full = quantized_new(x, 0, 0);
    int clipped[2] = {0, 0};
    for (size_t i = 0; i < 300; i++) {
        floats(x, 0)[i] = 10.0F + (float)(i % 100);         /* 10 … 109 */
        floats(x, 0)[300 + i] = -12.0F + 1.375F * (float)i; /* -12 … 399.125 */
    }
    floats(x, 0)[599] = 399.0F;
    LAUNCH(engine, QUANTIZE, quant_attr(OCT_RANGE_MEAN, 0), launch_plain, x, mean.running, mean.q,
           mean.grid);
    const struct oct__grid *grid = grid_at(mean.grid, 0);
    assert_true(floats(mean.running, 0)[0] == -1 && floats(mean.running, 0)[1] == 254);
    assert_true(grid->scale == 1 && grid->inverse == 1 && grid->zero == 1);
    for (size_t i = 0; i < count(x); i++) {
        const double real = (double)floats(x, 0)[i], byte = bytes_at(mean.q, 0)[i];
        const int is_low = real<-1.5, is_high = real> 254.5;
        clipped[0] += is_low;
        clipped[1] += is_high;
        assert_true(is_low ? byte == 0 : is_high ? byte == 255 : fabs(real - (byte - 1)) <= 0.5);
    }
    print_message("%s: %d values below and %d above the mean range were clipped, no other\n",
                  engine->kind->plugin.name, clipped[0], clipped[1]);
    assert_true(clipped[0] == 8 && clipped[1] == 106);

    LAUNCH(engine, QUANTIZE, quant_attr(OCT_RANGE_FULL, 0), launch_plain, x, full.running, full.q,
           full.grid);
    LAUNCH(engine, DEQUANTIZE, quant_attr(OCT_RANGE_FULL, 0), launch_plain, full.q, full.grid,
           back);
    assert_true(floats(full.running, 0)[0] == -12 && floats(full.running, 0)[1] == 399);
    for (size_t i = 0; i < count(x); i++) {
        double error = fabs((double)floats(x, 0)[i] - (double)floats(back, 0)[i]);
        assert_true(error <= 0.50001 * (double)grid_at(full.grid, 0)->scale);
    }
    tensors_free(NULL);
}

static void ranges_clip_what_they_should(void **state) {
    (void)state;
    launch_engines(check_clipping);
}

/* The first batch sets the running range, later ones move it, evaluation reads it. */
static void check_running(struct oct__engine *engine) {
    struct oct__tensor x = tensor_new(OCT_DTYPE_F32, 4, 3, 3, 2);
    struct quantized out = quantized_new(x, 0, 0);
    static const struct {
        enum oct__range range;
        float least, largest;
        double expected[2];
    } steps[] = {
        {OCT_RANGE_RUNNING, -9, 9, {0, 0}},        {OCT_RANGE_MEAN, -2, 4, {-2, 4}},
        {OCT_RANGE_MEAN, -4, 2, {-3.8, 2.2}},      {OCT_RANGE_FULL, 1, 3, {-0.38, 2.92}},
        {OCT_RANGE_RUNNING, -9, 9, {-0.38, 2.92}}, {OCT_RANGE_MEAN, -3, -1, {-2.738, 0.292}},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(steps); i++) {
        for (int node = 0; node < LAUNCH_NODES; node++) {
            for (size_t j = 0; j < count(x); j++) {
                floats(x, node)[j] = j % 2 ? steps[i].least : steps[i].largest;
            }
        }
        LAUNCH(engine, QUANTIZE, quant_attr(steps[i].range, 0), launch_plain, x, out.running, out.q,
               out.grid);
        const float *running = floats(out.running, 2);
        print_message("%s: %s, values of %g … %g: running range %.7g … %.7g\n",
                      engine->kind->plugin.name, range_names[steps[i].range],
                      (double)steps[i].least, (double)steps[i].largest, (double)running[0],
                      (double)running[1]);
        for (int j = 0; j < 2; j++) {
            assert_true(fabs((double)running[j] - steps[i].expected[j]) <= 1e-6);
        }
        if (steps[i].range == OCT_RANGE_RUNNING) {
            const double span = fmax((double)running[1] - (double)running[0], 1e-8);
            assert_true(fabs((double)grid_at(out.grid, 2)->scale * 255 - span) <= 1e-6 * span);
        }
        expect_quantized("a running range", x, 2, grid_at(out.grid, 2), out.q, NULL);
    }
    tensors_free(NULL);
}

static void running_ranges(void **state) {
    (void)state;
    launch_engines(check_running);
}

static const float strange[] = {INFINITY, -INFINITY, NAN, -NAN};

/* One strange value among others, first, last or in between, makes the scale strange. */
static void check_strange(struct oct__engine *engine) {
    int n_calls = 0;
    for (size_t i = 0; i < OCT_COUNT_OF(strange); i++) {
        for (int range = OCT_RANGE_MEAN; range <= OCT_RANGE_FULL; range++) {
            for (size_t where = 0; where < 20 * 18; where += 7) {
                struct oct__tensor x = tensor_new(OCT_DTYPE_F32, 20, 3, 3, 2);
                struct quantized out = quantized_new(x, -1, 1);
                fill_batch(x, 1, 2);
                floats(x, 1)[where] = strange[i];
                LAUNCH(engine, QUANTIZE, quant_attr((enum oct__range)range, 0), launch_plain, x,
                       out.running, out.q, out.grid);
                const float *running = floats(out.running, 1);
                assert_false(isfinite(grid_at(out.grid, 1)->scale));
                assert_false(isfinite(running[0]) && isfinite(running[1]));
                assert_true(isfinite(grid_at(out.grid, 0)->scale));
                assert_true(grid_at(out.grid, 1)->zero >= 0 && grid_at(out.grid, 1)->zero <= 255);

                struct oct__tensor q = tensor_like(x, OCT_DTYPE_S8), scale = vector_new(1);
                struct oct__tensor scales = scales_new(x.n);
                LAUNCH(engine, GRAD_QUANTIZE, (union oct__attr){0}, launch_plain, x, absent, absent,
                       absent, absent, absent, absent, q, scale);
                LAUNCH(engine, GRAD_QUANTIZE, (union oct__attr){0}, launch_plain, x, absent, absent,
                       absent, absent, absent, absent, q, scales);
                assert_false(isfinite(floats(scale, 1)[0]));
                assert_true(isfinite(floats(scale, 0)[0]));
                for (size_t j = 0; j < (size_t)x.n; j++) {
                    assert_int_equal(isfinite(floats(scales, 1)[j]) != 0,
                                     j != where / sample_count(x));
                }
                LAUNCH(engine, WEIGHT_QUANTIZE, (union oct__attr){0}, launch_plain, x, q, scale);
                assert_false(isfinite(floats(scale, 1)[0]));
                n_calls++;
            }
            tensors_free(NULL);
        }
    }
    print_message("%s: %d batches with a NaN or an infinity, seen in every scale\n",
                  engine->kind->plugin.name, n_calls);
}

/* A strange scale that comes in shows in the scale that goes out. */
static void check_strange_scales(struct oct__engine *engine) {
    for (size_t i = 0; i < OCT_COUNT_OF(strange); i++) {
        const float odd = fabsf(strange[i]);
        struct dice dice = dice_of(3);
        struct oct__tensor a = tensor_new(OCT_DTYPE_U8, 3, 4, 4, 8),
                           b = tensor_like(a, OCT_DTYPE_U8);
        struct oct__tensor sums = tensor_like(a, OCT_DTYPE_S32), q = tensor_like(a, OCT_DTYPE_S8);
        struct oct__tensor a_grid = random_grid(&dice), b_grid = random_grid(&dice);
        struct oct__tensor one = vector_new(1), ones = vector_new(8), scale = vector_new(1);
        struct oct__tensor norm_scale = tensor_new(OCT_DTYPE_F32, 3, 1, 1, 8);
        struct oct__tensor used = tensor_new(OCT_DTYPE_F32, 3, 1, 1, 8);
        struct quantized out = quantized_new(a, 0, 0);
        fill_bytes(a, &dice);
        fill_bytes(b, &dice);
        fill_sums(sums, &dice, 1000);
        fill_positive(ones, &dice, 1);
        floats(one, 0)[0] = odd;
        set_grid(b_grid, odd, 0);
        LAUNCH(engine, ADD_U8, quant_attr(OCT_RANGE_MEAN, 0), launch_plain, a, a_grid, b, b_grid,
               out.running, out.q, out.grid);
        assert_false(isfinite(grid_at(out.grid, 0)->scale));
        LAUNCH(engine, SUMS_QUANTIZE, quant_attr(OCT_RANGE_MEAN, 0), launch_plain, sums, a_grid,
               one, absent, out.running, out.q, out.grid);
        assert_false(isfinite(grid_at(out.grid, 0)->scale));
        LAUNCH(engine, SUMS_QUANTIZE, quant_attr(OCT_RANGE_FULL, 0), launch_plain, sums, b_grid,
               ones, ones, out.running, out.q, out.grid);
        assert_false(isfinite(grid_at(out.grid, 0)->scale));
        LAUNCH(engine, GRAD_QUANTIZE, (union oct__attr){0}, launch_plain, sums, one, absent, absent,
               absent, absent, absent, q, scale);
        assert_false(isfinite(floats(scale, 0)[0]));
        LAUNCH(engine, GRAD_QUANTIZE, (union oct__attr){0}, launch_plain, sums, scale, absent,
               absent, absent, absent, one, q, scale);
        assert_false(isfinite(floats(scale, 0)[0]));
        LAUNCH(engine, RANGE_EVONORM_U8, norm_attr(a, OCT_RANGE_MEAN, 0), launch_plain, a, b_grid,
               ones, ones, ones, out.running, norm_scale, used, out.q, out.grid);
        assert_false(isfinite(grid_at(out.grid, 0)->scale));
    }
    tensors_free(NULL);
}

static void strange_values_are_seen(void **state) {
    (void)state;
    launch_engines(check_strange);
    launch_engines(check_strange_scales);
}

/* --- chance ---------------------------------------------------------------------------------- */

/* x holds one value; the mean of its bytes must be it, within five standard deviations. */
static void expect_unbiased(const char *who, double sum, size_t n, double t) {
    const double share = t - floor(t), mean = sum / (double)n;
    const double deviation = sqrt(share * (1 - share) / (double)n);
    print_message("%s: %zu times %.3f gives %.4f on average, within %.1f deviations\n", who, n, t,
                  mean, deviation > 0 ? fabs(mean - t) / deviation : 0);
    assert_true(fabs(mean - t) <= 5 * deviation + 1e-5);
}

static void check_unbiased(struct oct__engine *engine) {
    static const float shares[] = {0.0F, 0.03125F, 0.3125F, 0.5F, 0.75F, 0.96875F};
    for (size_t i = 0; i < OCT_COUNT_OF(shares); i++) {
        struct oct__tensor x = tensor_new(OCT_DTYPE_F32, 17, 16, 16, 8);
        struct oct__tensor q = tensor_like(x, OCT_DTYPE_S8), scale = vector_new(1);
        struct quantized out = quantized_new(x, 0, 0);
        const size_t n = count(x) - 2;
        double value = 0, gradient = 0;
        for (size_t j = 0; j < n; j++) {
            floats(x, 0)[j] = -shares[i]; /* negative numbers round by chance too, not to zero */
        }
        /* With these two, steps are 1 for the u8 grid (-63 … 192, zero 63) and 2 for s8 (254). */
        floats(x, 0)[n] = -63;
        floats(x, 0)[n + 1] = 192;
        LAUNCH(engine, QUANTIZE, quant_attr(OCT_RANGE_FULL, 1), launch_plain, x, out.running, out.q,
               out.grid);
        assert_true(grid_at(out.grid, 0)->scale == 1 && grid_at(out.grid, 0)->zero == 63);
        floats(x, 0)[n + 1] = 254;
        LAUNCH(engine, GRAD_QUANTIZE, (union oct__attr){0}, launch_plain, x, absent, absent, absent,
               absent, absent, absent, q, scale);
        assert_true(floats(scale, 0)[0] == 2);
        for (size_t j = 0; j < n; j++) {
            value += (double)bytes_at(out.q, 0)[j] - 63;
            gradient += (double)signed_at(q, 0)[j];
        }
        expect_unbiased(engine->kind->plugin.name, value, n, -(double)shares[i]);
        expect_unbiased(engine->kind->plugin.name, gradient, n, -(double)shares[i] / 2);
        tensors_free(NULL);
    }
}

static void chance_is_unbiased(void **state) {
    (void)state;
    launch_engines(check_unbiased);
}

static size_t differences(struct oct__tensor a, struct oct__tensor b) {
    size_t n = 0;
    for (size_t i = 0; i < LAUNCH_NODES * a.stride; i++) {
        n += ((const uint8_t *)a.at)[i] != ((const uint8_t *)b.at)[i];
    }
    return n;
}

/* The names of random bits are all that they depend on. */
static void check_named(struct oct__engine *engine) {
    struct dice dice = dice_of(8);
    struct oct__tensor x = tensor_new(OCT_DTYPE_F32, 37, 5, 5, 6);
    struct oct__tensor q = tensor_like(x, OCT_DTYPE_S8), scale = vector_new(1);
    struct quantized out = quantized_new(x, 0, 0);
    union oct__attr attr = quant_attr(OCT_RANGE_MEAN, 1);
    fill_normal(x, &dice, 1);
    LAUNCH(engine, QUANTIZE, attr, launch_plain, x, out.running, out.q, out.grid);
    LAUNCH(engine, GRAD_QUANTIZE, attr, launch_plain, x, absent, absent, absent, absent, absent,
           absent, q, scale);
    for (int node = 0; node < LAUNCH_NODES; node++) {
        struct oct__stream stream =
            oct__stream(launch_plain.seed, OCT_PURPOSE_ROUND_VALUE,
                        LAUNCH_FIRST_NODE + (uint32_t)node, launch_plain.step, LAUNCH_LAYER);
        expect_quantized("by chance", x, node, grid_at(out.grid, node), out.q, &stream);
    }
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        for (int n_nodes = 1; n_nodes <= LAUNCH_NODES; n_nodes++) {
            struct quantized again = quantized_new(x, 0, 0);
            struct oct__tensor q_again = tensor_like(q, OCT_DTYPE_S8), scale_again = vector_new(1);
            for (int first = 0; first < LAUNCH_NODES; first += n_nodes) {
                struct launch_way way = launch_plain;
                way.first = first;
                way.n_nodes = LAUNCH_NODES - first < n_nodes ? LAUNCH_NODES - first : n_nodes;
                way.n_threads = n_threads;
                LAUNCH(engine, QUANTIZE, attr, way, x, again.running, again.q, again.grid);
                LAUNCH(engine, GRAD_QUANTIZE, attr, way, x, absent, absent, absent, absent, absent,
                       absent, q_again, scale_again);
            }
            expect_same(engine->kind->plugin.name, "nodes and threads", again, out);
            expect_bits(engine->kind->plugin.name, "nodes and threads", q_again, q);
            expect_bits(engine->kind->plugin.name, "nodes and threads", scale_again, scale);
        }
    }
    /* Another seed or step draws anew; evaluation does not draw at all. */
    struct quantized other = quantized_new(x, 0, 0);
    struct oct__tensor q_other = tensor_like(q, OCT_DTYPE_S8);
    struct launch_way way = launch_plain;
    way.step++;
    LAUNCH(engine, QUANTIZE, attr, way, x, other.running, other.q, other.grid);
    LAUNCH(engine, GRAD_QUANTIZE, attr, way, x, absent, absent, absent, absent, absent, absent,
           q_other, scale);
    const size_t by_step[2] = {differences(other.q, out.q), differences(q_other, q)};
    other = quantized_new(x, 0, 0);
    way = launch_plain;
    way.seed++;
    LAUNCH(engine, QUANTIZE, attr, way, x, other.running, other.q, other.grid);
    const size_t by_seed = differences(other.q, out.q);
    attr.quant.range = OCT_RANGE_RUNNING;
    LAUNCH(engine, QUANTIZE, attr, launch_plain, x, other.running, other.q, other.grid);
    expect_quantized("evaluation", x, 1, grid_at(other.grid, 1), other.q, NULL);
    print_message("%s: of %zu bytes, another step changes %zu and %zu, another seed %zu\n",
                  engine->kind->plugin.name, LAUNCH_NODES * count(x), by_step[0], by_step[1],
                  by_seed);
    assert_true(by_step[0] > count(x) / 4 && by_step[1] > count(x) / 4 && by_seed > count(x) / 4);
    tensors_free(NULL);
}

static void chance_has_a_name(void **state) {
    (void)state;
    launch_engines(check_named);
}

/* --- cohorts ---------------------------------------------------------------------------------- */

/* More nodes than an engine's launch may have; `c` elements of each. */
enum { MANY = 1030, FEW = 103 };

static struct oct__tensor many_new(enum oct__dtype dtype, int c) {
    struct oct__tensor all = tensor_new(dtype, 1, 1, 1, MANY * c);
    all.c = c;
    all.stride = oct__tensor_bytes(&all);
    return all;
}

static void expect_same_of_many(const char *who, struct oct__tensor found,
                                struct oct__tensor expected) {
    for (int node = 0; node < MANY; node++) {
        if (memcmp(at(found, node), at(expected, node), found.stride) != 0) {
            fail_msg("%s: node %d of %d has other bits than in a launch of %d", who, node, MANY,
                     FEW);
        }
    }
}

/* One launch, and as many as it takes with a few nodes each. */
static void check_many(struct oct__engine *engine) {
    enum { C = 16 };
    struct dice dice = dice_of(9);
    struct oct__tensor x = many_new(OCT_DTYPE_F32, C), out[2][5];
    for (size_t i = 0; i < (size_t)MANY * C; i++) {
        floats(x, 0)[i] = (float)dice_normal(&dice);
    }
    for (int form = 0; form < 2; form++) {
        const int step = form == 0 ? MANY : FEW;
        struct oct__tensor *y = out[form];
        y[0] = many_new(OCT_DTYPE_F32, 2); /* running range, bytes, grid; bytes, scale */
        y[1] = many_new(OCT_DTYPE_U8, C);
        y[2] = many_new(OCT_DTYPE_F32, OCT_GRID);
        y[3] = many_new(OCT_DTYPE_S8, C);
        y[4] = many_new(OCT_DTYPE_F32, 1);
        for (int first = 0; first < MANY; first += step) {
            struct launch_way way = launch_plain;
            way.first = first;
            way.n_nodes = step;
            LAUNCH(engine, QUANTIZE, quant_attr(OCT_RANGE_MEAN, 1), way, x, y[0], y[1], y[2]);
            LAUNCH(engine, GRAD_QUANTIZE, (union oct__attr){0}, way, x, absent, absent, absent,
                   absent, absent, absent, y[3], y[4]);
        }
    }
    for (int i = 0; i < 5; i++) {
        expect_same_of_many(engine->kind->plugin.name, out[0][i], out[1][i]);
    }
}

static void cohorts_of_any_size(void **state) {
    (void)state;
    launch_engines(check_many);
}

/* --- the rest -------------------------------------------------------------------------------- */

static void check_vectors(struct oct__engine *engine) {
    struct dice dice = dice_of(2);
    struct oct__tensor x = vector_new(1000), y = vector_new(1000), same = vector_new(7),
                       one = vector_new(1);
    fill_normal(x, &dice, 1);
    LAUNCH(engine, VECTOR_QUANTIZE, (union oct__attr){0}, launch_plain, x, y);
    for (int node = 0; node < LAUNCH_NODES; node++) {
        float lo = floats(x, node)[0], hi = lo;
        for (size_t i = 0; i < 1000; i++) {
            lo = floats(x, node)[i] < lo ? floats(x, node)[i] : lo;
            hi = floats(x, node)[i] > hi ? floats(x, node)[i] : hi;
        }
        const double step = ((double)hi - (double)lo) / 255;
        double worst = 0;
        for (size_t i = 0; i < 1000; i++) {
            const double from = (double)floats(x, node)[i], to = (double)floats(y, node)[i];
            const double level = (to - (double)lo) / step;
            assert_true(fabs(level - rint(level)) < 1e-3);
            worst = fmax(worst, fabs(from - to));
        }
        print_message("%s: a vector of %g … %g moves by %g at most, a step is %g\n",
                      engine->kind->plugin.name, (double)lo, (double)hi, worst, step);
        assert_true(worst <= 0.5001 * step && worst > 0.4 * step);
    }
    static const float constants[] = {0, -0.0F, 1, -3e30F, 1e-40F, INFINITY};
    for (size_t i = 0; i < OCT_COUNT_OF(constants); i++) {
        for (int j = 0; j < 7; j++) {
            floats(same, 0)[j] = constants[i];
        }
        floats(one, 0)[0] = constants[i];
        LAUNCH(engine, VECTOR_QUANTIZE, (union oct__attr){0}, launch_plain, same,
               y = vector_new(7));
        LAUNCH(engine, VECTOR_QUANTIZE, (union oct__attr){0}, launch_plain, one, one);
        for (int j = 0; j < 8; j++) {
            const float found = j < 7 ? floats(y, 0)[j] : floats(one, 0)[0];
            assert_true(isfinite(constants[i]) ? memcmp(&found, &constants[i], sizeof found) == 0
                                               : !isfinite(found));
        }
    }
    floats(same, 0)[3] = NAN;
    LAUNCH(engine, VECTOR_QUANTIZE, (union oct__attr){0}, launch_plain, same, y);
    for (int j = 0; j < 7; j++) {
        assert_false(isfinite(floats(y, 0)[j]));
    }
    tensors_free(NULL);
}

static void vectors(void **state) {
    (void)state;
    launch_engines(check_vectors);
}

static void check_counts(struct oct__engine *engine) {
    struct oct__tensor q = tensor_new(OCT_DTYPE_U8, 2, 5, 5, 2), s = tensor_like(q, OCT_DTYPE_S8);
    struct oct__tensor grid = vector_new(OCT_GRID), counts = vector_new(4), scale = vector_new(1);
    struct oct__tensor scales = scales_new(2), e = tensor_like(q, OCT_DTYPE_E8);
    for (size_t i = 0; i < 100; i++) {
        bytes_at(q, 1)[i] = (uint8_t)(i < 10 ? 255 : i < 30 ? 0 : i < 70 ? 9 : 100);
        signed_at(s, 1)[i] = (int8_t)(i < 10 ? 127 : i < 15 ? -127 : i < 65 ? 0 : 126);
    }
    floats(scale, 1)[0] = 0.5F;
    floats(scales, 1)[0] = 0.25F;
    floats(scales, 1)[1] = 0.75F;
    static const struct {
        float zero, expected[4];
    } cases[] = {
        {9, {0.3F, 0.4F, 0.125F, 0}}, {0, {0.1F, 0.2F, 0.125F, 0}}, {255, {0.3F, 0.1F, 0.125F, 0}}};
    for (size_t i = 0; i < OCT_COUNT_OF(cases); i++) {
        set_grid(grid, 0.125F, cases[i].zero);
        LAUNCH(engine, QUANT_COUNT, (union oct__attr){0}, launch_plain, q, grid, counts);
        print_message("%s: zero %g: clipped %g, zero %g, scale %g\n", engine->kind->plugin.name,
                      (double)cases[i].zero, (double)floats(counts, 1)[0],
                      (double)floats(counts, 1)[1], (double)floats(counts, 1)[2]);
        assert_memory_equal(floats(counts, 1), cases[i].expected, sizeof cases[i].expected);
    }
    static const float expected[4] = {0.15F, 0.5F, 0.5F, 0};
    LAUNCH(engine, QUANT_COUNT, (union oct__attr){0}, launch_plain, s, scale, counts);
    assert_memory_equal(floats(counts, 1), expected, sizeof expected);
    LAUNCH(engine, QUANT_COUNT, (union oct__attr){0}, launch_plain, s, scales, counts);
    assert_memory_equal(floats(counts, 1), expected, sizeof expected);
    for (size_t i = 0; i < 100; i++) {
        bytes_at(e, 1)[i] = (uint8_t)(signed_at(s, 1)[i] + OCT_EXCESS);
    }
    LAUNCH(engine, QUANT_COUNT, (union oct__attr){0}, launch_plain, e, scales, counts);
    assert_memory_equal(floats(counts, 1), expected, sizeof expected);
    tensors_free(NULL);
}

static void counts(void **state) {
    (void)state;
    launch_engines(check_counts);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(add_is_its_parts, tensors_free),
        cmocka_unit_test_teardown(sums_are_their_parts, tensors_free),
        cmocka_unit_test_teardown(norms_are_their_parts, tensors_free),
        cmocka_unit_test_teardown(no_value_reaches_too_far, tensors_free),
        cmocka_unit_test_teardown(grids_of_odd_batches, tensors_free),
        cmocka_unit_test_teardown(ranges_clip_what_they_should, tensors_free),
        cmocka_unit_test_teardown(running_ranges, tensors_free),
        cmocka_unit_test_teardown(strange_values_are_seen, tensors_free),
        cmocka_unit_test_teardown(chance_is_unbiased, tensors_free),
        cmocka_unit_test_teardown(chance_has_a_name, tensors_free),
        cmocka_unit_test_teardown(cohorts_of_any_size, tensors_free),
        cmocka_unit_test_teardown(vectors, tensors_free),
        cmocka_unit_test_teardown(counts, tensors_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
