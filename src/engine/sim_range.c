/* SPDX-License-Identifier: Apache-2.0 */
/* sim_range.c - the oracle's range norms, in the order of the definition: (sample, channel, row,
 * column).
 *
 *     K chunks of L values, R = mean_k max - mean_k min, s = 1 / (R * f(L) + eps)
 *     f(L) = 0.175 * (1 + sqrt(pi * ln 4)) / sqrt(2 * ln L),   u = s, or s at one of 256 steps
 *     of bytes R is taken to be at least one step of their grid
 *
 *     Range EvoNorm, over a group of channels of a sample
 *         y = gamma * x * h(v * x) * u + beta,   h(a) = a / 6 + 1/2 held to 0 … 1
 *     Range BatchNorm, over a channel of the batch
 *         y = gamma * (x - mean) * u + beta
 *
 * Backward passes through R to the first largest (+ 1/K) and the first smallest value (- 1/K) of
 * each chunk, with s as it was before the steps; the derivative of h includes its corners.
 */
#include "engine/sim.h"

static size_t chunks_of(size_t count) {
    size_t best = 1;
    for (size_t k = 2; k <= 16; k++) {
        best = count % k == 0 && count / k >= 2 ? k : best;
    }
    return best;
}

static double factor_of(size_t length) {
    const double pi = 3.14159265358979323846;
    return 0.175 * (1.0 + sqrt(pi * log(4.0))) / sqrt(2.0 * log(length < 2 ? 2.0 : (double)length));
}

/* The values that a norm takes together: a group of a sample or a channel of the batch. */
struct set {
    const struct oct__sim_call *call;
    int grid;     /* operand with the grid when x are bytes; -1: floats */
    size_t count; /* values */
    size_t n_chunks, length;
    size_t sample, first_channel; /* of a group; of a channel of the batch: 0 and the channel */
    size_t n_channels, hw;        /* of the set; values of a channel in one sample */
};

/* The place in the tensor of value `j`: (channel, row, column) of a group, (sample, row, column) of
 * a channel. */
static size_t place_of(const struct set *set, size_t j) {
    const size_t c = (size_t)oct__sim_tensor(set->call, 0)->c;
    if (set->n_channels > 0) {
        return (set->sample * set->hw + j % set->hw) * c + set->first_channel + j / set->hw;
    }
    return j * c + set->first_channel;
}

static double x_of(const struct set *set, size_t j) {
    const size_t i = place_of(set, j);
    return set->grid < 0 ? oct__sim_get(set->call, 0, i)
                         : oct__sim_dequantize(set->call, 0, set->grid, i);
}

/* The first largest and the first smallest value of a chunk. */
static void extremes_of(const struct set *set, size_t chunk, size_t *largest, size_t *smallest) {
    *largest = *smallest = chunk * set->length;
    for (size_t j = chunk * set->length; j < (chunk + 1) * set->length; j++) {
        *largest = x_of(set, j) > x_of(set, *largest) ? j : *largest;
        *smallest = x_of(set, j) < x_of(set, *smallest) ? j : *smallest;
    }
}

/* `mean` is taken from the values first: that changes no spread of finite ones. */
static double scale_of(const struct set *set, double mean) {
    const struct oct__norm_attr *attr = &set->call->args->attr.norm;
    double high = 0.0, low = 0.0, far = 0.0;
    for (size_t chunk = 0; chunk < set->n_chunks; chunk++) {
        size_t largest, smallest;
        extremes_of(set, chunk, &largest, &smallest);
        high += x_of(set, largest) - mean;
        low += x_of(set, smallest) - mean;
        far = fmax(far, fmax(x_of(set, largest), -x_of(set, smallest)));
    }
    const double n = (double)set->n_chunks;
    double spread = high / n - low / n;
    if (set->grid >= 0 && attr->reach > 0.0F) {
        spread = fmax(spread, far / ((double)attr->reach * factor_of(set->length)));
    }
    if (set->grid >= 0 && spread < oct__sim_get(set->call, set->grid, 0)) {
        spread =
            oct__sim_get(set->call, set->grid, 0); /* less than a step of the grid is not seen */
    }
    return 1.0 / (spread * factor_of(set->length) + (double)attr->eps);
}

/* What reaches the values through R: `slope` is dL/ds. Added at their places in `dx`, counted from
 * place `first`. */
