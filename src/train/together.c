/* SPDX-License-Identifier: Apache-2.0 */
/* together.c - what the ranks of a run settle among themselves.
 *
 * In its steps a rank talks to those that host its nodes' neighbours, and to nobody else: what it
 * counts meanwhile (losses, bytes) it keeps, until all ranks come together at the end of an epoch or
 * for a checkpoint. Then losses are added in step and node order, so that they have the bits of a run
 * in one process.
 *
 * The one exception is stopping. Rank 0 sends a byte after every step that says whether to go on; the
 * others read the one of the step before, which has long arrived, so nobody waits:
 *
 *     rank 0     step i     wish?  ── D(i) ──►     step i + 1     stops if D(i) said so
 *     others     step i     D(i - 1)?              step i + 1     D(i)?  stops
 *
 * After the last step of an epoch, and wherever ranks are together anyway, it is the byte of now.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <octet/octet.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/folder.h"
#include "data/data.h"
#include "data/files.h"
#include "train/checkpoint.h"
#include "train/config.h"
#include "train/trainer.h"

/* --- figures ---------------------------------------------------------------------------------- */

static void add_step(struct oct_trainer *trainer) {
    for (int node = 0; node < trainer->n_nodes; node++) {
        trainer->epoch_loss += trainer->nodes[node].loss * trainer->batch;
        trainer->epoch_hits += trainer->nodes[node].n_hits;
    }
    oct__nodes_add_step(trainer);
}

oct_status oct__together_step(struct oct_trainer *trainer) {
    struct oct__together *own = &trainer->together;
    const size_t n = (size_t)trainer->n_hosted;
    if (trainer->ranks->n_ranks == 1) {
        add_step(trainer);
        return OCT_OK;
    }
    OCT_TRY(trainer->ranks->look(trainer->ranks)); /* a rank that never waits would not */
    void *memory = own->steps;
    OCT_TRY(oct__alloc_grow(&memory, &own->capacity, (own->n_steps + 1) * n, sizeof *own->steps,
                            "results of steps"));
    own->steps = memory;
    memcpy(own->steps + own->n_steps * n, trainer->nodes + trainer->first_node,
           n * sizeof *own->steps);
    own->n_steps++;
    for (int i = 0; i < trainer->n_hosted; i++) {
        own->loss += trainer->nodes[trainer->first_node + i].loss * trainer->batch;
        own->hits += trainer->nodes[trainer->first_node + i].n_hits;
    }
    own->samples += (int64_t)trainer->n_hosted * trainer->batch;
    return OCT_OK;
}

/* All ranks' results of the steps since they were last together, [node][step]. */
static oct_status add_steps(struct oct_trainer *trainer) {
    struct oct__together *own = &trainer->together;
    const size_t n_steps = own->n_steps, n_hosted = (size_t)trainer->n_hosted;
    void *memory;
    OCT_TRY(oct__alloc_array((size_t)trainer->n_nodes * n_steps, sizeof *own->steps,
                             "results of steps", &memory));
    struct oct__node_step *all = memory;
    for (size_t step = 0; step < n_steps; step++) {
        for (size_t i = 0; i < n_hosted; i++) {
            all[((size_t)trainer->first_node + i) * n_steps + step] =
                own->steps[step * n_hosted + i];
        }
    }
    oct_status status =
        oct__ranks_share(trainer->ranks, all, trainer->n_nodes, n_steps * sizeof *all);
    for (size_t step = 0; step < n_steps && status == OCT_OK; step++) {
        for (int node = 0; node < trainer->n_nodes; node++) {
            trainer->nodes[node] = all[(size_t)node * n_steps + step];
        }
        add_step(trainer);
    }
    oct__ranks_free(trainer->ranks, all);
    own->n_steps = 0;
    return status;
}

void oct__together_begin(struct oct_trainer *trainer) {
    trainer->together.traffic = trainer->exchange->traffic;
    trainer->together.final_traffic = trainer->final_traffic;
}

