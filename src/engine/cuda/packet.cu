/* SPDX-License-Identifier: Apache-2.0 */
/* packet.cu - PACK and FOLD on the GPU: a row of parameters into a packet, and packets onto a row.
 *
 * A form's tensors are known on the host alone, so a launch takes them as its argument, as many as
 * an argument has room for; a model of more tensors than that takes further launches. What a tensor
 * keeps is cut into pieces, at most BLOCK of them, and a block has a piece:
 *
 *     values   | tensor 0 | tensor 1                          | tensor 2 |
 *     pieces   |    0     |    1     |    2     |    3        |    4     |
 *
 *     all, as they are   one launch
 *     all, with scales   each piece's extreme or sum; then every piece folds its tensor's and codes
 *     selected           select.cu chooses; with scales, pieces code what was kept
 *
 * A row that is not finite is reported (cuda.h says how), and its packet has what the CPU's would
 * have, had it gone on: a NaN among the values, or a scale that is none.
 */
#include "engine/cuda/packet.cuh"

#include "engine/grid.h"

enum {
    NODES_MOST = 64,   /* nodes that fold in a launch, and … */
    SHARES_MOST = 96,  /* … what they fold: a kernel's arguments are 4 KB */
    PIECE_LEAST = 1024 /* elements */
};

/* --- pieces ---------------------------------------------------------------------------------- */

/* One tensor of the row: struct oct__part, smaller. */
struct part {
    uint32_t offset, count, keep, first;
    uint32_t scale;
    uint32_t pieces_end; /* pieces of the launch's tensors up to and with this one */
};

/* The tensors of a launch. */
struct cut {
    uint32_t n_parts;
    uint32_t first_part, first_piece; /* of all that the form has */
    struct part parts[PARTS_MOST];
};

static __host__ __device__ inline uint32_t piece_size(uint32_t keep) {
    const uint32_t most = (keep + BLOCK - 1) / BLOCK;
    return most > PIECE_LEAST ? most : PIECE_LEAST;
}

static __host__ __device__ inline uint32_t piece_count(uint32_t keep) {
    return (keep + piece_size(keep) - 1) / piece_size(keep);
}

/* The next tensors of the form, beginning where `cut` ends; 0 when there are none. */
static int next_cut(const struct oct__packet_form *form, struct cut *cut) {
    const uint32_t pieces = cut->n_parts > 0 ? cut->parts[cut->n_parts - 1].pieces_end : 0;
    cut->first_part += cut->n_parts;
    cut->first_piece += pieces;
    cut->n_parts = 0;
    for (size_t i = cut->first_part; i < form->n_parts && cut->n_parts < PARTS_MOST; i++) {
        const struct oct__part *from = &form->parts[i];
        const uint32_t before = cut->n_parts > 0 ? cut->parts[cut->n_parts - 1].pieces_end : 0;
        const struct part part = {
            (uint32_t)from->offset, (uint32_t)from->count,
            (uint32_t)from->keep,   (uint32_t)from->first,
            (uint32_t)from->scale,  before + piece_count((uint32_t)from->keep)};
        cut->parts[cut->n_parts++] = part;
    }
    return cut->n_parts > 0;
}

static size_t all_pieces(const struct oct__packet_form *form) {
    size_t n = 0;
    for (size_t i = 0; i < form->n_parts; i++) {
        n += piece_count((uint32_t)form->parts[i].keep);
    }
    return n;
}

/* A block for each piece, nodes in y. */
static dim3 grid_of_pieces(const struct oct__lane *lane, const struct cut *cut) {
    return dim3(cut->parts[cut->n_parts - 1].pieces_end, (unsigned)lane->form.n_nodes);
}

/* A block's piece: elements begin … end - 1 of what its tensor keeps. */
struct piece {
    struct part part;
    uint32_t number;          /* of the tensor, in the cut */
    uint32_t begin, end;      /* elements */
    uint32_t first, n_pieces; /* the tensor's pieces, of all that the form has */
    int is_first;
};

/* One thread looks for it: arguments lie in a cache of 2 KB, and if every warp of every block
 * looked through them, they would wait for each other there most of the time. */
