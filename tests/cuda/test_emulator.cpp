/* SPDX-License-Identifier: Apache-2.0 */
/* test_emulator.cpp - the emulated GPU itself: that it computes what a GPU does, and that it notices
 * what it is there to notice, shown by small kernels with those mistakes in them. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda_bf16.h>

#include "engine/cuda/launch.cuh"
#include "engine/cuda/mma.cuh"

extern "C" {
#include "engine/engine.h"
#include "support/check.h"
}

enum { THREADS = 128, BLOCKS = 40 };

/* --- kernels ----------------------------------------------------------------------------------- */

/* Turns THREADS numbers around by way of shared memory; with IS_RIGHT 0 the barrier is missing. */
template <int IS_RIGHT>
static __global__ void __launch_bounds__(THREADS) turn(const int *from, int *to) {
    __shared__ int room[THREADS];
    const int at = (int)(blockIdx.x * THREADS + threadIdx.x);
    room[threadIdx.x] = from[at];
    if (IS_RIGHT) {
        __syncthreads();
    }
    to[at] = room[THREADS - 1 - threadIdx.x];
}

/* A room that is used twice, without the barrier that keeps the second use from the first. */
static __global__ void reuse(const int *from, int *to) {
    __shared__ int room;
    const int at = (int)(blockIdx.x * THREADS + threadIdx.x);
    int sum = 0;
    for (int i = 0; i < 2; i++) {
        if (threadIdx.x == 0) {
            room = from[at] + i;
        }
        __syncthreads();
        sum += room;
    }
    to[at] = sum;
}

/* Reads what only the first half of the threads has written. */
static __global__ void read_unwritten(float *to) {
    __shared__ float room[THREADS];
    float *also = dynamic_shared<float>();
    if (threadIdx.x < THREADS / 2) {
        room[threadIdx.x] = 1.0F;
        also[threadIdx.x] = 1.0F;
    }
    __syncthreads();
    to[blockIdx.x * THREADS + threadIdx.x] = room[threadIdx.x] + also[threadIdx.x];
}

static __global__ void sum_warps(const int *from, int *to) {
    const int at = (int)(blockIdx.x * THREADS + threadIdx.x);
    int sum = from[at];
    for (int d = 16; d > 0; d /= 2) {
        sum += __shfl_xor_sync(0xffffffffU, sum, d);
    }
    const unsigned odd = __ballot_sync(0xffffffffU, from[at] & 1);
    const int before = __shfl_up_sync(0xffffffffU, from[at], 1);
    to[at] = sum + 1000 * __popc(odd) + 100000 * before;
}

static __global__ void span_warps(const int *from, int *to) {
    const int at = (int)(blockIdx.x * THREADS + threadIdx.x), mine = from[at] - 20;
    const int least = __reduce_min_sync(0xffffffffU, mine);
    to[at] = least + 1000 * __reduce_max_sync(0xffffffffU, mine);
}

/* b's columns are rows here: both matrices lie with their depth side by side. */
template <typename T> static __global__ void multiply(const void *a, const void *b, T *sums) {
    const unsigned lane = threadIdx.x, g = lane / 4, q = lane % 4;
    const uint32_t *left = (const uint32_t *)a, *right = (const uint32_t *)b;
    const uint32_t fa[4] = {left[g * 8 + q], left[(g + 8) * 8 + q], left[g * 8 + q + 4],
                            left[(g + 8) * 8 + q + 4]};
    const uint32_t fb[2] = {right[g * 8 + q], right[g * 8 + q + 4]};
    T mine[4] = {};
    if constexpr (sizeof(T) == sizeof(float) && (T)0.5 != 0) {
        mma_bf16(mine, fa, fb);
    } else {
        mma_u8_s8(mine, fa, fb);
    }
    for (unsigned i = 0; i < 4; i++) {
        sums[(g + i / 2 * 8) * 8 + 2 * q + i % 2] = mine[i];
    }
}

static __global__ void turn_blocks(const uint16_t *from, uint16_t *to) {
    __shared__ __align__(16) uint16_t room[32][8];
    const unsigned lane = threadIdx.x, g = lane / 4, q = lane % 4;
    for (unsigned i = 0; i < 8; i++) {
        room[lane][i] = from[lane * 8 + i];
    }
    __syncwarp();
    uint32_t out[4];
    load_turned(out, room[lane]);
    for (unsigned i = 0; i < 4; i++) {
        to[(i * 8 + g) * 8 + 2 * q] = (uint16_t)out[i];
        to[(i * 8 + g) * 8 + 2 * q + 1] = (uint16_t)(out[i] >> 16);
    }
}

