/* SPDX-License-Identifier: Apache-2.0 */
/* topology.c - a topology from its name: graphs made, weighted, checked; and asked about.
 *
 * All graphs of a period are made at once. A topology that never repeats keeps the one graph it
 * made last: round after round asks for the next, and nobody needs an old one.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "topology/topology.h"

/* Far beyond what one process hosts; keeps products of node numbers inside an int64_t. */
#define NODES_MOST 1048576

/* Graph number `index`. */
static oct_status make(const struct oct_topology *topology, uint32_t index, struct oct__mix *out) {
    struct oct__edge_list list = {0};
    oct_status status = topology->kind->edges(&topology->request, index, &list);
    if (status == OCT_OK) {
        status = oct__mix_init(out, topology->request.n_nodes, &list, topology->rule);
        if (status != OCT_OK) {
            status = oct__fail_within(status, "topology '%.80s': ", topology->name);
        }
    }
    oct__free(list.edges);
    return status;
}

/* What the kind's options say, over their defaults. */
static oct_status read_options(struct oct_topology *topology, const char *options) {
    const struct oct_topology_kind *kind = topology->kind;
    struct oct__topology_request *request = &topology->request;
    if (kind->reads_text) {
        request->text = options; /* of topology->name, which lives as long */
        return OCT_OK;
    }
    if (!kind->table) {
        if (options) {
            OCT_FAIL(INVALID, "%s: takes no options, '%.40s' was given", kind->plugin.name,
                     options);
        }
        return OCT_OK;
    }
    OCT_TRY(oct__alloc(kind->options_bytes, "a topology's options", &topology->options));
    memcpy(topology->options, kind->defaults, kind->options_bytes);
    request->options = topology->options;
    return oct__spec_read(kind->plugin.name, options, kind->table, topology->options);
}

static oct_status check_reach(const struct oct_topology *topology, const struct oct__mix *mixes,
                              int n) {
    struct oct__reach reach;
    OCT_TRY(oct__mixes_reach(mixes, n, &reach));
    if (reach.is_strong) {
        return OCT_OK;
    }
    char over[48] = "";
    if (n > 1) {
        snprintf(over, sizeof over, " over its %s%d graphs",
                 topology->info.period == 0 ? "first " : "", n);
    }
    OCT_FAIL(INVALID,
             "topology '%.80s': node %d cannot reach node %d%s; every node must be able to reach "
             "every other",
             topology->name, reach.from, reach.to, over);
}

static void note_degrees(struct oct_topology_info *info, const struct oct__mix *mix, int is_first) {
    for (int j = 0; j < mix->n_nodes; j++) {
        int degree = mix->out_start[j + 1] - mix->out_start[j];
        int is_new = is_first && j == 0;
        info->least_degree = is_new || degree < info->least_degree ? degree : info->least_degree;
        info->most_degree = is_new || degree > info->most_degree ? degree : info->most_degree;
    }
}

static oct_status make_period(struct oct_topology *topology) {
    struct oct_topology_info *info = &topology->info;
    void *memory;
    OCT_TRY(oct__alloc_array((size_t)info->period, sizeof(struct oct__mix), "graphs", &memory));
    topology->mixes = memory;
    info->is_column_stochastic = info->is_doubly_stochastic = info->is_undirected = 1;
    for (int g = 0; g < info->period; g++) {
        struct oct__mix *mix = &topology->mixes[g];
        OCT_TRY(make(topology, (uint32_t)g, mix));
        info->is_column_stochastic &= oct__mix_is_column_stochastic(mix);
        info->is_doubly_stochastic &= oct__mix_is_doubly_stochastic(mix);
        info->is_undirected &= oct__mix_is_undirected(mix);
        info->has_own_weights |= mix->has_own_weights;
        note_degrees(info, mix, g == 0);
    }
    OCT_TRY(oct__mixes_count(topology->mixes, info->period, &info->n_edges));
    return check_reach(topology, topology->mixes, info->period);
}

/* The first graphs, until together they are connected. */
static oct_status check_union(const struct oct_topology *topology) {
    oct_status status = OCT_OK;
    struct oct__mix mixes[OCT_UNION_MOST];
    int n = 0;
    struct oct__reach reach = {0};
    while (n < OCT_UNION_MOST && !reach.is_strong) {
        OCT_TRY_TO(out, make(topology, (uint32_t)n, &mixes[n]));
        n++;
        OCT_TRY_TO(out, oct__mixes_reach(mixes, n, &reach));
    }
    status = check_reach(topology, mixes, n);
out:
    for (int g = 0; g < n; g++) {
        oct__mix_fini(&mixes[g]);
    }
    return status;
}

static oct_status make_first(struct oct_topology *topology) {
    struct oct_topology_info *info = &topology->info;
    void *memory;
    OCT_TRY(oct__alloc(sizeof(struct oct__made), "a graph", &memory));
    topology->made = memory;
    struct oct__mix *first = &topology->made->mix;
    OCT_TRY(make(topology, 0, first));
    info->is_column_stochastic = oct__mix_is_column_stochastic(first);
    info->is_doubly_stochastic =
        oct__mix_is_doubly_stochastic(first) &&
        (topology->rule == OCT_WEIGHTS_METROPOLIS || topology->kind->is_regular);
    info->is_undirected = topology->kind->is_undirected;
    info->has_own_weights |= first->has_own_weights;
    info->n_edges = first->n_edges;
    note_degrees(info, first, 1);
    return check_union(topology);
}

