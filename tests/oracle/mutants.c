/* SPDX-License-Identifier: Apache-2.0 */
/* mutants.c - see mutants.h. */
#include "oracle/mutants.h"

#include <math.h>
#include <stdlib.h>

#include "engine/sim.h"
#include "support/check.h"

/* What the mutant stands in for. */
static struct {
    oct__op_fn *run;
    enum oct__op op;
    int operand; /* of a nudge */
} original;

static oct_status go(const struct oct__lane *lane, const struct oct__args *args) {
    return original.run(lane, args);
}

static struct oct__sim_call node_of(const struct oct__lane *lane, const struct oct__args *args,
                                    int node) {
    return (struct oct__sim_call){original.op, lane, args, node};
}

static float hold(double x, double lo, double hi) {
    return (float)(x > lo ? (x < hi ? x : hi) : lo);
}

/* The same call with grids of its own in operand `operand`. */
static oct_status go_with_zero(const struct oct__lane *lane, const struct oct__args *args,
                               int operand, float (*change)(float)) {
    struct oct__args changed = *args;
    struct oct__grid grids[8];
    assert_true(lane->form.n_nodes <= 8);
    for (int node = 0; node < lane->form.n_nodes; node++) {
        const struct oct__sim_call call = node_of(lane, args, node);
        memcpy(&grids[node], oct__sim_at(&call, operand), sizeof grids[node]);
        grids[node].zero = change(grids[node].zero);
    }
    changed.t[operand].at = grids;
    changed.t[operand].stride = sizeof grids[0];
    return go(lane, &changed);
}

/* --- zero points ------------------------------------------------------------------------------- */

static float one_off(float zero) {
    return zero < 255.0F ? zero + 1.0F : 254.0F;
}

static float forgotten(float zero) {
    return 0.0F * zero;
}

static oct_status conv_zero_off(const struct oct__lane *lane, const struct oct__args *args) {
    return go_with_zero(lane, args, 1, one_off);
}

static oct_status quantize_zero_off(const struct oct__lane *lane, const struct oct__args *args) {
    OCT_TRY(go(lane, args));
    for (int node = 0; node < lane->form.n_nodes; node++) {
        const struct oct__sim_call call = node_of(lane, args, node);
        struct oct__grid *grid = oct__sim_at(&call, 3);
        grid->zero = one_off(grid->zero);
    }
    return OCT_OK;
}

static oct_status wgrad_zero_forgotten(const struct oct__lane *lane, const struct oct__args *args) {
    return go_with_zero(lane, args, 1, forgotten);
}

static oct_status add_one_grid(const struct oct__lane *lane, const struct oct__args *args) {
    struct oct__args changed = *args;
    changed.t[3] = changed.t[1];
    return go(lane, &changed);
}

/* --- rounding ---------------------------------------------------------------------------------- */

static oct_status quantize_truncates(const struct oct__lane *lane, const struct oct__args *args) {
    OCT_TRY(go(lane, args));
    for (int node = 0; node < lane->form.n_nodes; node++) {
        const struct oct__sim_call call = node_of(lane, args, node);
        const struct oct__grid *grid = oct__sim_at(&call, 3);
        const float *x = oct__sim_at(&call, 0);
        uint8_t *q = oct__sim_at(&call, 2);
        for (size_t i = 0; i < oct__tensor_count(&args->t[0]); i++) {
            q[i] =
                (uint8_t)hold(trunc((double)(x[i] * grid->inverse)) + (double)grid->zero, 0, 255);
        }
    }
    return OCT_OK;
}

static oct_status weights_truncate(const struct oct__lane *lane, const struct oct__args *args) {
    OCT_TRY(go(lane, args));
    for (int node = 0; node < lane->form.n_nodes; node++) {
        const struct oct__sim_call call = node_of(lane, args, node);
        const float *w = oct__sim_at(&call, 0), *scale = oct__sim_at(&call, 2);
        const size_t n = oct__tensor_count(&args->t[0]);
        const size_t each = n / oct__tensor_count(&args->t[2]);
        int8_t *q = oct__sim_at(&call, 1);
        for (size_t i = 0; i < n; i++) {
            const float s = scale[i / each];
            q[i] = (int8_t)hold(s > 0.0F ? trunc((double)(w[i] / s)) : 0.0, -127, 127);
        }
    }
    return OCT_OK;
}

