/* SPDX-License-Identifier: Apache-2.0 */
/* cuda.c - the engine `cuda` on the host's side: devices, the table of operations. */
#include "engine/cuda.h"

#ifdef OCT_HAVE_CUDA

#include <cuda_runtime_api.h>
#include <string.h>

#include "base/alloc.h"

/* What the kernels are compiled for: cmake/OctCuda.cmake. */
enum { LEAST_MAJOR = 8 };

/* --- errors ---------------------------------------------------------------------------------- */

oct_status oct__cuda_failed(int error, const char *what) {
    OCT_FAIL(INTERNAL, "engine cuda: %s: %s (%s)", what, cudaGetErrorString((cudaError_t)error),
             cudaGetErrorName((cudaError_t)error));
}

oct_status oct__cuda_launched(const char *what) {
    const cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? OCT_OK : oct__cuda_failed((int)error, what);
}

/* --- the table ------------------------------------------------------------------------------- */

static oct_status cuda_prepare(struct oct__engine *engine, enum oct__op op,
                               const struct oct__lane_form *form, const struct oct__args *args,
                               struct oct__plan *plan) {
    static oct__cuda_scratch_fn *const groups[] = {
        oct__cuda_simple_scratch,  oct__cuda_packet_scratch,    oct__cuda_norm_scratch,
        oct__cuda_range_scratch,   oct__cuda_quant_scratch,     oct__cuda_params_scratch,
        oct__cuda_norm_u8_scratch, oct__cuda_wgrad_f32_scratch, oct__cuda_wgrad_u8_scratch,
        oct__cuda_rows_scratch,
    };
    (void)engine;
    for (size_t i = 0; i < OCT_ARGS_MOST; i++) {
        const struct oct__tensor *t = &args->t[i];
        if (oct__tensor_count(t) > INT32_MAX) { /* kernels count elements of a node in 32 bits */
            OCT_FAIL(SHAPE,
                     "engine cuda: %s has a tensor of %dx%dx%dx%d, and %d elements are the most; "
                     "train with a smaller batch",
                     oct__op_info[op].name, t->n, t->h, t->w, t->c, INT32_MAX);
        }
    }
    for (size_t i = 0; i < OCT_COUNT_OF(groups); i++) {
        const size_t bytes = groups[i](op, form, args);
        plan->shared_bytes = bytes > plan->shared_bytes ? bytes : plan->shared_bytes;
    }
    return OCT_OK;
}

static void cuda_close(struct oct__engine *engine) {
    struct oct__cuda_engine *cuda = (struct oct__cuda_engine *)engine;
    oct__cuda_graph_close(cuda);
    oct__cuda_clock_close(cuda);
    oct__cuda_memory_close(cuda);
    if (cuda->stream) {
        (void)cudaStreamDestroy(cuda->stream);
    }
    oct__free(cuda);
}

static oct__op_fn *const operations[OCT_OP_COUNT] = {
    [OCT_OP_BATCH] = oct__cuda_batch,
    [OCT_OP_CONV] = oct__cuda_conv,
    [OCT_OP_CONV_DGRAD] = oct__cuda_conv_dgrad,
    [OCT_OP_CONV_WGRAD] = oct__cuda_conv_wgrad,
    [OCT_OP_RELU] = oct__cuda_relu,
    [OCT_OP_RELU_GRAD] = oct__cuda_relu_grad,
    [OCT_OP_ADD] = oct__cuda_add,
    [OCT_OP_DROPOUT] = oct__cuda_dropout,
    [OCT_OP_MAX_POOL] = oct__cuda_max_pool,
    [OCT_OP_MAX_POOL_GRAD] = oct__cuda_max_pool_grad,
    [OCT_OP_AVG_POOL] = oct__cuda_avg_pool,
    [OCT_OP_AVG_POOL_GRAD] = oct__cuda_avg_pool_grad,
    [OCT_OP_BATCH_NORM] = oct__cuda_batch_norm,
    [OCT_OP_BATCH_NORM_EVAL] = oct__cuda_batch_norm_eval,
    [OCT_OP_BATCH_NORM_GRAD] = oct__cuda_batch_norm_grad,
    [OCT_OP_GROUP_NORM] = oct__cuda_group_norm,
    [OCT_OP_GROUP_NORM_GRAD] = oct__cuda_group_norm_grad,
    [OCT_OP_EVONORM] = oct__cuda_evonorm,
    [OCT_OP_EVONORM_GRAD] = oct__cuda_evonorm_grad,
    [OCT_OP_RANGE_EVONORM] = oct__cuda_range_evonorm,
    [OCT_OP_RANGE_EVONORM_GRAD] = oct__cuda_range_evonorm_grad,
    [OCT_OP_RANGE_BATCH_NORM] = oct__cuda_range_batch_norm,
    [OCT_OP_RANGE_BATCH_NORM_EVAL] = oct__cuda_range_batch_norm_eval,
    [OCT_OP_RANGE_BATCH_NORM_GRAD] = oct__cuda_range_batch_norm_grad,
    [OCT_OP_CONV_U8] = oct__cuda_conv_u8,
    [OCT_OP_CONV_S8_DGRAD] = oct__cuda_conv_s8_dgrad,
    [OCT_OP_CONV_U8_WGRAD] = oct__cuda_conv_u8_wgrad,
    [OCT_OP_QUANTIZE] = oct__cuda_quantize,
    [OCT_OP_DEQUANTIZE] = oct__cuda_dequantize,
    [OCT_OP_SUMS_QUANTIZE] = oct__cuda_sums_quantize,
    [OCT_OP_SUMS_DEQUANTIZE] = oct__cuda_sums_dequantize,
    [OCT_OP_WEIGHT_QUANTIZE] = oct__cuda_weight_quantize,
    [OCT_OP_VECTOR_QUANTIZE] = oct__cuda_vector_quantize,
    [OCT_OP_ADD_DEQUANTIZE] = oct__cuda_add_dequantize,
    [OCT_OP_ADD_U8] = oct__cuda_add_u8,
    [OCT_OP_RANGE_EVONORM_U8] = oct__cuda_range_evonorm_u8,
    [OCT_OP_RANGE_EVONORM_U8_GRAD] = oct__cuda_range_evonorm_u8_grad,
    [OCT_OP_GRAD_JOIN] = oct__cuda_grad_join,
    [OCT_OP_GRAD_QUANTIZE] = oct__cuda_grad_quantize,
    [OCT_OP_GRAD_MASK] = oct__cuda_grad_mask,
    [OCT_OP_QUANT_COUNT] = oct__cuda_quant_count,
    [OCT_OP_LOSS] = oct__cuda_loss,
    [OCT_OP_CLIP] = oct__cuda_clip,
    [OCT_OP_SGD] = oct__cuda_sgd,
    [OCT_OP_PACK] = oct__cuda_pack,
    [OCT_OP_FOLD] = oct__cuda_fold,
    [OCT_OP_DIFFERENCE] = oct__cuda_difference,
    [OCT_OP_AXPY] = oct__cuda_axpy,
    [OCT_OP_SETTLE] = oct__cuda_settle,
    [OCT_OP_SLOW] = oct__cuda_slow,
    [OCT_OP_COPY] = oct__cuda_copy,
    [OCT_OP_MEAN] = oct__cuda_mean,
    [OCT_OP_NONFINITE] = oct__cuda_nonfinite,
};

