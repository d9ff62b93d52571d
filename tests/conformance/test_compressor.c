/* SPDX-License-Identifier: Apache-2.0 */
/* test_compressor.c - what every compressor owes, on every engine: the packet that its formula
 * says, bit for bit; rows that are exactly that much larger afterwards; nothing from a NaN.
 *
 * The formulas are written here a second time, slowly: sorting for selection, one element at a time
 * for the rest. Only sums (the 2-norm, the mean magnitude) are compared to rounding, as their order
 * is the engine's own.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "support/engines.h"
#include "support/packets.h"

/* Sizes around the borders: one element, a vector's width, a tile of random bits, small and large
 * tensors, and enough for selection to guess first. */
static const size_t counts[] = {1, 3, 16, 17, 64, 127, 432, 1023, 1024, 2304, 9216, 2};

/* --- data ------------------------------------------------------------------------------------- */

enum { NORMAL, ZEROS, CONSTANT, FEW, TINY, LARGE, LONE, RISING, COMB, DATA_COUNT };

static const char *const data_names[DATA_COUNT] = {
    "normal", "zeros", "constant", "few values", "tiny", "huge", "one value", "rising", "comb"};

static float datum(int data, size_t i, size_t n, struct dice *dice) {
    const float v = (float)dice_normal(dice);
    switch (data) {
    case NORMAL:
        return v;
    case ZEROS:
        return v < 0.0F ? -0.0F : 0.0F;
    case CONSTANT:
        return -0.7F;
    case FEW:
        return rintf(2.0F * v) / 2.0F;
    case TINY: /* from subnormal values to those whose scale just is a normal number */
        return ldexpf(v, -120 - (int)(i % 30));
    case LARGE:
        return ldexpf(v, 124);
    case LONE:
        return i == n / 2 ? v : 0.0F;
    case RISING:
        return (float)(i + 1) / (float)n;
    default: /* what selection looks at first is not what there is */
        return i % 17 == 0 ? 100.0F + v : v;
    }
}

/* Between the tensors lies what no operation may read or change. */
#define GAP 12345.0F

static void fill_row(struct oct__tensor row, const struct layout *layout, int data,
                     struct dice *dice) {
    for (int node = 0; node < LAUNCH_NODES; node++) {
        float *x = floats(row, node);
        for (size_t i = 0; i < layout->n_elements; i++) {
            x[i] = GAP;
        }
        for (size_t i = 0; i < layout->n_spans; i++) {
            for (size_t j = 0; j < layout->spans[i].count; j++) {
                x[layout->spans[i].offset + j] = datum(data, j, layout->spans[i].count, dice);
            }
        }
    }
}

/* --- the formulas ----------------------------------------------------------------------------- */

struct packet {
    float *scales;
    uint32_t *index;
    float *floats;
    uint16_t *halves;
    int8_t *codes;
};

static struct packet packet_at(const struct oct__packet_form *form, void *memory) {
    char *bytes = memory;
    void *values = bytes + form->values_at;
    return (struct packet){memory, (void *)(bytes + form->index_at), values, values, values};
}

struct ranked {
    uint32_t key, place;
};

static int by_rank(const void *a, const void *b) {
    const struct ranked *p = a, *q = b;
    if (p->key != q->key) {
        return p->key > q->key ? -1 : 1;
    }
    return p->place < q->place ? -1 : 1;
}

static int by_place(const void *a, const void *b) {
    const uint32_t p = *(const uint32_t *)a, q = *(const uint32_t *)b;
    return (p > q) - (p < q);
}

/* The places of the `keep` elements with the largest keys. */
static void select_places(const struct oct__packet_form *form, const struct oct__part *part,
                          const float *x, const struct oct__stream *words, uint32_t *places) {
    struct ranked *all = calloc(part->count, sizeof *all);
    assert_non_null(all);
    for (uint32_t i = 0; i < part->count; i++) {
        const float size = fabsf(x[i]);
        all[i].place = i;
        if (form->select == OCT_SELECT_RANDOM) {
            oct__stream_words(words, part->offset + i, 1, &all[i].key);
        } else {
            memcpy(&all[i].key, &size, sizeof size);
        }
    }
    qsort(all, part->count, sizeof *all, by_rank);
    for (size_t i = 0; i < part->keep; i++) {
        places[i] = all[i].place;
    }
    qsort(places, part->keep, sizeof *places, by_place);
    free(all);
}

/* The least float with a zero lower half that is not below x >= 0. */
static float upper_half(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    float up = 0.0F;
    for (uint32_t half = bits >> 16; up < x || half == bits >> 16; half++) {
        const uint32_t candidate = half << 16;
        memcpy(&up, &candidate, sizeof up);
    }
    return up;
}

static uint16_t nearest_half(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t below = bits >> 16, rest = bits & 0xffffU;
    return (uint16_t)(below + (rest > 0x8000U || (rest == 0x8000U && below % 2 == 1)));
}

static int8_t round_code(float x, float inverse, const struct oct__stream *stream, uint64_t e) {
    const float product = x * inverse;
    return (int8_t)fmax(-127.0, fmin(127.0, by_chance(stream, e, (double)product)));
}

/* The exact scale and the number of steps that 1 has, in double. */
static void exact_scale(const struct oct__packet_form *form, const struct oct__part *part,
                        const float *x, double *scale, double *inverse) {
    double sum = 0.0, squares = 0.0, n = (double)part->count;
    for (size_t i = 0; i < part->count; i++) {
        sum += fabs((double)x[i]);
        squares += (double)x[i] * (double)x[i];
    }
    if (form->coding == OCT_CODING_SIGN) {
        *scale = sum / n;
        *inverse = 0.0;
        return;
    }
    const double s = (double)((1 << form->bits) - 1), norm = sqrt(squares);
    const double spread = n / (s * s) < sqrt(n) / s ? n / (s * s) : sqrt(n) / s;
    *scale = norm / s / (1.0 + spread);
    *inverse = s / norm;
}

