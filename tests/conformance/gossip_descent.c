/* SPDX-License-Identifier: Apache-2.0 */
/* gossip_descent.c - nodes on quadratics: see gossip_descent.h. */
#include "conformance/gossip_descent.h"

#include <math.h>
#include <stdlib.h>

#define BETA 0.9F

static double *doubles(int n) {
    double *made = calloc((size_t)n * ROW, sizeof *made);
    assert_non_null(made);
    return made;
}

/* The minimum of the average: (sum A_i) z = sum A_i b_i, by Sherman and Morrison's formula. */
static void find_optimum(struct descent *d) {
    const int n = d->rig.form.n_nodes;
    double *sum = doubles(1), *right = doubles(1);
    double v_right = 0.0, v_v = 0.0;
    for (int i = 0; i < n; i++) {
        double v_b = 0.0;
        for (int k = 0; k < ROW; k++) {
            v_b += d->v[k] * d->b[i * ROW + k];
        }
        for (int k = 0; k < ROW; k++) {
            sum[k] += d->a[i * ROW + k];
            right[k] += d->a[i * ROW + k] * d->b[i * ROW + k] + d->c * d->v[k] * v_b;
        }
    }
    for (int k = 0; k < ROW; k++) {
        v_right += d->v[k] * right[k] / sum[k];
        v_v += d->v[k] * d->v[k] / sum[k];
    }
    const double share = n * d->c * v_right / (1.0 + n * d->c * v_v);
    for (int k = 0; k < ROW; k++) {
        d->optimum[k] = (right[k] - share * d->v[k]) / sum[k];
    }
    free(sum);
    free(right);
}

static void make_problem(struct descent *d, double skew) {
    const int n = d->rig.form.n_nodes;
    struct dice dice = dice_of(31);
    d->a = doubles(n);
    d->b = doubles(n);
    d->v = doubles(1);
    d->optimum = doubles(1);
    d->c = 0.5;
    for (int k = 0; k < ROW; k++) {
        const double common = dice_normal(&dice);
        d->v[k] = is_element(k) ? dice_normal(&dice) / sqrt(ROW) : 0.0;
        for (int i = 0; i < n; i++) {
            d->a[i * ROW + k] = 0.5 + dice_below(&dice, 1000) / 999.0;
            d->b[i * ROW + k] = is_element(k) ? common + skew * dice_normal(&dice) : 0.0;
        }
    }
    find_optimum(d);
}

static void make_call(struct descent *d, enum oct__op op, struct oct__args *args) {
    struct oct__plan plan;
    const char *operands = oct__op_info[op].operands;
    for (int i = 0; operands[i]; i++) {
        args->t[i] = (struct oct__tensor){.stride = ROW * sizeof(float),
                                          .dtype = OCT_DTYPE_F32,
                                          .n = 1,
                                          .h = 1,
                                          .w = 1,
                                          .c = ROW};
    }
    if (op == OCT_OP_SETTLE) {
        args->t[1].c = 1;
        args->t[1].stride = sizeof(float);
        args->t[3].n = d->is_global;
    }
    EXPECT_OK(oct__engine_prepare(d->rig.engine, op, &d->lane.form, args, &plan));
    assert_true(plan.shared_bytes == 0 && plan.thread_bytes == 0);
    args->handle = plan.handle;
}

void descent_open(struct descent *d, struct oct__engine *engine, const struct gossip_form *form,
                  int is_global, double skew) {
    const size_t bytes = (size_t)form->n_nodes * ROW * sizeof(float);
    memset(d, 0, sizeof *d);
    gossip_rig_open(&d->rig, engine, form);
    d->is_global = is_global;
    EXPECT_OK(engine->alloc(engine, bytes, "z", &d->z));
    EXPECT_OK(engine->alloc(engine, bytes, "momentum", &d->momentum));
    EXPECT_OK(engine->alloc(engine, bytes, "gradient", &d->gradient));
    EXPECT_OK(engine->alloc(engine, (size_t)form->n_nodes * sizeof(float), "u", &d->u));
    d->lane = (struct oct__lane){.engine = engine,
                                 .form = {.n_nodes = form->n_nodes, .n_threads = 1, .shard = 1}};
    d->sgd.attr.sgd.beta = BETA;
    d->sgd.attr.sgd.is_global = is_global;
    d->settle.attr.settle.beta = BETA;
    d->settle.attr.settle.share = 1.0 - (double)BETA;
    make_call(d, OCT_OP_SGD, &d->sgd);
    make_call(d, OCT_OP_SETTLE, &d->settle);
    d->sgd.t[0].at = d->rig.x;
    d->sgd.t[1].at = d->momentum;
    d->sgd.t[2].at = d->gradient;
    d->settle.t[0].at = d->rig.x;
    d->settle.t[1].at = d->u;
    d->settle.t[2].at = d->z;
    d->settle.t[3].at = d->momentum;
    d->host_z = calloc((size_t)form->n_nodes * ROW, sizeof(float));
    d->host_gradient = calloc((size_t)form->n_nodes * ROW, sizeof(float));
    assert_true(d->host_z && d->host_gradient);
    make_problem(d, skew);
}

