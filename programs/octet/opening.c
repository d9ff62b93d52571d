/* SPDX-License-Identifier: Apache-2.0 */
/* opening.c - what a run is about to do, said before it does it.
 *
 *     network   8 nodes, directed-ring: each sends to 1 other
 *     gossip    choco after every step, int8 messages, gamma 1, momentum qgm
 *     data      fashion-mnist, 60,000 samples, skew:0.8: 7,500 a node, three quarters of them in 2
 *               of 10 classes
 *     model     resnet20, range-evonorm, int8; 10 epochs, batch 32 a node, learning rate 0.02
 *
 * Everything is worked out from the graph and the partition that the run uses, so that what stands
 * here is so and not merely what was asked for.
 */
#include "cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <octet/partition.h>
#include <octet/topology.h>

enum { LEFT = 10 }; /* column where the facts begin */

static const char *text_of(const struct oct_config *config, const char *name) {
    return oct_config_get(config, name);
}

static long number_of(const struct oct_config *config, const char *name) {
    return strtol(text_of(config, name), NULL, 10);
}

int cli_nodes(const struct oct_config *config) {
    return (int)number_of(config, "nodes");
}

int cli_talks(const struct oct_config *config) {
    const char *algorithm = text_of(config, "algorithm");
    return cli_nodes(config) > 1 && strcmp(algorithm, "none") != 0 &&
           strcmp(algorithm, "allreduce") != 0;
}

oct_status cli_topology(const struct oct_config *config, struct oct_topology **out) {
    const struct oct_topology_options options = {
        .name = text_of(config, "topology"),
        .weights = text_of(config, "weights"),
        .n_nodes = cli_nodes(config),
        .hold = (int)number_of(config, "graph-hold"),
        .seed = (uint64_t)number_of(config, "seed"),
    };
    return oct_topology_create(&options, out);
}

/* --- the network ----------------------------------------------------------------------------- */

static void add(char *text, size_t bytes, const char *format, ...) OCT_PRINTF(3, 4);

static void add(char *text, size_t bytes, const char *format, ...) {
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, bytes - used, format, arguments);
    va_end(arguments);
}

/* "each sends to 1 other", "they send to 1 to 7 others". */
static void add_degrees(char *text, size_t bytes, const struct oct_topology_info *info) {
    if (info->least_degree == info->most_degree) {
        add(text, bytes, ": each sends to %d other%s", info->most_degree,
            info->most_degree == 1 ? "" : "s");
    } else {
        add(text, bytes, ": they send to %d to %d others", info->least_degree, info->most_degree);
    }
    if (info->period > 1) {
        add(text, bytes, ", one of %d graphs in turn", info->period);
    } else if (info->period == 0) {
        add(text, bytes, ", a new graph each time");
    }
    if (info->period != 1 && info->hold > 1) {
        add(text, bytes, ", each kept for %d rounds", info->hold);
    }
}

static void describe_network(const struct oct_config *config, char *text, size_t bytes) {
    struct oct_topology *topology;
    int n_ranks;
    (void)oct_ranks_here(&n_ranks);
    snprintf(text, bytes, "%d nodes", cli_nodes(config));
    if (n_ranks > 1) {
        add(text, bytes, " on %d ranks", n_ranks);
    }
    if (!cli_talks(config)) {
        return;
    }
    add(text, bytes, ", %s", text_of(config, "topology"));
    if (cli_topology(config, &topology) == OCT_OK) {
        struct oct_topology_info info;
        oct_topology_info(topology, &info);
        add_degrees(text, bytes, &info);
        oct_topology_destroy(topology);
    }
}

static void describe_gossip(const struct oct_config *config, char *text, size_t bytes) {
    const char *algorithm = text_of(config, "algorithm"), *plugin_summary = "";
    const struct oct_plugin *plugin;
    const long every = number_of(config, "gossip-every");
    for (int i = 0; (plugin = oct_plugin_at(OCT_PLUGIN_ALGORITHM, i)) != NULL; i++) {
        plugin_summary = strcmp(plugin->name, algorithm) == 0 ? plugin->summary : plugin_summary;
    }
    snprintf(text, bytes, "%s", algorithm);
    if (!cli_talks(config)) {
        add(text, bytes, ": %s", plugin_summary);
    } else {
        if (every == 1) {
            add(text, bytes, " after every step");
        } else {
            add(text, bytes, " after every %ld steps", every);
        }
        const char *compress = text_of(config, "compress");
        add(text, bytes, ", %s messages",
            strcmp(compress, "none") == 0 ? "uncompressed" : compress);
        add(text, bytes, ", gamma %g", oct_config_gamma(config));
    }
    add(text, bytes, ", momentum %s", text_of(config, "momentum"));
    if (strtod(text_of(config, "own-momentum"), NULL) > 0.0) {
        add(text, bytes, " and %s of a node's own", text_of(config, "own-momentum"));
    }
    if (strtod(text_of(config, "global-beta"), NULL) > 0.0) {
        add(text, bytes, " of which a step leaves %s", text_of(config, "global-beta"));
    }
    if (strtod(text_of(config, "slow-momentum"), NULL) > 0.0) {
        add(text, bytes, " and %s from round to round", text_of(config, "slow-momentum"));
    }
    const long n_final = number_of(config, "final-gossip");
    if (cli_talks(config) && n_final > 0) {
        add(text, bytes, "; then %ld round%s without training", n_final, n_final == 1 ? "" : "s");
    }
    if (text_of(config, "fault")[0]) {
        add(text, bytes, "; faults %s", text_of(config, "fault"));
    }
}

