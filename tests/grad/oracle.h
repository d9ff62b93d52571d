/* SPDX-License-Identifier: Apache-2.0 */
/* oracle.h - a network's forward pass in double precision, written from the definitions.
 *
 * It shares nothing with the library but the description of the graph: every layer is the
 * textbook's loop over [sample][row][column][channel], without shards, packing or in-place tricks.
 * Gradients are not written down at all; they come from central differences of the loss, which in
 * double agree with the true derivative to nine digits or so. That is what holds the engines' f32
 * gradients to a few parts in a million.
 *
 * ReLU, max pooling and the range norms have kinks, where a difference over two sides means
 * nothing. The oracle remembers which side each element was on; `is_frozen` keeps them there while
 * a parameter is moved, which gives exactly the derivative that back-propagation computes. `margin`
 * is how close an element came to changing sides: a test chooses data for which it is far above
 * f32's rounding.
 */
#ifndef OCT_TESTS_ORACLE_H
#define OCT_TESTS_ORACLE_H

#include "data/sampler.h"
#include "nn/graph.h"

struct oracle {
    const struct oct_graph *graph;
    int batch;
    int is_eval;   /* running statistics, no dropout */
    uint64_t seed; /* of dropout, with node and step */
    uint32_t step, node;

    double *params;      /* [params.n_elements] */
    double *stats;       /* [stats.n_elements] as they are before the pass */
    double *new_stats;   /* and after it */
    double *input;       /* [batch][h][w][c] */
    const int *labels;   /* [batch] */
    double **values;     /* [layer] -> [batch][h][w][c] */
    int **sides;         /* [layer] which side of its kink each element is on */
    double *sample_loss; /* [batch] */
    double loss;         /* their sum over the batch, divided by the batch */
    int is_frozen;
    double margin;
};

void oracle_open(struct oracle *oracle, const struct oct_graph *graph, int batch);
void oracle_close(struct oracle *oracle);

/* Fills the input as the definition of crops and flips says: position (y + dy, x + dx), byte 0
 * outside, mirrored when `flip`. */
void oracle_input(struct oracle *oracle, const uint8_t *images, const float *lut,
                  const struct oct__pick *picks);

/* Computes layers `first` … and the loss; layers before `first` keep their values. */
void oracle_run(struct oracle *oracle, int first);

/* d loss / d parameter `element` of tensor `param`. The oracle must have run and be frozen. Values of
 * the parameter's layer and those after it are left moved: take the tensors from last to first, which
 * reads none of them, or run the oracle again in between. */
double oracle_derivative(struct oracle *oracle, int param, size_t element);

#endif
