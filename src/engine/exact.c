/* SPDX-License-Identifier: Apache-2.0 */
/* exact.c - integer convolutions that are right on every CPU.
 *
 * The byte products of processors without VNNI add two of them in 16 bits, where they saturate.
 * Here bytes are widened to 16 bits first, and pairs of products are added in 32: half the speed
 * that VNNI has, and no sum can go wrong.
 *
 * A sample is copied into an *image*: its values as they count (q - zero), with a border of zeros,
 * so that padding is truly zero whatever the zero point. In an image the values that a row of the
 * kernel meets are one run of kernel * channels neighbours:
 *
 *     image row    | 0   0   0 |x00 x01 x02|x10 x11 x12|x20 …
 *     position p   '---------------run-----------------'
 *     p + 1          step = stride * channels further on
 *
 * Weights are packed as [pair i][output o][2], the two that meet values 2i and 2i + 1 of the run,
 * which is what the kernel taps_s16_s32 takes. An odd run ends with a weight of zero, and reads one
 * value too many: images have room for it. Groups have images and weights of their own.
 *
 * The data gradient is such a convolution, too: of the gradient, with the kernel turned round and
 * its inputs and outputs exchanged. Forward, sum p meets the value p * stride + r - pad with row r
 * of the kernel; backward, it meets (p + r - (kernel - 1 - pad)) / stride where that is a whole
 * number. One formula serves both,
 *
 *     place = (p * stride + r - border) / dilate       forward: dilate = 1; backward: stride = 1
 *
 * and sums whose p leaves the same rest by `dilate` form a *phase*: they meet the same rows of the
 * kernel, every dilate-th one, with values that are neighbours again. So no product with a zero
 * between values is ever made; a phase may also meet none, and its sums are zero.
 *
 * 66,311 products of 255 and 127 fit into a sum of 32 bits; what has more is refused when a program
 * is planned (engine.c).
 */
#include <limits.h>
#include <string.h>

#include "engine/cpu.h"
#include "kernels/kernels.h"

/* A product as a convolution of an image, whichever of the two it is. */
struct form {
    int is_gradient;
    int kernel, groups, stride, dilate, border; /* the border may be negative: values unused */
    int in, out;                                /* channels of a group: of the image, of the sums */
    int from_h, from_w, to_h, to_w;             /* the operand that is copied, and the sums */
    int top, left;                              /* the place of the image's first value */
    int h, w;                                   /* of the image */
    size_t image;                               /* values of one, with the room behind it */
    size_t weights;                             /* packed, of a node */
};

/* A phase, in rows or in columns. */
struct phase {
    int positions;   /* sums of it */
    int first, taps; /* rows of the kernel it meets: first, first + dilate, … */
    int place;       /* what its first sum meets with the first of them */
};

static struct phase phase_of(const struct form *f, int index, int size) {
    struct phase phase = {.positions = (size - index + f->dilate - 1) / f->dilate};
    const int rest = (f->border - index * f->stride) % f->dilate;
    phase.first = rest < 0 ? rest + f->dilate : rest;
    phase.taps = (f->kernel - phase.first + f->dilate - 1) / f->dilate;
    phase.place = (index * f->stride + phase.first - f->border) / f->dilate;
    return phase;
}

static int phase_count(const struct form *f, int size) {
    return f->dilate < size ? f->dilate : size;
}

/* The places that `size` sums meet: `first` and how many. */
static int reach(const struct form *f, int size, int *first) {
    int last = INT_MIN;
    *first = INT_MAX;
    for (int i = 0; i < phase_count(f, size); i++) {
        const struct phase phase = phase_of(f, i, size);
        if (phase.taps > 0) {
            int end = phase.place + (phase.positions - 1) * f->stride + phase.taps;
            *first = phase.place < *first ? phase.place : *first;
            last = end > last ? end : last;
        }
    }
    return last > *first ? last - *first : 0;
}

static size_t pairs_of(const struct form *f, const struct phase *columns) {
    return ((size_t)columns->taps * (size_t)f->in + 1) / 2;
}

/* Packed weights of a group: for each phase of columns, each row of the kernel. */
static size_t group_weights(const struct form *f) {
    size_t pairs = 0;
    for (int i = 0; i < phase_count(f, f->to_w); i++) {
        const struct phase columns = phase_of(f, i, f->to_w);
        pairs += pairs_of(f, &columns);
    }
    return (size_t)f->kernel * pairs * (size_t)f->out * 2;
}