static void pass_through_range(const struct set *set, double slope, double scale, size_t first,
                               double *dx) {
    const double share = -slope * scale * scale * factor_of(set->length) / (double)set->n_chunks;
    for (size_t chunk = 0; chunk < set->n_chunks; chunk++) {
        size_t largest, smallest;
        extremes_of(set, chunk, &largest, &smallest);
        dx[place_of(set, largest) - first] += share;
        dx[place_of(set, smallest) - first] -= share;
    }
}

/* A vector of scales at its steps, or as it is where the norm does not quantize it. */
static void used_of(const struct oct__sim_call *call, int operand, size_t row, double *to) {
    const size_t n = oct__sim_row(call, operand);
    double lo = 0.0, step = 1.0;
    if (call->args->attr.norm.quantize_scale) {
        oct__sim_steps(call, operand, &lo, &step);
    }
    for (size_t i = 0; i < n; i++) {
        to[i] = (oct__sim_get(call, operand, row * n + i) - lo) / step;
    }
}

/* --- Range EvoNorm ------------------------------------------------------------------------------
 * */

/* Which operand is what: -1 where the operation has none. */
static const struct evonorm {
    enum oct__op op;
    int grid, gamma, beta, v, scale, used, dy, dy_scale;
} evonorms[] = {
    {OCT_OP_RANGE_EVONORM, -1, 1, 2, 3, 4, 5, -1, -1},
    {OCT_OP_RANGE_EVONORM_GRAD, -1, 1, -1, 2, 3, 4, 5, -1},
    {OCT_OP_RANGE_EVONORM_U8, 1, 2, 3, 4, 6, 7, -1, -1},
    {OCT_OP_RANGE_EVONORM_U8_GRAD, 1, 2, -1, 3, 4, 5, 6, 7},
};

static const struct evonorm *evonorm_of(const struct oct__sim_call *call) {
    const struct evonorm *norm = evonorms;
    while (norm->op != call->op) {
        norm++;
    }
    return norm;
}

static size_t groups_of(const struct oct__sim_call *call) {
    return (size_t)call->args->attr.norm.groups;
}

static size_t group_of(const struct oct__sim_call *call, size_t channel) {
    return channel / ((size_t)oct__sim_tensor(call, 0)->c / groups_of(call));
}

static struct set group_set(const struct oct__sim_call *call, size_t sample, size_t group) {
    const struct oct__tensor *x = oct__sim_tensor(call, 0);
    struct set set = {.call = call, .grid = evonorm_of(call)->grid, .sample = sample};
    set.hw = (size_t)x->h * (size_t)x->w;
    set.n_channels = (size_t)x->c / groups_of(call);
    set.first_channel = group * set.n_channels;
    set.count = set.n_channels * set.hw;
    set.n_chunks = chunks_of(set.count);
    set.length = set.count / set.n_chunks;
    return set;
}

void oct__sim_evonorm_scale(const struct oct__sim_call *call, size_t row, double *to) {
    for (size_t group = 0; group < groups_of(call); group++) {
        const struct set set = group_set(call, row, group);
        to[group] = scale_of(&set, 0.0);
    }
}

void oct__sim_evonorm_used(const struct oct__sim_call *call, size_t row, double *to) {
    used_of(call, evonorm_of(call)->scale, row, to);
}

/* One element with all that its formulas need. */
struct point {
    double x, gamma, v;
    double h, slope; /* h(v * x) and its derivative */
    double used, dy;
};

static struct point point_of(const struct oct__sim_call *call, size_t sample, size_t element) {
    const struct evonorm *norm = evonorm_of(call);
    const size_t channel = element % (size_t)oct__sim_tensor(call, 0)->c;
    const size_t i = sample * oct__sim_row(call, 0) + element;
    struct point p = {
        .x =
            norm->grid < 0 ? oct__sim_get(call, 0, i) : oct__sim_dequantize(call, 0, norm->grid, i),
        .gamma = oct__sim_get(call, norm->gamma, channel),
        .v = oct__sim_get(call, norm->v, channel),
        .used = oct__sim_get(call, norm->used, sample * groups_of(call) + group_of(call, channel)),
    };
    const double t = p.v * p.x / 6.0 + 0.5;
    p.h = t > 0.0 ? (t < 1.0 ? t : 1.0) : 0.0;
    p.slope = t >= 0.0 && t <= 1.0 ? 1.0 / 6.0 : 0.0;
    if (norm->dy >= 0) {
        const double scale =
            norm->dy_scale < 0 ? 1.0 : oct__sim_get_of(call, norm->dy_scale, sample);
        p.dy = scale * oct__sim_get(call, norm->dy, i);
    }
    return p;
}

