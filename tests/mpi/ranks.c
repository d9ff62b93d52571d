/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.c - the same run in one process and over ranks: for every algorithm, dense and with top-k, in both
 * precisions, on a graph that stays and one that changes, the same model and the same figures.
 *
 *     ranks write FILE            in one process, on 1 and 2 threads: a line for each run
 *     ranks compare FILE          over the ranks of mpirun: the same lines
 *     ranks compare-own FILE      the first of them, in a program that begins and ends MPI itself
 *     ranks stop FOLDER SEED      some of the runs, with checkpoints: goes on from there if there are any,
 *                                 and stops after some reports
 *     ranks finish FILE FOLDER    goes on to the end: the same lines
 *     ranks failures              a failure that the caller deals with; one of a rank outside of the
 *                                 library; a trainer that outlives MPI
 *
 * The last two work in one process, too (as `solo-stop`, `solo-finish`). Starting MPI takes longer than such
 * a run, so one program does all of them. Whatever a rank finds wrong it prints, and exits with 1.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <octet/octet.h>
#include <octet/trainer.h>

#include "gossip/gossip.h"

/* What a run is about. Runs to be stopped are every fifth: replicas of edges are among them. */
struct trial {
    const char *algorithm, *compress, *precision, *topology;
    int number;
};

#define STOPPED_EVERY 5
#define LINE_BYTES 512
#define RUNS_MOST 10000

static int rank;

static void expect(oct_status status, const char *what) {
    if (status != OCT_OK) {
        printf("rank %d: %s: %s: %s\n", rank, what, oct_status_name(status), oct_last_error());
        fflush(stdout);
        exit(1);
    }
}

static int trial_at(int number, struct trial *out) {
    static const char *const compressors[] = {"none", "topk:0.9,values=int8"};
    static const char *const precisions[] = {"fp32", "int8"};
    static const char *const topologies[] = {"directed-ring", "one-peer-exponential"};
    const struct oct_algorithm_kind *algorithm = oct__algorithm_at(number / 8);
    if (!algorithm) {
        return 0;
    }
    *out = (struct trial){algorithm->plugin.name, compressors[number / 4 % 2],
                          precisions[number / 2 % 2], topologies[number % 2], number};
    return 1;
}

static struct oct_config *configure(const struct trial *trial, const char *transport,
                                    int n_threads) {
    struct oct_config *config = NULL;
    char threads[16];
    snprintf(threads, sizeof threads, "%d", n_threads);
    const char *const pairs[][2] = {
        {"model", "resnet20:width=2,blocks=1"},
        {"data", "synthetic:samples=280,size=6,classes=4"},
        {"test-samples", "70"}, /* three batches, the last of them short */
        {"samples", "48"},
        {"nodes", "8"},
        {"batch", "2"},
        {"epochs", "3"},
        {"norm", trial->number % 4 == 1 ? "range-batchnorm" : "groupnorm"},
        {"momentum", trial->number % 3 ? "qgm" : "local"},
        {"slow-momentum", trial->number % 3 ? "0" : "0.8"},
        {"own-momentum", trial->number % 3 == 2 ? "0.6" : "0"},
        {"global-beta", trial->number % 3 == 1 ? "0.95" : "0"},
        {"clip-gradient", trial->number % 2 ? "0.5" : "0"},
        {"gossip-every", trial->number % 5 == 4 || trial->number % 15 == 0 ? "2" : "1"},
        {"compensation-rounds", strcmp(trial->algorithm, "sc-sparse-push") == 0 ? "2" : "0"},
        {"final-gossip", "2"},
        {"algorithm", trial->algorithm},
        {"compress", trial->compress},
        {"precision", trial->precision},
        {"topology", trial->topology},
        {"transport", transport},
        {"threads", threads},
    };
    expect(oct_config_create(&config), "a configuration");
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        expect(oct_config_set(config, pairs[i][0], pairs[i][1]), pairs[i][0]);
    }
    return config;
}

/* --- a run's line ----------------------------------------------------------------------------- */