static void expect_scale(const char *who, float found, double wanted) {
    if ((float)wanted < FLT_MIN * 1.0001F && found == 0.0F) {
        return;
    }
    if (!(fabs((double)found - wanted) <= 1.3e-7 * wanted)) {
        fail_msg("%s: scale %.9g, expected %.9g", who, (double)found, wanted);
    }
}

/* Codings whose scale is a sum: found codes must be those of the exact scale, but for values within
 * rounding of the border between two. */
static void expect_summed(const char *who, const struct oct__packet_form *form,
                          const struct oct__part *part, const float *x,
                          const struct oct__stream *round, const struct packet *found) {
    double scale, inverse;
    exact_scale(form, part, x, &scale, &inverse);
    expect_scale(who, found->scales[part->scale], scale);
    const double most = (double)((1 << form->bits) - 1);
    for (size_t i = 0; i < part->count; i++) {
        const int code = found->codes[part->first + i];
        if (form->coding == OCT_CODING_SIGN) {
            assert_int_equal(code, x[i] < 0.0F ? -1 : 1);
        } else if (found->scales[part->scale] == 0.0F) {
            assert_int_equal(code, 0);
        } else {
            const double t = (double)x[i] * inverse;
            const double low = fmax(by_chance(round, part->first + i, t - 2e-5), -most);
            const double high = fmin(by_chance(round, part->first + i, t + 2e-5), most);
            if (!((double)code >= fmin(low, most) && (double)code <= fmax(high, -most))) {
                fail_msg("%s: element %zu, %.9g, has level %d, expected %.9g … %.9g", who, i,
                         (double)x[i], code, low, high);
            }
        }
    }
}

/* The whole packet of node `node`; what has sums in it is checked at once and copied. */
static void expected_packet(const char *who, const struct oct__packet_form *form, const float *row,
                            uint32_t node, struct launch_way way, uint32_t salt,
                            struct packet found, struct packet out) {
    const struct oct__stream words =
        oct__stream(way.seed, OCT_PURPOSE_PACK_SELECT, node, way.step, salt);
    const struct oct__stream round =
        oct__stream(way.seed, OCT_PURPOSE_PACK_ROUND, node, way.step, salt);
    const int is_sparse = form->select != OCT_SELECT_ALL;
    float *kept = calloc(form->n_kept, sizeof *kept), *peaks = calloc(form->n_parts, sizeof *peaks);
    assert_true(kept && peaks);
    for (size_t p = 0; p < form->n_parts; p++) {
        const struct oct__part *part = &form->parts[p];
        const float *x = row + part->offset;
        if (is_sparse) {
            select_places(form, part, x, &words, out.index + part->first);
        }
        for (size_t i = 0; i < part->keep; i++) {
            const float v = x[is_sparse ? out.index[part->first + i] : i];
            kept[part->first + i] = v;
            peaks[part->scale] = fabsf(v) > peaks[part->scale] ? fabsf(v) : peaks[part->scale];
        }
    }
    for (size_t p = 0; p < form->n_parts; p++) {
        const struct oct__part *part = &form->parts[p];
        float scale = peaks[part->scale] / 127.0F;
        scale = scale < FLT_MIN ? 0.0F : is_sparse ? upper_half(scale) : scale;
        const float inverse = scale > 0.0F ? 1.0F / scale : 0.0F;
        if (form->coding == OCT_CODING_S8) {
            out.scales[part->scale] = scale;
        } else if (oct__coding_has_scales(form->coding)) {
            expect_summed(who, form, part, row + part->offset, &round, &found);
            out.scales[part->scale] = found.scales[part->scale];
            memcpy(out.codes + part->first, found.codes + part->first, part->count);
        }
        for (size_t i = part->first; i < part->first + part->keep; i++) {
            if (form->coding == OCT_CODING_F32) {
                out.floats[i] = kept[i];
            } else if (form->coding == OCT_CODING_BF16) {
                out.halves[i] = nearest_half(kept[i]);
            } else if (form->coding == OCT_CODING_S8) {
                out.codes[i] = round_code(kept[i], inverse, &round, i);
            }
        }
    }
    free(kept);
    free(peaks);
}

/* Value `i` of a packet as a float. */
static float value_at(const struct oct__packet_form *form, const struct oct__part *part,
                      const struct packet *packet, size_t i) {
    float v;
    if (form->coding == OCT_CODING_F32) {
        return packet->floats[i];
    }
    if (form->coding == OCT_CODING_BF16) {
        const uint32_t bits = (uint32_t)packet->halves[i] << 16;
        memcpy(&v, &bits, sizeof v);
        return v;
    }
    return packet->scales[part->scale] * (float)packet->codes[i];
}

static void expected_fold(const struct oct__packet_form *form, const struct packet *packet,
                          float factor, float *row) {
    for (size_t p = 0; p < form->n_parts; p++) {
        const struct oct__part *part = &form->parts[p];
        for (size_t i = 0; i < part->keep; i++) {
            const size_t j = part->first + i;
            const size_t to =
                part->offset + (form->select == OCT_SELECT_ALL ? i : packet->index[j]);
            const float product = factor * value_at(form, part, packet, j);
            row[to] = row[to] + product;
        }
    }
}

/* --- on every engine -------------------------------------------------------------------------- */

static struct oct__engine *engine;

static const struct launch_way ways[] = {
    {0, LAUNCH_NODES, 1, 9, 4}, {0, LAUNCH_NODES, 3, 8, 5}, {1, 1, 1, 7, 0}};

