/* SPDX-License-Identifier: Apache-2.0 */
/* norm_u8.cu - Range EvoNorm on bytes, and its gradient, on a GPU. The kernels are range_rows.cuh's
 * and range_spans.cuh's and, for shapes that those do not suit, range_evonorm.cuh's.
 *
 * Forward takes two launches: the extremes of y follow from those of each channel's e, which the
 * first one leaves behind, so nobody goes through the bytes a third time for them. Where a node's
 * samples times channels are so many that folding them in every block would take longer than a
 * launch, a small one between does it once.
 *
 *     scratch forward:  [node][sample][channel] ends of e, then [node][sample] ends of y
 *             backward: [node][sample][quantity][channel] sums
 */
#include "engine/cuda/range_rows.cuh"
#include "engine/cuda/range_spans.cuh"

/* Operands. */
enum { X, X_GRID, GAMMA, BETA, V, RUNNING, SCALE, USED, Y, Y_GRID };

/* Ends of e that every block folds. */
enum { ENDS_MOST = 8192 };

static size_t ends_of(const struct oct__tensor *x) {
    return (size_t)x->n * (size_t)x->c;
}

static byte_values values_of(const struct oct__args *args) {
    const byte_values values = {nodes_of<const uint8_t>(&args->t[X]),
                                nodes_of<const struct oct__grid>(&args->t[X_GRID]),
                                is_aligned(&args->t[X], 4)};
    return values;
}

/* The extremes of y in each sample, a block each: for write_norm where channels are so many that
 * its blocks had better not fold them all. */
static __global__ void __launch_bounds__(BLOCK)
    find_sample_ends(norm_form form, norm_params of, const float2 *peaks, extremes *found) {
    __shared__ extremes room[32];
    const int node = (int)blockIdx.y, sample = (int)blockIdx.x;
    const vector_steps steps = scale_steps(form, of, node, room);
    extremes ends = no_extremes();
    for (int j = (int)threadIdx.x; j < form.c; j += BLOCK) {
        ends.add(ends_at(form, of, node, peaks, sample * form.c + j).of_y(steps));
    }
    ends = block_extremes(ends, room);
    if (threadIdx.x == 0) {
        found[(size_t)node * gridDim.x + blockIdx.x] = ends;
    }
}

template <int WIDE, bool PEAKS>
static void launch_spread(const struct oct__lane *lane, const struct oct__args *args,
                          const norm_form &form, float2 *peaks) {
    const struct oct__tensor *t = args->t;
    const byte_values x = values_of(args);
    const nodes<const float> v = nodes_of<const float>(&t[V]);
    const nodes<float> scale = nodes_of<float>(&t[SCALE]);
    row_form rows = {};
    const bool has_many = lane->form.n_nodes * form.n >= MANY_SAMPLES;
    if (WIDE == 4 && row_form_of(form, has_many ? MANY_WORDS : LANE_WORDS, &rows)) {
        const auto kernel =
            has_even_turns(rows) ? find_row_spread<PEAKS, true> : find_row_spread<PEAKS, false>;
        launch_kernel(kernel, row_grid(lane, form), (unsigned)(rows.n_warps * 32),
                      row_spread_shared(form, rows), stream_of(lane), x, form, rows, v, scale,
                      peaks);
    } else {
        launch_kernel(find_spread<byte_values, WIDE, PEAKS>, sample_grid(lane, form), NORM_BLOCK, 0,
                      stream_of(lane), x, form, v, scale, peaks);
    }
}

