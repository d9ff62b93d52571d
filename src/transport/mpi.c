/* SPDX-License-Identifier: Apache-2.0 */
/* mpi.c - ranks over MPI: the only file that knows of it.
 *
 * Messages between nodes of one rank are read where they lie; those between ranks travel as the bytes
 * that the loopback transport carries, too, so bits and counts are those of one process.
 *
 * MPI's own waiting burns a core and knows nothing of failures. Here a rank that waits looks, then
 * yields, then sleeps a little, and looks for notes of others that have failed, too. It does not judge
 * a rank that is only slow: after a while it says whom it waits for, and only after a long one, in which
 * it was not itself stopped, it gives up. A rank that dies is noticed by mpirun, which ends the others.
 *
 * MPI can be begun once in a process and ended once. It is begun by the first run that wants it and ended
 * by the program's end, unless the program has begun it itself: then both are the program's business.
 */
#include "transport/ranks.h"
#include "transport/transport.h"

#ifdef OCT_HAVE_MPI

#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/parallel.h"

/* Tags of MPI: those of enum oct__tag come first. Any implementation has at least 32,768. */
#define TAG_NOTE OCT_TAG_COUNT
#define TAG_END (OCT_TAG_COUNT + 1)

#define YIELDS 200            /* looks before a wait sleeps between them */
#define NAP_NANOSECONDS 50000 /* between two looks */
#define WARN_SECONDS 30.0     /* of waiting for a rank, until somebody is told */
#define LIMIT_SECONDS 1800.0  /* … until it counts as lost */

/* A note that a rank has failed. */
struct note {
    int32_t status;
    char detail[OCT_DETAIL_BYTES];
};

/* What a rank brings to the end, and takes from it. */
struct farewell {
    int32_t code, whose;
    char words[OCT_RANKS_WORDS];
};

struct pending {
    MPI_Request request;
    int peer;
    int is_used, is_received;
};

static struct {
    struct oct__ranks ranks; /* first, so that its address is this one's */
    MPI_Comm world;          /* a copy: nobody else's messages get in between */
    int is_joined;
    int is_ours; /* we began MPI and shall end it */
    int is_over;
    struct pending *pending;
    size_t n_pending, capacity, first_free;
    struct note note; /* what `tell` sends; its memory outlives the messages */
} mpi = {.is_joined = 0};

static oct_status check(int code, const char *what) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (code == MPI_SUCCESS) {
        return OCT_OK;
    }
    MPI_Error_string(code, text, &length);
    OCT_FAIL(IO, "MPI: %s: %s", what, text);
}

/* --- waiting ---------------------------------------------------------------------------------- */

/* How long a wait has taken, not counting time in which this process was itself stopped. */
struct patience {
    int looks, is_warned;
    double waited, last;
};

static void pause_a_little(struct patience *patience) {
    const struct timespec nap = {0, NAP_NANOSECONDS};
    if (patience->looks < YIELDS) {
        patience->looks++;
        sched_yield();
        return;
    }
    const double now = oct__seconds();
    if (patience->last > 0 && now - patience->last < 1.0) {
        patience->waited += now - patience->last;
    }
    patience->last = now;
    nanosleep(&nap, NULL);
}

/* Messages that nobody will wait for any more must not be written to memory that is somebody else's by
 * then. One that is arriving right now is given a moment to do so. */