/* Number `i`, with as many threads as the engine has. */
static struct launch_way way_at(int i) {
    struct launch_way way = ways[i % (int)OCT_COUNT_OF(ways)];
    way.n_threads = way.n_threads < engine->n_threads ? way.n_threads : engine->n_threads;
    return way;
}

static void pack_and_fold_data(const char *variant, const struct oct__packet_form *form,
                               const struct layout *layout, int data, struct dice *dice) {
    if (data == LARGE && form->coding == OCT_CODING_BF16) {
        return; /* some would be infinite */
    }
    const struct launch_way way = way_at(data);
    const uint32_t salt = (uint32_t)(data % 4);
    char who[128];
    snprintf(who, sizeof who, "%s, %s, %s", engine->kind->plugin.name, variant, data_names[data]);
    struct oct__tensor row = row_new(layout), packet = packet_new(form);
    struct oct__tensor wanted = packet_new(form), onto = row_new(layout);
    struct oct__tensor sum = row_new(layout);
    fill_row(row, layout, data, dice);
    fill_row(onto, layout, NORMAL, dice);
    memcpy(sum.at, onto.at, LAUNCH_NODES * onto.stride);
    memset(packet.at, 0x5a, LAUNCH_NODES * packet.stride);
    memset(wanted.at, 0x5a, LAUNCH_NODES * packet.stride);
    const float factor = data == LARGE ? 0x1p-90F : 0.3F;
    LAUNCH(engine, PACK, pack_attr(form, salt), way, row, absent, packet);
    LAUNCH(engine, FOLD, fold_attr(form, factor), way, packet, onto);
    for (int node = way.first; node < way.first + way.n_nodes; node++) {
        const struct packet out = packet_at(form, at(wanted, node));
        memset(at(wanted, node), 0, form->n_bytes);
        expected_packet(who, form, floats(row, node), (uint32_t)(LAUNCH_FIRST_NODE + node), way,
                        salt, packet_at(form, at(packet, node)), out);
        expected_fold(form, &out, factor, floats(sum, node));
    }
    expect_bits(who, "packet", packet, wanted);
    expect_bits(who, "row", onto, sum);
    tensors_free(NULL);
}

static void pack_and_fold(const char *variant) {
    const struct layout layout = layout_of(counts, OCT_COUNT_OF(counts));
    struct oct__packet_form *form = form_of(variant, &layout);
    struct dice dice = dice_of(3);
    for (int data = 0; data < DATA_COUNT; data++) {
        pack_and_fold_data(variant, form, &layout, data, &dice);
    }
    oct__packet_form_destroy(form);
}

/* A difference is packed, and added to what it was a difference to; or a row loses what was packed
 * of it; or a third one gets some of it. */
enum { DIFFERENCE, ERROR, OTHER, WAYS };

static void pack_and_remember_way(const char *variant, const struct oct__packet_form *form,
                                  const struct layout *layout, int trial, struct dice *dice) {
    static const float factors[WAYS] = {1.0F, -1.0F, 0.3F};
    const int how = trial % WAYS;
    const struct launch_way way = way_at(trial / WAYS);
    char who[128];
    snprintf(who, sizeof who, "%s, %s, way %d", engine->kind->plugin.name, variant, trial);
    struct oct__tensor row = row_new(layout), base = row_new(layout), third = row_new(layout);
    struct oct__tensor packet = packet_new(form), wanted = packet_new(form);
    struct oct__tensor sum = row_new(layout), packed = row_new(layout);
    fill_row(row, layout, NORMAL, dice);
    fill_row(base, layout, how == OTHER ? RISING : NORMAL, dice);
    fill_row(third, layout, NORMAL, dice);
    const struct oct__tensor memory = how == DIFFERENCE ? base : how == ERROR ? row : third;
    memcpy(sum.at, memory.at, LAUNCH_NODES * memory.stride);
    for (size_t i = 0; i < LAUNCH_NODES * layout->n_elements; i++) {
        const float off = how == ERROR ? 0.0F : ((const float *)base.at)[i];
        ((float *)packed.at)[i] = ((const float *)row.at)[i] - off;
    }
    union oct__attr attr = pack_attr(form, 3);
    attr.packet.factor = factors[how];
    LAUNCH(engine, PACK, attr, way, row, how == ERROR ? absent : base, packet, memory);
    for (int node = way.first; node < way.first + way.n_nodes; node++) {
        const struct packet out = packet_at(form, at(wanted, node));
        expected_packet(who, form, floats(packed, node), (uint32_t)(LAUNCH_FIRST_NODE + node), way,
                        3, packet_at(form, at(packet, node)), out);
        expected_fold(form, &out, factors[how], floats(sum, node));
    }
    expect_bits(who, "packet", packet, wanted);
    expect_bits(who, "memory", memory, sum);
    tensors_free(NULL);
}

static void pack_and_remember(const char *variant) {
    const struct layout layout = layout_of(counts, OCT_COUNT_OF(counts));
    struct oct__packet_form *form = form_of(variant, &layout);
    struct dice dice = dice_of(6);
    for (int trial = 0; trial < WAYS * (int)OCT_COUNT_OF(ways); trial++) {
        pack_and_remember_way(variant, form, &layout, trial, &dice);
    }
    oct__packet_form_destroy(form);
}

/* Node 0 folds none, node 1 more packets than one kernel's arguments hold, node 2 two; all of them
 * in turn onto a row, and that onto another. */
