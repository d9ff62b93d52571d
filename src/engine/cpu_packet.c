/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_packet.c - PACK and FOLD on the CPU: a row of parameters into a packet, and onto another row.
 *
 * A tensor at a time, so that one stays in the cache from the search for its extremes to its bytes.
 * Nothing here depends on threads: a node's row is one thread's work, and random bits are named by
 * the element's place (selection: in the row, gaps counted; rounding: among all kept values).
 */
#include "engine/packet.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "engine/cpu.h"
#include "engine/grid.h"
#include "engine/select.h"
#include "kernels/kernels.h"

/* Floats of a block, of which a few are in the nearest caches. */
#define BLOCK 4096

/* Bits of a magnitude that rounds to infinity as bf16, and of infinity itself. */
#define BF16_OVERFLOW 0x7f7f8000U
#define INFINITE 0x7f800000U

static size_t whole_lines(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static size_t largest_part(const struct oct__packet_form *form) {
    size_t most = 0;
    for (size_t i = 0; i < form->n_parts; i++) {
        most = form->parts[i].count > most ? form->parts[i].count : most;
    }
    return most;
}

/* Places in a thread's scratch. */
struct rooms {
    size_t block;      /* of floats, while bf16 is widened */
    size_t difference; /* row - base, of a block or of a tensor */
    size_t kept;       /* values */
    size_t search;     /* [random words of a tensor][selection] */
    size_t bytes;      /* in all */
};

static size_t words_bytes(const struct oct__packet_form *form) {
    return form->select == OCT_SELECT_RANDOM ? whole_lines(largest_part(form) * sizeof(uint32_t))
                                             : 0;
}

static struct rooms rooms_of(enum oct__op op, const struct oct__args *args) {
    const struct oct__packet_form *form = args->attr.packet.form;
    const int is_dense = form->select == OCT_SELECT_ALL, is_packing = op == OCT_OP_PACK;
    const int is_plain = is_dense && !oct__coding_has_scales(form->coding);
    const int is_half = is_dense && form->coding == OCT_CODING_BF16;
    const int has_base = is_packing && args->t[1].n > 0;
    const size_t largest = largest_part(form);
    struct rooms rooms = {.difference = is_half ? BLOCK * sizeof(float) : 0};
    const size_t taken = is_half ? BLOCK : is_plain ? 0 : largest; /* f32: it is the packet's */
    rooms.kept = rooms.difference + (has_base ? whole_lines(taken * 4) : 0);
    rooms.search = rooms.kept + (is_packing && !is_dense ? whole_lines(form->n_kept * 4) : 0);
    rooms.bytes = rooms.search +
                  (is_packing && !is_dense ? words_bytes(form) + oct__select_bytes(largest) : 0);
    return rooms;
}

void oct__cpu_packet_scratch(enum oct__op op, const struct oct__lane_form *form,
                             const struct oct__args *args, struct oct__plan *plan) {
    (void)form;
    if (op == OCT_OP_PACK || op == OCT_OP_FOLD) {
        plan->thread_bytes = rooms_of(op, args).bytes;
    }
}

/* --- folding --------------------------------------------------------------------------------- */

/* What a node folds, and what it folds it onto. */
struct folding {
    const struct oct__packet_form *form;
    const struct oct__share *shares;
    int n_shares;
    float *row, *x; /* x: NULL, or what then gets `onto` of the row */
    float onto;
    float *block; /* while bf16 is widened */
};

static const char *values_of(const struct folding *f, const struct oct__share *share,
                             const struct oct__part *part) {
    return (const char *)share->packet + f->form->values_at +
           part->first * oct__coding_bytes(f->form->coding);
}

static float scale_of(const struct folding *f, const struct oct__share *share,
                      const struct oct__part *part) {
    const float *scales = share->packet;
    return oct__coding_has_scales(f->form->coding) ? scales[part->scale] : 0.0F;
}

/* y += factor * values, of elements first … first + n - 1 of a tensor; n is at most BLOCK */
static void fold_dense(const struct folding *f, const struct oct__share *share,
                       const struct oct__part *part, size_t first, size_t n, float *y) {
    const struct oct__kernels *k = oct__kernels();
    const char *values = values_of(f, share, part);
    if (f->form->coding == OCT_CODING_F32) {
        k->axpy_f32(n, share->factor, (const float *)(const void *)values + first, y);
    } else if (f->form->coding == OCT_CODING_BF16) {
        k->widen_bf16_f32(n, (const uint16_t *)(const void *)values + first, f->block);
        k->axpy_f32(n, share->factor, f->block, y);
    } else {
        k->axpy_s8_f32(n, share->factor, (const int8_t *)values + first, scale_of(f, share, part),
                       y);
    }
}

/* The same of a whole tensor where few were kept. */
static void fold_sparse(const struct folding *f, const struct oct__share *share,
                        const struct oct__part *part, float *y) {
    const char *packet = share->packet, *values = values_of(f, share, part);
    const uint32_t *index =
        (const uint32_t *)(const void *)(packet + f->form->index_at) + part->first;
    if (f->form->coding == OCT_CODING_F32) {
        const float *v = (const void *)values;
        for (size_t i = 0; i < part->keep; i++) {
            y[index[i]] += share->factor * v[i];
        }
    } else if (f->form->coding == OCT_CODING_BF16) {
        const uint16_t *halves = (const void *)values;
        for (size_t i = 0; i < part->keep; i++) {
            const uint32_t bits = (uint32_t)halves[i] << 16;
            float v;
            memcpy(&v, &bits, sizeof v);
            y[index[i]] += share->factor * v;
        }
    } else {
        const int8_t *q = (const void *)values;
        const float scale = scale_of(f, share, part);
        for (size_t i = 0; i < part->keep; i++) {
            const float v = scale * (float)q[i];
            y[index[i]] += share->factor * v;
        }
    }
}

/* All packets are folded onto a block of the row, and that onto x's, while it is in the cache: a row
 * is larger than that, and would come from memory again for every packet. What is sparse touches
 * places all over its tensor. */
static void fold_part(const struct folding *f, const struct oct__part *part) {
    const int is_dense = f->form->select == OCT_SELECT_ALL;
    const size_t size = is_dense ? BLOCK : part->count;
    for (size_t i = 0, n; i < part->count; i += n) {
        float *y = f->row + part->offset + i;
        n = part->count - i < size ? part->count - i : size;
        for (const struct oct__share *share = f->shares; share < f->shares + f->n_shares; share++) {
            if (is_dense) {
                fold_dense(f, share, part, i, n, y);
            } else {
                fold_sparse(f, share, part, y);
            }
        }
        if (f->x) {
            oct__kernels()->axpy_f32(n, f->onto, y, f->x + part->offset + i);
        }
    }
}

/* --- packing --------------------------------------------------------------------------------- */

struct packing {
    const struct oct__shard *shard;
    const struct oct__packet_form *form;
    const float *row, *base; /* base: NULL, or what is taken off */
    float *difference, *kept;
    char *search;
    float *scales;
    uint32_t *index;
    void *values;
    struct folding memory; /* what then gets a part of the packet; its row may be NULL */
    struct oct__stream select, round;
};

/* What is packed of a tensor. */
static const float *tensor_of(const struct packing *p, const struct oct__part *part) {
    const float *x = p->row + part->offset;
    if (!p->base) {
        return x;
    }
    oct__kernels()->difference_f32(part->count, x, p->base + part->offset, p->difference);
    return p->difference;
}

static void remember(const struct packing *p, const struct oct__part *part) {
    if (p->memory.row) {
        fold_part(&p->memory, part);
    }
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static oct_status check_peak(const struct packing *p, size_t part, float peak) {
    const struct oct__shard *s = p->shard;
    const int node = s->lane->first_node + s->node;
    if (bits_of(peak) >= INFINITE) {
        OCT_FAIL(NOT_FINITE,
                 "pack: tensor %zu of node %d's row holds a NaN or an infinity: an update "
                 "overflowed; lower the learning rate (lr), or gamma",
                 part, node);
    }
    if (p->form->coding == OCT_CODING_BF16 && bits_of(peak) >= BF16_OVERFLOW) {
        OCT_FAIL(NOT_FINITE, "pack: tensor %zu of node %d's row holds %g, too large for bf16", part,
                 node, (double)peak);
    }
    return OCT_OK;
}

/* Sixteen sums side by side, then a tree: as wide as a compiler likes, in an order that is fixed. */
static double sum_of(size_t n, const float *x, int squares) {
    double sums[16] = {0};
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        for (size_t j = 0; j < 16; j++) {
            const double v = (double)x[i + j];
            sums[j] += squares ? v * v : fabs(v);
        }
    }
    for (; i < n; i++) {
        const double v = (double)x[i];
        sums[i % 16] += squares ? v * v : fabs(v);
    }
    for (size_t half = 8; half > 0; half /= 2) {
        for (size_t j = 0; j < half; j++) {
            sums[j] += sums[j + half];
        }
    }
    return sums[0];
}

static float normal_or_zero(double scale) {
    return (float)scale < FLT_MIN ? 0.0F : (float)scale;
}

/* QSGD. The kernel's rounding by chance is that of magnitudes, too: of -0.3 it makes -1 three times
 * in ten. No level exceeds s: the norm is at least |x|, so |x| * inverse is at most s and an ulp (of
 * 63: 2^-18), which the kernel's steps of 2^-16 do not see, and what it adds before the floor is
 * less than 1; 127 is the kernel's own border. */
static void pack_levels(const struct packing *p, const struct oct__part *part, const float *x) {
    const double n = (double)part->count, s = (double)((1 << p->form->bits) - 1);
    const double norm = sqrt(sum_of(part->count, x, 1));
    const double spread = fmin(n / (s * s), sqrt(n) / s);
    const float scale = normal_or_zero(norm / (s * (1.0 + spread)));
    int8_t *q = (int8_t *)p->values + part->first;
    p->scales[part->scale] = scale;
    oct__kernels()->quantize_s8_random_f32(part->count, part->first, x,
                                           scale > 0.0F ? (float)(s / norm) : 0.0F, &p->round, q);
}

static void pack_sign(const struct packing *p, const struct oct__part *part, const float *x) {
    int8_t *q = (int8_t *)p->values + part->first;
    p->scales[part->scale] = normal_or_zero(sum_of(part->count, x, 0) / (double)part->count);
    for (size_t i = 0; i < part->count; i++) {
        q[i] = (int8_t)(1 - 2 * (x[i] < 0.0F)); /* no branch: signs cannot be foreseen */
    }
}

/* With a scale, for which all of a tensor is looked at first. */
static oct_status pack_coded(const struct packing *p, size_t number) {
    const struct oct__kernels *k = oct__kernels();
    const struct oct__part *part = &p->form->parts[number];
    const float *x = tensor_of(p, part);
    float peak = 0.0F;
    k->absmax_f32(part->count, x, &peak);
    OCT_TRY(check_peak(p, number, peak));
    if (p->form->coding == OCT_CODING_LEVELS) {
        pack_levels(p, part, x);
    } else if (p->form->coding == OCT_CODING_SIGN) {
        pack_sign(p, part, x);
    } else {
        p->scales[part->scale] = oct__symmetric_scale(peak);
        k->quantize_s8_random_f32(part->count, part->first, x,
                                  oct__symmetric_inverse(p->scales[part->scale]), &p->round,
                                  (int8_t *)p->values + part->first);
    }
    remember(p, part);
    return OCT_OK;
}

/* As they are, or as bf16: a block at a time, which is in the cache until all is done with it. */
static oct_status pack_plain(const struct packing *p, size_t number) {
    const struct oct__kernels *k = oct__kernels();
    const struct oct__part *part = &p->form->parts[number];
    const int is_half = p->form->coding == OCT_CODING_BF16;
    float peak = 0.0F;
    for (size_t i = 0, n; i < part->count; i += n) {
        const float *x = p->row + part->offset + i;
        float *as_is = (float *)p->values + part->first + i;
        float *v = is_half ? p->difference : as_is;
        n = part->count - i < BLOCK ? part->count - i : BLOCK;
        if (p->base) {
            k->difference_f32(n, x, p->base + part->offset + i, v);
            x = v;
        } else if (!is_half) {
            memcpy(as_is, x, n * sizeof *x);
        }
        k->absmax_f32(n, x, &peak);
        if (is_half) {
            k->round_bf16_f32(n, x, (uint16_t *)p->values + part->first + i);
        }
        if (p->memory.row) {
            fold_dense(&p->memory, p->memory.shares, part, i, n, p->memory.row + part->offset + i);
        }
    }
    return check_peak(p, number, peak);
}

/* Which elements of a tensor are kept, and their values in `kept`. */
static oct_status pick_part(const struct packing *p, size_t number, float *kept) {
    const struct oct__kernels *k = oct__kernels();
    const struct oct__part *part = &p->form->parts[number];
    const float *x = tensor_of(p, part);
    uint32_t *index = p->index + part->first;
    float peak = 0.0F;
    if (p->form->select == OCT_SELECT_RANDOM) {
        uint32_t *words = (void *)p->search;
        k->absmax_f32(part->count, x, &peak);
        k->draw_u32(part->count, part->offset, &p->select, words);
        oct__select_largest(part->count, words, UINT32_MAX, part->keep,
                            p->search + words_bytes(p->form), index);
    } else {
        oct__select_largest(part->count, x, INT32_MAX, part->keep, p->search, index);
    }
    for (size_t i = 0; i < part->keep; i++) {
        kept[part->first + i] = x[index[i]];
    }
    if (p->form->select == OCT_SELECT_LARGEST) { /* a NaN counts as the largest, so it is kept */
        k->absmax_f32(part->keep, kept + part->first, &peak);
    }
    return check_peak(p, number, peak);
}

/* The next larger bf16, which is what a scale has on the wire. */
static float round_up_bf16(float x) {
    const uint32_t bits = (bits_of(x) + 0xffffU) & 0xffff0000U;
    float rounded;
    memcpy(&rounded, &bits, sizeof rounded);
    return rounded;
}

/* Kept values to bytes; tensors may share a scale. */
static void code_kept(const struct packing *p, const float *kept) {
    const struct oct__kernels *k = oct__kernels();
    const struct oct__packet_form *form = p->form;
    memset(p->scales, 0, form->n_scales * sizeof *p->scales);
    for (size_t i = 0; i < form->n_parts; i++) {
        const struct oct__part *part = &form->parts[i];
        k->absmax_f32(part->keep, kept + part->first, &p->scales[part->scale]);
    }
    for (size_t i = 0; i < form->n_scales; i++) {
        p->scales[i] = round_up_bf16(oct__symmetric_scale(p->scales[i]));
    }
    for (size_t i = 0, next; i < form->n_parts; i = next) {
        const struct oct__part *part = &form->parts[i];
        size_t n = 0;
        for (next = i; next < form->n_parts && form->parts[next].scale == part->scale; next++) {
            n += form->parts[next].keep;
        }
        k->quantize_s8_random_f32(n, part->first, kept + part->first,
                                  oct__symmetric_inverse(p->scales[part->scale]), &p->round,
                                  (int8_t *)p->values + part->first);
    }
}

static oct_status pack_sparse(const struct packing *p) {
    const struct oct__packet_form *form = p->form;
    float *kept = form->coding == OCT_CODING_F32 ? p->values : p->kept;
    for (size_t i = 0; i < form->n_parts; i++) {
        OCT_TRY(pick_part(p, i, kept));
    }
    if (form->coding == OCT_CODING_BF16) {
        oct__kernels()->round_bf16_f32(form->n_kept, kept, p->values);
    } else if (form->coding == OCT_CODING_S8) {
        code_kept(p, kept);
    }
    for (size_t i = 0; i < form->n_parts; i++) {
        remember(p, &form->parts[i]);
    }
    return OCT_OK;
}

/* --- the operations ------------------------------------------------------------------------- */

static oct_status pack_node(const struct oct__shard *s) {
    const struct oct__lane *lane = s->lane;
    const struct oct__packet_form *form = s->args->attr.packet.form;
    const uint32_t salt = s->args->attr.packet.salt;
    const struct rooms rooms = rooms_of(OCT_OP_PACK, s->args);
    char *packet = oct__node_at(s, 2), *scratch = oct__thread_scratch(s);
    const struct oct__share own = {packet, s->args->attr.packet.factor};
    const struct packing p = {
        .shard = s,
        .form = form,
        .row = oct__node_at(s, 0),
        .base = s->args->t[1].n > 0 ? oct__node_at(s, 1) : NULL,
        .difference = (float *)(void *)(scratch + rooms.difference),
        .kept = (float *)(void *)(scratch + rooms.kept),
        .search = scratch + rooms.search,
        .scales = (void *)packet,
        .index = (void *)(packet + form->index_at),
        .values = packet + form->values_at,
        .memory = {.form = form,
                   .shares = &own,
                   .n_shares = 1,
                   .row = s->args->t[3].n > 0 ? oct__node_at(s, 3) : NULL,
                   .block = (float *)(void *)(scratch + rooms.block)},
        .select = oct__lane_stream(lane, OCT_PURPOSE_PACK_SELECT, s->node, salt),
        .round = oct__lane_stream(lane, OCT_PURPOSE_PACK_ROUND, s->node, salt),
    };
    const size_t used = form->values_at + form->n_kept * oct__coding_bytes(form->coding);
    memset(packet + used, 0, form->n_bytes - used);
    if (form->select != OCT_SELECT_ALL) {
        return pack_sparse(&p);
    }
    for (size_t i = 0; i < form->n_parts; i++) {
        OCT_TRY(oct__coding_has_scales(form->coding) ? pack_coded(&p, i) : pack_plain(&p, i));
    }
    return OCT_OK;
}

oct_status oct__cpu_pack(const struct oct__lane *lane, const struct oct__args *args) {
    return oct__each_node(lane, args, pack_node);
}

static oct_status fold_node(const struct oct__shard *s) {
    struct oct__share own;
    struct folding f = {
        .form = s->args->attr.packet.form,
        .row = oct__node_at(s, 1),
        .x = s->args->t[2].n > 0 ? oct__node_at(s, 2) : NULL,
        .onto = s->args->attr.packet.onto,
        .block = oct__thread_scratch(s),
    };
    f.shares = oct__shares_of(s->args, s->node, &own, &f.n_shares);
    for (size_t i = 0; i < f.form->n_parts; i++) {
        fold_part(&f, &f.form->parts[i]);
    }
    return OCT_OK;
}

oct_status oct__cpu_fold(const struct oct__lane *lane, const struct oct__args *args) {
    return oct__each_node(lane, args, fold_node);
}
