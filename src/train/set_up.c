/* SPDX-License-Identifier: Apache-2.0 */
/* set_up.c - everything a run needs, made from its configuration: data, network, cohort, gossip. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/parallel.h"
#include "base/sha256.h"
#include "models/model.h"
#include "nn/layer.h"
#include "train/check.h"
#include "train/checkpoint.h"
#include "train/config.h"
#include "train/momentum.h"
#include "train/network.h"
#include "train/trainer.h"

#define CROP_PAD 4

/* --- data ------------------------------------------------------------------------------------ */

/* Damaged files were left out when the dataset was opened, and are in the log. */
static oct_status check_skipped(const struct oct_dataset *dataset,
                                const struct oct_config *config) {
    if (dataset->n_skipped > 0 && strcmp(config->strict, "yes") == 0) {
        OCT_FAIL(CORRUPT, "strict: %lld pictures are damaged: %s%s", (long long)dataset->n_skipped,
                 dataset->skipped ? dataset->skipped : "", dataset->n_skipped > 1 ? "; …" : "");
    }
    return OCT_OK;
}

static oct_status check_count(const char *option, int64_t wanted, const char *set, int64_t has) {
    if (wanted > has) {
        OCT_FAIL(INVALID, "%s: %lld, but the %s set has %lld", option, (long long)wanted, set,
                 (long long)has);
    }
    return OCT_OK;
}

/* Which samples each node learns from. */
static oct_status deal(struct oct_trainer *trainer, const struct oct_config *config,
                       const struct oct_dataset *train) {
    OCT_TRY(check_count("samples", config->samples, "training", train->n_samples));
    const struct oct_partition_options options = {
        .name = config->partition,
        .n_nodes = (int)config->nodes,
        .n_samples = config->samples,
        .seed = (uint64_t)config->seed,
    };
    return oct_partition_create(train, &options, &trainer->partition);
}

/* A rank holds the samples of the nodes that it hosts. */
static oct_status mark_own(void *context, const struct oct_dataset *train, uint8_t *keep) {
    struct oct_trainer *trainer = context;
    OCT_TRY(deal(trainer, trainer->config, train));
    for (int i = 0; i < trainer->n_hosted; i++) {
        const int node = trainer->first_node + i;
        const uint32_t *rows = oct_partition_rows(trainer->partition, node);
        const int64_t n = oct_partition_size(trainer->partition, node);
        for (int64_t k = 0; k < n; k++) {
            keep[rows[k]] = 1;
        }
    }
    return OCT_OK;
}

/* One process hosts all nodes, and holds the whole table. */
static oct_status open_train(struct oct_trainer *trainer, const char *spec, const char *folder) {
    const struct oct__data_choice own = {mark_own, trainer};
    const int is_shared = trainer->ranks->n_ranks > 1;
    OCT_TRY(oct__dataset_open_some(spec, folder, OCT_SPLIT_TRAIN, is_shared ? &own : NULL,
                                   &trainer->owned_train));
    const struct oct_dataset *train = trainer->owned_train;
    if (train->place) {
        oct__log(OCT_LOG_DEBUG, "rank %d holds %lld of %lld training samples, %.1f MiB",
                 trainer->ranks->rank, (long long)train->n_held, (long long)train->n_samples,
                 (double)train->n_held * (double)oct__sample_bytes(train) / 1048576.0);
    }
    return OCT_OK;
}

static oct_status open_data(struct oct_trainer *trainer, const struct oct_config *config) {
    const struct oct_hooks *hooks = &trainer->hooks;
    if (!hooks->train != !hooks->test) {
        OCT_FAIL(INVALID, "your own data: both a training and a test set are needed");
    }
    if (hooks->train) {
        trainer->train = hooks->train;
        trainer->test = hooks->test;
    } else if (trainer->number > 0) { /* all side by side have the same */
        trainer->train = trainer->group->runs[0]->train;
        trainer->test = trainer->group->runs[0]->test;
    } else {
        const char *folder = config->data_dir[0] ? config->data_dir : hooks->data_folder;
        OCT_TRY(open_train(trainer, config->data, folder));
        OCT_TRY(oct_dataset_open(config->data, folder, OCT_SPLIT_TEST, &trainer->owned_test));
        trainer->train = trainer->owned_train;
        trainer->test = trainer->owned_test;
    }
    if (trainer->train->n_samples < 1 || trainer->test->n_samples < 1) {
        OCT_FAIL(INVALID, "the %s set has no samples",
                 trainer->train->n_samples < 1 ? "training" : "test");
    }
    OCT_TRY(check_skipped(trainer->train, config));
    return check_skipped(trainer->test, config);
}