/* What was there, and what each rank has added to it since. */
static oct_status add_traffic(struct oct_trainer *trainer) {
    struct oct__traffic *now[2] = {&trainer->exchange->traffic, &trainer->final_traffic};
    const struct oct__traffic *then[2] = {&trainer->together.traffic,
                                          &trainer->together.final_traffic};
    uint64_t figures[6];
    for (int i = 0; i < 2; i++) {
        figures[3 * i] = now[i]->messages - then[i]->messages;
        figures[3 * i + 1] = now[i]->bytes - then[i]->bytes;
        figures[3 * i + 2] = now[i]->dense - then[i]->dense;
    }
    OCT_TRY(oct__ranks_count(trainer->ranks, figures, 6));
    for (int i = 0; i < 2; i++) {
        now[i]->messages = then[i]->messages + figures[3 * i];
        now[i]->bytes = then[i]->bytes + figures[3 * i + 1];
        now[i]->dense = then[i]->dense + figures[3 * i + 2];
    }
    oct__together_begin(trainer);
    return OCT_OK;
}

/* A message is counted by its sender's rank, and a ledger's edges lie by sender: each rank's part of
 * it is its own. */
static oct_status share_ledger(struct oct_trainer *trainer) {
    struct oct__ranks *ranks = trainer->ranks;
    struct oct__ledger *ledger = &trainer->exchange->ledger;
    OCT_TRY(oct__ranks_share(ranks, ledger->sent, trainer->n_nodes, sizeof *ledger->sent));
    for (int rank = 0; ledger->start && rank < ranks->n_ranks; rank++) {
        const int first = oct__ranks_first(trainer->n_nodes, ranks->n_ranks, rank);
        const int end = oct__ranks_first(trainer->n_nodes, ranks->n_ranks, rank + 1);
        const int from = ledger->start[first], to = ledger->start[end];
        if (to > from) {
            OCT_TRY(oct__ranks_spread(ranks, rank, ledger->counts + from,
                                      (size_t)(to - from) * sizeof *ledger->counts));
        }
    }
    return OCT_OK;
}

oct_status oct__together_sync(struct oct_trainer *trainer) {
    struct oct__ranks *ranks = trainer->ranks;
    if (ranks->n_ranks == 1) {
        return OCT_OK;
    }
    OCT_TRY(
        oct__ranks_share(ranks, trainer->gossip->u, trainer->n_nodes, sizeof *trainer->gossip->u));
    OCT_TRY(add_traffic(trainer));
    OCT_TRY(share_ledger(trainer));
    if (trainer->together.n_steps > 0) {
        OCT_TRY(add_steps(trainer));
    }
    if (trainer->has_watched) {
        struct oct__cohort *cohort = trainer->cohort;
        OCT_TRY(
            oct__ranks_share(ranks, cohort->watched, trainer->n_nodes,
                             4 * cohort->crew->step_program->n_watches * sizeof *cohort->watched));
    }
    return OCT_OK;
}

void oct__together_free(struct oct_trainer *trainer) {
    oct__free(trainer->together.steps);
}

/* --- stopping --------------------------------------------------------------------------------- */

static oct_status send_byte(struct oct_trainer *trainer, uint8_t byte) {
    for (int rank = 1; rank < trainer->ranks->n_ranks; rank++) {
        OCT_TRY(oct__ranks_put(trainer->ranks, rank, OCT_TAG_STOP, &byte, 1));
    }
    return OCT_OK;
}

/* Rank 0: `is_stopping` is what it has sent after the step before. */
static oct_status decide(struct oct_trainer *trainer, int is_now, int *stops) {
    struct oct__together *own = &trainer->together;
    *stops = own->is_stopping;
    if (!*stops) {
        OCT_TRY(send_byte(trainer, own->wants_stop != 0));
        own->is_stopping = own->wants_stop;
        *stops = is_now && own->wants_stop;
    }
    return OCT_OK;
}

/* The others: `is_awaited` says that there is a byte of the step before. */
static oct_status obey(struct oct_trainer *trainer, int is_now, int *stops) {
    struct oct__together *own = &trainer->together;
    uint8_t byte = 0;
    if (own->is_awaited) {
        OCT_TRY(oct__ranks_get(trainer->ranks, 0, OCT_TAG_STOP, &byte, 1));
    }
    if (!byte && is_now) {
        OCT_TRY(oct__ranks_get(trainer->ranks, 0, OCT_TAG_STOP, &byte, 1));
    }
    own->is_awaited = !is_now;
    *stops = byte != 0;
    return OCT_OK;
}

