/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.h - all of a run's state on disk, so that it goes on to the same bits.
 *
 *     DIR/step-000000001234/node-00000.safetensors …   a node's rows
 *     DIR/step-000000001234/manifest                   written last
 *     DIR/step-000000001234.partial/                   one that is being written, or removed
 *     DIR/step-000000001234.old/                       one whose successor is moving in
 *
 * A checkpoint is written under its partial name, brought to the disk, and renamed: under its own
 * name it is complete. The manifest has the configuration, the run's counters, and length and
 * SHA-256 of every node's file. The newest two are kept. docs/formats/checkpoint.md has the bytes.
 *
 * checkpoint.c knows folders and files, manifest.c the manifest's text, resume.c what a manifest
 * means for a configuration. What a run consists of is told to them by its owner: rows are asked for
 * and handed over one by one, so that a thousand nodes need no copy of the state.
 */
#ifndef OCT_TRAIN_CHECKPOINT_H
#define OCT_TRAIN_CHECKPOINT_H

#include "base/text.h"
#include "nn/graph.h"
#include "train/config.h"
#include "transport/ranks.h"

/* One row of a node: "x", "momentum", "edge.3" …, its tensors as in `row`, its values by read and
 * write below. A name is up to 31 letters, digits, '.', '_' and '-'; so is a counter's. */
struct oct__shelf {
    char name[32];
    const struct oct__row *row;
};

/* A number that belongs to the run as a whole ("epoch_loss") or to a node ("weight.00003"); doubles
 * are kept as their 64 bits. */
struct oct__counter {
    char name[32];
    double value;
};

/* What the owner of a run offers. `read` and `write` move the values of a shelf from and to the
 * run's memory, `values` having row->n_elements floats (gaps are zero). */
struct oct__stock {
    const struct oct_config *config;
    uint64_t step;
    int n_nodes;
    struct oct__ranks *ranks; /* NULL: there is one, which hosts all nodes */
    int first_node, n_hosted; /* of several: what this one writes and reads */
    int reads_others;         /* some rows of other nodes are wanted as well */
    struct oct__counter *counters;
    size_t n_counters;
    void *context;
    /* Shelf `index` of a node; 0 past the end. */
    int (*shelf)(void *context, int node, int index, struct oct__shelf *out);
    oct_status (*read)(void *context, int node, int index, float *values);
    /* A shelf by name, while a checkpoint is loaded; NOT_FOUND refuses the file. */
    oct_status (*write)(void *context, int node, const char *name, const struct oct__row *row,
                        const float *values);
    /* The row of a shelf that a file names; NULL: there is no such shelf. */
    const struct oct__row *(*row)(void *context, int node, const char *name);
    /* Whether a shelf is to be handed over; NULL: all are. */
    int (*wanted)(void *context, int node, const char *name);
};

/* Makes the folder where it is not there, and sees to it that a run at `step` can write into it.
 * INVALID when a usable checkpoint of a later step lies there: it is another run's, and would be
 * taken for this one's newest. Saving does this too; calling it before the first step spares a run
 * of hours that ends with "no such folder". */
OCT_MUST_CHECK oct_status oct__checkpoint_prepare(const char *folder, uint64_t step);

/* Writes DIR/step-…, in place of one of the same step if there is one; then removes what is older
 * than the one before it, and unfinished ones. On failure nothing that was there is lost. Where there
 * are several ranks all call it, each writes its own nodes' files, rank 0 the rest, and all get the same
 * status. */
OCT_MUST_CHECK oct_status oct__checkpoint_save(const char *folder, const struct oct__stock *stock);

/* What a manifest says, before a run exists. */
struct oct__manifest {
    uint64_t step;
    int n_nodes;
    struct oct__counter *counters; /* by name, ascending */
    size_t n_counters;
    struct oct__manifest_option {
        const char *name, *value; /* of every option, as text */
        int is_set;               /* or else left to its default, which the value then is */
    } * options;
    size_t n_options;
    struct oct__manifest_file {
        uint64_t bytes;
        char sha256[65];
    } * files;  /* [n_nodes] */
    char *path; /* of the checkpoint's own folder; NULL when it was parsed from memory */
    char *text; /* what the options' texts lie in */
};

/* Finds the newest checkpoint in `folder` whose manifest and files are all right (sums included),
 * warns about newer ones that are not, and reads its manifest. NOT_FOUND when there is none, CORRUPT
 * when none is usable; both name what was found. */
OCT_MUST_CHECK oct_status oct__manifest_open(const char *folder, struct oct__manifest **out);
void oct__manifest_close(struct oct__manifest *manifest);

/* A manifest's text, and back; what is accepted has exactly one text. The fuzzer drives these.
 * `name` opens the messages. */
OCT_MUST_CHECK oct_status oct__manifest_write(const struct oct__manifest *manifest,
                                              struct oct__text *out);
OCT_MUST_CHECK oct_status oct__manifest_parse(const char *name, const uint8_t *bytes,
                                              size_t n_bytes, struct oct__manifest **out);
/* No manifest is longer than this many bytes: 65,536 nodes with a few counters each fit. */
#define OCT_MANIFEST_MOST ((size_t)64 << 20)

/* "node-00000.safetensors" */
#define OCT_NODE_FILE 32
void oct__node_file(int node, char name[OCT_NODE_FILE]);

/* A counter by name; NOT_FOUND otherwise. */
OCT_MUST_CHECK oct_status oct__manifest_counter(const struct oct__manifest *manifest,
                                                const char *name, double *out);

/* Hands every node's rows to stock->write, and checks that each shelf of every node was there. */
OCT_MUST_CHECK oct_status oct__checkpoint_load(const struct oct__manifest *manifest,
                                               const struct oct__stock *stock);

#endif