static void fold_in_turn(const char *variant) {
    enum { TWO = 2, MANY = 100 };
    static const int start[LAUNCH_NODES + 1] = {0, 0, MANY, MANY + TWO};
    struct oct__share shares[TWO + MANY];
    const struct layout layout = layout_of(counts, OCT_COUNT_OF(counts));
    struct oct__packet_form *form = form_of(variant, &layout);
    struct dice dice = dice_of(5);
    struct oct__tensor row = row_new(&layout), packet = packet_new(form);
    void *there;
    char who[128];
    snprintf(who, sizeof who, "%s, %s", engine->kind->plugin.name, variant);
    fill_row(row, &layout, NORMAL, &dice);
    LAUNCH(engine, PACK, pack_attr(form, 0), launch_plain, row, absent, packet);
    EXPECT_OK(engine->alloc(engine, LAUNCH_NODES * packet.stride, "packets", &there));
    EXPECT_OK(engine->write(engine, there, packet.at, LAUNCH_NODES * packet.stride));
    for (int i = 0; i < TWO + MANY; i++) {
        const size_t from = (size_t)((i + 1) % LAUNCH_NODES);
        shares[i] =
            (struct oct__share){(char *)there + from * packet.stride, 0.3F - 0.007F * (float)i};
    }
    for (int has_x = 0; has_x < 2; has_x++) {
        const union oct__attr attr = {
            .packet = {.form = form, .shares = shares, .start = start, .onto = 0.7F}};
        struct oct__tensor onto = vector_new((int)layout.n_elements), sum = row_new(&layout);
        struct oct__tensor x = row_new(&layout), wanted = row_new(&layout);
        for (size_t i = 0; i < layout.n_spans; i++) { /* a row's gaps are zeros */
            for (int node = 0; node < LAUNCH_NODES; node++) {
                memcpy(floats(onto, node) + layout.spans[i].offset,
                       floats(row, (node + 1) % LAUNCH_NODES) + layout.spans[i].offset,
                       layout.spans[i].count * sizeof(float));
            }
        }
        memcpy(sum.at, onto.at, LAUNCH_NODES * onto.stride);
        memcpy(x.at, row.at, LAUNCH_NODES * row.stride);
        memcpy(wanted.at, row.at, LAUNCH_NODES * row.stride);
        LAUNCH(engine, FOLD, attr, launch_plain, packet, onto, has_x ? x : absent);
        for (int node = 0; node < LAUNCH_NODES; node++) {
            for (int k = start[node]; k < start[node + 1]; k++) {
                const struct packet from = packet_at(form, at(packet, (k + 1) % LAUNCH_NODES));
                expected_fold(form, &from, shares[k].factor, floats(sum, node));
            }
            for (size_t i = 0; has_x && i < layout.n_elements; i++) {
                const float product = 0.7F * floats(sum, node)[i];
                floats(wanted, node)[i] = floats(wanted, node)[i] + product;
            }
        }
        expect_bits(who, "row", onto, sum);
        expect_bits(who, "x", x, wanted);
    }
    engine->free(engine, there);
    oct__packet_form_destroy(form);
    tensors_free(NULL);
}

static void every_engine(void (*check)(struct oct__engine *)) {
    struct oct__engine *own = NULL;
    launch_engines(check);
    EXPECT_OK(fence_open(&own));
    check(own);
    oct__engine_close(own);
    EXPECT_OK(hollow_open(2, &own));
    check(own);
    oct__engine_close(own);
}

static void pack_on(struct oct__engine *on) {
    engine = on;
    each_compressor(pack_and_fold);
}

static void fold_on(struct oct__engine *on) {
    engine = on;
    each_compressor(fold_in_turn);
}

static void packets_are_folded_in_turn(void **state) {
    (void)state;
    every_engine(fold_on);
}

static void remember_on(struct oct__engine *on) {
    engine = on;
    each_compressor(pack_and_remember);
}

static void packets_are_remembered(void **state) {
    (void)state;
    every_engine(remember_on);
}

static void packets_are_what_the_formulas_say(void **state) {
    (void)state;
    every_engine(pack_on);
}

/* A wrong value anywhere, however selection and coding treat it. */
static void refuse_in(const char *variant, const struct oct__packet_form *form,
                      const struct layout *layout, size_t trial, struct dice *dice) {
    static const float wrong[] = {NAN, -NAN, INFINITY, -INFINITY};
    const size_t tensor = trial % layout->n_spans;
    const struct oct__span span = layout->spans[tensor];
    struct oct__tensor row = row_new(layout), packet = packet_new(form);
    fill_row(row, layout, NORMAL, dice);
    floats(row, 1)[span.offset + (size_t)dice_below(dice, (int)span.count)] =
        form->coding == OCT_CODING_BF16 && trial % 5 == 0 ? 3.4e38F : wrong[trial % 4];
    struct oct__tensor base = row_new(layout);
    const int has_base = trial % 3 > 0;
    if (trial % 3 == 2) { /* both are finite, and their difference is not */
        for (size_t i = 0; i < layout->n_elements; i++) {
            if (!isfinite(floats(row, 1)[i])) {
                floats(row, 1)[i] = 3e38F;
                floats(base, 1)[i] = -3e38F;
            }
        }
    }
    const struct oct__tensor operands[OCT_ARGS_MOST] = {row, has_base ? base : absent, packet};
    char piece[64];
    snprintf(piece, sizeof piece, "tensor %zu of node %d", tensor, LAUNCH_FIRST_NODE + 1);
    const oct_status status =
        launch_try(engine, OCT_OP_PACK, pack_attr(form, 0), launch_plain, operands);
    if (status != OCT_STATUS_NOT_FINITE || !strstr(oct_last_error(), piece)) {
        fail_msg("%s: %s: '%s', expected NOT_FINITE and '%s'", variant, oct_status_name(status),
                 oct_last_error(), piece);
    }
    tensors_free(NULL);
}

static void refuse(const char *variant) {
    const struct layout layout = layout_of(counts, OCT_COUNT_OF(counts));
    struct oct__packet_form *form = form_of(variant, &layout);
    struct dice dice = dice_of(4);
    for (size_t trial = 0; trial < 2 * layout.n_spans; trial++) {
        refuse_in(variant, form, &layout, trial, &dice);
    }
    oct__packet_form_destroy(form);
}

