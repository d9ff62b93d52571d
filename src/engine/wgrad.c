/* SPDX-License-Identifier: Apache-2.0 */
/* wgrad.c - the weight gradient of bytes in bf16, for processors that multiply pairs of it.
 *
 *     dw[o][i][r][q] = scale * sum over samples and pixels (y, x) of
 *                      (byte[y * stride + r - pad][x * stride + q - pad][i] - zero) * dy[y][x][o]
 *
 * The instruction adds the products of two pairs of numbers. What makes a pair is free, so it is the
 * same place of two samples: x and dy are each put into *pairs* once, and every tap of the kernel
 * meets the same ones, whatever its offset. (With neighbouring pixels as pairs, x would be needed
 * twice, for even and for odd offsets.) A sample that is left over is paired with a gradient of
 * zeros.
 *
 *     x   [image][16 channels][row][column][channel]     an image is two samples' rows,
 *     g   [image][16 outputs][row][column][output]       a band of them where all are too many
 *
 * Then for each (16 outputs, kernel row, 8 channels, up to 3 taps) one call of the kernel
 * outer_bf16_f32 walks over all pixels of the band with its sums in registers. Rows and columns
 * outside the image are left out, not multiplied by zero. A kernel of 1 x 1 has only the taps of
 * other channels beside it; its image has just the pixels it meets, so a stride costs nothing.
 *
 * Sums are [16 outputs][8 channels][kernel row][column][channel][output], of a shard. They are
 * folded in the order of shards and brought to our layout once a node: in a lane of one thread,
 * where shards follow each other, a shard's sums are added to those before it, which wait in dw.
 *
 * Many weights on small maps, as the last layers of an image network have, would spend their time on
 * moving sums, each of which is met by few pixels. There a lane of one thread first puts all shards
 * into pairs, and then takes the weights *block* by block, all shards of each: its sums stay in the
 * L1, and memory sees only dw.
 */
#include <string.h>

#include "engine/cpu.h"
#include "kernels/kernels.h"
#include "kernels/outer.h"

/* Operands. */
enum { X, GRID, DY, DW, DBIAS };

/* What a thread's pairs may fill: so much of an L2 that most of it is left for the sums. Each call of
 * the kernel fetches and puts back its part of them; where they are too many for a cache, calls
 * should have more to do. */
#define PAIRS_LEAST ((size_t)96 << 10)
#define PAIRS_MOST ((size_t)1 << 20)
#define PAIRS_SHARE 8 /* of the sums */

/* Of a block: as many channels as leave its sums, and a shard's beside them, in an L1. Weights are
 * taken in blocks where there are so many sums that they leave all caches of a core and so few pairs that
 * these stay; with fewer sums it measured no faster. */
#define BLOCK_BYTES ((size_t)10 << 10)
#define BLOCKED_SUMS ((size_t)3 << 20)
#define BLOCKED_PAIRS ((size_t)768 << 10)

/* Sizes of one convolution. x is as the kernel meets it: with a kernel of 1 x 1 of every `gap`-th row
 * and column alone, `skip` being the first. */
struct form {
    int h, w, out_h, out_w;
    int kernel, stride, pad;
    int gap, skip;
    size_t in, out;
    int band;                /* rows of dy at a time */
    int images;              /* pairs of samples at a time */
    int rows;                /* of x that a band meets at most */
    size_t x_plane, g_plane; /* pairs of 16 channels */
    size_t x_image, g_image; /* pairs of all channels */
    size_t sums, out_sums;   /* of a shard, and those of 16 outputs */
    size_t in_row, dy_row;   /* numbers in a row as it comes */
    size_t in_sample, dy_sample;
    int is_blocked;      /* all pairs of the batch are made first, then weights come in blocks */
    size_t block_eights; /* of channels, in a block */
    size_t block_sums;
    size_t shard_pairs; /* of x, and then of dy */
};

static int smaller(int a, int b) {
    return a < b ? a : b;
}

static int larger(int a, int b) {
    return a > b ? a : b;
}

static size_t round_up(size_t bytes) {
    return (bytes + 63) & ~(size_t)63;
}

