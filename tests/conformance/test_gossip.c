/* SPDX-License-Identifier: Apache-2.0 */
/* test_gossip.c - what every gossip algorithm owes, on every graph and with every compressor.
 *
 *   - the sums of x and of u over the nodes stay what they are;
 *   - each round is what the same algorithm in double makes of it (gossip_model.c);
 *   - nodes that agree go on agreeing, and quasi-global momentum finds nothing to do;
 *   - the complete graph averages in one round;
 *   - with no compression and gamma 1 algorithms agree, and so do their push-sum forms.
 *
 * That they also solve a problem together is test_gossip_quadratics.c's; how a round goes about its
 * work is test_gossip_rounds.c's. Algorithms, graphs and
 * compressors are those of the registries; a new algorithm fails until gossip_model.c knows it.
 */
#include <math.h>
#include <stdlib.h>

#include "conformance/gossip_model.h"
#include "support/folder.h"

/* A float's rounding. */
#define UNIT 0x1p-24

static struct oct__engine *engine;

static int open_engine(void **state) {
    (void)state;
    EXPECT_OK(oct__engine_open("cpu", 3, &engine));
    return 0;
}

static int close_engine(void **state) {
    (void)state;
    oct__engine_close(engine);
    return 0;
}

/* The largest number in any memory of the gossip. */
static double largest_memory(struct gossip_rig *rig) {
    double most = 0.0;
    float *rows = malloc((size_t)rig->form.n_nodes * ROW * sizeof *rows);
    assert_non_null(rows);
    for (int i = 0; i < OCT_MEMORY_COUNT; i++) {
        if (rig->gossip->memory[i]) {
            gossip_rig_read(rig, rig->gossip->memory[i], rows);
            most = fmax(most, gossip_largest(rows, rig->form.n_nodes));
        }
    }
    for (int i = 0; i < rig->gossip->n_replicas; i++) {
        EXPECT_OK(engine->read(engine, rows, rig->gossip->replicas[i].own, ROW * sizeof *rows));
        most = fmax(most, gossip_largest(rows, 1));
    }
    free(rows);
    return most;
}

/* --- the list --------------------------------------------------------------------------------- */

static void names(void **state) {
    (void)state;
    const struct oct_algorithm_kind *kind, *form;
    int n = 0;
    for (int i = 0; (kind = oct__algorithm_at(i)); i++, n++) {
        EXPECT_OK(oct__algorithm_find(kind->plugin.name, &form));
        assert_ptr_equal(form, kind);
        assert_true(strlen(kind->plugin.summary) > 10);
        if (kind->mixing != OCT_MIXING_GOSSIP) {
            continue;
        }
        assert_non_null(kind->plugin.reference);
        assert_true(kind->is_push_sum || kind->push_sum);
        if (kind->push_sum) {
            EXPECT_OK(oct__algorithm_find(kind->push_sum, &form));
            assert_true(form->is_push_sum);
            assert_ptr_equal(form->send, kind->send);
            assert_int_equal(form->memory, kind->memory);
        }
        for (int c = 0; gossip_compressor_at(c); c++) {
            struct oct__compression compression;
            EXPECT_OK(oct__compression_read(gossip_compressor_at(c), &compression));
            const double gamma = kind->gamma(&compression);
            if (!(gamma > 0.0 && gamma <= 1.0)) {
                fail_msg("%s with %s: gamma %g", kind->plugin.name, gossip_compressor_at(c), gamma);
            }
        }
        struct oct__compression none;
        EXPECT_OK(oct__compression_read("none", &none));
        assert_true(kind->gamma(&none) == 1.0);
    }
    print_message("%d algorithms\n", n);
    assert_true(n >= 9);
    EXPECT_FAILURE(oct__algorithm_find("sgd", &kind), OCT_STATUS_NOT_FOUND, "dpsgd, sgp");
    EXPECT_FAILURE(oct__algorithm_find("sgp:2", &kind), OCT_STATUS_INVALID, "no options");
}

