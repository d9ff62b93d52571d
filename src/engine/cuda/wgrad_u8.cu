/* SPDX-License-Identifier: Apache-2.0 */
/* wgrad_u8.cu - weight gradients of bytes: on tensor cores, where gradients are bf16.
 *
 * q - zero is a whole number below 256 and exact in bf16, products are exact in f32, and only their
 * sums round; x's scale waits until the parts are folded. In the product
 *
 *     dw(o, c, tap) = sum over positions of dy(position, o) * x(pixel of tap at position, c)
 *
 * both factors have the index that is summed over outermost. So shared memory has them as they lie,
 * and tensor cores take them turned over; each lane then brings the address of one row, any row,
 * and a tap is no more than a shift: pixels are loaded and widened once for all of them.
 *
 *     a chunk     rows of an image, or whole images: up to 64, 128 or 256 positions of 64, 32 or 16
 *                 outputs
 *     its pixels  and those around that taps reach: 16 channels of each
 *
 * A block goes through the chunks of its part, for 16 channels and all taps, and loads one chunk
 * while it multiplies another, sixteen bytes at a time: the memory's planner aligns tensors to
 * more. It consists of teams, which take turns at sixteen positions and fold their sums in the end;
 * in a team, each warp has a row of taps (or some of the outputs) of its own. Blocks are small, so
 * that a multiprocessor has three: while one waits or writes its results, others multiply.
 *
 * A network's first layer has fewer channels. There, the channels of a row of taps, neighbours in
 * memory, stand for those of one pixel. Shapes that are neither go to the kernels of wgrad.cuh.
 */
#include "engine/cuda/mma.cuh"
#include "engine/cuda/wgrad.cuh"

/* What the sixteen columns of a pixel are. */
enum way {
    FLOATS, /* nothing: no tensor cores */
    WIDE,   /* 3x3: channels */
    NARROW, /* 3x3: the channels of a row of taps */
    POINT,  /* 1x1: channels */
};

enum {
    X_PITCH = 24, /* of a pixel, in halves: eight neighbours lie in different banks */
    SHARED_MOST = 48 * 1024,
    TILES = 32, /* of all parts of a node: with eight nodes two blocks a multiprocessor */
    WEIGHTS_MOST = 294912, /* in all parts of a node: more take long to fold */
};

/* Of a block. */
template <int WAY, int OUTS> struct crew {
    enum {
        TAP_WARPS = WAY == WIDE ? 3 : 1, /* of a team; each takes a row of taps, or all rows */
        OUT_WARPS = OUTS == 64 ? 2 : 1,  /* of a team */
        OUT_TILES = OUTS == 16 ? 1 : 2,  /* of a warp, 16 outputs each */
        SHIFTS = WAY == POINT ? 1 : 3,   /* of a warp: its taps, or its rows of taps */
        TAPS = WAY == POINT ? 1 : 9,
        TEAM = TAP_WARPS * OUT_WARPS,
        IS_SMALL = WAY == WIDE && OUTS > 16,
        SHARES = WAY != WIDE ? 8
                 : IS_SMALL  ? 2
                             : 4, /* of the positions, for as many warps */
        TEAMS = SHARES / OUT_WARPS,
        THREADS = TEAMS * TEAM * 32,
        POSITIONS = (OUTS == 64 ? 128 : 256) / (IS_SMALL ? 2 : 1),
        STEPS = POSITIONS / 16 / TEAMS,
        BLOCKS = IS_SMALL     ? 3
                 : OUTS == 16 ? 2
                              : 1,     /* of a multiprocessor, at least */
        AHEAD = BLOCKS == 1,           /* several need the registers */
        BUFFERS = WAY == WIDE ? 2 : 1, /* of dy: with two, it does not pass through registers */
        G_PITCH = OUTS + 8,
        BUFFER = POSITIONS * G_PITCH,
        PIXELS = WAY != WIDE  ? 512
                 : OUTS == 32 ? 576
                              : 384, /* more need too many registers */
        N_X = PIXELS / THREADS,
        N_G = (POSITIONS * OUTS / 8 + THREADS - 1) / THREADS,
        SUMS = OUT_TILES * SHIFTS * 8,                     /* of a thread */
        ROW_PITCH = WAY == NARROW ? 49 : TAPS * 16 + FOUR, /* of results, where they are turned */
    };
};

