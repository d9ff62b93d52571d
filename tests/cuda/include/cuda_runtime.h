/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_runtime.h - what kernels use of CUDA's language, in C++ on the emulator.
 *
 * Names, types and meanings are CUDA's. Vectors have CUDA's alignment, so that an access that a GPU
 * refuses is refused here.
 */
#ifndef OCT_TESTS_CUDA_RUNTIME_H
#define OCT_TESTS_CUDA_RUNTIME_H

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "../emulator.h"

#define __global__
#define __device__
#define __host__
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ EMU_SHARED

#define threadIdx emu_thread
#define blockIdx emu_block
#define blockDim emu_block_size
#define gridDim emu_grid_size

/* --- vectors --------------------------------------------------------------------------------- */

struct __align__(8) float2 {
    float x, y;
};
struct __align__(16) float4 {
    float x, y, z, w;
};
struct __align__(16) int4 {
    int x, y, z, w;
};
struct __align__(8) uint2 {
    unsigned x, y;
};
struct __align__(16) uint4 {
    unsigned x, y, z, w;
};

static inline float2 make_float2(float x, float y) {
    return {x, y};
}

static inline float4 make_float4(float x, float y, float z, float w) {
    return {x, y, z, w};
}

static inline uint2 make_uint2(unsigned x, unsigned y) {
    return {x, y};
}

static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return {x, y, z, w};
}

/* --- numbers --------------------------------------------------------------------------------- */

template <typename T> static inline T min(T a, T b) {
    return b < a ? b : a;
}

template <typename T> static inline T max(T a, T b) {
    return a < b ? b : a;
}

template <typename To, typename From> static inline To emu_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

static inline float __int_as_float(int x) {
    return emu_bits<float>(x);
}

static inline float __uint_as_float(unsigned x) {
    return emu_bits<float>(x);
}

static inline int __float_as_int(float x) {
    return emu_bits<int>(x);
}

static inline unsigned __float_as_uint(float x) {
    return emu_bits<unsigned>(x);
}

static inline long long __double_as_longlong(double x) {
    return emu_bits<long long>(x);
}

static inline double __longlong_as_double(long long x) {
    return emu_bits<double>(x);
}

/* To the nearest, ties to even; what is too large becomes the largest, a NaN 0. */
static inline int __float2int_rn(float x) {
    return x != x ? 0 : x >= 0x1p31F ? INT32_MAX : x <= -0x1p31F ? INT32_MIN : (int)rintf(x);
}

static inline float __saturatef(float x) {
    return x > 0.0F ? x < 1.0F ? x : 1.0F : 0.0F;
}

static inline int __popc(unsigned x) {
    return __builtin_popcount(x);
}

/* Four of the eight bytes of b, a: digit i of the selector names the one that becomes byte i. */
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    const uint64_t bytes = (uint64_t)b << 32 | a;
    unsigned out = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned digit = selector >> 4 * i & 15;
        const unsigned byte = (unsigned)(bytes >> 8 * (digit & 7)) & 255;
        out |= (digit & 8 ? byte & 128 ? 255U : 0U : byte) << 8 * i;
    }
    return out;
}

/* sum plus the products of four signed bytes with four. */
static inline int __dp4a(int a, int b, int sum) {
    for (int i = 0; i < 4; i++) {
        sum += (int8_t)(a >> 8 * i) * (int8_t)(b >> 8 * i);
    }
    return sum;
}

/* Of halves. */
static inline unsigned __vminu2(unsigned a, unsigned b) {
    return min(a >> 16, b >> 16) << 16 | min(a & 0xffffU, b & 0xffffU);
}

static inline unsigned __vmaxu2(unsigned a, unsigned b) {
    return max(a >> 16, b >> 16) << 16 | max(a & 0xffffU, b & 0xffffU);
}

static inline unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)((uint64_t)a * b >> 32);
}

/* --- atomics: only one thread runs at a time ------------------------------------------------- */

/* T, where it shall not be deduced. */
template <typename T> struct emu_same { typedef T type; };

template <typename T> static inline T atomicAdd(T *at, typename emu_same<T>::type x) {
    const T old = *at;
    *at = old + x;
    return old;
}

