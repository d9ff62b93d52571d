/* SPDX-License-Identifier: Apache-2.0 */
/* base_k.c - the exact average in a few rounds, for any number of nodes, with at most k neighbours.
 *
 * Takezawa, Sato, Bao, Niwa, Yamada, "Beyond exponential graph: communication-efficient topologies
 * for decentralized learning via finite-time convergence", NeurIPS 2023: the Base-(k+1) graph.
 *
 * Three constructions stand on one another.
 *
 *   hyper(m)    m = f_1 f_2 ... f_L with every f <= k+1. Node numbers are written with these digits;
 *               in round l the nodes that differ in digit l alone average: W = 1/f_l among them. L
 *               rounds are the exact average of all m.
 *
 *   simple(n)   n = a_1 (k+1)^p_1 + a_2 (k+1)^p_2 + ... in base k+1, digits from the top. Part l
 *               has a_l blocks of B_l = (k+1)^p_l nodes; R_l is all that comes after part l, and
 *               S_l = a_l B_l + |R_l|.
 *               1. Every part averages by hyper(a_l B_l).
 *               2. For l = 1, 2, ...: each node of R_l exchanges with one node of each of part l's
 *                  blocks, W = B_l / S_l. The mean over a block and the mean over R_l are then both
 *                  the mean over part l and R_l together.
 *               3. So each block averages by hyper(B_l) and is done, while R_l goes on with l+1.
 *               R_l always fits: |R_l| < B_l.
 *
 *   base(n)     n = m q, where q has no prime factor up to k+1: simple(q) in m groups of q, then
 *               hyper(m) across the groups; or simple(n), whichever takes fewer rounds.
 *
 * A node that has nothing to do in a round keeps everything. All exchanges go both ways with one
 * weight, so every W is symmetric and doubly stochastic.
 */
#include "topology/topology.h"

struct options {
    int64_t k; /* neighbours a round, at the most */
};

static const struct options defaults = {1};

static const struct oct__spec_option table[] = {
    {"k", OCT_SPEC_INT, offsetof(struct options, k), 1, 65536, NULL},
    {NULL, OCT_SPEC_INT, 0, 0, 0, NULL},
};

enum { DIGITS_MOST = 32 };

/* Nodes first, first + stride, … */
struct nodes {
    int first, stride, n;
};

static int at(struct nodes nodes, int i) {
    return nodes.first + i * nodes.stride;
}

static struct nodes part(struct nodes nodes, int from, int n) {
    return (struct nodes){at(nodes, from), nodes.stride, n};
}

/* --- hyper ------------------------------------------------------------------------------------ */

/* The least number of factors, none above `most`, whose product is m; they go to `factors`, largest
 * first. DIGITS_MOST when there are none. */
static int factorize(int m, int most, int factors[DIGITS_MOST]) {
    int best = m == 1 ? 0 : DIGITS_MOST, rest[DIGITS_MOST];
    for (int f = most < m ? most : m; f > 1 && best > 1; f--) {
        int n = m % f ? DIGITS_MOST : 1 + factorize(m / f, f, rest);
        if (n < best) {
            best = n;
            factors[0] = f;
            for (int i = 1; i < n; i++) {
                factors[i] = rest[i - 1];
            }
        }
    }
    return best;
}

static int hyper_length(int m, int k) {
    int factors[DIGITS_MOST];
    return factorize(m, k + 1, factors);
}

static oct_status hyper_edges(struct nodes nodes, int k, int round, struct oct__edge_list *out) {
    int factors[DIGITS_MOST];
    int length = factorize(nodes.n, k + 1, factors);
    if (round >= length) {
        return OCT_OK;
    }
    int place = 1; /* what the digit of this round counts */
    for (int l = 0; l < round; l++) {
        place *= factors[l];
    }
    const int f = factors[round];
    for (int i = 0; i < nodes.n; i++) {
        int digit = i / place % f;
        for (int d = digit + 1; d < f; d++) {
            OCT_TRY(
                oct__edge_add_pair(out, at(nodes, i), at(nodes, i + (d - digit) * place), 1.0 / f));
        }
    }
    return OCT_OK;
}

/* --- simple ----------------------------------------------------------------------------------- */

struct digit {
    int first, count, block; /* a_l blocks of B_l nodes from `first` on */
};

/* The digits of n in base k+1 that are not 0, from the top. */
static int digits_of(int n, int k, struct digit digits[DIGITS_MOST]) {
    int n_digits = 0, first = 0;
    int64_t block = 1;
    while (block * (k + 1) <= n) {
        block *= k + 1;
    }
    for (; block > 0; block /= k + 1) {
        int count = (int)((n - first) / block);
        if (count > 0) {
            digits[n_digits++] = (struct digit){first, count, (int)block};
            first += count * (int)block;
        }
    }
    return n_digits;
}