/* Rows of x that `band` rows of dy can meet. */
static int rows_met(const struct form *f, int band) {
    return smaller(f->h, (band - 1) * f->stride + f->kernel);
}

static size_t band_bytes(const struct form *f, int band) {
    const size_t x = (size_t)rows_met(f, band) * (size_t)f->w * f->in;
    const size_t g = (size_t)band * (size_t)f->out_w * f->out;
    return (x + g) * sizeof(uint32_t);
}

/* Chooses blocks, where they pay. */
static void choose_blocks(struct form *f, const struct oct__lane_form *form, int batch) {
    const size_t eight = f->out_sums / (f->in / OCT_OUTER_IN) * sizeof(float);
    const size_t images = ((size_t)smaller(form->shard, batch) + 1) / 2;
    const size_t all = (size_t)oct__shard_count(form, batch) * images * band_bytes(f, f->out_h);
    f->is_blocked =
        form->n_threads == 1 && f->sums * sizeof(float) > BLOCKED_SUMS && all <= BLOCKED_PAIRS;
    f->block_eights = eight < BLOCK_BYTES ? BLOCK_BYTES / eight : 1;
    f->block_sums = f->block_eights * eight / sizeof(float);
    if (f->is_blocked) {
        f->band = f->out_h;
        f->images = (int)images;
    }
}

static struct form form_of(const struct oct__args *args, const struct oct__lane_form *form) {
    const int shard = form->shard;
    const struct oct__tensor *x = &args->t[X], *dy = &args->t[DY];
    const struct oct__conv_attr *conv = &args->attr.conv;
    struct form f = {
        .h = x->h,
        .w = x->w,
        .out_h = dy->h,
        .out_w = dy->w,
        .kernel = conv->kernel,
        .stride = conv->stride,
        .pad = conv->pad,
        .gap = 1,
        .in = (size_t)x->c,
        .out = (size_t)dy->c,
    };
    f.in_row = (size_t)f.w * f.in;
    f.dy_row = (size_t)f.out_w * f.out;
    f.in_sample = (size_t)f.h * f.in_row;
    f.dy_sample = (size_t)f.out_h * f.dy_row;
    f.sums = f.in * f.out * (size_t)(f.kernel * f.kernel);
    f.out_sums = f.sums / f.out * OCT_OUTER_OUT;
    if (f.kernel == 1) {
        f.gap = f.stride;
        f.skip = (f.gap - f.pad % f.gap) % f.gap;
        f.stride = 1;
        f.pad = (f.pad + f.skip) / f.gap;
        f.h = larger(0, (f.h - f.skip + f.gap - 1) / f.gap);
        f.w = larger(0, (f.w - f.skip + f.gap - 1) / f.gap);
    }
    const size_t share = f.sums * sizeof(float) / PAIRS_SHARE;
    const size_t room = share < PAIRS_LEAST ? PAIRS_LEAST : share < PAIRS_MOST ? share : PAIRS_MOST;
    int n_bands = 1;
    while (n_bands < f.out_h && band_bytes(&f, (f.out_h + n_bands - 1) / n_bands) > room) {
        n_bands++;
    }
    f.band = (f.out_h + n_bands - 1) / n_bands;
    f.images = 1;
    while (2 * f.images <= (smaller(shard, x->n) + 1) / 2 && n_bands == 1 &&
           2 * (size_t)f.images * band_bytes(&f, f.band) <= room) {
        f.images *= 2;
    }
    choose_blocks(&f, form, x->n);
    f.rows = rows_met(&f, f.band);
    f.x_plane = (size_t)f.rows * (size_t)f.w * OCT_OUTER_OUT;
    f.g_plane = (size_t)f.band * (size_t)f.out_w * OCT_OUTER_OUT;
    f.x_image = f.in / OCT_OUTER_OUT * f.x_plane;
    f.g_image = f.out / OCT_OUTER_OUT * f.g_plane;
    f.shard_pairs = (size_t)f.images * (f.x_image + f.g_image);
    return f;
}

