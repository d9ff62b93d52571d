/* SPDX-License-Identifier: Apache-2.0 */
/* trainer.h - one training run: create it from a configuration, run it, evaluate, save.
 *
 * A trainer belongs to one thread at a time; different trainers may run on different threads. Its
 * callbacks are called on the thread that called oct_trainer_run, between steps. With the option
 * transport mpi a run has a trainer in each of many processes: ranks.h.
 */
#ifndef OCTET_TRAINER_H
#define OCTET_TRAINER_H

#include <stdint.h>

#include <octet/config.h>
#include <octet/dataset.h>
#include <octet/graph.h>
#include <octet/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct oct_trainer;

enum oct_phase {
    OCT_PHASE_TRAIN,     /* a step was done */
    OCT_PHASE_EVALUATE,  /* test batches are being classified */
    OCT_PHASE_EPOCH_END, /* an epoch and its evaluation, if it has one, were done */
    OCT_PHASE_GOSSIP,    /* a round without training was done, after the last epoch */
};

struct oct_progress {
    enum oct_phase phase;
    int epoch, n_epochs;             /* epoch counts from 1 */
    int64_t step, n_steps;           /* of the whole run */
    int64_t epoch_step, epoch_steps; /* of this epoch, or batches of this evaluation */
    double loss;                     /* mean training loss of this epoch so far */
    double accuracy;                 /* training accuracy of this epoch so far, per cent */
    double learning_rate;
    double samples_per_s; /* training, all nodes together; evaluation not counted */
    double seconds, seconds_left;
    double test_loss,
        test_accuracy;         /* after the last epoch that ended, as is the next; NaN where it
                                        was not tested (option test_every) */
    double consensus_distance; /* as in struct oct_result */
    uint64_t bytes_sent;       /* so far */
};

/* Nonzero asks the trainer to stop: oct_trainer_run then returns CANCELLED after the current step,
 * and what was learned can still be evaluated and saved. A callback may look at the run (nodes, edges,
 * quantizers, a record) and save it; running, loading and asking for a result are refused there, and
 * destroying is not possible. */
typedef int oct_progress_fn(const struct oct_progress *progress, void *context);

struct oct_hooks {
    oct_progress_fn *progress; /* may be NULL, as all of these */
    void *progress_context;
    oct_graph_build_fn *model; /* your network instead of the option `model` */
    void *model_context;
    const struct oct_dataset *train; /* your data instead of the option `data`; borrowed, both or */
    const struct oct_dataset *test;  /* neither, and kept until the trainer is destroyed */
    const char *data_folder; /* where the option `data` looks when `data-dir` is not set; read by
                                oct_trainer_create only */
};

/* What went wrong in a run, by the option fault. */
struct oct_fault_counts {
    uint64_t absent;       /* rounds that nodes missed, all nodes together */
    uint64_t dropped;      /* messages that never arrived */
    uint64_t late;         /* … that arrived after their round, and were discarded */
    uint64_t overtaken;    /* … that arrived behind the next one, and were discarded */
    uint64_t doubled;      /* … that arrived twice, once too often */
    uint64_t repairs;      /* whole rows sent anew, for replicas and for nodes */
    uint64_t repair_bytes; /* … bytes sent for it, which bytes_sent has, too */
};