static struct form form_of(enum oct__op op, const struct oct__args *args) {
    const struct oct__conv_attr *conv = &args->attr.conv;
    const int is_gradient = op == OCT_OP_CONV_S8_DGRAD;
    const struct oct__tensor *from = &args->t[0], *to = &args->t[is_gradient ? 2 : 3];
    struct form f = {
        .is_gradient = is_gradient,
        .kernel = conv->kernel,
        .groups = conv->groups,
        .stride = is_gradient ? 1 : conv->stride,
        .dilate = is_gradient ? conv->stride : 1,
        .border = is_gradient ? conv->kernel - 1 - conv->pad : conv->pad,
        .in = from->c / conv->groups,
        .out = to->c / conv->groups,
        .from_h = from->h,
        .from_w = from->w,
        .to_h = to->h,
        .to_w = to->w,
    };
    f.h = reach(&f, f.to_h, &f.top);
    f.w = reach(&f, f.to_w, &f.left);
    f.image = ((size_t)f.h * (size_t)f.w * (size_t)f.in + 1 + 31) & ~(size_t)31;
    f.weights = ((size_t)f.groups * group_weights(&f) + 31) & ~(size_t)31;
    return f;
}

/* A row of the operand, all groups. */
static size_t row_values(const struct form *f) {
    return (size_t)f->from_w * (size_t)f->in * (size_t)f->groups;
}

/* Shared scratch: packed weights of each node. A thread's: the images of a sample, then a row. */
void oct__exact_scratch(enum oct__op op, const struct oct__lane_form *form,
                        const struct oct__args *args, struct oct__plan *plan) {
    const struct form f = form_of(op, args);
    size_t values = (size_t)f.groups * f.image + row_values(&f);
    plan->shared_bytes = (size_t)form->n_nodes * f.weights * sizeof(int16_t);
    plan->thread_bytes = (values * sizeof(int16_t) + 63) & ~(size_t)63;
}

/* --- weights --------------------------------------------------------------------------------- */

static int16_t *packed_weights(const struct oct__shard *s, const struct form *f) {
    return (int16_t *)s->lane->shared_scratch + (size_t)s->node * f->weights;
}

/* Weight from image channel `in` to sum `out` of a group, at row r and column q of the kernel as
 * the image meets it. */
static int8_t weight_at(const struct form *f, const int8_t *w, int g, int out, int in, int r,
                        int q) {
    const size_t k = (size_t)f->kernel;
    if (f->is_gradient) { /* in and out are exchanged, rows and columns turned round */
        size_t map = ((size_t)g * (size_t)f->in + (size_t)in) * (size_t)f->out + (size_t)out;
        return w[(map * k + (k - 1 - (size_t)r)) * k + (k - 1 - (size_t)q)];
    }
    size_t map = ((size_t)g * (size_t)f->out + (size_t)out) * (size_t)f->in + (size_t)in;
    return w[(map * k + (size_t)r) * k + (size_t)q];
}

/* The run of kernel row r in a phase of columns; returns what follows it. */
static int16_t *pack_run(const struct form *f, const int8_t *w, int g, int r,
                         const struct phase *columns, int16_t *packed) {
    const int run = columns->taps * f->in, pairs = (int)pairs_of(f, columns);
    for (int at = 0; at < 2 * pairs; at += 2) {
        const int q0 = columns->first + at / f->in * f->dilate, in0 = at % f->in;
        const int q1 = columns->first + (at + 1) / f->in * f->dilate, in1 = (at + 1) % f->in;
        for (int o = 0; o < f->out; o++, packed += 2) {
            packed[0] = weight_at(f, w, g, o, in0, r, q0);
            packed[1] = at + 1 < run ? weight_at(f, w, g, o, in1, r, q1) : 0;
        }
    }
    return packed;
}

/* [group][phase of columns][kernel row][pair][output][2] */
static oct_status pack_node(const struct oct__shard *s, enum oct__op op) {
    const struct form f = form_of(op, s->args);
    const int8_t *w = oct__node_at(s, f.is_gradient ? 1 : 2);
    int16_t *packed = packed_weights(s, &f);
    for (int g = 0; g < f.groups; g++) {
        for (int i = 0; i < phase_count(&f, f.to_w); i++) {
            const struct phase columns = phase_of(&f, i, f.to_w);
            for (int r = 0; r < f.kernel; r++) {
                packed = pack_run(&f, w, g, r, &columns, packed);
            }
        }
    }
    return OCT_OK;
}

static oct_status pack_u8(const struct oct__shard *s) {
    return pack_node(s, OCT_OP_CONV_U8);
}

static oct_status pack_s8_dgrad(const struct oct__shard *s) {
    return pack_node(s, OCT_OP_CONV_S8_DGRAD);
}

/* --- images ---------------------------------------------------------------------------------- */

/* The first and the end of `count` values that lie among `size` places from `first` on. */
static void inside(int count, int first, int size, int *from, int *to) {
    *from = first > 0 ? first : 0;
    *to = first + size < count ? first + size : count;
}

/* `n` pixels of a row, all channels, to their places in the groups' images. */
static void scatter(const struct form *f, const int16_t *row, int n, int16_t *image) {
    const size_t in = (size_t)f->in;
    for (int column = 0; column < n; column++) {
        for (int g = 0; g < f->groups; g++, row += in) {
            int16_t *to = image + (size_t)g * f->image + (size_t)column * in;
            for (size_t i = 0; i < in; i++) {
                to[i] = row[i];
            }
        }
    }
}