double oct__sim_evonorm_value(const struct oct__sim_call *call, size_t sample, size_t element) {
    const struct point p = point_of(call, sample, element);
    const size_t channel = element % (size_t)oct__sim_tensor(call, 0)->c;
    return p.gamma * p.x * p.h * p.used + oct__sim_get(call, evonorm_of(call)->beta, channel);
}

void oct__sim_evonorm_y(const struct oct__sim_call *call, size_t row, double *to) {
    for (size_t i = 0; i < oct__sim_row(call, 0); i++) {
        to[i] = oct__sim_evonorm_value(call, row, i);
    }
}

void oct__sim_evonorm_dx(const struct oct__sim_call *call, size_t row, double *to) {
    const struct evonorm *norm = evonorm_of(call);
    const size_t n = oct__sim_row(call, 0), first = row * n;
    for (size_t group = 0; group < groups_of(call); group++) {
        const struct set set = group_set(call, row, group);
        double slope = 0.0; /* dL/ds */
        for (size_t j = 0; j < set.count; j++) {
            const size_t i = place_of(&set, j) - first;
            const struct point p = point_of(call, row, i);
            slope += p.dy * p.gamma * p.x * p.h;
            to[i] = p.dy * p.gamma * p.used * (p.h + p.x * p.v * p.slope);
        }
        const double scale = oct__sim_get(call, norm->scale, row * groups_of(call) + group);
        pass_through_range(&set, slope, scale, first, to);
    }
    for (size_t i = 0; i < n && norm->grid >= 0 && call->args->attr.norm.quant.mask; i++) {
        to[i] = oct__sim_is_clipped(call, 0, norm->grid, first + i) ? 0.0 : to[i];
    }
}

/* Sums over the batch of one of three terms, a sum for each channel. */
static double gamma_term(struct point p) {
    return p.dy * p.x * p.h * p.used;
}

static double beta_term(struct point p) {
    return p.dy;
}

static double v_term(struct point p) {
    return p.dy * p.gamma * p.used * p.x * p.x * p.slope;
}

static void sum_terms(const struct oct__sim_call *call, double (*term)(struct point), double *to) {
    const struct oct__tensor *x = oct__sim_tensor(call, 0);
    for (int c = 0; c < x->c; c++) {
        to[c] = 0.0;
    }
    for (size_t sample = 0; sample < (size_t)x->n; sample++) {
        for (size_t i = 0; i < oct__sim_row(call, 0); i++) {
            to[i % (size_t)x->c] += term(point_of(call, sample, i));
        }
    }
}

void oct__sim_evonorm_dgamma(const struct oct__sim_call *call, size_t row, double *to) {
    (void)row;
    sum_terms(call, gamma_term, to);
}

void oct__sim_evonorm_dbeta(const struct oct__sim_call *call, size_t row, double *to) {
    (void)row;
    sum_terms(call, beta_term, to);
}

void oct__sim_evonorm_dv(const struct oct__sim_call *call, size_t row, double *to) {
    (void)row;
    sum_terms(call, v_term, to);
}

/* --- Range BatchNorm ----------------------------------------------------------------------------
 * */

static struct set channel_set(const struct oct__sim_call *call, size_t channel) {
    const struct oct__tensor *x = oct__sim_tensor(call, 0);
    struct set set = {.call = call, .grid = -1, .first_channel = channel};
    set.count = (size_t)x->n * (size_t)x->h * (size_t)x->w;
    set.n_chunks = chunks_of(set.count);
    set.length = set.count / set.n_chunks;
    return set;
}

void oct__sim_batch_mean(const struct oct__sim_call *call, size_t row, double *to) {
    (void)row;
    for (size_t c = 0; c < (size_t)oct__sim_tensor(call, 0)->c; c++) {
        const struct set set = channel_set(call, c);
        to[c] = 0.0;
        for (size_t j = 0; j < set.count; j++) {
            to[c] += x_of(&set, j);
        }
        to[c] /= (double)set.count;
    }
}