int oct__wgrad_serves(const struct oct__args *args) {
    const struct oct__tensor *x = &args->t[X], *dy = &args->t[DY];
    return dy->dtype == OCT_DTYPE_BF16 && args->t[DBIAS].n == 0 && args->attr.conv.groups == 1 &&
           x->n > 1 && x->c % OCT_OUTER_OUT == 0 && dy->c % OCT_OUTER_OUT == 0;
}

/* --- scratch --------------------------------------------------------------------------------- */

/* Places for the sums of shards: of all nodes' or, in turn, of one. */
static size_t places(const struct oct__lane_form *form, int n_shards) {
    return form->n_threads > 1 ? (size_t)form->n_nodes * (size_t)n_shards : 1;
}

/* Shared scratch: sums; with blocks none. A thread's: a row of zeros, then with blocks the sums of two
 * of them; then x and dy in pairs, with blocks those of every shard. */
void oct__wgrad_scratch(const struct oct__lane_form *form, const struct oct__args *args,
                        struct oct__plan *plan) {
    const struct form f = form_of(args, form);
    const size_t n_shards = (size_t)oct__shard_count(form, args->t[X].n);
    plan->shared_bytes = f.is_blocked ? 0 : places(form, (int)n_shards) * f.sums * sizeof(float);
    plan->thread_bytes = round_up(f.dy_row * sizeof(uint16_t)) +
                         (f.is_blocked ? 2 * round_up(f.block_sums * sizeof(float)) : 0) +
                         (f.is_blocked ? n_shards : 1) * f.shard_pairs * sizeof(uint32_t);
}

static uint16_t *zeros(const struct oct__shard *s) {
    return oct__thread_scratch(s);
}

static float *block_sums(const struct oct__shard *s, const struct form *f, int which) {
    return (float *)(void *)((char *)oct__thread_scratch(s) +
                             round_up(f->dy_row * sizeof(uint16_t)) +
                             (size_t)which * round_up(f->block_sums * sizeof(float)));
}

/* Of shard `index` with blocks, else of the one at hand. */
static uint32_t *x_pairs(const struct oct__shard *s, const struct form *f, int index) {
    const float *first = block_sums(s, f, f->is_blocked ? 2 : 0);
    return (uint32_t *)(uintptr_t)first + (f->is_blocked ? (size_t)index * f->shard_pairs : 0);
}

static uint32_t *g_pairs(const struct oct__shard *s, const struct form *f, int index) {
    return x_pairs(s, f, index) + (size_t)f->images * f->x_image;
}

static float *sums_at(const struct oct__shard *s, const struct form *f, size_t place) {
    return (float *)s->lane->shared_scratch + place * f->sums;
}

/* --- pairs ----------------------------------------------------------------------------------- */

/* Rows of dy, from `first` on, and the rows of x they meet. */
struct band {
    int first, count;
    int top, bottom; /* of x: the first and the one after the last */
};

static struct band band_at(const struct form *f, int first) {
    struct band band = {.first = first, .count = smaller(f->band, f->out_h - first)};
    const int last = (first + band.count - 1) * f->stride - f->pad + f->kernel;
    band.top = larger(0, first * f->stride - f->pad);
    band.bottom = larger(band.top, smaller(f->h, last));
    return band;
}

/* Samples `sample` and the next of the shard. */
static void pair_samples(const struct oct__shard *s, const struct form *f, const struct band *band,
                         int sample, uint32_t *x, uint32_t *g) {
    const struct oct__kernels *k = oct__kernels();
    const struct oct__grid *grid = oct__node_at(s, GRID);
    const int is_alone = sample + 1 == s->count;
    const uint8_t *in = (const uint8_t *)oct__shard_at(s, X) + (size_t)sample * f->in_sample;
    const uint16_t *dy = (const uint16_t *)oct__shard_at(s, DY) + (size_t)sample * f->dy_sample;
    const uint16_t *blank = zeros(s);
    const uint8_t *other = is_alone ? in : in + f->in_sample;
    for (int row = band->top; row < band->bottom; row++) {
        const size_t at = (size_t)(row * f->gap + f->skip) * f->in_row + (size_t)f->skip * f->in;
        k->pair_center_u8_bf16((size_t)f->w, f->in, (size_t)f->gap * f->in, f->x_plane, in + at,
                               other + at, grid->zero,
                               x + (size_t)(row - band->top) * (size_t)f->w * OCT_OUTER_OUT);
    }
    for (int row = 0; row < band->count; row++) {
        const uint16_t *from = dy + (size_t)(band->first + row) * f->dy_row;
        k->pair_bf16((size_t)f->out_w, f->out, f->g_plane, from,
                     is_alone ? blank : from + f->dy_sample,
                     g + (size_t)row * (size_t)f->out_w * OCT_OUTER_OUT);
    }
}