/* Rows of eight floats, by way of shared memory: what copies bring, and a product of them. */
template <int IS_AWAITED>
static __global__ void multiply_floats(const float *a, const float *b, float *sums) {
    __shared__ __align__(16) float left[16][12], right[8][12];
    const unsigned lane = threadIdx.x, g = lane / 4, q = lane % 4;
    copy_four(&left[lane / 2][lane % 2 * 4], a + lane * 4, 1);
    copy_one(&right[g][q], b + g * 8 + q, 1);
    copy_one(&right[g][q + 4], b, g > 0); /* b's first number, or 0 */
    if (IS_AWAITED) {
        await_copies();
    }
    __syncthreads();
    uint32_t fa[4], fb[4];
    load_rows(fa, &left[lane % 16][lane / 16 * 4]);
    load_rows(fb, &right[lane % 8][lane / 8 % 2 * 4]);
    float mine[4] = {};
    mma_tf32(mine, fa, fb);
    for (unsigned i = 0; i < 4; i++) {
        sums[(g + i / 2 * 8) * 8 + 2 * q + i % 2] = mine[i];
    }
    await_copies();
}

/* --- mistakes that end the program -------------------------------------------------------------- */

static __global__ void exit_before_barrier(int *to) {
    if (threadIdx.x != 7) {
        __syncthreads();
    }
    *to = 1;
}

static __global__ void exit_before_shuffle(int *to) {
    if (threadIdx.x != 40) {
        *to = __shfl_xor_sync(0xffffffffU, 1, 1);
    }
}

static __global__ void barrier_against_shuffle(int *to) {
    if (threadIdx.x % 2) {
        __syncthreads();
    } else {
        *to = __shfl_xor_sync(0xffffffffU, 1, 1);
    }
}

static __global__ void vote_against_shuffle(int *to) {
    if (threadIdx.x % 2) {
        *to = __all_sync(0xffffffffU, 1);
    } else {
        *to = __shfl_xor_sync(0xffffffffU, 1, 1);
    }
}

static __global__ void half_a_warp(int *to) {
    *to = __shfl_xor_sync(0x0000ffffU, 1, 1);
}

static __global__ void write_beyond_shared(int *to) {
    dynamic_shared<char>()[64 + threadIdx.x] = 1;
    *to = 1;
}

static __global__ void write_beyond(int *to) {
    to[threadIdx.x] = 1;
}

static __global__ void leave_copies(int *to) {
    __shared__ __align__(16) float room[32];
    copy_one(room + threadIdx.x % 32, (const float *)to, 1);
}

static __global__ void crooked_copy(int *to) {
    __shared__ __align__(16) float room[64];
    copy_four(room + threadIdx.x % 32, (const float *)to, 0);
    await_copies();
}

/* Block `first` says something, the other hears it, and takes it back but for IS_LEFT. */
template <int IS_LEFT> static __global__ void meet(uint64_t *word, uint32_t first, int *to) {
    if (threadIdx.x == 0 && block_turn() == first) {
        *word = 7;
    } else if (threadIdx.x == 0) {
        *to = (int)wait_for(word);
        *word = IS_LEFT ? *word : 0;
    }
}

static __global__ void crooked_row(int *to) {
    __shared__ __align__(16) uint16_t room[256];
    uint32_t out[4];
    load_turned(out, room + threadIdx.x);
    *to = (int)out[0];
}

/* --- computing ---------------------------------------------------------------------------------- */

template <typename T> static T *device(size_t n) {
    void *at;
    assert_int_equal(cudaMalloc(&at, n * sizeof(T)), cudaSuccess);
    return (T *)at;
}

/* How many of BLOCKS * THREADS differ from what `expected` says about their place. */
static int count_wrong(void (*kernel)(const int *, int *), int (*expected)(const int *, int)) {
    int *from = device<int>(BLOCKS * THREADS), *to = device<int>(BLOCKS * THREADS), n_wrong = 0;
    for (int i = 0; i < BLOCKS * THREADS; i++) {
        from[i] = i * 37 % 101;
    }
    launch_kernel(kernel, BLOCKS, THREADS, 0, NULL, from, to);
    for (int i = 0; i < BLOCKS * THREADS; i++) {
        n_wrong += to[i] != expected(from, i);
    }
    cudaFree(from);
    cudaFree(to);
    return n_wrong;
}

static int turned(const int *from, int i) {
    return from[i / THREADS * THREADS + THREADS - 1 - i % THREADS];
}

static int used_twice(const int *from, int i) {
    return 2 * from[i / THREADS * THREADS] + 1;
}