static void refusals(void **state) {
    (void)state;
    static const struct {
        const char *topology, *weights;
        int n_nodes;
        const char *more; /* NULL: accepted */
    } graphs[] = {
        {"star", "out-degree", 5, "metropolis"},
        {"chain", "out-degree", 5, "metropolis"},
        {"star", "metropolis", 5, NULL},
        {"chain", "metropolis", 5, NULL},
        {"directed-ring", NULL, 5, NULL},
        {"one-peer-exponential", NULL, 8, NULL},
        {"erdos-renyi:change=yes", "out-degree", 8, "metropolis"},
        {"erdos-renyi:change=yes", "metropolis", 8, NULL},
    };
    const struct oct_algorithm_kind *kind;
    EACH_GOSSIP(kind, a) {
        for (size_t g = 0; g < OCT_COUNT_OF(graphs); g++) {
            const struct gossip_form form = {.algorithm = kind->plugin.name,
                                             .topology = graphs[g].topology,
                                             .weights = graphs[g].weights,
                                             .compress = "none",
                                             .n_nodes = graphs[g].n_nodes};
            struct gossip_rig rig;
            if (kind->is_push_sum || !graphs[g].more) {
                gossip_rig_open(&rig, engine, &form);
                gossip_rig_close(&rig);
            } else {
                EXPECT_FAILURE(gossip_rig_try(&rig, engine, &form), OCT_STATUS_INVALID,
                               kind->push_sum);
                assert_non_null(strstr(oct_last_error(), graphs[g].more));
                assert_non_null(strstr(oct_last_error(), kind->plugin.name));
            }
        }
    }
}

/* A directed graph has no Metropolis weights to propose. */
static void refuses_directed_graphs(void **state) {
    (void)state;
    static const char lines[] = "0 1\n1 2\n2 0\n0 2\n";
    struct folder folder;
    char text[FOLDER_PATH + 8];
    const struct oct_algorithm_kind *kind;
    folder_open(&folder);
    snprintf(text, sizeof text, "file:%s", folder_file(&folder, "graph.txt"));
    file_write(text + strlen("file:"), lines, strlen(lines));
    EACH_GOSSIP(kind, a) {
        const struct gossip_form form = {
            .algorithm = kind->plugin.name, .topology = text, .compress = "none", .n_nodes = 3};
        struct gossip_rig rig;
        if (!kind->is_push_sum) {
            EXPECT_FAILURE(gossip_rig_try(&rig, engine, &form), OCT_STATUS_INVALID, kind->push_sum);
            assert_null(strstr(oct_last_error(), "metropolis"));
        }
    }
    folder_close(&folder);
}

/* --- mass ------------------------------------------------------------------------------------- */

struct survey {
    int n_nodes;
    long n_cases, n_refused;
    double worst; /* relative to what is allowed */
    char where[160];
};

/* Each of a node's launches rounds a product and a sum, relative to the largest number around. */
static double allowance(const struct gossip_rig *rig, double most) {
    const struct oct__mix *mix = rig->gossip->mix;
    return (double)(mix->n_nodes * 4 + 4 * mix->n_edges) * UNIT * most;
}

static void check_mass(struct gossip_rig *rig, struct survey *survey) {
    static double before[ROW], after[ROW];
    static float start[MOST_NODES * ROW];
    const int n = rig->form.n_nodes;
    if (start[0] == 0.0F) {
        gossip_fill(start, MOST_NODES, 0.5, 11);
    }
    gossip_rig_write(rig, rig->x, start);
    for (uint32_t round = 0; round < 5; round++) {
        gossip_wander(rig, round);
        double most = gossip_largest(rig->host, n);
        gossip_sum(rig->host, n, before);
        gossip_rig_round(rig, round, 0);
        gossip_rig_read(rig, rig->x, rig->host);
        gossip_sum(rig->host, n, after);
        most = fmax(fmax(most, gossip_largest(rig->host, n)), largest_memory(rig));
        const double allowed = allowance(rig, most);
        double sum_u = 0.0;
        for (int i = 0; i < n; i++) {
            sum_u += rig->gossip->u[i];
            assert_true(rig->gossip->config.algorithm->is_push_sum || rig->gossip->u[i] == 1.0);
        }
        for (int k = 0; k < ROW; k++) {
            const double error = fabs(after[k] - before[k]);
            if (!(error <= allowed)) {
                fail_msg("%s on %s (%s), %s, %d nodes, round %u: sum of x[%d] from %.9g to %.9g, "
                         "allowed %.2g",
                         rig->form.algorithm, rig->form.topology,
                         rig->form.weights ? rig->form.weights : "-", rig->form.compress, n, round,
                         k, before[k], after[k], allowed);
            }
            if (error / allowed > survey->worst) {
                survey->worst = error / allowed;
                snprintf(survey->where, sizeof survey->where, "%s on %.40s, %s",
                         rig->form.algorithm, rig->form.topology, rig->form.compress);
            }
        }
        if (!(fabs(sum_u - n) <= 1e-13 * n)) {
            fail_msg("%s on %s: sum of u is %.17g of %d nodes", rig->form.algorithm,
                     rig->form.topology, sum_u, n);
        }
    }
}

