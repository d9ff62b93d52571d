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
#include "data/files.h"
#include "train/checkpoint.h"
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
    oct__free(all);
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
        OCT_TRY(oct__ranks_share(ranks, cohort->watched, trainer->n_nodes,
                                 4 * cohort->step_program->n_watches * sizeof *cohort->watched));
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

struct card {
    uint64_t run, step;
    char version[16];
};

oct_status oct__together_compare(struct oct_trainer *trainer, uint64_t run) {
    struct oct__ranks *ranks = trainer->ranks;
    void *memory;
    if (ranks->n_ranks == 1) {
        return OCT_OK;
    }
    OCT_TRY(oct__alloc_array((size_t)ranks->n_ranks, sizeof(struct card), "ranks", &memory));
    struct card *cards = memory, *own = &cards[ranks->rank];
    own->run = run;
    own->step = (uint64_t)trainer->step;
    snprintf(own->version, sizeof own->version, "%s", oct_version());
    oct_status status = oct__ranks_share(ranks, cards, ranks->n_ranks, sizeof *cards);
    for (int rank = 1; status == OCT_OK && rank < ranks->n_ranks; rank++) {
        const struct card *a = &cards[0], *b = &cards[rank];
        if (memcmp(a->version, b->version, sizeof a->version) != 0) {
            status = oct__fail(OCT_STATUS_INVALID,
                               "rank %d is octet %.15s and rank 0 octet %.15s: install the same "
                               "on all hosts",
                               rank, b->version, a->version);
        } else if (a->run != b->run) {
            status = oct__fail(OCT_STATUS_INVALID,
                               "rank %d has other options than rank 0 (run %016llx, not %016llx): "
                               "give all ranks the same options and run file",
                               rank, (unsigned long long)b->run, (unsigned long long)a->run);
        } else if (a->step != b->step) {
            status = oct__fail(OCT_STATUS_INVALID,
                               "rank %d goes on from step %llu and rank 0 from step %llu: do they "
                               "see the same checkpoints?",
                               rank, (unsigned long long)b->step, (unsigned long long)a->step);
        }
    }
    oct__free(cards);
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

oct_status oct__together_folder(struct oct_trainer *trainer, const char *folder) {
    struct oct__ranks *ranks = trainer->ranks;
    char name[64], token[OCT_PATH_BYTES];
    uint64_t nonce = (uint64_t)(oct__seconds() * 1e9) ^ (uint64_t)getpid() << 40;
    oct_status status =
        ranks->rank == 0 ? oct__checkpoint_prepare(folder, (uint64_t)trainer->step) : OCT_OK;
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
