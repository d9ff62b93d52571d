/* SPDX-License-Identifier: Apache-2.0 */
/* test_nodes.c - figures of nodes and edges: they add up to the run's, and a run that was stopped and
 * resumed has the same ones. */
#include <math.h>
#include <stdlib.h>

#include <octet/octet.h>

#include "base/alloc.h"
#include "base/folder.h"
#include "base/sha256.h"
#include "scratch.h"
#include "support/check.h"
#include "support/folder.h"
#include "train/ledger.h"
#include "train/trainer.h"

/* --- the ledger ------------------------------------------------------------------------------ */

/* Random graphs, one after another, against a table of all pairs. */
static void edges_as_they_come(void **state) {
    (void)state;
    enum { NODES = 23, ROUNDS = 40 };
    static uint64_t bytes[NODES][NODES], messages[NODES][NODES];
    struct dice dice = dice_of(3);
    struct oct__ledger ledger;
    EXPECT_OK(oct__ledger_init(&ledger, NODES, 5));
    for (int round = 0; round < ROUNDS; round++) {
        struct oct__edge_list list = {0};
        struct oct__mix mix;
        const int n = dice_below(&dice, 3 * NODES);
        for (int i = 0; i < n; i++) {
            int from = dice_below(&dice, NODES), to = dice_below(&dice, NODES - 1);
            EXPECT_OK(oct__edge_add(&list, from, to + (to >= from), 0));
        }
        EXPECT_OK(oct__mix_init(&mix, NODES, &list, OCT_WEIGHTS_BY_ITSELF));
        EXPECT_OK(oct__ledger_enter(&ledger, &mix));
        for (int from = 0; from < NODES; from++) {
            for (int e = mix.out_start[from]; e < mix.out_start[from + 1]; e++) {
                const uint64_t length = (uint64_t)dice_below(&dice, 1000);
                oct__ledger_count(&ledger, from, mix.to[e], length);
                bytes[from][mix.to[e]] += length;
                messages[from][mix.to[e]]++;
            }
        }
        oct__mix_fini(&mix);
        oct__free(list.edges);
    }
    EXPECT_OK(oct__ledger_enter_edge(&ledger, 3, 3 - 1));
    EXPECT_OK(oct__ledger_enter_edge(&ledger, NODES - 1, 0));
    int edge = 0;
    for (int from = 0; from < NODES; from++) {
        uint64_t sent = 0;
        for (int to = 0; to < NODES; to++) {
            sent += bytes[from][to];
            const struct oct__carried *carried = oct__ledger_find(&ledger, from, to);
            if (!carried) {
                assert_int_equal(messages[from][to], 0);
                continue;
            }
            assert_int_equal(carried->bytes, bytes[from][to]);
            assert_int_equal(carried->messages, messages[from][to]);
            assert_int_equal(ledger.to[edge], to); /* in order */
            assert_int_equal(oct__ledger_from(&ledger, edge), from);
            edge++;
        }
        assert_int_equal(ledger.sent[from], sent);
    }
    print_message("%d edges of %d nodes after %d graphs\n", edge, NODES, ROUNDS);
    assert_int_equal(edge, oct__ledger_edges(&ledger));
    assert_true(edge > NODES * NODES / 2);
    oct__ledger_fini(&ledger);
}

static void too_many_nodes(void **state) {
    (void)state;
    struct oct__ledger ledger;
    EXPECT_OK(oct__ledger_init(&ledger, OCT_LEDGER_NODES + 1, 10));
    EXPECT_OK(oct__ledger_enter_edge(&ledger, 7, 8));
    oct__ledger_count(&ledger, 7, 8, 100);
    assert_int_equal(ledger.sent[7], 100);
    assert_int_equal(oct__ledger_edges(&ledger), 0);
    assert_null(oct__ledger_find(&ledger, 7, 8));
    oct__ledger_fini(&ledger);
}

/* --- runs ------------------------------------------------------------------------------------ */

enum { N_NODES = 5, N_CLASSES = 4, N_SAMPLES = 61, N_EPOCHS = 3 };

