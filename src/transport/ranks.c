/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.c - what ranks do together, in terms of messages between two of them. */
#include "transport/ranks.h"

#include <string.h>

#include "base/alloc.h"

/* Elements that travel at once when a sum goes from rank to rank: while one piece is being added to,
 * the next is on its way. */
#define FOLD_PIECE 32768

struct oct__ranks *oct__ranks_alone(void) {
    static struct oct__ranks alone = {.n_ranks = 1}; /* nobody ever changes it */
    return &alone;
}

int oct__ranks_host(int n_nodes, int n_ranks, int node) {
    int rank = (int)((int64_t)node * n_ranks / n_nodes);
    while (oct__ranks_first(n_nodes, n_ranks, rank + 1) <= node) {
        rank++;
    }
    return rank;
}

/* --- two ranks -------------------------------------------------------------------------------- */

static size_t part_of(size_t left) {
    return left < OCT_RANK_MESSAGE_MOST ? left : OCT_RANK_MESSAGE_MOST;
}

oct_status oct__ranks_put(struct oct__ranks *ranks, int to, enum oct__tag tag, const void *bytes,
                          size_t n_bytes) {
    const char *at = bytes;
    do {
        const size_t n = part_of(n_bytes);
        int ticket;
        OCT_TRY(ranks->send(ranks, to, tag, at, n, &ticket));
        OCT_TRY(ranks->wait(ranks, ticket, NULL));
        at += n;
        n_bytes -= n;
    } while (n_bytes > 0);
    return OCT_OK;
}

oct_status oct__ranks_get(struct oct__ranks *ranks, int from, enum oct__tag tag, void *bytes,
                          size_t n_bytes) {
    char *at = bytes;
    do {
        const size_t n = part_of(n_bytes);
        size_t got;
        int ticket;
        OCT_TRY(ranks->receive(ranks, from, tag, at, n, &ticket));
        OCT_TRY(ranks->wait(ranks, ticket, &got));
        if (got != n) {
            OCT_FAIL(CORRUPT,
                     "%zu bytes from rank %d where %zu were expected: do all ranks run the same "
                     "octet?",
                     got, from, n);
        }
        at += n;
        n_bytes -= n;
    } while (n_bytes > 0);
    return OCT_OK;
}

/* --- all of them ------------------------------------------------------------------------------ */

oct_status oct__ranks_spread(struct oct__ranks *ranks, int root, void *bytes, size_t n_bytes) {
    if (ranks->rank != root) {
        return oct__ranks_get(ranks, root, OCT_TAG_TOGETHER, bytes, n_bytes);
    }
    for (int rank = 0; rank < ranks->n_ranks; rank++) {
        if (rank != root) {
            OCT_TRY(oct__ranks_put(ranks, rank, OCT_TAG_TOGETHER, bytes, n_bytes));
        }
    }
    return OCT_OK;
}

oct_status oct__ranks_share(struct oct__ranks *ranks, void *items, int n_items, size_t item_bytes) {
    if (ranks->n_ranks == 1) {
        return OCT_OK;
    }
    for (int rank = 1; rank < ranks->n_ranks; rank++) {
        const int first = oct__ranks_first(n_items, ranks->n_ranks, rank);
        const int end = oct__ranks_first(n_items, ranks->n_ranks, rank + 1);
        char *at = (char *)items + (size_t)first * item_bytes;
        const size_t bytes = (size_t)(end - first) * item_bytes;
        if (ranks->rank == 0) {
            OCT_TRY(oct__ranks_get(ranks, rank, OCT_TAG_TOGETHER, at, bytes));
        } else if (ranks->rank == rank) {
            OCT_TRY(oct__ranks_put(ranks, 0, OCT_TAG_TOGETHER, at, bytes));
        }
    }
    return oct__ranks_spread(ranks, 0, items, (size_t)n_items * item_bytes);
}

/* A piece is added to and sent on while the next is still being received. */
static oct_status fold_pieces(struct oct__ranks *ranks, double *sum, size_t n, oct__ranks_add *add,
                              void *context, int *tickets) {
    const int is_last = ranks->rank == ranks->n_ranks - 1;
    for (size_t first = 0, piece = 0; first < n; first += FOLD_PIECE, piece++) {
        const size_t count = n - first < FOLD_PIECE ? n - first : FOLD_PIECE;
        if (ranks->rank > 0) {
            OCT_TRY(oct__ranks_get(ranks, ranks->rank - 1, OCT_TAG_TOGETHER, sum + first,
                                   count * sizeof *sum));
        }
        OCT_TRY(add(context, first, count, sum + first));
        if (!is_last) {
            OCT_TRY(ranks->send(ranks, ranks->rank + 1, OCT_TAG_TOGETHER, sum + first,
                                count * sizeof *sum, &tickets[piece]));
        }
    }
    return OCT_OK;
}

