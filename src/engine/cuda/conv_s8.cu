/* SPDX-License-Identifier: Apache-2.0 */
/* conv_s8.cu - convolutions in 8-bit integers on tensor cores; sums are exact.
 *
 * A block makes the results of a rectangle of positions (or of several small images) and 16 or 32
 * channels. It brings the pixels that these see into shared memory once, border included, and the
 * weights as rows [result channel][tap, channel]; a tap is then the same rows of the left factor a
 * constant number of bytes further on, and a load of a matrix takes 16 bytes of a pixel wherever it
 * lies. Depth goes by slices of 16, 32 or 64 channels, which for most layers is all there is.
 *
 *     region   [image][row][column][slice], a pixel's pitch an odd multiple of 16 bytes
 *     weights  [result channel][tap][slice], the pitch of a row likewise
 *
 * so that eight rows of 16 bytes never meet in a bank. Weights come as [out][in][tap]: of 3 x 3 taps
 * they are copied as they are and turned over by permuting the bytes of words, four channels a word;
 * of other kernels, and of channels that make no whole sixteens, byte by byte.
 *
 * Both directions are one product. Backward, dy is read through the mirrored kernel, `stride` pixels
 * apart with nothing between them. Bytes are unsigned with a zero in the middle: forward the grid's,
 * backward OCT_EXCESS. Outside the image they count as zero, so the region holds the zero there, and
 *
 *     sum of (x - zero) * w  =  sum of x * w  -  zero * (sum of w)
 *
 * with the sum of w taken from the right factor's words as they pass. All modulo 2^32.
 */
#include "engine/cuda/conv.cuh"
#include "engine/cuda/mma.cuh"

enum { THREADS = 256, ROOM = 48 << 10, TAPS = 9, ENOUGH_BLOCKS = 256 };

struct operands {
    nodes<const uint8_t> from;
    nodes<const int8_t> weights;
    nodes<const struct oct__grid> grid; /* forward only */
    nodes<int32_t> to;
};

/* --- tiles -------------------------------------------------------------------------------------- */

/* n / by without a division, for n * by < 2^31. */
struct divisor {
    uint32_t by, times;
};

static inline divisor divisor_of(int by) {
    return {(uint32_t)by, (uint32_t)(((1U << 31) + (uint32_t)by - 1) / (uint32_t)by)};
}

static inline int divides(size_t most, size_t by) {
    return most * by < 1U << 31;
}

static __device__ inline int quotient(int n, const divisor &d) {
    return (int)((uint64_t)(uint32_t)n * d.times >> 31);
}

/* What a block makes, and how it lies in the region that it reads. */
struct tiles {
    int images, rows, columns; /* of results */
    int region_h, region_w;    /* pixels of an image in the region */
    int step;                  /* pixels of the region from a result to the next */
    int hop, before;           /* pixel y of the region is pixel y * hop - before of the image */
    int is_wide, is_wide_to;   /* sixteen bytes at a time: read, written */
    divisor by_columns, by_rows, by_region_w, by_region_h;
    divisor by_across, by_parts, by_apart, by_kernel; /* see conv_kernel and source_of */
};

/* Bytes from a pixel of the region to the next, from a row of weights to the next. */
static __host__ __device__ constexpr int pixel_pitch(int slice) {
    return slice == 16 ? 16 : slice + 16;
}

static __host__ __device__ constexpr int weight_pitch(int slice, int n_taps) {
    return (n_taps * slice + 31) / 32 * 32 + 16;
}

/* Where the weights of a block's result channel stand: of 16, lane q of a warp then has sums of four
 * neighbours, 4 q … 4 q + 3. */
static __device__ inline int row_of(int channel) {
    return channel / 16 * 16 + channel / 2 % 2 * 8 + channel % 16 / 4 * 2 + channel % 2;
}

/* --- weights ------------------------------------------------------------------------------------ */

/* Loads four, then stores four, so that loads wait together. */
template <typename Load, typename Store>
static __device__ inline void stage(int count, Load load, Store store) {
    const int threads = (int)blockDim.x;
    for (int first = (int)threadIdx.x; first < count; first += 4 * threads) {
        uint32_t words[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            words[i] = first + i * threads < count ? load(first + i * threads) : 0;
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (first + i * threads < count) {
                store(first + i * threads, words[i]);
            }
        }
    }
}

