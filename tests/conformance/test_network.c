/* SPDX-License-Identifier: Apache-2.0 */
/* test_network.c - whole runs of nodes that talk: the same bits however they are run.
 *
 * For every algorithm, dense and with top-k, in both precisions, on graphs that stay and graphs that
 * change: 1, 2 and 3 threads, by reference and over a transport that carries bytes, and stopped and
 * resumed at random steps 20 times, on other numbers of threads each time, all lead to one model and
 * one number of bytes. A stop may fall after a step, into an evaluation, or between final rounds.
 */
#include <stdlib.h>

#include <octet/octet.h>
#include <octet/trainer.h>

#include "base/folder.h"
#include "compress/wire.h"
#include "gossip/gossip.h"
#include "support/check.h"
#include "support/folder.h"
#include "train/trainer.h"

struct options {
    const char *algorithm, *compress, *precision, *topology, *momentum, *transport, *norm;
    int n_nodes, n_threads;
    const char *checkpoint, *resume;
};

static struct oct_config *configure(const struct options *o) {
    struct oct_config *config = NULL;
    char nodes[16], threads[16];
    snprintf(nodes, sizeof nodes, "%d", o->n_nodes);
    snprintf(threads, sizeof threads, "%d", o->n_threads);
    const char *const pairs[][2] = {
        {"model", "resnet20:width=2,blocks=1"},
        {"data", "synthetic:samples=80,size=6,classes=4"},
        {"test-samples", "20"},
        {"batch", "2"},
        {"epochs", "5"},
        {"lr", "0.02"},
        {"norm", o->norm ? o->norm : "groupnorm"}, /* no state, and a short step */
        {"compensation-rounds", strcmp(o->algorithm, "sc-sparse-push") == 0 ? "4" : "0"},
        {"final-gossip", "3"},
        {"algorithm", o->algorithm},
        {"compress", o->compress},
        {"precision", o->precision},
        {"topology", o->topology},
        {"momentum", o->momentum},
        {"slow-momentum", strcmp(o->momentum, "qgm") == 0 ? "0" : "0.5"},
        {"gossip-every", strcmp(o->momentum, "qgm") == 0 ? "1" : "2"},
        {"clip-gradient", "2"},
        {"transport", o->transport},
        {"nodes", nodes},
        {"threads", threads},
    };
    EXPECT_OK(oct_config_create(&config));
    for (size_t i = 0; i < OCT_COUNT_OF(pairs); i++) {
        EXPECT_OK(oct_config_set(config, pairs[i][0], pairs[i][1]));
    }
    if (o->checkpoint) {
        EXPECT_OK(oct_config_set(config, "checkpoint", o->checkpoint));
        EXPECT_OK(oct_config_set(config, "every", "1000"));
    }
    if (o->resume) {
        EXPECT_OK(oct_config_set(config, "resume", o->resume));
    }
    return config;
}

/* Stops a run at its n-th report: after a step, in an evaluation, at the end of an epoch, between
 * rounds without training. */
struct stop {
    int after; /* reports */
};

static int stop_at(const struct oct_progress *progress, void *context) {
    struct stop *stop = context;
    (void)progress;
    return --stop->after <= 0;
}

/* Runs to the end, or until `stop`: then epochs is -1. `carried` receives the transport's own count. */
static struct oct_result run(const struct options *o, struct stop *stop, uint64_t *carried) {
    struct oct_config *config = configure(o);
    struct oct_trainer *trainer = NULL;
    struct oct_result result = {0};
    const struct oct_hooks hooks = {.progress = stop ? stop_at : NULL, .progress_context = stop};
    EXPECT_OK(oct_trainer_create(config, &hooks, &trainer));
    oct_status status = oct_trainer_run(trainer);
    if (stop && status == OCT_STATUS_CANCELLED) {
        result.epochs = -1;
    } else {
        EXPECT_OK(status);
        EXPECT_OK(oct_trainer_result(trainer, &result));
    }
    if (carried) {
        *carried = trainer->exchange->transport->n_bytes;
    }
    oct_trainer_destroy(trainer);
    oct_config_destroy(config);
    return result;
}