/* --- the data -------------------------------------------------------------------------------- */

static int descending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* How many classes make up three quarters of a node's samples. `counts` has room for a class each.
 */
static int main_classes(const struct oct_dataset *data, const struct oct_partition *partition,
                        int node, int64_t *counts, int n_classes) {
    const int64_t size = oct_partition_size(partition, node);
    const uint32_t *rows = oct_partition_rows(partition, node);
    memset(counts, 0, (size_t)n_classes * sizeof *counts);
    for (int64_t i = 0; i < size; i++) {
        counts[oct_dataset_label(data, rows[i])]++;
    }
    qsort(counts, (size_t)n_classes, sizeof *counts, descending);
    int n = 0;
    for (int64_t sum = 0; n < n_classes && 4 * sum < 3 * size; n++) {
        sum += counts[n];
    }
    return n;
}

static void add_shares(char *text, size_t bytes, const struct oct_dataset *data,
                       const struct oct_partition *partition, int n_nodes) {
    struct oct_dataset_info info;
    oct_dataset_info(data, &info);
    int64_t *counts = cli_alloc((size_t)info.n_classes * sizeof *counts);
    int64_t least_size = INT64_MAX, most_size = 0;
    int least = info.n_classes, most = 0;
    for (int node = 0; node < n_nodes; node++) {
        const int64_t size = oct_partition_size(partition, node);
        const int n = main_classes(data, partition, node, counts, info.n_classes);
        least_size = size < least_size ? size : least_size;
        most_size = size > most_size ? size : most_size;
        least = n < least ? n : least;
        most = n > most ? n : most;
    }
    free(counts);
    add(text, bytes, ": %s", cli_count((double)least_size).text);
    if (most_size > least_size) {
        add(text, bytes, " to %s", cli_count((double)most_size).text);
    }
    add(text, bytes, " a node, three quarters of them in %d", least);
    if (most > least) {
        add(text, bytes, " to %d", most);
    }
    add(text, bytes, " of %d classes", info.n_classes);
}

static void describe_data(const struct oct_config *config, const struct oct_dataset *data,
                          char *text, size_t bytes) {
    struct oct_dataset_info info;
    struct oct_partition *partition;
    const struct oct_partition_options options = {
        .name = text_of(config, "partition"),
        .n_nodes = cli_nodes(config),
        .n_samples = (int64_t)number_of(config, "samples"),
        .seed = (uint64_t)number_of(config, "seed"),
    };
    oct_dataset_info(data, &info);
    const int64_t n = options.n_samples > 0 ? options.n_samples : info.n_samples;
    snprintf(text, bytes, "%s, %s samples", text_of(config, "data"), cli_count((double)n).text);
    if (options.n_nodes > 1 && oct_partition_create(data, &options, &partition) == OCT_OK) {
        add(text, bytes, ", %s", options.name);
        add_shares(text, bytes, data, partition, options.n_nodes);
        oct_partition_destroy(partition);
    }
}

static void describe_model(const struct oct_config *config, char *text, size_t bytes) {
    const long epochs = number_of(config, "epochs");
    snprintf(text, bytes, "%s, %s, %s; %ld epoch%s, batch %s%s, learning rate %s",
             text_of(config, "model"), text_of(config, "norm"), text_of(config, "precision"),
             epochs, epochs == 1 ? "" : "s", text_of(config, "batch"),
             cli_nodes(config) > 1 ? " a node" : "", text_of(config, "lr"));
    if (strtod(text_of(config, "clip-gradient"), NULL) > 0.0) {
        add(text, bytes, ", gradients up to %s", text_of(config, "clip-gradient"));
    }
    if (number_of(config, "test-every") > 1) {
        add(text, bytes, ", tested every %s epochs", text_of(config, "test-every"));
    }
}

static void describe_keeping(const struct oct_config *config, char *text, size_t bytes) {
    const char *resume = text_of(config, "resume"), *folder = text_of(config, "checkpoint");
    const long every = number_of(config, "every");
    text[0] = '\0';
    if (*resume) {
        add(text, bytes, "going on from %s", resume);
    }
    if (*folder) {
        add(text, bytes, "%scheckpoints in %s ", *resume ? "; " : "", folder);
        add(text, bytes,
            every == 0   ? "in a fiftieth of the time"
            : every == 1 ? "after every epoch"
                         : "after every %ld epochs",
            every);
    }
}

/* --- all of it ------------------------------------------------------------------------------- */

static void print_line(const char *label, const char *text) {
    int width = cli_width(stderr, 0);
    fprintf(stderr, "%s%-*s%s", cli_style(stderr, CLI_DIM), LEFT, label,
            cli_style(stderr, CLI_PLAIN));
    cli_wrap(stderr, text, LEFT, LEFT, width > 0 ? (width > LEFT + 20 ? width : LEFT + 20) : 10000);
}

void cli_opening_print(const struct oct_config *config, const struct oct_dataset *train) {
    char text[1024];
    if (cli_nodes(config) > 1) {
        describe_network(config, text, sizeof text);
        print_line("network", text);
        describe_gossip(config, text, sizeof text);
        print_line("gossip", text);
    }
    describe_data(config, train, text, sizeof text);
    print_line("data", text);
    describe_model(config, text, sizeof text);
    print_line("model", text);
    describe_keeping(config, text, sizeof text);
    if (text[0]) {
        print_line("keeping", text);
    }
    fflush(stderr);
}