template <typename T> static inline T atomicMin(T *at, typename emu_same<T>::type x) {
    const T old = *at;
    *at = min(old, x);
    return old;
}

template <typename T> static inline T atomicMax(T *at, typename emu_same<T>::type x) {
    const T old = *at;
    *at = max(old, x);
    return old;
}

/* One more, and after `last` 0. */
static inline unsigned atomicInc(unsigned *at, unsigned last) {
    const unsigned old = *at;
    *at = old >= last ? 0 : old + 1;
    return old;
}

static inline void __threadfence() {
}

template <typename T>
static inline T atomicCAS(T *at, typename emu_same<T>::type expected,
                          typename emu_same<T>::type x) {
    const T old = *at;
    *at = old == expected ? x : old;
    return old;
}

/* --- together -------------------------------------------------------------------------------- */

static inline void __syncthreads() {
    emu_wait_for_block();
}

static inline void emu_all_lanes(unsigned mask) {
    if (mask != 0xffffffffU) {
        emu_fail("mask %08x: warps of which only some lanes take part are not emulated", mask);
    }
}

static inline void __syncwarp(unsigned mask = 0xffffffffU) {
    emu_all_lanes(mask);
    emu_meet(EMU_SYNC, NULL, 0);
}

static inline unsigned emu_lane() {
    return emu_thread.x % EMU_LANES;
}

template <typename T> static inline T emu_shuffle(unsigned mask, T mine, unsigned from) {
    emu_all_lanes(mask);
    const char *slots = emu_meet(EMU_SHUFFLE, &mine, sizeof mine);
    T theirs;
    memcpy(&theirs, slots + from * EMU_SLOT, sizeof theirs);
    return theirs;
}

template <typename T> static inline T __shfl_sync(unsigned mask, T x, int lane) {
    return emu_shuffle(mask, x, (unsigned)lane % EMU_LANES);
}

template <typename T> static inline T __shfl_xor_sync(unsigned mask, T x, int bits) {
    return emu_shuffle(mask, x, (emu_lane() ^ (unsigned)bits) % EMU_LANES);
}

template <typename T> static inline T __shfl_up_sync(unsigned mask, T x, unsigned by) {
    return emu_shuffle(mask, x, emu_lane() < by ? emu_lane() : emu_lane() - by);
}

template <typename T> static inline T __shfl_down_sync(unsigned mask, T x, unsigned by) {
    return emu_shuffle(mask, x, emu_lane() + by < EMU_LANES ? emu_lane() + by : emu_lane());
}

static inline unsigned __ballot_sync(unsigned mask, int x) {
    emu_all_lanes(mask);
    const char mine = x != 0, *slots = emu_meet(EMU_VOTE, &mine, sizeof mine);
    unsigned all = 0;
    for (unsigned i = 0; i < EMU_LANES; i++) {
        all |= (unsigned)slots[i * EMU_SLOT] << i;
    }
    return all;
}

/* Over the warp: int or unsigned. */
template <typename T> static inline T __reduce_min_sync(unsigned mask, T x) {
    emu_all_lanes(mask);
    const char *slots = emu_meet(EMU_SHUFFLE, &x, sizeof x);
    for (unsigned i = 0; i < EMU_LANES; i++) {
        T theirs;
        memcpy(&theirs, slots + i * EMU_SLOT, sizeof theirs);
        x = min(x, theirs);
    }
    return x;
}

template <typename T> static inline T __reduce_max_sync(unsigned mask, T x) {
    emu_all_lanes(mask);
    const char *slots = emu_meet(EMU_SHUFFLE, &x, sizeof x);
    for (unsigned i = 0; i < EMU_LANES; i++) {
        T theirs;
        memcpy(&theirs, slots + i * EMU_SLOT, sizeof theirs);
        x = max(x, theirs);
    }
    return x;
}

static inline int __all_sync(unsigned mask, int x) {
    return __ballot_sync(mask, x) == 0xffffffffU;
}

static inline int __any_sync(unsigned mask, int x) {
    return __ballot_sync(mask, x) != 0;
}

#endif