oct_status oct__together_stop(struct oct_trainer *trainer, enum oct_phase phase, int is_last,
                              int wish) {
    struct oct__together *own = &trainer->together;
    const int is_now = phase != OCT_PHASE_TRAIN || is_last;
    int stops = 0;
    own->wants_stop |= wish;
    if (phase == OCT_PHASE_EVALUATE) { /* each rank at its own pace */
        return OCT_OK;
    }
    OCT_TRY(trainer->ranks->rank == 0 ? decide(trainer, is_now, &stops)
                                      : obey(trainer, is_now, &stops));
    if (stops) {
        own->wants_stop = own->is_stopping = own->is_awaited = 0;
        OCT_FAIL(CANCELLED, "stopped after step %lld of %lld", (long long)trainer->step,
                 (long long)(trainer->epoch_steps * trainer->n_epochs));
    }
    return OCT_OK;
}

/* --- before the first step -------------------------------------------------------------------- */

/* What must be the same everywhere: where it is not, ranks would wait for messages that nobody sends, or
 * train something that is no one run. */
struct card {
    char version[16];
    uint64_t run;
    int64_t every, keeps, eval_nodes, test_every; /* options that a run's number leaves out */
    int64_t n_train, n_test, n_classes, data_crc;
    int64_t epoch_steps, n_final, compensation;
    uint64_t gamma; /* its bits */
    int64_t step;
};

static uint32_t data_crc(uint32_t before, const struct oct_dataset *data) {
    uint32_t crc =
        oct__crc32c(before, data->labels, (size_t)data->n_samples * sizeof *data->labels);
    crc = oct__crc32c(crc, data->mean, sizeof data->mean);
    return oct__crc32c(crc, data->deviation, sizeof data->deviation);
}

static void fill_card(const struct oct_trainer *trainer, uint64_t run, struct card *card) {
    const struct oct_config *config = trainer->config;
    memset(card, 0, sizeof *card);
    snprintf(card->version, sizeof card->version, "%s", oct_version());
    card->run = run;
    card->every = config->every;
    card->keeps = config->checkpoint[0] != '\0';
    card->eval_nodes = config->eval_nodes;
    card->test_every = config->test_every;
    card->n_train = trainer->train->n_samples;
    card->n_test = trainer->test->n_samples;
    card->n_classes = trainer->train->n_classes;
    card->data_crc = data_crc(data_crc(0, trainer->train), trainer->test);
    card->epoch_steps = trainer->epoch_steps;
    card->n_final = trainer->n_final;
    card->compensation = trainer->compensation;
    memcpy(&card->gamma, &trainer->gossip->gamma, sizeof trainer->gossip->gamma);
    card->step = trainer->step;
}

static oct_status same_figure(int rank, int64_t a, int64_t b, const char *what,
                              const char *remedy) {
    if (a != b) {
        OCT_FAIL(INVALID, "rank %d has %s %lld and rank 0 %lld: %s", rank, what, (long long)b,
                 (long long)a, remedy);
    }
    return OCT_OK;
}

static oct_status same_options(int rank, const struct card *a, const struct card *b) {
    if (a->run != b->run) {
        OCT_FAIL(INVALID,
                 "rank %d has other options than rank 0 (run %016llx, not %016llx): give all "
                 "ranks the same options and run file",
                 rank, (unsigned long long)b->run, (unsigned long long)a->run);
    }
    if (a->keeps != b->keeps) {
        OCT_FAIL(INVALID,
                 "rank %d is to write %s and rank 0 %s: give all ranks the option checkpoint, or "
                 "none",
                 rank, b->keeps ? "checkpoints" : "none", a->keeps ? "some" : "none");
    }
    OCT_TRY(same_figure(rank, a->every, b->every, "every", "give all ranks the same every"));
    OCT_TRY(same_figure(rank, a->test_every, b->test_every, "test-every",
                        "give all ranks the same test-every"));
    return same_figure(rank, a->eval_nodes, b->eval_nodes, "eval-nodes",
                       "give all ranks the same eval-nodes");
}

static oct_status same_data(int rank, const struct card *a, const struct card *b) {
    static const char *const remedy = "give all hosts the same data (octet data verify)";
    OCT_TRY(same_figure(rank, a->n_train, b->n_train, "training samples:", remedy));
    OCT_TRY(same_figure(rank, a->n_test, b->n_test, "test samples:", remedy));
    OCT_TRY(same_figure(rank, a->n_classes, b->n_classes, "classes:", remedy));
    if (a->data_crc != b->data_crc) {
        OCT_FAIL(INVALID,
                 "rank %d has as many samples as rank 0, but of other classes or brightness: %s",
                 rank, remedy);
    }
    return OCT_OK;
}

