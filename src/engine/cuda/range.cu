/* SPDX-License-Identifier: Apache-2.0 */
/* range.cu - the range norms on floats on a GPU, forward and backward.
 *
 * Range EvoNorm's kernels are range_evonorm.cuh's and range_rows.cuh's, which it shares with its twin
 * on bytes.
 *
 * Range BatchNorm (formulas: cpu_range.c) takes a channel's values over the node's batch: x is
 * [n * h * w][c], a chunk is `length` rows of it. Chunks are cut into pieces, so that there are
 * blocks enough; a block has up to 32 columns of a piece, its threads side by side over them.
 *
 *     forward:  find_columns     sums and extremes of pieces
 *               find_statistics  a block a node: mean, scale, used scale, running statistics
 *               write_affine     y
 *     backward: find_batch_sums  sums of pieces, and where their extremes are
 *               write_batch_grad every block folds the pieces' sums of its columns, then writes dx:
 *                                it meets the extremes of its chunk on the way
 *
 *     scratch forward:  [node][piece][sum, low, high][channel]
 *             backward: [node][piece][Q, P][channel], then [node][piece][low, high][channel] keys
 */
#include "engine/cuda/range_rows.cuh"

/* --- Range EvoNorm ---------------------------------------------------------------------------- */

template <int WIDE>
static void launch_evonorm(const struct oct__lane *lane, const struct oct__args *args) {
    const struct oct__tensor *t = args->t;
    norm_form form = norm_form_of(args);
    const cudaStream_t stream = stream_of(lane);
    const float_values x = {nodes_of<const float>(&t[0]), is_aligned(&t[0], 16)};
    const nodes<const float> v = nodes_of<const float>(&t[3]);
    const norm_params of = {nodes_of<const float>(&t[1]),
                            nodes_of<const float>(&t[2]),
                            v,
                            nodes_of<const float>(&t[4]),
                            nodes_of<float>(&t[5]),
                            args->attr.norm.quantize_scale != 0};
    const float_sink y = {nodes_of<float>(&t[6]), is_aligned(&t[6], 16)};
    const norm_bytes no_bytes = {};
    const int rows = norm_rows(form, WIDE);
    form.least = 0.0F; /* floats leave no grid */
    launch_kernel(find_spread<float_values, WIDE, false>, sample_grid(lane, form), NORM_BLOCK, 0,
                  stream, x, form, v, nodes_of<float>(&t[4]), NULL);
    launch_kernel(write_norm<float_values, WIDE, OUT_FLOATS>, norm_grid_of(lane, form, rows), BLOCK,
                  0, stream, x, form, of, no_bytes, y, rows);
}

oct_status oct__cuda_range_evonorm(const struct oct__lane *lane, const struct oct__args *args) {
    if (args->t[0].c % 4 == 0 && is_aligned(&args->t[0], 16) && is_aligned(&args->t[6], 16)) {
        launch_evonorm<4>(lane, args);
    } else {
        launch_evonorm<1>(lane, args);
    }
    return oct__cuda_launched("range_evonorm");
}

oct_status oct__cuda_range_evonorm_grad(const struct oct__lane *lane,
                                        const struct oct__args *args) {
    const struct oct__tensor *t = args->t;
    const float_values x = {nodes_of<const float>(&t[0]), is_aligned(&t[0], 16)};
    const float_grads dy = {nodes_of<const float>(&t[5]), is_aligned(&t[5], 16)};
    const float_sink dx = {nodes_of<float>(&t[6]), is_aligned(&t[6], 16)};
    const grad_params of = {nodes_of<const float>(&t[1]), nodes_of<const float>(&t[2]),
                            nodes_of<const float>(&t[3]), nodes_of<const float>(&t[4]), false};
    launch_gradient(lane, norm_form_of(args), of, x, dy, dx,
                    x.is_aligned && dy.is_aligned && dx.is_aligned);
    launch_fold_sums(lane, args, 7);
    return oct__cuda_launched("range_evonorm_grad");
}

/* --- chunks of a batch ------------------------------------------------------------------------ */

