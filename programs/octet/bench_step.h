/* SPDX-License-Identifier: Apache-2.0 */
/* bench_step.h - what the parts of octet bench step share.
 *
 *     cmd_bench_step.c   the command: times, one row a precision
 *     bench_profile.c    --profile: where the time goes
 *     bench_cost.c       --cost: what a step costs in work, memory, bytes and energy
 */
#ifndef OCTET_BENCH_STEP_H
#define OCTET_BENCH_STEP_H

#include "cli.h"
#include "train/bench.h"

/* A process that trained, as the system saw it. */
struct bench_process {
    int is_known;
    int n_nodes;
    uint64_t peak_bytes;            /* the most that was resident */
    uint64_t own_bytes;             /* of its own at the end: memory that it asked for */
    uint64_t file_bytes;            /* of files at the end: program and libraries */
    struct oct__step_memory memory; /* what the run asked for */
};

/* One precision: what was measured, and with which norm, for that may depend on it. */
struct bench_row {
    const char *precision;
    char norm[64];
    struct oct__step_time time;
    struct oct__step_profile profile; /* with --profile */
    struct oct__step_cost cost;       /* with --cost */
    struct bench_process process;
};

/* Tables of one row on stdout; `calls` lists every call too. */
void bench_profile_print(const struct bench_row *row, int calls);
/* Adds to arrays of calls, kinds and layers, and to ceilings where the engine knows them. */
void bench_profile_json(const struct bench_row *row, struct cli_json *calls, struct cli_json *kinds,
                        struct cli_json *layers, struct cli_json *ceilings);

/* Trains a few steps in a child process and looks at its memory. Before the first thread is made:
 * a child has only the thread that made it. */
void bench_process_measure(const struct cli *cli, int n_nodes, struct bench_process *out);

void bench_cost_print(const struct bench_row *rows, int n_rows);
struct cli_json *bench_cost_json(const struct bench_row *rows, int n_rows);
/* Draws the costs as bars, relative to the first row's; returns the exit code. */
int bench_cost_draw(const struct cli *cli, const char *path, const struct bench_row *rows,
                    int n_rows);

#endif