/* Which samples each node learns from, and which are tested: those the same whatever the seed, so
 * that figures of different seeds compare. */
static oct_status choose_samples(struct oct_trainer *trainer, const struct oct_config *config) {
    const int64_t n_train = trainer->train->n_samples, n_test = trainer->test->n_samples;
    if (!trainer->partition) { /* as far as it was not needed to open the data */
        OCT_TRY(deal(trainer, config, trainer->train));
    }
    OCT_TRY(check_count("test-samples", config->test_samples, "test", n_test));
    trainer->n_rows = config->samples ? config->samples : n_train;
    trainer->n_test_rows = (uint32_t)(config->test_samples ? config->test_samples : n_test);
    void *memory;
    OCT_TRY(oct__alloc_array(trainer->n_test_rows, sizeof *trainer->test_rows, "test samples",
                             &memory));
    trainer->test_rows = memory;
    return oct__subset(0, (uint32_t)n_test, trainer->n_test_rows, trainer->test_rows);
}

/* --- network and cohort ---------------------------------------------------------------------- */

static oct_status build_network(struct oct_trainer *trainer, const struct oct_config *config) {
    OCT_TRY(oct__network_begin(config, trainer->train, &trainer->graph));
    if (!trainer->hooks.model) {
        return oct__network_build(config, &trainer->graph);
    }
    oct_status status = trainer->hooks.model(&trainer->graph, trainer->hooks.model_context);
    OCT_TRY(trainer->graph.status == OCT_OK ? OCT_OK : oct__graph_check(&trainer->graph));
    if (status != OCT_OK) {
        return oct__fail(status, "your own model's builder returned %s", oct_status_name(status));
    }
    return oct__graph_check(&trainer->graph);
}

/* What runs side by side share, made for the first of them. A builder of one's own may build what
 * it likes each time. */
static oct_status share(struct oct__group *group, const struct oct__cohort_config *cohort) {
    const struct oct_graph *graph = cohort->graph, *first = &group->runs[0]->graph;
    group->engine->is_shared = group->n > 1;
    if (graph->n_layers != first->n_layers ||
        graph->params.n_elements != first->params.n_elements ||
        graph->stats.n_elements != first->stats.n_elements) {
        OCT_FAIL(INVALID, "your own model: runs side by side all have the same");
    }
    return group->n == 1 || group->crew ? OCT_OK : oct__crew_create(cohort, group->n, &group->crew);
}

static oct_status make_cohort(struct oct_trainer *trainer, const struct oct_config *config) {
    struct oct__group *group = trainer->group;
    if (!group->engine) { /* a test may have brought one */
        OCT_TRY(oct__engine_open(oct__network_engine(config), trainer->n_threads, &group->engine));
    }
    trainer->engine = group->engine;
    const char *momentum;
    OCT_TRY(oct__config_momentum(config, &momentum));
    const int is_global = strcmp(momentum, "qgm") == 0;
    struct oct__cohort_config cohort = {
        .engine = trainer->engine,
        .graph = &trainer->graph,
        .train = trainer->train,
        .test = trainer->test,
        .n_nodes = trainer->n_hosted,
        .ranks = trainer->ranks,
        .first_node = trainer->first_node,
        .n_total = trainer->n_nodes,
        .n_threads = trainer->n_threads,
        .batch = trainer->batch,
        .pad = strcmp(config->augment, "crop-flip") == 0 ? CROP_PAD : 0,
        .seed = (uint64_t)config->seed,
        .clip = config->clip_gradient,
        .beta = strcmp(momentum, "none") == 0 ? 0.0F : (float)config->beta,
        .decay = (float)config->weight_decay,
        .is_global = is_global,
        .own = config->own_momentum,
        .keep = config->global_beta,
        .settles = is_global || trainer->algorithm->is_push_sum,
        .slow_beta = config->slow_momentum,
        .slow_rate = config->slow_rate,
        .partition = trainer->partition,
        .test_rows = trainer->test_rows,
        .n_test_rows = trainer->n_test_rows,
    };
    OCT_TRY(share(group, &cohort));
    cohort.crew = group->crew;
    return oct__cohort_create(&cohort, &trainer->cohort);
}

/* --- gossip ---------------------------------------------------------------------------------- */

static oct_status make_topology(struct oct_trainer *trainer, const struct oct_config *config) {
    const char *name =
        config->nodes > 1 ? config->algorithm : "none"; /* there is nobody to talk to */
    OCT_TRY(oct__algorithm_find(name, &trainer->algorithm));
    if (trainer->algorithm->mixing != OCT_MIXING_GOSSIP) {
        return OCT_OK;
    }
    return oct__config_topology(config, &trainer->topology);
}

