/* SPDX-License-Identifier: Apache-2.0 */
/* cases.h - how to call each kernel of kernels.def from a list of buffers.
 *
 * One description serves two readers: the benchmark (bench.h) fills the buffers and times the call,
 * the checker (tests/kernels) calls two variants on equal buffers and compares what they wrote. A
 * kernel without a case does not compile.
 */
#ifndef OCT_KERNELS_CASES_H
#define OCT_KERNELS_CASES_H

#include "base/rng.h"
#include "kernels/kernels.h"

/* What the shape of a call means; the checker sweeps each kind its own way. */
enum oct__case_kind {
    OCT_CASE_FLAT,    /* `rows` elements, c = 1 */
    OCT_CASE_PARTS,   /* `parts` arrays of `rows` elements, `stride` apart */
    OCT_CASE_IMAGE,   /* rows × w pixels of c bytes */
    OCT_CASE_COLUMNS, /* x[rows][c] */
    OCT_CASE_GROUPS,  /* x[rows][c], `groups` dividing c */
    OCT_CASE_TAPS,    /* `rows` positions of `pairs` pairs, c outputs */
    OCT_CASE_PAIRS,   /* `rows` pixels of c channels, `step` apart, to planes `stride` apart */
    OCT_CASE_OUTER,   /* `parts` images of `rows` rows: `pairs` pixels that meet w, at c taps */
};

struct oct__case_shape {
    size_t rows, c, groups, parts, stride;
    size_t pairs, step, out_stride; /* of taps and outer products */
    uint64_t first;                 /* the first element's number in its tensor */
    int w, dy, dx, flip;
    float lr, beta, decay, eps;
    float own;                  /* of a step, in a momentum that gossip has the rest of */
    float scale, inverse, zero; /* a grid's */
    float weight;               /* a push-sum weight */
    struct oct__stream stream;
};

enum oct__case_role {
    OCT_BUFFER_IN,   /* only read */
    OCT_BUFFER_OUT,  /* written whole; what it held is not read */
    OCT_BUFFER_BOTH, /* read and written: sums are added to, parameters updated */
    OCT_BUFFER_WORK, /* scratch: anything may be left in it */
};

enum oct__case_count {
    OCT_PER_ELEMENT,
    OCT_PER_CHANNEL,
    OCT_PER_GROUP,
    OCT_PER_PART,   /* all parts, the gaps between them too */
    OCT_PER_BYTE,   /* 256 for each channel: a table */
    OCT_PER_TENSOR, /* a single one */
    OCT_PER_RUN,    /* taps: what all positions read, */
    OCT_PER_TAP,    /* the weights, */
    OCT_PER_SUM,    /* and the sums with the gaps between them */
    OCT_PER_MASK,   /* one for 32 elements: a bit for each */
    OCT_PER_SOURCE, /* pairs: the pixels, with the gaps between them, */
    OCT_PER_PLANE,  /* and the planes with theirs */
    OCT_PER_IMAGE,  /* outer products: x, */
    OCT_PER_OUTPUT, /* and g */
};

enum oct__case_type {
    OCT_TYPE_F32,
    OCT_TYPE_BF16, /* in uint16_t */
    OCT_TYPE_U8,
    OCT_TYPE_S8,
    OCT_TYPE_S16, /* bytes with their zero point taken off: never beyond +-255 */
    OCT_TYPE_S32,
    OCT_TYPE_PAIR,   /* two of bf16 in uint32_t, */
    OCT_TYPE_WHOLES, /* and such as bytes become: whole, never beyond +-255 */
    OCT_TYPE_SIZE,
};

#define OCT_CASE_BUFFERS 16

struct oct__case_buffer {
    const char *name; /* the parameter's */
    enum oct__case_role role;
    enum oct__case_count per;
    int times;         /* `work` has several floats a channel; 0 counts as 1 */
    int positive;      /* a standard deviation's inverse: ordinary data must be above 0 */
    unsigned in_place; /* bit b: this output may be the same array as buffer b */
    enum oct__case_type type;
    int exact; /* floats copied, not computed: a NaN keeps its bits, too */
};

struct oct__case {
    const char *name;
    enum oct__case_kind kind;
    int n_buffers;
    const struct oct__case_buffer *buffers;
    void (*call)(const struct oct__kernels *k, const struct oct__case_shape *s, void *const *p);
    const struct oct__case_shape *bench; /* ends with rows = 0 */
};

/* Case `index` belongs to row `index` of kernels.def; NULL past the end. */
const struct oct__case *oct__case_at(int index);

/* How many elements buffer `b` has in this shape, and how many bytes an element has. */
size_t oct__case_count(const struct oct__case *which, const struct oct__case_shape *shape, int b);
size_t oct__case_element_bytes(const struct oct__case_buffer *buffer);

/* Ordinary data: floats in [-2, 2), or [0.5, 1.5) where they must be positive; all bytes; sums up to
 * 2^20. */
void oct__case_fill(const struct oct__case_buffer *buffer, size_t count,
                    const struct oct__stream *stream, void *memory);

/* What a perfect kernel moves: each input read once, each output written once. */
double oct__case_bytes(const struct oct__case *which, const struct oct__case_shape *shape);

/* "1024x16/8", "32x32x3": for people. */
void oct__case_text(const struct oct__case *which, const struct oct__case_shape *shape,
                    char text[64]);

#endif