static oct_status set_up(struct oct_topology *topology,
                         const struct oct_topology_options *options) {
    struct oct_topology_info *info = &topology->info;
    const char *rest;
    OCT_TRY(oct__alloc_text(options->name, "a topology's name", &topology->name));
    OCT_TRY(oct__topology_choose(topology->name, &topology->kind, &rest));
    OCT_TRY(oct__weight_rule_read(options->weights, &topology->rule));
    if (topology->kind->has_own_weights && topology->rule != OCT_WEIGHTS_BY_ITSELF) {
        OCT_FAIL(INVALID, "topology '%.80s' has weights of its own; leave out weights (%s)",
                 topology->name, options->weights);
    }
    if (topology->rule == OCT_WEIGHTS_METROPOLIS && !topology->kind->is_undirected &&
        !topology->kind->reads_text) {
        OCT_FAIL(INVALID,
                 "topology '%.80s' is directed, and metropolis weights need every edge in both "
                 "directions; use out-degree",
                 topology->name);
    }
    topology->request.n_nodes = info->n_nodes = options->n_nodes;
    topology->request.seed = options->seed;
    topology->hold = info->hold = options->hold > 0 ? options->hold : 1;
    OCT_TRY(read_options(topology, rest));
    info->has_own_weights = topology->kind->has_own_weights;
    info->period = 1;
    if (topology->kind->period) {
        OCT_TRY(topology->kind->period(&topology->request, &info->period));
    }
    OCT_TRY(info->period > 0 ? make_period(topology) : make_first(topology));
    info->is_strongly_connected = 1;
    return OCT_OK;
}

oct_status oct_topology_create(const struct oct_topology_options *options,
                               struct oct_topology **out) {
    if (!options || !options->name || !out) {
        OCT_FAIL(INVALID, "oct_topology_create: the %s is NULL",
                 !options ? "options" : (!options->name ? "name" : "place"));
    }
    if (options->n_nodes < 1 || options->n_nodes > NODES_MOST) {
        OCT_FAIL(INVALID, "topology: %d nodes, expected 1 to %d", options->n_nodes, NODES_MOST);
    }
    if (options->hold < 0) {
        OCT_FAIL(INVALID, "topology: hold is %d, expected 0 or more", options->hold);
    }
    void *memory;
    OCT_TRY(oct__alloc(sizeof(struct oct_topology), "a topology", &memory));
    struct oct_topology *topology = memory;
    oct_status status = set_up(topology, options);
    if (status != OCT_OK) {
        oct_topology_destroy(topology);
        return status;
    }
    *out = topology;
    return OCT_OK;
}

void oct_topology_destroy(struct oct_topology *topology) {
    if (!topology) {
        return;
    }
    for (int g = 0; topology->mixes && g < topology->info.period; g++) {
        oct__mix_fini(&topology->mixes[g]);
    }
    if (topology->made) {
        oct__mix_fini(&topology->made->mix);
    }
    oct__free(topology->mixes);
    oct__free(topology->made);
    oct__free(topology->options);
    oct__free(topology->name);
    oct__free(topology);
}

oct_status oct__topology_mix(const struct oct_topology *topology, uint32_t round,
                             const struct oct__mix **out) {
    uint32_t index = round / (uint32_t)topology->hold;
    if (topology->mixes) {
        *out = &topology->mixes[index % (uint32_t)topology->info.period];
        return OCT_OK;
    }
    struct oct__made *made = topology->made;
    if (made->index != index) {
        struct oct__mix fresh;
        OCT_TRY(make(topology, index, &fresh));
        oct__mix_fini(&made->mix);
        made->mix = fresh;
        made->index = index;
    }
    *out = &made->mix;
    return OCT_OK;
}

void oct_topology_info(const struct oct_topology *topology, struct oct_topology_info *out) {
    *out = topology->info;
}

int oct_topology_edge(const struct oct_topology *topology, uint32_t step, int index,
                      struct oct_edge *out) {
    const struct oct__mix *mix;
    if (oct__topology_mix(topology, step, &mix) != OCT_OK || index < 0 || index >= mix->n_edges) {
        return 0;
    }
    int low = 0, high = mix->n_nodes - 1; /* the receiver is among low … high */
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (mix->in_start[middle + 1] <= index) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *out = (struct oct_edge){mix->from[index], low, mix->weight[index]};
    return 1;
}

double oct_topology_self_weight(const struct oct_topology *topology, uint32_t step, int node) {
    const struct oct__mix *mix;
    if (node < 0 || node >= topology->info.n_nodes ||
        oct__topology_mix(topology, step, &mix) != OCT_OK) {
        return NAN;
    }
    return mix->self[node];
}
