/* SPDX-License-Identifier: Apache-2.0 */
/* sampler.c - a node's stream of samples, and the crops and flips that go with it. */
#include "data/sampler.h"

#include "base/rng.h"

oct_status oct__sampler_init(struct oct__sampler *sampler, uint64_t seed, uint32_t node,
                             const uint32_t *rows, uint32_t n_samples) {
    if (n_samples == 0) {
        OCT_FAIL(INVALID, "node %u has no samples; use fewer nodes or more samples", node);
    }
    void *order;
    OCT_TRY(oct__alloc_array(n_samples, sizeof sampler->order[0], "sample order", &order));
    *sampler = (struct oct__sampler){
        .seed = seed,
        .node = node,
        .n_samples = n_samples,
        .rows = rows,
        .order = order,
        .order_number = -1,
    };
    return OCT_OK;
}

void oct__sampler_fini(struct oct__sampler *sampler) {
    oct__free(sampler->order);
    sampler->order = NULL;
    sampler->order_number = -1;
}

void oct__sampler_batch(struct oct__sampler *sampler, const struct oct_dataset *dataset,
                        uint32_t step, int batch, int pad, struct oct__pick *picks) {
    for (int b = 0; b < batch; b++) {
        uint64_t position = (uint64_t)step * (uint64_t)batch + (uint64_t)b;
        int64_t number = oct__sampler_permutation(sampler, step, batch, b);
        if (number != sampler->order_number) {
            struct oct__stream shuffle =
                oct__stream(sampler->seed, OCT_PURPOSE_SHUFFLE, sampler->node, (uint32_t)number, 0);
            oct__permutation(&shuffle, sampler->n_samples, sampler->order);
            sampler->order_number = number;
        }
        uint32_t row = sampler->rows[sampler->order[position % sampler->n_samples]];
        struct oct__pick *pick = &picks[b];
        *pick = (struct oct__pick){.row = (int32_t)oct__dataset_place(dataset, row),
                                   .label = dataset->labels[row]};
        if (pad > 0) {
            uint32_t words[4];
            struct oct__stream augment =
                oct__stream(sampler->seed, OCT_PURPOSE_AUGMENT, sampler->node, (uint32_t)number, 0);
            oct__stream_block(&augment, row, words);
            uint32_t n_offsets = 2 * (uint32_t)pad + 1;
            pick->dy = (int32_t)oct__below(words[0], n_offsets) - pad;
            pick->dx = (int32_t)oct__below(words[1], n_offsets) - pad;
            pick->flip = (int32_t)oct__below(words[2], 2);
        }
    }
}

oct_status oct__subset(uint64_t seed, uint32_t n, uint32_t n_keep, uint32_t *rows) {
    if (n_keep > n) {
        OCT_FAIL(INVALID, "%u samples are wanted and the dataset has %u", n_keep, n);
    }
    void *memory;
    OCT_TRY(oct__alloc_array(n, sizeof(uint32_t), "sample order", &memory));
    uint32_t *order = memory;
    oct_status status = oct__alloc(n, "kept samples", &memory);
    if (status == OCT_OK) {
        uint8_t *kept = memory;
        struct oct__stream stream = oct__stream(seed, OCT_PURPOSE_SUBSET, 0, 0, 0);
        oct__permutation(&stream, n, order);
        for (uint32_t i = 0; i < n_keep; i++) {
            kept[order[i]] = 1;
        }
        for (uint32_t row = 0; row < n; row++) {
            if (kept[row]) {
                *rows++ = row;
            }
        }
        oct__free(kept);
    }
    oct__free(order);
    return status;
}