static oct_status cuda_open(const struct oct_engine_kind *kind, int n_threads,
                            struct oct__engine **out) {
    void *memory;
    OCT_TRY(oct__alloc(sizeof(struct oct__cuda_engine), "engine", &memory));
    struct oct__cuda_engine *cuda = memory;
    const cudaError_t error = cudaStreamCreateWithFlags(&cuda->stream, cudaStreamNonBlocking);
    oct_status status = error == cudaSuccess ? oct__cuda_memory_open(cuda)
                                             : oct__cuda_failed((int)error, "opening the device");
    if (status == OCT_OK) {
        status = oct__cuda_graph_open(cuda);
    }
    if (status != OCT_OK) {
        cuda_close(&cuda->engine);
        return status;
    }
    oct__cuda_clock_open(cuda);
    struct oct__engine *engine = &cuda->engine;
    engine->kind = kind;
    engine->n_threads = n_threads;
    engine->is_wide = 1;
    engine->gradient = OCT_DTYPE_BF16;
    engine->prepare = cuda_prepare;
    engine->close = cuda_close;
    memcpy(engine->run, operations, sizeof operations);
    engine->run_many[OCT_OP_WEIGHT_QUANTIZE] = oct__cuda_weight_quantize_many;
    engine->run_many[OCT_OP_VECTOR_QUANTIZE] = oct__cuda_vector_quantize_many;
    *out = engine;
    return OCT_OK;
}

/* --- the plug-in ----------------------------------------------------------------------------- */

#define SUMMARY "an NVIDIA GPU: all nodes in one launch, 8-bit tensor cores"

static const struct oct_engine_kind *cuda_here(void);

const struct oct_engine_kind oct_engine_cuda = {
    .plugin = {.name = "cuda", .summary = SUMMARY},
    .open = cuda_open,
    .here = cuda_here,
};

static const struct oct_engine_kind without_device = {
    .plugin = {.name = "cuda",
               .summary = SUMMARY,
               .unavailable = "no NVIDIA GPU was found on this machine; cpu trains on its cores"},
};

static const struct oct_engine_kind with_old_driver = {
    .plugin = {.name = "cuda",
               .summary = SUMMARY,
               .unavailable =
                   "the NVIDIA driver is older than this build's CUDA; update the driver"},
};

static const struct oct_engine_kind with_old_device = {
    .plugin = {.name = "cuda",
               .summary = SUMMARY,
               .unavailable = "the GPU is older than compute capability 8.0 (Ampere)"},
};

static const struct oct_engine_kind *cuda_here(void) {
    int n_devices = 0, major = 0;
    const cudaError_t error = cudaGetDeviceCount(&n_devices);
    (void)cudaGetLastError();
    if (error == cudaErrorInsufficientDriver) {
        int driver = 0; /* 0: there is none at all */
        return cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0 ? &with_old_driver
                                                                          : &without_device;
    }
    if (error != cudaSuccess || n_devices == 0 ||
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) != cudaSuccess) {
        (void)cudaGetLastError();
        return &without_device;
    }
    return major < LEAST_MAJOR ? &with_old_device : &oct_engine_cuda;
}

#else

const struct oct_engine_kind oct_engine_cuda = {
    .plugin = {.name = "cuda",
               .summary = "an NVIDIA GPU: all nodes in one launch, 8-bit tensor cores",
               .unavailable = "built without CUDA; put nvcc on the PATH and configure anew"},
};

#endif