static void refuse_on(struct oct__engine *on) {
    engine = on;
    each_compressor(refuse);
}

static void not_finite_is_refused(void **state) {
    (void)state;
    launch_engines(refuse_on);
}

/* --- long tensors ----------------------------------------------------------------------------- */

/* Of a GPU, several blocks share in the selection of a tensor of 65,536 elements or more, and read
 * it sixteen bytes at a time. EVEN: one of two pieces, one that just has a third, and short ones
 * between. CROOKED: tensors that begin anywhere, but for the last. ODD: in rows that do, too. */
enum long_layout { EVEN, CROOKED, ODD };

static struct layout long_layout(enum long_layout which) {
    static const size_t sizes[] = {5, 65536, 1000, 65537};
    static const struct oct__span crooked[] = {{1, 5}, {7, 65539}, {65549, 65537}, {131088, 65538}};
    struct layout layout = layout_of(sizes, OCT_COUNT_OF(sizes));
    if (which != EVEN) {
        memcpy(layout.spans, crooked, sizeof crooked);
        layout.n_elements = which == CROOKED ? 196640 : 196627;
    }
    return layout;
}

/* Few values, or one, are more equals than a piece has a list for; so is most of a tensor. */
static const struct {
    enum long_layout layout;
    const char *variant;
    int data[2], how;
    size_t refused;
} long_cases[] = {
    {EVEN, "topk", {NORMAL, LONE}, DIFFERENCE, 1},
    {EVEN, "topk:0.9,values=bf16", {FEW, RISING}, ERROR, 3},
    {EVEN, "topk:0.99,values=int8", {NORMAL, LONE}, OTHER, 5},
    {EVEN, "randk:0.97,values=int8", {FEW, RISING}, DIFFERENCE, 1},
    {CROOKED, "topk:0.99,values=int8", {NORMAL, -1}, DIFFERENCE, 1},
    {CROOKED, "randk:0.2", {RISING, -1}, ERROR, 3},
    {ODD, "topk", {LONE, -1}, DIFFERENCE, 5},
    {ODD, "randk:0.97,values=int8", {NORMAL, -1}, OTHER, 1},
};

static void long_on(struct oct__engine *on) {
    engine = on;
    for (size_t k = 0; k < OCT_COUNT_OF(long_cases); k++) {
        const char *variant = long_cases[k].variant;
        const struct layout layout = long_layout(long_cases[k].layout);
        struct dice dice = dice_of(8);
        if (long_cases[k].layout != EVEN && !on->is_wide) {
            continue; /* CPUs read what is not aligned as they read the rest */
        }
        struct oct__packet_form *form = form_of(variant, &layout);
        for (int i = 0; i < 2 && long_cases[k].data[i] >= 0; i++) {
            pack_and_fold_data(variant, form, &layout, long_cases[k].data[i], &dice);
        }
        pack_and_remember_way(variant, form, &layout, long_cases[k].how, &dice);
        refuse_in(variant, form, &layout, long_cases[k].refused, &dice);
        oct__packet_form_destroy(form);
    }
}

static void long_tensors(void **state) {
    (void)state;
    launch_engines(long_on);
}

/* A row that can be read sixteen bytes at a time, a base that cannot; and the other way round. */
static void difference_on(struct oct__engine *on) {
    static const size_t sizes[] = {65540};
    const struct layout layout = layout_of(sizes, OCT_COUNT_OF(sizes));
    struct oct__packet_form *form = form_of("topk", &layout);
    struct dice dice = dice_of(9);
    for (int is_base = 0; is_base < 2; is_base++) {
        struct oct__tensor t[2], packed = row_new(&layout), packet = packet_new(form);
        struct oct__tensor wanted = packet_new(form);
        for (int i = 0; i < 2; i++) {
            t[i] = vector_new((int)layout.n_elements + (i == is_base));
            t[i].c = (int)layout.n_elements; /* nodes are one float farther apart */
            fill_row(t[i], &layout, NORMAL, &dice);
        }
        LAUNCH(on, PACK, pack_attr(form, 0), launch_plain, t[0], t[1], packet);
        for (int node = 0; node < LAUNCH_NODES; node++) {
            for (size_t i = 0; i < layout.n_elements; i++) {
                floats(packed, node)[i] = floats(t[0], node)[i] - floats(t[1], node)[i];
            }
            expected_packet("", form, floats(packed, node), (uint32_t)(LAUNCH_FIRST_NODE + node),
                            launch_plain, 0, packet_at(form, at(packet, node)),
                            packet_at(form, at(wanted, node)));
        }
        expect_bits(on->kind->plugin.name, is_base ? "an uneven base" : "an uneven row", packet,
                    wanted);
        tensors_free(NULL);
    }
    oct__packet_form_destroy(form);
}

static void long_differences(void **state) {
    (void)state;
    launch_engines(difference_on);
}

/* More long tensors than one launch takes, and more short ones, five by five: a kernel's arguments
 * have room for 96. One node is enough. */