/* Any weights, channels from `depth` on: byte by byte to their places. */
template <int SLICE, int N>
static __device__ void gather_weights(const taps &t, const int8_t *from, int first, int depth,
                                      uint8_t *to) {
    const int n_taps = taps_count(t), pitch = weight_pitch(SLICE, n_taps);
    const int words = pitch / 4 - 4; /* of a row */
    const auto load = [&](int e) {
        const int row = e / words, word = e - row * words, tap = word / (SLICE / 4);
        const int channel = depth + word % (SLICE / 4) * 4, column = first + row;
        uint32_t bytes = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (tap < n_taps && channel + i < t.from_c && column < t.to_c) {
                const int at = t.is_back ? n_taps - 1 - tap : tap;
                bytes |= (uint32_t)(uint8_t)from[weight_at(t, 0, channel + i, column, at)] << 8 * i;
            }
        }
        return bytes;
    };
    stage(N * words, load, [&](int e, uint32_t bytes) {
        const int row = e / words;
        *(uint32_t *)(to + row_of(row) * pitch + (e - row * words) * 4) = bytes;
    });
}

/* Of 3 x 3 taps, in whole sixteens of channels: rows as they come. Forward a row is a result channel's,
 * backward that of a channel of depth; there 16 bytes follow every fourth, for the banks. */
template <int SLICE, int N, int BACK>
static __device__ void copy_weights(const taps &t, const int8_t *from, int first, int depth,
                                    uint8_t *to) {
    enum { ROWS = BACK ? SLICE : N, BYTES = (BACK ? N : SLICE) * TAPS, VECTORS = BYTES / 16 };
    const int n_depth = min((int)SLICE, t.from_c - depth), n_to = min((int)N, t.to_c - first);
    const int rows = BACK ? n_depth : n_to, vectors = (BACK ? n_to : n_depth) * TAPS / 16;
    for (int e = (int)threadIdx.x; e < ROWS * VECTORS; e += (int)blockDim.x) {
        const int row = e / VECTORS, vector = e % VECTORS;
        if (row < rows && vector < vectors) {
            const size_t at = BACK ? (size_t)(depth + row) * (size_t)t.to_c + (size_t)first
                                   : (size_t)(first + row) * (size_t)t.from_c + (size_t)depth;
            copy_four((float *)(to + row * BYTES + (BACK ? row / 4 * 16 : 0) + vector * 16),
                      (const float *)(from + at * TAPS + vector * 16), 1);
        }
    }
}

/* Turns over what lies there. Four channels of depth and nine taps are nine words: each thread takes
 * those of some result channels, and when all have theirs, puts them back in order. */
template <int SLICE, int N>
static __device__ void turn_forward(const taps &t, int depth, uint8_t *room) {
    enum { FOURS = SLICE / 4, UNITS = N * FOURS, LEAST = THREADS / 2 };
    enum { EACH = (UNITS + LEAST - 1) / LEAST, PITCH = weight_pitch(SLICE, TAPS) };
    uint32_t words[EACH][TAPS];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int e = (int)threadIdx.x + i * (int)blockDim.x;
        const int is_there = e < UNITS && depth + e % FOURS * 4 < t.from_c;
#pragma unroll
        for (int w = 0; w < TAPS; w++) {
            words[i][w] = is_there ? ((const uint32_t *)room)[e * TAPS + w] : 0;
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int e = (int)threadIdx.x + i * (int)blockDim.x;
        uint8_t *to = room + row_of(e / FOURS) * PITCH + e % FOURS * 4;
        if (e < UNITS) {
#pragma unroll
            for (int tap = 0; tap < TAPS; tap++) { /* bytes tap, tap + 9, … of the 36 */
                const int b = tap + 9, c = tap + 18, d = tap + 27;
                const uint32_t low = __byte_perm(words[i][tap / 4], words[i][b / 4],
                                                 (uint32_t)(tap % 4 | (b % 4 + 4) << 4));
                const uint32_t high = __byte_perm(words[i][c / 4], words[i][d / 4],
                                                  (uint32_t)(c % 4 | (d % 4 + 4) << 4));
                *(uint32_t *)(to + tap * SLICE) = __byte_perm(low, high, 0x5410);
            }
        }
    }
}

