/* SPDX-License-Identifier: Apache-2.0 */
/* gossip_model.c - the algorithms in double: see gossip_model.h. */
#include "conformance/gossip_model.h"

#include <math.h>
#include <stdlib.h>

static double *rows(int n) {
    double *made = calloc((size_t)n * ROW, sizeof *made);
    assert_non_null(made);
    return made;
}

void model_open(struct gossip_model *model, const char *algorithm, int n_nodes, int is_changing,
                double gamma, double drop) {
    static const struct {
        const char *name;
        int method, is_push_sum;
    } known[] = {
        {"dpsgd", MODEL_PLAIN, 0},
        {"sgp", MODEL_PLAIN, 1},
        {"deepsqueeze", MODEL_FEEDBACK, 0},
        {"sparse-push", MODEL_FEEDBACK, 1},
        {"sc-sparse-push", MODEL_FEEDBACK, 1},
        {"choco", MODEL_REPLICA, 0},
        {"quant-sgp", MODEL_REPLICA, 1},
        {"none", MODEL_NONE, 0},
        {"allreduce", MODEL_AVERAGE, 0},
    };
    memset(model, 0, sizeof *model);
    size_t which = 0;
    while (which < OCT_COUNT_OF(known) && strcmp(known[which].name, algorithm) != 0) {
        which++;
    }
    if (which == OCT_COUNT_OF(known)) {
        fail_msg("%s: gossip_model.c does not know its messages", algorithm);
    }
    model->method = known[which].method;
    model->is_push_sum = known[which].is_push_sum;
    model->n_nodes = n_nodes;
    model->is_changing = is_changing;
    model->gamma = gamma;
    model->drop = drop;
    model->x = rows(n_nodes);
    model->error = rows(n_nodes);
    model->replica = rows(n_nodes);
    model->edge = rows(n_nodes * n_nodes);
    model->u = rows(1);
    for (int i = 0; i < n_nodes; i++) {
        model->u[i] = 1.0;
    }
}

void model_close(struct gossip_model *model) {
    free(model->x);
    free(model->u);
    free(model->error);
    free(model->replica);
    free(model->edge);
}

void model_matrix(const struct oct__mix *mix, double *w) {
    for (int i = 0; i < mix->n_nodes * mix->n_nodes; i++) {
        w[i] = 0.0;
    }
    for (int i = 0; i < mix->n_nodes; i++) {
        w[i * mix->n_nodes + i] = mix->self[i];
        for (int e = mix->in_start[i]; e < mix->in_start[i + 1]; e++) {
            w[i * mix->n_nodes + mix->from[e]] = mix->weight[e];
        }
    }
}

struct ranked {
    double magnitude;
    size_t at;
};

static int by_magnitude(const void *a, const void *b) {
    const struct ranked *left = a, *right = b;
    if (left->magnitude != right->magnitude) {
        return left->magnitude < right->magnitude ? 1 : -1;
    }
    return left->at < right->at ? -1 : 1;
}

/* The k largest magnitudes of each tensor; of equal ones the first. */
static void compress(double drop, const double *v, double *out) {
    memset(out, 0, ROW * sizeof *out);
    for (size_t s = 0; s < N_SPANS; s++) {
        const size_t first = gossip_spans[s].offset, count = gossip_spans[s].count;
        struct ranked ranked[ROW];
        size_t keep = (size_t)floor((double)count * (1.0 - drop) + 1e-6);
        keep = keep < 1 ? 1 : keep;
        for (size_t i = 0; i < count; i++) {
            ranked[i] = (struct ranked){fabs(v[first + i]), first + i};
        }
        if (keep < count) {
            qsort(ranked, count, sizeof *ranked, by_magnitude);
        }
        for (size_t k = 0; k < keep; k++) {
            out[ranked[k].at] = v[ranked[k].at];
        }
    }
}