/* Rounds that bring nodes a hundred times closer together: ln 100 / -ln |second eigenvalue|, which is
 * that of all rounds before a topology repeats. */
static oct_status rounds_to_agree(const struct oct_topology *topology, int64_t *out) {
    struct oct_topology_info info;
    double gap;
    oct_topology_info(topology, &info);
    oct_status status = oct_topology_spectral_gap(topology, &gap);
    if (status == OCT_STATUS_UNSUPPORTED) {
        OCT_FAIL(UNSUPPORTED,
                 "compensation-rounds: give a number; by itself it follows from the spectral gap, "
                 "which is not known here (%s)",
                 oct_last_error());
    }
    OCT_TRY(status);
    if (!(gap > 0.0)) {
        OCT_FAIL(INVALID,
                 "compensation-rounds: give a number; the spectral gap of this graph is 0, so its "
                 "nodes never agree");
    }
    const double second = 1.0 - gap;
    const double rounds = info.period == 1 ? 1.0 : (double)info.period * info.hold;
    const double all = ceil(rounds * (second < 1e-12 ? 1.0 : log(100.0) / -log(second)));
    *out = all < UINT32_MAX ? (int64_t)all : UINT32_MAX; /* more than any run has */
    return OCT_OK;
}

/* The first bytes of a hash over every option that a result depends on: messages and checkpoints of
 * another run are told apart by it. */
static uint64_t run_number(const struct oct_config *config) {
    struct oct__sha256 sha;
    char text[OCT_SHA256_TEXT];
    oct__sha256_init(&sha);
    for (int i = 0; oct_option_at(i); i++) {
        const char *name = oct_option_at(i)->name, *value = oct_config_get(config, name);
        if (!oct_option_is_incidental(name)) {
            oct__sha256_add(&sha, name, strlen(name) + 1);
            oct__sha256_add(&sha, value, strlen(value) + 1);
        }
    }
    oct__sha256_text(&sha, text);
    uint64_t number = 0;
    for (int i = 0; i < 16; i++) {
        number = number << 4 | (uint64_t)(text[i] <= '9' ? text[i] - '0' : text[i] - 'a' + 10);
    }
    return number;
}

static oct_status spans_of(const struct oct__row *row, struct oct__span **out) {
    void *memory;
    OCT_TRY(oct__alloc_array(row->n_items, sizeof(struct oct__span), "spans", &memory));
    struct oct__span *spans = memory;
    for (size_t i = 0; i < row->n_items; i++) {
        spans[i] = (struct oct__span){row->items[i].offset, row->items[i].count};
    }
    *out = spans;
    return OCT_OK;
}

static oct_status make_gossip(struct oct_trainer *trainer, const struct oct_config *config) {
    const struct oct__row *params = &trainer->graph.params;
    const int64_t n_rounds = oct__trainer_rounds(trainer);
    trainer->compensation = 0;
    if (trainer->algorithm->compensates) {
        trainer->compensation = config->compensation_rounds;
        if (trainer->compensation == 0) {
            OCT_TRY(rounds_to_agree(trainer->topology, &trainer->compensation));
        }
    }
    if (n_rounds + config->final_gossip > UINT32_MAX) {
        OCT_FAIL(INVALID, "final-gossip: more than %u rounds in all", UINT32_MAX);
    }
    struct oct__span *spans;
    OCT_TRY(spans_of(params, &spans));
    struct oct__gossip_config gossip = {
        .engine = trainer->engine,
        .algorithm = trainer->algorithm,
        .topology = trainer->topology,
        .spans = spans,
        .n_spans = params->n_items,
        .n_elements = params->n_elements,
        .n_nodes = trainer->n_nodes,
        .first_node = trainer->first_node,
        .n_hosted = trainer->n_hosted,
        .n_threads = trainer->n_threads,
        .seed = (uint64_t)config->seed,
        .run = trainer->group->n > 1 ? trainer->number + 1 : 0,
        .has_dense_rounds = trainer->compensation > 0 || trainer->n_final > 0,
        .has_two_ends = strcmp(config->transport, "loopback") == 0,
        .has_faults = trainer->has_faults,
        .x = oct__cohort_x(trainer->cohort),
    };
    oct_status status = oct__compression_read(config->compress, &gossip.compression);
    if (status == OCT_OK) {
        status = oct__config_gamma(config, &gossip.gamma);
    }
    if (status == OCT_OK) {
        status = oct__gossip_create(&gossip, &trainer->gossip);
    }
    oct__free(spans);
    OCT_TRY(status);
    trainer->cohort->weights = trainer->gossip->u + trainer->first_node;
    OCT_TRY(oct__exchange_create(trainer->gossip, config->transport, run_number(config),
                                 &trainer->exchange));
    return oct__exchange_join(trainer->exchange, trainer->ranks);
}