/* The same backward, where a thread has a square of four channels by four. */
template <int SLICE, int N>
static __device__ void turn_back(const taps &t, int depth, uint8_t *room) {
    enum { FOURS = SLICE / 4, UNITS = N / 4 * FOURS, PITCH = weight_pitch(SLICE, TAPS) };
    enum { ROW = N * TAPS, FOUR_ROWS = 4 * ROW + 16 };
    static_assert(UNITS <= THREADS / 2, "one for each thread");
    static_assert(FOURS * FOUR_ROWS <= N * PITCH, "in the room of what they become");
    const int e = (int)threadIdx.x, four = e % FOURS, square = e / FOURS;
    const int is_there = e < UNITS && depth + four * 4 < t.from_c;
    const uint8_t *from = room + four * FOUR_ROWS + square * 4 * TAPS;
    uint32_t words[4][TAPS];
#pragma unroll
    for (int i = 0; i < 4; i++) {
#pragma unroll
        for (int w = 0; w < TAPS; w++) {
            words[i][w] = is_there ? *(const uint32_t *)(from + i * ROW + w * 4) : 0;
        }
    }
    __syncthreads();
    if (e >= UNITS) {
        return;
    }
    /* Channel 4 square + i stands i % 2 + i / 2 * 8 rows behind the first: see row_of. */
    uint8_t *to = room + row_of(square * 4) * PITCH + four * 4;
#pragma unroll
    for (int w = 0; w < TAPS; w++) { /* 4 x 4 bytes */
        const uint32_t a = __byte_perm(words[0][w], words[1][w], 0x5140);
        const uint32_t b = __byte_perm(words[2][w], words[3][w], 0x5140);
        const uint32_t c = __byte_perm(words[0][w], words[1][w], 0x7362);
        const uint32_t d = __byte_perm(words[2][w], words[3][w], 0x7362);
        const uint32_t turned[4] = {__byte_perm(a, b, 0x5410), __byte_perm(a, b, 0x7632),
                                    __byte_perm(c, d, 0x5410), __byte_perm(c, d, 0x7632)};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int byte = 4 * w + i, channel = byte / TAPS, tap = TAPS - 1 - byte % TAPS;
            *(uint32_t *)(to + (channel % 2 + channel / 2 * 8) * PITCH + tap * SLICE) = turned[i];
        }
    }
}

/* --- the region --------------------------------------------------------------------------------- */

/* The place of a region's first pixel. */
struct corner {
    int image, y, x;
};

/* The pixel of `from` that stands in a region at `pixel`; -1: none. */
static __device__ inline int source_of(const taps &t, const tiles &p, const corner &at, int pixel) {
    const int row = quotient(pixel, p.by_region_w), column = pixel - row * p.region_w;
    const int image = quotient(row, p.by_region_h);
    int y = at.y + (row - image * p.region_h) * p.hop, x = at.x + column * p.hop;
    if (p.by_apart.by > 1) {
        const int to_y = y, to_x = x;
        if ((y | x) < 0) {
            return -1;
        }
        y = quotient(y, p.by_apart);
        x = quotient(x, p.by_apart);
        if (y * (int)p.by_apart.by != to_y || x * (int)p.by_apart.by != to_x) {
            return -1;
        }
    }
    if (at.image + image >= t.n || y < 0 || y >= t.from_h || x < 0 || x >= t.from_w) {
        return -1;
    }
    return ((at.image + image) * t.from_h + y) * t.from_w + x;
}

/* Copies that will be there when awaited; returns which of the thread's pixels are not in the image, so
 * that the zero, which comes from memory too, is not waited for before they are all under way. */