/* The 16 bits of element `e`, by the map that the kernels document. */
static double share_of(const struct oct__sim_call *call, uint64_t e) {
    const struct oct__stream stream = oct__stream(call->lane->seed, OCT_PURPOSE_ROUND_GRADIENT,
                                                  (uint32_t)(call->lane->first_node + call->node),
                                                  call->lane->step, (uint32_t)call->args->layer);
    uint32_t words[4];
    oct__rounding_block(&stream, (uint32_t)(e / 128 * 16 + e / 2 % 16), words);
    const uint32_t word = words[e / 32 % 4];
    return ((double)(e % 2 ? word >> 16 : word & 0xffffU) + 0.5) * 0x1p-16;
}

/* Gradients rounded with the share of the element `shift` further on; shift < 0: to the nearest. */
static oct_status round_gradient(const struct oct__lane *lane, const struct oct__args *args,
                                 int shift) {
    OCT_TRY(go(lane, args));
    const size_t row = oct__tensor_count(&args->t[0]) / (size_t)args->t[0].n;
    double *g = calloc(row, sizeof *g);
    assert_non_null(g);
    for (int node = 0; node < lane->form.n_nodes; node++) {
        const struct oct__sim_call call = node_of(lane, args, node);
        uint8_t *q = oct__sim_at(&call, 7);
        const int zero = args->t[7].dtype == OCT_DTYPE_E8 ? OCT_EXCESS : 0;
        for (size_t sample = 0; sample < (size_t)args->t[0].n; sample++) {
            const double scale = oct__sim_get_of(&call, 8, sample);
            oct__sim_gradient(&call, sample, g);
            for (size_t i = 0; i < row; i++) {
                const uint64_t e = sample * row + i + (uint64_t)(shift > 0 ? shift : 0);
                const double share = shift < 0 ? 0.5 : share_of(&call, e);
                const double steps = scale > 0.0 ? g[i] / scale : 0.0;
                q[sample * row + i] = (uint8_t)(zero + (int)hold(floor(steps + share), -127, 127));
            }
        }
    }
    free(g);
    return OCT_OK;
}

static oct_status stream_shifted(const struct oct__lane *lane, const struct oct__args *args) {
    return round_gradient(lane, args, 1);
}

static oct_status gradient_nearest(const struct oct__lane *lane, const struct oct__args *args) {
    return round_gradient(lane, args, -1);
}

static oct_status stream_of_step_before(const struct oct__lane *lane,
                                        const struct oct__args *args) {
    struct oct__lane changed = *lane;
    changed.step--;
    return go(&changed, args);
}

/* bf16 by dropping the lower half. */
static oct_status bf16_truncates(const struct oct__lane *lane, const struct oct__args *args) {
    if (args->t[6].dtype != OCT_DTYPE_BF16) {
        return go(lane, args);
    }
    struct oct__args changed = *args;
    const size_t n = oct__tensor_count(&args->t[6]);
    float *floats = calloc((size_t)lane->form.n_nodes * n, sizeof *floats);
    assert_non_null(floats);
    changed.t[6].dtype = OCT_DTYPE_F32;
    changed.t[6].at = floats;
    changed.t[6].stride = n * sizeof *floats;
    oct_status status = go(lane, &changed);
    for (int node = 0; node < lane->form.n_nodes; node++) {
        const struct oct__sim_call call = node_of(lane, args, node);
        uint16_t *to = oct__sim_at(&call, 6);
        for (size_t i = 0; i < n; i++) {
            uint32_t bits;
            memcpy(&bits, floats + (size_t)node * n + i, sizeof bits);
            to[i] = (uint16_t)(bits >> 16);
        }
    }
    free(floats);
    return status;
}

/* --- products ---------------------------------------------------------------------------------- */

/* One output of a convolution, with what lies outside the image taken as byte `outside`, or left out
 * (-1), and neighbouring products summed in 16 bits or not. Bytes and zero point apart, as the
 * instructions that saturate want them. */