static __device__ inline struct piece piece_of(const struct cut &cut, uint32_t block) {
    __shared__ struct piece found;
    if (threadIdx.x == 0) {
        uint32_t low = 0, high = cut.n_parts - 1; /* the first tensor that ends beyond this block */
        while (low < high) {
            const uint32_t middle = (low + high) / 2;
            if (cut.parts[middle].pieces_end > block) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        const uint32_t begins = low > 0 ? cut.parts[low - 1].pieces_end : 0;
        const uint32_t keep = cut.parts[low].keep, size = piece_size(keep);
        const uint32_t begin = (block - begins) * size;
        found.part = cut.parts[low];
        found.number = low;
        found.begin = begin;
        found.end = begin + size < keep ? begin + size : keep;
        found.first = cut.first_piece + begins;
        found.n_pieces = cut.parts[low].pieces_end - begins;
        found.is_first = block == begins;
    }
    __syncthreads();
    return found;
}

/* --- what a packet is made of ---------------------------------------------------------------- */

/* Scratch of a node. Dense with scales: a measure (8 bytes) for each piece. */
static struct packing packing_of(const struct oct__args *args) {
    const struct oct__packet_form *form = args->attr.packet.form;
    struct packing p = {};
    p.select = form->select;
    p.coding = form->coding;
    p.bits = form->bits;
    p.n_parts = (uint32_t)form->n_parts;
    p.index_at = form->index_at;
    p.values_at = form->values_at;
    p.used = form->values_at + form->n_kept * oct__coding_bytes(form->coding);
    p.n_bytes = form->n_bytes;
    p.factor = args->attr.packet.factor;
    if (form->select != OCT_SELECT_ALL) {
        oct__cuda_plan_selection(form, args->t[1].n > 0, &p);
    } else if (oct__coding_has_scales(form->coding)) {
        p.room_stride = all_pieces(form) * sizeof(uint64_t);
    }
    return p;
}

/* An operand that may be absent: its address is then NULL. */
template <typename T> static nodes<T> present(const struct oct__tensor *t) {
    nodes<T> all = nodes_of<T>(t);
    all.at = t->n > 0 ? all.at : NULL;
    return all;
}

extern "C" size_t oct__cuda_packet_scratch(enum oct__op op, const struct oct__lane_form *form,
                                           const struct oct__args *args) {
    return op == OCT_OP_PACK ? (size_t)form->n_nodes * packing_of(args).room_stride : 0;
}

/* --- coding ---------------------------------------------------------------------------------- */

/* quantize_s8_random_f32 of kernels.def: the code of element e. */
static __device__ inline int8_t code_s8(const struct oct__stream *stream, uint32_t e, float x,
                                        float inverse) {
    const uint32_t j = e % 128;
    uint32_t words[4];
    oct__philox(stream, OCT_PHILOX_FEW_ROUNDS, 16 * (e / 128) + j % 32 / 2, words);
    const uint32_t low = j / 32 % 2 ? words[1] : words[0], high = j / 32 % 2 ? words[3] : words[2];
    const uint32_t word = j / 64 ? high : low;
    const int32_t k = (int32_t)(j % 2 ? word >> 16 : word & 0xffffU);
    float t = x * inverse;
    t = t > -127.0F ? t : -127.0F;
    t = t < 127.0F ? t : 127.0F;
    return (int8_t)((((int32_t)rintf(t * 0x1p16f) + (256 << 16) + k) >> 16) - 256);
}

/* --- all elements ---------------------------------------------------------------------------- */

/* As they are, or as bf16. */
static __global__ void __launch_bounds__(BLOCK)
    pack_plain(__grid_constant__ const struct cut cut, __grid_constant__ const struct packing p,
               nodes<const float> rows, nodes<char> packets) {
    const struct piece piece = piece_of(cut, blockIdx.x);
    const struct part &part = piece.part;
    const struct source source = source_of(p, rows, part.offset);
    float *memory = memory_of(p, part.offset);
    char *packet = packets.of((int)blockIdx.y), *values = packet + p.values_at;
    const int is_half = p.coding == OCT_CODING_BF16;
    uint32_t peak = 0;
    for (uint32_t i = piece.begin + threadIdx.x; i < piece.end; i += FOUR * BLOCK) {
        float v[FOUR], sum[FOUR];
        source.load(i, piece.end, v);
        if (memory) {
            load_apart(memory, i, piece.end, sum);
        }
        for (uint32_t j = 0; j < FOUR && i + j * BLOCK < piece.end; j++) {
            const uint32_t at = i + j * BLOCK;
            uint32_t bits = __float_as_uint(v[j]);
            peak = max(peak, bits & 0x7fffffffU);
            if (is_half) {
                bits = (uint32_t)round_bf16(bits) << 16;
                ((uint16_t *)values)[part.first + at] = (uint16_t)(bits >> 16);
            } else {
                ((uint32_t *)values)[part.first + at] = bits;
            }
            if (memory) {
                memory[at] = sum[j] + p.factor * __uint_as_float(bits);
            }
        }
    }
    look_at(p, cut.first_part + piece.number, peak);
    end_with_zeros(p, packet);
}

/* What a scale comes from, of each piece: S8 the largest magnitude's bits; LEVELS the sum of
 * squares and SIGN that of magnitudes, the bits of a double. */
static __global__ void __launch_bounds__(BLOCK)
    pack_measure(__grid_constant__ const struct cut cut, __grid_constant__ const struct packing p,
                 nodes<const float> rows) {
    __shared__ double room[BLOCK / 32];
    const struct piece piece = piece_of(cut, blockIdx.x);
    const struct part &part = piece.part;
    const struct source source = source_of(p, rows, part.offset);
    uint32_t peak = 0;
    double sum = 0.0;
    for (uint32_t i = piece.begin + threadIdx.x; i < piece.end; i += FOUR * BLOCK) {
        float x[FOUR];
        source.load(i, piece.end, x);
        for (int j = 0; j < FOUR; j++) { /* a 0 changes nothing */
            const uint32_t bits = __float_as_uint(x[j]) & 0x7fffffffU;
            const double v = (double)__uint_as_float(bits);
            peak = max(peak, bits);
            sum += p.coding == OCT_CODING_LEVELS ? v * v : v;
        }
    }
    look_at(p, cut.first_part + piece.number, peak);
    uint64_t measure;
    if (p.coding == OCT_CODING_S8) {
        measure = block_max(peak, (uint32_t *)room);
    } else {
        measure = (uint64_t)__double_as_longlong(block_sum(sum, room));
    }
    if (threadIdx.x == 0) {
        ((uint64_t *)room_of(p))[cut.first_piece + blockIdx.x] = measure;
    }
}

/* A scale, and how many of it 1 is. */
struct steps {
    float scale, inverse;
};

static __device__ inline float normal_or_zero(double scale) {
    return (float)scale < FLT_MIN ? 0.0F : (float)scale;
}

/* From the measures of a tensor's pieces: at most one for each thread. */
static __device__ inline struct steps steps_of(const struct packing &p, const struct part &part,
                                               const struct piece &piece, double *room) {
    const uint64_t *all = (const uint64_t *)room_of(p) + piece.first;
    const uint64_t mine = threadIdx.x < piece.n_pieces ? all[threadIdx.x] : 0;
    struct steps steps = {0.0F, 0.0F};
    if (p.coding == OCT_CODING_S8) {
        steps.scale =
            oct__symmetric_scale(__uint_as_float(block_max((uint32_t)mine, (uint32_t *)room)));
        steps.inverse = oct__symmetric_inverse(steps.scale);
        return steps;
    }
    const double total = block_sum(__longlong_as_double((long long)mine), room);
    const double n = (double)part.count;
    if (p.coding == OCT_CODING_SIGN) {
        steps.scale = normal_or_zero(total / n);
    } else {
        const double s = (double)((1 << p.bits) - 1), norm = sqrt(total);
        const double spread = fmin(n / (s * s), sqrt(n) / s);
        steps.scale = normal_or_zero(norm / (s * (1.0 + spread)));
        steps.inverse = steps.scale > 0.0F ? (float)(s / norm) : 0.0F;
    }
    return steps;
}

static __global__ void __launch_bounds__(BLOCK)
    pack_coded(__grid_constant__ const struct cut cut, __grid_constant__ const struct packing p,
               nodes<const float> rows, nodes<char> packets) {
    __shared__ double room[BLOCK / 32];
    const struct piece piece = piece_of(cut, blockIdx.x);
    const struct part &part = piece.part;
    const struct oct__stream stream = p.round.of((int)blockIdx.y);
    const struct source source = source_of(p, rows, part.offset);
    float *memory = memory_of(p, part.offset);
    char *packet = packets.of((int)blockIdx.y);
    int8_t *codes = (int8_t *)packet + p.values_at + part.first;
    const struct steps steps = steps_of(p, part, piece, room);
    if (piece.is_first && threadIdx.x == 0) {
        ((float *)packet)[part.scale] = steps.scale;
    }
    for (uint32_t i = piece.begin + threadIdx.x; i < piece.end; i += FOUR * BLOCK) {
        float v[FOUR], sum[FOUR];
        source.load(i, piece.end, v);
        if (memory) {
            load_apart(memory, i, piece.end, sum);
        }
        for (uint32_t j = 0; j < FOUR && i + j * BLOCK < piece.end; j++) {
            const uint32_t at = i + j * BLOCK;
            const int8_t code = p.coding == OCT_CODING_SIGN
                                    ? (int8_t)(v[j] < 0.0F ? -1 : 1)
                                    : code_s8(&stream, part.first + at, v[j], steps.inverse);
            codes[at] = code;
            if (memory) {
                memory[at] = sum[j] + p.factor * (steps.scale * (float)code);
            }
        }
    }
    end_with_zeros(p, packet);
}

/* The next larger bf16, which is what a scale has on the wire; a NaN stays one. */
static __device__ inline float round_up_bf16(float x) {
    const uint32_t bits = __float_as_uint(x);
    return x != x ? x : __uint_as_float((bits + 0xffffU) & 0xffff0000U);
}

/* Kept values to bytes; tensors may share a scale, so every block looks at all tensors' peaks. And
 * memory gets what was kept: all tensors have been read by now. */
static __global__ void __launch_bounds__(BLOCK)
    pack_kept(__grid_constant__ const struct cut cut, __grid_constant__ const struct packing p,
              nodes<char> packets) {
    __shared__ uint32_t room[BLOCK / 32];
    const struct piece piece = piece_of(cut, blockIdx.x);
    const struct part &part = piece.part;
    const struct oct__stream stream = p.round.of((int)blockIdx.y);
    const float *kept = (const float *)(room_of(p) + p.kept_at) + part.first;
    float *memory = memory_of(p, part.offset);
    const struct peak *peaks = (const struct peak *)(room_of(p) + p.peaks_at);
    char *packet = packets.of((int)blockIdx.y);
    const uint32_t *index = (const uint32_t *)(packet + p.index_at) + part.first;
    int8_t *codes = (int8_t *)packet + p.values_at + part.first;
    uint32_t peak = 0;
    for (uint32_t i = threadIdx.x; i < p.n_parts; i += BLOCK) {
        peak = peaks[i].scale == part.scale && peaks[i].bits > peak ? peaks[i].bits : peak;
    }
    peak = block_max(peak, room);
    const float scale = round_up_bf16(oct__symmetric_scale(__uint_as_float(peak)));
    const float inverse = oct__symmetric_inverse(scale);
    if (piece.is_first && threadIdx.x == 0) {
        ((float *)packet)[part.scale] = scale;
    }
    for (uint32_t i = piece.begin + threadIdx.x; i < piece.end; i += BLOCK) {
        const int8_t code = code_s8(&stream, part.first + i, kept[i], inverse);
        codes[i] = code;
        if (memory) {
            memory[index[i]] = memory[index[i]] + p.factor * (scale * (float)code);
        }
    }
}

/* --- packing --------------------------------------------------------------------------------- */

typedef void pack_fn(const struct oct__lane *lane, const struct oct__args *args,
                     const struct packing *p, const struct cut *cut);

static void launch_plain(const struct oct__lane *lane, const struct oct__args *args,
                         const struct packing *p, const struct cut *cut) {
    launch_kernel(pack_plain, grid_of_pieces(lane, cut), BLOCK, 0, stream_of(lane), *cut, *p,
                  nodes_of<const float>(&args->t[0]), nodes_of<char>(&args->t[2]));
}

static void launch_coded(const struct oct__lane *lane, const struct oct__args *args,
                         const struct packing *p, const struct cut *cut) {
    const nodes<const float> rows = nodes_of<const float>(&args->t[0]);
    const dim3 grid = grid_of_pieces(lane, cut);
    launch_kernel(pack_measure, grid, BLOCK, 0, stream_of(lane), *cut, *p, rows);
    launch_kernel(pack_coded, grid, BLOCK, 0, stream_of(lane), *cut, *p, rows,
                  nodes_of<char>(&args->t[2]));
}

static void launch_kept(const struct oct__lane *lane, const struct oct__args *args,
                        const struct packing *p, const struct cut *cut) {
    launch_kernel(pack_kept, grid_of_pieces(lane, cut), BLOCK, 0, stream_of(lane), *cut, *p,
                  nodes_of<char>(&args->t[2]));
}

/* All tensors, as many launches as that takes. */
static void each_cut(const struct oct__lane *lane, const struct oct__args *args,
                     const struct packing *p, pack_fn *launch) {
    struct cut cut = {};
    while (next_cut(args->attr.packet.form, &cut)) {
        launch(lane, args, p, &cut);
    }
}

extern "C" oct_status oct__cuda_pack(const struct oct__lane *lane, const struct oct__args *args) {
    const uint32_t salt = args->attr.packet.salt;
    struct packing p = packing_of(args);
    p.room = (char *)lane->shared_scratch;
    p.fault = fault_of(lane);
    p.first_node = lane->first_node;
    p.words = chance_of(lane, OCT_PURPOSE_PACK_SELECT, salt);
    p.round = chance_of(lane, OCT_PURPOSE_PACK_ROUND, salt);
    p.base = present<const float>(&args->t[1]);
    p.memory = present<float>(&args->t[3]);
    p.is_wide = is_wide(&args->t[0]) && is_wide(&args->t[1]);
    if (p.select == OCT_SELECT_ALL) {
        each_cut(lane, args, &p, oct__coding_has_scales(p.coding) ? launch_coded : launch_plain);
        return oct__cuda_launched("pack");
    }
    oct__cuda_select(lane, args, &p);
    if (p.coding == OCT_CODING_S8) {
        each_cut(lane, args, &p, launch_kept);
    }
    return oct__cuda_launched("pack");
}

/* --- folding --------------------------------------------------------------------------------- */

struct folding {
    enum oct__coding coding;
    int has_scales;
    size_t index_at, values_at;
    float onto;
};

/* What each node of a launch folds: shares start[i] to start[i + 1] - 1. */
struct shares {
    uint16_t start[NODES_MOST + 1];
    struct oct__share of[SHARES_MOST];
};

/* One share of each; no packet: none. */
struct picks {
    struct oct__share of[NODES_MOST];
};

static_assert(sizeof(struct cut) + sizeof(struct folding) + sizeof(struct shares) +
                      2 * sizeof(nodes<float>) + 2 * sizeof(int) <=
                  4096,
              "folding's arguments");

/* Values `i`, i + BLOCK, … of a packet's, as load_apart has them. */
static __device__ inline void load_values(const struct folding &f, const char *values, uint32_t i,
                                          uint32_t end, float scale, float to[FOUR]) {
    if (f.coding == OCT_CODING_F32) {
        load_apart((const float *)values, i, end, to);
    } else if (f.coding == OCT_CODING_BF16) {
        uint16_t halves[FOUR];
        load_apart((const uint16_t *)values, i, end, halves);
        for (int j = 0; j < FOUR; j++) {
            to[j] = __uint_as_float((uint32_t)halves[j] << 16);
        }
    } else {
        int8_t codes[FOUR];
        load_apart((const int8_t *)values, i, end, codes);
        for (int j = 0; j < FOUR; j++) {
            to[j] = scale * (float)codes[j];
        }
    }
}

static __device__ inline float scale_of(const struct folding &f, const struct oct__share &share,
                                        const struct part &part) {
    return f.has_scales ? ((const float *)share.packet)[part.scale] : 0.0F;
}

/* row += factor * values of every share in turn, x += onto * row; products and sums are rounded.
 *
 * A row is read and written once, however many neighbours there are. Nodes are in the grid's x, so
 * that blocks with the same piece of different nodes run at the same time: a packet that several
 * nodes fold then comes from memory once. */
static __global__ void __launch_bounds__(BLOCK)
    fold_all(__grid_constant__ const struct cut cut, __grid_constant__ const struct folding f,
             __grid_constant__ const struct shares shares, nodes<float> rows, nodes<float> xs) {
    const struct piece piece = piece_of(cut, blockIdx.y);
    const struct part &part = piece.part;
    const int node = (int)blockIdx.x, first = shares.start[node], end = shares.start[node + 1];
    float *y = rows.of(node) + part.offset, *x = xs.at ? xs.of(node) + part.offset : NULL;
    for (uint32_t i = piece.begin + threadIdx.x; i < piece.end; i += FOUR * BLOCK) {
        float sum[FOUR], onto[FOUR], v[FOUR];
        load_apart(y, i, piece.end, sum);
        if (x) {
            load_apart(x, i, piece.end, onto);
        }
        for (int k = first; k < end; k++) {
            const struct oct__share share = shares.of[k];
            load_values(f, (const char *)share.packet + f.values_at, part.first + i,
                        part.first + piece.end, scale_of(f, share, part), v);
            for (int j = 0; j < FOUR; j++) {
                sum[j] += share.factor * v[j];
            }
        }
        for (uint32_t j = 0; j < FOUR && i + j * BLOCK < piece.end; j++) {
            y[i + j * BLOCK] = sum[j];
            if (x) {
                x[i + j * BLOCK] = onto[j] + f.onto * sum[j];
            }
        }
    }
}

/* The same of what was selected, one share of every node: packets have places of their own. These
 * differ, so four are under way at once. */
static __global__ void __launch_bounds__(BLOCK)
    fold_picked(__grid_constant__ const struct cut cut, __grid_constant__ const struct folding f,
                __grid_constant__ const struct picks picks, nodes<float> rows) {
    const int node = (int)blockIdx.x;
    const struct oct__share share = picks.of[node];
    const char *packet = (const char *)share.packet;
    if (!packet) {
        return;
    }
    const struct piece piece = piece_of(cut, blockIdx.y);
    const struct part &part = piece.part;
    const uint32_t *index = (const uint32_t *)(packet + f.index_at) + part.first;
    const float scale = scale_of(f, share, part);
    float *y = rows.of(node) + part.offset;
    for (uint32_t i = piece.begin + threadIdx.x; i < piece.end; i += FOUR * BLOCK) {
        uint32_t to[FOUR];
        float v[FOUR], sum[FOUR];
        load_apart(index, i, piece.end, to);
        load_values(f, packet + f.values_at, part.first + i, part.first + piece.end, scale, v);
        for (int j = 0; j < FOUR; j++) { /* beyond the end: place 0, which is not stored */
            sum[j] = y[to[j]] + share.factor * v[j];
        }
        for (uint32_t j = 0; j < FOUR && i + j * BLOCK < piece.end; j++) {
            y[to[j]] = sum[j];
        }
    }
}

/* The nodes of one launch: `n` of them from `first` on, as many as the arguments have room for. One
 * that folds more than that takes several launches. */
struct group {
    int first, n;
    int done;   /* of the first node's shares, by launches before */
    int is_cut; /* there is more of the last one */
    struct shares shares;
};

/* The launch after `group`; 0 when there is none. */
static int next_group(const struct oct__lane *lane, const struct oct__args *args,
                      struct group *group) {
    group->done = group->is_cut ? group->done + group->shares.start[1] : 0;
    group->first += group->is_cut ? 0 : group->n;
    group->is_cut = group->n = 0;
    for (int skip = group->done; !group->is_cut && group->n < NODES_MOST; skip = 0) {
        struct oct__share own;
        int used = group->shares.start[group->n], left;
        if (group->first + group->n == lane->form.n_nodes) {
            break;
        }
        const struct oct__share *list = oct__shares_of(args, group->first + group->n, &own, &left);
        left -= skip;
        if (left > SHARES_MOST - used && group->n > 0) {
            break;
        }
        group->is_cut = left > SHARES_MOST;
        for (int i = 0; i < left && used < SHARES_MOST; i++) {
            group->shares.of[used++] = list[skip + i];
        }
        group->shares.start[++group->n] = (uint16_t)used;
    }
    return group->n > 0;
}

static nodes<float> rows_of(const struct oct__tensor *t, int first) {
    nodes<float> rows = present<float>(t);
    rows.at = rows.at ? (float *)((char *)rows.at + (size_t)first * rows.stride) : NULL;
    return rows;
}

static void fold_group(const struct oct__lane *lane, const struct oct__args *args,
                       const struct folding *f, const struct group *group) {
    const nodes<float> rows = rows_of(&args->t[1], group->first);
    nodes<float> xs = rows_of(&args->t[2], group->first);
    xs.at = group->is_cut ? NULL : xs.at;
    struct cut cut = {};
    while (next_cut(args->attr.packet.form, &cut)) {
        const dim3 grid((unsigned)group->n, cut.parts[cut.n_parts - 1].pieces_end);
        launch_kernel(fold_all, grid, BLOCK, 0, stream_of(lane), cut, *f, group->shares, rows, xs);
    }
}

/* Share `k` of nodes first … first + n - 1; 0 when none has so many. */
static int fold_share(const struct oct__lane *lane, const struct oct__args *args,
                      const struct folding *f, int first, int n, int k) {
    struct picks picks = {};
    int has_any = 0;
    for (int i = 0; i < n; i++) {
        struct oct__share own;
        int n_shares;
        const struct oct__share *list = oct__shares_of(args, first + i, &own, &n_shares);
        if (k < n_shares) {
            picks.of[i] = list[k];
            has_any = 1;
        }
    }
    struct cut cut = {};
    while (has_any && next_cut(args->attr.packet.form, &cut)) {
        const dim3 grid((unsigned)n, cut.parts[cut.n_parts - 1].pieces_end);
        launch_kernel(fold_picked, grid, BLOCK, 0, stream_of(lane), cut, *f, picks,
                      rows_of(&args->t[1], first));
    }
    return has_any;
}

static oct_status fold_selected(const struct oct__lane *lane, const struct oct__args *args,
                                const struct folding *f) {
    for (int first = 0, n; first < lane->form.n_nodes; first += n) {
        n = min(lane->form.n_nodes - first, (int)NODES_MOST);
        for (int k = 0; fold_share(lane, args, f, first, n, k); k++) {
        }
    }
    if (args->t[2].n == 0) {
        return oct__cuda_launched("fold");
    }
    struct oct__args onto = {};
    onto.t[0] = args->t[1];
    onto.t[1] = args->t[2];
    onto.attr.row.factor = args->attr.packet.onto;
    return oct__cuda_axpy(lane, &onto);
}

extern "C" oct_status oct__cuda_fold(const struct oct__lane *lane, const struct oct__args *args) {
    const struct oct__packet_form *form = args->attr.packet.form;
    const struct folding f = {form->coding, oct__coding_has_scales(form->coding), form->index_at,
                              form->values_at, args->attr.packet.onto};
    if (form->select != OCT_SELECT_ALL) {
        return fold_selected(lane, args, &f);
    }
    struct group group = {};
    while (next_group(lane, args, &group)) {
        fold_group(lane, args, &f, &group);
    }
    return oct__cuda_launched("fold");
}
