/* SPDX-License-Identifier: Apache-2.0 */
/* gossip_rig.c - driving one gossip: see gossip_rig.h. */
#include "conformance/gossip_rig.h"

#include <math.h>
#include <stdlib.h>

#include "support/folder.h"

const struct oct__span gossip_spans[3] = {{0, 5}, {16, 40}, {64, 1100}};

int is_element(int i) {
    for (size_t s = 0; s < N_SPANS; s++) {
        if ((size_t)i >= gossip_spans[s].offset &&
            (size_t)i < gossip_spans[s].offset + gossip_spans[s].count) {
            return 1;
        }
    }
    return 0;
}

static oct_status make_exchange(struct gossip_rig *rig, const struct gossip_form *form) {
    struct oct__fault_plan plan;
    oct_status status = oct__fault_read(form->fault, &plan);
    if (status == OCT_OK) {
        status = oct__exchange_create(rig->gossip, form->transport ? form->transport : "inproc", 99,
                                      &rig->exchange);
    }
    if (status == OCT_OK) {
        status = oct__exchange_break(rig->exchange, &plan, 23);
    }
    oct__fault_fini(&plan);
    return status;
}

oct_status gossip_rig_try(struct gossip_rig *rig, struct oct__engine *engine,
                          const struct gossip_form *form) {
    memset(rig, 0, sizeof *rig);
    rig->engine = engine;
    rig->form = *form;
    struct oct__gossip_config config = {
        .engine = engine,
        .spans = gossip_spans,
        .n_spans = N_SPANS,
        .n_elements = ROW,
        .n_nodes = form->n_nodes,
        .n_threads = form->n_threads ? form->n_threads : 1,
        .seed = 17,
        .gamma = form->gamma,
        .has_dense_rounds = form->has_dense_rounds,
        .has_two_ends = form->has_two_ends,
        .has_faults = form->fault != NULL,
    };
    const struct oct_topology_options options = {
        .name = form->topology,
        .weights = form->weights,
        .n_nodes = form->n_nodes,
        .hold = form->hold,
        .seed = 3,
    };
    const size_t bytes = (size_t)form->n_nodes * ROW * sizeof(float);
    oct_status status = OCT_OK;
    OCT_TRY_TO(out, oct__algorithm_find(form->algorithm, &config.algorithm));
    OCT_TRY_TO(out, oct__compression_read(form->compress, &config.compression));
    if (form->topology) {
        OCT_TRY_TO(out, oct_topology_create(&options, &rig->topology));
    }
    config.topology = rig->topology;
    OCT_TRY_TO(out, engine->alloc(engine, bytes, "x", &rig->x));
    config.x = rig->x;
    rig->host = calloc((size_t)form->n_nodes * ROW, sizeof(float));
    assert_non_null(rig->host);
    OCT_TRY_TO(out, oct__gossip_create(&config, &rig->gossip));
    if (form->fault) {
        OCT_TRY_TO(out, make_exchange(rig, form));
    }
out:
    if (status != OCT_OK) {
        gossip_rig_close(rig);
    }
    return status;
}

void gossip_rig_open(struct gossip_rig *rig, struct oct__engine *engine,
                     const struct gossip_form *form) {
    oct_status status = gossip_rig_try(rig, engine, form);
    if (status != OCT_OK) {
        fail_msg("%s on %s, %d nodes, %s: %s", form->algorithm,
                 form->topology ? form->topology : "no graph", form->n_nodes, form->compress,
                 oct_last_error());
    }
}

void gossip_rig_close(struct gossip_rig *rig) {
    oct__exchange_destroy(rig->exchange);
    oct__gossip_destroy(rig->gossip);
    oct_topology_destroy(rig->topology);
    if (rig->x) {
        rig->engine->free(rig->engine, rig->x);
    }
    free(rig->host);
    memset(rig, 0, sizeof *rig);
}

void gossip_rig_read(const struct gossip_rig *rig, const void *from, float *to) {
    EXPECT_OK(
        rig->engine->read(rig->engine, to, from, (size_t)rig->form.n_nodes * ROW * sizeof(float)));
}

void gossip_rig_write(const struct gossip_rig *rig, void *to, const float *from) {
    EXPECT_OK(
        rig->engine->write(rig->engine, to, from, (size_t)rig->form.n_nodes * ROW * sizeof(float)));
}

void gossip_rig_round(struct gossip_rig *rig, uint32_t round, int is_dense) {
    if (rig->exchange) {
        EXPECT_OK(oct__exchange_round(rig->exchange, round, round, is_dense));
        return;
    }
    EXPECT_OK(oct__gossip_begin(rig->gossip, round, round + 1000, is_dense));
    EXPECT_OK(oct__gossip_send(rig->gossip));
    EXPECT_OK(oct__gossip_merge(rig->gossip));
}

void gossip_fill(float *rows, int n_nodes, double spread, uint32_t seed) {
    struct dice dice = dice_of(seed), shared = dice_of(seed + 1000000);
    for (int i = 0; i < ROW; i++) {
        const double mean = spread < 1.0 ? dice_normal(&shared) : 0.0;
        for (int node = 0; node < n_nodes; node++) {
            const double value = mean + spread * dice_normal(&dice);
            rows[node * ROW + i] = is_element(i) ? (float)value : 0.0F;
        }
    }
}