static int summed(const int *from, int i) {
    const int *warp = from + i / 32 * 32;
    int sum = 0, n_odd = 0;
    for (int l = 0; l < 32; l++) {
        sum += warp[l];
        n_odd += warp[l] & 1;
    }
    return sum + 1000 * n_odd + 100000 * from[i % 32 ? i - 1 : i];
}

static int spanned(const int *from, int i) {
    int least = INT32_MAX, most = INT32_MIN;
    for (int l = i / 32 * 32; l < i / 32 * 32 + 32; l++) {
        least = from[l] - 20 < least ? from[l] - 20 : least;
        most = from[l] - 20 > most ? from[l] - 20 : most;
    }
    return least + 1000 * most;
}

static void races_are_seen(void **) {
    const int right = count_wrong(turn<1>, turned), wrong = count_wrong(turn<0>, turned);
    const int reused = count_wrong(reuse, used_twice);
    print_message("of %d results wrong: %d with the barrier, %d without; %d of a room used twice\n",
                  BLOCKS * THREADS, right, wrong, reused);
    assert_int_equal(right, 0);
    assert_true(wrong > BLOCKS * THREADS / 4);
    assert_true(reused > BLOCKS * THREADS / 4);
}

static void unwritten_memory_is_seen(void **) {
    float *to = device<float>(BLOCKS * THREADS);
    int n_wrong = 0;
    for (int time = 0; time < 2; time++) { /* nor is what the kernel left the first time */
        launch_kernel(read_unwritten, BLOCKS, THREADS, THREADS * sizeof(float), NULL, to);
        for (int i = 0; i < BLOCKS * THREADS; i++) {
            n_wrong += (to[i] == 2.0F) != (i % THREADS < THREADS / 2) ||
                       (to[i] != 2.0F && !(to[i] > 1e38F) && to[i] == to[i]);
        }
    }
    print_message("%d results are not what is to be expected\n", n_wrong);
    assert_int_equal(n_wrong, 0);
    cudaFree(to);
}

static void warps_exchange(void **) {
    const int n_wrong = count_wrong(sum_warps, summed), n_spans = count_wrong(span_warps, spanned);
    print_message("%d sums and %d extremes are wrong\n", n_wrong, n_spans);
    assert_int_equal(n_wrong, 0);
    assert_int_equal(n_spans, 0);
}

static void matrices_multiply(void **) {
    uint8_t *a = device<uint8_t>(16 * 32), *b = device<uint8_t>(8 * 32);
    int32_t *sums = device<int32_t>(128);
    for (int i = 0; i < 16 * 32; i++) {
        a[i] = (uint8_t)(i * 89 % 256);
        b[i % 256] = (uint8_t)(i * 57 % 256);
    }
    launch_kernel(multiply<int32_t>, 1, 32, 0, NULL, a, b, sums);
    for (int i = 0; i < 128; i++) {
        int expected = 0;
        for (int k = 0; k < 32; k++) {
            expected += a[i / 8 * 32 + k] * (int8_t)b[i % 8 * 32 + k];
        }
        assert_int_equal(sums[i], expected);
    }
    cudaFree(a);
    cudaFree(b);
    cudaFree(sums);
}

static void matrices_of_bf16_multiply(void **) {
    __nv_bfloat16 *a = device<__nv_bfloat16>(16 * 16), *b = device<__nv_bfloat16>(8 * 16);
    float *sums = device<float>(128);
    for (int i = 0; i < 16 * 16; i++) {
        a[i] = __float2bfloat16_rn((float)(i % 19 - 9) / 4.0F);
        b[i % 128] = __float2bfloat16_rn((float)(i * 7 % 23 - 11));
    }
    launch_kernel(multiply<float>, 1, 32, 0, NULL, a, b, sums);
    for (int i = 0; i < 128; i++) {
        float expected = 0.0F; /* quarters below 2^10: exact in any order */
        for (int k = 0; k < 16; k++) {
            expected += __bfloat162float(a[i / 8 * 16 + k]) * __bfloat162float(b[i % 8 * 16 + k]);
        }
        if (sums[i] != expected) {
            fail_msg("sum %d is %g, expected %g", i, (double)sums[i], (double)expected);
        }
    }
    cudaFree(a);
    cudaFree(b);
    cudaFree(sums);
}

