/* SPDX-License-Identifier: Apache-2.0 */
/* variants.c - calls every variant of a kernel beside ref on equal data and compares the bits.
 *
 * Each buffer lies in a region of its own between two pages that cannot be touched:
 *
 *     [no access][ canary | buffer | canary … ][no access]
 *
 * somewhere in the middle at any alignment of its elements, or flush against one of the two pages,
 * so that reading as much as one element too far is a fault. What a kernel must write starts out
 * different for ref and for the variant: an element forgotten shows as a difference. Afterwards
 * outputs must be equal (a NaN equals any NaN), inputs and canaries untouched.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include "check.h"

#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/cases.h"

enum { CANARY = 128, GUARD = 65536, REGION = 4 << 20 };
enum { REF, VARIANT, PRISTINE, N_SETS };

enum placement { MIDDLE, AT_START, AT_END, N_PLACEMENTS };

enum fill { ORDINARY, EXTREME, FINITE, ZEROS, DENORMAL, RARE_NAN, HALVES, ONE_SIGN, N_FILLS };

static const char *const fill_names[] = {"ordinary", "extreme",  "any finite",     "zeros",
                                         "denormal", "rare NaN", "whole and half", "one sign"};

static unsigned char *regions[N_SETS][OCT_CASE_BUFFERS];

/* What is running, for the fault handler and for reports. */
static struct {
    const struct oct__case *which;
    const char *level;
    struct oct__case_shape shape;
    enum fill fill;
    enum placement placement;
    int output, input; /* in place: which output is which input; -1: not */
    uint64_t seed;
} now;

static void describe(char *text, size_t bytes) {
    static const char *const places[] = {"in the middle", "at the start", "at the end"};
    const struct oct__case_shape *s = &now.shape;
    char shape[64];
    oct__case_text(now.which, s, shape);
    int used = snprintf(text, bytes, "%s, %s, shape %s", now.which->name, now.level, shape);
    if (now.which->kind == OCT_CASE_PARTS) {
        used += snprintf(text + used, bytes - (size_t)used, " (stride %zu)", s->stride);
    }
    if (now.which->kind == OCT_CASE_TAPS) {
        used += snprintf(text + used, bytes - (size_t)used, " (step %zu, stride %zu)", s->step,
                         s->out_stride);
    }
    if (now.which->kind == OCT_CASE_PAIRS) {
        used += snprintf(text + used, bytes - (size_t)used, " (step %zu, stride %zu, zero %.9g)",
                         s->step, s->stride, (double)s->zero);
    }
    if (now.which->kind == OCT_CASE_OUTER) {
        used += snprintf(text + used, bytes - (size_t)used, " (of %d, step %zu, from %d, %s half)",
                         s->w, s->step, s->dx, s->flip ? "second" : "first");
    }
    if (now.which->kind == OCT_CASE_IMAGE) {
        used += snprintf(text + used, bytes - (size_t)used, " (dy %d, dx %d)", s->dy, s->dx);
    }
    if (now.which->kind == OCT_CASE_FLAT || now.which->kind == OCT_CASE_GROUPS) {
        used += snprintf(text + used, bytes - (size_t)used,
                         " (scale %.9g, inverse %.9g, zero %.9g, first %llu)", (double)s->scale,
                         (double)s->inverse, (double)s->zero, (unsigned long long)s->first);
    }
    used += snprintf(text + used, bytes - (size_t)used, ", %s data, buffers %s",
                     fill_names[now.fill], places[now.placement]);
    if (now.output >= 0) {
        used += snprintf(text + used, bytes - (size_t)used, ", %s in place of %s",
                         now.which->buffers[now.output].name, now.which->buffers[now.input].name);
    }
    snprintf(text + used, bytes - (size_t)used, ", seed %llu", (unsigned long long)now.seed);
}

static void on_fault(int number) {
    char text[512] = "FAULT outside its buffers: ";
    size_t used = strlen(text);
    describe(text + used, sizeof text - used - 1);
    strcat(text, "\n");
    ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written;
    _exit(number ? 1 : 0);
}