/* One sample into images whose other values are zero already. */
static void fill_images(const struct form *f, const uint8_t *sample, int zero, int16_t *images,
                        int16_t *row_buffer) {
    const struct oct__kernels *k = oct__kernels();
    const size_t all = (size_t)f->in * (size_t)f->groups;
    int top, bottom, left, right;
    if (f->h == 0 || f->w == 0) {
        return;
    }
    inside(f->from_h, f->top, f->h, &top, &bottom);
    inside(f->from_w, f->left, f->w, &left, &right);
    for (int row = top; row < bottom && left < right; row++) {
        const size_t n = (size_t)(right - left) * all;
        size_t from = ((size_t)row * (size_t)f->from_w + (size_t)left) * all;
        size_t place = (size_t)(row - f->top) * (size_t)f->w + (size_t)(left - f->left);
        int16_t *image = images + place * (size_t)f->in;
        int16_t *to = f->groups == 1 ? image : row_buffer;
        k->center_u8_s16(n, sample + from, zero, to);
        if (f->groups > 1) {
            scatter(f, row_buffer, right - left, image);
        }
    }
}

/* --- products -------------------------------------------------------------------------------- */

/* Sums of one group and one phase of columns; returns the weights that follow. */
static const int16_t *multiply_phase(const struct form *f, const int16_t *image, int index,
                                     const int16_t *weights, int32_t *sums) {
    const struct oct__kernels *k = oct__kernels();
    const struct phase columns = phase_of(f, index, f->to_w);
    const size_t in = (size_t)f->in, out = (size_t)f->out, all = out * (size_t)f->groups;
    const size_t pairs = pairs_of(f, &columns), line = (size_t)f->w * in;
    for (int row = 0; row < f->to_h && pairs > 0; row++) {
        const struct phase rows = phase_of(f, row % f->dilate, f->to_h);
        const int first = rows.place + row / f->dilate * f->stride - f->top;
        int32_t *to = sums + ((size_t)row * (size_t)f->to_w + (size_t)index) * all;
        for (int t = 0; t < rows.taps; t++) {
            const size_t r = (size_t)rows.first + (size_t)t * (size_t)f->dilate;
            const int16_t *from =
                image + (size_t)(first + t) * line + (size_t)(columns.place - f->left) * in;
            k->taps_s16_s32((size_t)columns.positions, (size_t)f->stride * in, pairs, out,
                            (size_t)f->dilate * all, from, weights + r * pairs * out * 2, to);
        }
    }
    return weights + (size_t)f->kernel * pairs * out * 2;
}

static oct_status multiply_shard(const struct oct__shard *s, enum oct__op op) {
    const struct form f = form_of(op, s->args);
    const size_t n_images = (size_t)f.groups * f.image;
    const size_t in_sample = (size_t)f.from_h * row_values(&f);
    const size_t out_sample = (size_t)f.to_h * (size_t)f.to_w * (size_t)f.out * (size_t)f.groups;
    int16_t *images = oct__thread_scratch(s);
    const uint8_t *from = oct__shard_at(s, 0);
    int32_t *sums = oct__shard_at(s, f.is_gradient ? 2 : 3);
    int zero = OCT_EXCESS;
    if (!f.is_gradient) {
        const struct oct__grid *grid = oct__node_at(s, 1);
        zero = (int)grid->zero;
    }
    memset(images, 0, n_images * sizeof *images);
    for (int i = 0; i < s->count; i++, from += in_sample, sums += out_sample) {
        const int16_t *weights = packed_weights(s, &f);
        fill_images(&f, from, zero, images, images + n_images);
        memset(sums, 0, out_sample * sizeof *sums);
        for (int g = 0; g < f.groups; g++) {
            for (int index = 0; index < phase_count(&f, f.to_w); index++) {
                weights = multiply_phase(&f, images + (size_t)g * f.image, index, weights,
                                         sums + (size_t)g * (size_t)f.out);
            }
        }
    }
    return OCT_OK;
}

static oct_status shard_u8(const struct oct__shard *s) {
    return multiply_shard(s, OCT_OP_CONV_U8);
}

static oct_status shard_s8_dgrad(const struct oct__shard *s) {
    return multiply_shard(s, OCT_OP_CONV_S8_DGRAD);
}

/* A bare product takes what weights the scratch holds: the time is the same. Its images are made,
 * as the copies inside a library's products are. */
oct_status oct__exact_conv_u8(const struct oct__lane *lane, const struct oct__args *args) {
    OCT_TRY(lane->bare ? OCT_OK : oct__each_node(lane, args, pack_u8));
    return oct__each_shard(lane, args, args->t[0].n, shard_u8);
}

oct_status oct__exact_conv_s8_dgrad(const struct oct__lane *lane, const struct oct__args *args) {
    OCT_TRY(lane->bare ? OCT_OK : oct__each_node(lane, args, pack_s8_dgrad));
    return oct__each_shard(lane, args, args->t[0].n, shard_s8_dgrad);
}