static const struct network {
    const char *algorithm, *topology, *transport;
} networks[] = {
    {"sgp", "directed-ring", "inproc"},                      /* one graph */
    {"sgp", "ring", "loopback"},                             /* messages that travel */
    {"sgp", "one-peer-exponential", "inproc"},               /* some graphs, in turn */
    {"choco", "one-peer-exponential", "inproc"},             /* a message for each edge */
    {"sgp", "random-regular:degree=2,change=yes", "inproc"}, /* ever new ones */
    {"allreduce", "ring", "inproc"},
    {"none", "ring", "inproc"},
};

static struct oct_config *configure(const struct network *network) {
    const char *const pairs[][2] = {
        {"model", "resnet20:width=2,blocks=1"},
        {"data", "synthetic:samples=61,size=6,classes=4"},
        {"partition", "dirichlet:0.5"},
        {"batch", "2"},
        {"epochs", "3"},
        {"norm", "groupnorm"},
        {"nodes", "5"},
        {"threads", "2"},
        {"final-gossip", "2"},
        {"momentum", "local"},
        {"algorithm", network->algorithm},
        {"topology", network->topology},
        {"transport", network->transport},
        {"compress", "topk:0.9,values=int8"},
    };
    struct oct_config *config = NULL;
    EXPECT_OK(oct_config_create(&config));
    for (size_t i = 0; i < OCT_COUNT_OF(pairs); i++) {
        EXPECT_OK(oct_config_set(config, pairs[i][0], pairs[i][1]));
    }
    return config;
}

/* The run's figures and the sums, or means, of the nodes'. */
static void expect_sums(const struct oct_trainer *trainer, double loss, double accuracy,
                        double distance, uint64_t bytes) {
    double sums[3] = {0};
    uint64_t sent = 0, over_edges = 0;
    int64_t held = 0;
    struct oct_node node;
    struct oct_traffic edge, before = {.from = -1};
    uint64_t by_sender[N_NODES] = {0};
    for (int i = 0; i < N_NODES; i++) {
        EXPECT_OK(oct_trainer_node(trainer, i, &node));
        sums[0] += node.loss / N_NODES;
        sums[1] += node.accuracy / N_NODES;
        sums[2] += node.consensus_distance / N_NODES;
        sent += node.bytes_sent;
        held += node.n_samples;
        int64_t classes = 0;
        for (int label = 0; label < N_CLASSES; label++) {
            assert_true(oct_trainer_holding(trainer, i, label) >= 0);
            classes += oct_trainer_holding(trainer, i, label);
        }
        assert_int_equal(classes, node.n_samples);
    }
    for (int64_t i = 0; oct_trainer_edge(trainer, i, &edge) == OCT_OK; i++) {
        assert_true(edge.from > before.from || (edge.from == before.from && edge.to > before.to));
        assert_true(edge.messages > 0 && edge.bytes >= edge.messages);
        by_sender[edge.from] += edge.bytes;
        over_edges += edge.bytes;
        before = edge;
    }
    for (int i = 0; i < N_NODES; i++) {
        EXPECT_OK(oct_trainer_node(trainer, i, &node));
        assert_int_equal(by_sender[i], node.bytes_sent);
    }
    print_message("loss %.9g and %.9g, accuracy %g and %g, distance %.6g and %.6g, %llu, %llu and "
                  "%llu bytes\n",
                  loss, sums[0], accuracy, sums[1], distance, sums[2], (unsigned long long)bytes,
                  (unsigned long long)sent, (unsigned long long)over_edges);
    assert_true(fabs(sums[0] - loss) <= 1e-12 * fabs(loss));
    assert_true(fabs(sums[1] - accuracy) <= 1e-9);
    assert_true(fabs(sums[2] - distance) <= 1e-12 * distance);
    assert_int_equal(held, N_SAMPLES);
    assert_int_equal(sent, bytes);
    assert_int_equal(over_edges, bytes);
}

struct seen {
    const struct oct_trainer *trainer;
    int n_ends;
};