int check_variants_open(void) {
    for (int set = 0; set < N_SETS; set++) {
        for (int b = 0; b < OCT_CASE_BUFFERS; b++) {
            unsigned char *whole = mmap(NULL, REGION + 2 * GUARD, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (whole == MAP_FAILED || mprotect(whole, GUARD, PROT_NONE) != 0 ||
                mprotect(whole + GUARD + REGION, GUARD, PROT_NONE) != 0) {
                return 0;
            }
            regions[set][b] = whole + GUARD;
        }
    }
    struct sigaction action = {.sa_handler = on_fault};
    return sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0;
}

void check_variants_close(void) {
    for (int set = 0; set < N_SETS; set++) {
        for (int b = 0; b < OCT_CASE_BUFFERS; b++) {
            munmap(regions[set][b] - GUARD, REGION + 2 * GUARD);
        }
    }
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
}

/* --- data ------------------------------------------------------------------------------------- */

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float special(uint32_t word) {
    static const uint32_t bits[] = {
        0x00000000, 0x80000000,                         /* +-0 */
        0x00000001, 0x80000001, 0x007fffff, 0x807fffff, /* denormals */
        0x00800000, 0x80800000,                         /* least normals */
        0x3f800000, 0xbf800000, 0x3f7fffff, 0x3f800001, /* around 1 */
        0x7f7fffff, 0xff7fffff, 0x7e967699,             /* largest; about 1e38 */
        0x7f800000, 0xff800000,                         /* infinities */
        0x7fc00000, 0xffc00001, 0x7f800001,             /* NaNs, the last a signalling one */
        0x42ae0000, 0xc2ae0000, 0x42ae0001, 0x42b17218, 0xc2b17218, /* where exp saturates */
        0x4b400000, 0xcb400000,                                     /* exp's rounding constant */
    };
    const uint32_t count = sizeof bits / sizeof bits[0];
    return float_of(bits[word % count]);
}

static float draw(enum fill fill, uint32_t word, uint32_t other) {
    float unit = 4.0f * oct__unit_float(word) - 2.0f;
    switch (fill) {
    case EXTREME:
        return other % 4 == 0 ? unit : other % 4 == 1 ? float_of(word) : special(word);
    case FINITE:
        return float_of((word & 0x807fffffU) | (other % 255U) << 23);
    case ZEROS:
        return float_of(word & 0x80000000U);
    case DENORMAL:
        return float_of(word & 0x807fffffU);
    case RARE_NAN:
        return other % 61 == 0 ? special(word) : unit;
    case HALVES: /* where quantizing rounds ties and stops at its borders */
        return 0.5f * (float)((int)oct__below(word, 1281) - 640);
    case ONE_SIGN: /* fill_buffer turns all of them, every other time */
        return float_of((word & 0x7fffffU) | (120U + other % 16U) << 23);
    default:
        return unit;
    }
}

/* Integers: what a kernel may meet at the borders of its type, and anything between. An s32 that is
 * added to keeps clear of overflow. */
static void draw_integer(const struct oct__case_buffer *buffer, uint32_t word, uint32_t other,
                         size_t i, void *memory) {
    static const uint8_t bytes[] = {0, 1, 2, 127, 128, 129, 254, 255};
    static const int16_t shorts[] = {0, 1, -1, 127, -128, 128, 254, -254, 255, -255};
    static const uint32_t sums[] = {0,          1,          0xffffffff, 0x7fffffff, 0x80000000,
                                    0x80000001, 0x00ffffff, 0x01000001, 0xfeffffff, 0x7fffffbf};
    static const uint16_t halves[] = {0,      0x8000, 1,      0x8001, 0x7f,   0x80,
                                      0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0, 0xff81};
    const uint32_t n_halves = sizeof halves / sizeof halves[0];
    int border = now.fill == EXTREME && other % 4 != 0, zero = now.fill == ZEROS;
    uint32_t *pairs = memory;
    uint8_t *u8 = memory;
    uint16_t *u16 = memory;
    int16_t *s16 = memory;
    int32_t *s32 = memory;
    switch (buffer->type) {
    case OCT_TYPE_U8:
    case OCT_TYPE_S8:
        u8[i] = zero ? 0 : border ? bytes[word % sizeof bytes] : (uint8_t)word;
        break;
    case OCT_TYPE_BF16:
        u16[i] = zero     ? (uint16_t)(word & 0x8000U)
                 : border ? halves[word % n_halves]
                          : (uint16_t)word;
        break;
    case OCT_TYPE_S16:
        s16[i] = zero     ? 0
                 : border ? shorts[word % (sizeof shorts / sizeof shorts[0])]
                          : (int16_t)((int)oct__below(word, 511) - 255);
        break;
    case OCT_TYPE_PAIR:
        pairs[i] = zero     ? word & 0x80008000U
                   : border ? halves[word % n_halves] | (uint32_t)halves[other % n_halves] << 16
                            : word;
        break;
    case OCT_TYPE_WHOLES:
        oct__case_fill(buffer, 1, &(struct oct__stream){.key = {word, other}}, &pairs[i]);
        pairs[i] = zero ? 0 : pairs[i];
        break;
    default:
        s32[i] = buffer->role == OCT_BUFFER_BOTH ? (int32_t)(word >> 1) - (1 << 30)
                 : zero                          ? 0
                 : border ? (int32_t)sums[word % (sizeof sums / sizeof sums[0])]
                          : (int32_t)word;
        break;
    }
}

static void fill_buffer(int b, size_t count, uint32_t instance, int index) {
    const struct oct__case_buffer *buffer = &now.which->buffers[b];
    struct oct__stream stream =
        oct__stream(now.seed, OCT_PURPOSE_TEST, (uint32_t)index, instance, (uint32_t)b);
    void *memory = regions[PRISTINE][b];
    if (now.fill == ORDINARY || buffer->type == OCT_TYPE_SIZE) {
        oct__case_fill(buffer, count, &stream, memory);
        return;
    }
    float *floats = memory;
    uint32_t word[4];
    for (size_t i = 0; i < count; i++) {
        if (i % 2 == 0) {
            oct__stream_block(&stream, (uint32_t)(i / 2), word);
        }
        if (buffer->type == OCT_TYPE_F32) {
            floats[i] = draw(now.fill, word[i % 2 * 2], word[i % 2 * 2 + 1]);
            if (now.fill == ONE_SIGN && instance / N_FILLS % 2 == 0) {
                floats[i] = -floats[i];
            }
        } else {
            draw_integer(buffer, word[i % 2 * 2], word[i % 2 * 2 + 1], i, memory);
        }
    }
}

/* --- one call --------------------------------------------------------------------------------- */

static size_t place(size_t bytes, size_t element, uint32_t word) {
    switch (now.placement) {
    case AT_START:
        return 0;
    case AT_END:
        return REGION - bytes;
    default:
        return CANARY + word % 16 * element;
    }
}

/* The canary lies on both sides as far as the region allows. */
static void canaries(size_t offset, size_t bytes, size_t *before, size_t *after) {
    *before = offset < CANARY ? offset : CANARY;
    size_t rest = REGION - offset - bytes;
    *after = rest < CANARY ? rest : CANARY;
}

static int bits_differ(const struct oct__case_buffer *buffer, const void *a, const void *b,
                       size_t i) {
    size_t size = oct__case_element_bytes(buffer);
    if (memcmp((const char *)a + i * size, (const char *)b + i * size, size) == 0) {
        return 0;
    }
    if (buffer->exact) {
        return 1;
    }
    if (buffer->type == OCT_TYPE_BF16) {
        const uint16_t *x = a, *y = b, most = 0x7f80; /* infinity; above it are NaNs */
        return !((x[i] & 0x7fff) > most && (y[i] & 0x7fff) > most);
    }
    if (buffer->type != OCT_TYPE_F32) {
        return 1;
    }
    return !(isnan(((const float *)a)[i]) && isnan(((const float *)b)[i]));
}

static void report_difference(const struct oct__case_buffer *buffer, const void *ref,
                              const void *variant, size_t i) {
    char text[512];
    describe(text, sizeof text);
    fprintf(stderr, "DIFFERENT: %s\n  %s[%zu]: ", text, buffer->name, i);
    if (buffer->type == OCT_TYPE_F32) {
        const float *a = ref, *b = variant;
        uint32_t a_bits, b_bits;
        memcpy(&a_bits, &a[i], sizeof a_bits);
        memcpy(&b_bits, &b[i], sizeof b_bits);
        fprintf(stderr, "ref %.9g (%08x), %s %.9g (%08x)\n", (double)a[i], (unsigned)a_bits,
                now.level, (double)b[i], (unsigned)b_bits);
    } else {
        size_t size = oct__case_element_bytes(buffer);
        unsigned long long a = 0, b = 0; /* this checker runs where the lowest byte comes first */
        memcpy(&a, (const char *)ref + i * size, size);
        memcpy(&b, (const char *)variant + i * size, size);
        fprintf(stderr, "ref 0x%0*llx, %s 0x%0*llx\n", 2 * (int)size, a, now.level, 2 * (int)size,
                b);
    }
}

static int report(const char *what, const char *buffer) {
    char text[512];
    describe(text, sizeof text);
    fprintf(stderr, "%s of %s: %s\n", what, buffer, text);
    return 1;
}

/* Where each buffer of the call lies, the same in every set. */
struct layout {
    size_t count[OCT_CASE_BUFFERS], bytes[OCT_CASE_BUFFERS], offset[OCT_CASE_BUFFERS];
};

static void lay_out(struct layout *layout, uint32_t instance) {
    struct oct__stream stream = oct__stream(now.seed, OCT_PURPOSE_TEST, 0xffffU, instance, 0);
    for (int b = 0; b < now.which->n_buffers; b++) {
        size_t element = oct__case_element_bytes(&now.which->buffers[b]);
        uint32_t word[4];
        oct__stream_block(&stream, (uint32_t)b, word);
        layout->count[b] = oct__case_count(now.which, &now.shape, b);
        layout->bytes[b] = layout->count[b] * element;
        layout->offset[b] = place(layout->bytes[b], element, word[0]);
    }
}

/* Equal data in set REF or VARIANT, then the call. */
static void call_on(int set, const struct oct__kernels *table, const struct layout *layout) {
    void *p[OCT_CASE_BUFFERS];
    for (int b = 0; b < now.which->n_buffers; b++) {
        enum oct__case_role role = now.which->buffers[b].role;
        size_t bytes = layout->bytes[b], before, after;
        unsigned char *start = regions[set][b] + layout->offset[b];
        canaries(layout->offset[b], bytes, &before, &after);
        memset(start - before, 0xca, before);
        memset(start + bytes, 0xca, after);
        if (role == OCT_BUFFER_OUT || role == OCT_BUFFER_WORK) {
            memset(start, set == REF ? 0x3b : 0x4c, bytes);
        } else {
            memcpy(start, regions[PRISTINE][b], bytes);
        }
        p[b] = start;
    }
    if (now.output >= 0) {
        p[now.output] = p[now.input];
    }
    now.which->call(table, &now.shape, p);
}

/* Canaries and inputs of a set must be what they were; 1 when not. */
static int disturbed(int set, const struct layout *layout) {
    for (int b = 0; b < now.which->n_buffers; b++) {
        const struct oct__case_buffer *buffer = &now.which->buffers[b];
        const unsigned char *start = regions[set][b] + layout->offset[b];
        size_t bytes = layout->bytes[b], before, after;
        canaries(layout->offset[b], bytes, &before, &after);
        for (size_t i = 1; i <= before; i++) {
            if (start[-(ptrdiff_t)i] != 0xca) {
                return report("OVERWRITTEN before the start", buffer->name);
            }
        }
        for (size_t i = 0; i < after; i++) {
            if (start[bytes + i] != 0xca) {
                return report("OVERWRITTEN past the end", buffer->name);
            }
        }
        int may_change = buffer->role != OCT_BUFFER_IN || b == now.input;
        if (!may_change && memcmp(start, regions[PRISTINE][b], bytes) != 0) {
            return report("INPUT CHANGED", buffer->name);
        }
    }
    return 0;
}

static int outputs_differ(const struct layout *layout) {
    for (int b = 0; b < now.which->n_buffers; b++) {
        const struct oct__case_buffer *buffer = &now.which->buffers[b];
        if (buffer->role == OCT_BUFFER_WORK || b == now.output) {
            continue; /* scratch; in place the input holds the output */
        }
        const void *ref = regions[REF][b] + layout->offset[b];
        const void *variant = regions[VARIANT][b] + layout->offset[b];
        if (b == now.input) {
            buffer = &now.which->buffers[now.output];
        }
        if (memcmp(ref, variant, layout->bytes[b]) == 0) {
            continue;
        }
        for (size_t i = 0; i < layout->count[b]; i++) {
            if (bits_differ(buffer, ref, variant, i)) {
                report_difference(buffer, ref, variant, i);
                return 1;
            }
        }
    }
    return 0;
}

/* --- sweeps ----------------------------------------------------------------------------------- */

struct sweep {
    int index;
    uint32_t instance;
    uint64_t *n_calls;
    unsigned failed; /* bit l: the variant of level l, which is then left alone */
};

/* ref once, then every variant the machine can run, on the data in PRISTINE. */
static void compare_all(struct sweep *sweep, uint32_t instance) {
    struct layout layout = {.count = {0}};
    lay_out(&layout, instance);
    for (int level = OCT_CPU_REF; level <= (int)oct_cpu_machine_level(); level++) {
        enum oct_cpu_level at = (enum oct_cpu_level)level;
        now.level = oct_cpu_level_name(at);
        if (sweep->failed >> level & 1U ||
            strcmp(oct__kernel_variant(sweep->index, at), now.level) != 0) {
            continue;
        }
        int set = level == OCT_CPU_REF ? REF : VARIANT;
        call_on(set, oct__kernels_at(at), &layout);
        if (disturbed(set, &layout) || (set == VARIANT && outputs_differ(&layout))) {
            sweep->failed |= 1U << level;
        }
        *sweep->n_calls += set == VARIANT;
    }
}

/* One shape: every kind of data, each in some placement, apart and in place. */
static void try_shape(struct sweep *sweep, const struct oct__case_shape *shape, int all_fills) {
    const struct oct__case *which = now.which;
    now.shape = *shape;
    for (int fill = 0; fill < N_FILLS; fill++) {
        if (!all_fills && fill != ORDINARY && fill != RARE_NAN) {
            continue;
        }
        uint32_t instance = sweep->instance++;
        now.fill = (enum fill)fill;
        for (int b = 0; b < which->n_buffers; b++) {
            fill_buffer(b, oct__case_count(which, shape, b), instance, sweep->index);
        }
        now.placement = (enum placement)(instance % N_PLACEMENTS);
        now.output = now.input = -1;
        compare_all(sweep, instance);
        for (int out = 0; out < which->n_buffers; out++) {
            for (int in = 0; in < which->n_buffers; in++) {
                if (which->buffers[out].in_place >> in & 1U) {
                    now.output = out;
                    now.input = in;
                    compare_all(sweep, instance);
                }
            }
        }
    }
}

static uint32_t random_below(const struct sweep *sweep, uint32_t which, uint32_t n) {
    struct oct__stream stream =
        oct__stream(now.seed, OCT_PURPOSE_TEST, (uint32_t)sweep->index, which, 0xfffffU);
    uint32_t word[4];
    oct__stream_block(&stream, 0, word);
    return oct__below(word[0], n);
}

/* Grid, stream and place in it: mostly sound ones, some as a run that diverges would have them. */
static void vary_grid(const struct sweep *sweep, uint32_t trial, struct oct__case_shape *shape) {
    static const float inverses[] = {1.0f,    1.0f,     2.0f, 0.5f,  63.9f, 127.0f / 2.0f,
                                     1000.0f, 0x1p-10f, 0.0f, 3e38f, 1e-40f};
    static const float scales[] = {1.0f, 2.0f, 1.0f / 63.0f, 0.0123f, 0.0f, 1e-40f, 1e38f};
    static const uint64_t firsts[] = {0,
                                      1,
                                      127,
                                      128,
                                      129,
                                      100 * 128,
                                      0xffffffffU - 77,
                                      0xffffffffU,
                                      (UINT64_C(1) << 35) - 200,
                                      (UINT64_C(1) << 35) - 1,
                                      (UINT64_C(1) << 40) + 77};
    static const float zeros[] = {0.0f, 0.0f, 1.0f, 127.0f, 128.0f, 254.0f, 255.0f};
    const uint32_t n_inverses = sizeof inverses / sizeof inverses[0];
    const uint32_t n_scales = sizeof scales / sizeof scales[0];
    const uint32_t n_firsts = sizeof firsts / sizeof firsts[0];
    const uint32_t n_zeros = sizeof zeros / sizeof zeros[0];
    uint32_t draws = 1000 + 8 * trial;
    uint32_t broken = random_below(sweep, draws++, 40);
    uint32_t zero = random_below(sweep, draws++, 2 * n_zeros);
    shape->inverse = inverses[random_below(sweep, draws++, n_inverses)];
    shape->scale = scales[random_below(sweep, draws++, n_scales)];
    shape->first = firsts[random_below(sweep, draws++, n_firsts)];
    shape->zero = zero < n_zeros ? zeros[zero] : (float)random_below(sweep, draws, 256);
    if (broken < 2) {
        shape->inverse = shape->scale = broken ? NAN : INFINITY;
    }
    shape->stream = oct__stream(now.seed, OCT_PURPOSE_ROUND_GRADIENT, trial,
                                random_below(sweep, draws + 1, UINT32_MAX), (uint32_t)sweep->index);
}

static void sweep_flat(struct sweep *sweep) {
    struct oct__case_shape shape = {
        .c = 1, .lr = 0.1f, .beta = 0.9f, .decay = 5e-4f, .weight = 1.0f};
    uint32_t trial = 0;
    for (size_t n = 0; n < 140; n += n < 70 ? 1 : 3) {
        shape.rows = n;
        vary_grid(sweep, trial++, &shape);
        shape.own = 0.0F;
        try_shape(sweep, &shape, 1);
        shape.own = 0.06F;
        try_shape(sweep, &shape, 1);
    }
    for (uint32_t i = 0; i < 40; i++) {
        shape.own = i % 2 ? 0.03F : 0.0F;
        vary_grid(sweep, trial++, &shape);
        shape.rows = 70 + random_below(sweep, i, 4000);
        shape.lr = (float)random_below(sweep, 100 + i, 1000) * 1e-3f;
        shape.beta = (float)random_below(sweep, 200 + i, 1000) * 1e-3f;
        shape.decay = (float)random_below(sweep, 300 + i, 10) * 1e-4f;
        shape.weight = (float)random_below(sweep, 400 + i, 3000) * 1e-3f;
        try_shape(sweep, &shape, 1);
    }
    vary_grid(sweep, trial, &shape);
    shape.rows = 900001;
    try_shape(sweep, &shape, 0);
}

static void sweep_parts(struct sweep *sweep) {
    for (size_t n = 0; n < 140; n++) {
        for (size_t parts = 1; parts <= 5; parts++) {
            struct oct__case_shape shape = {
                .rows = n, .c = 1, .parts = parts, .stride = n + (n * parts) % 7};
            try_shape(sweep, &shape, parts < 3);
        }
    }
    struct oct__case_shape shape = {.rows = 30011, .c = 1, .parts = 9, .stride = 30017};
    try_shape(sweep, &shape, 0);
}

static void sweep_image(struct sweep *sweep) {
    static const int sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 28, 32, 33};
    static const int shifts[] = {0, 1, -1, 3, -4, 7, -7, 32, -32, 40, -40, INT_MAX, INT_MIN};
    const uint32_t n_sizes = sizeof sizes / sizeof sizes[0];
    const uint32_t n_shifts = sizeof shifts / sizeof shifts[0];
    uint32_t draws = 0;
    for (size_t c = 1; c <= 5; c++) {
        for (uint32_t i = 0; i < n_sizes; i++) {
            for (uint32_t j = 0; j < 2 * n_shifts; j++) {
                /* Every shift across, each with some shift down and some height; both mirrored. */
                uint32_t tall = random_below(sweep, draws++, n_sizes);
                uint32_t down = random_below(sweep, draws++, j < n_shifts ? 5 : n_shifts);
                struct oct__case_shape shape = {
                    .rows = (size_t)sizes[tall],
                    .w = sizes[i],
                    .c = c,
                    .dy = shifts[down],
                    .dx = shifts[j % n_shifts],
                };
                try_shape(sweep, &shape, 0);
                shape.flip = 1;
                try_shape(sweep, &shape, 0);
            }
        }
    }
    struct oct__case_shape empty = {.rows = 0, .w = 0, .c = 3};
    try_shape(sweep, &empty, 0);
}