/* --- products -------------------------------------------------------------------------------- */

/* Taps first … first + count - 1 of a row of the kernel: its columns with the first 8 channels, then
 * with the next 8, … */
static void choose_taps(const struct form *f, size_t first, size_t count,
                        struct oct__outer *outer) {
    const size_t kernel = (size_t)f->kernel;
    outer->taps = count;
    for (size_t t = 0; t < count; t++) {
        const size_t column = (first + t) % kernel, eight = (first + t) / kernel;
        const size_t from = eight / 2 * f->x_plane + eight % 2 * OCT_OUTER_IN;
        outer->tap[t] = oct__outer_tap((ptrdiff_t)column - f->pad, (size_t)f->stride, (size_t)f->w,
                                       (size_t)f->out_w, OCT_OUTER_OUT, from);
    }
}

/* What is multiplied at once: pairs of some images, with the outputs and the channels (in eights) from
 * first to end. */
struct part {
    const uint32_t *x, *g;
    int images;
    size_t first_out, end_out; /* in sixteens */
    size_t first_eight, end_eight;
};

/* Row r of the kernel, from tap `first` on as far as a call goes, with the part's outputs. */
static void multiply_taps(const struct form *f, const struct band *band, const struct part *part,
                          int r, size_t first_tap, struct oct__outer *outer, float *sums) {
    /* Row y of dy meets row y * stride + r - pad of x: those for which there is one. */
    const int above = f->pad - r, below = f->h - 1 + f->pad - r;
    const int first = larger(band->first, above > 0 ? (above + f->stride - 1) / f->stride : 0);
    const int end = below < 0 ? 0 : smaller(band->first + band->count, below / f->stride + 1);
    if (first >= end) {
        return;
    }
    const size_t kernel = (size_t)f->kernel, tap = first_tap - part->first_eight * kernel;
    const size_t x_row = (size_t)(first * f->stride + r - f->pad - band->top);
    const uint32_t *x = part->x + x_row * (size_t)f->w * OCT_OUTER_OUT;
    const uint32_t *g = part->g + (size_t)(first - band->first) * outer->g_row;
    outer->rows = (size_t)(end - first);
    sums += ((tap / kernel * kernel + (size_t)r) * kernel + tap % kernel) * OCT_OUTER_SUMS;
    for (size_t o = part->first_out; o < part->end_out; o++, sums += f->out_sums) {
        oct__kernels()->outer_bf16_f32(outer, x, g + o * f->g_plane, sums);
    }
}

/* Adds to `sums`, which begin with the part's first output and channel. */
static void multiply_band(const struct form *f, const struct band *band, const struct part *part,
                          float *sums) {
    const size_t kernel = (size_t)f->kernel, end = part->end_eight * kernel;
    struct oct__outer outer = {
        .images = (size_t)part->images,
        .x_image = f->x_image,
        .x_row = (size_t)(f->stride * f->w) * OCT_OUTER_OUT,
        .x_step = (size_t)f->stride * OCT_OUTER_OUT,
        .g_image = f->g_image,
        .g_row = (size_t)f->out_w * OCT_OUTER_OUT,
    };
    for (size_t tap = part->first_eight * kernel; tap < end; tap += outer.taps) {
        /* Columns share a call, or the channels of a single one: 4 as 2 and 2, not as 3 and 1. */
        const size_t left = kernel == 1 ? end - tap : kernel - tap % kernel;
        const size_t calls = (left + OCT_OUTER_TAPS - 1) / OCT_OUTER_TAPS;
        choose_taps(f, tap, (left + calls - 1) / calls, &outer);
        for (int r = 0; r < f->kernel; r++) {
            multiply_taps(f, band, part, r, tap, &outer, sums);
        }
    }
}