template <int SLICE>
static __device__ uint32_t copy_region(const taps &t, const tiles &p, const corner &at,
                                       const uint8_t *from, int depth, uint8_t *to) {
    enum { VECTORS = SLICE / 16 };
    const int count = p.images * p.region_h * p.region_w * VECTORS;
    uint32_t outside = 0;
    for (int e = (int)threadIdx.x, i = 0; e < count; e += (int)blockDim.x, i++) {
        const int pixel = e / VECTORS, channel = e % VECTORS * 16;
        const int source = source_of(t, p, at, pixel);
        if (source < 0) {
            outside |= 1U << i;
        } else if (depth + channel < t.from_c) { /* what is beyond meets weights of 0 */
            copy_four((float *)(to + pixel * pixel_pitch(SLICE) + channel),
                      (const float *)(from + (size_t)source * t.from_c + depth + channel), 1);
        }
    }
    return outside;
}

template <int SLICE>
static __device__ void fill_outside(uint32_t outside, uint32_t zero, uint8_t *to) {
    enum { VECTORS = SLICE / 16 };
    const uint32_t four = zero * 0x01010101U;
    for (int e = (int)threadIdx.x; outside != 0; e += (int)blockDim.x, outside >>= 1) {
        if (outside & 1U) {
            *(uint4 *)(to + e / VECTORS * pixel_pitch(SLICE) + e % VECTORS * 16) =
                make_uint4(four, four, four, four);
        }
    }
}

/* Any number of channels, byte by byte. */
template <int SLICE>
static __device__ void gather_region(const taps &t, const tiles &p, const corner &at,
                                     const uint8_t *from, int depth, uint32_t zero, uint8_t *to) {
    const int words = (min((int)SLICE, t.from_c - depth) + 3) / 4; /* of a pixel */
    const auto load = [&](int e) {
        const int pixel = e / words, channel = depth + (e - pixel * words) * 4;
        const int source = source_of(t, p, at, pixel);
        const uint8_t *there = from + (size_t)max(source, 0) * t.from_c + channel;
        uint32_t bytes = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (channel + i < t.from_c) {
                bytes |= (source < 0 ? zero : there[i]) << 8 * i;
            }
        }
        return bytes;
    };
    stage(p.images * p.region_h * p.region_w * words, load, [&](int e, uint32_t bytes) {
        const int pixel = e / words;
        *(uint32_t *)(to + pixel * pixel_pitch(SLICE) + (e - pixel * words) * 4) = bytes;
    });
}

/* --- the product -------------------------------------------------------------------------------- */

/* A result: where its first tap's pixel stands in the region, and its position in `to`, or -1. */
struct spot {
    int pixel, position;
};

static __device__ inline spot spot_of(const taps &t, const tiles &p, int image, int y, int x,
                                      int n) {
    const int row = quotient(n, p.by_columns), column = n - row * p.columns;
    const int i = quotient(row, p.by_rows), j = row - i * p.rows;
    if (i >= p.images || image + i >= t.n || y + j >= t.to_h || x + column >= t.to_w) {
        return {0, -1};
    }
    return {((i * p.region_h + j * p.step) * p.region_w + column * p.step),
            ((image + i) * t.to_h + y + j) * t.to_w + x + column};
}

/* Bytes from a result's first tap to what step k of depth reads. A step is 32 bytes: one tap's, or of
 * slices of 16 channels two, of which the upper half of a warp takes the second. The last step may
 * have no second; it meets weights of 0. */
template <int SLICE, int KERNEL>
static __device__ inline int step_offset(const taps &t, const tiles &p, int k, int is_upper) {
    const int kernel = KERNEL ? KERNEL : t.kernel, line = p.region_w * pixel_pitch(SLICE);
    const auto offset = [&](int tap) {
        const int row = KERNEL ? tap / (KERNEL ? KERNEL : 1) : quotient(tap, p.by_kernel);
        return row * line + (tap - row * kernel) * pixel_pitch(SLICE);
    };
    if constexpr (SLICE == 16) {
        const int first = offset(2 * k), second = offset(min(2 * k + 1, kernel * kernel - 1));
        return is_upper ? second : first;
    } else {
        return offset(k / (SLICE / 32)) + k % (SLICE / 32) * 32;
    }
}

/* A warp's part: so many tiles of 16 results by N channels. */
template <int N> struct product {
    enum { TILES = 64 / N, BLOCKS = N / 8 };
    int32_t sums[TILES][BLOCKS][4];
    int weight_sums[BLOCKS]; /* of column lane / 4, every fourth word */
};

