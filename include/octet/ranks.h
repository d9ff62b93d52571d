/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.h - a program as one of many processes: a run with the option transport mpi.
 *
 *     mpirun -n 8 ./program
 *
 * Each process ("rank") has a trainer of the same configuration and makes the same calls in the same
 * order, one trainer at a time. A rank hosts its share of the nodes. Every rank gets all results; the
 * progress callback is called on rank 0 alone, whose answer counts, and model files are written by it.
 *
 * When a call fails on one rank it fails on all, with the words of the one that had the trouble; after a
 * failure in the middle of a run the ranks are done with each other.
 *
 * MPI is begun by the first trainer that asks for it, or by oct_ranks_join, and ended when the process
 * exits, or by oct_ranks_end; a program that has begun MPI itself also ends it itself. A process that exits
 * without oct_ranks_end may have left in the middle: it waits OCT_RANKS_PATIENCE seconds for the others to
 * exit, too, and then ends all of them (MPI_Abort). That is the one place where the library ends a process.
 */
#ifndef OCTET_RANKS_H
#define OCTET_RANKS_H

#include <octet/export.h>
#include <octet/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Joins the other ranks of a transport, for a program that wants to know which rank it is before it has
 * a trainer. All ranks call it. Nothing to do for transports of one process. */
OCT_API OCT_MUST_CHECK oct_status oct_ranks_join(const char *transport);

/* The number of this rank, and of how many (`n_ranks` may be NULL). 0 of 1 in a program that has not
 * joined any. */
OCT_API int oct_ranks_here(int *n_ranks);

/* The room for what a rank has to say, its end included. */
#define OCT_RANKS_WORDS 512

/* Tells the other ranks that this one has failed outside of the library, unless they know of a failure.
 * Whatever they do next, or wait for now, fails with this status and these words. */
OCT_API void oct_ranks_tell(oct_status status, const char *words);

/* The end of a program that wants all its ranks to exit alike: all bring their exit code and what they
 * have to say, and all leave with the code, the words and the number of the lowest rank whose code is not
 * 0. Negative when one has not come: a rank whose code is 0 waits half an hour for the others, which may
 * have something left to write, any other OCT_RANKS_PATIENCE seconds. Then oct_ranks_abort ends all
 * processes, this one included, by MPI_Abort. Afterwards there are no ranks any more. */
#define OCT_RANKS_PATIENCE 20
OCT_API int oct_ranks_end(int code, char words[OCT_RANKS_WORDS], int *whose);
OCT_API void oct_ranks_abort(int code);

#ifdef __cplusplus
}
#endif

#endif