static uint64_t mixed(uint64_t hash, const void *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3U; /* FNV-1a */
    }
    return hash;
}

/* Every node's and every edge's figures, and those of the quantizers. */
static uint64_t figures(const struct oct_trainer *trainer) {
    uint64_t hash = 0xcbf29ce484222325U;
    struct oct_node node;
    struct oct_traffic edge;
    struct oct_quantizer quantizer;
    for (int i = 0; oct_trainer_node(trainer, i, &node) == OCT_OK; i++) {
        const double values[] = {node.loss, node.accuracy, node.consensus_distance,
                                 node.test_accuracy, (double)node.bytes_sent};
        hash = mixed(hash, values, sizeof values);
    }
    for (int i = 0; oct_trainer_edge(trainer, i, &edge) == OCT_OK; i++) {
        const uint64_t values[] = {(uint64_t)edge.from, (uint64_t)edge.to, edge.bytes,
                                   edge.messages};
        hash = mixed(hash, values, sizeof values);
    }
    for (int i = 0; oct_trainer_quantizer(trainer, i, &quantizer) == OCT_OK; i++) {
        const double values[] = {quantizer.clipped, quantizer.zero, quantizer.scale};
        hash = mixed(hash, values, sizeof values);
    }
    return hash;
}

static void describe(struct oct_trainer *trainer, const struct trial *trial,
                     char line[LINE_BYTES]) {
    struct oct_result r;
    expect(oct_trainer_result(trainer, &r), "the result");
    snprintf(line, LINE_BYTES,
             "%d %s %s %s %s: %s loss %a, %a accuracy %a, %a consensus %a bytes %llu %llu %llu "
             "messages %llu epochs %d figures %016llx\n",
             trial->number, trial->algorithm, trial->compress, trial->precision, trial->topology,
             r.model_sha256, r.loss, r.train_loss, r.accuracy, r.accuracy_nodes,
             r.consensus_distance, (unsigned long long)r.bytes_sent,
             (unsigned long long)r.bytes_final, (unsigned long long)r.bytes_dense,
             (unsigned long long)r.messages, r.epochs, (unsigned long long)figures(trainer));
}

static int stop_at(const struct oct_progress *progress, void *context) {
    int *reports = context;
    (void)progress;
    return --*reports == 0;
}

/* Runs to the end and writes the line, or until `reports` (not 0) have come in. */
static void run(const struct trial *trial, struct oct_config *config, int reports,
                char line[LINE_BYTES]) {
    struct oct_trainer *trainer = NULL;
    const struct oct_hooks hooks = {.progress = stop_at, .progress_context = &reports};
    expect(oct_trainer_create(config, &hooks, &trainer), "a trainer");
    rank = oct_ranks_here(NULL);
    if (rank == 0) {
        oct_trainer_watch(trainer); /* as whoever keeps the record does */
    }
    const int stops = reports > 0;
    oct_status status = oct_trainer_run(trainer);
    if (!stops || status != OCT_STATUS_CANCELLED) {
        expect(status, "the run");
        describe(trainer, trial, line);
    }
    oct_trainer_destroy(trainer);
    oct_config_destroy(config);
}

/* --- the modes -------------------------------------------------------------------------------- */

static FILE *opened(const char *path, const char *mode) {
    FILE *file = fopen(path, mode);
    if (!file) {
        perror(path);
        exit(1);
    }
    return file;
}

static int write_lines(const char *path) {
    FILE *file = opened(path, "w");
    struct trial trial;
    int n = 0, n_different = 0;
    for (; trial_at(n, &trial); n++) {
        char one[LINE_BYTES], two[LINE_BYTES];
        run(&trial, configure(&trial, "inproc", 1), 0, one);
        run(&trial, configure(&trial, "inproc", 2), 0, two);
        if (strcmp(one, two) != 0) {
            printf("1 thread:  %s2 threads: %s", one, two);
            n_different++;
        }
        fputs(one, file);
    }
    fclose(file);
    printf("%d runs in one process: %d differ between 1 and 2 threads\n", n, n_different);
    return n_different > 0 || n == 0;
}