static int32_t mistaken_sum(const struct oct__sim_call *call, size_t n, int row, int column, int o,
                            int outside, int saturates) {
    const struct oct__tensor *x = &call->args->t[0], *y = &call->args->t[3];
    const struct oct__conv_attr *attr = &call->args->attr.conv;
    const int in = x->c / attr->groups, first = o / (y->c / attr->groups) * in;
    const double zero = oct__sim_get(call, 1, 2);
    double sum = 0.0, pair = 0.0;
    int n_terms = 0;
    for (int a = 0; a < attr->kernel; a++) {
        for (int b = 0; b < attr->kernel; b++) {
            for (int i = 0; i < in; i++) {
                const int r = row * attr->stride - attr->pad + a;
                const int q = column * attr->stride - attr->pad + b;
                const int inside = r >= 0 && r < x->h && q >= 0 && q < x->w;
                const size_t at =
                    ((n * (size_t)x->h + (size_t)r) * (size_t)x->w + (size_t)q) * (size_t)x->c;
                const size_t k = (size_t)attr->kernel;
                const size_t tap =
                    (((size_t)o * (size_t)in + (size_t)i) * k + (size_t)a) * k + (size_t)b;
                const double w = oct__sim_get(call, 2, tap);
                if (!inside && outside < 0) {
                    continue;
                }
                const double byte =
                    inside ? oct__sim_get(call, 0, at + (size_t)(first + i)) : (double)outside;
                pair += byte * w;
                sum -= zero * w;
                if (++n_terms % 2 == 0 || !saturates) {
                    sum += saturates ? (double)hold(pair, -32768.0, 32767.0) : pair;
                    pair = 0.0;
                }
            }
        }
    }
    return (int32_t)(sum + pair);
}

static oct_status conv_again(const struct oct__lane *lane, const struct oct__args *args,
                             int outside, int saturates) {
    OCT_TRY(go(lane, args));
    const struct oct__tensor *y = &args->t[3];
    for (int node = 0; node < lane->form.n_nodes; node++) {
        const struct oct__sim_call call = node_of(lane, args, node);
        int32_t *sums = oct__sim_at(&call, 3);
        for (size_t n = 0; n < (size_t)y->n; n++) {
            for (int row = 0; row < y->h; row++) {
                for (int column = 0; column < y->w; column++) {
                    for (int o = 0; o < y->c; o++) {
                        *sums++ = mistaken_sum(&call, n, row, column, o, outside, saturates);
                    }
                }
            }
        }
    }
    return OCT_OK;
}

static oct_status conv_pads_byte_0(const struct oct__lane *lane, const struct oct__args *args) {
    return conv_again(lane, args, 0, 0);
}

static oct_status conv_saturates(const struct oct__lane *lane, const struct oct__args *args) {
    return conv_again(lane, args, -1, 1);
}

/* --- gradients --------------------------------------------------------------------------------- */

static oct_status unmasked(const struct oct__lane *lane, const struct oct__args *args) {
    struct oct__args changed = *args;
    changed.t[4].n = changed.t[5].n = 0;
    return go(lane, &changed);
}

static oct_status unmasked_norm(const struct oct__lane *lane, const struct oct__args *args) {
    struct oct__args changed = *args;
    changed.attr.norm.quant.mask = 0;
    return go(lane, &changed);
}

/* A clipped byte at the zero point's end counts as clipped too. */
static oct_status masks_zero(const struct oct__lane *lane, const struct oct__args *args) {
    return go_with_zero(lane, args, 2, one_off);
}

static oct_status weight_scale_forgotten(const struct oct__lane *lane,
                                         const struct oct__args *args) {
    struct oct__args changed = *args;
    changed.t[6].n = 0;
    return go(lane, &changed);
}

/* --- ranges ------------------------------------------------------------------------------------ */

static oct_status full_range(const struct oct__lane *lane, const struct oct__args *args) {
    struct oct__args changed = *args;
    if (changed.attr.quant.range == OCT_RANGE_MEAN) {
        changed.attr.quant.range = OCT_RANGE_FULL;
    }
    return go(lane, &changed);
}

static oct_status running_ignored(const struct oct__lane *lane, const struct oct__args *args) {
    struct oct__args changed = *args;
    changed.attr.quant.range = OCT_RANGE_MEAN;
    return go(lane, &changed);
}

/* run = 0.9 * old + 0.1 * new */
static oct_status running_swapped(const struct oct__lane *lane, const struct oct__args *args) {
    float old[8][2];
    assert_true(lane->form.n_nodes <= 8);
    for (int node = 0; node < lane->form.n_nodes; node++) {
        const struct oct__sim_call call = node_of(lane, args, node);
        memcpy(old[node], oct__sim_at(&call, 1), sizeof old[node]);
    }
    OCT_TRY(go(lane, args));
    for (int node = 0; node < lane->form.n_nodes; node++) {
        const struct oct__sim_call call = node_of(lane, args, node);
        float *run = oct__sim_at(&call, 1);
        const int is_first = old[node][0] == 0.0F && old[node][1] == 0.0F;
        for (int i = 0; i < 2 && args->attr.quant.range != OCT_RANGE_RUNNING && !is_first; i++) {
            const float seen = (run[i] - 0.1F * old[node][i]) / 0.9F;
            run[i] = 0.9F * old[node][i] + 0.1F * seen;
        }
    }
    return OCT_OK;
}

