/* SPDX-License-Identifier: Apache-2.0 */
/* wgrad_f32.cu - weight gradients of floats: tiles of wgrad.cuh. */
#include "engine/cuda/wgrad.cuh"

static const struct where operands = {0, -1, 1, 2, 3};

static int cut_positions(const struct oct__args *args, int *part) {
    return parts_of(&args->t[operands.dy], tiles(args, operands, float_outs(args, operands)), part);
}

extern "C" size_t oct__cuda_wgrad_f32_scratch(enum oct__op op, const struct oct__lane_form *form,
                                              const struct oct__args *args) {
    int part;
    return op == OCT_OP_CONV_WGRAD
               ? parts_bytes(form, &args->t[operands.dw], cut_positions(args, &part))
               : 0;
}

extern "C" oct_status oct__cuda_conv_wgrad(const struct oct__lane *lane,
                                           const struct oct__args *args) {
    const taps t = taps_of(args, &args->t[operands.x], &args->t[operands.dy], 0);
    struct sources s = sources_of(lane, args, operands);
    s.n_parts = cut_positions(args, &s.part);
    launch_floats<float, float>(lane, args, operands, t, s);
    launch_folds<float>(lane, args, operands, t, s);
    return oct__cuda_launched(oct__op_info[OCT_OP_CONV_WGRAD].name);
}