enum { COLUMNS = 32, PIECES_MOST = 8, PIECE_ELEMENTS = 8192 };

struct batch_form {
    int c, rows;          /* of x */
    int n_chunks, length; /* chunks of a column, their rows */
    int pieces, each;     /* pieces of a chunk, their rows; the last may be shorter */
    float values;         /* of a channel */
    float factor, eps, momentum;
};

static batch_form batch_form_of(const struct oct__args *args) {
    const struct oct__tensor *x = &args->t[0];
    const size_t rows = (size_t)x->n * (size_t)x->h * (size_t)x->w;
    const size_t n_chunks = oct__chunk_count(rows), length = rows / n_chunks;
    const size_t columns = (size_t)(x->c < COLUMNS ? x->c : COLUMNS);
    const int wanted = divided_up(length * columns, PIECE_ELEMENTS);
    const int each = divided_up(length, (size_t)(wanted < PIECES_MOST ? wanted : PIECES_MOST));
    const batch_form form = {x->c,
                             (int)rows,
                             (int)n_chunks,
                             (int)length,
                             divided_up(length, (size_t)each),
                             each,
                             (float)x->n * (float)((size_t)x->h * (size_t)x->w),
                             oct__range_factor(length),
                             args->attr.norm.eps,
                             args->attr.norm.momentum};
    return form;
}

static dim3 batch_grid(const struct oct__lane *lane, const batch_form &form) {
    return dim3((unsigned)(form.n_chunks * form.pieces),
                (unsigned)divided_up((size_t)form.c, COLUMNS), (unsigned)lane->form.n_nodes);
}

/* A thread's column and strand of rows in a block of batch_grid, and its piece. */
struct batch_place {
    int node, piece, chunk;
    int column, columns;   /* of the tensor; how many the block has */
    int strand, n_strands; /* strand >= n_strands: the thread has nothing */
    int row, end;          /* of the piece */
};

static __device__ inline batch_place batch_place_of(const batch_form &form) {
    batch_place p;
    p.node = (int)blockIdx.z;
    p.piece = (int)blockIdx.x;
    p.chunk = p.piece / form.pieces;
    p.columns = min((int)COLUMNS, form.c - (int)blockIdx.y * COLUMNS);
    p.column = (int)blockIdx.y * COLUMNS + (int)threadIdx.x % p.columns;
    p.strand = (int)threadIdx.x / p.columns;
    p.n_strands = BLOCK / p.columns;
    const int first = p.piece % form.pieces * form.each;
    p.row = p.chunk * form.length + first;
    p.end = p.chunk * form.length + min(first + form.each, form.length);
    return p;
}

/* Where quantity `which` of `n` lies for piece `piece`, [node][piece][quantity][channel]. */
template <typename T>
static __device__ inline T *piece_at(T *found, const batch_form &form, int node, int piece, int n,
                                     int which) {
    const size_t row = (size_t)node * (size_t)(form.n_chunks * form.pieces) + (size_t)piece;
    return found + (row * (size_t)n + (size_t)which) * (size_t)form.c;
}

/* --- Range BatchNorm -------------------------------------------------------------------------- */

enum { SUM, LOW, HIGH, N_COLUMN };

static __global__ void __launch_bounds__(BLOCK)
    find_columns(nodes<const float> from, batch_form form, float *found) {
    __shared__ float sums[BLOCK], lows[BLOCK], highs[BLOCK];
    const batch_place p = batch_place_of(form);
    const float *x = from.of(p.node) + p.column;
    float sum = 0.0F, low = INFINITY, high = -INFINITY;
    if (p.strand < p.n_strands) {
#pragma unroll 4
        for (int r = p.row + p.strand; r < p.end; r += p.n_strands) {
            const float value = x[(size_t)r * (size_t)form.c];
            sum += value;
            low = fminf(low, value);
            high = fmaxf(high, value);
        }
    }
    sums[threadIdx.x] = sum;
    lows[threadIdx.x] = low;
    highs[threadIdx.x] = high;
    __syncthreads();
    if (p.strand == 0) {
        for (int s = 1; s < p.n_strands; s++) {
            sum += sums[threadIdx.x + (unsigned)(s * p.columns)];
            low = fminf(low, lows[threadIdx.x + (unsigned)(s * p.columns)]);
            high = fmaxf(high, highs[threadIdx.x + (unsigned)(s * p.columns)]);
        }
        piece_at(found, form, p.node, p.piece, N_COLUMN, SUM)[p.column] = sum;
        piece_at(found, form, p.node, p.piece, N_COLUMN, LOW)[p.column] = low;
        piece_at(found, form, p.node, p.piece, N_COLUMN, HIGH)[p.column] = high;
    }
}