struct oct_result {
    double accuracy;           /* of the average model on the test set, per cent */
    double accuracy_nodes;     /* mean over the nodes' own models, per cent */
    double accuracy_least;     /* … their worst */
    double accuracy_most;      /* … their best */
    int nodes_tested;          /* … of so many nodes (option eval_nodes) */
    double loss;               /* of the average model on the test set */
    double train_loss;         /* mean over the last epoch's steps; NaN: there was none */
    double consensus_distance; /* (1/n) sum |z_i - z|^2 / |z|^2 */
    uint64_t bytes_sent;       /* all messages over all edges, headers included */
    uint64_t bytes_final;      /* … of those, in the rounds after the last epoch */
    uint64_t bytes_dense;      /* what the messages before those would be as plain floats */
    uint64_t messages;         /* … and how many they are, over all edges */
    double samples_per_s;      /* training only, all nodes together; NaN: nothing was trained */
    double seconds;            /* since oct_trainer_run began, evaluation included */
    double gossip_share;       /* of the training time that went into messages, 0 to 1 */
    double checkpoint_seconds; /* of `seconds`: writing checkpoints */
    int epochs;                /* finished */
    int64_t n_parameters;      /* of one node's model */
    uint64_t workspace_bytes;  /* activations and gradients, all workers */
    uint64_t state_bytes;      /* parameters, momentum, statistics, gossip's memory, all nodes */
    char model_sha256[65];     /* the average model's parameters, little-endian f32, graph order */
    int has_faults;            /* the option fault was given */
    struct oct_fault_counts faults;
};

/* Opens the data, builds the network, plans memory and takes all of it. `hooks` may be NULL. */
OCT_API OCT_MUST_CHECK oct_status oct_trainer_create(const struct oct_config *config,
                                                     const struct oct_hooks *hooks,
                                                     struct oct_trainer **out);

/* Trains to the last epoch, evaluating after each (option test_every: after some). CANCELLED when the progress callback asked to
 * stop (then the option `checkpoint` has one written); called again it goes on from there, to the
 * same bits. NOT_FINITE names the step and layer where a NaN or infinity first appeared. A run that has failed
 * in the middle of a step fails the same way when it is called again. */
OCT_API OCT_MUST_CHECK oct_status oct_trainer_run(struct oct_trainer *trainer);

/* Evaluates what has been learned so far and fills `out`; works after CANCELLED too. */
OCT_API OCT_MUST_CHECK oct_status oct_trainer_result(struct oct_trainer *trainer,
                                                     struct oct_result *out);

/* Writes the average model (parameters, and statistics such as BatchNorm's) as a safetensors file,
 * all or nothing: into a file beside it first (PATH.partial, with a number where that is somebody's),
 * then renamed. A link stays, what it leads to is replaced; a file that may not be written is
 * refused. */
OCT_API OCT_MUST_CHECK oct_status oct_trainer_save(struct oct_trainer *trainer, const char *path);

/* How a model file holds weights. */
enum oct_model_form {
    OCT_MODEL_F32,  /* all as floats: what oct_trainer_save writes */
    OCT_MODEL_INT8, /* as the bytes and scales that an int8 network computes with: a quarter of it */
};

/* The same in a form. INT8 is for runs in 8 bits, whose logits are then the same to the bit; what
 * training needs beyond them is not in it. INVALID for other runs. */
OCT_API OCT_MUST_CHECK oct_status oct_trainer_save_as(struct oct_trainer *trainer, const char *path,
                                                      enum oct_model_form form);

/* Gives every node the model saved by oct_trainer_save or oct_trainer_save_as; momentum starts anew.
 * Names and shapes must agree, and the checksum where the file has one: on any failure the model
 * stays as it was. */
OCT_API OCT_MUST_CHECK oct_status oct_trainer_load(struct oct_trainer *trainer, const char *path);

/* The training or the test set that it uses, borrowed. Over many processes a training set that the
 * trainer opened has the pictures of its own nodes' samples alone, and the labels of all. */
OCT_API const struct oct_dataset *oct_trainer_data(const struct oct_trainer *trainer,
                                                   enum oct_split split);

/* A node as the last finished epoch left it; what is not known yet is NaN. */
struct oct_node {
    double loss, accuracy;     /* training, mean over the epoch's steps; accuracy in per cent */
    double consensus_distance; /* |z_i - z|^2 / |z|^2; the run's is the mean of these */
    double test_accuracy;      /* of its own model, per cent; NaN where it has not been tested:
                                  oct_trainer_result tests (option eval_nodes) */
    uint64_t bytes_sent;       /* so far */
    int64_t n_samples;         /* training samples that it holds */
};

