/* SPDX-License-Identifier: Apache-2.0 */
/* cuda.h - the engine `cuda`: every node of a cohort in one launch of one GPU.
 *
 * Host code is C: cuda.c has the table of operations, cuda_memory.c memory and copies, cuda_graph.c
 * steps that are replayed, cuda_clock.c time and the device's limits. Kernels are CUDA C and live
 * in cuda/: one file for each group of operations, its functions called oct__cuda_NAME, as the
 * CPU's are called oct__cpu_NAME. The node's number is a dimension of every grid; tensors of
 * neighbouring nodes lie `stride` apart, so a kernel finds its own by a multiplication.
 *
 * Launches go to one stream and return at once: what they did is known when memory is read. Kernels
 * are compiled without contraction, so that arithmetic that the CPU's kernels specify to the bit
 * (bytes, ranges, rounding by chance, top-k) has the CPU's bits; sums over many floats are folded
 * in an order of their own, which is fixed: the same run gives the same bits.
 */
#ifndef OCT_ENGINE_CUDA_H
#define OCT_ENGINE_CUDA_H

#include "engine/engine.h"

struct CUstream_st;
struct CUevent_st;

/* What a kernel found wrong: the first one that did. A launch has returned long before, so it is
 * told to whoever next reads memory or waits. */
enum oct__cuda_wrong {
    OCT_CUDA_WRONG_NOTHING,
    OCT_CUDA_WRONG_SAMPLE, /* number, samples of the dataset */
    OCT_CUDA_WRONG_LABEL,  /* label, classes */
    OCT_CUDA_WRONG_ROW,    /* tensor, node: an element is not finite */
    OCT_CUDA_WRONG_BF16,   /* tensor, node, bits of the largest magnitude: too large for a bf16 */
};

struct oct__cuda_fault {
    int wrong, values[3];
};

/* What changes from step to step, in memory of the device: kernels read it there, so that the
 * launches of a step are the same each time and can be replayed. */
struct oct__cuda_now {
    uint32_t step;
    float rate;
};

/* Something that is on its way to the host. */
struct oct__cuda_fetch {
    void *host;
    size_t at, bytes; /* in the page */
};

/* Runs side by side may fetch one each in a round, besides a step's. */
enum { OCT_CUDA_FETCHES = OCT_RUNS_MOST + 16 };

/* Where blocks of one launch wait for others, one for each node: cuda/quant_turns.cuh. */
struct oct__cuda_meeting {
    uint64_t told; /* 0: nothing yet */
    uint32_t arrived, left, peak;
    uint32_t spare[3]; /* 32 bytes: what the cache moves at a time */
};

enum { OCT_CUDA_MEETINGS = 1024 };

struct oct__cuda_engine {
    struct oct__engine engine; /* first, so that a pointer to one is a pointer to the other */
    struct CUstream_st *stream;
    struct oct__cuda_fault
        *faults;                   /* [OCT_RUNS_MOST + 1] by lane.run; memory of the host's that the
                                       device sees, too */
    char *outgoing, *incoming;     /* pages of the host's that the device copies from and to */
    size_t n_outgoing, n_incoming; /* bytes that are in use */
    size_t incoming_bytes;         /* that there are; of outgoing as many as at the start */
    size_t incoming_most;          /* that there can be */
    struct CUevent_st *arrived;    /* comes after the last of the fetches */
    struct oct__cuda_fetch fetches[OCT_CUDA_FETCHES];
    int n_fetches;
    struct oct__cuda_now *now, now_there; /* on the device; what is there */
    struct oct__cuda_meeting *meetings;   /* on the device; zero between launches */
    int n_processors;                     /* of the device */
    struct oct__cuda_graph *graphs;       /* cuda_graph.c */
    uint64_t n_begun;                     /* pieces so far */
    struct CUevent_st **stamps;           /* cuda_clock.c: made when they are first used */
    size_t n_stamps, stamp_capacity;
};

/* An error of CUDA's, a cudaError_t, in words. */
OCT_MUST_CHECK oct_status oct__cuda_failed(int error, const char *what);

/* cuda_memory.c: fills the engine's slots for memory; closing takes what opening left behind. */
OCT_MUST_CHECK oct_status oct__cuda_memory_open(struct oct__cuda_engine *cuda);
void oct__cuda_memory_close(struct oct__cuda_engine *cuda);

/* cuda_graph.c: the same for pieces that are replayed. */
OCT_MUST_CHECK oct_status oct__cuda_graph_open(struct oct__cuda_engine *cuda);
void oct__cuda_graph_close(struct oct__cuda_engine *cuda);