/* Statistics are mixed when training is over, so there is nothing to compress: whole rows, by the plain
 * algorithm that the graph allows, every node with weight 1 at the start. */
static oct_status make_statistics(struct oct_trainer *trainer, const struct oct_config *config) {
    const struct oct__row *stats = &trainer->graph.stats;
    if (trainer->n_final == 0 || trainer->n_nodes == 1 || stats->n_items == 0 ||
        strcmp(config->final_statistics, "own") == 0) {
        return OCT_OK;
    }
    struct oct__span *spans;
    OCT_TRY(spans_of(stats, &spans));
    struct oct__gossip_config gossip = {
        .engine = trainer->engine,
        .topology = trainer->topology,
        .compression = {.select = OCT_SELECT_ALL, .coding = OCT_CODING_F32},
        .spans = spans,
        .n_spans = stats->n_items,
        .n_elements = stats->n_elements,
        .n_nodes = trainer->n_nodes,
        .first_node = trainer->first_node,
        .n_hosted = trainer->n_hosted,
        .n_threads = trainer->n_threads,
        .seed = (uint64_t)config->seed,
        .run = trainer->gossip->config.run,
        .gamma = 1.0,
        .has_faults = trainer->has_faults, /* nodes that are away */
        .x = trainer->cohort->state[OCT_HOME_STAT],
    };
    oct_status status =
        oct__algorithm_find(trainer->algorithm->is_push_sum ? "sgp" : "dpsgd", &gossip.algorithm);
    if (status == OCT_OK) {
        status = oct__gossip_create(&gossip, &trainer->statistics);
    }
    oct__free(spans);
    return status;
}

/* Before anything is opened, and once more when it is known how many steps there are. */
static oct_status check_faults(struct oct_trainer *trainer, const struct oct_config *config,
                               int64_t n_steps) {
    struct oct__fault_plan plan;
    oct_status status = oct__fault_read(config->fault, &plan);
    trainer->has_faults = status == OCT_OK && oct__fault_is_any(&plan);
    if (status == OCT_OK) {
        status = oct__fault_check(&plan, trainer->n_nodes, n_steps);
    }
    oct__fault_fini(&plan);
    return status;
}

/* --- the whole ------------------------------------------------------------------------------- */

static oct_status count_steps(struct oct_trainer *trainer) {
    int64_t samples_a_step = (int64_t)trainer->n_nodes * trainer->batch;
    trainer->epoch_steps = (trainer->n_rows + samples_a_step - 1) / samples_a_step;
    if (trainer->epoch_steps * trainer->n_epochs > UINT32_MAX) {
        OCT_FAIL(INVALID, "epochs: %d epochs of %lld steps are more than %u steps",
                 trainer->n_epochs, (long long)trainer->epoch_steps, UINT32_MAX);
    }
    if (samples_a_step > trainer->n_rows && trainer->ranks->rank == 0) {
        oct__log(
            OCT_LOG_WARNING,
            "a step of %d nodes takes %lld samples (batch %d each), and there are %lld: it takes "
            "some of them more than once, and an epoch is one step; batch %lld would do",
            trainer->n_nodes, (long long)samples_a_step, trainer->batch, (long long)trainer->n_rows,
            (long long)(trainer->n_rows / trainer->n_nodes));
    }
    return OCT_OK;
}

/* Which nodes this rank hosts, and on how many threads: ranks that share cores share them out. */
static oct_status take_share(struct oct_trainer *trainer, const struct oct_config *config) {
    const struct oct__ranks *ranks = trainer->ranks;
    trainer->n_nodes = (int)config->nodes;
    if (ranks->n_ranks > trainer->n_nodes) {
        OCT_FAIL(INVALID,
                 "%d ranks for %d nodes: a rank hosts at least one; start %d (mpirun -n %d), or "
                 "train more nodes (nodes)",
                 ranks->n_ranks, trainer->n_nodes, trainer->n_nodes, trainer->n_nodes);
    }
    trainer->first_node = oct__ranks_first(trainer->n_nodes, ranks->n_ranks, ranks->rank);
    trainer->n_hosted =
        oct__ranks_first(trainer->n_nodes, ranks->n_ranks, ranks->rank + 1) - trainer->first_node;
    int n_threads = config->threads ? (int)config->threads : oct__parallel_width();
    trainer->n_threads = n_threads < OCT_PARALLEL_MOST ? n_threads : OCT_PARALLEL_MOST;
    return OCT_OK;
}

