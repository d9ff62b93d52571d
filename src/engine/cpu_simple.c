/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_simple.c - the CPU's element-wise operations: input, ReLU, sum, dropout, NaN search. */
#include <string.h>

#include "base/rng.h"
#include "engine/cpu.h"
#include "kernels/kernels.h"

/* Elements of the shard in operand `index`. */
static size_t shard_elements(const struct oct__shard *s, int index) {
    const struct oct__tensor *t = &s->args->t[index];
    return (size_t)s->count * (size_t)t->h * (size_t)t->w * (size_t)t->c;
}

/* images, picks, lut -> x, labels. `images` is the whole dataset, shared by all nodes. */
static oct_status batch_shard(const struct oct__shard *s) {
    const struct oct__kernels *k = oct__kernels();
    const struct oct__tensor *images = &s->args->t[0], *x = &s->args->t[3];
    const int32_t *pick = oct__shard_at(s, 1);
    const float *lut = oct__node_at(s, 2);
    float *to = oct__shard_at(s, 3);
    int32_t *labels = oct__shard_at(s, 4);
    size_t image_bytes = (size_t)images->h * (size_t)images->w * (size_t)images->c;
    for (int i = 0; i < s->count; i++, pick += 5, to += image_bytes) {
        if (pick[0] < 0 || pick[0] >= images->n) {
            OCT_FAIL(INVALID, "batch: sample %d of a dataset of %d", pick[0], images->n);
        }
        const uint8_t *from = (const uint8_t *)images->at + (size_t)pick[0] * image_bytes;
        k->crop_u8_f32(x->h, x->w, x->c, from, pick[1], pick[2], pick[3], lut, to);
        labels[i] = pick[4];
    }
    return OCT_OK;
}

oct_status oct__cpu_batch(const struct oct__lane *lane, const struct oct__args *args) {
    return oct__each_shard(lane, args, args->t[3].n, batch_shard);
}

static oct_status relu_shard(const struct oct__shard *s) {
    oct__kernels()->relu_f32(shard_elements(s, 0), oct__shard_at(s, 0), oct__shard_at(s, 1));
    return OCT_OK;
}

oct_status oct__cpu_relu(const struct oct__lane *lane, const struct oct__args *args) {
    return oct__each_shard(lane, args, args->t[0].n, relu_shard);
}

static oct_status relu_grad_shard(const struct oct__shard *s) {
    oct__kernels()->relu_grad_f32(shard_elements(s, 0), oct__shard_at(s, 0), oct__shard_at(s, 1),
                                  oct__shard_at(s, 2));
    return OCT_OK;
}

oct_status oct__cpu_relu_grad(const struct oct__lane *lane, const struct oct__args *args) {
    return oct__each_shard(lane, args, args->t[0].n, relu_grad_shard);
}

static oct_status add_shard(const struct oct__shard *s) {
    oct__kernels()->add_f32(shard_elements(s, 0), oct__shard_at(s, 0), oct__shard_at(s, 1),
                            oct__shard_at(s, 2));
    return OCT_OK;
}

oct_status oct__cpu_add(const struct oct__lane *lane, const struct oct__args *args) {
    return oct__each_shard(lane, args, args->t[0].n, add_shard);
}

/* Element e of the node's batch is kept when word e of the layer's stream, as a number in [0, 1),
 * is at least the rate. The mask is never stored: backward draws the same words again. */
static oct_status dropout_shard(const struct oct__shard *s) {
    const float rate = s->args->attr.dropout.rate;
    const float scale = 1.0F / (1.0F - rate);
    const float *x = oct__shard_at(s, 0);
    float *y = oct__shard_at(s, 1);
    size_t n = shard_elements(s, 0);
    uint64_t first = (uint64_t)s->first * (n / (size_t)s->count);
    struct oct__stream stream =
        oct__lane_stream(s->lane, OCT_PURPOSE_DROPOUT, s->node, (uint32_t)s->args->layer);
    for (size_t i = 0; i < n;) {
        uint32_t words[64];
        size_t take = n - i < OCT_COUNT_OF(words) ? n - i : OCT_COUNT_OF(words);
        oct__stream_words(&stream, first + i, take, words);
        for (size_t j = 0; j < take; j++, i++) {
            y[i] = oct__unit_float(words[j]) >= rate ? x[i] * scale : 0.0F;
        }
    }
    return OCT_OK;
}

oct_status oct__cpu_dropout(const struct oct__lane *lane, const struct oct__args *args) {
    return oct__each_shard(lane, args, args->t[0].n, dropout_shard);
}

static oct_status nonfinite_node(const struct oct__shard *s) {
    size_t count = 0;
    oct__kernels()->nonfinite_f32(oct__tensor_count(&s->args->t[0]), oct__node_at(s, 0), &count);
    *(int32_t *)oct__node_at(s, 1) = count > INT32_MAX ? INT32_MAX : (int32_t)count;
    return OCT_OK;
}

oct_status oct__cpu_nonfinite(const struct oct__lane *lane, const struct oct__args *args) {
    return oct__each_node(lane, args, nonfinite_node);
}