template <int SLICE, int N, int KERNEL>
static __device__ inline void multiply(const taps &t, const tiles &p, const uint8_t *region,
                                       const uint8_t *weights, const spot *spots, product<N> *all) {
    enum { TILES = product<N>::TILES, BLOCKS = product<N>::BLOCKS };
    const int lane = (int)threadIdx.x % 32, n_taps = KERNEL ? KERNEL * KERNEL : taps_count(t);
    const int steps = (n_taps * SLICE + 31) / 32, pitch = weight_pitch(SLICE, n_taps);
    const uint8_t *rows[TILES];
#pragma unroll
    for (int r = 0; r < TILES; r++) {
        rows[r] = region + spots[r].pixel * pixel_pitch(SLICE) + (SLICE > 16 ? lane / 16 * 16 : 0);
    }
    const uint8_t *columns = weights + (lane / 16 * 8 + lane % 8) * pitch + lane / 8 % 2 * 16;
#pragma unroll(KERNEL ? 18 : 1)
    for (int k = 0; k < steps; k++) {
        const int offset = step_offset<SLICE, KERNEL>(t, p, k, lane / 16);
        uint32_t b[BLOCKS / 2][4];
#pragma unroll
        for (int j = 0; j < BLOCKS / 2; j++) {
            load_rows(b[j], columns + j * 16 * pitch + k * 32);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int *sum = &all->weight_sums[2 * j + i / 2];
                *sum = __dp4a((int)b[j][i], 0x01010101, *sum);
            }
        }
#pragma unroll
        for (int r = 0; r < TILES; r++) {
            uint32_t a[4];
            load_rows(a, rows[r] + offset);
#pragma unroll
            for (int c = 0; c < BLOCKS; c++) {
                mma_u8_s8(all->sums[r][c], a, &b[c / 2][c % 2 * 2]);
            }
        }
    }
}

/* What is to be subtracted from the sums of a lane's columns, from all lanes' weights. */
template <int N>
static __device__ inline void find_corrections(const product<N> &all, uint32_t zero,
                                               uint32_t corrections[N / 8][2]) {
    const int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int c = 0; c < N / 8; c++) {
        int sum = all.weight_sums[c];
        sum += __shfl_xor_sync(0xffffffffU, sum, 1);
        sum += __shfl_xor_sync(0xffffffffU, sum, 2);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int of = __shfl_sync(0xffffffffU, sum, (lane % 4 * 2 + i) * 4);
            corrections[c][i] = zero * (uint32_t)of;
        }
    }
}

/* `to` begins with the block's first channel, of which `channels` are left. */
template <int N>
static __device__ inline void write_results(const taps &t, const tiles &p, const product<N> &all,
                                            uint32_t zero, const spot *spots, int channels,
                                            int32_t *to) {
    const int lane = (int)threadIdx.x % 32;
    uint32_t less[N / 8][2];
    find_corrections(all, zero, less);
#pragma unroll
    for (int r = 0; r < product<N>::TILES; r++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int position = __shfl_sync(0xffffffffU, spots[r].position, lane / 4 + half * 8);
            int32_t *row =
                to + (size_t)(unsigned)max(position, 0) * (unsigned)t.to_c + lane % 4 * 4;
#pragma unroll
            for (int j = 0; j < N / 16; j++) {
                int32_t sums[4];
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    sums[i] = (int32_t)((uint32_t)all.sums[r][2 * j + i / 2][half * 2 + i % 2] -
                                        less[2 * j + i / 2][i % 2]);
                }
                const int left = position < 0 ? 0 : channels - j * 16 - lane % 4 * 4;
                if (p.is_wide_to && left > 0) { /* then it is a multiple of 4 */
                    *(int4 *)(row + j * 16) = {sums[0], sums[1], sums[2], sums[3]};
                } else {
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        if (i < left) {
                            row[j * 16 + i] = sums[i];
                        }
                    }
                }
            }
        }
    }
}

/* How many blocks a multiprocessor shall hold, which limits their registers. Sums of several slices
 * (MANY) take up registers while weights are turned. */
template <int SLICE, int N, int MANY> struct residents {
    enum { BLOCKS = MANY ? 2 : SLICE == 16 && N == 16 ? 4 : 3 };
};

