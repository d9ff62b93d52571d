/* SPDX-License-Identifier: Apache-2.0 */
/* spectral.c - how fast a topology agrees: the second eigenvalue of its matrices' product.
 *
 *     P = W_p^h … W_2^h W_1^h          p graphs, each held for h rounds (one graph: P = W)
 *     gap = 1 - |lambda_2(P)|
 *
 * W need not be symmetric, and the second eigenvalue of a directed ring is a complex pair, so this
 * is LAPACK's general solver; a product that is exactly symmetric goes to the symmetric one, which
 * is several times faster. Their working memory comes from us, like all memory. A matrix and its
 * transpose have the same eigenvalues, so rows against columns does not matter here.
 */
#include <math.h>
#include <string.h>

#include "topology/topology.h"

#ifdef OCT_HAVE_LAPACK

#include <lapacke.h>

/* Matrices of 128 MiB, and minutes. */
#define NODES_MOST 4096

/* out = W a, both dense [n][n]. */
static void multiply_sparse(const struct oct__mix *mix, const double *a, double *out) {
    const size_t n = (size_t)mix->n_nodes;
    for (size_t i = 0; i < n; i++) {
        double *row = out + i * n;
        for (size_t c = 0; c < n; c++) {
            row[c] = mix->self[i] * a[i * n + c];
        }
        for (int e = mix->in_start[i]; e < mix->in_start[i + 1]; e++) {
            const double *source = a + (size_t)mix->from[e] * n;
            for (size_t c = 0; c < n; c++) {
                row[c] += mix->weight[e] * source[c];
            }
        }
    }
}

/* out = a b. */
static void multiply_dense(const double *a, const double *b, double *out, size_t n) {
    memset(out, 0, n * n * sizeof *out);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < n; k++) {
            double factor = a[i * n + k];
            for (size_t c = 0; factor != 0 && c < n; c++) {
                out[i * n + c] += factor * b[k * n + c];
            }
        }
    }
}

static void swap(double **a, double **b) {
    double *held = *a;
    *a = *b;
    *b = held;
}

/* The product over the period in one of the four matrices (two, when no graph is held). */
static double *product(const struct oct_topology *topology, double *matrices[4]) {
    const size_t n = (size_t)topology->info.n_nodes;
    double *total = matrices[0], *spare = matrices[1], *power = matrices[2],
           *identity = matrices[3];
    for (size_t i = 0; i < n; i++) {
        total[i * n + i] = 1;
    }
    if (!identity) { /* nothing is held */
        for (int g = 0; g < topology->info.period; g++) {
            multiply_sparse(&topology->mixes[g], total, spare);
            swap(&total, &spare);
        }
        return total;
    }
    for (size_t i = 0; i < n; i++) {
        identity[i * n + i] = 1;
    }
    for (int g = 0; g < topology->info.period; g++) {
        multiply_sparse(&topology->mixes[g], identity, power);
        for (int h = topology->hold; h > 0; h /= 2) {
            if (h % 2) {
                multiply_dense(power, total, spare, n);
                swap(&total, &spare);
            }
            if (h > 1) {
                multiply_dense(power, power, spare, n);
                swap(&power, &spare);
            }
        }
    }
    return total;
}

static int is_symmetric(const double *a, size_t n) {
    for (size_t i = 0; i < n; i++) {
        for (size_t c = 0; c < i; c++) {
            if (a[i * n + c] != a[c * n + i]) {
                return 0;
            }
        }
    }
    return 1;
}

/* Eigenvalues of `a`, which is overwritten: real[n] and imaginary[n], the latter zeroed before. */
static oct_status eigenvalues(double *a, int n, double *real, double *imaginary) {
    oct_status status = OCT_OK;
    void *work = NULL;
    double wanted = 0;
    lapack_int n_work = -1, outcome = 0;
    const int symmetric = is_symmetric(a, (size_t)n);
    for (int pass = 0; pass < 2; pass++) { /* first it only says how much memory it wants */
        double *memory = pass ? work : &wanted;
        outcome = symmetric ? LAPACKE_dsyev_work(LAPACK_COL_MAJOR, 'N', 'L', n, a, n, real, memory,
                                                 n_work)
                            : LAPACKE_dgeev_work(LAPACK_COL_MAJOR, 'N', 'N', n, a, n, real,
                                                 imaginary, NULL, 1, NULL, 1, memory, n_work);
        if (outcome != 0) {
            OCT_FAIL_TO(out, INTERNAL, "LAPACK found no eigenvalues of a %dx%d matrix (%d)", n, n,
                        (int)outcome);
        }
        if (pass == 0) {
            n_work = (lapack_int)wanted;
            OCT_TRY_TO(out, oct__alloc_array((size_t)n_work, sizeof(double), "eigenvalues", &work));
        }
    }
out:
    oct__free(work);
    return status;
}

static oct_status find_gap(const struct oct_topology *topology, double *out) {
    oct_status status = OCT_OK;
    void *memory = NULL;
    const size_t n = (size_t)topology->info.n_nodes;
    if (n > NODES_MOST) {
        OCT_FAIL(UNSUPPORTED, "the spectral gap of %zu nodes takes too long, expected at most %d",
                 n, NODES_MOST);
    }
    const size_t n_matrices = topology->info.period > 1 && topology->hold > 1 ? 4 : 2;
    OCT_TRY(oct__alloc_array(n_matrices * n * n + 2 * n, sizeof(double), "a product", &memory));
    double *matrices[4] = {NULL}, *at = memory;
    for (size_t m = 0; m < n_matrices; m++) {
        matrices[m] = at + m * n * n;
    }
    double *real = at + n_matrices * n * n, *imaginary = real + n;
    OCT_TRY_TO(out, eigenvalues(product(topology, matrices), (int)n, real, imaginary));
    double first = 0, second = 0; /* largest moduli */
    for (size_t i = 0; i < n; i++) {
        double modulus = hypot(real[i], imaginary[i]);
        if (modulus > first) {
            second = first;
            first = modulus;
        } else if (modulus > second) {
            second = modulus;
        }
    }
    *out = second < 1 ? 1 - second : 0;
out:
    oct__free(memory);
    return status;
}

#else

static oct_status find_gap(const struct oct_topology *topology, double *out) {
    (void)topology;
    (void)out;
    OCT_FAIL(UNSUPPORTED, "built without LAPACK, which finds spectral gaps: install liblapacke-dev "
                          "and build again");
}

#endif

oct_status oct_topology_spectral_gap(const struct oct_topology *topology, double *out) {
    if (!topology || !out) {
        OCT_FAIL(INVALID, "a spectral gap needs a topology and a place to be returned");
    }
    if (topology->info.period == 0) {
        OCT_FAIL(UNSUPPORTED,
                 "topology '%.80s' never repeats, so there is no product over a period",
                 topology->name);
    }
    if (topology->info.n_nodes == 1) {
        *out = 1; /* one node agrees with itself */
        return OCT_OK;
    }
    return find_gap(topology, out);
}