static void expect_same(const char *what, const struct options *o, const struct oct_result *a,
                        const struct oct_result *b) {
    if (strcmp(a->model_sha256, b->model_sha256) != 0 || a->bytes_sent != b->bytes_sent ||
        a->bytes_final != b->bytes_final || a->bytes_dense != b->bytes_dense ||
        a->messages != b->messages || memcmp(&a->loss, &b->loss, sizeof a->loss) != 0 ||
        memcmp(&a->accuracy_nodes, &b->accuracy_nodes, sizeof a->accuracy_nodes) != 0 ||
        memcmp(&a->consensus_distance, &b->consensus_distance, sizeof a->consensus_distance) != 0) {
        fail_msg("%s: %s %s %s %s: %.8s… and %.8s…, %llu and %llu bytes", what, o->algorithm,
                 o->compress, o->precision, o->topology, a->model_sha256, b->model_sha256,
                 (unsigned long long)a->bytes_sent, (unsigned long long)b->bytes_sent);
    }
}

typedef void case_fn(const struct options *options);

/* Every algorithm × {dense, top-k} × both precisions, on a graph that stays and one that changes. */
static void each_case(case_fn *task) {
    static const char *const compressors[] = {"none", "topk:0.9,values=int8"};
    static const char *const precisions[] = {"fp32", "int8"};
    static const char *const topologies[] = {"directed-ring", "one-peer-exponential"};
    int n = 0;
    for (int a = 0; oct__algorithm_at(a); a++) {
        for (size_t c = 0; c < OCT_COUNT_OF(compressors); c++) {
            for (size_t p = 0; p < OCT_COUNT_OF(precisions); p++) {
                for (size_t t = 0; t < OCT_COUNT_OF(topologies); t++, n++) {
                    if (IS_SANITIZED && n % 5) {
                        continue; /* some of each: they take ten times as long */
                    }
                    struct options options = {
                        .algorithm = oct__algorithm_at(a)->plugin.name,
                        .compress = compressors[c],
                        .precision = precisions[p],
                        .topology = topologies[t],
                        .momentum = n % 3 ? "qgm" : "local",
                        .transport = n % 4 == 2 ? "loopback" : "inproc",
                        .norm = n % 4 == 1 ? "range-batchnorm" : "groupnorm",
                        .n_nodes = 8,
                        .n_threads = 1,
                    };
                    task(&options);
                }
            }
        }
    }
    assert_true(n >= 36);
}

static void threads_and_transports(const struct options *options) {
    struct options other = *options;
    const struct oct_result one = run(options, NULL, NULL);
    const int talks = strcmp(options->algorithm, "none") != 0;
    assert_true(talks ? one.bytes_sent > one.bytes_final : one.bytes_sent == 0);
    for (other.n_threads = 2; other.n_threads <= 3; other.n_threads++) {
        const struct oct_result result = run(&other, NULL, NULL);
        expect_same("threads", &other, &one, &result);
    }
    uint64_t carried = 0;
    other.n_threads = 2;
    other.transport = strcmp(options->transport, "inproc") ? "inproc" : "loopback";
    const struct oct_result result = run(&other, NULL, &carried);
    expect_same("another transport", &other, &one, &result);
    if (talks && strcmp(options->algorithm, "allreduce") && !strcmp(other.transport, "loopback")) {
        assert_int_equal(carried, result.bytes_sent);
    }
}

static void same_bits_however_run(void **state) {
    (void)state;
    each_case(threads_and_transports);
}

static struct folder scratch;

static int n_stops, n_runs; /* all together */

/* Stops at every first or second report, and goes on each time from the files alone. */
static void stop_and_go(const struct options *options) {
    struct options piece = *options;
    struct dice dice = dice_of(
        (uint32_t)(strlen(options->algorithm) * 7 + strlen(options->compress) + (size_t)n_runs));
    const struct oct_result whole = run(options, NULL, NULL);
    struct oct_result result;
    char path[FOLDER_PATH];
    snprintf(path, sizeof path, "%s", folder_file(&scratch, "run"));
    piece.checkpoint = path;
    for (;;) {
        struct stop stop = {1 + dice_below(&dice, 2)};
        piece.n_threads = 1 + dice_below(&dice, 3);
        result = run(&piece, &stop, NULL);
        if (result.epochs >= 0) {
            break;
        }
        n_stops++;
        piece.resume = path;
    }
    n_runs++;
    assert_int_equal(oct__folder_remove(path), 0);
    expect_same("resumed", options, &whole, &result);
    assert_int_equal(result.epochs, 5);
}

