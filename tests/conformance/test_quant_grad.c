/* SPDX-License-Identifier: Apache-2.0 */
/* test_quant_grad.c - gradients in an int8 step: sums of parts, s8 rounded by chance, masks.
 *
 * Everything is worked out a second time here, the plain way, and compared bit by bit: parts of every
 * pair of types, with a scale for the tensor or one for each sample, masked or not, with the scale
 * of the weights or without. Odd gradients (and weights, which share their formula) have cases of
 * their own.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "support/launch.h"

/* A contribution of that type with its scale, one or one a sample; and its floats. */
struct part {
    struct oct__tensor t, scale;
    float *real; /* [node][element] */
};

static float widen(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static struct part part_new(struct oct__tensor shape, enum oct__dtype dtype, int is_per_sample,
                            struct dice *dice) {
    struct part part = {.t = tensor_like(shape, dtype), .scale = absent};
    struct oct__tensor real = tensor_like(shape, OCT_DTYPE_F32);
    const int has_scale = dtype == OCT_DTYPE_S8 || dtype == OCT_DTYPE_S32;
    part.real = real.at;
    if (has_scale) {
        part.scale = scales_new(is_per_sample ? shape.n : 1);
        fill_positive(part.scale, dice, dtype == OCT_DTYPE_S8 ? 0.01 : 1e-4);
    }
    for (int node = 0; node < LAUNCH_NODES; node++) {
        for (size_t i = 0; i < count(shape); i++) {
            const size_t sample = i / sample_count(shape), j = (size_t)node * count(shape) + i;
            const float scale =
                has_scale ? floats(part.scale, node)[is_per_sample ? sample : 0] : 0;
            if (dtype == OCT_DTYPE_S8) {
                ((int8_t *)part.t.at)[j] = (int8_t)(dice_below(dice, 255) - 127);
                part.real[j] = scale * (float)((int8_t *)part.t.at)[j];
            } else if (dtype == OCT_DTYPE_S32) {
                ((int32_t *)part.t.at)[j] = dice_below(dice, 20001) - 10000;
                part.real[j] = scale * (float)((int32_t *)part.t.at)[j];
            } else if (dtype == OCT_DTYPE_BF16) {
                float x = (float)dice_normal(dice);
                uint32_t bits;
                memcpy(&bits, &x, sizeof bits);
                ((uint16_t *)part.t.at)[j] = (uint16_t)(bits >> 16);
                part.real[j] = widen((uint16_t)(bits >> 16));
            } else {
                part.real[j] = ((float *)part.t.at)[j] = (float)dice_normal(dice);
            }
        }
    }
    return part;
}

/* The nearest bf16 of a finite number, ties to even. */
static uint16_t nearest_half(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static const enum oct__dtype part_types[] = {OCT_DTYPE_F32, OCT_DTYPE_BF16, OCT_DTYPE_S32,
                                             OCT_DTYPE_S8};
static const char *const part_names[] = {"f32", "bf16", "s32", "s8"};

/* GRAD_JOIN's and GRAD_QUANTIZE's sum of node `node`, element i. */
static float joined(const struct part *a, const struct part *b, struct oct__tensor bytes,
                    struct oct__tensor grid, int node, size_t i) {
    const size_t j = (size_t)node * count(a->t) + i;
    float sum = b ? a->real[j] + b->real[j] : a->real[j];
    if (bytes.n) {
        const uint8_t byte = ((const uint8_t *)bytes.at)[j];
        sum = byte == 255 || (byte == 0 && grid_at(grid, node)->zero > 0) ? 0.0F : sum;
    }
    return sum;
}

static void check_join(struct oct__engine *engine, const struct part *a, const struct part *b,
                       struct oct__tensor bytes, struct oct__tensor grid, const char *what) {
    struct oct__tensor y[2] = {tensor_like(a->t, OCT_DTYPE_F32), tensor_like(a->t, OCT_DTYPE_BF16)};
    for (int form = 0; form < 2; form++) {
        LAUNCH(engine, GRAD_JOIN, (union oct__attr){0}, launch_plain, a->t, a->scale,
               b ? b->t : absent, b ? b->scale : absent, bytes, grid, y[form]);
    }
    for (int node = 0; node < LAUNCH_NODES; node++) {
        for (size_t i = 0; i < count(a->t); i++) {
            const float sum = joined(a, b, bytes, grid, node, i), found = floats(y[0], node)[i];
            const uint16_t half = ((uint16_t *)at(y[1], node))[i];
            if (memcmp(&found, &sum, sizeof sum) != 0 || half != nearest_half(sum)) {
                fail_msg("%s, grad_join, %s: element %zu is %.9g and bf16 %x, expected %.9g and %x",
                         engine->kind->plugin.name, what, i, (double)found, half, (double)sum,
                         nearest_half(sum));
            }
        }
    }
}

/* n_scales: of w; 0: none. */
static void check_grad_quantize(struct oct__engine *engine, const struct part *a,
                                const struct part *b, struct oct__tensor bytes,
                                struct oct__tensor grid, int n_scales, int is_per_sample,
                                const char *what, struct dice *dice) {
    struct oct__tensor q = tensor_like(a->t, n_scales ? OCT_DTYPE_E8 : OCT_DTYPE_S8), w = absent;
    struct oct__tensor scale = scales_new(is_per_sample ? a->t.n : 1);
    const size_t size = is_per_sample ? sample_count(a->t) : count(a->t);
    if (n_scales) {
        w = vector_new(n_scales);
        fill_positive(w, dice, 0.1);
    }
    LAUNCH(engine, GRAD_QUANTIZE, (union oct__attr){0}, launch_plain, a->t, a->scale,
           b ? b->t : absent, b ? b->scale : absent, bytes, grid, w, q, scale);
    for (int node = 0; node < LAUNCH_NODES; node++) {
        const struct oct__stream stream =
            oct__stream(launch_plain.seed, OCT_PURPOSE_ROUND_GRADIENT,
                        LAUNCH_FIRST_NODE + (uint32_t)node, launch_plain.step, LAUNCH_LAYER);
        for (size_t first = 0; first < count(q); first += size) {
            float peak = 0;
            for (int pass = 0; pass < 2; pass++) {
                const float expected = peak / 127.0F < FLT_MIN ? 0.0F : peak / 127.0F;
                const float inverse = expected > 0 ? 1.0F / expected : 0.0F;
                const float found = floats(scale, node)[first / size];
                if (pass == 1 && found != expected) {
                    fail_msg("%s, grad_quantize, %s: the scale is %.9g, expected %.9g",
                             engine->kind->plugin.name, what, (double)found, (double)expected);
                }
                for (size_t i = first; i < first + size; i++) {
                    float x = joined(a, b, bytes, grid, node, i);
                    const float of_w = n_scales ? floats(w, node)[i % (size_t)n_scales] : 1.0F;
                    peak = fabsf(x * of_w) > peak ? fabsf(x * of_w) : peak;
                    float t = (float)by_chance(&stream, i, (double)(x * (of_w * inverse)));
                    t = t > -127.0F ? (t < 127.0F ? t : 127.0F) : -127.0F;
                    const int byte =
                        n_scales ? bytes_at(q, node)[i] - OCT_EXCESS : signed_at(q, node)[i];
                    if (pass == 1 && (float)byte != t) {
                        fail_msg("%s, grad_quantize, %s: element %zu, %.9g, is %d, expected %g",
                                 engine->kind->plugin.name, what, i, (double)x, byte, (double)t);
                    }
                }
            }
        }
    }
}

static void check_parts(struct oct__engine *engine) {
    static const struct {
        int n, h, w, c;
    } forms[] = {{19, 3, 3, 5}, {2, 24, 24, 16}, {1, 1, 1, 4}};
    int n_calls = 0;
    for (size_t f = 0; f < OCT_COUNT_OF(forms); f++) {
        for (int i = 0; i < 4 * 5 * 2; i++) {
            const int a_type = i % 4, b_type = i / 4 % 5, has_mask = i / 20;
            struct dice dice = dice_of((uint32_t)i);
            struct oct__tensor shape =
                tensor_new(OCT_DTYPE_U8, forms[f].n, forms[f].h, forms[f].w, forms[f].c);
            struct part a = part_new(shape, part_types[a_type], i % 3 == 0, &dice), b;
            struct oct__tensor bytes = has_mask ? shape : absent;
            struct oct__tensor grid = has_mask ? random_grid(&dice) : absent;
            char what[64];
            if (b_type < 4) {
                b = part_new(shape, part_types[b_type], i % 3 == 1, &dice);
            }
            fill_bytes(shape, &dice);
            snprintf(what, sizeof what, "%s + %s%s", part_names[a_type],
                     b_type < 4 ? part_names[b_type] : "nothing", has_mask ? ", masked" : "");
            check_join(engine, &a, b_type < 4 ? &b : NULL, bytes, grid, what);
            for (int form = 0; form < 6; form++) {
                const int n_scales = form / 2 == 0 ? 0 : form / 2 == 1 ? 1 : shape.c;
                check_grad_quantize(engine, &a, b_type < 4 ? &b : NULL, bytes, grid, n_scales,
                                    form % 2, what, &dice);
                n_calls++;
            }
            tensors_free(NULL);
        }
    }
    print_message("%s: gradients of every pair of types, %d of them quantized\n",
                  engine->kind->plugin.name, n_calls);
}

static void gradients_of_all_parts(void **state) {
    (void)state;
    launch_engines(check_parts);
}

/* Zeros, constants, denormals and an outlier as gradients and as weights. */
static void check_symmetric(struct oct__engine *engine) {
    static const struct {
        float base, odd;
        float scale;
        int byte; /* of base */
    } cases[] = {
        {0, 0, 0, 0},
        {2.54F, 2.54F, 0.02F, 127},
        {-2.54F, -2.54F, 0.02F, -127},
        {1e-40F, -1e-40F, 0, 0},
        {FLT_MIN, FLT_MIN, 0, 0}, /* its scale would be denormal */
        {1e-30F, -127 * 0x1p60F, 0x1p60F, 0},
        {-0.0F, 127, 1, 0},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(cases); i++) {
        struct oct__tensor x = tensor_new(OCT_DTYPE_F32, 4, 3, 3, 2), scale = vector_new(1);
        struct oct__tensor scales = vector_new(4), q = tensor_like(x, OCT_DTYPE_S8);
        fill_batch(x, cases[i].base, cases[i].odd);
        for (int is_weight = 0; is_weight < 2; is_weight++) {
            if (is_weight) {
                LAUNCH(engine, WEIGHT_QUANTIZE, (union oct__attr){0}, launch_plain, x, q, scale);
            } else {
                LAUNCH(engine, GRAD_QUANTIZE, (union oct__attr){0}, launch_plain, x, absent, absent,
                       absent, absent, absent, absent, q, scale);
            }
            const float found = floats(scale, 2)[0];
            print_message("%s: %s of %g and %g: scale %g, byte %d\n", engine->kind->plugin.name,
                          is_weight ? "weights" : "a gradient", (double)cases[i].base,
                          (double)cases[i].odd, (double)found, signed_at(q, 2)[0]);
            assert_true(fabsf(found - cases[i].scale) <= 1e-6F * cases[i].scale);
            /* By chance 127 may be missed by one where 127 * scale is not quite the peak. */
            assert_true(abs(signed_at(q, 2)[0] - cases[i].byte) <= !is_weight);
        }
        LAUNCH(engine, WEIGHT_QUANTIZE, (union oct__attr){0}, launch_plain, x, q, scales);
        for (size_t o = 0; o < 4; o++) {
            const float peak = o == 3 && fabsf(cases[i].odd) > fabsf(cases[i].base)
                                   ? fabsf(cases[i].odd)
                                   : fabsf(cases[i].base);
            const float expected = peak / 127.0F < FLT_MIN ? 0.0F : peak / 127.0F;
            assert_true(floats(scales, 1)[o] == expected);
            for (size_t j = 0; j < 18; j++) {
                const float real = floats(x, 1)[18 * o + j];
                const float t = expected > 0 ? rintf(real * (1.0F / expected)) : 0.0F;
                assert_true((float)signed_at(q, 1)[18 * o + j] == t);
            }
        }
    }
    tensors_free(NULL);
}

static void symmetric_scales(void **state) {
    (void)state;
    launch_engines(check_symmetric);
}

static void check_masks(struct oct__engine *engine) {
    for (int is_in_place = 0; is_in_place < 2; is_in_place++) {
        struct dice dice = dice_of(5);
        struct oct__tensor dy = tensor_new(OCT_DTYPE_S8, 19, 5, 5, 3),
                           bytes = tensor_like(dy, OCT_DTYPE_U8);
        struct oct__tensor before = tensor_like(dy, OCT_DTYPE_S8), grid = vector_new(OCT_GRID);
        fill_bytes(dy, &dice);
        fill_bytes(bytes, &dice);
        memcpy(before.at, dy.at, LAUNCH_NODES * dy.stride);
        for (int zero = 0; zero <= 200; zero += 100) {
            struct oct__tensor y = is_in_place ? dy : tensor_like(dy, OCT_DTYPE_S8);
            size_t cleared = 0;
            set_grid(grid, 0.1F, (float)zero);
            memcpy(dy.at, before.at, LAUNCH_NODES * dy.stride);
            LAUNCH(engine, GRAD_MASK, (union oct__attr){0}, launch_plain, dy, bytes, grid, y);
            for (size_t i = 0; i < LAUNCH_NODES * count(dy); i++) {
                const uint8_t byte = ((uint8_t *)bytes.at)[i];
                const int is_clipped = byte == 255 || (byte == 0 && zero > 0);
                cleared += (size_t)is_clipped;
                assert_int_equal(((int8_t *)y.at)[i], is_clipped ? 0 : ((int8_t *)before.at)[i]);
            }
            print_message("%s: zero %d, %zu of %zu cleared\n", engine->kind->plugin.name, zero,
                          cleared, LAUNCH_NODES * count(dy));
        }
    }
    tensors_free(NULL);
}

static void masks(void **state) {
    (void)state;
    launch_engines(check_masks);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(gradients_of_all_parts, tensors_free),
        cmocka_unit_test_teardown(symmetric_scales, tensors_free),
        cmocka_unit_test_teardown(masks, tensors_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