/* A divisor below 1024 of numbers below 1024, which is all that counts inside a chunk. */
struct divisor {
    unsigned by, inverse; /* 2^20 / by, rounded up */

    __device__ int quotient(int n) const {
        return (int)((unsigned)n * inverse >> 20);
    }

    __device__ int remainder(int n) const {
        return n - quotient(n) * (int)by;
    }
};

static divisor divisor_of(int by) {
    return {(unsigned)by, ((1U << 20) + (unsigned)by - 1U) / (unsigned)by};
}

/* How results are cut into chunks, and where their pixels lie in shared memory. */
struct chunks {
    int images, rows; /* of results: whole images, or some rows of one */
    int bands;        /* chunks of an image; 1 if they are whole images */
    int n_pixels;     /* [images][x_rows][x_columns] */
    int x_rows, x_columns;
    int step_y, step_x; /* from a pixel to the next, in the image */
    int over_y, over_x; /* from a result's first pixel to the next result's, in shared memory */
    int n_chunks, each; /* in all, and of a part */
    int is_wide_to;     /* weights may be written four at a time */
    int n_in, n_tiles;  /* tiles of weights: across channels, and in all */
    divisor by_image, by_x_columns, by_rows, by_columns; /* pixels, pixels, rows, results */
};

/* --- from global to shared memory ------------------------------------------------------------ */

/* A pixel that a thread loads of every chunk, counted from where the chunk begins. */
struct pixel {
    int image, row, at;
    int low, high; /* NARROW: which of its bytes lie in the image */
};

template <int WAY>
static __device__ inline pixel find_pixel(const taps &t, const chunks &b, int e) {
    const int image = b.by_image.quotient(e), rest = b.by_image.remainder(e);
    const int row = b.by_x_columns.quotient(rest) * b.step_y - t.pad;
    const int column = b.by_x_columns.remainder(rest) * b.step_x - t.pad;
    pixel p = {image, row, (image * t.from_h + row) * t.from_w + column, 0, 16};
    if (WAY == NARROW) {
        p.low = -column * t.from_c;
        p.high = (t.from_w - column < t.kernel ? t.from_w - column : t.kernel) * t.from_c;
    } else if (column < 0 || column >= t.from_w) {
        p.image = t.n; /* in none */
    }
    return p;
}

/* Sixteen bytes; those outside the image are `zero`, which becomes 0. */
template <int WAY>
static __device__ inline uint4 load_pixel(const uint8_t *x, int from_c, const pixel &p, int first,
                                          int is_inside, uint32_t zero) {
    const uint8_t *from = x + ((ptrdiff_t)first + p.at) * from_c;
    uint4 bytes = make_uint4(zero, zero, zero, zero);
    if (WAY == NARROW) {
        uint32_t word[4] = {zero, zero, zero, zero};
#pragma unroll
        for (int i = 0; i < 15; i++) {
            if (is_inside && i >= p.low && i < p.high) {
                const uint32_t shift = i % 4 * 8U;
                word[i / 4] = (word[i / 4] & ~(255U << shift)) | (uint32_t)from[i] << shift;
            }
        }
        bytes = make_uint4(word[0], word[1], word[2], word[3]);
    } else if (is_inside) {
        bytes = *(const uint4 *)from;
    }
    return bytes;
}

/* Sixteen bytes less zero, as bf16. The last byte of 2^23 + q is q; less base = 2^23 + zero it is a
 * whole number so small that the upper half of its bits is all of it. */