static void same_bits_stopped_and_resumed(void **state) {
    (void)state;
    folder_open(&scratch);
    each_case(stop_and_go);
    folder_close(&scratch);
    print_message("%d runs, stopped %d times\n", n_runs, n_stops);
    assert_true(n_stops >= 20 * n_runs);
}

/* One node alone sends nothing whatever the algorithm, and has the bits of a node with none. */
static void one_node(void **state) {
    (void)state;
    struct options options = {.algorithm = "none",
                              .compress = "none",
                              .precision = "int8",
                              .topology = "directed-ring",
                              .momentum = "local",
                              .transport = "inproc",
                              .n_nodes = 1,
                              .n_threads = 1};
    const struct oct_result alone = run(&options, NULL, NULL);
    for (int a = 0; oct__algorithm_at(a); a++) {
        options.algorithm = oct__algorithm_at(a)->plugin.name;
        options.n_threads = 1 + a % 3;
        const struct oct_result result = run(&options, NULL, NULL);
        print_message("%s: %.8s…, %llu bytes\n", options.algorithm, result.model_sha256,
                      (unsigned long long)result.bytes_sent);
        assert_int_equal(result.bytes_sent, 0);
        assert_string_equal(result.model_sha256, alone.model_sha256);
    }
}

/* A network that does harm, once: between node 1 and node 0. */
enum harm { FLIP, CUT, OLD_ROUND };

static enum harm harm;
static uint8_t old_message[1 << 16];
static size_t old_length;
static const struct oct_transport_kind *honest;

static oct_status send_harmfully(struct oct__transport *transport, int from, int to,
                                 const uint8_t *bytes, size_t n_bytes) {
    uint8_t message[1 << 16];
    assert_true(n_bytes <= sizeof message);
    memcpy(message, bytes, n_bytes);
    if (from == 1 && to == 0) {
        switch (harm) {
        case FLIP:
            message[n_bytes / 2] ^= 0x10;
            break;
        case CUT:
            n_bytes -= 3;
            break;
        case OLD_ROUND:
            if (old_length) {
                memcpy(message, old_message, old_length);
                n_bytes = old_length;
            }
            memcpy(old_message, bytes, n_bytes);
            old_length = n_bytes;
            break;
        }
    }
    return honest->send(transport, from, to, message, n_bytes);
}

/* A message that was altered on its way, is cut short, or belongs to another round is
 * refused, and the failure says whose it was. */
static void altered_messages(void **state) {
    (void)state;
    struct options options = {.algorithm = "choco",
                              .compress = "topk:0.9,values=int8",
                              .precision = "fp32",
                              .topology = "ring",
                              .momentum = "qgm",
                              .transport = "loopback",
                              .n_nodes = 4,
                              .n_threads = 1};
    static const char *const expected[] = {[FLIP] = "message from node 1 to node 0",
                                           [CUT] = "message from node 1 to node 0",
                                           [OLD_ROUND] = "round 0"};
    for (harm = FLIP; harm <= OLD_ROUND; harm++) {
        struct oct_config *config = configure(&options);
        struct oct_trainer *trainer = NULL;
        EXPECT_OK(oct_trainer_create(config, NULL, &trainer));
        honest = trainer->exchange->transport->kind;
        struct oct_transport_kind harmful = *honest;
        harmful.send = send_harmfully;
        old_length = 0;
        trainer->exchange->transport->kind = &harmful;
        if (harm == OLD_ROUND) {
            EXPECT_OK(oct__trainer_step(trainer));
        }
        EXPECT_FAILURE(oct__trainer_step(trainer), OCT_STATUS_CORRUPT, expected[harm]);
        trainer->exchange->transport->kind = honest;
        oct_trainer_destroy(trainer);
        oct_config_destroy(config);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_node),
        cmocka_unit_test(same_bits_however_run),
        cmocka_unit_test(same_bits_stopped_and_resumed),
        cmocka_unit_test(altered_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