/* What the statistics of a node are. */
struct batch_statistics {
    nodes<float> run_mean, run_scale, mean, scale, used;
    bool moves_scale;
};

/* A strand of threads for each chunk. */
enum { STATISTICS_BLOCK = COLUMNS * CHUNKS_MOST };

/* The chunk's sum and extremes in a column; a chunk that begins with a NaN has NaN for both. */
static __device__ inline void fold_chunk(const batch_form &form, const float *x, const float *found,
                                         int node, int chunk, int column, float out[N_COLUMN]) {
    out[SUM] = 0.0F, out[LOW] = INFINITY, out[HIGH] = -INFINITY;
    for (int i = 0; i < form.pieces; i++) {
        const int piece = chunk * form.pieces + i;
        const float *at = piece_at(found, form, node, piece, N_COLUMN, SUM) + column;
        out[SUM] += at[0];
        out[LOW] = fminf(out[LOW], at[LOW * form.c]);
        out[HIGH] = fmaxf(out[HIGH], at[HIGH * form.c]);
    }
    if (isnan(x[(size_t)chunk * (size_t)form.length * (size_t)form.c + (size_t)column])) {
        out[LOW] = out[HIGH] = NAN;
    }
}

static __device__ inline void write_statistics(const batch_form &form, const batch_statistics &to,
                                               const float (*chunks)[CHUNKS_MOST][COLUMNS],
                                               int node, int column, int lane) {
    const float n_chunks = (float)form.n_chunks;
    float sum = 0.0F, low_sum = 0.0F, high_sum = 0.0F;
    for (int k = 0; k < form.n_chunks; k++) {
        sum += chunks[SUM][k][lane];
    }
    const float mean = sum / form.values;
    for (int k = 0; k < form.n_chunks; k++) {
        low_sum += chunks[LOW][k][lane] - mean;
        high_sum += chunks[HIGH][k][lane] - mean;
    }
    const float spread = high_sum / n_chunks - low_sum / n_chunks;
    const float scale = 1.0F / (spread * form.factor + form.eps);
    float *run_mean = to.run_mean.of(node) + column, *run_scale = to.run_scale.of(node) + column;
    to.mean.of(node)[column] = mean;
    to.scale.of(node)[column] = scale;
    *run_mean = (1.0F - form.momentum) * *run_mean + form.momentum * mean;
    *run_scale = (1.0F - form.momentum) * *run_scale + form.momentum * scale;
}

static __global__ void __launch_bounds__(STATISTICS_BLOCK)
    find_statistics(nodes<const float> from, batch_form form, const float *found,
                    batch_statistics to) {
    __shared__ float chunks[N_COLUMN][CHUNKS_MOST][COLUMNS];
    __shared__ extremes room[32];
    const int node = (int)blockIdx.x;
    const int lane = (int)threadIdx.x % COLUMNS, chunk = (int)threadIdx.x / COLUMNS;
    for (int begin = 0; begin < form.c; begin += COLUMNS) {
        const int column = begin + lane;
        __syncthreads();
        if (column < form.c && chunk < form.n_chunks) {
            float own[N_COLUMN];
            fold_chunk(form, from.of(node), found, node, chunk, column, own);
            for (int i = 0; i < N_COLUMN; i++) {
                chunks[i][chunk][lane] = own[i];
            }
        }
        __syncthreads();
        if (column < form.c && chunk == 0) {
            write_statistics(form, to, chunks, node, column, lane);
        }
    }
    __syncthreads();
    const float *scale = to.scale.of(node);
    vector_steps steps = {};
    if (to.moves_scale) {
        steps = vector_steps_of(form.c, scale, room);
    }
    for (int j = (int)threadIdx.x; j < form.c; j += STATISTICS_BLOCK) {
        to.used.of(node)[j] = steps.at(scale[j]);
    }
}