/* KERNEL 3: of 3 x 3 taps and whole sixteens of channels, BACK as t.is_back; KERNEL 0: of any. */
template <int SLICE, int N, int KERNEL, int BACK, int MANY>
static __global__ void __launch_bounds__(THREADS, (residents<SLICE, N, MANY>::BLOCKS))
    conv_kernel(const taps t, const tiles p, const operands all) {
    enum { TILES = product<N>::TILES };
    const int node = quotient((int)blockIdx.z, p.by_parts);
    const int first = ((int)blockIdx.z - node * (int)p.by_parts.by) * N;
    const int down = quotient((int)blockIdx.x, p.by_across);
    const int y = down * p.rows, x = ((int)blockIdx.x - down * (int)p.by_across.by) * p.columns;
    const int image = (int)blockIdx.y * p.images;
    const corner at = {image, y * p.step * p.hop - p.before, x * p.step * p.hop - p.before};
    const uint8_t *from = all.from.of(node);
    const int8_t *given = all.weights.of(node);
    const float zero_of_grid = t.is_back ? OCT_EXCESS : all.grid.of(node)->zero;
    uint8_t *weights = dynamic_shared<uint8_t>();
    uint8_t *region = weights + N * weight_pitch(SLICE, KERNEL ? (int)TAPS : taps_count(t));
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int is_busy = warp * TILES * 16 < p.images * p.rows * p.columns;
    spot spots[TILES]; /* of row lane % 16 of each tile */
    product<N> made = {};
    for (int depth = 0; depth < (MANY ? t.from_c : 1); depth += SLICE) {
        uint32_t outside = 0;
        if (depth > 0) {
            __syncthreads();
        }
        if (KERNEL) {
            copy_weights<SLICE, N, BACK>(t, given, first, depth, weights);
        }
        if (KERNEL || p.is_wide) {
            outside = copy_region<SLICE>(t, p, at, from, depth, region);
        } else {
            gather_region<SLICE>(t, p, at, from, depth, (uint32_t)zero_of_grid, region);
        }
        if (!KERNEL) {
            gather_weights<SLICE, N>(t, given, first, depth, weights);
        }
        fill_outside<SLICE>(outside, (uint32_t)zero_of_grid, region);
#pragma unroll
        for (int r = 0; r < TILES; r++) { /* while copies are under way */
            spots[r] = spot_of(t, p, image, y, x, (warp * TILES + r) * 16 + lane % 16);
        }
        await_copies();
        __syncthreads();
        if constexpr (KERNEL != 0) {
            if constexpr (BACK) {
                turn_back<SLICE, N>(t, depth, weights);
            } else {
                turn_forward<SLICE, N>(t, depth, weights);
            }
            if (SLICE == 16 && threadIdx.x < N) { /* what stands for a tenth tap */
                *(uint4 *)(weights + threadIdx.x * weight_pitch(SLICE, TAPS) + TAPS * SLICE) =
                    make_uint4(0, 0, 0, 0);
            }
            __syncthreads();
        }
        if (is_busy) {
            multiply<SLICE, N, KERNEL>(t, p, region, weights, spots, &made);
        }
    }
    if (!is_busy) {
        return;
    }
    write_results<N>(t, p, made, (uint32_t)zero_of_grid, spots, t.to_c - first,
                     all.to.of(node) + first);
}

/* What no tile serves, groups among them: a thread makes a result. */
static __global__ void __launch_bounds__(BLOCK) plain_kernel(const taps t, const operands all) {
    const int node = (int)blockIdx.y, from_c = t.from_c / t.groups, to_c = t.to_c / t.groups;
    const uint8_t *from = all.from.of(node);
    const int8_t *w = all.weights.of(node);
    const int zero = t.is_back ? OCT_EXCESS : (int)all.grid.of(node)->zero;
    const size_t count = (size_t)taps_results(t) * (size_t)t.to_c;
    for (size_t e = first_element(); e < count; e += element_step()) {
        const int channel = (int)(e % (size_t)t.to_c), group = channel / to_c;
        const place at = place_of(t, (int)(e / (size_t)t.to_c));
        int32_t sum = 0;
        for (int tap = 0; tap < taps_count(t); tap++) {
            const int pixel = pixel_of(t, at, tap / t.kernel, tap % t.kernel);
            for (int i = 0; pixel >= 0 && i < from_c; i++) {
                sum += ((int)from[(size_t)pixel * t.from_c + group * from_c + i] - zero) *
                       w[weight_at(t, group, i, channel - group * to_c, tap)];
            }
        }
        all.to.of(node)[e] = sum;
    }
}