static int look(const struct oct_progress *p, void *context) {
    struct seen *seen = context;
    struct oct_node node;
    if (p->phase == OCT_PHASE_EPOCH_END) {
        seen->n_ends++;
        expect_sums(seen->trainer, p->loss, p->accuracy, p->consensus_distance, p->bytes_sent);
    } else if (p->phase == OCT_PHASE_TRAIN && p->step == 1) {
        EXPECT_OK(oct_trainer_node(seen->trainer, 0, &node));
        assert_true(isnan(node.loss) && isnan(node.consensus_distance)); /* no epoch yet */
    }
    return 0;
}

static void they_add_up(void **state) {
    (void)state;
    for (size_t n = 0; n < OCT_COUNT_OF(networks); n++) {
        struct seen seen = {0};
        const struct oct_hooks hooks = {.progress = look, .progress_context = &seen};
        struct oct_config *config = configure(&networks[n]);
        struct oct_trainer *trainer = NULL;
        struct oct_result result;
        struct oct_node node;
        print_message("%s on %s\n", networks[n].algorithm, networks[n].topology);
        EXPECT_OK(oct_trainer_create(config, &hooks, &trainer));
        seen.trainer = trainer;
        EXPECT_OK(oct_trainer_run(trainer));
        assert_int_equal(seen.n_ends, N_EPOCHS);
        EXPECT_OK(oct_trainer_node(trainer, 0, &node));
        assert_true(isnan(node.test_accuracy));
        EXPECT_OK(oct_trainer_result(trainer, &result));
        double mean = 0, least = 100;
        for (int i = 0; i < N_NODES; i++) {
            EXPECT_OK(oct_trainer_node(trainer, i, &node));
            mean += node.test_accuracy / N_NODES;
            least = fmin(least, node.test_accuracy);
        }
        assert_true(fabs(mean - result.accuracy_nodes) < 1e-9 && least == result.accuracy_least);
        oct_trainer_destroy(trainer);
        oct_config_destroy(config);
    }
}

static void outside(void **state) {
    (void)state;
    struct oct_config *config = configure(&networks[1]);
    struct oct_trainer *trainer = NULL;
    struct oct_node node;
    struct oct_traffic edge;
    EXPECT_OK(oct_trainer_create(config, NULL, &trainer));
    EXPECT_FAILURE(oct_trainer_node(trainer, N_NODES, &node), OCT_STATUS_NOT_FOUND, "nodes 0 to 4");
    EXPECT_FAILURE(oct_trainer_node(trainer, -1, &node), OCT_STATUS_NOT_FOUND, "nodes 0 to 4");
    EXPECT_FAILURE(oct_trainer_edge(trainer, 0, &edge), OCT_STATUS_NOT_FOUND, "0 edges");
    EXPECT_FAILURE(oct_trainer_edge(trainer, -1, &edge), OCT_STATUS_NOT_FOUND, "0 edges");
    EXPECT_FAILURE(oct_trainer_node(NULL, 0, &node), OCT_STATUS_INVALID, "trainer");
    EXPECT_FAILURE(oct_trainer_edge(NULL, 0, &edge), OCT_STATUS_INVALID, "trainer");
    assert_int_equal(oct_trainer_holding(trainer, N_NODES, 0), -1);
    assert_int_equal(oct_trainer_holding(trainer, -1, 0), -1);
    assert_int_equal(oct_trainer_holding(trainer, 0, N_CLASSES), -1);
    assert_int_equal(oct_trainer_holding(trainer, 0, -1), -1);
    assert_int_equal(oct_trainer_holding(NULL, 0, 0), -1);
    oct_trainer_destroy(trainer);
    oct_config_destroy(config);
}

/* --- stopped and resumed --------------------------------------------------------------------- */

/* Every figure, in its bits. */
static void sum_up(const struct oct_trainer *trainer, char out[OCT_SHA256_TEXT]) {
    struct oct__sha256 sha;
    struct oct_node node;
    struct oct_traffic edge;
    oct__sha256_init(&sha);
    for (int i = 0; oct_trainer_node(trainer, i, &node) == OCT_OK; i++) {
        oct__sha256_add(&sha, &node, sizeof node);
    }
    for (int64_t i = 0; oct_trainer_edge(trainer, i, &edge) == OCT_OK; i++) {
        oct__sha256_add(&sha, &edge, sizeof edge);
    }
    oct__sha256_text(&sha, out);
}