/* Puts rows of `images` pairs of samples, from `sample` on, into pairs. */
static void pair_band(const struct oct__shard *s, const struct form *f, const struct band *band,
                      int sample, int images, uint32_t *x, uint32_t *g) {
    memset(zeros(s), 0, f->dy_row * sizeof(uint16_t));
    for (int i = 0; i < images; i++) {
        pair_samples(s, f, band, sample + 2 * i, x + (size_t)i * f->x_image,
                     g + (size_t)i * f->g_image);
    }
}

/* The sums of a shard. A bare product takes the pairs that the scratch holds. */
static void multiply_shard(const struct oct__shard *s, const struct form *f, float *sums) {
    const int is_bare = s->lane->bare;
    uint32_t *x = x_pairs(s, f, 0), *g = g_pairs(s, f, 0);
    struct part part = {x, g, 0, 0, f->out / OCT_OUTER_OUT, 0, f->in / OCT_OUTER_IN};
    if (!is_bare) {
        memset(sums, 0, f->sums * sizeof *sums);
    }
    for (int sample = 0; sample < s->count; sample += 2 * f->images) {
        part.images = smaller(f->images, (s->count - sample + 1) / 2);
        for (int first = 0; first < f->out_h; first += f->band) {
            const struct band band = band_at(f, first);
            if (!is_bare) {
                pair_band(s, f, &band, sample, part.images, x, g);
            }
            multiply_band(f, &band, &part, sums);
        }
    }
}

/* --- sums ------------------------------------------------------------------------------------ */

/* Sums of 16 outputs and `eights` of channels in our layout, [out][in][row][column], times the scale of
 * x, to where dw has the first of them. */
static void unpack_block(const struct form *f, const float *sums, size_t eights, float scale,
                         float *dw) {
    const size_t area = (size_t)f->kernel * (size_t)f->kernel, out_step = f->in * area;
    for (size_t i = 0; i < eights; i++, sums += area * OCT_OUTER_SUMS, dw += OCT_OUTER_IN * area) {
        for (size_t n = 0; n < OCT_OUTER_OUT; n++) {
            float *to = dw + n * out_step;
            for (size_t j = 0; j < OCT_OUTER_IN; j++) {
                const float *from = sums + j * OCT_OUTER_OUT + n;
                for (size_t tap = 0; tap < area; tap++) {
                    *to++ = from[tap * OCT_OUTER_SUMS] * scale;
                }
            }
        }
    }
}

/* A node's sums, all of them. */
static void unpack(const struct oct__shard *s, const struct form *f, const float *sums) {
    const struct oct__grid *grid = oct__node_at(s, GRID);
    const size_t out_step = f->in * (size_t)f->kernel * (size_t)f->kernel;
    float *dw = oct__node_at(s, DW);
    for (size_t o = 0; o < f->out / OCT_OUTER_OUT; o++) {
        unpack_block(f, sums + o * f->out_sums, f->in / OCT_OUTER_IN, grid->scale,
                     dw + o * OCT_OUTER_OUT * out_step);
    }
}

/* --- blocks ---------------------------------------------------------------------------------- */

/* The sums of a block, shards 0 … n_shards - 1 in their order, in the first of the two places. */
static const float *sum_block(const struct oct__shard *s, const struct form *f, struct part *part,
                              int n_shards) {
    const struct band band = band_at(f, 0);
    const int batch = s->args->t[X].n, shard = s->lane->form.shard;
    for (int i = 0; i < n_shards; i++) {
        float *sums = block_sums(s, f, i > 0);
        part->x = x_pairs(s, f, i);
        part->g = g_pairs(s, f, i);
        part->images = (smaller(shard, batch - i * shard) + 1) / 2;
        if (!s->lane->bare) {
            memset(sums, 0, f->block_sums * sizeof *sums);
        }
        multiply_band(f, &band, part, sums);
        if (i > 0 && !s->lane->bare) {
            oct__kernels()->add_f32(f->block_sums, block_sums(s, f, 0), sums, block_sums(s, f, 0));
        }
    }
    return block_sums(s, f, 0);
}

