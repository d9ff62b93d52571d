/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_edges.c - edge lists: refused with their line, or a graph whose weights hold. The first byte
 * is the number of nodes. */
#include "fuzz.h"

#include <math.h>
#include <octet/topology.h>

#include "scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    if (n_bytes < 1) {
        return 0;
    }
    const char *path = fuzz_put("edges", bytes + 1, n_bytes - 1);
    char name[600];
    snprintf(name, sizeof name, "file:%s", path);
    const struct oct_topology_options options = {.name = name, .n_nodes = 1 + bytes[0] % 9};
    struct oct_topology *topology = NULL;
    oct_status status = oct_topology_create(&options, &topology);
    if (status != OCT_OK) {
        FUZZ_CHECK(status == OCT_STATUS_INVALID && oct_last_error()[0]);
        return 0;
    }
    struct oct_topology_info info;
    struct oct_edge edge;
    double given[9] = {0};
    oct_topology_info(topology, &info);
    FUZZ_CHECK(info.is_column_stochastic && info.is_strongly_connected && info.period == 1);
    for (int i = 0; oct_topology_edge(topology, 0, i, &edge); i++) {
        FUZZ_CHECK(edge.from >= 0 && edge.from < options.n_nodes && edge.to >= 0 &&
                   edge.to < options.n_nodes && edge.from != edge.to);
        FUZZ_CHECK(edge.weight > 0 && edge.weight <= 1 + 1e-9);
        given[edge.from] += edge.weight;
    }
    for (int node = 0; node < options.n_nodes; node++) {
        FUZZ_CHECK(fabs(given[node] + oct_topology_self_weight(topology, 0, node) - 1) < 1e-9);
    }
    oct_topology_destroy(topology);
    return 0;
}