int gossip_rig_opens(struct gossip_rig *rig, struct oct__engine *engine,
                     const struct gossip_form *form) {
    oct_status status = gossip_rig_try(rig, engine, form);
    if (status == OCT_OK) {
        return 1;
    }
    const struct oct_algorithm_kind *kind;
    EXPECT_OK(oct__algorithm_find(form->algorithm, &kind));
    if (status != OCT_STATUS_INVALID || kind->is_push_sum) {
        fail_msg("%s on %s: %s", form->algorithm, form->topology, oct_last_error());
    }
    return 0;
}

double gossip_largest(const float *rows, int n_nodes) {
    double most = 0.0;
    for (int i = 0; rows && i < n_nodes * ROW; i++) {
        most = fmax(most, fabs((double)rows[i]));
    }
    return most;
}

void gossip_sum(const float *rows, int n_nodes, double *sums) {
    for (int k = 0; k < ROW; k++) {
        sums[k] = 0.0;
        for (int i = 0; i < n_nodes; i++) {
            sums[k] += (double)rows[i * ROW + k];
        }
    }
}

void gossip_wander(struct gossip_rig *rig, uint32_t round) {
    enum { N = MOST_NODES * ROW };
    static float steps[N];
    static int is_filled;
    if (!is_filled) {
        struct dice dice = dice_of(500);
        for (int i = 0; i < N; i++) {
            steps[i] = (float)(0.05 * dice_normal(&dice));
        }
        is_filled = 1;
    }
    gossip_rig_read(rig, rig->x, rig->host);
    for (int i = 0; i < rig->form.n_nodes * ROW; i++) {
        if (is_element(i % ROW)) {
            rig->host[i] += steps[(i + 997 * (int)round) % N];
        }
    }
    gossip_rig_write(rig, rig->x, rig->host);
}

const struct oct_algorithm_kind *gossip_at(int *index) {
    const struct oct_algorithm_kind *kind;
    while ((kind = oct__algorithm_at(*index)) && kind->mixing != OCT_MIXING_GOSSIP) {
        ++*index;
    }
    return kind;
}

/* --- graphs ----------------------------------------------------------------------------------- */

static int try_graph(const char *topology, const char *weights, int n_nodes, gossip_graph_fn *fn,
                     void *context) {
    const struct oct_topology_options options = {
        .name = topology, .weights = weights, .n_nodes = n_nodes, .seed = 3};
    struct oct_topology *made;
    if (oct_topology_create(&options, &made) != OCT_OK) {
        return 0;
    }
    oct_topology_destroy(made);
    fn(topology, weights, context);
    return 1;
}

/* A graph that is neither regular nor undirected: a ring with chords from node 0. */
static void write_graph(struct folder *folder, int n_nodes, char text[FOLDER_PATH + 8]) {
    char lines[1024] = "";
    for (int i = 0; i < n_nodes; i++) {
        const size_t used = strlen(lines);
        snprintf(lines + used, sizeof lines - used, "%d %d\n", i, (i + 1) % n_nodes);
        if (i >= 2 && i % 2 == 0) {
            const size_t more = strlen(lines);
            snprintf(lines + more, sizeof lines - more, "0 %d\n", i);
        }
    }
    folder_open(folder);
    snprintf(text, FOLDER_PATH + 8, "file:%s", folder_file(folder, "graph.txt"));
    file_write(text + strlen("file:"), lines, strlen(lines));
}

int gossip_each_graph(int n_nodes, gossip_graph_fn *fn, void *context) {
    static const char *const changing[] = {"random-regular:change=yes", "erdos-renyi:change=yes",
                                           NULL};
    int n = 0;
    for (int i = 0; oct__topology_at(i); i++) {
        const char *name = oct__topology_at(i)->plugin.name;
        if (oct__topology_at(i)->reads_text) {
            struct folder folder;
            char text[FOLDER_PATH + 8];
            write_graph(&folder, n_nodes, text);
            n += try_graph(text, NULL, n_nodes, fn, context);
            folder_close(&folder);
            continue;
        }
        n += try_graph(name, NULL, n_nodes, fn, context);
        if (oct__topology_at(i)->is_undirected) {
            n += try_graph(name, "metropolis", n_nodes, fn, context);
        }
    }
    for (int i = 0; changing[i]; i++) {
        n += try_graph(changing[i], NULL, n_nodes, fn, context);
        n += try_graph(changing[i], "metropolis", n_nodes, fn, context);
    }
    return n;
}

const char *gossip_compressor_at(int index) {
    static const struct {
        const char *name;
        const char *texts[3];
    } strengths[] = {
        {"topk", {"topk:0.8", "topk:0.9,values=int8", "topk:0.8,values=bf16"}},
        {"randk", {"randk:0.8", NULL, NULL}},
        {"qsgd", {"qsgd:4", NULL, NULL}},
    };
    int n = 0;
    for (int i = 0; oct__compressor_at(i); i++) {
        const char *const only[3] = {oct__compressor_at(i)->plugin.name, NULL, NULL};
        const char *const *texts = only;
        for (size_t s = 0; s < OCT_COUNT_OF(strengths); s++) {
            if (strcmp(only[0], strengths[s].name) == 0) {
                texts = strengths[s].texts;
            }
        }
        for (int t = 0; t < 3 && texts[t]; t++, n++) {
            if (n == index) {
                return texts == only ? oct__compressor_at(i)->plugin.name : texts[t];
            }
        }
    }
    return NULL;
}