/* y = x * scale + shift, scale = gamma * factor, shift = beta - mean * scale. */
struct affine {
    nodes<const float> gamma, beta, mean, factor;
};

static __device__ inline float affine_of(const affine &of, int node, uint32_t j, float x) {
    const float scale = of.gamma.of(node)[j] * of.factor.of(node)[j];
    return x * scale + (of.beta.of(node)[j] - of.mean.of(node)[j] * scale);
}

template <int WIDE>
static __global__ void __launch_bounds__(BLOCK)
    write_affine(nodes<const float> from, affine of, uint32_t count, uint32_t c, nodes<float> to) {
    const int node = (int)blockIdx.y;
    const float *x = from.of(node);
    float *y = to.of(node);
    for (size_t e = first_element() * WIDE; e < count; e += element_step() * WIDE) {
        const uint32_t j = (uint32_t)e % c;
        if constexpr (WIDE == 4) {
            float four[4];
            load_floats(x + e, four);
            for (uint32_t i = 0; i < 4; i++) {
                four[i] = affine_of(of, node, j + i, four[i]);
            }
            store_floats(y + e, four);
        } else {
            y[e] = affine_of(of, node, j, x[e]);
        }
    }
}

static void launch_affine(const struct oct__lane *lane, const struct oct__args *args, int mean,
                          int factor, int y) {
    const struct oct__tensor *t = args->t;
    const affine of = {nodes_of<const float>(&t[1]), nodes_of<const float>(&t[2]),
                       nodes_of<const float>(&t[mean]), nodes_of<const float>(&t[factor])};
    const nodes<const float> x = nodes_of<const float>(&t[0]);
    const nodes<float> to = nodes_of<float>(&t[y]);
    const uint32_t count = count_of(&t[0]), c = (uint32_t)t[0].c;
    if (c % 4 == 0 && is_aligned(&t[0], 16) && is_aligned(&t[y], 16)) {
        launch_kernel(write_affine<4>, grid_over(lane, count, 8), BLOCK, 0, stream_of(lane), x, of,
                      count, c, to);
    } else {
        launch_kernel(write_affine<1>, grid_over(lane, count, 2), BLOCK, 0, stream_of(lane), x, of,
                      count, c, to);
    }
}

oct_status oct__cuda_range_batch_norm(const struct oct__lane *lane, const struct oct__args *args) {
    const struct oct__tensor *t = args->t;
    const batch_form form = batch_form_of(args);
    const nodes<const float> x = nodes_of<const float>(&t[0]);
    const batch_statistics to = {nodes_of<float>(&t[3]), nodes_of<float>(&t[4]),
                                 nodes_of<float>(&t[5]), nodes_of<float>(&t[6]),
                                 nodes_of<float>(&t[7]), args->attr.norm.quantize_scale != 0};
    float *found = (float *)lane->shared_scratch;
    launch_kernel(find_columns, batch_grid(lane, form), BLOCK, 0, stream_of(lane), x, form, found);
    launch_kernel(find_statistics, (unsigned)lane->form.n_nodes, STATISTICS_BLOCK, 0,
                  stream_of(lane), x, form, found, to);
    launch_affine(lane, args, 5, 7, 8);
    return oct__cuda_launched("range_batch_norm");
}

oct_status oct__cuda_range_batch_norm_eval(const struct oct__lane *lane,
                                           const struct oct__args *args) {
    launch_affine(lane, args, 3, 4, 5);
    return oct__cuda_launched("range_batch_norm_eval");
}

/* --- its gradient ----------------------------------------------------------------------------- */

/* Operands. */
enum { X, GAMMA, MEAN, SCALE, USED, DY, DX, DGAMMA, DBETA };

struct batch_grad {
    nodes<const float> x, gamma, mean, scale, used, dy;
    nodes<float> dx, dgamma, dbeta;
    float *sums; /* [node][piece][Q, P][channel] */
    key *ends;   /* [node][piece][low, high][channel] */
};