/* Node `node`; NOT_FOUND past the end. */
OCT_API OCT_MUST_CHECK oct_status oct_trainer_node(const struct oct_trainer *trainer, int node,
                                                   struct oct_node *out);

/* An edge that has carried something, and what, so far. */
struct oct_traffic {
    int from, to;
    uint64_t bytes, messages;
};

/* Edge `index`, by `from` and then `to`; NOT_FOUND past the end. Runs of more than 1,024 nodes count
 * by node only, and have none. */
OCT_API OCT_MUST_CHECK oct_status oct_trainer_edge(const struct oct_trainer *trainer, int64_t index,
                                                   struct oct_traffic *out);

/* How many training samples of class `label` node `node` holds; -1: no such node or class. */
OCT_API int64_t oct_trainer_holding(const struct oct_trainer *trainer, int node, int label);

/* A quantizer of an int8 run as the last watched step left it, mean over the nodes. */
struct oct_quantizer {
    const char *layer; /* whose value, or the gradient of whose value, it quantizes */
    int is_gradient;
    double clipped; /* share of elements beyond the range, 0 to 1; full ranges, as gradients have
                       them, leave none out */
    double zero;    /* share that became exactly 0 */
    double scale;   /* what a step of one byte is worth */
};

/* From now on the last step of every epoch looks at all quantizers, which makes it a tenth longer. */
OCT_API void oct_trainer_watch(struct oct_trainer *trainer);

/* Quantizer `index`, in the order of the step; NOT_FOUND past the end, in fp32, and before the
 * first watched step. `out->layer` lives as long as the trainer. */
OCT_API OCT_MUST_CHECK oct_status oct_trainer_quantizer(const struct oct_trainer *trainer,
                                                        int index, struct oct_quantizer *out);

/* --- runs side by side -------------------------------------------------------------------------
 *
 * A launch on a GPU is done soonest, sample for sample, when it covers many nodes: eight runs of
 * eight nodes whose steps are the same launches take less time than one run after the other. Each
 * is a run of its own all the same, with the bits that it has alone, and everything above but
 * oct_trainer_run holds for its trainer. On a CPU runs go side by side, too, and gain nothing by
 * it.
 */

/* Makes `n` trainers whose runs go side by side, out[i] from configs[i] and hooks[i] (`hooks` may
 * be NULL), all of them or none. The data is that of the first, or all hooks bring the same. Two
 * runs must fit (oct_config_fits), and stand after the same step where they go on from
 * checkpoints: INVALID. What they take is given back when the last of the trainers is destroyed. */
OCT_API OCT_MUST_CHECK oct_status oct_trainers_create(const struct oct_config *const *configs,
                                                      const struct oct_hooks *hooks, int n,
                                                      struct oct_trainer **out);

/* How a run that went side by side with others ended. */
struct oct_ending {
    oct_status status; /* as oct_trainer_run would have returned it */
    char reason[512];  /* as oct_last_error would; "" where it is OK */
};

/* Trains all of them to the last epoch: `trainers` are the n that were made together, in that
 * order. A run that fails ends there (its model is then of no use), and the others go on. When any
 * progress callback asks to stop, all stop after the same step, CANCELLED; called again they go
 * on. `endings` [n] may be NULL. Returns the status of the first run that did not come to its end,
 * OK when all did. Seconds in a run's progress and result are those of the clock, so that its
 * samples/s are its part of what all do. */
OCT_API OCT_MUST_CHECK oct_status oct_trainers_run(struct oct_trainer *const *trainers, int n,
                                                   struct oct_ending *endings);

OCT_API void oct_trainer_destroy(struct oct_trainer *trainer);

#ifdef __cplusplus
}
#endif

#endif