static const size_t some_rows[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  11,
                                   15, 16, 17, 18, 19, 31, 33, 47, 64, 67, 131};

static void sweep_columns(struct sweep *sweep) {
    for (size_t c = 1; c <= 140; c += c < 36 || (c >= 61 && c < 67) || c >= 125 ? 1 : 5) {
        for (size_t i = 0; i < sizeof some_rows / sizeof some_rows[0]; i++) {
            struct oct__case_shape shape = {.rows = some_rows[i], .c = c};
            try_shape(sweep, &shape, (c + i) % 4 == 0);
        }
    }
    static const size_t tall[][2] = {{1027, 16},
                                     {2050, 8},
                                     {519, 64},
                                     {5001, 3},
                                     {66, 300},
                                     /* beyond L2, where maps go row by row */
                                     {4099, 129},
                                     {16390, 33},
                                     {33001, 16}};
    for (size_t i = 0; i < sizeof tall / sizeof tall[0]; i++) {
        struct oct__case_shape shape = {.rows = tall[i][0], .c = tall[i][1]};
        try_shape(sweep, &shape, 0);
    }
    struct oct__case_shape none = {.rows = 5, .c = 0};
    try_shape(sweep, &none, 0);
}

static void sweep_groups(struct sweep *sweep) {
    static const size_t channels[][2] = {
        {1, 1},  {2, 1},   {2, 2},  {3, 1},  {3, 3},  {4, 2},  {6, 3},   {7, 7},    {8, 8},
        {8, 2},  {9, 3},   {10, 2}, {10, 5}, {12, 4}, {15, 5}, {16, 8},  {16, 1},   {16, 16},
        {17, 1}, {17, 17}, {20, 4}, {24, 8}, {31, 1}, {32, 8}, {33, 11}, {40, 8},   {48, 8},
        {64, 8}, {64, 2},  {65, 5}, {66, 6}, {72, 8}, {96, 8}, {128, 8}, {130, 10}, {160, 8}};
    uint32_t trial = 0;
    for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++) {
        for (size_t j = 0; j < sizeof some_rows / sizeof some_rows[0]; j++) {
            struct oct__case_shape shape = {
                .rows = some_rows[j], .c = channels[i][0], .groups = channels[i][1], .eps = 1e-5f};
            vary_grid(sweep, trial++, &shape);
            try_shape(sweep, &shape, (i + j) % 3 == 0);
        }
    }
    static const size_t tall[][3] = {{1024, 16, 8},   {1025, 16, 2}, {259, 32, 8},
                                     {65, 64, 8},     {2051, 10, 2}, {4099, 130, 10},
                                     {20480, 16, 16}, {4096, 64, 8}};
    for (size_t i = 0; i < sizeof tall / sizeof tall[0]; i++) {
        struct oct__case_shape shape = {
            .rows = tall[i][0], .c = tall[i][1], .groups = tall[i][2], .eps = 1e-3f};
        vary_grid(sweep, trial++, &shape);
        try_shape(sweep, &shape, 0);
    }
}