/* x_i += gamma * sum_j (W_ij - I_ij) m_j, with one m for each sender. */
static void mix_messages(struct gossip_model *model, const double *w, double gamma,
                         const double *m) {
    const int n = model->n_nodes;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            const double factor = gamma * (w[i * n + j] - (i == j));
            for (int k = 0; k < ROW; k++) {
                model->x[i * ROW + k] += factor * m[j * ROW + k];
            }
        }
    }
}

/* The same with one m for each edge: what goes to i is taken off at j. */
static void mix_edges(struct gossip_model *model, const double *w) {
    const int n = model->n_nodes;
    double *x = rows(n), *difference = rows(1), *sent = rows(1);
    memcpy(x, model->x, (size_t)n * ROW * sizeof *x);
    for (int j = 0; j < n; j++) {
        for (int i = 0; i < n; i++) {
            if (i == j || w[i * n + j] == 0.0) {
                continue;
            }
            double *replica = model->edge + (j * n + i) * ROW;
            for (int k = 0; k < ROW; k++) {
                difference[k] = x[j * ROW + k] - replica[k];
            }
            compress(model->drop, difference, sent);
            for (int k = 0; k < ROW; k++) {
                replica[k] += sent[k];
                model->x[i * ROW + k] += model->gamma * w[i * n + j] * replica[k];
                model->x[j * ROW + k] -= model->gamma * w[i * n + j] * replica[k];
            }
        }
    }
    free(x);
    free(difference);
    free(sent);
}

static void mix_weights(struct gossip_model *model, const double *w, double gamma) {
    const int n = model->n_nodes;
    double u[MOST_NODES];
    memcpy(u, model->u, (size_t)n * sizeof *u);
    for (int i = 0; i < n && model->is_push_sum; i++) {
        for (int j = 0; j < n; j++) {
            model->u[i] += gamma * (w[i * n + j] - (i == j)) * u[j];
        }
    }
}

static void average(struct gossip_model *model) {
    for (int k = 0; k < ROW; k++) {
        double sum = 0.0;
        for (int i = 0; i < model->n_nodes; i++) {
            sum += model->x[i * ROW + k];
        }
        for (int i = 0; i < model->n_nodes; i++) {
            model->x[i * ROW + k] = sum / model->n_nodes;
        }
    }
}

/* The message of node `j`. */
static void message(struct gossip_model *model, int j, double *m) {
    const double *x = model->x + j * ROW;
    double *error = model->error + j * ROW, *replica = model->replica + j * ROW;
    double v[ROW], sent[ROW];
    switch (model->method) {
    case MODEL_PLAIN:
        compress(model->drop, x, m);
        break;
    case MODEL_FEEDBACK:
        for (int k = 0; k < ROW; k++) {
            v[k] = x[k] + error[k];
        }
        compress(model->drop, v, m);
        for (int k = 0; k < ROW; k++) {
            error[k] = v[k] - m[k];
        }
        break;
    default:
        for (int k = 0; k < ROW; k++) {
            v[k] = x[k] - replica[k];
        }
        compress(model->drop, v, sent);
        for (int k = 0; k < ROW; k++) {
            m[k] = replica[k] += sent[k];
        }
        break;
    }
}

void model_round(struct gossip_model *model, const double *w, int is_dense) {
    const double gamma = is_dense ? 1.0 : model->gamma;
    if (model->method == MODEL_NONE) {
        return;
    }
    if (model->method == MODEL_AVERAGE) {
        average(model);
        return;
    }
    mix_weights(model, w, gamma);
    if (model->method == MODEL_REPLICA && model->is_changing && !is_dense) {
        mix_edges(model, w);
        return;
    }
    double *m = rows(model->n_nodes);
    for (int j = 0; j < model->n_nodes; j++) {
        if (is_dense) {
            memcpy(m + j * ROW, model->x + j * ROW, ROW * sizeof *m);
        } else {
            message(model, j, m + j * ROW);
        }
    }
    mix_messages(model, w, gamma, m);
    free(m);
}