static __global__ void __launch_bounds__(BLOCK) find_batch_sums(batch_grad d, batch_form form) {
    __shared__ float qs[BLOCK], ps[BLOCK];
    __shared__ key lows[BLOCK], highs[BLOCK];
    const batch_place p = batch_place_of(form);
    const float *x = d.x.of(p.node) + p.column, *dy = d.dy.of(p.node) + p.column;
    const float mean = d.mean.of(p.node)[p.column];
    const int first = p.row + p.strand;
    float q = 0.0F, sum = 0.0F, low = INFINITY, high = -INFINITY;
    int low_row = first, high_row = first;
    const bool has_rows = p.strand < p.n_strands && first < p.end;
    for (int r = first; has_rows && r < p.end; r += p.n_strands) {
        const float value = x[(size_t)r * (size_t)form.c], g = dy[(size_t)r * (size_t)form.c];
        sum += g;
        q += g * (value - mean);
        low_row = value < low ? r : low_row;
        low = value < low ? value : low;
        high_row = value > high ? r : high_row;
        high = value > high ? value : high;
    }
    key least = has_rows ? (key)rank_of(low) << 32 | (uint32_t)low_row : ~(key)0;
    key largest = has_rows ? (key)rank_of(high) << 32 | (UINT32_MAX - (uint32_t)high_row) : (key)0;
    qs[threadIdx.x] = q;
    ps[threadIdx.x] = sum;
    lows[threadIdx.x] = least;
    highs[threadIdx.x] = largest;
    __syncthreads();
    if (p.strand == 0) {
        for (int s = 1; s < p.n_strands; s++) {
            const int at = (int)threadIdx.x + s * p.columns;
            q += qs[at];
            sum += ps[at];
            least = min(least, lows[at]);
            largest = max(largest, highs[at]);
        }
        piece_at(d.sums, form, p.node, p.piece, 2, 0)[p.column] = q;
        piece_at(d.sums, form, p.node, p.piece, 2, 1)[p.column] = sum;
        piece_at(d.ends, form, p.node, p.piece, 2, 0)[p.column] = least;
        piece_at(d.ends, form, p.node, p.piece, 2, 1)[p.column] = largest;
    }
}

/* What dx in a column is made of: dy * scale + shift, and share at two rows of the chunk. */
struct column_grad {
    float scale, shift, share;
    int low_row, high_row; /* -1: none */
};

/* Q and P of a column, from all pieces: each strand sums its own, the first one theirs. */
static __device__ inline void fold_column(const batch_grad &d, const batch_form &form,
                                          const batch_place &p, float (*room)[BLOCK],
                                          float out[2]) {
    out[0] = out[1] = 0.0F;
    for (int i = p.strand; p.strand < p.n_strands && i < form.n_chunks * form.pieces;
         i += p.n_strands) {
        out[0] += piece_at(d.sums, form, p.node, i, 2, 0)[p.column];
        out[1] += piece_at(d.sums, form, p.node, i, 2, 1)[p.column];
    }
    room[0][threadIdx.x] = out[0];
    room[1][threadIdx.x] = out[1];
    __syncthreads();
    for (int s = 1; p.strand == 0 && s < p.n_strands; s++) {
        out[0] += room[0][(int)threadIdx.x + s * p.columns];
        out[1] += room[1][(int)threadIdx.x + s * p.columns];
    }
}

static __device__ inline column_grad column_of(const batch_grad &d, const batch_form &form,
                                               const batch_place &p, float q, float sum) {
    const float gamma = d.gamma.of(p.node)[p.column], used = d.used.of(p.node)[p.column];
    const float s = d.scale.of(p.node)[p.column], scale = gamma * used;
    const size_t first = (size_t)p.chunk * (size_t)form.length * (size_t)form.c;
    const float slope = (gamma * q) * (s * s);
    column_grad of = {scale, -(scale * (sum / form.values)),
                      -(slope * form.factor) / (float)form.n_chunks, -1, -1};
    key low = ~(key)0, high = 0;
    for (int i = 0; i < form.pieces; i++) {
        const int piece = p.chunk * form.pieces + i;
        low = min(low, piece_at(d.ends, form, p.node, piece, 2, 0)[p.column]);
        high = max(high, piece_at(d.ends, form, p.node, piece, 2, 1)[p.column]);
    }
    const uint32_t low_row = (uint32_t)low, high_row = UINT32_MAX - (uint32_t)high;
    if (low_row != high_row && !isnan(d.x.of(p.node)[first + (size_t)p.column])) {
        of.low_row = (int)low_row;
        of.high_row = (int)high_row;
    }
    return of;
}

