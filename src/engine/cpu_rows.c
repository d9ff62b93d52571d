/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_rows.c - the CPU's operations on whole rows of parameters: the optimizer's and gossip's.
 *
 * A row is hundreds of thousands of elements, each on its own, so threads share it in pieces. The
 * pieces' size does not matter to the result, but for CLIP's sum over all of them, whose order
 * engine.h has; so the pieces are CLIP's.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "engine/cpu.h"
#include "kernels/kernels.h"

#define PIECE OCT_CLIP_PIECE

/* Elements first … first + n - 1 of a node's row, or of every node's. */
struct piece {
    const struct oct__lane *lane;
    const struct oct__args *args;
    size_t node, first, n;
};

typedef void piece_fn(const struct piece *piece);

struct job {
    const struct oct__lane *lane;
    const struct oct__args *args;
    piece_fn *fn;
    int n_pieces; /* of a row */
};

static oct_status run_piece(void *context, int item, int worker) {
    (void)worker;
    const struct job *job = context;
    struct piece piece = {
        .lane = job->lane,
        .args = job->args,
        .node = (size_t)(item / job->n_pieces),
        .first = (size_t)(item % job->n_pieces) * PIECE,
    };
    const size_t left = oct__tensor_count(&job->args->t[0]) - piece.first;
    piece.n = left < PIECE ? left : PIECE;
    job->fn(&piece);
    return OCT_OK;
}

static size_t pieces_of(const struct oct__tensor *row) {
    return (oct__tensor_count(row) + PIECE - 1) / PIECE;
}

/* `is_joint`: a piece is of all nodes' rows at once. */
static oct_status each_piece(const struct oct__lane *lane, const struct oct__args *args,
                             int is_joint, piece_fn *fn) {
    struct job job = {lane, args, fn, (int)pieces_of(&args->t[0])};
    const int n_rows = is_joint ? 1 : lane->form.n_nodes;
    return oct__parallel(lane->form.n_threads, job.n_pieces * n_rows, run_piece, &job);
}

static float *at(const struct piece *p, int operand) {
    const struct oct__tensor *t = &p->args->t[operand];
    return (float *)((char *)t->at + p->node * t->stride) + p->first;
}

/* --- the optimizer ---------------------------------------------------------------------------- */

void oct__cpu_rows_scratch(enum oct__op op, const struct oct__lane_form *form,
                           const struct oct__args *args, struct oct__plan *plan) {
    if (op == OCT_OP_CLIP) {
        plan->shared_bytes = (size_t)form->n_nodes * pieces_of(&args->t[0]) * sizeof(double);
    }
}

/* The sums of squares of a node's pieces. */
static double *squares_of(const struct piece *p) {
    return (double *)p->lane->shared_scratch + p->node * pieces_of(&p->args->t[0]);
}

/* In the order that engine.h sets for all engines. */
static void square_piece(const struct piece *p) {
    const float *x = at(p, 0);
    double sums[OCT_CLIP_LANES] = {0.0};
    for (size_t i = 0; i < p->n; i += OCT_CLIP_LANES) {
        const size_t left = p->n - i, n = left < OCT_CLIP_LANES ? left : OCT_CLIP_LANES;
        for (size_t j = 0; j < n; j++) {
            sums[j] += (double)x[i + j] * (double)x[i + j];
        }
    }
    for (size_t half = OCT_CLIP_LANES / 2; half > 0; half /= 2) {
        for (size_t j = 0; j < half; j++) {
            sums[j] += sums[j + half];
        }
    }
    squares_of(p)[p->first / PIECE] = sums[0];
}

/* Every piece finds the norm for itself. One that is not finite is left alone: the step after finds,
 * and names, what comes of it. */
static void clip_piece(const struct piece *p) {
    const double *squares = squares_of(p), limit = p->args->attr.clip.norm;
    double sum = 0.0;
    for (size_t i = 0; i < pieces_of(&p->args->t[0]); i++) {
        sum += squares[i];
    }
    const double norm = sqrt(sum);
    if (norm > limit && isfinite(norm)) {
        oct__kernels()->divide_f32(p->n, at(p, 0), (float)fmin(norm / limit, (double)FLT_MAX),
                                   at(p, 0));
    }
}