/* cuda_clock.c: the same for time and the device's limits. */
void oct__cuda_clock_open(struct oct__cuda_engine *cuda);
void oct__cuda_clock_close(struct oct__cuda_engine *cuda);

/* cuda/limits.cu: `rounds` products after one another in every warp of a launch that fills
 * `n_blocks` of the device's processors; returns the operations of a round. `sink` has room for
 * OCT_CUDA_BUSY_BYTES a block. */
enum { OCT_CUDA_BUSY_BYTES = 1 << 10 };
double oct__cuda_keep_busy(const struct oct__cuda_engine *cuda, enum oct__unit unit, int n_blocks,
                           int rounds, void *sink);

/* cuda/rows.cu: brings the lane's step, or step and rate, to the device for what is launched
 * next. */
void oct__cuda_tell_step(const struct oct__lane *lane);
void oct__cuda_tell_now(const struct oct__lane *lane);

/* The device's verdict on the launches of `what` so far. */
OCT_MUST_CHECK oct_status oct__cuda_launched(const char *what);

/* cuda/simple.cu: input, element-wise operations, pooling, the loss, search for NaN */
oct__op_fn oct__cuda_batch, oct__cuda_relu, oct__cuda_relu_grad, oct__cuda_add, oct__cuda_dropout,
    oct__cuda_max_pool, oct__cuda_max_pool_grad, oct__cuda_avg_pool, oct__cuda_avg_pool_grad,
    oct__cuda_loss, oct__cuda_nonfinite;

/* cuda/rows.cu: the optimizer's and gossip's operations on rows of parameters */
oct__op_fn oct__cuda_clip, oct__cuda_sgd, oct__cuda_difference, oct__cuda_axpy, oct__cuda_settle,
    oct__cuda_slow, oct__cuda_copy, oct__cuda_mean;

/* cuda/packet.cu and cuda/select.cu: compressed rows */
oct__op_fn oct__cuda_pack, oct__cuda_fold;

/* cuda/norm.cu, cuda/norm_group.cu: norms on floats */
oct__op_fn oct__cuda_batch_norm, oct__cuda_batch_norm_eval, oct__cuda_batch_norm_grad,
    oct__cuda_group_norm, oct__cuda_group_norm_grad, oct__cuda_evonorm, oct__cuda_evonorm_grad;

/* cuda/range.cu: the range norms on floats */
oct__op_fn oct__cuda_range_evonorm, oct__cuda_range_evonorm_grad, oct__cuda_range_batch_norm,
    oct__cuda_range_batch_norm_eval, oct__cuda_range_batch_norm_grad;

/* cuda/quant.cu: values to bytes and back; cuda/quant_grad.cu: gradients */
oct__op_fn oct__cuda_quantize, oct__cuda_dequantize, oct__cuda_sums_quantize,
    oct__cuda_sums_dequantize, oct__cuda_add_dequantize, oct__cuda_add_u8, oct__cuda_quant_count,
    oct__cuda_grad_join, oct__cuda_grad_quantize, oct__cuda_grad_mask;

/* cuda/params.cu: parameters to bytes */
oct__op_fn oct__cuda_weight_quantize, oct__cuda_vector_quantize;
oct__op_many_fn oct__cuda_weight_quantize_many, oct__cuda_vector_quantize_many;

/* cuda/norm_u8.cu: Range EvoNorm on bytes */
oct__op_fn oct__cuda_range_evonorm_u8, oct__cuda_range_evonorm_u8_grad;

/* cuda/conv_f32.cu, cuda/conv_s8.cu, cuda/wgrad_f32.cu, cuda/wgrad_u8.cu: products */
oct__op_fn oct__cuda_conv, oct__cuda_conv_dgrad, oct__cuda_conv_wgrad, oct__cuda_conv_u8,
    oct__cuda_conv_s8_dgrad, oct__cuda_conv_u8_wgrad;

/* Bytes of lane->shared_scratch that a call of each group wants, for all nodes of the launch; 0 for
 * operations of other groups. */
typedef size_t oct__cuda_scratch_fn(enum oct__op op, const struct oct__lane_form *form,
                                    const struct oct__args *args);
oct__cuda_scratch_fn oct__cuda_simple_scratch, oct__cuda_packet_scratch, oct__cuda_norm_scratch,
    oct__cuda_range_scratch, oct__cuda_quant_scratch, oct__cuda_params_scratch,
    oct__cuda_norm_u8_scratch, oct__cuda_wgrad_f32_scratch, oct__cuda_wgrad_u8_scratch,
    oct__cuda_rows_scratch;

#endif
