/* SPDX-License-Identifier: Apache-2.0 */
/* sim_quant.c - the oracle's quantizers: values to bytes and back, weights, gradients.
 *
 *     values    real = scale * (q - zero), q in 0 … 255; the range is averaged over samples (MEAN),
 *               that of the batch (FULL), or what earlier batches left (RUNNING), and contains 0
 *     weights   real = scale * q, |q| <= 127, scale = the largest |w| / 127
 *     gradients the same, rounded by chance: floor(g / scale + (k + 1/2) / 2^16), k 16 random bits
 *     vectors   one of 256 steps between the smallest and the largest, zero or not
 */
#include <float.h>

#include "base/rng.h"
#include "engine/sim.h"

/* --- floats in the order of their bits, so that a NaN is not lost ------------------------------
 * */

/* -NaN, -inf … -0, +0 … +inf, +NaN: is `a` before `b`? */
static int is_before(double a, double b) {
    const int rank_a = isnan(a) ? (signbit(a) ? -1 : 1) : 0;
    const int rank_b = isnan(b) ? (signbit(b) ? -1 : 1) : 0;
    return rank_a != rank_b ? rank_a < rank_b : a < b;
}

/* The largest magnitude of those seen so far. */
static double peak_of(double peak, double x) {
    return is_before(peak, fabs(x)) ? fabs(x) : peak;
}

/* --- random bits ------------------------------------------------------------------------------ */

/* The share that is added before rounding down, (k + 1/2) / 2^16, k the 16 bits of element `e` (to
 * add k to whole steps of 2^-16 is the same): two neighbours lie in a word, the next two in the same
 * word of the next block, of sixteen blocks, then comes their next word; 128 elements later come the
 * next sixteen blocks. */
static double chance_of(const struct oct__sim_call *call, enum oct__purpose purpose, uint64_t e) {
    const struct oct__stream stream =
        oct__lane_stream(call->lane, purpose, call->node, (uint32_t)call->args->layer);
    const uint64_t tile = e / 128, place = e % 128;
    uint32_t words[4];
    oct__rounding_block(&stream, (uint32_t)(16 * tile + place / 2 % 16), words);
    const uint32_t word = words[place / 32];
    const uint32_t k = place % 2 == 0 ? word & 0xffffU : word >> 16;
    return ((double)k + 0.5) / 65536.0;
}

/* --- the real values that are quantized --------------------------------------------------------
 * */

static double plain_value(const struct oct__sim_call *call, size_t sample, size_t element) {
    return oct__sim_get(call, 0, sample * oct__sim_row(call, 0) + element);
}

/* sums, grid of x, scale of w, bias */
static double sums_value(const struct oct__sim_call *call, size_t sample, size_t element) {
    const size_t o = element % (size_t)oct__sim_tensor(call, 0)->c;
    const double scale = oct__sim_get(call, 1, 0) * oct__sim_get_of(call, 2, o);
    const double bias = oct__sim_has(call, 3) ? oct__sim_get(call, 3, o) : 0.0;
    return scale * oct__sim_get(call, 0, sample * oct__sim_row(call, 0) + element) + bias;
}

/* a, grid, b, grid */
static double sum_of_bytes(const struct oct__sim_call *call, size_t sample, size_t element) {
    const size_t i = sample * oct__sim_row(call, 0) + element;
    return oct__sim_dequantize(call, 0, 1, i) + oct__sim_dequantize(call, 2, 3, i);
}

/* DEQUANTIZE: q, grid */
static double byte_value(const struct oct__sim_call *call, size_t sample, size_t element) {
    return oct__sim_dequantize(call, 0, 1, sample * oct__sim_row(call, 0) + element);
}

