/* SPDX-License-Identifier: Apache-2.0 */
/* octet.h - the whole public API of Octet, and how to use it.
 *
 * Octet trains neural networks on many nodes, each with its own data, that talk only to their
 * neighbours. A program describes a run by the same options as the command `octet train`, creates a
 * trainer from them, and lets it run; all nodes of the run live in it. Train, evaluate, save:
 *
 *     #include <octet/octet.h>
 *     #include <stdio.h>
 *
 *     // Called between steps; returning 1 would stop the run.
 *     static int show(const struct oct_progress *p, void *context) {
 *         (void)context;
 *         if (p->phase == OCT_PHASE_EPOCH_END) {
 *             printf("epoch %d of %d: accuracy %.1f %%, %.1f MB sent\n", p->epoch, p->n_epochs,
 *                    p->test_accuracy, 1e-6 * (double)p->bytes_sent);
 *         }
 *         return 0;
 *     }
 *
 *     int main(void) {
 *         struct oct_config *config = NULL;
 *         struct oct_trainer *trainer = NULL;
 *         struct oct_hooks hooks = {.progress = show};
 *         struct oct_result result;
 *         oct_status status;
 *
 *         // Any option of `octet train` by its name; each call says OCT_OK or why not.
 *         if ((status = oct_config_create(&config)) != OCT_OK ||
 *             (status = oct_config_set(config, "data", "synthetic:size=8")) != OCT_OK ||
 *             (status = oct_config_set(config, "augment", "none")) != OCT_OK ||
 *             (status = oct_config_set(config, "nodes", "4")) != OCT_OK ||
 *             (status = oct_config_set(config, "skew", "0.5")) != OCT_OK ||
 *             (status = oct_config_set(config, "batch", "8")) != OCT_OK ||
 *             (status = oct_config_set(config, "lr", "0.05")) != OCT_OK ||
 *             (status = oct_config_set(config, "epochs", "5")) != OCT_OK ||
 *             (status = oct_trainer_create(config, &hooks, &trainer)) != OCT_OK ||
 *             (status = oct_trainer_run(trainer)) != OCT_OK ||
 *             (status = oct_trainer_result(trainer, &result)) != OCT_OK ||
 *             (status = oct_trainer_save(trainer, "model.safetensors")) != OCT_OK) {
 *             fprintf(stderr, "%s: %s\n", oct_status_name(status), oct_last_error());
 *         } else {
 *             printf("accuracy %.1f %% of the average model, saved in model.safetensors\n",
 *                    result.accuracy);
 *         }
 *         oct_trainer_destroy(trainer);
 *         oct_config_destroy(config);
 *         return status == OCT_OK ? 0 : 1;
 *     }
 *
 *     cc train.c $(pkg-config --cflags --libs octet)
 *
 * Where to read on, a header for each part:
 *
 *     status.h    what functions return, and the sentence behind a failure
 *     config.h    options by name: everything `octet train --help` lists; run files
 *     trainer.h   create, run, evaluate, save; progress, cancelling; several runs side by side
 *     model.h     a saved model put to use: images in, logits out  examples/use_model.c
 *     dataset.h   known datasets, and your own by a callback       examples/own_data.c
 *     graph.h     your own network, layer by layer                 examples/own_model.c
 *     topology.h  who talks to whom: graphs, their weights, how fast they agree
 *     partition.h which node holds which samples
 *     runs.h      a database of runs
 *     ranks.h     a run over many processes and machines (MPI)
 *     plugin.h    which models, datasets, algorithms and the rest this build has
 *     cpu.h       which instructions are used
 *     log.h       what the library says while it works
 *
 * Rules that hold everywhere. Handles are opaque: X_create makes one, X_destroy frees it and takes
 * NULL. Arguments are borrowed for the call unless the function says otherwise. The library never
 * prints, exits, aborts or reads the environment, but for ranks that have lost each other at the end
 * of their processes (MPI_Abort, see ranks.h). Different handles may be used on different
 * threads at once; one handle belongs to one thread at a time unless its header allows more.
 *
 * ABI policy. The version is MAJOR.MINOR.PATCH. A patch keeps the ABI. From 1.0 on, a minor version
 * only adds: functions, enum constants at the end of their lists, structs. Before 1.0 a minor
 * version may break the ABI, so the shared library's name carries it: liboctet.so.0.1. Structs that
 * a program fills in must be zeroed first (`= {0}` or named members), so that a member added later
 * keeps its default.
 */
#ifndef OCTET_OCTET_H
#define OCTET_OCTET_H

#include <octet/config.h>
#include <octet/cpu.h>
#include <octet/dataset.h>
#include <octet/export.h>
#include <octet/graph.h>
#include <octet/log.h>
#include <octet/model.h>
#include <octet/partition.h>
#include <octet/plugin.h>
#include <octet/ranks.h>
#include <octet/runs.h>
#include <octet/status.h>
#include <octet/topology.h>
#include <octet/trainer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The build reads these three lines. */
#define OCT_VERSION_MAJOR 0
#define OCT_VERSION_MINOR 1
#define OCT_VERSION_PATCH 0

#define OCT_VERSION_TEXT_(major, minor, patch) #major "." #minor "." #patch
#define OCT_VERSION_TEXT(major, minor, patch) OCT_VERSION_TEXT_(major, minor, patch)

/* "0.1.0", of the headers a program is compiled with. */
#define OCT_VERSION OCT_VERSION_TEXT(OCT_VERSION_MAJOR, OCT_VERSION_MINOR, OCT_VERSION_PATCH)

/* "0.1.0", of the library a program runs with. Any thread. */
OCT_API const char *oct_version(void);

#ifdef __cplusplus
}
#endif

#endif