static void many_on(struct oct__engine *on) {
    enum { MANY = 200, LONG = 65536, SHORT = 3 };
    const struct launch_way way = {1, 1, 1, 7, 0};
    size_t sizes[MANY];
    if (!on->is_wide) {
        print_message("%s: tensors are one by one\n", on->kind->plugin.name);
        return;
    }
    for (size_t i = 0; i < MANY; i++) {
        sizes[i] = i / 5 % 2 ? LONG : SHORT;
    }
    const struct layout layout = layout_of(sizes, OCT_COUNT_OF(sizes));
    struct oct__packet_form *form = form_of("topk:0.99,values=int8", &layout);
    struct oct__tensor row = row_new(&layout), packet = packet_new(form), wanted = packet_new(form);
    for (size_t i = 0; i < layout.n_spans; i++) { /* of each size once, as good as */
        for (size_t j = 0; j < layout.spans[i].count; j++) {
            const uint32_t bits = (uint32_t)(layout.spans[i].offset + j) * 2654435761U;
            floats(row, 1)[layout.spans[i].offset + j] = (float)(int32_t)bits * (float)(i + 1);
        }
    }
    LAUNCH(on, PACK, pack_attr(form, 0), way, row, absent, packet);
    expected_packet("", form, floats(row, 1), LAUNCH_FIRST_NODE + 1, way, 0,
                    packet_at(form, at(packet, 1)), packet_at(form, at(wanted, 1)));
    print_message("%s: %zu tensors, %zu of %zu elements kept\n", on->kind->plugin.name,
                  layout.n_spans, form->n_kept, layout.n_elements);
    expect_bits(on->kind->plugin.name, "many tensors", packet, wanted);

    const struct oct__tensor operands[OCT_ARGS_MOST] = {row, absent, packet};
    floats(row, 1)[layout.n_elements - 1] = -INFINITY;
    EXPECT_FAILURE(launch_try(on, OCT_OP_PACK, pack_attr(form, 0), way, operands),
                   OCT_STATUS_NOT_FINITE, "tensor 199 of node 21");
    oct__packet_form_destroy(form);
    tensors_free(NULL);
}

static void many_tensors(void **state) {
    (void)state;
    launch_engines(many_on);
}

/* --- what it means ---------------------------------------------------------------------------- */

/* |v - C(v)|^2 <= (1 - delta) |v|^2, tensor by tensor: what gossip's step size rests on. Slack for
 * the rounding of values. */
static void shrinks_error(const char *variant) {
    const struct layout layout = layout_of(counts, OCT_COUNT_OF(counts));
    struct oct__packet_form *form = form_of(variant, &layout);
    struct dice dice = dice_of(5);
    struct oct__tensor row = row_new(&layout), packet = packet_new(form), left = row_new(&layout);
    fill_row(row, &layout, NORMAL, &dice);
    memcpy(left.at, row.at, LAUNCH_NODES * row.stride);
    LAUNCH(engine, PACK, pack_attr(form, 0), launch_plain, row, absent, packet);
    LAUNCH(engine, FOLD, fold_attr(form, -1.0F), launch_plain, packet, left);
    for (size_t p = 0; p < form->n_parts; p++) {
        const struct oct__part *part = &form->parts[p];
        double all = 0.0, rest = 0.0, sizes = 0.0;
        for (int node = 0; node < LAUNCH_NODES; node++) {
            for (size_t i = 0; i < part->count; i++) {
                const double v = (double)floats(row, node)[part->offset + i];
                const double e = (double)floats(left, node)[part->offset + i];
                all += v * v;
                rest += e * e;
                sizes += fabs(v);
            }
        }
        const double n = (double)part->count * LAUNCH_NODES, keep = (double)part->keep;
        const double s = (double)((1 << form->bits) - 1);
        double share = 0.0; /* of |v|^2 that may be left */
        if (form->select == OCT_SELECT_LARGEST) {
            share = 1.0 - keep / (double)part->count;
        } else if (form->select == OCT_SELECT_RANDOM) {
            share = 1.0; /* of a single draw; its mean is 1 - k/n */
        } else if (form->coding == OCT_CODING_LEVELS) {
            const double m = n / LAUNCH_NODES, spread = fmin(m / (s * s), sqrt(m) / s);
            share = 1.0 - 0.7 / (1.0 + spread); /* of a single draw */
        } else if (form->coding == OCT_CODING_SIGN) {
            share = 1.0 - 0.9 * sizes * sizes / (n * all);
        }
        const double rounding = form->coding == OCT_CODING_S8     ? 2e-3
                                : form->coding == OCT_CODING_BF16 ? 2e-5
                                                                  : 1e-12;
        if (!(rest <= (share + rounding) * all)) {
            fail_msg("%s: tensor %zu of %zu: %.6g of %.6g is left, allowed %.4g of it", variant, p,
                     part->count, rest, all, share + rounding);
        }
    }
    oct__packet_form_destroy(form);
    tensors_free(NULL);
}

static void shrink_on(struct oct__engine *on) {
    engine = on;
    each_compressor(shrinks_error);
}

static void what_is_left_is_less(void **state) {
    (void)state;
    launch_engines(shrink_on);
}

/* Over many draws the mean of a value that is rounded by chance is the value: of QSGD's, divided by
 * 1 + spread. Each element is allowed five standard errors. */
