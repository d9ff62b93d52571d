/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.h - the processes of a run: who is there, which nodes each hosts, what they do together.
 *
 * A run over R ranks deals its nodes out in order, shares that differ by at most one:
 *
 *     rank 0            rank 1            rank 2
 *     nodes 0 1 2       nodes 3 4 5       nodes 6 7
 *
 * Since shares are contiguous, passing a partial sum from rank to rank adds in node order, and the
 * bits are those of one process. Nothing here reduces in the order of arrival.
 *
 * The primitives are a transport's (mpi.c has some); the rest is written with them once (ranks.c).
 * With one rank there are none, and everything here is done without any.
 *
 * When one rank fails, the others must not wait for it. Two ways lead there. Where all ranks come
 * anyway, they *agree*: all learn the failure of the lowest rank, and nothing is lost. Anywhere else
 * the rank *tells* the others, who find the note while they wait for a message; the ranks are then
 * done with each other (is_broken), and every later call fails with the same words.
 */
#ifndef OCT_TRANSPORT_RANKS_H
#define OCT_TRANSPORT_RANKS_H

#include <stddef.h>
#include <stdint.h>

#include <octet/ranks.h>

#include "base/fail.h"

/* What a message between two ranks belongs to. Messages of one tag arrive in the order sent. */
enum oct__tag { OCT_TAG_EDGE, OCT_TAG_TOGETHER, OCT_TAG_STOP, OCT_TAG_COUNT };

struct oct__ranks {
    int rank, n_ranks;
    int is_broken; /* a rank has failed: `reason` and `detail` say how */
    int is_known;  /* all have agreed on the failure of this call: nobody needs to be told */
    oct_status reason;
    char detail[OCT_DETAIL_BYTES];

    /* Both begin and return; `bytes` stay where they are until `wait` has. A ticket is used once. */
    oct_status (*send)(struct oct__ranks *ranks, int to, enum oct__tag tag, const void *bytes,
                       size_t n_bytes, int *ticket);
    oct_status (*receive)(struct oct__ranks *ranks, int from, enum oct__tag tag, void *bytes,
                          size_t most_bytes, int *ticket);
    /* `n_bytes` (may be NULL) receives the length of what was received. */
    oct_status (*wait)(struct oct__ranks *ranks, int ticket, size_t *n_bytes);
    /* Tells all others that this rank has failed. Returns at once. */
    void (*tell)(struct oct__ranks *ranks, oct_status status, const char *detail);
    /* Fails when another rank has told of a failure. Returns at once. */
    oct_status (*look)(struct oct__ranks *ranks);
};

/* The most bytes of one message. */
#define OCT_RANK_MESSAGE_MOST ((size_t)1 << 30)

/* The one rank of a run that is a single process. */
struct oct__ranks *oct__ranks_alone(void);

/* The first node of rank `rank`, which is the end of the one before it. */
static inline int oct__ranks_first(int n_nodes, int n_ranks, int rank) {
    return (int)((int64_t)n_nodes * rank / n_ranks);
}

/* The rank that hosts a node. */
int oct__ranks_host(int n_nodes, int n_ranks, int node);

/* Sends or receives exactly so many bytes, of any number, and waits. */
OCT_MUST_CHECK oct_status oct__ranks_put(struct oct__ranks *ranks, int to, enum oct__tag tag,
                                         const void *bytes, size_t n_bytes);
OCT_MUST_CHECK oct_status oct__ranks_get(struct oct__ranks *ranks, int from, enum oct__tag tag,
                                         void *bytes, size_t n_bytes);

/* The bytes of rank `root` become everybody's. */
OCT_MUST_CHECK oct_status oct__ranks_spread(struct oct__ranks *ranks, int root, void *bytes,
                                            size_t n_bytes);

/* `items` is [n_items][item_bytes], of which each rank has filled its share (oct__ranks_first); after
 * this everybody has all. */
OCT_MUST_CHECK oct_status oct__ranks_share(struct oct__ranks *ranks, void *items, int n_items,
                                           size_t item_bytes);

/* Adds this rank's part of elements first … first + n - 1 to `sum`, which has n. */
typedef oct_status oct__ranks_add(void *context, size_t first, size_t n, double *sum);

/* sum[n] goes from rank to rank in pieces, each adding its part in turn, and then to everybody. Rank 0
 * begins with what is in `sum`. */
OCT_MUST_CHECK oct_status oct__ranks_fold(struct oct__ranks *ranks, double *sum, size_t n,
                                          oct__ranks_add *add, void *context);

/* Everybody's figures added up, exactly: they count. */
OCT_MUST_CHECK oct_status oct__ranks_count(struct oct__ranks *ranks, uint64_t *figures, int n);

/* All ranks come here with what became of their part. OCT_OK when all went well; else every rank gets
 * the status and the words of the lowest rank that failed, with its number where not all say the
 * same. */
OCT_MUST_CHECK oct_status oct__ranks_agree(struct oct__ranks *ranks, oct_status status);

/* On the way into a call of the library: a failure of an earlier one, which the caller has dealt with,
 * is no failure of this one. */
void oct__ranks_enter(struct oct__ranks *ranks);

/* On the way out of a call in which ranks may have failed one by one: tells the others unless they
 * know. Returns `status`. */
oct_status oct__ranks_leave(struct oct__ranks *ranks, oct_status status);

/* Frees memory that messages came from or went to. Once ranks are done with each other some may still be
 * under way; then it is kept. */
void oct__ranks_free(const struct oct__ranks *ranks, void *memory);

#endif