/* The line of a run in the file, which has them in order. */
static void expected_line(const char *path, int number, char line[LINE_BYTES]) {
    FILE *file = opened(path, "r");
    for (int i = 0; i <= number; i++) {
        if (!fgets(line, LINE_BYTES, file)) {
            printf("%s has no run %d\n", path, number);
            exit(1);
        }
    }
    fclose(file);
}

static int differs(const char *path, int number, const char *line) {
    char expected[LINE_BYTES];
    expected_line(path, number, expected);
    if (strcmp(expected, line) == 0) {
        return 0;
    }
    printf("expected:  %srank %d has: %s", expected, rank, line);
    return 1;
}

static int compare(const char *path, int most) {
    struct trial trial;
    int n = 0, n_different = 0;
    for (; n < most && trial_at(n, &trial); n++) {
        char line[LINE_BYTES];
        run(&trial, configure(&trial, "mpi", 1), 0, line);
        n_different += differs(path, n, line);
    }
    if (rank == 0) {
        printf("%d runs over ranks: %d differ\n", n, n_different);
    }
    return n_different > 0 || n == 0;
}

/* The library uses what is there, leaves it as it was, and does not end it. */
static int compare_own(const char *path) {
    int is_over = 0, n_ranks = 0, joined = 0;
    MPI_Init(NULL, NULL);
    int failed = compare(path, 8);
    char words[OCT_RANKS_WORDS] = "";
    int whose;
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    (void)oct_ranks_here(&joined);
    failed |= oct_ranks_end(0, words, &whose) != 0;
    MPI_Finalized(&is_over);
    MPI_Barrier(MPI_COMM_WORLD);
    if (is_over || joined != n_ranks) {
        printf("rank %d: MPI is %s, and %d of %d ranks are known\n", rank,
               is_over ? "over" : "there", joined, n_ranks);
        failed = 1;
    }
    MPI_Finalize();
    return failed;
}

static int fails_with(oct_status status, oct_status wanted, const char *words, const char *what) {
    if (status == wanted && strstr(oct_last_error(), words)) {
        return 1;
    }
    printf("rank %d: %s: %s, '%s'; expected %s, '%s'\n", rank, what, oct_status_name(status),
           status == OCT_OK ? "" : oct_last_error(), oct_status_name(wanted), words);
    return 0;
}

/* A model that only the first rank can read is nobody's. */
static int half_a_model(struct oct_trainer *trainer) {
    struct oct_result before, after;
    char path[64];
    snprintf(path, sizeof path, "/tmp/octet-half-%d.safetensors", (int)getppid());
    expect(oct_trainer_result(trainer, &before), "a result");
    expect(oct_trainer_save(trainer, path), "a model of the first steps");
    expect(oct_trainer_run(trainer), "a run");
    expect(oct_trainer_result(trainer, &before), "its result");
    int n_wrong = !fails_with(oct_trainer_load(trainer, rank == 0 ? path : "/nowhere/at/all"),
                              OCT_STATUS_NOT_FOUND, "/nowhere", "half a model");
    expect(oct_trainer_result(trainer, &after), "the result after half a model");
    if (strcmp(before.model_sha256, after.model_sha256) != 0) {
        printf("rank %d: half a model has changed the whole one\n", rank);
        n_wrong++;
    }
    if (rank == 0) {
        (void)unlink(path);
    }
    return n_wrong;
}