/* What follows from options and data. Computed alike, they differ where the octets do. */
static oct_status same_plan(int rank, const struct card *a, const struct card *b) {
    static const char *const remedy = "install the same octet on all hosts";
    OCT_TRY(same_figure(rank, a->epoch_steps, b->epoch_steps, "steps an epoch:", remedy));
    OCT_TRY(same_figure(rank, a->n_final, b->n_final, "last rounds:", remedy));
    OCT_TRY(same_figure(rank, a->compensation, b->compensation, "rounds of compensation:", remedy));
    if (a->gamma != b->gamma) {
        OCT_FAIL(INVALID, "rank %d has another gamma than rank 0: %s, or give all ranks gamma",
                 rank, remedy);
    }
    return same_figure(rank, a->step, b->step, "to go on from step",
                       "do they see the same checkpoints?");
}

static oct_status same_card(int rank, const struct card *a, const struct card *b) {
    if (memcmp(a->version, b->version, sizeof a->version) != 0) {
        OCT_FAIL(INVALID,
                 "rank %d is octet %.15s and rank 0 octet %.15s: install the same on all hosts",
                 rank, b->version, a->version);
    }
    OCT_TRY(same_options(rank, a, b));
    OCT_TRY(same_data(rank, a, b));
    return same_plan(rank, a, b);
}

oct_status oct__together_compare(struct oct_trainer *trainer, uint64_t run) {
    struct oct__ranks *ranks = trainer->ranks;
    void *memory;
    if (ranks->n_ranks == 1) {
        return OCT_OK;
    }
    oct_status status =
        oct__alloc_array((size_t)ranks->n_ranks, sizeof(struct card), "ranks", &memory);
    struct card *cards = status == OCT_OK ? memory : NULL;
    status = oct__ranks_agree(ranks, status);
    if (status != OCT_OK || !cards) {
        oct__free(cards);
        return status;
    }
    fill_card(trainer, run, &cards[ranks->rank]);
    status = oct__ranks_share(ranks, cards, ranks->n_ranks, sizeof *cards);
    for (int rank = 1; status == OCT_OK && rank < ranks->n_ranks; rank++) {
        status = same_card(rank, &cards[0], &cards[rank]);
    }
    oct__ranks_free(ranks, cards);
    return status;
}

/* A file that rank 0 makes must be there for everybody: a folder of the same name on each host's own
 * disk would end up with a part of every checkpoint. */
static oct_status make_token(const char *token) {
    int fd = open(token, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) {
        OCT_FAIL(IO, "%s: %s", oct__path_shown(token), strerror(errno));
    }
    close(fd);
    return OCT_OK;
}

static oct_status find_token(const char *folder, const char *token) {
    if (access(token, F_OK) != 0) {
        OCT_FAIL(INVALID,
                 "%s is not the folder that rank 0 sees: checkpoints need one that all hosts "
                 "share (%s)",
                 oct__path_shown(folder), strerror(errno));
    }
    return OCT_OK;
}

/* It is this run's from now on, and nothing is in the way there. */
static oct_status take_folder(struct oct_trainer *trainer, const char *folder) {
    OCT_TRY(oct__folder_make(folder));
    OCT_TRY(oct__folder_take(folder, &trainer->key));
    return oct__checkpoint_prepare(folder, (uint64_t)trainer->step);
}

oct_status oct__together_folder(struct oct_trainer *trainer, const char *folder) {
    struct oct__ranks *ranks = trainer->ranks;
    char name[64], token[OCT_PATH_BYTES];
    uint64_t nonce = (uint64_t)(oct__seconds() * 1e9) ^ (uint64_t)getpid() << 40;
    oct_status status = ranks->rank == 0 ? take_folder(trainer, folder) : OCT_OK;
    if (ranks->n_ranks == 1) {
        return status;
    }
    OCT_TRY(oct__ranks_agree(ranks, status));
    OCT_TRY(oct__ranks_spread(ranks, 0, &nonce, sizeof nonce));
    snprintf(name, sizeof name, ".ranks-%016llx", (unsigned long long)nonce);
    OCT_TRY(oct__path_join(folder, name, "", token));
    OCT_TRY(oct__ranks_agree(ranks, ranks->rank == 0 ? make_token(token) : OCT_OK));
    status = oct__ranks_agree(ranks, ranks->rank == 0 ? OCT_OK : find_token(folder, token));
    if (ranks->rank == 0) {
        (void)!unlink(token);
    }
    return status;
}
