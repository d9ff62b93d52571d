/* SPDX-License-Identifier: Apache-2.0 */
/* quant_turns.cuh - two passes over every node's tensor in one launch.
 *
 * A quantizer reads a tensor twice: its bytes need a range, which is known when all of it was seen.
 * As two launches one after another, the second waits for the last block of the first and finds
 * nothing in the second-level cache any more where nodes are many. Here both are one launch, whose
 * blocks take turns, N of them for a pass over a node:
 *
 *     find 0 | find 1 | find 2 | find 3 | write 0 | find 4 | write 1 | … | write 2 | write 3 | write 4
 *              ahead = 3 nodes
 *
 * The block that is the last of a node's to have found its part folds the parts and tells those
 * that write what they need: one word of 64 bits, never 0. What was read is read again soon, from
 * the cache, and few blocks wait: a GPU begins blocks by number, so those that find are well ahead.
 * Those that wait wait for blocks that have begun, none of which waits, and so it ends. (By number:
 * that is how GPUs have always done it, and what the scans of NVIDIA's own libraries rest on, but
 * CUDA does not promise it.)
 *
 * Blocks meet in memory of the engine's that is zero between launches; the last to leave sees to
 * it.
 */
#ifndef OCT_ENGINE_CUDA_QUANT_TURNS_CUH
#define OCT_ENGINE_CUDA_QUANT_TURNS_CUH

#include "engine/cuda/quant.cuh"

typedef struct oct__cuda_meeting meeting;

/* What a block does. */
struct turn {
    bool is_find; /* else it writes */
    int node;
    uint32_t part; /* of the node's, 0 … N - 1 */
    meeting *meet;
};

struct turns {
    divider by_parts;
    uint32_t parts; /* N */
    int n_nodes, ahead, first_node;
    meeting *meetings;

    __device__ turn at(uint32_t number) const {
        const int pass = (int)by_parts.quotient(number), later = pass - ahead;
        turn t = {true, pass, number - (uint32_t)pass * parts, NULL};
        if (pass >= 2 * n_nodes - ahead) {
            t.is_find = false;
            t.node = pass - n_nodes;
        } else if (later >= 0) {
            t.is_find = later % 2 == 0;
            t.node = later / 2 + (t.is_find ? ahead : 0);
        }
        t.meet = meetings + t.node;
        t.node += first_node;
        return t;
    }
};

/* Blocks that the device runs at a time, by what registers allow them: as many turns lie between
 * the last block that finds a node's range and the first that wants it. */
enum { RESIDENT = 4 };

static size_t at_a_time(const struct oct__lane *lane) {
    return RESIDENT * (size_t)((const struct oct__cuda_engine *)lane->engine)->n_processors;
}

/* How often a block goes round, `each` of a node's elements at a time: where blocks are many, what
 * it costs to begin, to meet and to end is spread over more elements. The longer a block takes, the
 * more is read before it is read again, all of which the cache has to hold: `bytes` an element, and
 * so the fewer rounds the more these are. */
static int rounds_of(const struct oct__lane *lane, size_t elements, size_t each, size_t bytes) {
    const size_t all = (size_t)lane->form.n_nodes * elements, most = bytes <= 4 ? 4 : 16 / bytes;
    const size_t rounds = (all + each * at_a_time(lane) - 1) / (each * at_a_time(lane));
    return (int)(rounds < most ? rounds : most);
}

/* launch(turns, blocks) for all nodes of the lane, in as many launches as there are places to
 * meet. */
template <typename Launch>
static void in_turns(const struct oct__lane *lane, int parts, const Launch &launch) {
    meeting *meetings = ((const struct oct__cuda_engine *)lane->engine)->meetings;
    for (int first = 0; first < lane->form.n_nodes; first += OCT_CUDA_MEETINGS) {
        const int left = lane->form.n_nodes - first;
        const int n = left < OCT_CUDA_MEETINGS ? left : OCT_CUDA_MEETINGS;
        const int ahead = 1 + divided_up(at_a_time(lane), 2 * (size_t)parts);
        const turns order = {divider_of(parts),     (uint32_t)parts, n,
                             ahead < n ? ahead : n, first,           meetings};
        launch(order, (unsigned)(2 * n * parts));
    }
}

/* One thread of each block that finds, when what the block found is in memory: whether it was the
 * last, which sees what all of them found. */
static __device__ inline bool is_last_to_find(const turns &order, const turn &t) {
    __threadfence();
    const bool is_last = atomicInc(&t.meet->arrived, order.parts - 1) == order.parts - 1;
    if (is_last) {
        __threadfence();
    }
    return is_last;
}

/* One thread of the last of them: what the others need, two words of which the second is not 0. */
static __device__ inline void tell(const turn &t, uint32_t first, uint32_t second) {
    *(volatile uint64_t *)&t.meet->told = (uint64_t)second << 32 | first;
}

/* One thread of each block that writes: what it was told, after waiting for it, and how many of the
 * node's blocks heard it before. */
struct heard {
    uint64_t told;
    uint32_t before;
};

static __device__ inline heard hear(const turns &order, const turn &t) {
    heard h;
    h.told = wait_for(&t.meet->told);
    h.before = atomicInc(&t.meet->left, order.parts - 1);
    return h;
}

/* The same thread, when there is nothing else to do: the last of them leaves the place as it
 * was. */
static __device__ inline void leave(const turns &order, const turn &t, const heard &h) {
    if (h.before == order.parts - 1) {
        t.meet->told = 0;
        t.meet->peak = 0;
    }
}

#endif