/* Who quantizes, what, and which of its operands are running range, bytes and grid. */
static const struct quantizer {
    double (*value)(const struct oct__sim_call *call, size_t sample, size_t element);
    enum oct__op op;
    int run, bytes, grid;
} quantizers[] = {
    {plain_value, OCT_OP_QUANTIZE, 1, 2, 3},
    {sums_value, OCT_OP_SUMS_QUANTIZE, 4, 5, 6},
    {sum_of_bytes, OCT_OP_ADD_U8, 4, 5, 6},
    {oct__sim_evonorm_value, OCT_OP_RANGE_EVONORM_U8, 5, 8, 9},
    {sums_value, OCT_OP_SUMS_DEQUANTIZE, -1, -1, -1},
    {sum_of_bytes, OCT_OP_ADD_DEQUANTIZE, -1, -1, -1},
    {byte_value, OCT_OP_DEQUANTIZE, -1, -1, -1},
};

static const struct quantizer *quantizer_of(const struct oct__sim_call *call) {
    const struct quantizer *q = quantizers;
    while (q->op != call->op) {
        q++;
    }
    return q;
}

static const struct oct__quant_attr *attr_of(const struct oct__sim_call *call) {
    return call->op == OCT_OP_RANGE_EVONORM_U8 ? &call->args->attr.norm.quant
                                               : &call->args->attr.quant;
}

/* SUMS_DEQUANTIZE, ADD_DEQUANTIZE, DEQUANTIZE: the values themselves. */
void oct__sim_values(const struct oct__sim_call *call, size_t row, double *to) {
    const struct quantizer *q = quantizer_of(call);
    for (size_t i = 0; i < oct__sim_row(call, 0); i++) {
        to[i] = q->value(call, row, i);
    }
}

/* --- their range, grid and bytes ----------------------------------------------------------------
 * */

struct range {
    double lo, hi;
};

static struct range extremes_of_sample(const struct oct__sim_call *call, size_t sample) {
    const struct quantizer *q = quantizer_of(call);
    struct range found = {q->value(call, sample, 0), q->value(call, sample, 0)};
    for (size_t i = 1; i < oct__sim_row(call, q->bytes); i++) {
        const double x = q->value(call, sample, i);
        found.lo = is_before(x, found.lo) ? x : found.lo;
        found.hi = is_before(found.hi, x) ? x : found.hi;
    }
    return found;
}

/* The range of the batch, widened so that zero is in it. */
static struct range observe(const struct oct__sim_call *call) {
    const size_t n = (size_t)oct__sim_tensor(call, quantizer_of(call)->bytes)->n;
    struct range full = extremes_of_sample(call, 0), sum = full;
    for (size_t sample = 1; sample < n; sample++) {
        const struct range one = extremes_of_sample(call, sample);
        full.lo = is_before(one.lo, full.lo) ? one.lo : full.lo;
        full.hi = is_before(full.hi, one.hi) ? one.hi : full.hi;
        sum.lo += one.lo;
        sum.hi += one.hi;
    }
    struct range range = full;
    if (attr_of(call)->range == OCT_RANGE_MEAN) {
        range = (struct range){sum.lo / (double)n, sum.hi / (double)n};
    }
    range.lo = range.lo >= 0.0 ? 0.0 : range.lo;
    range.hi = range.hi <= 0.0 ? 0.0 : range.hi;
    return range;
}

/* The running range (lo, hi) after this batch. (0, 0) is what it holds before the first one. */
void oct__sim_range(const struct oct__sim_call *call, size_t row, double *to) {
    const int run = quantizer_of(call)->run;
    const struct range old = {oct__sim_get(call, run, 0), oct__sim_get(call, run, 1)};
    const int is_running = attr_of(call)->range == OCT_RANGE_RUNNING;
    struct range next = old;
    (void)row;
    if (!is_running) {
        const struct range range = observe(call);
        const int is_first = old.lo == 0.0 && old.hi == 0.0;
        next.lo = is_first ? range.lo : 0.1 * old.lo + 0.9 * range.lo;
        next.hi = is_first ? range.hi : 0.1 * old.hi + 0.9 * range.hi;
    }
    to[0] = next.lo;
    to[1] = next.hi;
}

/* 255 steps over the range; a range of nothing still has steps. */
static double step_of(double span) {
    return (double)(float)((span < 1e-8 ? 1e-8 : span) / 255.0);
}

/* scale, inverse, zero point before it is rounded, unused. Everything is derived from the scale as
 * it is stored, so that one too large for a float is infinite here too. */
