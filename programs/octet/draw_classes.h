/* SPDX-License-Identifier: Apache-2.0 */
/* draw_classes.h - who holds what: a circle for every node and class, its area the number of samples.
 *
 * octet partition draws what a run would begin with, a report what a run began with.
 */
#ifndef OCTET_DRAW_CLASSES_H
#define OCTET_DRAW_CLASSES_H

#include <stdint.h>

#include "svg.h"

enum { CLASSES_NODES_MOST = 4096 /* more are no drawing any more */ };

/* Nodes from left to right, classes from bottom to top. The caller sets the first part. */
struct classes_figure {
    int n_nodes, n_classes;
    const uint32_t *counts; /* [node][class] */
    double left, top;       /* where the grid begins */
    double room;            /* pixels that its longer side may take */
    double most_cell;       /* of the grid, both ways */
    int most_told;          /* with more circles, none says its number when pointed at */

    double cell;
    double right, end; /* where the grid ends */
    double largest;    /* radius of the largest circle */
    uint32_t most;     /* its samples */
};

void classes_lay_out(struct classes_figure *figure);

/* Where the drawing ends below, with axis and key. */
double classes_bottom(const struct classes_figure *figure);

void classes_draw(struct svg *svg, const struct classes_figure *figure);

/* Of more nodes than circles can show: a column for each node, cut into its classes. The box is that of
 * the columns; axis and key need 34 pixels below, and 40 to the left. */
void classes_draw_columns(struct svg *svg, const struct classes_figure *figure, struct svg_box box);

#endif