oct_status oct__cpu_clip(const struct oct__lane *lane, const struct oct__args *args) {
    OCT_TRY(each_piece(lane, args, 0, square_piece));
    return each_piece(lane, args, 0, clip_piece);
}

static void sgd_piece(const struct piece *p) {
    const float rate = p->lane->learning_rate;
    const float beta = p->args->attr.sgd.beta, decay = p->args->attr.sgd.decay;
    if (p->args->attr.sgd.is_global) {
        oct__kernels()->sgd_global_f32(p->n, at(p, 0), at(p, 1), at(p, 2), rate, beta, decay,
                                       p->args->attr.sgd.own);
    } else {
        oct__kernels()->sgd_f32(p->n, at(p, 0), at(p, 1), at(p, 2), rate, beta, decay);
    }
}

oct_status oct__cpu_sgd(const struct oct__lane *lane, const struct oct__args *args) {
    return each_piece(lane, args, 0, sgd_piece);
}

/* Rare, so without a kernel of its own. A way cannot be divided by a rate of 0: x stays. */
static void slow_piece(const struct piece *p) {
    const double rate = (double)p->lane->learning_rate;
    const float beta = p->args->attr.slow.beta, inverse = (float)(1.0 / rate);
    const float far = (float)(p->args->attr.slow.rate * rate);
    float *x = at(p, 0), *m = at(p, 2);
    const float *anchor = at(p, 1);
    for (size_t i = 0; rate != 0.0 && i < p->n; i++) {
        const float d = inverse * (anchor[i] - x[i]);
        m[i] = beta * m[i] + d;
        x[i] = anchor[i] - far * (d + beta * m[i]);
    }
}

oct_status oct__cpu_slow(const struct oct__lane *lane, const struct oct__args *args) {
    return each_piece(lane, args, 0, slow_piece);
}

/* --- gossip ------------------------------------------------------------------------------------ */

static void difference_piece(const struct piece *p) {
    oct__kernels()->difference_f32(p->n, at(p, 0), at(p, 1), at(p, 2));
}

oct_status oct__cpu_difference(const struct oct__lane *lane, const struct oct__args *args) {
    return each_piece(lane, args, 0, difference_piece);
}

static void axpy_piece(const struct piece *p) {
    oct__kernels()->axpy_f32(p->n, p->args->attr.row.factor, at(p, 0), at(p, 1));
}

oct_status oct__cpu_axpy(const struct oct__lane *lane, const struct oct__args *args) {
    return each_piece(lane, args, 0, axpy_piece);
}

/* With rate 0 nothing has moved by a gradient, and the momentum has nothing to learn. */
static void settle_piece(const struct piece *p) {
    const struct oct__tensor *u = &p->args->t[1];
    const float weight = *(const float *)((const char *)u->at + p->node * u->stride);
    const float rate = p->lane->learning_rate, beta = p->args->attr.settle.beta;
    if (p->args->t[3].n == 0 || rate == 0.0F) {
        oct__kernels()->divide_f32(p->n, at(p, 0), weight, at(p, 2));
    } else {
        const float share = (float)(p->args->attr.settle.share / (double)rate);
        oct__kernels()->settle_f32(p->n, at(p, 0), weight, beta, share, at(p, 2), at(p, 3));
    }
}

oct_status oct__cpu_settle(const struct oct__lane *lane, const struct oct__args *args) {
    return each_piece(lane, args, 0, settle_piece);
}

static void copy_piece(const struct piece *p) {
    memcpy(at(p, 1), at(p, 0), p->n * sizeof(float));
}

oct_status oct__cpu_copy(const struct oct__lane *lane, const struct oct__args *args) {
    return each_piece(lane, args, 0, copy_piece);
}

static void mean_piece(const struct piece *p) {
    oct__kernels()->mean_f32(p->n, (size_t)p->lane->form.n_nodes,
                             p->args->t[0].stride / sizeof(float), at(p, 0));
}

oct_status oct__cpu_mean(const struct oct__lane *lane, const struct oct__args *args) {
    return each_piece(lane, args, 1, mean_piece);
}