template <int WIDE>
static void launch_forward(const struct oct__lane *lane, const struct oct__args *args) {
    const struct oct__tensor *t = args->t;
    const auto *attr = &args->attr.norm;
    const norm_form form = norm_form_of(args);
    const unsigned n_nodes = (unsigned)lane->form.n_nodes;
    const cudaStream_t stream = stream_of(lane);
    const norm_params of = {nodes_of<const float>(&t[GAMMA]), nodes_of<const float>(&t[BETA]),
                            nodes_of<const float>(&t[V]),     nodes_of<const float>(&t[SCALE]),
                            nodes_of<float>(&t[USED]),        attr->quantize_scale != 0};
    const bool needs_ends = attr->quant.range != OCT_RANGE_RUNNING;
    float2 *peaks = (float2 *)lane->shared_scratch;
    extremes *found = (extremes *)(peaks + n_nodes * ends_of(&t[X]));
    norm_bytes bytes = {peaks, NULL, grid_rule_of(&attr->quant, form.n, &t[RUNNING], &t[Y_GRID]),
                        nodes_of<uint8_t>(&t[Y]),
                        chance_of(lane, OCT_PURPOSE_ROUND_VALUE, (uint32_t)args->layer)};
    if (needs_ends) {
        launch_spread<WIDE, true>(lane, args, form, peaks);
    } else {
        launch_spread<WIDE, false>(lane, args, form, peaks);
    }
    if (needs_ends && ends_of(&t[X]) > ENDS_MOST) {
        launch_kernel(find_sample_ends, dim3((unsigned)form.n, n_nodes), BLOCK, 0, stream, form, of,
                      peaks, found);
        bytes.found = found;
    }
    const bool by_chance = attr->quant.stochastic && needs_ends;
    span_form span = {};
    if (WIDE == 4 && span_form_of(form, lane->form.n_nodes, &span)) {
        launch_spans(lane, form, span, values_of(args), of, bytes, by_chance);
        return;
    }
    const int rows = norm_rows(form, WIDE);
    const dim3 grid = norm_grid_of(lane, form, rows);
    const auto kernel = by_chance ? write_norm<byte_values, WIDE, OUT_CHANCE>
                                  : write_norm<byte_values, WIDE, OUT_NEAREST>;
    const float_sink no_floats = {};
    launch_kernel(kernel, grid, BLOCK, 0, stream, values_of(args), form, of, bytes, no_floats,
                  rows);
}

oct_status oct__cuda_range_evonorm_u8(const struct oct__lane *lane, const struct oct__args *args) {
    if (args->t[X].c % 4 == 0 && is_aligned(&args->t[X], 4) && is_aligned(&args->t[Y], 4)) {
        launch_forward<4>(lane, args);
    } else {
        launch_forward<1>(lane, args);
    }
    return oct__cuda_launched("range_evonorm_u8");
}

/* --- gradient --------------------------------------------------------------------------------- */

/* Its operands; x and its grid are where they are forward. */
enum { OF_GAMMA = 2, OF_V, OF_SCALE, OF_USED, DY, DY_SCALE, DX, DGAMMA };

template <typename Sink>
static void launch_byte_gradient(const struct oct__lane *lane, const struct oct__args *args,
                                 const Sink &dx) {
    const struct oct__tensor *t = args->t;
    const byte_values x = values_of(args);
    const byte_grads dy = {nodes_of<const uint8_t>(&t[DY]), nodes_of<const float>(&t[DY_SCALE]),
                           oct__tensor_count(&t[DY_SCALE]) > 1, is_aligned(&t[DY], 4)};
    const grad_params of = {nodes_of<const float>(&t[OF_GAMMA]), nodes_of<const float>(&t[OF_V]),
                            nodes_of<const float>(&t[OF_SCALE]), nodes_of<const float>(&t[OF_USED]),
                            args->attr.norm.quant.mask != 0};
    launch_gradient(lane, norm_form_of(args), of, x, dy, dx,
                    x.is_aligned && dy.is_aligned && dx.is_aligned);
}

oct_status oct__cuda_range_evonorm_u8_grad(const struct oct__lane *lane,
                                           const struct oct__args *args) {
    const struct oct__tensor *dx = &args->t[DX];
    if (dx->dtype == OCT_DTYPE_BF16) {
        const half_sink to = {nodes_of<uint16_t>(dx), is_aligned(dx, 8)};
        launch_byte_gradient(lane, args, to);
    } else {
        const float_sink to = {nodes_of<float>(dx), is_aligned(dx, 16)};
        launch_byte_gradient(lane, args, to);
    }
    launch_fold_sums(lane, args, DGAMMA);
    return oct__cuda_launched("range_evonorm_u8_grad");
}

size_t oct__cuda_norm_u8_scratch(enum oct__op op, const struct oct__lane_form *form,
                                 const struct oct__args *args) {
    const struct oct__tensor *x = &args->t[X];
    const size_t n_nodes = (size_t)form->n_nodes;
    switch (op) {
    case OCT_OP_RANGE_EVONORM_U8:
        return n_nodes * (ends_of(x) * sizeof(float2) + (size_t)x->n * sizeof(extremes));
    case OCT_OP_RANGE_EVONORM_U8_GRAD:
        return sums_bytes(form, x);
    default:
        return 0;
    }
}