static void sum_blocks(const struct oct__shard *s, const struct form *f, int n_shards) {
    const struct oct__grid *grid = oct__node_at(s, GRID);
    const size_t area = (size_t)f->kernel * (size_t)f->kernel, n_eights = f->in / OCT_OUTER_IN;
    float *dw = oct__node_at(s, DW);
    for (size_t o = 0; o < f->out / OCT_OUTER_OUT; o++) {
        for (size_t e = 0; e < n_eights; e += f->block_eights) {
            const size_t end = e + f->block_eights < n_eights ? e + f->block_eights : n_eights;
            struct part part = {
                .first_out = o, .end_out = o + 1, .first_eight = e, .end_eight = end};
            const float *sums = sum_block(s, f, &part, n_shards);
            if (!s->lane->bare) {
                unpack_block(f, sums, end - e, grid->scale,
                             dw + (o * OCT_OUTER_OUT * f->in + e * OCT_OUTER_IN) * area);
            }
        }
    }
}

/* Every shard brings its pairs; the last one has all weights summed. */
static void shard_of_blocks(const struct oct__shard *s, const struct form *f) {
    const int n_shards = oct__shard_count(&s->lane->form, s->args->t[X].n);
    if (!s->lane->bare) {
        const struct band band = band_at(f, 0);
        pair_band(s, f, &band, 0, (s->count + 1) / 2, x_pairs(s, f, s->index),
                  g_pairs(s, f, s->index));
    }
    if (s->index + 1 == n_shards) {
        sum_blocks(s, f, n_shards);
    }
}

/* --- the operation ---------------------------------------------------------------------------- */

/* Lanes of one thread: shards come in order. Until the last one is there, dw itself holds the sums
 * so far, as many as it has weights but still in their order; then they leave it for the scratch and
 * come back unpacked. */
static oct_status shard_in_turn(const struct oct__shard *s) {
    const struct form f = form_of(s->args, &s->lane->form);
    if (f.is_blocked) {
        shard_of_blocks(s, &f);
        return OCT_OK;
    }
    const int is_first = s->index == 0, is_bare = s->lane->bare;
    const int is_last = s->index + 1 == oct__shard_count(&s->lane->form, s->args->t[X].n);
    float *place = sums_at(s, &f, 0), *dw = oct__node_at(s, DW);
    float *sums = is_first && !is_last && !is_bare ? dw : place;
    multiply_shard(s, &f, sums);
    if (is_bare) {
        return OCT_OK;
    }
    if (!is_first) {
        oct__kernels()->add_f32(f.sums, dw, sums, is_last ? sums : dw);
    }
    if (is_last) {
        unpack(s, &f, sums);
    }
    return OCT_OK;
}

static size_t place_of(const struct oct__shard *s, int index) {
    const int n_shards = oct__shard_count(&s->lane->form, s->args->t[X].n);
    return (size_t)s->node * (size_t)n_shards + (size_t)index;
}

static oct_status shard_beside_others(const struct oct__shard *s) {
    const struct form f = form_of(s->args, &s->lane->form);
    multiply_shard(s, &f, sums_at(s, &f, place_of(s, s->index)));
    return OCT_OK;
}

static oct_status fold_node(const struct oct__shard *s) {
    const struct form f = form_of(s->args, &s->lane->form);
    const int n_shards = oct__shard_count(&s->lane->form, s->args->t[X].n);
    float *sums = sums_at(s, &f, place_of(s, 0));
    oct__kernels()->fold_f32(f.sums, (size_t)n_shards, f.sums, sums, sums);
    unpack(s, &f, sums);
    return OCT_OK;
}

oct_status oct__wgrad_conv_u8(const struct oct__lane *lane, const struct oct__args *args) {
    const int batch = args->t[X].n;
    if (lane->form.n_threads == 1) {
        return oct__each_shard(lane, args, batch, shard_in_turn);
    }
    OCT_TRY(oct__each_shard(lane, args, batch, shard_beside_others));
    return lane->bare ? OCT_OK : oct__each_node(lane, args, fold_node);
}