/* --- norms ------------------------------------------------------------------------------------- */

static oct_status used_not_quantized(const struct oct__lane *lane, const struct oct__args *args) {
    struct oct__args changed = *args;
    changed.attr.norm.quantize_scale = 0;
    return go(lane, &changed);
}

static oct_status reach_ignored(const struct oct__lane *lane, const struct oct__args *args) {
    struct oct__args changed = *args;
    changed.attr.norm.reach = 0.0F;
    return go(lane, &changed);
}

/* dL/dR with the scale at its step. */
static oct_status slope_of_used(const struct oct__lane *lane, const struct oct__args *args) {
    struct oct__args changed = *args;
    changed.t[3] = changed.t[4];
    return go(lane, &changed);
}

/* x of a node with the last of each chunk's largest values raised by a hair. */
static void raise_last(const struct oct__sim_call *call, float *x) {
    const struct oct__tensor *t = &call->args->t[0];
    const size_t hw = (size_t)t->h * (size_t)t->w, c = (size_t)t->c;
    const size_t groups = (size_t)call->args->attr.norm.groups, wide = c / groups;
    size_t n_chunks = 16;
    while (n_chunks > 1 && ((wide * hw) % n_chunks != 0 || wide * hw / n_chunks < 2)) {
        n_chunks--;
    }
    const size_t length = wide * hw / n_chunks;
    for (size_t set = 0; set < (size_t)t->n * groups * n_chunks; set++) {
        const size_t sample = set / (groups * n_chunks), group = set / n_chunks % groups;
        const size_t first = set % n_chunks * length;
        size_t best = 0;
        for (size_t j = first; j < first + length; j++) {
            const size_t at = (sample * hw + j % hw) * c + group * wide + j / hw;
            best = j == first || x[at] >= x[best] ? at : best;
        }
        x[best] += 1e-6F * (fabsf(x[best]) + 1e-3F);
    }
}

/* dx as it is for the raised values: the last of the largest is then the largest, and little else
 * changes. */
static oct_status ties_to_the_last(const struct oct__lane *lane, const struct oct__args *args) {
    OCT_TRY(go(lane, args));
    const size_t count = oct__tensor_count(&args->t[0]), c = (size_t)args->t[0].c;
    const size_t nodes = (size_t)lane->form.n_nodes;
    float *raised = calloc(nodes * (count + c), sizeof *raised);
    assert_non_null(raised);
    for (size_t node = 0; node < nodes; node++) {
        const struct oct__sim_call call = node_of(lane, args, (int)node);
        memcpy(raised + node * count, oct__sim_at(&call, 0), count * sizeof *raised);
        raise_last(&call, raised + node * count);
    }
    struct oct__args changed = *args;
    changed.t[0].at = raised;
    changed.t[0].stride = count * sizeof *raised;
    for (int i = 7; i <= 9; i++) { /* the parameters' gradients go nowhere */
        changed.t[i].at = raised + nodes * count;
        changed.t[i].stride = c * sizeof *raised;
    }
    oct_status status = go(lane, &changed);
    free(raised);
    return status;
}

/* --- the list ---------------------------------------------------------------------------------- */