static int count_down(const struct oct_progress *p, void *context) {
    (void)p;
    return --*(int *)context == 0;
}

static void run_pieces(const struct network *network, const char *path, int reports, int *n_stops,
                       char out[OCT_SHA256_TEXT]) {
    for (int piece = 0;; piece++) {
        int left = reports;
        const struct oct_hooks hooks = {.progress = count_down, .progress_context = &left};
        struct oct_config *config = configure(network);
        struct oct_trainer *trainer = NULL;
        struct oct_result result;
        EXPECT_OK(oct_config_set(config, "checkpoint", path));
        if (piece > 0) {
            EXPECT_OK(oct_config_set(config, "resume", path));
        }
        EXPECT_OK(oct_trainer_create(config, &hooks, &trainer));
        oct_status status = oct_trainer_run(trainer);
        if (status == OCT_OK) {
            EXPECT_OK(oct_trainer_result(trainer, &result));
            sum_up(trainer, out);
        } else {
            assert_int_equal(status, OCT_STATUS_CANCELLED);
            ++*n_stops;
        }
        oct_trainer_destroy(trainer);
        oct_config_destroy(config);
        if (status == OCT_OK) {
            return;
        }
    }
}

static void the_same_when_resumed(void **state) {
    (void)state;
    struct folder scratch;
    folder_open(&scratch);
    for (size_t n = 0; n < OCT_COUNT_OF(networks); n++) {
        char path[FOLDER_PATH + 32], whole[OCT_SHA256_TEXT], pieces[OCT_SHA256_TEXT];
        int n_stops = 0;
        snprintf(path, sizeof path, "%s/whole%zu", scratch.path, n);
        run_pieces(&networks[n], path, 1 << 20, &n_stops, whole);
        assert_int_equal(n_stops, 0);
        assert_int_equal(oct__folder_remove(path), 0);
        snprintf(path, sizeof path, "%s/pieces%zu", scratch.path, n);
        run_pieces(&networks[n], path, 6, &n_stops, pieces);
        assert_int_equal(oct__folder_remove(path), 0);
        print_message("%s on %s: %.12s…, stopped %d times: %.12s…\n", networks[n].algorithm,
                      networks[n].topology, whole, n_stops, pieces);
        assert_true(n_stops >= 4);
        assert_string_equal(whole, pieces);
    }
    folder_close(&scratch);
}

/* Rewrites the lines of a manifest by `change` (NULL: drops the nodes' and edges' counters), with a
 * right sum at its end. */
static void rewrite(const char *path, const char *from, const char *to) {
    size_t n;
    char *text = (char *)file_read(path, &n), *out = calloc(1, n + 200);
    assert_non_null(out);
    size_t used = 0;
    text = realloc(text, n + 1);
    assert_non_null(text);
    text[n] = '\0';
    for (char *line = text; *line;) {
        char *end = strchr(line, '\n') + 1;
        const size_t length = (size_t)(end - line);
        if (strncmp(line, "end ", 4) == 0) {
            break;
        }
        if (from && strncmp(line, from, strlen(from)) == 0) {
            used += (size_t)sprintf(out + used, "%s\n", to);
        } else if (from || (strncmp(line, "counter node", 12) != 0 &&
                            strncmp(line, "counter edge", 12) != 0)) {
            memcpy(out + used, line, length);
            used += length;
        }
        line = end;
    }
    char sum[OCT_SHA256_TEXT];
    scratch_sha256(out, used, sum);
    used += (size_t)sprintf(out + used, "end %s\n", sum);
    file_write(path, out, used);
    free(out);
    free(text);
}