static void matrices_of_floats_multiply(void **) {
    float *a = device<float>(16 * 8), *b = device<float>(8 * 8), *sums = device<float>(128);
    for (int i = 0; i < 16 * 8; i++) {
        a[i] = (float)(i % 19 - 9) / 4.0F + 0x1p-13F; /* of which most is cut off */
        b[i % 64] = (float)(i * 7 % 23 - 11);
    }
    for (int is_awaited = 1; is_awaited >= 0; is_awaited--) {
        int n_wrong = 0;
        launch_kernel(is_awaited ? multiply_floats<1> : multiply_floats<0>, 1, 32, 0, NULL, a, b,
                      sums);
        for (int i = 0; i < 128; i++) {
            float expected = 0.0F; /* exact in any order */
            for (int k = 0; k < 8; k++) {
                const uint32_t bits = __float_as_uint(a[i / 8 * 8 + k]) & 0xffffe000U;
                expected += __uint_as_float(bits) * (k < 4       ? b[i % 8 * 8 + k]
                                                     : i % 8 > 0 ? b[0]
                                                                 : 0.0F);
            }
            n_wrong += sums[i] != expected;
        }
        print_message("%d of 128 sums are wrong, copies %s\n", n_wrong,
                      is_awaited ? "awaited" : "not awaited");
        assert_true(is_awaited ? n_wrong == 0 : n_wrong > 64);
    }
    cudaFree(a);
    cudaFree(b);
    cudaFree(sums);
}

static void matrices_turn(void **) {
    uint16_t *from = device<uint16_t>(256), *to = device<uint16_t>(256);
    for (int i = 0; i < 256; i++) {
        from[i] = (uint16_t)(i * 255);
    }
    launch_kernel(turn_blocks, 1, 32, 0, NULL, from, to);
    for (int i = 0; i < 256; i++) {
        assert_int_equal(to[i], from[i / 64 * 64 + i % 8 * 8 + i / 8 % 8]);
    }
    cudaFree(from);
    cudaFree(to);
}

static void numbers_are_cuda_s(void **) {
    assert_int_equal(__byte_perm(0x03020100U, 0x07060504U, 0x7340), 0x07030400U);
    assert_int_equal(__byte_perm(0x00008000U, 0, 0x0009), 0x000000ffU);
    assert_int_equal(__dp4a((int)0x80ff0302U, 0x017f7f01, 1000), 1000 + 2 + 3 * 127 - 127 - 128);
    assert_int_equal(__vminu2(0x00038000U, 0x00027fffU), 0x00027fffU);
    assert_int_equal(__vmaxu2(0x00038000U, 0x00047fffU), 0x00048000U);
    assert_int_equal(__umulhi(0x80000000U, 6U), 3);
    assert_int_equal(__float2int_rn(2.5F), 2);
    assert_int_equal(__float2int_rn(1e20F), INT32_MAX);
    assert_int_equal(__float2int_rn(NAN), 0);
    assert_true(__saturatef(NAN) == 0.0F && __saturatef(2.0F) == 1.0F);
    assert_int_equal(__float2bfloat16_rn(__uint_as_float(0x3f808000U)).bits, 0x3f80);
    assert_int_equal(__float2bfloat16_rn(__uint_as_float(0x3f818000U)).bits, 0x3f82);
    assert_int_equal(__float2bfloat16_rn(NAN).bits, 0x7fff);
}

/* --- refusing ----------------------------------------------------------------------------------- */

/* Expects `act` to end the program with a sentence that contains `piece`. */
static void expect_end(void (*act)(int *), const char *piece) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        act(device<int>(1));
        _exit(0);
    }
    close(ends[1]);
    char said[4096];
    size_t n = 0;
    for (ssize_t more; (more = read(ends[0], said + n, sizeof said - 1 - n)) > 0;) {
        n += (size_t)more;
    }
    close(ends[0]);
    said[n] = '\0';
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    print_message("%s", said);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        fail_msg("nothing was noticed; '%s' was to be said", piece);
    }
    if (!strstr(said, piece)) {
        fail_msg("'%s' is not in '%s'", piece, said);
    }
}

template <void (*kernel)(int *)> static void plainly(int *to) {
    launch_kernel(kernel, 2, 64, 0, NULL, to);
}

static void threads_that_do_not_come(void **) {
    expect_end(plainly<exit_before_barrier>, "waits at its block's barrier, but 1 of 64");
    expect_end(plainly<exit_before_shuffle>, "divergent warp: a lane waits in a shuffle");
    expect_end(plainly<barrier_against_shuffle>, "16 lanes of its warp are at the block's barrier");
    expect_end(plainly<vote_against_shuffle>, "divergent warp: a lane is in a");
    expect_end(plainly<half_a_warp>, "mask 0000ffff");
    expect_end(
        [](int *) {
            int *all = device<int>(48);
            launch_kernel(sum_warps, 1, 48, 0, NULL, all, all);
        },
        "16 have exited");
}