/* --- launches ----------------------------------------------------------------------------------- */

static int parts_of(int whole, int part) {
    return (whole + part - 1) / part;
}

template <typename T> static int is_aligned(const nodes<T> &all) {
    return (uintptr_t)all.at % 16 == 0 && all.stride % 16 == 0;
}

struct launch_plan {
    tiles p;
    int slice, width; /* channels at once: of depth, of results */
    unsigned threads;
    dim3 grid;
    size_t shared;
};

/* The region of a block of images x rows x columns, and what shared memory it takes. */
static size_t measure(const taps &t, int slice, int width, tiles *p) {
    p->step = t.is_back || t.kernel == 1 ? 1 : t.stride;
    p->hop = !t.is_back && t.kernel == 1 ? t.stride : 1;
    p->before = t.is_back ? t.kernel - 1 - t.pad : t.pad;
    const size_t h = (size_t)(p->rows - 1) * (size_t)p->step + (size_t)t.kernel;
    const size_t w = (size_t)(p->columns - 1) * (size_t)p->step + (size_t)t.kernel;
    p->region_h = (int)h;
    p->region_w = (int)w;
    return (size_t)p->images * h * w * (size_t)pixel_pitch(slice) +
           (size_t)width * (size_t)weight_pitch(slice, taps_count(t));
}

/* At most so many results for a block, in whole rows of images that are not too wide. */
static void set_tile(const taps &t, int results, tiles *p) {
    p->columns = parts_of(t.to_w, parts_of(t.to_w, 32));
    p->rows = parts_of(t.to_h, parts_of(t.to_h, results / p->columns));
    p->images = p->rows == t.to_h && p->columns == t.to_w ? results / (p->rows * p->columns) : 1;
    p->images = p->images < t.n ? p->images : t.n;
}

/* Channels of depth at once, where there is room. */
static int slice_of(const taps &t) {
    return t.from_c <= 16 ? 16 : t.from_c <= 32 ? 32 : 64;
}

/* The deepest slice for which a whole tile has room, or else what has; 0: nothing. */
static int find_room(const taps &t, int results, launch_plan *plan) {
    tiles *p = &plan->p;
    set_tile(t, results, p);
    plan->slice = slice_of(t);
    while ((plan->shared = measure(t, plan->slice, plan->width, p)) > ROOM) {
        if (plan->slice > 16) {
            plan->slice /= 2;
        } else if (p->images > 1) {
            p->images = parts_of(p->images, 2);
        } else if (p->rows > 1) {
            p->rows = parts_of(p->rows, 2);
        } else if (p->columns > 1) {
            p->columns = parts_of(p->columns, 2);
        } else {
            return 0;
        }
    }
    return 1;
}

static int find_plan(const taps &t, int n_nodes, int width, unsigned threads, launch_plan *plan) {
    tiles *p = &plan->p;
    plan->width = width;
    plan->threads = threads;
    if (!find_room(t, (int)threads * 32 / width, plan)) {
        return 0;
    }
    const size_t across = (size_t)parts_of(t.to_w, p->columns);
    const size_t tiles_of_image = across * (size_t)parts_of(t.to_h, p->rows);
    const size_t images = (size_t)parts_of(t.n, p->images), parts = (size_t)parts_of(t.to_c, width);
    const size_t apart = t.is_back ? (size_t)t.stride : 1;
    const size_t longest = (size_t)(t.to_h > t.to_w ? t.to_h : t.to_w) + (size_t)t.kernel;
    if (images > 65535 || parts * (size_t)n_nodes > 65535 || !divides(tiles_of_image, across) ||
        !divides(parts * (size_t)n_nodes, parts) || !divides(longest, apart)) {
        return 0;
    }
    p->by_columns = divisor_of(p->columns);
    p->by_rows = divisor_of(p->rows);
    p->by_region_w = divisor_of(p->region_w);
    p->by_region_h = divisor_of(p->region_h);
    p->by_across = divisor_of((int)across);
    p->by_parts = divisor_of((int)parts);
    p->by_apart = divisor_of((int)apart);
    p->by_kernel = divisor_of(t.kernel);
    plan->grid = dim3((unsigned)tiles_of_image, (unsigned)images, (unsigned)parts * n_nodes);
    return 1;
}