static const struct mutant mutants[] = {
    {"zero-off-by-one", OCT_OP_CONV_U8, "x - (zero + 1)", conv_zero_off},
    {"grid-off-by-one", OCT_OP_QUANTIZE, "bytes with zero, grid with zero + 1", quantize_zero_off},
    {"zero-forgotten", OCT_OP_CONV_U8_WGRAD, "x, not x - zero", wgrad_zero_forgotten},
    {"one-grid-for-two", OCT_OP_ADD_U8, "b read with the grid of a", add_one_grid},
    {"truncation", OCT_OP_QUANTIZE, "towards 0, not to the nearest", quantize_truncates},
    {"weight-truncation", OCT_OP_WEIGHT_QUANTIZE, "towards 0, not to the nearest",
     weights_truncate},
    {"bf16-truncation", OCT_OP_GRAD_JOIN, "lower half dropped", bf16_truncates},
    {"stream-shifted", OCT_OP_GRAD_QUANTIZE, "random bits of the next element", stream_shifted},
    {"stream-of-before", OCT_OP_GRAD_QUANTIZE, "random bits of the last step",
     stream_of_step_before},
    {"not-by-chance", OCT_OP_GRAD_QUANTIZE, "to the nearest", gradient_nearest},
    {"pad-byte-0", OCT_OP_CONV_U8, "outside the image byte 0, not zero", conv_pads_byte_0},
    {"saturation", OCT_OP_CONV_U8, "pairs of products held to 16 bits", conv_saturates},
    {"unmasked-join", OCT_OP_GRAD_JOIN, "clipped places pass", unmasked},
    {"unmasked-quantize", OCT_OP_GRAD_QUANTIZE, "clipped places pass", unmasked},
    {"unmasked-norm", OCT_OP_RANGE_EVONORM_U8_GRAD, "clipped places pass", unmasked_norm},
    {"masks-zero", OCT_OP_GRAD_MASK, "byte 0 is clipped though zero is 0", masks_zero},
    {"fold-forgotten", OCT_OP_GRAD_QUANTIZE, "not times the scale of w", weight_scale_forgotten},
    {"batch-extremes", OCT_OP_QUANTIZE, "range of the batch, not the mean", full_range},
    {"batch-extremes-sums", OCT_OP_SUMS_QUANTIZE, "range of the batch, not the mean", full_range},
    {"running-ignored", OCT_OP_QUANTIZE, "evaluation by its own range", running_ignored},
    {"running-swapped", OCT_OP_QUANTIZE, "0.9 old + 0.1 new", running_swapped},
    {"used-not-quantized", OCT_OP_RANGE_EVONORM, "the scale as it is", used_not_quantized},
    {"used-not-quantized-u8", OCT_OP_RANGE_EVONORM_U8, "the scale as it is", used_not_quantized},
    {"reach-ignored", OCT_OP_RANGE_EVONORM_U8, "values beyond their reach", reach_ignored},
    {"slope-of-used", OCT_OP_RANGE_EVONORM_GRAD, "dL/dR with the used scale", slope_of_used},
    {"ties-to-the-last", OCT_OP_RANGE_EVONORM_GRAD, "last of the largest", ties_to_the_last},
};

const struct mutant *mutant_at(int index) {
    return index >= 0 && (size_t)index < OCT_COUNT_OF(mutants) ? &mutants[index] : NULL;
}

void mutant_install(const struct mutant *mutant, struct oct__engine *engine) {
    original.run = engine->run[mutant->op];
    original.op = mutant->op;
    engine->run[mutant->op] = mutant->run;
}

/* --- nudges ------------------------------------------------------------------------------------ */

static oct_status nudged(const struct oct__lane *lane, const struct oct__args *args) {
    OCT_TRY(go(lane, args));
    const struct oct__tensor *t = &args->t[original.operand];
    for (int node = 0; node < lane->form.n_nodes && t->n > 0; node++) {
        const struct oct__sim_call call = node_of(lane, args, node);
        const size_t n = oct__tensor_count(t), middle = n / 2;
        void *at = oct__sim_at(&call, original.operand);
        const double x = oct__sim_get(&call, original.operand, middle);
        double largest = 1e-30;
        for (size_t i = 0; i < n; i++) {
            largest = fmax(largest, fabs(oct__sim_get(&call, original.operand, i)));
        }
        uint32_t bits;
        const float more = (float)(x + 1e-4 * largest), far = (float)(x + 0.05 * largest);
        switch (t->dtype) {
        case OCT_DTYPE_F32:
            ((float *)at)[middle] = more;
            break;
        case OCT_DTYPE_S32:
            ((int32_t *)at)[middle]++;
            break;
        case OCT_DTYPE_U8:
            ((uint8_t *)at)[middle] = (uint8_t)(x < 255.0 ? x + 1.0 : 254.0);
            break;
        case OCT_DTYPE_E8:
            ((uint8_t *)at)[middle] = (uint8_t)(OCT_EXCESS + (x < 127.0 ? x + 1.0 : 126.0));
            break;
        case OCT_DTYPE_S8:
            ((int8_t *)at)[middle] = (int8_t)(x < 127.0 ? x + 1.0 : 126.0);
            break;
        case OCT_DTYPE_BF16:
            memcpy(&bits, &far, sizeof bits);
            ((uint16_t *)at)[middle] = (uint16_t)(bits >> 16);
            break;
        case OCT_DTYPE_COUNT:
            break;
        }
    }
    return OCT_OK;
}

void nudge_install(enum oct__op op, int operand, struct oct__engine *engine) {
    original.run = engine->run[op];
    original.op = op;
    original.operand = operand;
    engine->run[op] = nudged;
}