void oct__sim_grid(const struct oct__sim_call *call, size_t row, double *to) {
    const int run = quantizer_of(call)->run;
    struct range range;
    (void)row;
    if (attr_of(call)->range == OCT_RANGE_RUNNING) {
        const double lo = oct__sim_get(call, run, 0), hi = oct__sim_get(call, run, 1);
        range = (struct range){lo >= 0.0 ? 0.0 : lo, hi <= 0.0 ? 0.0 : hi};
    } else {
        range = observe(call);
    }
    to[0] = step_of(range.hi - range.lo);
    to[1] = 1.0 / to[0];
    to[2] = -range.lo / to[0];
    to[3] = 0.0;
}

/* Steps from the zero point, on the grid that is stored. */
void oct__sim_bytes(const struct oct__sim_call *call, size_t row, double *to) {
    const struct quantizer *q = quantizer_of(call);
    const struct oct__sim_output output = {.operand = q->bytes, .form = OCT_SIM_NEAREST};
    const int is_chance = oct__sim_form_of(call, &output) == OCT_SIM_CHANCE;
    const double scale = oct__sim_get(call, q->grid, 0);
    const size_t n = oct__sim_row(call, q->bytes);
    for (size_t i = 0; i < n; i++) {
        to[i] = q->value(call, row, i) / scale;
        if (is_chance) {
            to[i] += chance_of(call, OCT_PURPOSE_ROUND_VALUE, row * n + i);
        }
    }
}

/* --- weights: w -> bytes, scale ------------------------------------------------------------------
 * */

/* A scale below the smallest normal float counts as 0, and so do all the values. */
static double symmetric_scale(double peak) {
    const double scale = peak / 127.0;
    return scale < (double)FLT_MIN ? 0.0 : scale;
}

static double symmetric_steps(double x, double scale) {
    return scale == 0.0 ? 0.0 : x / scale;
}

/* Elements of w that share a scale: all, or those of one output. */
static size_t weights_of_scale(const struct oct__sim_call *call) {
    return oct__tensor_count(oct__sim_tensor(call, 0)) /
           oct__tensor_count(oct__sim_tensor(call, 2));
}

void oct__sim_weight_scale(const struct oct__sim_call *call, size_t row, double *to) {
    const size_t here = oct__sim_row(call, 2), each = weights_of_scale(call);
    for (size_t i = 0; i < here; i++) {
        const size_t first = (row * here + i) * each;
        double peak = 0.0;
        for (size_t j = 0; j < each; j++) {
            peak = peak_of(peak, oct__sim_get(call, 0, first + j));
        }
        to[i] = symmetric_scale(peak);
    }
}

void oct__sim_weight_bytes(const struct oct__sim_call *call, size_t row, double *to) {
    const size_t here = oct__sim_row(call, 1), each = weights_of_scale(call);
    for (size_t i = 0; i < here; i++) {
        const size_t at = row * here + i;
        to[i] = symmetric_steps(oct__sim_get(call, 0, at), oct__sim_get(call, 2, at / each));
    }
}

/* --- vectors: x -> x at 256 steps
 * ----------------------------------------------------------------- */

void oct__sim_steps(const struct oct__sim_call *call, int operand, double *lo, double *step) {
    struct range range = {oct__sim_get(call, operand, 0), oct__sim_get(call, operand, 0)};
    for (size_t i = 1; i < oct__tensor_count(oct__sim_tensor(call, operand)); i++) {
        const double x = oct__sim_get(call, operand, i);
        range.lo = is_before(x, range.lo) ? x : range.lo;
        range.hi = is_before(range.hi, x) ? x : range.hi;
    }
    *lo = range.lo;
    *step = step_of(range.hi - range.lo);
}

void oct__sim_vector(const struct oct__sim_call *call, size_t row, double *to) {
    double lo, step;
    oct__sim_steps(call, 0, &lo, &step);
    for (size_t i = 0; i < oct__sim_row(call, 0); i++) {
        to[i] = (oct__sim_get(call, 0, row * oct__sim_row(call, 0) + i) - lo) / step;
    }
}