static void means_on(struct oct__engine *on) {
    static const char *const variants[] = {"int8", "topk:0,values=int8", "qsgd:2", "qsgd:7"};
    static const size_t sizes[] = {33, 7};
    enum { DRAWS = 3000 };
    if (IS_EMULATED && on->is_wide) {
        print_message("%s: thousands of draws are left out; its codes are the formulas'\n",
                      on->kind->plugin.name);
        return;
    }
    const struct layout layout = layout_of(sizes, OCT_COUNT_OF(sizes));
    for (size_t k = 0; k < OCT_COUNT_OF(variants); k++) {
        struct oct__packet_form *form = form_of(variants[k], &layout);
        struct dice dice = dice_of(6);
        struct oct__tensor row = row_new(&layout), packet = packet_new(form);
        double sum[64] = {0}, squares[64] = {0};
        fill_row(row, &layout, NORMAL, &dice);
        for (uint32_t draw = 0; draw < DRAWS; draw++) {
            const struct launch_way way = {0, 1, 1, 1, draw};
            LAUNCH(on, PACK, pack_attr(form, 0), way, row, absent, packet);
            const struct packet found = packet_at(form, at(packet, 0));
            for (size_t p = 0; p < form->n_parts; p++) {
                const struct oct__part *part = &form->parts[p];
                for (size_t i = part->first; i < part->first + part->keep; i++) {
                    const double v = (double)value_at(form, part, &found, i);
                    sum[i] += v;
                    squares[i] += v * v;
                }
            }
        }
        double worst = 0.0;
        for (size_t p = 0; p < form->n_parts; p++) {
            const struct oct__part *part = &form->parts[p];
            const double n = (double)part->count, s = (double)((1 << form->bits) - 1);
            const double shrunk =
                form->coding == OCT_CODING_LEVELS ? 1.0 + fmin(n / (s * s), sqrt(n) / s) : 1.0;
            for (size_t i = 0; i < part->count; i++) {
                const double v = (double)floats(row, 0)[part->offset + i] / shrunk;
                const double mean = sum[part->first + i] / DRAWS;
                const double var = squares[part->first + i] / DRAWS - mean * mean;
                const double error = sqrt((var > 0.0 ? var : 0.0) / DRAWS) + 1e-5;
                worst = fmax(worst, fabs(mean - v) / error);
            }
        }
        print_message("%s, %s: worst mean is %.2f standard errors off\n", on->kind->plugin.name,
                      variants[k], worst);
        assert_true(worst < 5.0);
        oct__packet_form_destroy(form);
        tensors_free(NULL);
    }
}

static void means_are_the_values(void **state) {
    (void)state;
    launch_engines(means_on);
}

/* Seed, step, node and salt each name other random bits; the same names the same. */
static void streams_on(struct oct__engine *on) {
    static const char *const variants[] = {"int8", "randk:0.9", "randk:0.9,values=int8", "qsgd:3",
                                           "topk:0.5,values=int8"};
    static const size_t sizes[] = {1500};
    const struct layout layout = layout_of(sizes, 1);
    for (size_t k = 0; k < OCT_COUNT_OF(variants); k++) {
        struct oct__packet_form *form = form_of(variants[k], &layout);
        struct dice dice = dice_of(7);
        struct oct__tensor row = row_new(&layout), first = packet_new(form);
        fill_row(row, &layout, NORMAL, &dice);
        memcpy(floats(row, 1), floats(row, 0), row.stride);
        LAUNCH(on, PACK, pack_attr(form, 2), launch_plain, row, absent, first);
        struct oct__tensor again = packet_new(form);
        LAUNCH(on, PACK, pack_attr(form, 2), launch_plain, row, absent, again);
        expect_bits(variants[k], "the same again", again, first);
        assert_memory_not_equal(at(first, 0), at(first, 1), form->n_bytes);
        const struct {
            const char *what;
            uint64_t seed;
            uint32_t step, salt;
        } others[] = {{"seed", 10, 4, 2}, {"step", 9, 5, 2}, {"salt", 9, 4, 3}};
        for (size_t i = 0; i < OCT_COUNT_OF(others); i++) {
            const struct launch_way way = {0, LAUNCH_NODES, 1, others[i].seed, others[i].step};
            LAUNCH(on, PACK, pack_attr(form, others[i].salt), way, row, absent, again);
            if (memcmp(at(again, 0), at(first, 0), form->n_bytes) == 0) {
                fail_msg("%s: another %s, the same packet", variants[k], others[i].what);
            }
        }
        oct__packet_form_destroy(form);
        tensors_free(NULL);
    }
}

static void every_stream_is_named(void **state) {
    (void)state;
    launch_engines(streams_on);
}

/* --- names, options, forms -------------------------------------------------------------------- */

static void every_compressor_is_tested(void **state) {
    (void)state;
    for (int i = 0; oct__compressor_at(i); i++) {
        const struct oct_plugin *plugin = &oct__compressor_at(i)->plugin;
        if (!compressor_is_known(plugin->name)) {
            fail_msg("%s: write its variants into support/packets.c", plugin->name);
        }
        struct oct__compression compression;
        EXPECT_OK(oct__compression_read(plugin->name, &compression));
        assert_true(strlen(plugin->summary) > 3);
        assert_true(oct__compressor_at(i)->options_bytes <= OCT_COMPRESSOR_OPTIONS);
    }
    assert_null(oct__compressor_at(-1));
    assert_null(oct__compressor_at(1000));
}

static void options(void **state) {
    (void)state;
    static const struct {
        const char *text;
        struct oct__compression wanted;
    } good[] = {
        {"none", {OCT_SELECT_ALL, OCT_CODING_F32, 0, 0}},
        {"none:values=bf16", {OCT_SELECT_ALL, OCT_CODING_BF16, 0, 0}},
        {"int8", {OCT_SELECT_ALL, OCT_CODING_S8, 0, 0}},
        {"topk:0.997,values=int8", {OCT_SELECT_LARGEST, OCT_CODING_S8, 0, 0.997}},
        {"topk:drop=0.5", {OCT_SELECT_LARGEST, OCT_CODING_F32, 0, 0.5}},
        {"randk", {OCT_SELECT_RANDOM, OCT_CODING_F32, 0, 0.99}},
        {"randk:values=bf16", {OCT_SELECT_RANDOM, OCT_CODING_BF16, 0, 0.99}},
        {"qsgd:7", {OCT_SELECT_ALL, OCT_CODING_LEVELS, 7, 0}},
        {"sign", {OCT_SELECT_ALL, OCT_CODING_SIGN, 0, 0}},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(good); i++) {
        struct oct__compression found;
        EXPECT_OK(oct__compression_read(good[i].text, &found));
        print_message("%s: select %d, coding %d, bits %d, drop %g\n", good[i].text, found.select,
                      found.coding, found.bits, found.drop);
        assert_int_equal(found.select, good[i].wanted.select);
        assert_int_equal(found.coding, good[i].wanted.coding);
        assert_int_equal(found.bits, good[i].wanted.bits);
        assert_true(found.drop == good[i].wanted.drop);
    }
    static const char *const bad[] = {
        "topk:1.5", "topk:-0.1",        "topk:x", "topk:0,9",         "qsgd:0",      "qsgd:8",
        "sign:1",   "none:values=int8", "int8:4", "randk:values=f16", "topk:0.9,k=3"};
    struct oct__compression kept = {OCT_SELECT_RANDOM, OCT_CODING_SIGN, 5, 0.25}, before = kept;
    for (size_t i = 0; i < OCT_COUNT_OF(bad); i++) {
        EXPECT_FAILURE(oct__compression_read(bad[i], &kept), OCT_STATUS_INVALID, "");
        assert_memory_equal(&kept, &before, sizeof kept);
    }
    EXPECT_FAILURE(oct__compression_read("zip", &kept), OCT_STATUS_NOT_FOUND,
                   "none, int8, topk, randk, qsgd, sign");
}

