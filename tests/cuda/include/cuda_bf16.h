/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_bf16.h - what kernels use of CUDA's bf16, in C++ on the emulator. */
#ifndef OCT_TESTS_CUDA_BF16_H
#define OCT_TESTS_CUDA_BF16_H

#include <cuda_runtime.h>

struct __nv_bfloat16 {
    uint16_t bits;
};

struct __align__(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};

static inline float __bfloat162float(__nv_bfloat16 x) {
    return __uint_as_float((uint32_t)x.bits << 16);
}

/* To the nearest, ties to even; every NaN becomes the same one. */
static inline __nv_bfloat16 __float2bfloat16_rn(float x) {
    const uint32_t bits = __float_as_uint(x);
    const uint32_t rounded = (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16;
    return {(uint16_t)(x != x ? 0x7fffU : rounded)};
}

static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
    return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}

static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) {
    return x.bits;
}

#endif