void descent_own(struct descent *d, double own) {
    const double fresh = 1.0 - (double)BETA;
    d->sgd.attr.sgd.own = (float)(fresh * own);
    d->settle.attr.settle.beta = own > 0.0 ? 1.0F : BETA;
    d->settle.attr.settle.share = fresh * (1.0 - own);
}

void descent_keep(struct descent *d, double keep) {
    d->settle.attr.settle.beta = (float)keep;
    d->settle.attr.settle.share = 1.0 - keep;
}

void descent_close(struct descent *d) {
    struct oct__engine *engine = d->rig.engine;
    oct__engine_release(engine, OCT_OP_SGD, d->sgd.handle);
    oct__engine_release(engine, OCT_OP_SETTLE, d->settle.handle);
    engine->free(engine, d->z);
    engine->free(engine, d->momentum);
    engine->free(engine, d->gradient);
    engine->free(engine, d->u);
    free(d->a);
    free(d->b);
    free(d->v);
    free(d->optimum);
    free(d->host_z);
    free(d->host_gradient);
    gossip_rig_close(&d->rig);
}

void descent_start(struct descent *d, const float *x) {
    gossip_rig_write(&d->rig, d->rig.x, x);
    gossip_rig_write(&d->rig, d->z, x);
}

static void find_gradients(struct descent *d, int is_idle) {
    gossip_rig_read(&d->rig, d->z, d->host_z);
    for (int i = 0; i < d->rig.form.n_nodes; i++) {
        const float *z = d->host_z + i * ROW;
        float *g = d->host_gradient + i * ROW;
        const double *a = d->a + i * ROW, *b = d->b + i * ROW;
        double along = 0.0;
        for (int k = 0; k < ROW; k++) {
            along += d->v[k] * ((double)z[k] - b[k]);
        }
        for (int k = 0; k < ROW; k++) {
            const double value = a[k] * ((double)z[k] - b[k]) + d->c * d->v[k] * along;
            g[k] = is_idle || !is_element(k) ? 0.0F : (float)value;
        }
    }
    gossip_rig_write(&d->rig, d->gradient, d->host_gradient);
}

/* Rows of nodes that are away in the step, out of x, z and momentum, or back. */
static void keep_away(struct descent *d, uint32_t step, int is_back) {
    struct oct__engine *engine = d->rig.engine;
    static float kept[3][MOST_NODES][ROW];
    void *const rows[3] = {d->rig.x, d->z, d->momentum};
    for (int node = 0; d->rig.exchange && node < d->rig.form.n_nodes; node++) {
        if (!oct__fault_is_away(&d->rig.exchange->faults->plan, node, step)) {
            continue;
        }
        for (int i = 0; i < 3; i++) {
            float *row = (float *)rows[i] + (size_t)node * ROW;
            EXPECT_OK(is_back ? engine->write(engine, row, kept[i][node], sizeof kept[i][node])
                              : engine->read(engine, kept[i][node], row, sizeof kept[i][node]));
        }
    }
}

void descent_step(struct descent *d, double rate, int is_idle, int is_dense) {
    struct oct__engine *engine = d->rig.engine;
    const int n = d->rig.form.n_nodes;
    const uint32_t step = d->step;
    float u[MOST_NODES];
    keep_away(d, step, 0);
    find_gradients(d, is_idle);
    d->lane.learning_rate = (float)rate;
    EXPECT_OK(oct__engine_run(&d->lane, OCT_OP_SGD, &d->sgd));
    gossip_rig_round(&d->rig, d->step++, is_dense);
    for (int i = 0; i < n; i++) {
        u[i] = (float)d->rig.gossip->u[i];
    }
    EXPECT_OK(engine->write(engine, d->u, u, (size_t)n * sizeof *u));
    EXPECT_OK(oct__engine_run(&d->lane, OCT_OP_SETTLE, &d->settle));
    keep_away(d, step, 1);
}

void descent_distances(const struct descent *d, double *mean, double *nodes) {
    const int n = d->rig.form.n_nodes;
    double of_mean = 0.0, of_nodes = 0.0, length = 0.0, sum_u = 0.0;
    gossip_rig_read(&d->rig, d->rig.x, d->host_gradient);
    gossip_rig_read(&d->rig, d->z, d->host_z);
    for (int i = 0; i < n; i++) {
        sum_u += d->rig.gossip->u[i];
    }
    for (int k = 0; k < ROW; k++) {
        double sum = 0.0;
        for (int i = 0; i < n; i++) {
            const double away = (double)d->host_z[i * ROW + k] - d->optimum[k];
            of_nodes += away * away / n;
            sum += (double)d->host_gradient[i * ROW + k];
        }
        of_mean += (sum / sum_u - d->optimum[k]) * (sum / sum_u - d->optimum[k]);
        length += d->optimum[k] * d->optimum[k];
    }
    *mean = sqrt(of_mean / length);
    *nodes = sqrt(of_nodes / length);
}