/* What a rank does by itself. */
static oct_status set_up(struct oct_trainer *trainer, const struct oct_config *config) {
    OCT_TRY(take_share(trainer, config));
    OCT_TRY(oct__schedule_read(config->schedule, &trainer->schedule));
    trainer->batch = (int)config->batch;
    trainer->n_epochs = (int)config->epochs;
    trainer->rate = config->lr;
    trainer->gossip_every = config->gossip_every;
    OCT_TRY(check_faults(trainer, config, 0));
    OCT_TRY(make_topology(trainer, config));
    OCT_TRY(
        oct__check_options(config, trainer->algorithm, trainer->topology)); /* before the data */
    OCT_TRY(oct__check_effects(config, trainer->algorithm, trainer->topology));
    trainer->n_final =
        trainer->algorithm->mixing == OCT_MIXING_GOSSIP ? (int)config->final_gossip : 0;
    OCT_TRY(open_data(trainer, config));
    OCT_TRY(choose_samples(trainer, config));
    OCT_TRY(count_steps(trainer));
    OCT_TRY(check_faults(trainer, config, trainer->epoch_steps * trainer->n_epochs));
    OCT_TRY(build_network(trainer, config));
    OCT_TRY(make_cohort(trainer, config));
    OCT_TRY(make_gossip(trainer, config));
    OCT_TRY(make_statistics(trainer, config));
    OCT_TRY(oct__absence_make(trainer, config));
    void *memory;
    OCT_TRY(oct__alloc_array((size_t)trainer->n_nodes, sizeof *trainer->nodes, "results", &memory));
    trainer->nodes = memory;
    OCT_TRY(oct__nodes_make(trainer));
    return config->resume[0] ? oct__trainer_resume(trainer, config->resume) : OCT_OK;
}

/* Whether it may go beside those that were made before, with all its options. */
static oct_status check_company(const struct oct_trainer *trainer) {
    const struct oct__group *group = trainer->group;
    const struct oct_config *config = trainer->config;
    if (group->n > 1 && strcmp(config->transport, "mpi") == 0) {
        OCT_FAIL(INVALID, "transport is mpi, and runs side by side are in one process");
    }
    for (int i = 0; i < trainer->number; i++) {
        const struct oct_config *other = group->runs[i]->config;
        OCT_TRY(i == 0 ? oct_config_fits(other, config) : OCT_OK);
        if (config->checkpoint[0] && strcmp(config->checkpoint, other->checkpoint) == 0) {
            OCT_FAIL(INVALID,
                     "checkpoint is %s in two runs: each keeps its own in a folder of its own",
                     config->checkpoint);
        }
    }
    return OCT_OK;
}

/* The options are those of the run that goes on, if one does. */
static oct_status complete(struct oct_trainer *trainer) {
    struct oct_config *config = trainer->config;
    if (config->resume[0]) {
        OCT_TRY(oct_config_resume(config, config->resume));
    }
    OCT_TRY(oct__config_check_precision(config));
    return check_company(trainer);
}

/* Every rank has the same run, and sees the same folder. */
static oct_status compare(struct oct_trainer *trainer) {
    const struct oct_config *config = trainer->config;
    OCT_TRY(oct__ranks_agree(trainer->ranks, oct__together_compare(trainer, run_number(config))));
    return config->checkpoint[0] ? oct__together_folder(trainer, config->checkpoint) : OCT_OK;
}

/* Ranks learn of each other's failures where they come together, so a rank that has failed goes there,
 * too. */
oct_status oct__trainer_set_up(struct oct_trainer *trainer, const struct oct_config *given) {
    trainer->ranks = oct__ranks_alone();
    trainer->test_loss = trainer->test_accuracy = trainer->distance = NAN; /* not tested yet */
    OCT_TRY(oct_config_copy(given, &trainer->config));
    oct_status status = complete(trainer);
    char detail[OCT_DETAIL_BYTES];
    oct__detail_take(detail);
    const struct oct_config *config = trainer->config;
    OCT_TRY(oct__transport_join(config->transport, &trainer->ranks));
    oct__ranks_enter(trainer->ranks);
    oct__detail_give(detail);
    if (status == OCT_OK) {
        status = set_up(trainer, config);
    }
    status = oct__ranks_agree(trainer->ranks, oct_config_locate(config, status));
    if (status == OCT_OK) {
        status = compare(trainer);
    }
    return oct__ranks_leave(trainer->ranks, status);
}
