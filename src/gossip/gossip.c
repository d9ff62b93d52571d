/* SPDX-License-Identifier: Apache-2.0 */
/* gossip.c - memory of a run's gossip, and the two halves of a round.
 *
 * What is sent and how it is merged is the algorithm's business (methods.c); launches on rows are
 * turn.c's. A round that is dense is the same for every algorithm, so it is done here: x itself is
 * the message, gamma is 1, and no memory is touched.
 */
#include "gossip/inside.h"

#include <string.h>

#include "base/alloc.h"
#include "base/parallel.h"

const char *const oct__memory_name[OCT_MEMORY_COUNT] = {"error", "replica", "sum"};

static size_t aligned(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static size_t row_bytes(const struct oct__gossip *gossip) {
    return gossip->config.n_elements * sizeof(float);
}

/* --- what an algorithm asks of a graph -------------------------------------------------------- */

oct_status oct__algorithm_check(const struct oct_algorithm_kind *algorithm,
                                const struct oct_topology_info *info) {
    if (algorithm->is_push_sum || info->is_doubly_stochastic) {
        return OCT_OK;
    }
    OCT_FAIL(INVALID,
             "algorithm %s needs a doubly stochastic W (what a node receives must weigh as much as "
             "what it sends), and this topology's is not; use its push-sum form %s%s",
             algorithm->plugin.name, algorithm->push_sum,
             info->is_undirected ? ", or weights metropolis (--weights metropolis)" : "");
}

/* --- creation --------------------------------------------------------------------------------- */

/* The operations of a mode. */
static oct_status prepare(struct oct__gossip *gossip, enum oct__gossip_call_id id, enum oct__op op,
                          const struct oct__packet_form *form) {
    const struct oct__gossip_config *config = &gossip->config;
    struct oct__gossip_call *call = &gossip->calls[id];
    const char *operands = oct__op_info[op].operands;
    const struct oct__tensor row = {
        .dtype = OCT_DTYPE_F32, .n = 1, .h = 1, .w = 1, .c = (int)config->n_elements};
    call->op = op;
    for (int i = 0; operands[i]; i++) {
        call->args.t[i] = row;
        call->args.t[i].stride = row_bytes(gossip);
    }
    if (form) {
        struct oct__tensor *packet = &call->args.t[op == OCT_OP_PACK ? 2 : 0];
        packet->dtype = OCT_DTYPE_U8;
        packet->c = (int)form->n_bytes;
        packet->stride = gossip->packet_bytes;
        call->args.attr.packet.form = form;
    }
    OCT_TRY(oct__engine_prepare(config->engine, op, &gossip->lane_form, &call->args, &call->plan));
    call->args.handle = call->plan.handle;
    return OCT_OK;
}

static oct_status prepare_calls(struct oct__gossip *gossip) {
    void *memory;
    OCT_TRY(oct__alloc_array(OCT_CALL_COUNT, sizeof *gossip->calls, "gossip", &memory));
    gossip->calls = memory;
    if (gossip->config.algorithm->mixing == OCT_MIXING_AVERAGE) {
        return prepare(gossip, OCT_CALL_MEAN, OCT_OP_MEAN, NULL);
    }
    OCT_TRY(prepare(gossip, OCT_CALL_PACK, OCT_OP_PACK, gossip->form));
    OCT_TRY(prepare(gossip, OCT_CALL_FOLD, OCT_OP_FOLD, gossip->form));
    if (gossip->dense_form) {
        OCT_TRY(prepare(gossip, OCT_CALL_PACK_DENSE, OCT_OP_PACK, gossip->dense_form));
        OCT_TRY(prepare(gossip, OCT_CALL_FOLD_DENSE, OCT_OP_FOLD, gossip->dense_form));
    }
    OCT_TRY(prepare(gossip, OCT_CALL_ADD, OCT_OP_ADD, NULL));
    OCT_TRY(prepare(gossip, OCT_CALL_DIFFERENCE, OCT_OP_DIFFERENCE, NULL));
    return prepare(gossip, OCT_CALL_AXPY, OCT_OP_AXPY, NULL);
}

static oct_status make_lanes(struct oct__gossip *gossip) {
    struct oct__engine *engine = gossip->config.engine;
    size_t shared = 0, thread = 0;
    for (int i = 0; i < OCT_CALL_COUNT; i++) {
        const struct oct__plan *plan = &gossip->calls[i].plan;
        shared = plan->shared_bytes > shared ? plan->shared_bytes : shared;
        thread = plan->thread_bytes > thread ? plan->thread_bytes : thread;
    }
    shared = aligned(shared);
    thread = aligned(thread);
    const size_t scratch = shared + thread * (size_t)gossip->lane_form.n_threads;
    void *memory;
    OCT_TRY(
        oct__alloc_array((size_t)gossip->n_lanes, sizeof *gossip->lanes, "gossip lanes", &memory));
    gossip->lanes = memory;
    for (int i = 0; i < gossip->n_lanes; i++) {
        struct oct__gossip_lane *lane = &gossip->lanes[i];
        const size_t n_nodes = (size_t)gossip->lane_form.n_nodes;
        OCT_TRY(oct__alloc_array(n_nodes + 1, sizeof *lane->start, "gossip", &memory));
        lane->start = memory;
        OCT_TRY(engine->alloc(engine, scratch, "gossip scratch", &lane->scratch));
        gossip->workspace_bytes += scratch;
        lane->lane = (struct oct__lane){
            .engine = engine,
            .form = gossip->lane_form,
            .first_thread = i,
            .seed = gossip->config.seed,
            .run = gossip->config.run,
            .shared_scratch = lane->scratch,
            .thread_scratch = (char *)lane->scratch + shared,
            .thread_scratch_bytes = thread,
        };
    }
    return OCT_OK;
}

/* Room in every lane for what the nodes of a turn fold, in a graph of so many edges: their
 * in-neighbours' packets and their own. */
static oct_status make_shares(struct oct__gossip *gossip, int n_edges) {
    const int n_nodes = gossip->lane_form.n_nodes;
    const int most = n_nodes > 1 ? n_edges + n_nodes : gossip->config.n_nodes;
    for (int i = 0; i < gossip->n_lanes; i++) {
        struct oct__gossip_lane *lane = &gossip->lanes[i];
        void *array = lane->shares;
        oct_status status = oct__alloc_grow(&array, &lane->share_capacity, (size_t)most,
                                            sizeof *lane->shares, "gossip");
        lane->shares = array;
        OCT_TRY(status);
    }
    return OCT_OK;
}

/* Room for `n_slots` packets and `n_edges` deliveries. */
static oct_status make_room(struct oct__gossip *gossip, int n_slots, int n_edges) {
    struct oct__engine *engine = gossip->config.engine;
    void *memory;
    if (n_slots > gossip->n_slots) {
        OCT_TRY(engine->alloc(engine, (size_t)n_slots * gossip->packet_bytes, "packets", &memory));
        if (gossip->packets) {
            engine->free(engine, gossip->packets);
        }
        gossip->packets = memory;
        gossip->workspace_bytes += (uint64_t)(n_slots - gossip->n_slots) * gossip->packet_bytes;
        gossip->n_slots = n_slots;
    }
    if (n_edges > gossip->inbox_capacity) {
        OCT_TRY(oct__alloc_array((size_t)n_edges, sizeof *gossip->inbox, "inbox", &memory));
        oct__free(gossip->inbox);
        gossip->inbox = memory;
        gossip->inbox_capacity = n_edges;
    }
    return OCT_OK;
}

static oct_status make_forms(struct oct__gossip *gossip) {
    const struct oct__gossip_config *config = &gossip->config;
    const struct oct__compression dense = {.select = OCT_SELECT_ALL, .coding = OCT_CODING_F32};
    OCT_TRY(oct__packet_form_create(&config->compression, config->spans, config->n_spans,
                                    config->n_elements, &gossip->form));
    if (config->has_dense_rounds || (config->has_faults && oct__gossip_has_edge_replicas(gossip))) {
        OCT_TRY(oct__packet_form_create(&dense, config->spans, config->n_spans, config->n_elements,
                                        &gossip->dense_form));
    }
    const size_t bytes = gossip->form->n_bytes;
    const size_t dense_bytes = gossip->dense_form ? gossip->dense_form->n_bytes : 0;
    gossip->packet_bytes = aligned(bytes > dense_bytes ? bytes : dense_bytes);
    if (gossip->packet_bytes > INT32_MAX || config->n_elements > INT32_MAX) {
        OCT_FAIL(UNSUPPORTED, "gossip: a message of %zu bytes; 2 GiB are the most",
                 gossip->packet_bytes);
    }
    return OCT_OK;
}

static oct_status make_memory(struct oct__gossip *gossip) {
    const struct oct__gossip_config *config = &gossip->config;
    struct oct__engine *engine = config->engine;
    const struct oct_algorithm_kind *algorithm = config->algorithm;
    const size_t bytes = (size_t)config->n_hosted * row_bytes(gossip);
    for (int i = 0; i < OCT_MEMORY_COUNT && !oct__gossip_has_edge_replicas(gossip); i++) {
        if (algorithm->memory & 1U << i) {
            OCT_TRY(engine->alloc(engine, bytes, oct__memory_name[i], &gossip->memory[i]));
            gossip->state_bytes += bytes;
        }
    }
    return OCT_OK;
}

static oct_status make_gossip(struct oct__gossip *gossip) {
    const struct oct__gossip_config *config = &gossip->config;
    struct oct_topology_info info;
    if (!config->topology) {
        OCT_FAIL(INVALID, "algorithm %s: it needs a topology", config->algorithm->plugin.name);
    }
    oct_topology_info(config->topology, &info);
    if (info.n_nodes != config->n_nodes) {
        OCT_FAIL(INVALID, "gossip: the topology has %d nodes, the run %d", info.n_nodes,
                 config->n_nodes);
    }
    OCT_TRY(oct__algorithm_check(config->algorithm, &info));
    gossip->is_changing = info.period != 1;
    gossip->n_new_rounds =
        info.period > 0 ? (uint32_t)info.period * (uint32_t)info.hold : UINT32_MAX;
    gossip->gamma =
        config->gamma > 0.0 ? config->gamma : config->algorithm->gamma(&config->compression);
    OCT_TRY(make_forms(gossip));
    OCT_TRY(make_memory(gossip));
    /* What the period will need; a graph that never repeats may ask for more. */
    const int64_t most = (int64_t)config->n_nodes * info.most_degree;
    const int n_edges = (int)(info.period > 0 && info.n_edges < most ? info.n_edges : most);
    const int n_sent = (int)((int64_t)n_edges * config->n_hosted / config->n_nodes);
    const int n_slots =
        oct__gossip_sends_by_edge(gossip) && n_sent > config->n_hosted ? n_sent : config->n_hosted;
    return make_room(gossip, n_slots, n_edges);
}

static oct_status copy_config(struct oct__gossip *gossip, const struct oct__gossip_config *config) {
    void *memory;
    gossip->config = *config;
    gossip->config.spans = NULL;
    if (config->n_hosted == 0) {
        gossip->config.first_node = 0;
        gossip->config.n_hosted = config->n_nodes;
    }
    OCT_TRY(oct__alloc_array(config->n_spans, sizeof *gossip->spans, "spans", &memory));
    gossip->spans = memory;
    if (config->n_spans > 0) {
        memcpy(gossip->spans, config->spans, config->n_spans * sizeof *gossip->spans);
    }
    gossip->config.spans = gossip->spans;
    if (config->has_faults) {
        gossip->config.has_two_ends = 1;
        OCT_TRY(oct__alloc((size_t)config->n_nodes, "gossip", &memory));
        gossip->away = memory;
    }
    OCT_TRY(oct__alloc_array((size_t)config->n_nodes, 2 * sizeof *gossip->u, "weights u", &memory));
    gossip->u = memory;
    gossip->sent_u = gossip->u + config->n_nodes;
    for (int i = 0; i < config->n_nodes; i++) {
        gossip->u[i] = gossip->sent_u[i] = 1.0;
    }
    return OCT_OK;
}

static oct_status fill(struct oct__gossip *gossip, const struct oct__gossip_config *given) {
    const struct oct__gossip_config *config = &gossip->config;
    OCT_TRY(copy_config(gossip, given));
    gossip->gamma = 1.0;
    if (config->algorithm->mixing == OCT_MIXING_NONE) {
        return OCT_OK;
    }
    const int is_average = config->algorithm->mixing == OCT_MIXING_AVERAGE;
    const int is_together = is_average || config->engine->is_wide;
    gossip->n_lanes = is_together ? 1 : config->n_threads;
    gossip->n_lanes = gossip->n_lanes < config->n_hosted ? gossip->n_lanes : config->n_hosted;
    gossip->lane_form = (struct oct__lane_form){.n_nodes = is_together ? config->n_hosted : 1,
                                                .n_threads = is_average ? config->n_threads : 1,
                                                .shard = 1};
    if (!is_average) {
        OCT_TRY(make_gossip(gossip));
    }
    OCT_TRY(prepare_calls(gossip));
    OCT_TRY(make_lanes(gossip));
    return is_average ? OCT_OK : make_shares(gossip, gossip->inbox_capacity);
}

oct_status oct__gossip_create(const struct oct__gossip_config *config, struct oct__gossip **out) {
    void *memory;
    OCT_TRY(oct__alloc(sizeof(struct oct__gossip), "gossip", &memory));
    struct oct__gossip *gossip = memory;
    oct_status status = fill(gossip, config);
    if (status != OCT_OK) {
        oct__gossip_destroy(gossip);
        return status;
    }
    *out = gossip;
    return OCT_OK;
}

static void drop_replica(struct oct__gossip *gossip, struct oct__edge_replica *replica) {
    struct oct__engine *engine = gossip->config.engine;
    const int n_rows =
        (replica->own != NULL) + (replica->theirs && replica->theirs != replica->own);
    gossip->state_bytes -= (uint64_t)n_rows * row_bytes(gossip);
    oct__engine_free(engine, replica->theirs == replica->own ? NULL : replica->theirs);
    oct__engine_free(engine, replica->own);
}

void oct__gossip_destroy(struct oct__gossip *gossip) {
    if (!gossip) {
        return;
    }
    struct oct__engine *engine = gossip->config.engine;
    for (int i = 0; gossip->calls && i < OCT_CALL_COUNT; i++) {
        oct__engine_release(engine, gossip->calls[i].op, gossip->calls[i].plan.handle);
    }
    for (int i = 0; gossip->lanes && i < gossip->n_lanes; i++) {
        oct__free(gossip->lanes[i].shares);
        oct__free(gossip->lanes[i].start);
        oct__engine_free(engine, gossip->lanes[i].scratch);
    }
    for (int i = 0; i < gossip->n_replicas; i++) {
        drop_replica(gossip, &gossip->replicas[i]);
    }
    for (int i = 0; i < OCT_MEMORY_COUNT; i++) {
        oct__engine_free(engine, gossip->memory[i]);
    }
    oct__engine_free(engine, gossip->packets);
    oct__packet_form_destroy(gossip->form);
    oct__packet_form_destroy(gossip->dense_form);
    oct__free(gossip->calls);
    oct__free(gossip->lanes);
    oct__free(gossip->replicas);
    oct__free(gossip->inbox);
    oct__free(gossip->away);
    oct__mix_fini(&gossip->closed);
    oct__free(gossip->u);
    oct__free(gossip->spans);
    oct__free(gossip);
}

oct_status oct__gossip_clear(struct oct__gossip *gossip, void *at, size_t bytes) {
    static const char zeros[4096];
    struct oct__engine *engine = gossip->config.engine;
    for (size_t done = 0; at && done < bytes; done += sizeof zeros) {
        const size_t left = bytes - done, piece = left < sizeof zeros ? left : sizeof zeros;
        OCT_TRY(engine->write(engine, (char *)at + done, zeros, piece));
    }
    return OCT_OK;
}

oct_status oct__gossip_forget(struct oct__gossip *gossip) {
    while (gossip->n_replicas > 0) {
        drop_replica(gossip, &gossip->replicas[--gossip->n_replicas]);
    }
    for (int i = 0; i < gossip->config.n_nodes; i++) {
        gossip->u[i] = gossip->sent_u[i] = 1.0;
    }
    for (int i = 0; i < OCT_MEMORY_COUNT; i++) {
        OCT_TRY(oct__gossip_clear(gossip, gossip->memory[i],
                                  (size_t)gossip->config.n_hosted * row_bytes(gossip)));
    }
    return OCT_OK;
}

/* --- replicas of edges ------------------------------------------------------------------------ */

/* The place of (from, to) in the sorted list, or where it would be. */
int oct__gossip_find_replica(const struct oct__gossip *gossip, int from, int to) {
    int low = 0, high = gossip->n_replicas;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        const struct oct__edge_replica *replica = &gossip->replicas[middle];
        if (replica->from < from || (replica->from == from && replica->to < to)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

oct_status oct__gossip_replica(struct oct__gossip *gossip, int from, int to,
                               struct oct__edge_replica **out) {
    struct oct__engine *engine = gossip->config.engine;
    const int place = oct__gossip_find_replica(gossip, from, to);
    if (place < gossip->n_replicas) {
        *out = &gossip->replicas[place];
        if ((*out)->from == from && (*out)->to == to) {
            return OCT_OK;
        }
    }
    if (from < 0 || from >= gossip->config.n_nodes || to < 0 || to >= gossip->config.n_nodes ||
        from == to) {
        OCT_FAIL(INVALID, "replica: there is no edge %d -> %d among %d nodes", from, to,
                 gossip->config.n_nodes);
    }
    void *array = gossip->replicas;
    OCT_TRY(oct__alloc_grow(&array, &gossip->replica_capacity, (size_t)gossip->n_replicas + 1,
                            sizeof *gossip->replicas, "replicas"));
    gossip->replicas = array;
    struct oct__edge_replica replica = {.from = from, .to = to};
    const int has_own = oct__gossip_hosts(gossip, from), has_theirs = oct__gossip_hosts(gossip, to);
    if (has_own) {
        OCT_TRY(engine->alloc(engine, row_bytes(gossip), "replica", &replica.own));
        replica.theirs = has_theirs ? replica.own : NULL;
        gossip->state_bytes += row_bytes(gossip);
    }
    if (has_theirs && (gossip->config.has_two_ends || !has_own)) {
        oct_status status = engine->alloc(engine, row_bytes(gossip), "replica", &replica.theirs);
        if (status != OCT_OK) {
            oct__engine_free(engine, replica.own);
            return status;
        }
        gossip->state_bytes += row_bytes(gossip);
    }
    *out = &gossip->replicas[place];
    memmove(*out + 1, *out, (size_t)(gossip->n_replicas - place) * sizeof **out);
    **out = replica;
    gossip->n_replicas++;
    return OCT_OK;
}

/* --- a round ---------------------------------------------------------------------------------- */

int oct__gossip_has_edge_replicas(const struct oct__gossip *gossip) {
    return gossip->config.algorithm->has_edge_replicas &&
           (gossip->is_changing || gossip->config.has_faults);
}

int oct__gossip_sends_by_edge(const struct oct__gossip *gossip) {
    return oct__gossip_has_edge_replicas(gossip) && !gossip->is_dense;
}

const struct oct__packet_form *oct__gossip_form(const struct oct__gossip *gossip) {
    return gossip->is_dense ? gossip->dense_form : gossip->form;
}

const struct oct__packet_form *oct__gossip_edge_form(const struct oct__gossip *gossip, int edge) {
    return gossip->inbox[edge].is_repair ? gossip->dense_form : oct__gossip_form(gossip);
}

/* Where all nodes are hosted, an edge's slot is its number; else they follow the senders' lists. */
int oct__gossip_slot(const struct oct__gossip *gossip, int edge) {
    const struct oct__gossip_config *config = &gossip->config;
    const struct oct__mix *mix = gossip->mix;
    const int from = mix->from[edge];
    if (!oct__gossip_sends_by_edge(gossip)) {
        return from - config->first_node;
    }
    if (config->n_hosted == config->n_nodes) {
        return edge;
    }
    int at = mix->out_start[from];
    while (mix->out_edge[at] != edge) {
        at++;
    }
    return at - mix->out_start[config->first_node];
}

void *oct__gossip_packet(const struct oct__gossip *gossip, int edge) {
    return (char *)gossip->packets + (size_t)oct__gossip_slot(gossip, edge) * gossip->packet_bytes;
}

/* Nodes of a turn. */
static int turn_nodes(const struct oct__gossip *gossip) {
    return gossip->away || oct__gossip_sends_by_edge(gossip) ? 1 : gossip->lane_form.n_nodes;
}

/* Slots that a round needs. */
static int count_slots(const struct oct__gossip *gossip) {
    const struct oct__gossip_config *config = &gossip->config;
    const int *start = gossip->mix->out_start;
    return oct__gossip_sends_by_edge(gossip)
               ? start[config->first_node + config->n_hosted] - start[config->first_node]
               : config->n_hosted;
}

oct_status oct__gossip_begin(struct oct__gossip *gossip, uint32_t round, uint32_t step,
                             int is_dense) {
    gossip->round = round;
    gossip->step = step;
    gossip->is_dense = is_dense;
    if (gossip->config.algorithm->mixing != OCT_MIXING_GOSSIP) {
        return OCT_OK;
    }
    if (is_dense && !gossip->dense_form) {
        OCT_FAIL(INTERNAL, "gossip: round %u is dense, and none was announced", round);
    }
    OCT_TRY(oct__topology_mix(gossip->config.topology, round, &gossip->mix));
    OCT_TRY(gossip->away ? oct__gossip_close(gossip) : OCT_OK);
    const struct oct__mix *mix = gossip->mix;
    const int is_per_edge = oct__gossip_sends_by_edge(gossip);
    OCT_TRY(make_room(gossip, count_slots(gossip), mix->n_edges));
    OCT_TRY(make_shares(gossip, mix->n_edges));
    for (int to = 0; to < mix->n_nodes; to++) {
        for (int e = mix->in_start[to]; e < mix->in_start[to + 1]; e++) {
            const int is_sent = oct__gossip_hosts(gossip, mix->from[e]);
            gossip->inbox[e] =
                (struct oct__delivery){.packet = is_sent ? oct__gossip_packet(gossip, e) : NULL,
                                       .weight = gossip->u[mix->from[e]]};
            if (is_per_edge && (is_sent || oct__gossip_hosts(gossip, to))) {
                struct oct__edge_replica *replica;
                OCT_TRY(oct__gossip_replica(gossip, mix->from[e], to, &replica));
                gossip->inbox[e].is_repair =
                    gossip->away && oct__gossip_needs_repair(gossip, replica);
            }
        }
    }
    return OCT_OK;
}

/* Turns, side by side. */
static oct_status each_turn(struct oct__gossip *gossip, oct__task *task) {
    return oct__parallel(gossip->n_lanes, gossip->config.n_hosted / turn_nodes(gossip), task,
                         gossip);
}

static struct oct__turn turn_of(struct oct__gossip *gossip, int number, int worker) {
    struct oct__gossip_lane *lane = &gossip->lanes[worker];
    const int n_nodes = turn_nodes(gossip);
    const int first = gossip->config.first_node + number * n_nodes;
    lane->lane.first_node = first;
    lane->lane.form.n_nodes = n_nodes;
    lane->lane.step = gossip->step;
    return (struct oct__turn){gossip, lane, first, n_nodes};
}

static oct_status send_turn(void *context, int number, int worker) {
    struct oct__gossip *gossip = context;
    if (gossip->away && gossip->away[number]) {
        return OCT_OK;
    }
    const struct oct__turn turn = turn_of(gossip, number, worker);
    return gossip->is_dense
               ? oct__turn_pack(&turn, &(struct oct__outgoing){.row = oct__turn_x(&turn)})
               : gossip->config.algorithm->send(&turn);
}

oct_status oct__gossip_send(struct oct__gossip *gossip) {
    if (gossip->config.algorithm->mixing != OCT_MIXING_GOSSIP) {
        return OCT_OK;
    }
    const struct oct__mix *mix = gossip->mix;
    memcpy(gossip->sent_u, gossip->u, (size_t)mix->n_nodes * sizeof *gossip->u);
    for (int e = 0; e < mix->n_edges; e++) {
        gossip->inbox[e].weight = gossip->sent_u[mix->from[e]];
    }
    return each_turn(gossip, send_turn);
}

/* u_i += gamma * sum_j (W_ij - I_ij) * u_j, with the coefficients that x has. */
static void merge_weight(struct oct__gossip *gossip, int node, double gamma) {
    const struct oct__mix *mix = gossip->mix;
    double change = (double)oct__gossip_self_share(gossip, node, gamma) * gossip->sent_u[node];
    for (int e = mix->in_start[node]; e < mix->in_start[node + 1]; e++) {
        change += (double)oct__gossip_share(gossip, e, gamma) * gossip->inbox[e].weight;
    }
    gossip->u[node] = gossip->sent_u[node] + change;
}

static oct_status merge_turn(void *context, int number, int worker) {
    struct oct__gossip *gossip = context;
    if (gossip->away && gossip->away[number]) {
        return OCT_OK;
    }
    const struct oct__turn turn = turn_of(gossip, number, worker);
    for (int i = 0; i < turn.n_nodes && gossip->config.algorithm->is_push_sum; i++) {
        merge_weight(gossip, turn.node + i, gossip->is_dense ? 1.0 : gossip->gamma);
    }
    if (gossip->away) {
        OCT_TRY(oct__turn_do_without(&turn));
    }
    return gossip->is_dense ? oct__turn_fold_all(&turn, 1.0, oct__turn_x(&turn), 0.0, NULL)
                            : gossip->config.algorithm->merge(&turn);
}

oct_status oct__gossip_merge(struct oct__gossip *gossip) {
    switch (gossip->config.algorithm->mixing) {
    case OCT_MIXING_GOSSIP:
        return each_turn(gossip, merge_turn);
    case OCT_MIXING_AVERAGE:
        return gossip->away ? oct__gossip_average_some(gossip) : oct__gossip_average(gossip);
    case OCT_MIXING_NONE:
        break;
    }
    return OCT_OK;
}