oct_status oct__ranks_fold(struct oct__ranks *ranks, double *sum, size_t n, oct__ranks_add *add,
                           void *context) {
    const size_t n_pieces = (n + FOLD_PIECE - 1) / FOLD_PIECE;
    void *tickets;
    if (ranks->n_ranks == 1) {
        return add(context, 0, n, sum);
    }
    OCT_TRY(oct__alloc_array(n_pieces, sizeof(int), "a sum over ranks", &tickets));
    oct_status status = fold_pieces(ranks, sum, n, add, context, tickets);
    for (size_t i = 0; ranks->rank < ranks->n_ranks - 1 && status == OCT_OK && i < n_pieces; i++) {
        status = ranks->wait(ranks, ((int *)tickets)[i], NULL);
    }
    oct__free(tickets);
    OCT_TRY(status);
    return oct__ranks_spread(ranks, ranks->n_ranks - 1, sum, n * sizeof *sum);
}

oct_status oct__ranks_count(struct oct__ranks *ranks, uint64_t *figures, int n) {
    uint64_t part[16];
    if (n > (int)OCT_COUNT_OF(part)) {
        OCT_FAIL(INTERNAL, "%d figures of the ranks at once", n);
    }
    const size_t bytes = (size_t)n * sizeof *figures;
    if (ranks->n_ranks == 1) {
        return OCT_OK;
    }
    if (ranks->rank > 0) {
        OCT_TRY(oct__ranks_put(ranks, 0, OCT_TAG_TOGETHER, figures, bytes));
    }
    for (int rank = 1; ranks->rank == 0 && rank < ranks->n_ranks; rank++) {
        OCT_TRY(oct__ranks_get(ranks, rank, OCT_TAG_TOGETHER, part, bytes));
        for (int i = 0; i < n; i++) {
            figures[i] += part[i];
        }
    }
    return oct__ranks_spread(ranks, 0, figures, bytes);
}

/* --- failures --------------------------------------------------------------------------------- */

struct verdict {
    int32_t status;
    char detail[OCT_DETAIL_BYTES];
};

/* The lowest rank's failure, with its number unless all ranks say the same. */
static oct_status judge(struct oct__ranks *ranks, struct verdict *verdict) {
    struct verdict other;
    int whose = verdict->status == OCT_OK ? -1 : 0, all_same = 1;
    for (int rank = 1; rank < ranks->n_ranks; rank++) {
        OCT_TRY(oct__ranks_get(ranks, rank, OCT_TAG_TOGETHER, &other, sizeof other));
        all_same &= memcmp(&other, verdict, sizeof other) == 0;
        if (whose < 0 && other.status != OCT_OK) {
            *verdict = other;
            whose = rank;
        }
    }
    if (whose >= 0 && !all_same) {
        oct__detail_give(verdict->detail);
        (void)!oct__fail_within((oct_status)verdict->status, "rank %d: ", whose);
        oct__detail_take(verdict->detail);
    }
    return OCT_OK;
}

oct_status oct__ranks_agree(struct oct__ranks *ranks, oct_status status) {
    struct verdict verdict;
    if (ranks->n_ranks == 1) {
        return status;
    }
    if (ranks->is_broken) {
        if (status == OCT_OK) {
            oct__detail_give(ranks->detail);
        }
        return status == OCT_OK ? ranks->reason : status;
    }
    memset(&verdict, 0, sizeof verdict);
    verdict.status = (int32_t)status;
    if (status != OCT_OK) {
        char detail[OCT_DETAIL_BYTES];
        oct__detail_take(detail);
        memcpy(verdict.detail, detail, strnlen(detail, sizeof detail - 1));
    }
    if (ranks->rank == 0) {
        OCT_TRY(judge(ranks, &verdict));
    } else {
        OCT_TRY(oct__ranks_put(ranks, 0, OCT_TAG_TOGETHER, &verdict, sizeof verdict));
    }
    OCT_TRY(oct__ranks_spread(ranks, 0, &verdict, sizeof verdict));
    ranks->is_known = verdict.status != OCT_OK;
    if (ranks->is_known) {
        oct__detail_give(verdict.detail);
    }
    return (oct_status)verdict.status;
}

void oct__ranks_enter(struct oct__ranks *ranks) {
    if (ranks->n_ranks > 1) {
        ranks->is_known = 0;
    }
}

oct_status oct__ranks_leave(struct oct__ranks *ranks, oct_status status) {
    if (status != OCT_OK && status != OCT_STATUS_CANCELLED && ranks->n_ranks > 1 &&
        !ranks->is_broken && !ranks->is_known) {
        char detail[OCT_DETAIL_BYTES];
        oct__detail_take(detail);
        ranks->tell(ranks, status, detail);
        oct__detail_give(detail);
    }
    return status;
}

void oct__ranks_free(const struct oct__ranks *ranks, void *memory) {
    if (!ranks || !ranks->is_broken) {
        oct__free(memory);
    }
}