static __global__ void __launch_bounds__(BLOCK) write_batch_grad(batch_grad d, batch_form form) {
    __shared__ float room[2][BLOCK];
    __shared__ column_grad columns[COLUMNS];
    const batch_place p = batch_place_of(form);
    float sums[2];
    fold_column(d, form, p, room, sums);
    if (p.strand == 0) {
        columns[threadIdx.x] = column_of(d, form, p, sums[0], sums[1]);
        if (p.piece == 0) {
            d.dgamma.of(p.node)[p.column] = sums[0] * d.used.of(p.node)[p.column];
            d.dbeta.of(p.node)[p.column] = sums[1];
        }
    }
    __syncthreads();
    const column_grad of = columns[(int)threadIdx.x % p.columns];
    const float *dy = d.dy.of(p.node) + p.column;
    float *dx = d.dx.of(p.node) + p.column;
    if (p.strand < p.n_strands) {
#pragma unroll 4
        for (int r = p.row + p.strand; r < p.end; r += p.n_strands) {
            float value = dy[(size_t)r * (size_t)form.c] * of.scale + of.shift;
            value = r == of.high_row ? value + of.share : value;
            value = r == of.low_row ? value - of.share : value;
            dx[(size_t)r * (size_t)form.c] = value;
        }
    }
}

oct_status oct__cuda_range_batch_norm_grad(const struct oct__lane *lane,
                                           const struct oct__args *args) {
    const struct oct__tensor *t = args->t;
    const batch_form form = batch_form_of(args);
    const size_t pieces = (size_t)(lane->form.n_nodes * form.n_chunks * form.pieces);
    float *sums = (float *)lane->shared_scratch;
    const batch_grad d = {nodes_of<const float>(&t[X]),
                          nodes_of<const float>(&t[GAMMA]),
                          nodes_of<const float>(&t[MEAN]),
                          nodes_of<const float>(&t[SCALE]),
                          nodes_of<const float>(&t[USED]),
                          nodes_of<const float>(&t[DY]),
                          nodes_of<float>(&t[DX]),
                          nodes_of<float>(&t[DGAMMA]),
                          nodes_of<float>(&t[DBETA]),
                          sums,
                          (key *)(sums + 2 * pieces * (size_t)form.c)};
    launch_kernel(find_batch_sums, batch_grid(lane, form), BLOCK, 0, stream_of(lane), d, form);
    launch_kernel(write_batch_grad, batch_grid(lane, form), BLOCK, 0, stream_of(lane), d, form);
    return oct__cuda_launched("range_batch_norm_grad");
}

/* --- scratch ---------------------------------------------------------------------------------- */

size_t oct__cuda_range_scratch(enum oct__op op, const struct oct__lane_form *form,
                               const struct oct__args *args) {
    const struct oct__tensor *x = &args->t[0];
    if (op == OCT_OP_RANGE_EVONORM_GRAD) {
        return sums_bytes(form, x);
    }
    if (op != OCT_OP_RANGE_BATCH_NORM && op != OCT_OP_RANGE_BATCH_NORM_GRAD) {
        return 0;
    }
    const batch_form of = batch_form_of(args);
    const size_t pieces = (size_t)(form->n_nodes * of.n_chunks * of.pieces);
    const size_t each = op == OCT_OP_RANGE_BATCH_NORM ? N_COLUMN * sizeof(float)
                                                      : 2 * (sizeof(float) + sizeof(key));
    return pieces * (size_t)of.c * each;
}