static int failures(void) {
    struct trial trial;
    struct oct_trainer *trainer = NULL;
    struct oct_result result;
    char words[OCT_RANKS_WORDS] = "";
    int whose, n_wrong = !trial_at(0, &trial);
    struct oct_config *config = configure(&trial, "mpi", 1);
    expect(oct_trainer_create(config, NULL, &trainer), "a trainer");
    rank = oct_ranks_here(NULL);
    n_wrong += !fails_with(oct_trainer_load(trainer, "/nowhere/at/all"), OCT_STATUS_NOT_FOUND,
                           "/nowhere", "a model that is not there");
    n_wrong += half_a_model(trainer);
    expect(oct_trainer_run(trainer), "the run after a failure that all know of");
    if (rank == 1) {
        oct_ranks_tell(OCT_STATUS_CORRUPT, "the cat was on the keyboard");
    }
    n_wrong += !fails_with(oct_trainer_result(trainer, &result), OCT_STATUS_CORRUPT,
                           rank == 1 ? "the cat" : "rank 1: the cat", "a rank's own failure");
    n_wrong += !fails_with(oct_trainer_run(trainer), OCT_STATUS_CORRUPT, "the cat", "and later");
    if (oct_ranks_end(0, words, &whose) != 0) {
        printf("rank %d: the end: rank %d: %s\n", rank, whose, words);
        n_wrong++;
    }
    n_wrong += !fails_with(oct_trainer_run(trainer), OCT_STATUS_INVALID, "MPI has been ended",
                           "a trainer without MPI");
    oct_trainer_destroy(trainer);
    trainer = NULL;
    n_wrong += !fails_with(oct_trainer_create(config, NULL, &trainer), OCT_STATUS_INVALID,
                           "MPI has been ended", "a new one");
    oct_config_destroy(config);
    printf("%d failures are not as expected\n", n_wrong);
    return n_wrong > 0;
}

/* Goes on with the runs to be stopped. Where they stand is in FOLDER/NUMBER. */
static int go_on(const char *path, const char *folder, const char *transport, unsigned seed) {
    struct trial trial;
    int n_runs = 0, n_different = 0;
    for (int n = 0; trial_at(n, &trial); n += STOPPED_EVERY, n_runs++) {
        char own[400], manifest[480], line[LINE_BYTES] = "";
        struct oct_config *config = configure(&trial, transport, 1);
        snprintf(own, sizeof own, "%s/%d", folder, n);
        snprintf(manifest, sizeof manifest, "%s/begun", own);
        expect(oct_config_set(config, "checkpoint", own), "checkpoint");
        expect(oct_config_set(config, "every", "1000"), "every");
        FILE *begun = fopen(manifest, "r");
        if (begun) {
            fclose(begun);
            expect(oct_config_set(config, "resume", own), "resume");
        }
        const unsigned reports =
            path ? 0 : 1 + (seed * 2654435761U + (unsigned)n * 40503U) / 977U % 3U;
        run(&trial, config, (int)reports, line);
        if (path) {
            n_different += differs(path, n, line);
        } else if (line[0]) {
            printf("run %d was not stopped\n", n);
            n_different++;
        }
        if (rank == 0) {
            fclose(opened(manifest, "w"));
        }
    }
    if (rank == 0) {
        printf("%d runs over %s %s: %d are not as expected\n", n_runs, transport,
               path ? "went on to the end" : "went on and were stopped", n_different);
    }
    return n_different > 0;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 3 && strcmp(mode, "write") == 0) {
        return write_lines(argv[2]);
    }
    if (argc == 3 && strcmp(mode, "compare") == 0) {
        return compare(argv[2], RUNS_MOST);
    }
    if (argc == 3 && strcmp(mode, "compare-own") == 0) {
        return compare_own(argv[2]);
    }
    if (argc == 2 && strcmp(mode, "failures") == 0) {
        return failures();
    }
    const char *transport = strncmp(mode, "solo-", 5) == 0 ? "inproc" : "mpi";
    mode += strncmp(mode, "solo-", 5) == 0 ? 5 : 0;
    if (argc == 4 && strcmp(mode, "stop") == 0) {
        return go_on(NULL, argv[2], transport, (unsigned)strtoul(argv[3], NULL, 10));
    }
    if (argc == 4 && strcmp(mode, "finish") == 0) {
        return go_on(argv[2], argv[3], transport, 0);
    }
    fputs("usage: ranks write|compare|compare-own FILE, ranks [solo-]stop FOLDER SEED, "
          "ranks [solo-]finish FILE FOLDER, ranks failures\n",
          stderr);
    return 2;
}