template <int SLICE, int N>
static void launch(const struct oct__lane *lane, const taps &t, const launch_plan &plan,
                   const operands &all) {
    const int is_whole =
        t.kernel == 3 && plan.p.is_wide && t.to_c % 16 == 0 && is_aligned(all.weights);
    const int is_many = t.from_c > SLICE;
    launch_kernel(
        !is_whole   ? is_many ? conv_kernel<SLICE, N, 0, 0, 1> : conv_kernel<SLICE, N, 0, 0, 0>
          : t.is_back ? is_many ? conv_kernel<SLICE, N, 3, 1, 1> : conv_kernel<SLICE, N, 3, 1, 0>
          : is_many ? conv_kernel<SLICE, N, 3, 0, 1>
                    : conv_kernel<SLICE, N, 3, 0, 0>,
        plan.grid, plan.threads, plan.shared, stream_of(lane), t, plan.p, all);
}

static void run(const struct oct__lane *lane, const taps &t, const operands &all) {
    const int n_nodes = lane->form.n_nodes;
    launch_plan plan = {};
    int is_found = 0;
    for (int width = t.to_c > 16 ? 32 : 16; t.groups == 1 && width >= 16 && !is_found; width /= 2) {
        is_found = find_plan(t, n_nodes, width, THREADS, &plan);
        if (is_found && ((size_t)plan.grid.x * plan.grid.y * plan.grid.z < ENOUGH_BLOCKS ||
                         plan.slice < slice_of(t))) {
            is_found = find_plan(t, n_nodes, width, THREADS / 2, &plan);
        }
    }
    if (!is_found) {
        const size_t count = (size_t)taps_results(t) * (size_t)t.to_c;
        launch_kernel(plain_kernel, grid_over(lane, count, 1), BLOCK, 0, stream_of(lane), t, all);
        return;
    }
    plan.p.is_wide = t.from_c % 16 == 0 && is_aligned(all.from);
    plan.p.is_wide_to = t.to_c % 4 == 0 && is_aligned(all.to);
    if (plan.width == 16) {
        plan.slice == 16   ? launch<16, 16>(lane, t, plan, all)
        : plan.slice == 32 ? launch<32, 16>(lane, t, plan, all)
                           : launch<64, 16>(lane, t, plan, all);
    } else {
        plan.slice == 16   ? launch<16, 32>(lane, t, plan, all)
        : plan.slice == 32 ? launch<32, 32>(lane, t, plan, all)
                           : launch<64, 32>(lane, t, plan, all);
    }
}

extern "C" oct_status oct__cuda_conv_u8(const struct oct__lane *lane,
                                        const struct oct__args *args) {
    operands all = {};
    all.from = nodes_of<const uint8_t>(&args->t[0]);
    all.grid = nodes_of<const struct oct__grid>(&args->t[1]);
    all.weights = nodes_of<const int8_t>(&args->t[2]);
    all.to = nodes_of<int32_t>(&args->t[3]);
    run(lane, taps_of(args, &args->t[0], &args->t[3], 0), all);
    return oct__cuda_launched("conv_u8");
}

extern "C" oct_status oct__cuda_conv_s8_dgrad(const struct oct__lane *lane,
                                              const struct oct__args *args) {
    operands all = {};
    all.from = nodes_of<const uint8_t>(&args->t[0]);
    all.weights = nodes_of<const int8_t>(&args->t[1]);
    all.to = nodes_of<int32_t>(&args->t[2]);
    run(lane, taps_of(args, &args->t[0], &args->t[2], 1), all);
    return oct__cuda_launched("conv_s8_dgrad");
}
