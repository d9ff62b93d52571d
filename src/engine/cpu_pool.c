/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_pool.c - max and average pooling, forward and backward.
 *
 * Loops over windows, innermost over channels: kernels where the largest is sought, which a compiler
 * makes branches of, and plain ones where it vectorizes them.
 */
#include <string.h>

#include "engine/cpu.h"
#include "kernels/kernels.h"

/* The part of a window that lies inside the input. */
struct window {
    int top, bottom, left, right; /* bottom and right excluded */
    int area;
};

static struct window window_at(const struct oct__args *a, const struct oct__tensor *x, int row,
                               int column) {
    int top = row * a->attr.pool.stride - a->attr.pool.pad;
    int left = column * a->attr.pool.stride - a->attr.pool.pad;
    int bottom = top + a->attr.pool.kernel_h, right = left + a->attr.pool.kernel_w;
    struct window w = {top < 0 ? 0 : top, bottom > x->h ? x->h : bottom, left < 0 ? 0 : left,
                       right > x->w ? x->w : right, 0};
    w.area = (w.bottom - w.top) * (w.right - w.left);
    return w;
}

static size_t sample_elements(const struct oct__tensor *t) {
    return (size_t)t->h * (size_t)t->w * (size_t)t->c;
}

/* `which` counts positions inside the clipped window, row by row; ties go to the first. NaN wins,
 * so that it is not hidden. */
static oct_status max_shard(const struct oct__shard *s) {
    const struct oct__kernels *k = oct__kernels();
    const struct oct__tensor *x = &s->args->t[0], *y = &s->args->t[1];
    for (int i = 0; i < s->count; i++) {
        const float *from = (const float *)oct__shard_at(s, 0) + (size_t)i * sample_elements(x);
        float *to = (float *)oct__shard_at(s, 1) + (size_t)i * sample_elements(y);
        uint8_t *which = (uint8_t *)oct__shard_at(s, 2) + (size_t)i * sample_elements(y);
        for (int row = 0; row < y->h; row++) {
            for (int column = 0; column < y->w; column++) {
                struct window w = window_at(s->args, x, row, column);
                size_t at = ((size_t)row * (size_t)y->w + (size_t)column) * (size_t)y->c;
                size_t c = (size_t)x->c;
                int place = 0;
                for (int r = w.top; r < w.bottom; r++) {
                    for (int q = w.left; q < w.right; q++, place++) {
                        const float *v = from + ((size_t)r * (size_t)x->w + (size_t)q) * c;
                        if (place == 0) {
                            memcpy(to + at, v, c * sizeof *to);
                            memset(which + at, 0, c);
                        } else {
                            k->max_pool_f32(c, (uint8_t)place, v, to + at, which + at);
                        }
                    }
                }
            }
        }
    }
    return OCT_OK;
}

oct_status oct__cpu_max_pool(const struct oct__lane *lane, const struct oct__args *args) {
    return oct__each_shard(lane, args, args->t[0].n, max_shard);
}

static oct_status max_grad_shard(const struct oct__shard *s) {
    const struct oct__kernels *k = oct__kernels();
    const struct oct__tensor *dy = &s->args->t[1], *dx = &s->args->t[2];
    for (int i = 0; i < s->count; i++) {
        const uint8_t *which = (uint8_t *)oct__shard_at(s, 0) + (size_t)i * sample_elements(dy);
        const float *from = (const float *)oct__shard_at(s, 1) + (size_t)i * sample_elements(dy);
        float *to = (float *)oct__shard_at(s, 2) + (size_t)i * sample_elements(dx);
        memset(to, 0, sample_elements(dx) * sizeof *to);
        for (int row = 0; row < dy->h; row++) {
            for (int column = 0; column < dy->w; column++) {
                struct window w = window_at(s->args, dx, row, column);
                size_t at = ((size_t)row * (size_t)dy->w + (size_t)column) * (size_t)dy->c;
                int place = 0;
                for (int r = w.top; r < w.bottom; r++) {
                    for (int q = w.left; q < w.right; q++, place++) {
                        size_t pixel = ((size_t)r * (size_t)dx->w + (size_t)q) * (size_t)dx->c;
                        k->max_pool_grad_f32((size_t)dy->c, (uint8_t)place, which + at, from + at,
                                             to + pixel);
                    }
                }
            }
        }
    }
    return OCT_OK;
}

oct_status oct__cpu_max_pool_grad(const struct oct__lane *lane, const struct oct__args *args) {
    return oct__each_shard(lane, args, args->t[1].n, max_grad_shard);
}

static oct_status avg_shard(const struct oct__shard *s) {
    const struct oct__tensor *x = &s->args->t[0], *y = &s->args->t[1];
    for (int i = 0; i < s->count; i++) {
        const float *from = (const float *)oct__shard_at(s, 0) + (size_t)i * sample_elements(x);
        float *to = (float *)oct__shard_at(s, 1) + (size_t)i * sample_elements(y);
        for (int row = 0; row < y->h; row++) {
            for (int column = 0; column < y->w; column++, to += y->c) {
                struct window w = window_at(s->args, x, row, column);
                memset(to, 0, (size_t)y->c * sizeof *to);
                for (int r = w.top; r < w.bottom; r++) {
                    for (int q = w.left; q < w.right; q++) {
                        const float *v =
                            from + ((size_t)r * (size_t)x->w + (size_t)q) * (size_t)x->c;
                        for (int c = 0; c < x->c; c++) {
                            to[c] += v[c];
                        }
                    }
                }
                for (int c = 0; c < x->c; c++) {
                    to[c] /= (float)w.area;
                }
            }
        }
    }
    return OCT_OK;
}

oct_status oct__cpu_avg_pool(const struct oct__lane *lane, const struct oct__args *args) {
    return oct__each_shard(lane, args, args->t[0].n, avg_shard);
}

static oct_status avg_grad_shard(const struct oct__shard *s) {
    const struct oct__tensor *dy = &s->args->t[0], *dx = &s->args->t[1];
    for (int i = 0; i < s->count; i++) {
        const float *from = (const float *)oct__shard_at(s, 0) + (size_t)i * sample_elements(dy);
        float *to = (float *)oct__shard_at(s, 1) + (size_t)i * sample_elements(dx);
        memset(to, 0, sample_elements(dx) * sizeof *to);
        for (int row = 0; row < dy->h; row++) {
            for (int column = 0; column < dy->w; column++, from += dy->c) {
                struct window w = window_at(s->args, dx, row, column);
                for (int r = w.top; r < w.bottom; r++) {
                    for (int q = w.left; q < w.right; q++) {
                        float *v = to + ((size_t)r * (size_t)dx->w + (size_t)q) * (size_t)dx->c;
                        for (int c = 0; c < dy->c; c++) {
                            v[c] += from[c] / (float)w.area;
                        }
                    }
                }
            }
        }
    }
    return OCT_OK;
}

oct_status oct__cpu_avg_pool_grad(const struct oct__lane *lane, const struct oct__args *args) {
    return oct__each_shard(lane, args, args->t[0].n, avg_grad_shard);
}