static void drop_pending(void) {
    const double limit = oct__seconds() + 1.0;
    for (size_t i = 0; i < mpi.n_pending; i++) {
        struct pending *pending = &mpi.pending[i];
        int is_done = !pending->is_used || pending->request == MPI_REQUEST_NULL;
        if (!is_done && pending->is_received) {
            MPI_Cancel(&pending->request);
        }
        while (!is_done && oct__seconds() < limit) {
            if (MPI_Test(&pending->request, &is_done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
                break;
            }
        }
        if (!is_done) {
            MPI_Request_free(&pending->request);
        }
        pending->is_used = 0;
    }
    mpi.n_pending = mpi.first_free = 0;
}

/* Another rank's note that it has failed makes this one fail, too. */
static oct_status look_for_notes(void) {
    MPI_Status status;
    int is_there = 0;
    struct note note;
    OCT_TRY(check(MPI_Iprobe(MPI_ANY_SOURCE, TAG_NOTE, mpi.world, &is_there, &status), "looking"));
    if (!is_there) {
        return OCT_OK;
    }
    OCT_TRY(check(MPI_Recv(&note, sizeof note, MPI_BYTE, status.MPI_SOURCE, TAG_NOTE, mpi.world,
                           MPI_STATUS_IGNORE),
                  "reading a note"));
    note.detail[OCT_DETAIL_BYTES - 1] = '\0';
    mpi.ranks.is_broken = 1;
    mpi.ranks.reason = note.status > OCT_OK && note.status < OCT_STATUS_COUNT
                           ? (oct_status)note.status
                           : OCT_STATUS_INTERNAL;
    drop_pending();
    (void)!oct__fail(mpi.ranks.reason, "rank %d: %s", status.MPI_SOURCE, note.detail);
    oct__detail_take(mpi.ranks.detail);
    return mpi.ranks.reason;
}

/* Nobody is to be told of it, either. */
static oct_status refuse_ended(void) {
    mpi.ranks.is_broken = 1;
    mpi.ranks.reason = OCT_STATUS_INVALID;
    (void)!oct__fail(mpi.ranks.reason,
                     "transport mpi: MPI has been ended in this process: train before that");
    oct__detail_take(mpi.ranks.detail);
    oct__detail_give(mpi.ranks.detail);
    return mpi.ranks.reason;
}

static oct_status still_whole(void) {
    int is_ended = 0;
    if (MPI_Finalized(&is_ended) == MPI_SUCCESS && is_ended) {
        return refuse_ended();
    }
    if (mpi.ranks.is_broken) {
        oct__detail_give(mpi.ranks.detail);
        return mpi.ranks.reason;
    }
    return OCT_OK;
}

static oct_status wait_request(MPI_Request *request, int peer, MPI_Status *status) {
    struct patience patience = {0, 0, 0, 0};
    for (;;) {
        int is_done = 0;
        OCT_TRY(check(MPI_Test(request, &is_done, status), "a message"));
        if (is_done) {
            return OCT_OK;
        }
        OCT_TRY(look_for_notes());
        pause_a_little(&patience);
        if (patience.waited > WARN_SECONDS && !patience.is_warned) {
            patience.is_warned = 1;
            oct__log(OCT_LOG_ERROR, /* everybody's: who waits for whom shows who is stuck */
                     "rank %d has waited %.0f s for rank %d, which is slow, stopped or gone",
                     mpi.ranks.rank, patience.waited, peer);
        }
        if (patience.waited > LIMIT_SECONDS) {
            OCT_FAIL(IO, "rank %d has not answered for %.0f minutes: it is taken for lost", peer,
                     LIMIT_SECONDS / 60);
        }
    }
}

/* --- messages --------------------------------------------------------------------------------- */

static oct_status take_ticket(int peer, int *ticket) {
    size_t i = mpi.first_free;
    OCT_TRY(still_whole());
    while (i < mpi.n_pending && mpi.pending[i].is_used) {
        i++;
    }
    void *memory = mpi.pending;
    OCT_TRY(oct__alloc_grow(&memory, &mpi.capacity, i + 1, sizeof *mpi.pending, "messages"));
    mpi.pending = memory;
    mpi.n_pending = i < mpi.n_pending ? mpi.n_pending : i + 1;
    mpi.pending[i] = (struct pending){.request = MPI_REQUEST_NULL, .peer = peer, .is_used = 1};
    mpi.first_free = i + 1;
    *ticket = (int)i;
    return OCT_OK;
}

static oct_status mpi_send(struct oct__ranks *ranks, int to, enum oct__tag tag, const void *bytes,
                           size_t n_bytes, int *ticket) {
    (void)ranks;
    OCT_TRY(take_ticket(to, ticket));
    return check(MPI_Isend(bytes, (int)n_bytes, MPI_BYTE, to, (int)tag, mpi.world,
                           &mpi.pending[*ticket].request),
                 "sending");
}

static oct_status mpi_receive(struct oct__ranks *ranks, int from, enum oct__tag tag, void *bytes,
                              size_t most_bytes, int *ticket) {
    (void)ranks;
    OCT_TRY(take_ticket(from, ticket));
    mpi.pending[*ticket].is_received = 1;
    return check(MPI_Irecv(bytes, (int)most_bytes, MPI_BYTE, from, (int)tag, mpi.world,
                           &mpi.pending[*ticket].request),
                 "receiving");
}

static oct_status mpi_wait(struct oct__ranks *ranks, int ticket, size_t *n_bytes) {
    MPI_Status status;
    int length = 0;
    (void)ranks;
    OCT_TRY(still_whole());
    struct pending *pending = &mpi.pending[ticket];
    OCT_TRY(wait_request(&pending->request, pending->peer, &status));
    pending->is_used = 0;
    mpi.first_free = (size_t)ticket < mpi.first_free ? (size_t)ticket : mpi.first_free;
    while (mpi.n_pending > 0 && !mpi.pending[mpi.n_pending - 1].is_used) {
        mpi.n_pending--;
    }
    if (n_bytes) {
        OCT_TRY(check(MPI_Get_count(&status, MPI_BYTE, &length), "a message's length"));
        *n_bytes = (size_t)length;
    }
    return OCT_OK;
}

static oct_status mpi_look(struct oct__ranks *ranks) {
    (void)ranks;
    OCT_TRY(still_whole());
    return look_for_notes();
}

/* Notes are short, so that MPI takes them in at once; nobody waits for them to be read. */
static void mpi_tell(struct oct__ranks *ranks, oct_status status, const char *detail) {
    ranks->is_broken = 1;
    ranks->reason = status;
    snprintf(ranks->detail, sizeof ranks->detail, "%s", detail);
    memset(&mpi.note, 0, sizeof mpi.note);
    mpi.note.status = (int32_t)status;
    snprintf(mpi.note.detail, sizeof mpi.note.detail, "%s", detail);
    for (int rank = 0; rank < ranks->n_ranks; rank++) {
        MPI_Request request;
        if (rank != ranks->rank && MPI_Isend(&mpi.note, sizeof mpi.note, MPI_BYTE, rank, TAG_NOTE,
                                             mpi.world, &request) == MPI_SUCCESS) {
            MPI_Request_free(&request);
        }
    }
    drop_pending();
}

/* --- beginning -------------------------------------------------------------------------------- */

/* Ranks of this host that may run on the very same cores share them out. */
static oct_status share_cores(void) {
    MPI_Comm host;
    int n = 0, rank = 0, n_sharing = 0;
    void *memory;
    OCT_TRY(check(MPI_Comm_split_type(mpi.world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host),
                  "finding the ranks of this host"));
    MPI_Comm_size(host, &n);
    MPI_Comm_rank(host, &rank);
    oct_status status = oct__alloc_array((size_t)n, sizeof(uint64_t), "ranks", &memory);
    if (status == OCT_OK) {
        uint64_t *places = memory, own = oct__parallel_place();
        status =
            check(MPI_Allgather(&own, sizeof own, MPI_BYTE, places, sizeof own, MPI_BYTE, host),
                  "comparing cores");
        for (int i = 0; i < n; i++) {
            n_sharing += places[i] == own;
        }
        oct__parallel_share(n_sharing);
        oct__free(places);
    }
    MPI_Comm_free(&host);
    return status;
}

static int end(int code, double most, char words[OCT_RANKS_WORDS], int *whose);

/* Of a program that did not see to it itself: nobody knows whether it left in the middle. */
static void end_at_exit(void) {
    char words[OCT_RANKS_WORDS] = "";
    int whose;
    if (end(mpi.ranks.is_broken, OCT_RANKS_PATIENCE, words, &whose) < 0) {
        oct_ranks_abort(1);
    }
}

/* Trainers may be used on different threads, one after the other, so MPI must allow that. A program that
 * has begun MPI for its first thread alone uses trainers on that one. */
static oct_status check_threads(void) {
    int level = MPI_THREAD_SINGLE, is_first = 0;
    OCT_TRY(check(MPI_Query_thread(&level), "beginning"));
    OCT_TRY(check(MPI_Is_thread_main(&is_first), "beginning"));
    if (level < MPI_THREAD_SERIALIZED && (mpi.is_ours || !is_first)) {
        OCT_FAIL(UNSUPPORTED,
                 "transport mpi: MPI serves the first thread alone (level %d, %d is needed); %s",
                 level, MPI_THREAD_SERIALIZED,
                 mpi.is_ours ? "install one built with threads"
                             : "begin it with MPI_THREAD_SERIALIZED");
    }
    return OCT_OK;
}

static oct_status begin(void) {
    int is_begun = 0, provided = 0;
    OCT_TRY(check(MPI_Initialized(&is_begun), "beginning"));
    if (!is_begun) {
        OCT_TRY(check(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided), "beginning"));
        mpi.is_ours = 1;
    }
    oct_status status = check_threads();
    if (status != OCT_OK && mpi.is_ours) {
        mpi.is_over = 1;
        MPI_Finalize();
    }
    OCT_TRY(status);
    if (mpi.is_ours) {
        (void)atexit(end_at_exit);
    }
    OCT_TRY(check(MPI_Comm_dup(MPI_COMM_WORLD, &mpi.world), "beginning"));
    OCT_TRY(check(MPI_Comm_set_errhandler(mpi.world, MPI_ERRORS_RETURN), "beginning"));
    OCT_TRY(check(MPI_Comm_rank(mpi.world, &mpi.ranks.rank), "beginning"));
    OCT_TRY(check(MPI_Comm_size(mpi.world, &mpi.ranks.n_ranks), "beginning"));
    OCT_TRY(share_cores());
    mpi.ranks.send = mpi_send;
    mpi.ranks.receive = mpi_receive;
    mpi.ranks.wait = mpi_wait;
    mpi.ranks.tell = mpi_tell;
    mpi.ranks.look = mpi_look;
    return OCT_OK;
}