static void sweep_taps(struct sweep *sweep) {
    static const size_t outs[] = {1,  2,  3,  5,  7,  8,  9,  15, 16, 17, 23, 24, 25,
                                  31, 32, 33, 40, 48, 49, 63, 64, 65, 80, 96, 100};
    static const size_t positions[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16, 17, 23, 32, 33};
    static const size_t pairs[] = {0, 1, 2, 3, 5, 24};
    const uint32_t n_pairs = sizeof pairs / sizeof pairs[0];
    uint32_t draws = 0;
    for (size_t i = 0; i < sizeof outs / sizeof outs[0]; i++) {
        for (size_t j = 0; j < sizeof positions / sizeof positions[0]; j++) {
            struct oct__case_shape shape = {.rows = positions[j], .c = outs[i]};
            shape.pairs = pairs[random_below(sweep, draws++, n_pairs)];
            shape.step = random_below(sweep, draws++, 40); /* positions overlap, or leave gaps */
            shape.out_stride = shape.c + random_below(sweep, draws++, 2) * (j % 5);
            try_shape(sweep, &shape, 1);
        }
    }
    static const size_t large[][4] = {{32, 16, 24, 16}, {16, 32, 48, 32}, {8, 64, 96, 64},
                                      {1, 10, 32, 64},  {7, 130, 300, 3}, {100, 20, 13, 5}};
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        struct oct__case_shape shape = {.rows = large[i][0], .c = large[i][1]};
        shape.out_stride = shape.c;
        shape.pairs = large[i][2];
        shape.step = large[i][3];
        try_shape(sweep, &shape, 1);
    }
}

