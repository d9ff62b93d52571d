/* SPDX-License-Identifier: Apache-2.0 */
/* packet.cuh - what packing (packet.cu) and the choice of what a packet keeps (select.cu) share. */
#ifndef OCT_ENGINE_CUDA_PACKET_CUH
#define OCT_ENGINE_CUDA_PACKET_CUH

#include "engine/cuda/four.cuh"

extern "C" {
#include "base/rng.h"
#include "engine/packet.h"
}

/* Tensors of a launch: they are its argument, and a kernel's arguments are 4 KB. */
enum { PARTS_MOST = 96 };

/* Everything about a form but its tensors; `room` is scratch, a node's `room_stride` apart. */
struct packing {
    enum oct__select select;
    enum oct__coding coding;
    int bits;
    uint32_t n_parts;
    size_t index_at, values_at, used, n_bytes; /* of a packet; used: where the zeros begin */
    char *room;
    size_t room_stride;
    size_t words_at, kept_at, peaks_at, tallies_at, strips_at; /* in it: select.cu */
    nodes<const float> base;                                   /* absent: its address is NULL */
    nodes<float> memory;
    float factor;
    struct chance words, round;
    struct oct__cuda_fault *fault;
    int first_node;
    int is_wide; /* rows and bases begin at multiples of 16 bytes */
};

/* The largest magnitude that was kept of a tensor, and the scale that it counts for. */
struct peak {
    uint32_t bits, scale;
};

/* select.cu: plans a node's scratch, all of it but where `room` is; `has_base`: what is packed is a
 * difference. And writes what packets keep, index and values; with S8 the values as they are to
 * scratch, with each tensor's peak. Without S8 memory gets what was kept. */
extern "C" void oct__cuda_plan_selection(const struct oct__packet_form *form, int has_base,
                                         struct packing *p);
extern "C" void oct__cuda_select(const struct oct__lane *lane, const struct oct__args *args,
                                 const struct packing *p);

static inline size_t whole_lines(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static __device__ inline char *room_of(const struct packing &p) {
    return p.room + (size_t)blockIdx.y * p.room_stride;
}

/* Elements i, i + STEP, … of an array, four of them, and 0 in place of those from `end` on. Whoever
 * writes to memory that may be what it reads loads all before it stores any, so that four are under
 * way at once. */
template <uint32_t STEP = BLOCK, typename T>
static __device__ inline void load_apart(const T *from, uint32_t i, uint32_t end, T to[FOUR]) {
#pragma unroll
    for (uint32_t j = 0; j < FOUR; j++) {
        to[j] = i + j * STEP < end ? from[i + j * STEP] : (T)0;
    }
}

/* A tensor of this block's node as it is packed. */
struct source {
    const float *x, *base;

    template <uint32_t STEP = BLOCK>
    __device__ void load(uint32_t i, uint32_t end, float to[FOUR]) const {
        load_apart<STEP>(x, i, end, to);
        if (base) {
            float off[FOUR];
            load_apart<STEP>(base, i, end, off);
            for (int j = 0; j < FOUR; j++) {
                to[j] -= off[j];
            }
        }
    }

    /* Elements i … i + 3, as load_four has them. */
    __device__ struct four four(uint32_t i, uint32_t end, int wide) const {
        struct four v = load_four(x, i, end, wide);
        if (base) {
            const struct four off = load_four(base, i, end, wide);
            for (int j = 0; j < FOUR; j++) {
                v.v[j] -= off.v[j];
            }
        }
        return v;
    }

    __device__ float at(uint32_t i) const {
        return base ? x[i] - base[i] : x[i];
    }
};

static __device__ inline struct source source_of(const struct packing &p, nodes<const float> rows,
                                                 uint32_t offset) {
    const int node = (int)blockIdx.y;
    const struct source source = {rows.of(node) + offset,
                                  p.base.at ? p.base.of(node) + offset : NULL};
    return source;
}

/* The same tensor of what it remembers; NULL: nothing. */
static __device__ inline float *memory_of(const struct packing &p, uint32_t offset) {
    return p.memory.at ? p.memory.of((int)blockIdx.y) + offset : NULL;
}

/* A packet ends with zeros: less than a cache line of them. */
static __device__ inline void end_with_zeros(const struct packing &p, char *packet) {
    const size_t at = p.used + threadIdx.x;
    if (blockIdx.x == 0 && at < p.n_bytes) {
        packet[at] = 0;
    }
}

/* To the nearest, ties to even, as round_bf16_f32 of kernels.def. */
static __device__ inline uint16_t round_bf16(uint32_t bits) {
    if ((bits & 0x7fffffffU) > 0x7f800000U) {
        return (uint16_t)(0x7fc0U | (bits >> 16 & 0x8000U));
    }
    return (uint16_t)((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

/* Bits of a magnitude that rounds to infinity as bf16, and of infinity itself. */
#define BF16_OVERFLOW 0x7f7f8000U
#define INFINITE 0x7f800000U

/* Reports a tensor whose largest magnitude its coding cannot hold. */
static __device__ inline void look_at(const struct packing &p, uint32_t part, uint32_t peak) {
    const int node = p.first_node + (int)blockIdx.y;
    if (peak >= INFINITE) {
        report(p.fault, OCT_CUDA_WRONG_ROW, (int)part, node);
    } else if (p.coding == OCT_CODING_BF16 && peak >= BF16_OVERFLOW) {
        report(p.fault, OCT_CUDA_WRONG_BF16, (int)part, node, (int)peak);
    }
}

#endif