static void mass_on(const char *topology, const char *weights, void *context) {
    struct survey *survey = context;
    const struct oct_algorithm_kind *kind;
    EACH_GOSSIP(kind, a) {
        for (int c = 0; gossip_compressor_at(c); c++) {
            const struct gossip_form form = {.algorithm = kind->plugin.name,
                                             .topology = topology,
                                             .weights = weights,
                                             .compress = gossip_compressor_at(c),
                                             .n_nodes = survey->n_nodes};
            struct gossip_rig rig;
            if (!gossip_rig_opens(&rig, engine, &form)) {
                survey->n_refused++;
                continue;
            }
            check_mass(&rig, survey);
            survey->n_cases++;
            gossip_rig_close(&rig);
        }
    }
}

static void mass_is_kept(void **state) {
    (void)state;
    static const int numbers[] = {5, 8};
    for (size_t i = 0; i < OCT_COUNT_OF(numbers); i++) {
        struct survey survey = {.n_nodes = numbers[i]};
        const int n_graphs = gossip_each_graph(numbers[i], mass_on, &survey);
        print_message("%d nodes, %d graphs: %ld cases, %ld refused; at most %.3f of what is "
                      "allowed: %s\n",
                      numbers[i], n_graphs, survey.n_cases, survey.n_refused, survey.worst,
                      survey.where);
        assert_true(n_graphs >= 14);
        assert_true(survey.n_cases > 700);
    }
}

/* --- against the algorithms in double --------------------------------------------------------- */

static void compare_models(const struct gossip_rig *rig, const struct gossip_model *model,
                           uint32_t round, double *worst) {
    for (int i = 0; i < rig->form.n_nodes * ROW; i++) {
        const double wanted = model->x[i], found = (double)rig->host[i];
        const double error = fabs(found - wanted) / fmax(1.0, fabs(wanted));
        if (!(error <= 2e-5)) {
            fail_msg("%s on %s, %s, round %u: node %d, element %d is %.9g, in double %.9g",
                     rig->form.algorithm, rig->form.topology, rig->form.compress, round, i / ROW,
                     i % ROW, found, wanted);
        }
        *worst = fmax(*worst, error);
    }
    for (int i = 0; i < rig->form.n_nodes; i++) {
        const double error = fabs(rig->gossip->u[i] - model->u[i]);
        if (!(error <= 1e-5)) {
            fail_msg("%s on %s, round %u: u of node %d is %.9g, in double %.9g",
                     rig->form.algorithm, rig->form.topology, round, i, rig->gossip->u[i],
                     model->u[i]);
        }
    }
}

static void model_on(const char *topology, const char *weights, void *context) {
    struct survey *survey = context;
    static const struct {
        const char *text;
        double drop, gamma;
    } compressions[] = {{"none", 0.0, 0.7}, {"topk:0.8", 0.8, 0.3}};
    const struct oct_algorithm_kind *kind;
    for (int a = 0; (kind = oct__algorithm_at(a)); a++) {
        for (size_t c = 0; c < OCT_COUNT_OF(compressions); c++) {
            const struct gossip_form form = {.algorithm = kind->plugin.name,
                                             .topology = topology,
                                             .weights = weights,
                                             .compress = compressions[c].text,
                                             .n_nodes = survey->n_nodes,
                                             .gamma = compressions[c].gamma,
                                             .has_dense_rounds = 1,
                                             .hold = 2};
            struct gossip_rig rig;
            struct gossip_model model;
            double w[MOST_NODES * MOST_NODES];
            if (!gossip_rig_opens(&rig, engine, &form)) {
                continue;
            }
            model_open(&model, kind->plugin.name, survey->n_nodes, rig.gossip->is_changing,
                       compressions[c].gamma, compressions[c].drop);
            gossip_fill(rig.host, survey->n_nodes, 0.5, 12);
            gossip_rig_write(&rig, rig.x, rig.host);
            for (int i = 0; i < survey->n_nodes * ROW; i++) {
                model.x[i] = (double)rig.host[i];
            }
            for (uint32_t round = 0; round < 7; round++) {
                const struct oct__mix *mix;
                EXPECT_OK(oct__topology_mix(rig.topology, round, &mix));
                model_matrix(mix, w);
                model_round(&model, w, round == 4);
                gossip_rig_round(&rig, round, round == 4);
                gossip_rig_read(&rig, rig.x, rig.host);
                compare_models(&rig, &model, round, &survey->worst);
            }
            survey->n_cases++;
            model_close(&model);
            gossip_rig_close(&rig);
        }
    }
}