static __device__ inline void store_pixel(uint16_t *to, const uint4 bytes, float base) {
    const uint32_t word[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
    uint32_t pair[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const uint32_t first = __byte_perm(word[i / 2], 0x4b000000U, 0x7440U + i % 2 * 2);
        const uint32_t second = __byte_perm(word[i / 2], 0x4b000000U, 0x7441U + i % 2 * 2);
        pair[i] = __byte_perm(__float_as_uint(__uint_as_float(first) - base),
                              __float_as_uint(__uint_as_float(second) - base), 0x7632U);
    }
    *(uint4 *)to = make_uint4(pair[0], pair[1], pair[2], pair[3]);
    *(uint4 *)(to + 8) = make_uint4(pair[4], pair[5], pair[6], pair[7]);
}

/* A thread's share of the next chunk. */
template <int WAY, int OUTS> struct shipment {
    typedef crew<WAY, OUTS> of;
    pixel pixels[of::N_X];
    uint4 x[of::N_X], g[of::BUFFERS == 1 ? (int)of::N_G : 1];

    __device__ void begin(const taps &t, const chunks &b) {
#pragma unroll
        for (int i = 0; i < of::N_X; i++) {
            pixels[i] = find_pixel<WAY>(t, b, (int)threadIdx.x + i * of::THREADS);
        }
    }

    /* x from the block's first channel on, dy from its first output on, of which there are n_outs.
     * gs is where dy will be; with two buffers it is on its way there. */
    __device__ void load(const taps &t, const chunks &b, int chunk, const uint8_t *from_x,
                         uint32_t zero, const uint16_t *from_dy, int n_outs, uint16_t *gs) {
        const int image = chunk / b.bands * b.images, row = chunk % b.bands * b.rows;
        const int images = t.n - image < b.images ? t.n - image : b.images;
        const int rows = t.to_h - row < b.rows ? t.to_h - row : b.rows;
        const int first = (image * t.from_h + row * t.stride) * t.from_w;
#pragma unroll
        for (int i = 0; i < of::N_X; i++) {
            const unsigned at = (unsigned)(pixels[i].row + row * t.stride);
            const int is_inside = pixels[i].image < images && at < (unsigned)t.from_h;
            x[i] = load_pixel<WAY>(from_x, t.from_c, pixels[i], first, is_inside, zero);
        }
        from_dy += (size_t)((image * t.to_h + row) * t.to_w) * t.to_c;
#pragma unroll
        for (int i = 0; i < of::N_G; i++) {
            const int e = (int)threadIdx.x + i * of::THREADS, out = e % (OUTS / 8) * 8;
            const int position = e / (OUTS / 8);
            const int is_there = position < images * rows * t.to_w && out < n_outs;
            const uint16_t *from = from_dy + (is_there ? (size_t)position * t.to_c + out : 0);
            if (of::BUFFERS == 1) {
                g[i] = is_there ? *(const uint4 *)from : make_uint4(0, 0, 0, 0);
            } else if (position < of::POSITIONS) {
                copy_four((float *)(gs + position * of::G_PITCH + out), (const float *)from,
                          is_there);
            }
        }
    }

    __device__ void store(const chunks &b, uint16_t *xs, uint16_t *gs, float base) const {
#pragma unroll
        for (int i = 0; i < of::N_X; i++) {
            const int e = (int)threadIdx.x + i * of::THREADS;
            if (e < b.n_pixels) {
                store_pixel(xs + e * X_PITCH, x[i], base);
            }
        }
        if (of::BUFFERS > 1) {
            await_copies();
        }
#pragma unroll
        for (int i = 0; i < (of::BUFFERS > 1 ? 0 : (int)of::N_G); i++) {
            const int e = (int)threadIdx.x + i * of::THREADS;
            if (e < of::POSITIONS * OUTS / 8) {
                *(uint4 *)(gs + e / (OUTS / 8) * of::G_PITCH + e % (OUTS / 8) * 8) = g[i];
            }
        }
    }
};

/* --- products -------------------------------------------------------------------------------- */

/* A thread's share of the block's sums, [tile of outputs][shift][8 columns][4]. */
template <int WAY, int OUTS> struct product {
    typedef crew<WAY, OUTS> of;
    /* Of sixteen positions. */
    struct factors {
        uint32_t g[of::OUT_TILES][4], x[of::SHIFTS][4];
    };
    int lane, team, tap_warp, out_warp;
    int n_slots;         /* positions of a chunk */
    int at_x[of::STEPS]; /* where this lane's rows begin, at each of the team's turns */
    int at_g, shift;
    float sums[of::SUMS];

    __device__ void begin(const taps &t, const chunks &b) {
        const int warp = (int)threadIdx.x / 32;
        lane = (int)threadIdx.x % 32;
        team = warp / of::TEAM;
        tap_warp = warp % of::TAP_WARPS;
        out_warp = warp % of::TEAM / of::TAP_WARPS;
        n_slots = b.images * b.rows * t.to_w;
        at_g = (lane / 16 * 8 + lane % 8) * of::G_PITCH + out_warp * 32 + lane / 8 % 2 * 8;
        shift = WAY == NARROW ? b.x_columns * X_PITCH : (int)X_PITCH;
#pragma unroll
        for (int i = 0; i < of::STEPS; i++) {
            const int slot = (team + i * of::TEAMS) * 16 + lane % 16;
            const int row = b.by_columns.quotient(slot);
            const int y = b.by_rows.quotient(row) * b.x_rows + b.by_rows.remainder(row) * b.over_y;
            const int x = b.by_columns.remainder(slot) * b.over_x;
            at_x[i] = slot < n_slots ? (y * b.x_columns + x) * X_PITCH : 0;
            at_x[i] += tap_warp * b.x_columns * X_PITCH + lane / 16 * 8;
        }
#pragma unroll
        for (int i = 0; i < of::SUMS; i++) {
            sums[i] = 0.0F;
        }
    }

    __device__ void load(int i, const uint16_t *xs, const uint16_t *gs, factors *f) const {
#pragma unroll
        for (int m = 0; m < of::OUT_TILES; m++) {
            load_turned(f->g[m], gs + (team + i * of::TEAMS) * 16 * of::G_PITCH + at_g + m * 16);
        }
#pragma unroll
        for (int k = 0; k < of::SHIFTS; k++) {
            load_turned(f->x[k], xs + at_x[i] + k * shift);
        }
    }

    /* With AHEAD, the factors of a turn are on their way while those of the one before are
     * multiplied. */
    __device__ void add(const uint16_t *xs, const uint16_t *gs) {
        factors f[2];
        if (of::AHEAD) {
            load(0, xs, gs, &f[0]);
        }
#pragma unroll
        for (int i = 0; i < of::STEPS; i++) {
            if (i + of::AHEAD < of::STEPS) {
                load(i + of::AHEAD, xs, gs, &f[(i + of::AHEAD) % 2]);
            }
            if ((team + i * of::TEAMS) * 16 >= n_slots) {
                break;
            }
#pragma unroll
            for (int j = 0; j < of::SUMS / 4; j++) { /* [tile of outputs][shift][8 columns] */
                mma_bf16(sums + 4 * j, f[i % 2].g[j / 2 / of::SHIFTS],
                         f[i % 2].x[j / 2 % of::SHIFTS] + j % 2 * 2);
            }
        }
    }

    /* The first team gets everybody's. */
    __device__ void fold(float *room) {
        float *mine = room + threadIdx.x % (of::TEAM * 32);
#pragma unroll
        for (int half = of::TEAMS / 2; half > 0; half /= 2) {
#pragma unroll
            for (int i = 0; i < of::SUMS; i++) {
                if (team >= half && team < 2 * half) {
                    mine[((team - half) * of::SUMS + i) * of::TEAM * 32] = sums[i];
                }
            }
            __syncthreads();
#pragma unroll
            for (int i = 0; i < of::SUMS; i++) {
                if (team < half) {
                    sums[i] += mine[(team * of::SUMS + i) * of::TEAM * 32];
                }
            }
            __syncthreads();
        }
    }

    /* As weights lie: [o][ROW_PITCH], of which [c][tap] are used. */
    __device__ void store(const taps &t, float *room) const {
        const int pitch = of::ROW_PITCH;
#pragma unroll
        for (int i = 0; i < of::SUMS; i++) {
            const int k = i / 8 % of::SHIFTS, c = i / 4 % 2 * 8 + lane % 4 * 2 + i % 2;
            const int o = out_warp * 32 + i / 8 / of::SHIFTS * 16 + lane / 4 + i / 2 % 2 * 8;
            if (WAY != NARROW) {
                const int tap = tap_warp * of::SHIFTS + k;
                room[o * pitch + c * of::TAPS + tap] = sums[i];
            } else if (c < t.kernel * t.from_c) {
                const int tap = k * t.kernel + c / t.from_c;
                room[o * pitch + c % t.from_c * of::TAPS + tap] = sums[i];
            }
        }
    }
};

/* Rows of `count` weights, which in memory lie `pitch` apart. */
template <int WAY, int OUTS>
static __device__ inline void write_part(const float *room, int rows, int count, float scale,
                                         int pitch, int is_wide, float *to) {
    typedef crew<WAY, OUTS> of;
    if (WAY != NARROW && is_wide) {
        const int fours = of::TAPS * 16 / FOUR;
        float4 *const to_fours = (float4 *)to;
        for (int e = (int)threadIdx.x; e < rows * fours; e += of::THREADS) {
            const int row = e / fours, column = e - row * fours;
            const float4 sum = ((const float4 *)room)[row * (of::ROW_PITCH / FOUR) + column];
            to_fours[(size_t)row * (size_t)(pitch / FOUR) + (size_t)column] =
                make_float4(scaled(sum.x, scale), scaled(sum.y, scale), scaled(sum.z, scale),
                            scaled(sum.w, scale));
        }
        return;
    }
    for (int e = (int)threadIdx.x; e < rows * count; e += of::THREADS) {
        const int row = e / count, column = e - row * count;
        to[(size_t)row * pitch + column] = scaled(room[row * of::ROW_PITCH + column], scale);
    }
}

template <int WAY, int OUTS>
static __global__ void __launch_bounds__((crew<WAY, OUTS>::THREADS), (crew<WAY, OUTS>::BLOCKS))
    tensor_kernel(const taps t, const sources s, const chunks b) {
    typedef crew<WAY, OUTS> of;
    uint16_t *const xs = dynamic_shared<uint16_t>(), *const gs = xs + b.n_pixels * X_PITCH;
    const int tile = (int)blockIdx.x % b.n_tiles, rest = (int)blockIdx.x / b.n_tiles;
    const int node = rest / s.n_parts, part = rest % s.n_parts;
    const int first_in = tile % b.n_in * 16, first_out = tile / b.n_in * OUTS;
    const int n_outs = t.to_c - first_out < OUTS ? t.to_c - first_out : OUTS;
    const uint8_t *x = (const uint8_t *)s.x + node * s.x_stride + first_in;
    const uint16_t *dy = (const uint16_t *)((const char *)s.dy + node * s.dy_stride) + first_out;
    const float base = 8388608.0F + zero_of(s, node);
    const uint32_t zero = (uint32_t)zero_of(s, node) * 0x01010101U;
    const int begin = part * b.each;
    const int end = begin + b.each < b.n_chunks ? begin + b.each : b.n_chunks;
    shipment<WAY, OUTS> next;
    product<WAY, OUTS> mine;
    next.begin(t, b);
    next.load(t, b, begin, x, zero, dy, n_outs, gs);
    mine.begin(t, b);
    for (int chunk = begin; chunk < end; chunk++) {
        uint16_t *now = gs + (chunk - begin) % of::BUFFERS * of::BUFFER;
        next.store(b, xs, now, base);
        __syncthreads();
        if (chunk + 1 < end) {
            next.load(t, b, chunk + 1, x, zero, dy, n_outs,
                      gs + (chunk + 1 - begin) % of::BUFFERS * of::BUFFER);
        }
        mine.add(xs, now);
        __syncthreads();
    }
    float *const room = dynamic_shared<float>();
    mine.fold(room);
    if (mine.team == 0) {
        mine.store(t, room);
    }
    __syncthreads();
    const int n_taps = of::TAPS;
    write_part<WAY, OUTS>(room, n_outs, WAY == NARROW ? t.from_c * n_taps : 16 * n_taps,
                          part_scale(s, node), t.from_c * n_taps, b.is_wide_to,
                          part_of(t, s, node, part) +
                              ((size_t)first_out * (size_t)t.from_c + (size_t)first_in) *
                                  (size_t)n_taps);
}

/* --- launches -------------------------------------------------------------------------------- */

static const struct where operands = {0, 1, 2, 3, 4};

/* A kernel, and what it has room for. */
struct form {
    enum way way;
    void (*kernel)(taps, sources, chunks);
    int outs, threads, positions, pixels;
    size_t dy_bytes;  /* of shared memory */
    size_t end_bytes; /* of it, when chunks are done */
};

template <int WAY, int OUTS> static form form_for() {
    typedef crew<WAY, OUTS> of;
    const size_t fold = (size_t)(of::TEAMS / 2 * of::TEAM * 32 * of::SUMS) * sizeof(float);
    const size_t turn = (size_t)OUTS * of::ROW_PITCH * sizeof(float);
    const int pixels = (SHARED_MOST - of::BUFFERS * of::BUFFER * 2) / (X_PITCH * 2);
    return {(enum way)WAY,
            tensor_kernel<WAY, OUTS>,
            OUTS,
            of::THREADS,
            of::POSITIONS,
            pixels < of::PIXELS ? pixels : (int)of::PIXELS,
            of::BUFFERS * of::BUFFER * sizeof(uint16_t),
            fold > turn ? fold : turn};
}

template <int WAY> static form form_with(int outs) {
    return outs <= 16   ? form_for<WAY, 16>()
           : outs <= 32 ? form_for<WAY, 32>()
                        : form_for<WAY, 64>();
}

static form form_of(const struct oct__args *args, int outs) {
    const struct oct__tensor *x = &args->t[operands.x], *dy = &args->t[operands.dy];
    const int kernel = args->attr.conv.kernel;
    if (dy->dtype == OCT_DTYPE_BF16 && dy->c % 8 == 0 && args->attr.conv.groups == 1) {
        if (kernel == 3 && x->c % 16 == 0) {
            return form_with<WIDE>(outs);
        } else if (kernel == 3 && 3 * x->c <= 15) {
            return form_with<NARROW>(outs);
        } else if (kernel == 1 && x->c % 16 == 0) {
            return form_with<POINT>(outs);
        }
    }
    return {};
}

static int least(int a, int b) {
    return a < b ? a : b;
}

static int parts_over(int a, int b) {
    return (a + b - 1) / b;
}

/* As many rows or images as there is room for; `rows` 0: not one row. */
static struct chunks chunks_of(const struct oct__args *args, const form &f) {
    const struct oct__tensor *dy = &args->t[operands.dy];
    const int stride = args->attr.conv.stride, is_wide = f.way == WIDE, is_point = f.way == POINT;
    struct chunks b = {};
    b.x_columns = is_wide ? (dy->w - 1) * stride + 3 : dy->w;
    b.step_x = is_wide ? 1 : stride;
    b.over_x = is_wide ? stride : 1;
    b.step_y = is_point ? stride : 1;
    b.over_y = is_point ? 1 : stride;
    const int reach = f.pixels / b.x_columns; /* rows of pixels */
    const int fit = is_point ? reach : reach < 3 ? 0 : (reach - 3) / stride + 1;
    b.rows = least(dy->h, least(fit, f.positions / dy->w));
    if (b.rows == 0) {
        return b;
    }
    b.bands = parts_over(dy->h, b.rows);
    b.rows = parts_over(dy->h, b.bands);
    b.x_rows = is_point ? b.rows : (b.rows - 1) * stride + 3;
    b.images = 1;
    if (b.bands == 1) {
        b.images = least(f.positions / (dy->h * dy->w), f.pixels / (b.x_rows * b.x_columns));
        b.images = least(dy->n, b.images);
    }
    b.n_pixels = b.images * b.x_rows * b.x_columns;
    b.n_chunks = parts_over(dy->n, b.images) * b.bands;
    b.by_image = divisor_of(b.x_rows * b.x_columns);
    b.by_x_columns = divisor_of(b.x_columns);
    b.by_rows = divisor_of(b.rows);
    b.by_columns = divisor_of(dy->w);
    return b;
}

/* How a weight gradient is computed: it depends on shapes of one node alone, and so do bits. */
struct plan {
    form f;
    struct chunks b;
    int n_parts, part;
    size_t shared;
};

/* Parts: as many as make a cohort of eight fill a GPU, as long as weights are few. */
static struct plan plan_of(const struct oct__args *args) {
    const struct oct__tensor *x = &args->t[operands.x], *dy = &args->t[operands.dy];
    struct plan p = {};
    /* With fewer outputs there is room for more positions, which wide images want. */
    for (int outs = dy->c > 32   ? 64
                    : dy->c > 16 ? 32
                                 : 16;
         p.b.rows == 0 && outs >= 16; outs /= 2) {
        p.f = form_of(args, outs);
        if (p.f.way != FLOATS) {
            p.b = chunks_of(args, p.f);
        }
    }
    if (p.b.rows == 0) {
        p.f.way = FLOATS;
        p.n_parts = parts_of(dy, tiles(args, operands, float_outs(args, operands)), &p.part);
        return p;
    }
    const int n_in = p.f.way == NARROW ? 1 : x->c / 16, n_out = parts_over(dy->c, p.f.outs);
    const size_t most = WEIGHTS_MOST / oct__tensor_count(&args->t[operands.dw]);
    const int wanted = TILES / (n_in * n_out);
    int n = least(p.b.n_chunks, most < (size_t)wanted ? (int)most : wanted);
    n = n < 1 ? 1 : n;
    p.b.each = parts_over(p.b.n_chunks, n);
    p.n_parts = parts_over(p.b.n_chunks, p.b.each);
    p.b.n_in = n_in;
    p.b.n_tiles = n_in * n_out;
    p.shared = (size_t)(p.b.n_pixels * X_PITCH) * sizeof(uint16_t) + p.f.dy_bytes;
    p.shared = p.shared > p.f.end_bytes ? p.shared : p.f.end_bytes;
    return p;
}

extern "C" size_t oct__cuda_wgrad_u8_scratch(enum oct__op op, const struct oct__lane_form *form,
                                             const struct oct__args *args) {
    return op == OCT_OP_CONV_U8_WGRAD
               ? parts_bytes(form, &args->t[operands.dw], plan_of(args).n_parts)
               : 0;
}

extern "C" oct_status oct__cuda_conv_u8_wgrad(const struct oct__lane *lane,
                                              const struct oct__args *args) {
    const taps t = taps_of(args, &args->t[operands.x], &args->t[operands.dy], 0);
    const int is_bf16 = args->t[operands.dy].dtype == OCT_DTYPE_BF16;
    struct plan p = plan_of(args);
    const struct sources s = sources_of(lane, args, operands, p.n_parts, p.part);
    if (p.f.way != FLOATS) {
        p.b.is_wide_to = ((uintptr_t)s.parts | s.parts_stride * sizeof(float)) % 16 == 0;
        /* All in x, which has no limit; tiles first, which read the same. */
        const dim3 grid((unsigned)(p.b.n_tiles * s.n_parts * lane->form.n_nodes));
        launch_kernel(p.f.kernel, grid, (unsigned)p.f.threads, p.shared, stream_of(lane), t, s,
                      p.b);
    } else if (is_bf16) {
        launch_floats<uint8_t, __nv_bfloat16>(lane, args, operands, t, s);
    } else {
        launch_floats<uint8_t, float>(lane, args, operands, t, s);
    }
    if (is_bf16) {
        launch_folds<__nv_bfloat16>(lane, args, operands, t, s);
    } else {
        launch_folds<float>(lane, args, operands, t, s);
    }
    return oct__cuda_launched(oct__op_info[OCT_OP_CONV_U8_WGRAD].name);
}
