/* SPDX-License-Identifier: Apache-2.0 */
/* gradcheck.h - a small network on every engine, held to the oracle: values, losses, gradients. */
#ifndef OCT_TESTS_GRADCHECK_H
#define OCT_TESTS_GRADCHECK_H

#include <octet/graph.h>

struct grad_case {
    const char *name;
    /* Builds the layers under test. grad_check adds the input before and a head after it: a
     * convolution as large as the map, so that every position gets a gradient of its own. Returns
     * the value that the head reads. */
    int (*build)(struct oct_graph *graph, int x);
    int is_whole;     /* `build` makes all of the network from input to output; x is -1 */
    const char *norm; /* NULL: "groupnorm" */
    int height, width, channels;
    int batch, shard;
    int n_blank;    /* samples with label -1 */
    int is_cropped; /* random crops and flips */
    int n_checked;  /* elements of each parameter tensor that are compared; 0: all of them */
};

/* Forward (training and evaluation), statistics and every parameter's gradient on every engine of
 * the registry, in a launch of two nodes with different parameters of which the second is looked
 * at. */
void grad_check(const struct grad_case *c);

#endif