static void how_many_are_kept(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t count, keep;
    } rows[] = {{"topk:0.99", 1000, 10},    {"topk:0.99", 999, 9},     {"topk:0.99", 99, 1},
                {"topk:0.99", 1, 1},        {"topk:0.99", 36864, 368}, {"topk:0.9", 10, 1},
                {"topk:0.9", 20, 2},        {"topk:0.7", 10, 3},       {"topk:0", 77, 77},
                {"topk:1", 77, 1},          {"topk:0.997", 1000, 3},   {"topk:0.997", 36864, 110},
                {"randk:0.999", 1000, 1},   {"randk:0.1", 10, 9},      {"int8", 55, 55},
                {"topk:0.9999", 100000, 10}};
    for (size_t i = 0; i < OCT_COUNT_OF(rows); i++) {
        const struct layout layout = layout_of(&rows[i].count, 1);
        struct oct__packet_form *form = form_of(rows[i].text, &layout);
        print_message("%s of %zu: %zu\n", rows[i].text, rows[i].count, form->n_kept);
        assert_int_equal(form->n_kept, rows[i].keep);
        oct__packet_form_destroy(form);
    }
}

/* Small tensors share a scale only where few values are kept. */
static void scales_are_shared(void **state) {
    (void)state;
    static const size_t sizes[] = {16, 1024, 1023, 5000, 64};
    static const int sparse[] = {2, 0, 2, 1, 2}, dense[] = {0, 1, 2, 3, 4};
    const struct layout layout = layout_of(sizes, OCT_COUNT_OF(sizes));
    struct oct__packet_form *few = form_of("topk:0.99,values=int8", &layout);
    struct oct__packet_form *all = form_of("int8", &layout);
    assert_int_equal(few->n_scales, 3);
    assert_int_equal(all->n_scales, 5);
    for (size_t i = 0; i < OCT_COUNT_OF(sizes); i++) {
        assert_int_equal(few->parts[i].scale, sparse[i]);
        assert_int_equal(all->parts[i].scale, dense[i]);
    }
    assert_int_equal(few->n_bytes % 64, 0);
    assert_int_equal(few->values_at, 4 * few->n_scales + 4 * few->n_kept);
    oct__packet_form_destroy(few);
    oct__packet_form_destroy(all);
}

static void wrong_tensors_are_refused(void **state) {
    (void)state;
    static const struct oct__span overlap[] = {{0, 20}, {16, 8}}, behind[] = {{0, 5}, {90, 11}},
                                  empty[] = {{0, 0}}, far[] = {{SIZE_MAX, 2}};
    const struct oct__compression compression = {OCT_SELECT_ALL, OCT_CODING_F32, 0, 0};
    struct oct__packet_form *form = NULL;
    EXPECT_FAILURE(oct__packet_form_create(&compression, overlap, 2, 100, &form),
                   OCT_STATUS_INVALID, "tensor 1");
    EXPECT_FAILURE(oct__packet_form_create(&compression, behind, 2, 100, &form), OCT_STATUS_INVALID,
                   "tensor 1");
    EXPECT_FAILURE(oct__packet_form_create(&compression, empty, 1, 100, &form), OCT_STATUS_INVALID,
                   "tensor 0");
    EXPECT_FAILURE(oct__packet_form_create(&compression, far, 1, 100, &form), OCT_STATUS_INVALID,
                   "tensor 0");
    EXPECT_FAILURE(oct__packet_form_create(&compression, empty, 0, 0, &form), OCT_STATUS_INVALID,
                   "no tensors");
    EXPECT_FAILURE(oct__packet_form_create(&compression, overlap, 1, SIZE_MAX, &form),
                   OCT_STATUS_INVALID, "at most");
    assert_null(form);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(packets_are_what_the_formulas_say, tensors_free),
        cmocka_unit_test_teardown(packets_are_folded_in_turn, tensors_free),
        cmocka_unit_test_teardown(packets_are_remembered, tensors_free),
        cmocka_unit_test_teardown(not_finite_is_refused, tensors_free),
        cmocka_unit_test_teardown(long_tensors, tensors_free),
        cmocka_unit_test_teardown(long_differences, tensors_free),
        cmocka_unit_test_teardown(many_tensors, tensors_free),
        cmocka_unit_test_teardown(what_is_left_is_less, tensors_free),
        cmocka_unit_test_teardown(means_are_the_values, tensors_free),
        cmocka_unit_test_teardown(every_stream_is_named, tensors_free),
        cmocka_unit_test(every_compressor_is_tested),
        cmocka_unit_test(options),
        cmocka_unit_test(how_many_are_kept),
        cmocka_unit_test(scales_are_shared),
        cmocka_unit_test(wrong_tensors_are_refused),
    };
    return cmocka_run_group_tests_name("compressor", tests, NULL, NULL);
}