static struct oct_config *stopped(char *path, size_t bytes, const char *folder, char *manifest) {
    int left = 5; /* after the fifth step of seven */
    const struct oct_hooks hooks = {.progress = count_down, .progress_context = &left};
    struct oct_config *config = configure(&networks[0]);
    struct oct_trainer *trainer = NULL;
    snprintf(path, bytes, "%s/kept", folder);
    oct__folder_remove(path);
    EXPECT_OK(oct_config_set(config, "checkpoint", path));
    EXPECT_OK(oct_trainer_create(config, &hooks, &trainer));
    assert_int_equal(oct_trainer_run(trainer), OCT_STATUS_CANCELLED);
    oct_trainer_destroy(trainer);
    EXPECT_OK(oct_config_set(config, "resume", path));
    snprintf(manifest, bytes, "%s/kept/step-000000000005/manifest", folder);
    return config;
}

/* A checkpoint of an Octet that did not have them: the run is the same, they begin anew. */
static void older_checkpoints(void **state) {
    (void)state;
    struct folder scratch;
    char path[FOLDER_PATH], manifest[FOLDER_PATH + 64];
    folder_open(&scratch);
    struct oct_config *config = stopped(path, sizeof path, scratch.path, manifest);
    rewrite(manifest, NULL, NULL);
    struct oct_trainer *trainer = NULL;
    struct oct_result result;
    struct oct_node node;
    EXPECT_OK(oct_trainer_create(config, NULL, &trainer));
    EXPECT_OK(oct_trainer_run(trainer));
    EXPECT_OK(oct_trainer_result(trainer, &result));
    uint64_t sent = 0;
    for (int i = 0; oct_trainer_node(trainer, i, &node) == OCT_OK; i++) {
        sent += node.bytes_sent;
        assert_true(isfinite(node.loss) && node.accuracy >= 0 && node.accuracy <= 100);
    }
    print_message("%llu of %llu bytes after the checkpoint\n", (unsigned long long)sent,
                  (unsigned long long)result.bytes_sent);
    assert_true(sent > 0 && sent < result.bytes_sent);
    oct_trainer_destroy(trainer);
    oct_config_destroy(config);
    assert_int_equal(oct__folder_remove(path), 0);
    folder_close(&scratch);
}

static void strange_checkpoints(void **state) {
    (void)state;
    static const char *const changes[][2] = {
        {"counter node.00003.sent ", "counter node.00003.sent bff0000000000000"},
        {"counter node.00004.sent ", "counter node.00009.sent 0000000000000000"},
        {"counter node.00003.loss ", "counter node.00003.loss 7ff8000000000000"},
        {"counter node.00003.loss ", "counter node.00003.luck 0000000000000000"},
        {"counter edge.00001.00002.bytes ", "counter edge.00001.00001.bytes 0000000000000000"},
        {"counter edge.00001.00002.bytes ", "counter edge.00001.00002.butes 0000000000000000"},
        {"counter edge.00001.00002.bytes ", "counter edge.00001.00002.bytes 3fe0000000000000"},
        {"counter edge.00004.00000.messages ", "counter edge.00004.00007.messages "
                                               "0000000000000000"},
        {"counter node_steps ", "counter node_steps c010000000000000"},
    };
    struct folder scratch;
    char path[FOLDER_PATH], manifest[FOLDER_PATH + 64];
    folder_open(&scratch);
    for (size_t i = 0; i < OCT_COUNT_OF(changes); i++) {
        struct oct_config *config = stopped(path, sizeof path, scratch.path, manifest);
        struct oct_trainer *trainer = NULL;
        char name[64];
        rewrite(manifest, changes[i][0], changes[i][1]);
        snprintf(name, sizeof name, "%.*s", (int)strcspn(changes[i][1] + 8, " "),
                 changes[i][1] + 8);
        EXPECT_FAILURE(oct_trainer_create(config, NULL, &trainer), OCT_STATUS_CORRUPT, name);
        oct_config_destroy(config);
    }
    assert_int_equal(oct__folder_remove(path), 0);
    folder_close(&scratch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges_as_they_come),    cmocka_unit_test(too_many_nodes),
        cmocka_unit_test(they_add_up),           cmocka_unit_test(outside),
        cmocka_unit_test(the_same_when_resumed), cmocka_unit_test(older_checkpoints),
        cmocka_unit_test(strange_checkpoints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