/* --- gradients
 * ------------------------------------------------------------------------------------ */

/* a, scale, b, scale, bytes, grid [, scale of w]: a + b where the value was not clipped, times the
 * weights' scale. Floats have no scale. */
static double gradient(const struct oct__sim_call *call, size_t sample, size_t element) {
    const size_t i = sample * oct__sim_row(call, 0) + element;
    if (oct__sim_has(call, 4) && oct__sim_is_clipped(call, 4, 5, i)) {
        return 0.0;
    }
    double sum = 0.0;
    for (int term = 0; term <= 2 && oct__sim_has(call, term); term += 2) {
        const double scale =
            oct__sim_has(call, term + 1) ? oct__sim_get_of(call, term + 1, sample) : 1.0;
        sum += scale * oct__sim_get(call, term, i);
    }
    if (call->op == OCT_OP_GRAD_QUANTIZE && oct__sim_has(call, 6)) {
        sum *= oct__sim_get_of(call, 6, element % (size_t)oct__sim_tensor(call, 0)->c);
    }
    return sum;
}

void oct__sim_gradient(const struct oct__sim_call *call, size_t row, double *to) {
    for (size_t i = 0; i < oct__sim_row(call, 0); i++) {
        to[i] = gradient(call, row, i);
    }
}

/* One scale for the tensor, or one for each sample. */
void oct__sim_gradient_scale(const struct oct__sim_call *call, size_t row, double *to) {
    const size_t n = (size_t)oct__sim_tensor(call, 0)->n;
    const int is_each = oct__tensor_count(oct__sim_tensor(call, 8)) > 1;
    double peak = 0.0;
    for (size_t sample = is_each ? row : 0; sample < (is_each ? row + 1 : n); sample++) {
        for (size_t i = 0; i < oct__sim_row(call, 0); i++) {
            peak = peak_of(peak, gradient(call, sample, i));
        }
    }
    to[0] = symmetric_scale(peak);
}

void oct__sim_gradient_bytes(const struct oct__sim_call *call, size_t row, double *to) {
    const size_t n = oct__sim_row(call, 0);
    const double scale = oct__sim_get_of(call, 8, row);
    for (size_t i = 0; i < n; i++) {
        to[i] = symmetric_steps(gradient(call, row, i), scale) +
                chance_of(call, OCT_PURPOSE_ROUND_GRADIENT, row * n + i);
    }
}

/* q, bytes, grid */
void oct__sim_gradient_mask(const struct oct__sim_call *call, size_t row, double *to) {
    const size_t n = oct__sim_row(call, 0);
    for (size_t i = 0; i < n; i++) {
        const size_t at = row * n + i;
        to[i] = oct__sim_is_clipped(call, 1, 2, at) ? 0.0 : oct__sim_get(call, 0, at);
    }
}

/* --- looking at a quantizer --------------------------------------------------------------------
 * */

void oct__sim_quant_count(const struct oct__sim_call *call, size_t row, double *to) {
    const struct oct__tensor *q = oct__sim_tensor(call, 0);
    const int is_value = q->dtype == OCT_DTYPE_U8;
    const double zero = is_value ? oct__sim_get(call, 1, 2) : 0.0;
    const size_t n_scales = is_value ? 1 : oct__tensor_count(oct__sim_tensor(call, 1));
    double n_clipped = 0.0, n_zero = 0.0, sum = 0.0;
    (void)row;
    for (size_t i = 0; i < oct__tensor_count(q); i++) {
        const double byte = oct__sim_get(call, 0, i);
        n_clipped += is_value ? oct__sim_is_clipped(call, 0, 1, i) : fabs(byte) == 127.0;
        n_zero += byte == zero;
    }
    for (size_t i = 0; i < n_scales; i++) {
        sum += oct__sim_get(call, 1, i);
    }
    to[0] = n_clipped / (double)oct__tensor_count(q);
    to[1] = n_zero / (double)oct__tensor_count(q);
    to[2] = sum / (double)n_scales;
    to[3] = 0.0;
}
