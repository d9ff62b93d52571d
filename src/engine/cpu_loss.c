/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_loss.c - softmax cross-entropy, its gradient, and whether the largest logit was right.
 *
 *     p = exp(z - max z) / sum,   loss = -log p[label],   dz = (p - onehot(label)) / batch
 *
 * One row of logits a sample: too little work to vectorize by hand. exp and log are taken in
 * double, so that the loss is accurate when it is small.
 */
#include <math.h>

#include "engine/cpu.h"

/* A sample with label -1 fills a batch up: it has no loss, no hit and no gradient. The gradient is
 * of the mean over the whole batch, so training batches have none of those. */
static oct_status loss_shard(const struct oct__shard *s) {
    const struct oct__tensor *logits = &s->args->t[0];
    const int n_classes = logits->c;
    const float *z = oct__shard_at(s, 0);
    const int32_t *labels = oct__shard_at(s, 1);
    float *loss = oct__shard_at(s, 2), *hit = oct__shard_at(s, 3);
    float *dz = s->args->t[4].n ? oct__shard_at(s, 4) : NULL;
    for (int i = 0; i < s->count; i++, z += n_classes) {
        int label = labels[i];
        if (label < -1 || label >= n_classes) {
            OCT_FAIL(INVALID, "loss: label %d with %d classes", label, n_classes);
        }
        int best = 0;
        for (int c = 1; c < n_classes; c++) {
            best = z[c] > z[best] ? c : best;
        }
        double sum = 0.0;
        for (int c = 0; c < n_classes; c++) {
            sum += exp((double)z[c] - (double)z[best]);
        }
        if (label < 0) {
            loss[i] = hit[i] = 0.0F;
        } else {
            loss[i] = (float)(log(sum) - ((double)z[label] - (double)z[best]));
            hit[i] = best == label ? 1.0F : 0.0F;
        }
        for (int c = 0; dz && c < n_classes; c++) {
            double p = exp((double)z[c] - (double)z[best]) / sum;
            double target = c == label ? 1.0 : 0.0;
            *dz++ = label < 0 ? 0.0F : (float)((p - target) / (double)logits->n);
        }
    }
    return OCT_OK;
}

oct_status oct__cpu_loss(const struct oct__lane *lane, const struct oct__args *args) {
    return oct__each_shard(lane, args, args->t[0].n, loss_shard);
}