static void rounds_are_those_of_the_model(void **state) {
    (void)state;
    struct survey survey = {.n_nodes = 5};
    const int n_graphs = gossip_each_graph(5, model_on, &survey);
    print_message("%d graphs: %ld cases, at most %.1e from the model\n", n_graphs, survey.n_cases,
                  survey.worst);
    assert_true(survey.n_cases > 150);
}

/* --- agreement -------------------------------------------------------------------------------- */

/* u = n * pi with W pi = pi, by going round long enough. */
static void stationary(const struct oct__mix *mix, double *u) {
    const int n = mix->n_nodes;
    double w[MOST_NODES * MOST_NODES], next[MOST_NODES];
    model_matrix(mix, w);
    for (int i = 0; i < n; i++) {
        u[i] = 1.0;
    }
    for (int round = 0; round < 2000; round++) {
        for (int i = 0; i < n; i++) {
            next[i] = 0.0;
            for (int j = 0; j < n; j++) {
                next[i] += w[i * n + j] * u[j];
            }
        }
        memcpy(u, next, (size_t)n * sizeof *u);
    }
}

/* z of every node is x0 still. */
static void check_agreement(struct gossip_rig *rig, const float *x0, uint32_t round,
                            double tolerance, double *worst) {
    gossip_rig_read(rig, rig->x, rig->host);
    for (int i = 0; i < rig->form.n_nodes * ROW; i++) {
        const double z = (double)rig->host[i] / rig->gossip->u[i / ROW];
        const double error = fabs(z - (double)x0[i % ROW]);
        if (!(error <= tolerance * fmax(1.0, fabs((double)x0[i % ROW])))) {
            fail_msg("%s on %s (%s), %s, round %u: z of node %d, element %d went from %.9g to %.9g",
                     rig->form.algorithm, rig->form.topology,
                     rig->form.weights ? rig->form.weights : "-", rig->form.compress, round,
                     i / ROW, i % ROW, (double)x0[i % ROW], z);
        }
        *worst = fmax(*worst, error);
    }
}

static void agreement_on(const char *topology, const char *weights, void *context) {
    struct survey *survey = context;
    static const char *const compressors[] = {"none", "topk:0.8"};
    const struct oct_algorithm_kind *kind;
    static float x0[ROW];
    gossip_fill(x0, 1, 1.0, 13);
    EACH_GOSSIP(kind, a) {
        for (size_t c = 0; c < OCT_COUNT_OF(compressors); c++) {
            const struct gossip_form form = {.algorithm = kind->plugin.name,
                                             .topology = topology,
                                             .weights = weights,
                                             .compress = compressors[c],
                                             .n_nodes = survey->n_nodes};
            struct gossip_rig rig;
            if (!gossip_rig_opens(&rig, engine, &form)) {
                continue;
            }
            if (c > 0 && rig.gossip->is_changing && kind->is_push_sum) {
                gossip_rig_close(&rig); /* no u is stationary there */
                continue;
            }
            if (c > 0) {
                const struct oct__mix *mix;
                EXPECT_OK(oct__topology_mix(rig.topology, 0, &mix));
                stationary(mix, rig.gossip->u);
            }
            for (int i = 0; i < survey->n_nodes * ROW; i++) {
                rig.host[i] = (float)(rig.gossip->u[i / ROW] * (double)x0[i % ROW]);
            }
            gossip_rig_write(&rig, rig.x, rig.host);
            for (uint32_t round = 0; round < 12; round++) {
                gossip_rig_round(&rig, round, 0);
                check_agreement(&rig, x0, round, 1e-5, &survey->worst);
            }
            survey->n_cases++;
            gossip_rig_close(&rig);
        }
    }
}

