/* SPDX-License-Identifier: Apache-2.0 */
/* mma.cuh - the instructions of tensor cores, each done by the 32 lanes of a warp together.
 *
 * All that the kernels say in PTX is here; tests/cuda has a header of this name in C++. Who holds what
 * ("fragments") is as in the PTX manual: lane l has, with g = l / 4 and q = l % 4,
 *
 *                          16-bit factors, k = 16           8-bit factors, k = 32
 *     a[0], a[1]           rows g, g + 8;  k from 2 q       rows g, g + 8;  k from 4 q
 *     a[2], a[3]           rows g, g + 8;  k from 2 q + 8   rows g, g + 8;  k from 4 q + 16
 *     b[0], b[1]           column g;  k from 2 q, + 8       column g;  k from 4 q, + 16
 *     sums[0 … 3]          (g, 2 q), (g, 2 q + 1), (g + 8, 2 q), (g + 8, 2 q + 1)
 *
 * the lowest k in a word's lowest bits. Sums have 16 rows and 8 columns. Of tf32, k = 8, a word holds one
 * factor: a[0], a[1] have k = q and a[2], a[3] k = q + 4, b likewise.
 */
#ifndef OCT_ENGINE_CUDA_MMA_CUH
#define OCT_ENGINE_CUDA_MMA_CUH

#include <stdint.h>

/* sums += a * b, a unsigned and b signed. */
static __device__ inline void mma_u8_s8(int32_t sums[4], const uint32_t a[4], const uint32_t b[2]) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Products are exact, sums are floats. */
static __device__ inline void mma_bf16(float sums[4], const uint32_t a[4], const uint32_t b[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Four blocks of eight rows and columns of 16 bits out of shared memory, turned over. Lane l brings
 * row l % 8 of block l / 8, eight neighbours at a multiple of 16 bytes; it gets, of each block, rows
 * 2 q and 2 q + 1 of column g. */
static __device__ inline void load_turned(uint32_t out[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row)));
}

/* The same, not turned over: of each block, words 2 q and 2 q + 1 of row g. Of floats that is four
 * neighbours a row, and lane l gets number q of row g. */
static __device__ inline void load_rows(uint32_t out[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row)));
}

/* Products of floats of which the lowest 13 bits do not count; sums are floats. */
static __device__ inline void mma_tf32(float sums[4], const uint32_t a[4], const uint32_t b[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* One float, or four at a multiple of 16 bytes, to shared memory without passing through registers:
 * there after await_copies(), for other threads after a barrier behind it. If not `is_there`, zeros are
 * written and `from` is not read. */
static __device__ inline void copy_one(float *to, const float *from, int is_there) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :
                 : "r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from), "r"(is_there ? 4 : 0)
                 : "memory");
}

static __device__ inline void copy_four(float *to, const float *from, int is_there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from), "r"(is_there ? 16 : 0)
                 : "memory");
}

static __device__ inline void await_copies() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}

#endif