/* The rounds that all parts need to average within themselves. */
static int parts_length(const struct digit *digits, int n_digits, int k) {
    int longest = 0;
    for (int l = 0; l < n_digits; l++) {
        int length = hyper_length(digits[l].count * digits[l].block, k);
        longest = length > longest ? length : longest;
    }
    return longest;
}

static int simple_length(int n, int k) {
    struct digit digits[DIGITS_MOST];
    int n_digits = digits_of(n, k, digits);
    if (hyper_length(n, k) < DIGITS_MOST) {
        return hyper_length(n, k);
    }
    int longest = 0;
    for (int l = 0; l + 1 < n_digits; l++) {
        int length = l + 1 + hyper_length(digits[l].block, k);
        longest = length > longest ? length : longest;
    }
    return parts_length(digits, n_digits, k) + longest;
}

/* Step 2 for one part: its blocks and the nodes after it. */
static oct_status exchange(struct nodes nodes, struct digit digit, struct oct__edge_list *out) {
    const int rest = digit.first + digit.count * digit.block, n_rest = nodes.n - rest;
    const double weight = (double)digit.block / (nodes.n - digit.first);
    for (int r = 0; r < n_rest; r++) {
        for (int b = 0; b < digit.count; b++) {
            OCT_TRY(oct__edge_add_pair(out, at(nodes, digit.first + b * digit.block + r),
                                       at(nodes, rest + r), weight));
        }
    }
    return OCT_OK;
}

static oct_status simple_edges(struct nodes nodes, int k, int round, struct oct__edge_list *out) {
    struct digit digits[DIGITS_MOST];
    if (hyper_length(nodes.n, k) < DIGITS_MOST) {
        return hyper_edges(nodes, k, round, out);
    }
    const int n_digits = digits_of(nodes.n, k, digits);
    const int later = round - parts_length(digits, n_digits, k);
    for (int l = 0; l < n_digits; l++) {
        const struct digit digit = digits[l];
        if (later < 0) {
            OCT_TRY(
                hyper_edges(part(nodes, digit.first, digit.count * digit.block), k, round, out));
        } else if (later == l && l + 1 < n_digits) {
            OCT_TRY(exchange(nodes, digit, out));
        } else if (later > l && l + 1 < n_digits) {
            for (int b = 0; b < digit.count; b++) {
                OCT_TRY(hyper_edges(part(nodes, digit.first + b * digit.block, digit.block), k,
                                    later - l - 1, out));
            }
        }
    }
    return OCT_OK;
}

/* --- base ------------------------------------------------------------------------------------- */

/* The largest m that divides n and has only prime factors up to k + 1. */
static int smooth_part(int n, int k) {
    int m = 1;
    for (int f = 2; f <= k + 1 && f <= n; f++) {
        while (n % f == 0) {
            n /= f;
            m *= f;
        }
    }
    return m;
}

/* Rounds, and into how many groups the nodes are cut (1: simple(n)). */
static int plan(const struct oct__topology_request *request, int *n_groups) {
    const struct options *options = request->options;
    const int n = request->n_nodes, k = (int)options->k;
    const int m = smooth_part(n, k);
    const int direct = simple_length(n, k);
    const int grouped = simple_length(n / m, k) + hyper_length(m, k);
    *n_groups = grouped < direct ? m : 1;
    return grouped < direct ? grouped : direct;
}

static oct_status period(const struct oct__topology_request *request, int *out) {
    int n_groups;
    int length = plan(request, &n_groups);
    *out = length > 0 ? length : 1; /* a single node */
    return OCT_OK;
}

static oct_status edges(const struct oct__topology_request *request, uint32_t index,
                        struct oct__edge_list *out) {
    const struct options *options = request->options;
    const int k = (int)options->k, round = (int)index;
    int n_groups;
    plan(request, &n_groups);
    const int size = request->n_nodes / n_groups;
    const int inside = simple_length(size, k);
    for (int g = 0; round < inside && g < n_groups; g++) {
        OCT_TRY(simple_edges((struct nodes){g * size, 1, size}, k, round, out));
    }
    for (int i = 0; round >= inside && i < size; i++) {
        OCT_TRY(hyper_edges((struct nodes){i, size, n_groups}, k, round - inside, out));
    }
    return OCT_OK;
}

const struct oct_topology_kind oct_topology_base_k = {
    .plugin = {.name = "base-k",
               .summary = "the exact average within a period, with at most k neighbours a round",
               .reference = "Takezawa et al., Beyond exponential graph, NeurIPS 2023",
               .options = "k=N"},
    .is_undirected = 1,
    .has_own_weights = 1,
    .options_bytes = sizeof(struct options),
    .defaults = &defaults,
    .table = table,
    .period = period,
    .edges = edges,
};