void oct__sim_batch_scale(const struct oct__sim_call *call, size_t row, double *to) {
    (void)row;
    for (size_t c = 0; c < (size_t)oct__sim_tensor(call, 0)->c; c++) {
        const struct set set = channel_set(call, c);
        to[c] = scale_of(&set, oct__sim_get(call, 5, c));
    }
}

void oct__sim_batch_used(const struct oct__sim_call *call, size_t row, double *to) {
    used_of(call, 6, row, to);
}

/* Running values, of the mean and of the scale before its steps. */
static void run_on(const struct oct__sim_call *call, int run, int seen, double *to) {
    const double momentum = (double)call->args->attr.norm.momentum;
    for (size_t c = 0; c < (size_t)oct__sim_tensor(call, 0)->c; c++) {
        to[c] =
            (1.0 - momentum) * oct__sim_get(call, run, c) + momentum * oct__sim_get(call, seen, c);
    }
}

void oct__sim_batch_run_mean(const struct oct__sim_call *call, size_t row, double *to) {
    (void)row;
    run_on(call, 3, 5, to);
}

void oct__sim_batch_run_scale(const struct oct__sim_call *call, size_t row, double *to) {
    (void)row;
    run_on(call, 4, 6, to);
}

/* x, gamma, beta and the operands that hold mean and scale */
static void batch_apply(const struct oct__sim_call *call, size_t row, int mean, int scale,
                        double *to) {
    const size_t n = oct__sim_row(call, 0), channels = (size_t)oct__sim_tensor(call, 0)->c;
    for (size_t i = 0; i < n; i++) {
        const size_t c = i % channels;
        const double centered = oct__sim_get(call, 0, row * n + i) - oct__sim_get(call, mean, c);
        to[i] = oct__sim_get(call, 1, c) * centered * oct__sim_get(call, scale, c) +
                oct__sim_get(call, 2, c);
    }
}

void oct__sim_batch_y(const struct oct__sim_call *call, size_t row, double *to) {
    batch_apply(call, row, 5, 7, to);
}

void oct__sim_batch_y_eval(const struct oct__sim_call *call, size_t row, double *to) {
    batch_apply(call, row, 3, 4, to);
}

/* x, gamma, mean, scale, used, dy: sums over a channel of dy and of dy * (x - mean) */
static void batch_sums(const struct set *set, double *dy_sum, double *product_sum) {
    const double mean = oct__sim_get(set->call, 2, set->first_channel);
    *dy_sum = *product_sum = 0.0;
    for (size_t j = 0; j < set->count; j++) {
        const double dy = oct__sim_get(set->call, 5, place_of(set, j));
        *dy_sum += dy;
        *product_sum += dy * (x_of(set, j) - mean);
    }
}

/* The whole batch at once, channel by channel. The mean takes part too: what it passes back is the
 * mean of dy. */
void oct__sim_batch_dx(const struct oct__sim_call *call, size_t row, double *to) {
    (void)row;
    for (size_t c = 0; c < (size_t)oct__sim_tensor(call, 0)->c; c++) {
        const struct set set = channel_set(call, c);
        const double gamma = oct__sim_get(call, 1, c), scale = oct__sim_get(call, 3, c);
        const double used = oct__sim_get(call, 4, c);
        double dy_sum, product_sum;
        batch_sums(&set, &dy_sum, &product_sum);
        for (size_t j = 0; j < set.count; j++) {
            const double dy = oct__sim_get(call, 5, place_of(&set, j));
            to[place_of(&set, j)] = gamma * used * (dy - dy_sum / (double)set.count);
        }
        pass_through_range(&set, gamma * product_sum, scale, 0, to);
    }
}

void oct__sim_batch_dgamma(const struct oct__sim_call *call, size_t row, double *to) {
    (void)row;
    for (size_t c = 0; c < (size_t)oct__sim_tensor(call, 0)->c; c++) {
        const struct set set = channel_set(call, c);
        double dy_sum, product_sum;
        batch_sums(&set, &dy_sum, &product_sum);
        to[c] = product_sum * oct__sim_get(call, 4, c);
    }
}

void oct__sim_batch_dbeta(const struct oct__sim_call *call, size_t row, double *to) {
    (void)row;
    for (size_t c = 0; c < (size_t)oct__sim_tensor(call, 0)->c; c++) {
        const struct set set = channel_set(call, c);
        double dy_sum, product_sum;
        batch_sums(&set, &dy_sum, &product_sum);
        to[c] = dy_sum;
    }
}