static void impossible_launches(void **) {
    expect_end([](int *to) { launch_kernel(write_beyond, 0, 1, 0, NULL, to); }, "takes no grid");
    expect_end([](int *to) { launch_kernel(write_beyond, dim3(1, 65536), 1, 0, NULL, to); },
               "takes no grid of 1 x 65536 x 1");
    expect_end([](int *to) { launch_kernel(write_beyond, dim3(1, 1, 65536), 1, 0, NULL, to); },
               "takes no grid");
    expect_end([](int *to) { launch_kernel(write_beyond, 1, 1025, 0, NULL, to); },
               "blocks of 1025 threads");
    expect_end([](int *to) { launch_kernel(write_beyond, 1, 1, 49153, NULL, to); },
               "49153 bytes of dynamic shared memory, and the kernel may have 49152");
}

static void much_shared_memory(void **) {
    int *to = device<int>(1);
    const void *kernel = (const void *)write_beyond;
    const cudaFuncAttribute shared = cudaFuncAttributeMaxDynamicSharedMemorySize;
    assert_int_equal(cudaFuncSetAttribute(kernel, shared, 228 << 10), cudaErrorInvalidValue);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
    assert_int_equal(cudaFuncSetAttribute(kernel, shared, 100000), cudaSuccess);
    launch_kernel(write_beyond, 1, 1, 100000, NULL, to);
    assert_int_equal(*to, 1);
    cudaFree(to);
}

static void copies_gone_wrong(void **) {
    expect_end(plainly<leave_copies>, "exits and has not awaited 1 copies");
    expect_end(plainly<crooked_copy>, "not to shared memory, or not aligned");
    expect_end(
        [](int *to) {
            launch_kernel(
                +[](int *at) { copy_one((float *)at, (const float *)at, 1); }, 1, 1, 0, NULL, to);
        },
        "not to shared memory");
}

static uint64_t *silent_word() {
    uint64_t *word = device<uint64_t>(1);
    *word = 0;
    return word;
}

static void blocks_that_meet(void **) {
    uint64_t *word = silent_word();
    int *to = device<int>(1);
    for (int time = 0; time < 2; time++) {
        *to = 0;
        launch_kernel(meet<0>, 2, 32, 0, NULL, word, 0, to);
        assert_int_equal(*to, 7);
        assert_int_equal(*word, 0);
    }
    expect_end([](int *at) { launch_kernel(meet<0>, 2, 32, 0, NULL, silent_word(), 1, at); },
               "waits for one that begins later");
    expect_end([](int *at) { launch_kernel(meet<1>, 2, 32, 0, NULL, silent_word(), 0, at); },
               "is 0x7 when the launch ends");
    cudaFree(word);
    cudaFree(to);
}

static void writes_beyond(void **) {
    expect_end([](int *to) { launch_kernel(write_beyond_shared, 1, 32, 64, NULL, to); },
               "written beyond dynamic shared memory");
    expect_end(
        [](int *to) {
            launch_kernel(write_beyond, 1, 2, 0, NULL, to);
            cudaFree(to);
        },
        IS_SANITIZED ? "use-after-poison" : "written beyond the end of the device's memory");
    expect_end([](int *to) { launch_kernel(crooked_row, 1, 32, 0, NULL, to); },
               "not in shared memory at a multiple of 16");
}

/* --- the engine --------------------------------------------------------------------------------- */

/* What the suites loop over has `cuda` in it. */
static void the_engine_is_there(void **) {
    int n_found = 0;
    for (int i = 0; oct__engine_at(i); i++) {
        const struct oct_plugin *plugin = &oct__engine_at(i)->plugin;
        print_message("%s: %s\n", plugin->name, plugin->unavailable ? plugin->unavailable : "yes");
        n_found += strcmp(plugin->name, "cuda") == 0 && !plugin->unavailable;
    }
    assert_int_equal(n_found, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(races_are_seen),
        cmocka_unit_test(unwritten_memory_is_seen),
        cmocka_unit_test(warps_exchange),
        cmocka_unit_test(matrices_multiply),
        cmocka_unit_test(matrices_of_bf16_multiply),
        cmocka_unit_test(matrices_of_floats_multiply),
        cmocka_unit_test(matrices_turn),
        cmocka_unit_test(numbers_are_cuda_s),
        cmocka_unit_test(threads_that_do_not_come),
        cmocka_unit_test(impossible_launches),
        cmocka_unit_test(much_shared_memory),
        cmocka_unit_test(copies_gone_wrong),
        cmocka_unit_test(blocks_that_meet),
        cmocka_unit_test(writes_beyond),
        cmocka_unit_test(the_engine_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