static void sweep_pairs(struct sweep *sweep) {
    static const size_t channels[] = {0, 16, 32, 48, 64, 80};
    uint32_t draws = 0;
    for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++) {
        for (size_t pixels = 0; pixels < 40; pixels += pixels < 10 ? 1 : 3) {
            struct oct__case_shape shape = {.rows = pixels, .c = channels[i]};
            shape.step = shape.c + random_below(sweep, draws++, 20); /* others are left out */
            shape.stride = pixels * 16 + random_below(sweep, draws++, 2) * 48;
            shape.zero = (float)random_below(sweep, draws++, 256);
            try_shape(sweep, &shape, 1);
        }
    }
}

static void sweep_outer(struct sweep *sweep) {
    static const int widths[] = {1, 2, 3, 4, 5, 7, 8, 16, 17};
    const uint32_t n_widths = sizeof widths / sizeof widths[0];
    for (uint32_t trial = 0; trial < 300; trial++) {
        uint32_t draws = 10 * trial;
        struct oct__case_shape shape = {
            .parts = random_below(sweep, draws, 3),
            .rows = random_below(sweep, draws + 1, 4),
            .w = widths[random_below(sweep, draws + 2, n_widths)],
            .c = 1 + random_below(sweep, draws + 3, 3),
            .step = 1 + random_below(sweep, draws + 4, 3),
            .dx = (int)random_below(sweep, draws + 5, 9) - 6,
            .flip = (int)random_below(sweep, draws + 6, 2),
        };
        shape.pairs = random_below(sweep, draws + 7, (uint32_t)shape.w + 3);
        try_shape(sweep, &shape, trial % 4 == 0);
    }
}

int check_variants(int index, uint64_t seed, uint64_t *n_calls) {
    struct sweep sweep = {.index = index, .n_calls = n_calls};
    now.which = oct__case_at(index);
    now.seed = seed;
    switch (now.which->kind) {
    case OCT_CASE_FLAT:
        sweep_flat(&sweep);
        break;
    case OCT_CASE_PARTS:
        sweep_parts(&sweep);
        break;
    case OCT_CASE_IMAGE:
        sweep_image(&sweep);
        break;
    case OCT_CASE_COLUMNS:
        sweep_columns(&sweep);
        break;
    case OCT_CASE_GROUPS:
        sweep_groups(&sweep);
        break;
    case OCT_CASE_TAPS:
        sweep_taps(&sweep);
        break;
    case OCT_CASE_PAIRS:
        sweep_pairs(&sweep);
        break;
    case OCT_CASE_OUTER:
        sweep_outer(&sweep);
        break;
    }
    int failures = 0;
    for (int level = 0; level < OCT_CPU_COUNT; level++) {
        failures += (int)(sweep.failed >> level & 1U);
    }
    return failures;
}