static oct_status mpi_join(struct oct__ranks **out) {
    int is_ended = 0;
    OCT_TRY(check(MPI_Finalized(&is_ended), "beginning"));
    if (is_ended || mpi.is_over) {
        return refuse_ended();
    }
    if (!mpi.is_joined) {
        OCT_TRY(begin());
        mpi.is_joined = 1;
    }
    *out = &mpi.ranks;
    return still_whole();
}

/* --- the end ---------------------------------------------------------------------------------- */

int oct_ranks_here(int *n_ranks) {
    const int is_there = mpi.is_joined && !mpi.is_over;
    if (n_ranks) {
        *n_ranks = is_there ? mpi.ranks.n_ranks : 1;
    }
    return is_there ? mpi.ranks.rank : 0;
}

/* Waits so many seconds for a rank that may be on its way, or at work on something long. */
static int await_farewell(MPI_Request *request, double most) {
    const double limit = oct__seconds() + most;
    struct patience patience = {0, 0, 0, 0};
    int is_done = 0;
    while (MPI_Test(request, &is_done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !is_done &&
           oct__seconds() < limit) {
        pause_a_little(&patience);
    }
    return is_done;
}

static int exchange_farewell(struct farewell *own, int other, int is_sent, double most) {
    MPI_Request request;
    const int code =
        is_sent ? MPI_Isend(own, sizeof *own, MPI_BYTE, other, TAG_END, mpi.world, &request)
                : MPI_Irecv(own, sizeof *own, MPI_BYTE, other, TAG_END, mpi.world, &request);
    return code == MPI_SUCCESS && await_farewell(&request, most);
}

/* Everybody to rank 0, and its verdict back. Zero when a rank did not come. */
static int take_leave(struct farewell *own, double most) {
    const int n_ranks = mpi.ranks.n_ranks;
    if (mpi.ranks.rank > 0) {
        return exchange_farewell(own, 0, 1, most) && exchange_farewell(own, 0, 0, most);
    }
    for (int rank = 1; rank < n_ranks; rank++) {
        struct farewell other;
        if (!exchange_farewell(&other, rank, 0, most)) {
            return 0;
        }
        if (own->code == 0 && other.code != 0) {
            *own = other;
            own->whose = rank;
        }
    }
    for (int rank = 1; rank < n_ranks; rank++) {
        if (!exchange_farewell(own, rank, 1, most)) {
            return 0;
        }
    }
    return 1;
}

/* What nobody will wait for any more: notes, and messages of a round that was broken off. */
static void clear_up(void) {
    MPI_Status status;
    struct note note;
    int is_there = 0;
    while (MPI_Iprobe(MPI_ANY_SOURCE, TAG_NOTE, mpi.world, &is_there, &status) == MPI_SUCCESS &&
           is_there) {
        MPI_Recv(&note, sizeof note, MPI_BYTE, status.MPI_SOURCE, TAG_NOTE, mpi.world,
                 MPI_STATUS_IGNORE);
    }
    drop_pending();
    oct__free(mpi.pending);
    mpi.pending = NULL;
    mpi.n_pending = mpi.capacity = mpi.first_free = 0;
}

static int end(int code, double most, char words[OCT_RANKS_WORDS], int *whose) {
    struct farewell own;
    *whose = mpi.ranks.rank;
    if (!mpi.is_joined || !mpi.is_ours || mpi.is_over) {
        return code;
    }
    mpi.is_over = 1;
    memset(&own, 0, sizeof own);
    own.code = code;
    own.whose = mpi.ranks.rank;
    snprintf(own.words, sizeof own.words, "%s", words);
    if (mpi.ranks.n_ranks > 1 && !take_leave(&own, most)) {
        return -1;
    }
    snprintf(words, OCT_RANKS_WORDS, "%s", own.words);
    *whose = own.whose;
    clear_up();
    MPI_Comm_free(&mpi.world);
    MPI_Finalize();
    return own.code;
}

int oct_ranks_end(int code, char words[OCT_RANKS_WORDS], int *whose) {
    return end(code, code ? OCT_RANKS_PATIENCE : LIMIT_SECONDS, words, whose);
}

void oct_ranks_abort(int code) {
    MPI_Abort(MPI_COMM_WORLD, code);
}

void oct_ranks_tell(oct_status status, const char *words) {
    if (status != OCT_OK && mpi.is_joined && !mpi.is_over && mpi.ranks.n_ranks > 1 &&
        !mpi.ranks.is_broken && !mpi.ranks.is_known) {
        mpi_tell(&mpi.ranks, status, words);
    }
}

/* --- the plug-in ------------------------------------------------------------------------------ */

static oct_status mpi_open(int n_nodes, struct oct__transport **out) {
    (void)n_nodes;
    void *memory;
    OCT_TRY(oct__alloc(sizeof(struct oct__transport), "transport", &memory));
    *out = memory;
    return OCT_OK;
}

static void mpi_close(struct oct__transport *transport) {
    oct__free(transport);
}

#else

int oct_ranks_here(int *n_ranks) {
    if (n_ranks) {
        *n_ranks = 1;
    }
    return 0;
}

int oct_ranks_end(int code, char words[OCT_RANKS_WORDS], int *whose) {
    (void)words;
    *whose = 0;
    return code;
}

void oct_ranks_abort(int code) {
    (void)code;
}

void oct_ranks_tell(oct_status status, const char *words) {
    (void)status;
    (void)words;
}

#endif

const struct oct_transport_kind oct_transport_mpi = {
    .plugin = {.name = "mpi",
               .summary = "many processes, begun by mpirun: each hosts its share of the nodes",
#ifndef OCT_HAVE_MPI
               .unavailable = "built without MPI; install libopenmpi-dev and configure anew"},
#else
               },
    .is_by_reference = 1,
    .open = mpi_open,
    .close = mpi_close,
    .join = mpi_join,
#endif
};
