/* SPDX-License-Identifier: Apache-2.0 */
/* mma.cuh - tensor cores on the emulator: stands for the engine's header of this name, which says
 * who holds what. */
#ifndef OCT_ENGINE_CUDA_MMA_CUH
#define OCT_ENGINE_CUDA_MMA_CUH

#include <cuda_runtime.h>

struct emu_fragments {
    uint32_t a[4], b[2];
};

static inline const emu_fragments *emu_fragments_at(const char *slots, unsigned lane) {
    return (const emu_fragments *)(slots + lane * EMU_SLOT);
}

/* What the lanes bring, as matrices of bytes: a has 16 rows and b 8 columns, both of 32 bytes of depth
 * (32 bytes, or 16 numbers of 16 bits). */
struct emu_matrices {
    uint8_t a[16][32], b[8][32];
};

static inline emu_matrices emu_gather(const uint32_t a[4], const uint32_t b[2]) {
    emu_fragments mine;
    memcpy(mine.a, a, sizeof mine.a);
    memcpy(mine.b, b, sizeof mine.b);
    const char *slots = emu_meet(EMU_MULTIPLY, &mine, sizeof mine);
    emu_matrices all;
    for (unsigned lane = 0; lane < EMU_LANES; lane++) {
        const emu_fragments *of = emu_fragments_at(slots, lane);
        const unsigned g = lane / 4, q = lane % 4;
        for (unsigned i = 0; i < 4; i++) {
            memcpy(&all.a[g + i % 2 * 8][4 * q + i / 2 * 16], &of->a[i], 4);
        }
        for (unsigned i = 0; i < 2; i++) {
            memcpy(&all.b[g][4 * q + i * 16], &of->b[i], 4);
        }
    }
    return all;
}

/* Where sum i of this lane is. */
static inline unsigned emu_sum_row(int i) {
    return emu_thread.x % EMU_LANES / 4 + (unsigned)i / 2 * 8;
}

static inline unsigned emu_sum_column(int i) {
    return emu_thread.x % 4 * 2 + (unsigned)i % 2;
}

/* The suites do little else, so each lane reads only the two rows and columns that it needs. Sums are
 * modulo 2^32. */
static inline void mma_u8_s8(int32_t sums[4], const uint32_t a[4], const uint32_t b[2]) {
    emu_fragments mine;
    memcpy(mine.a, a, sizeof mine.a);
    memcpy(mine.b, b, sizeof mine.b);
    const char *slots = emu_meet(EMU_MULTIPLY, &mine, sizeof mine);
    for (int i = 0; i < 4; i++) {
        int sum = 0;
        for (unsigned lane = 0; lane < 4; lane++) {
            const emu_fragments *left = emu_fragments_at(slots, emu_sum_row(i) % 8 * 4 + lane);
            const emu_fragments *right = emu_fragments_at(slots, emu_sum_column(i) * 4 + lane);
            for (int half = 0; half < 2; half++) {
                const uint32_t x = left->a[i / 2 + half * 2], w = right->b[half];
                for (int k = 0; k < 32; k += 8) {
                    sum += (uint8_t)(x >> k) * (int8_t)(w >> k);
                }
            }
        }
        sums[i] = (int32_t)((uint32_t)sums[i] + (uint32_t)sum);
    }
}

static inline float emu_bf16_at(const uint8_t *row, int k) {
    return __uint_as_float((uint32_t)row[2 * k] << 16 | (uint32_t)row[2 * k + 1] << 24);
}

static inline void mma_bf16(float sums[4], const uint32_t a[4], const uint32_t b[2]) {
    const emu_matrices all = emu_gather(a, b);
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 16; k++) {
            sums[i] +=
                emu_bf16_at(all.a[emu_sum_row(i)], k) * emu_bf16_at(all.b[emu_sum_column(i)], k);
        }
    }
}

static inline void load_turned(uint32_t out[4], const void *row) {
    if ((uintptr_t)row % 16 != 0 || !emu_is_shared(row, 16)) {
        emu_fail("a row of a matrix at %p is not in shared memory at a multiple of 16 bytes", row);
    }
    const char *slots = emu_meet(EMU_LOAD_MATRIX, row, 16);
    const unsigned g = emu_thread.x % EMU_LANES / 4, q = emu_thread.x % 4;
    for (unsigned i = 0; i < 4; i++) {
        uint16_t pair[2];
        for (unsigned r = 0; r < 2; r++) {
            memcpy(&pair[r], slots + (8 * i + 2 * q + r) * EMU_SLOT + 2 * g, 2);
        }
        out[i] = (uint32_t)pair[0] | (uint32_t)pair[1] << 16;
    }
}

static inline void load_rows(uint32_t out[4], const void *row) {
    if ((uintptr_t)row % 16 != 0 || !emu_is_shared(row, 16)) {
        emu_fail("a row of a matrix at %p is not in shared memory at a multiple of 16 bytes", row);
    }
    const char *slots = emu_meet(EMU_LOAD_MATRIX, row, 16);
    const unsigned g = emu_thread.x % EMU_LANES / 4, q = emu_thread.x % 4;
    for (unsigned i = 0; i < 4; i++) {
        memcpy(&out[i], slots + (8 * i + g) * EMU_SLOT + 4 * q, 4);
    }
}

static inline float emu_tf32(uint32_t bits) {
    return __uint_as_float(bits & 0xffffe000U);
}

static inline void mma_tf32(float sums[4], const uint32_t a[4], const uint32_t b[2]) {
    emu_fragments mine;
    memcpy(mine.a, a, sizeof mine.a);
    memcpy(mine.b, b, sizeof mine.b);
    const char *slots = emu_meet(EMU_MULTIPLY, &mine, sizeof mine);
    for (int i = 0; i < 4; i++) {
        const unsigned row = emu_sum_row(i), column = emu_sum_column(i);
        for (unsigned k = 0; k < 8; k++) {
            const emu_fragments *left = emu_fragments_at(slots, row % 8 * 4 + k % 4);
            const emu_fragments *right = emu_fragments_at(slots, column * 4 + k % 4);
            sums[i] += emu_tf32(left->a[row / 8 + k / 4 * 2]) * emu_tf32(right->b[k / 4]);
        }
    }
}

static inline void copy_one(float *to, const float *from, int is_there) {
    emu_copy_later(to, is_there ? from : NULL, 4);
}

static inline void copy_four(float *to, const float *from, int is_there) {
    emu_copy_later(to, is_there ? from : NULL, 16);
}

static inline void await_copies() {
    emu_await_copies();
}

#endif
