/* SPDX-License-Identifier: Apache-2.0 */
/* sim_conv.c - the oracle's products: the definition of a convolution, term by term.
 *
 *     y[n][r][q][o] = sum over i, a, b of x[n][r*stride - pad + a][q*stride - pad + b][i] * w[o][i][a][b]
 *
 * with i over the channels of o's group, and x zero outside the image: the real number zero, which
 * is the byte `zero`, not the byte 0. The gradients are the same terms gathered by x and by w. Sums
 * of integers are taken in 64 bits.
 */
#include "engine/sim.h"

struct conv {
    const struct oct__sim_call *call;
    int h, w, in;          /* of x */
    int out_h, out_w, out; /* of y */
    int kernel, stride, pad;
    int group_in, group_out; /* channels of a group */
};

static struct conv conv_of(const struct oct__sim_call *call, int x, int y) {
    const struct oct__tensor *from = oct__sim_tensor(call, x), *to = oct__sim_tensor(call, y);
    const struct oct__conv_attr *attr = &call->args->attr.conv;
    struct conv conv = {
        .call = call,
        .h = from->h,
        .w = from->w,
        .in = from->c,
        .out_h = to->h,
        .out_w = to->w,
        .out = to->c,
        .kernel = attr->kernel,
        .stride = attr->stride,
        .pad = attr->pad,
        .group_in = from->c / attr->groups,
        .group_out = to->c / attr->groups,
    };
    return conv;
}

static size_t x_at(const struct conv *v, size_t n, int row, int column, int i) {
    return ((n * (size_t)v->h + (size_t)row) * (size_t)v->w + (size_t)column) * (size_t)v->in +
           (size_t)i;
}

static size_t y_at(const struct conv *v, size_t n, int row, int column, int o) {
    return ((n * (size_t)v->out_h + (size_t)row) * (size_t)v->out_w + (size_t)column) *
               (size_t)v->out +
           (size_t)o;
}

/* `i` counts within the group of `o`. */
static size_t w_at(const struct conv *v, int o, int i, int a, int b) {
    const size_t k = (size_t)v->kernel;
    return (((size_t)o * (size_t)v->group_in + (size_t)i) * k + (size_t)a) * k + (size_t)b;
}

static int is_inside(const struct conv *v, int row, int column) {
    return row >= 0 && row < v->h && column >= 0 && column < v->w;
}

/* --- forward: x, grid, w -> sums -------------------------------------------------------------- */

static int64_t forward(const struct conv *v, size_t n, int row, int column, int o) {
    const uint8_t *x = oct__sim_at(v->call, 0);
    const int8_t *w = oct__sim_at(v->call, 2);
    const int zero = (int)oct__sim_get(v->call, 1, 2);
    const int first = o / v->group_out * v->group_in;
    int64_t sum = 0;
    for (int a = 0; a < v->kernel; a++) {
        for (int b = 0; b < v->kernel; b++) {
            const int from_row = row * v->stride - v->pad + a;
            const int from_column = column * v->stride - v->pad + b;
            for (int i = 0; i < v->group_in && is_inside(v, from_row, from_column); i++) {
                sum += (x[x_at(v, n, from_row, from_column, first + i)] - zero) *
                       w[w_at(v, o, i, a, b)];
            }
        }
    }
    return sum;
}

void oct__sim_conv_u8(const struct oct__sim_call *call, size_t row, double *to) {
    const struct conv v = conv_of(call, 0, 3);
    for (int r = 0; r < v.out_h; r++) {
        for (int q = 0; q < v.out_w; q++) {
            for (int o = 0; o < v.out; o++) {
                *to++ = (double)forward(&v, row, r, q, o);
            }
        }
    }
}

/* --- data gradient: dy, w -> sums, one for each element of x ---------------------------------- */

/* The output position that tap `a` of its kernel brings to input position `at`; -1: none. */
static int output_of(const struct conv *v, int at, int a, int n_out) {
    const int scaled = at + v->pad - a;
    if (scaled < 0 || scaled % v->stride != 0 || scaled / v->stride >= n_out) {
        return -1;
    }
    return scaled / v->stride;
}

static int64_t backward(const struct conv *v, size_t n, int row, int column, int i) {
    const uint8_t *dy = oct__sim_at(v->call, 0);
    const int8_t *w = oct__sim_at(v->call, 1);
    const int first = i / v->group_in * v->group_out;
    int64_t sum = 0;
    for (int a = 0; a < v->kernel; a++) {
        for (int b = 0; b < v->kernel; b++) {
            const int y_row = output_of(v, row, a, v->out_h);
            const int y_column = output_of(v, column, b, v->out_w);
            for (int o = first; o < first + v->group_out && y_row >= 0 && y_column >= 0; o++) {
                sum += (dy[y_at(v, n, y_row, y_column, o)] - OCT_EXCESS) *
                       w[w_at(v, o, i % v->group_in, a, b)];
            }
        }
    }
    return sum;
}

void oct__sim_conv_s8_dgrad(const struct oct__sim_call *call, size_t row, double *to) {
    const struct conv v = conv_of(call, 2, 0);
    for (int r = 0; r < v.h; r++) {
        for (int q = 0; q < v.w; q++) {
            for (int i = 0; i < v.in; i++) {
                *to++ = (double)backward(&v, row, r, q, i);
            }
        }
    }
}

/* --- weight gradient: x, grid, dy -> dw, dbias ------------------------------------------------ */

static double weight_gradient(const struct conv *v, int o, int i, int a, int b) {
    const uint8_t *x = oct__sim_at(v->call, 0);
    const double scale = oct__sim_get(v->call, 1, 0);
    const int zero = (int)oct__sim_get(v->call, 1, 2);
    const int channel = o / v->group_out * v->group_in + i;
    double sum = 0.0;
    for (size_t n = 0; n < (size_t)oct__sim_tensor(v->call, 0)->n; n++) {
        for (int r = 0; r < v->out_h; r++) {
            for (int q = 0; q < v->out_w; q++) {
                const int row = r * v->stride - v->pad + a, column = q * v->stride - v->pad + b;
                if (is_inside(v, row, column)) {
                    sum += (double)(x[x_at(v, n, row, column, channel)] - zero) *
                           oct__sim_get(v->call, 2, y_at(v, n, r, q, o));
                }
            }
        }
    }
    return scale * sum;
}

void oct__sim_conv_u8_wgrad(const struct oct__sim_call *call, size_t row, double *to) {
    const struct conv v = conv_of(call, 0, 2);
    for (int i = 0; i < v.group_in; i++) {
        for (int a = 0; a < v.kernel; a++) {
            for (int b = 0; b < v.kernel; b++) {
                *to++ = weight_gradient(&v, (int)row, i, a, b);
            }
        }
    }
}

void oct__sim_conv_u8_wgrad_bias(const struct oct__sim_call *call, size_t row, double *to) {
    const size_t out = (size_t)oct__sim_tensor(call, 2)->c;
    const size_t n_positions = oct__tensor_count(oct__sim_tensor(call, 2)) / out;
    (void)row;
    for (size_t o = 0; o < out; o++) {
        to[o] = 0.0;
        for (size_t p = 0; p < n_positions; p++) {
            to[o] += oct__sim_get(call, 2, p * out + o);
        }
    }
}