static void agreement_stays(void **state) {
    (void)state;
    struct survey survey = {.n_nodes = 5};
    gossip_each_graph(5, agreement_on, &survey);
    print_message("%ld cases, at most %.1e away\n", survey.n_cases, survey.worst);
    assert_true(survey.n_cases > 150);
}

/* --- the complete graph ----------------------------------------------------------------------- */

static void complete_graph_averages(void **state) {
    (void)state;
    static const char *const weights[] = {"out-degree", "metropolis"};
    const struct oct_algorithm_kind *kind;
    double worst = 0.0;
    EACH_GOSSIP(kind, a) {
        for (int n = 2; n <= 8; n++) {
            const struct gossip_form form = {.algorithm = kind->plugin.name,
                                             .topology = "complete",
                                             .weights = weights[n % 2],
                                             .compress = "none",
                                             .n_nodes = n};
            struct gossip_rig rig;
            static double sums[ROW];
            gossip_rig_open(&rig, engine, &form);
            gossip_fill(rig.host, n, 1.0, 14);
            gossip_sum(rig.host, n, sums);
            const double most = gossip_largest(rig.host, n);
            gossip_rig_write(&rig, rig.x, rig.host);
            gossip_rig_round(&rig, 0, 0);
            gossip_rig_read(&rig, rig.x, rig.host);
            for (int i = 0; i < n * ROW; i++) {
                const double z = (double)rig.host[i] / rig.gossip->u[i / ROW];
                const double error = fabs(z - sums[i % ROW] / n);
                if (!(error <= 4.0 * (n + 2) * UNIT * most)) {
                    fail_msg("%s, %d nodes: node %d, element %d is %.9g, the mean %.9g",
                             kind->plugin.name, n, i / ROW, i % ROW, z, sums[i % ROW] / n);
                }
                worst = fmax(worst, error);
            }
            gossip_rig_close(&rig);
        }
    }
    print_message("at most %.1e from the mean\n", worst);
}

/* --- algorithms agree without compression ----------------------------------------------------- */

static void run_alone(const char *algorithm, const char *topology, float *out) {
    const struct gossip_form form = {
        .algorithm = algorithm, .topology = topology, .compress = "none", .n_nodes = 8};
    struct gossip_rig rig;
    gossip_rig_open(&rig, engine, &form);
    gossip_fill(rig.host, 8, 0.5, 15);
    gossip_rig_write(&rig, rig.x, rig.host);
    for (uint32_t round = 0; round < 15; round++) {
        gossip_wander(&rig, round);
        gossip_rig_round(&rig, round, 0);
    }
    gossip_rig_read(&rig, rig.x, rig.host);
    for (int i = 0; i < 8; i++) {
        assert_true(rig.gossip->u[i] == 1.0); /* to the bit on a regular graph */
    }
    memcpy(out, rig.host, 8 * ROW * sizeof *out);
    gossip_rig_close(&rig);
}

static void algorithms_agree_without_compression(void **state) {
    (void)state;
    static const char *const graphs[] = {"directed-ring", "ring", "one-peer-exponential",
                                         "random-regular:change=yes"};
    static float first[8 * ROW], found[8 * ROW];
    const struct oct_algorithm_kind *kind;
    for (size_t g = 0; g < OCT_COUNT_OF(graphs); g++) {
        run_alone("dpsgd", graphs[g], first);
        EACH_GOSSIP(kind, a) {
            double worst = 0.0;
            run_alone(kind->plugin.name, graphs[g], found);
            for (int i = 0; i < 8 * ROW; i++) {
                worst = fmax(worst, fabs((double)found[i] - (double)first[i]));
            }
            print_message("%s on %s: %.1e from dpsgd\n", kind->plugin.name, graphs[g], worst);
            if (!(worst <= 5e-6)) {
                fail_msg("%s on %s: %.9g from dpsgd", kind->plugin.name, graphs[g], worst);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(refusals),
        cmocka_unit_test(refuses_directed_graphs),
        cmocka_unit_test(mass_is_kept),
        cmocka_unit_test(rounds_are_those_of_the_model),
        cmocka_unit_test(agreement_stays),
        cmocka_unit_test(complete_graph_averages),
        cmocka_unit_test(algorithms_agree_without_compression),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
