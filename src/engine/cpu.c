/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.c - the engine `cpu`, and the parts that every CPU engine shares: memory, shards, the table.
 */
#include "engine/cpu.h"

#include <string.h>

#include "base/alloc.h"

/* --- shards ---------------------------------------------------------------------------------- */

struct job {
    const struct oct__lane *lane;
    const struct oct__args *args;
    oct__shard_fn *fn;
    int batch, n_shards;
};

static oct_status run_shard(void *context, int item, int worker) {
    const struct job *job = context;
    int index = item % job->n_shards;
    struct oct__shard shard = {
        .lane = job->lane,
        .args = job->args,
        .node = item / job->n_shards,
        .index = index,
        .first = index * job->lane->form.shard,
        .worker = worker,
    };
    int left = job->batch - shard.first;
    shard.count = left < job->lane->form.shard ? left : job->lane->form.shard;
    return job->fn(&shard);
}

oct_status oct__each_shard(const struct oct__lane *lane, const struct oct__args *args, int batch,
                           oct__shard_fn *fn) {
    struct job job = {lane, args, fn, batch, oct__shard_count(&lane->form, batch)};
    return oct__parallel(lane->form.n_threads, job.n_shards * lane->form.n_nodes, run_shard, &job);
}

oct_status oct__each_node(const struct oct__lane *lane, const struct oct__args *args,
                          oct__shard_fn *fn) {
    struct job job = {lane, args, fn, 0, 1};
    return oct__parallel(lane->form.n_threads, lane->form.n_nodes, run_shard, &job);
}

/* --- memory ---------------------------------------------------------------------------------- */

static oct_status cpu_alloc(struct oct__engine *engine, size_t bytes, const char *what, void **at) {
    (void)engine;
    return oct__alloc(bytes, what, at);
}

static void cpu_free(struct oct__engine *engine, void *at) {
    (void)engine;
    oct__free(at);
}

static oct_status cpu_write(struct oct__engine *engine, void *at, const void *host, size_t bytes) {
    (void)engine;
    memcpy(at, host, bytes);
    return OCT_OK;
}

static oct_status cpu_read(struct oct__engine *engine, void *host, const void *at, size_t bytes) {
    (void)engine;
    memcpy(host, at, bytes);
    return OCT_OK;
}

/* --- the table ------------------------------------------------------------------------------- */

static oct_status cpu_prepare(struct oct__engine *engine, enum oct__op op,
                              const struct oct__lane_form *form, const struct oct__args *args,
                              struct oct__plan *plan) {
    struct oct__cpu_engine *cpu = (struct oct__cpu_engine *)engine;
    if (oct__op_info[op].is_product) {
        return cpu->products->prepare(cpu->products_context, op, form, args, plan);
    }
    oct__cpu_norm_scratch(op, form, args, plan);
    oct__cpu_range_scratch(op, form, args, plan);
    oct__cpu_quant_scratch(op, form, args, plan);
    oct__cpu_norm_u8_scratch(op, form, args, plan);
    oct__cpu_packet_scratch(op, form, args, plan);
    oct__cpu_rows_scratch(op, form, args, plan);
    return OCT_OK;
}

static oct_status cpu_keep(const struct oct__lane *lane, enum oct__op op,
                           const struct oct__args *args) {
    (void)op;
    return ((struct oct__cpu_engine *)lane->engine)->products->keep(lane, args);
}

static void cpu_release(struct oct__engine *engine, enum oct__op op, void *handle) {
    struct oct__cpu_engine *cpu = (struct oct__cpu_engine *)engine;
    if (oct__op_info[op].is_product && handle) {
        cpu->products->release(handle);
    }
}

static void cpu_close(struct oct__engine *engine) {
    struct oct__cpu_engine *cpu = (struct oct__cpu_engine *)engine;
    cpu->products->close(cpu->products_context);
    oct__free(cpu);
}

static oct__op_fn *const operations[OCT_OP_COUNT] = {
    [OCT_OP_BATCH] = oct__cpu_batch,
    [OCT_OP_RELU] = oct__cpu_relu,
    [OCT_OP_RELU_GRAD] = oct__cpu_relu_grad,
    [OCT_OP_ADD] = oct__cpu_add,
    [OCT_OP_DROPOUT] = oct__cpu_dropout,
    [OCT_OP_MAX_POOL] = oct__cpu_max_pool,
    [OCT_OP_MAX_POOL_GRAD] = oct__cpu_max_pool_grad,
    [OCT_OP_AVG_POOL] = oct__cpu_avg_pool,
    [OCT_OP_AVG_POOL_GRAD] = oct__cpu_avg_pool_grad,
    [OCT_OP_BATCH_NORM] = oct__cpu_batch_norm,
    [OCT_OP_BATCH_NORM_EVAL] = oct__cpu_batch_norm_eval,
    [OCT_OP_BATCH_NORM_GRAD] = oct__cpu_batch_norm_grad,
    [OCT_OP_GROUP_NORM] = oct__cpu_group_norm,
    [OCT_OP_GROUP_NORM_GRAD] = oct__cpu_group_norm_grad,
    [OCT_OP_EVONORM] = oct__cpu_evonorm,
    [OCT_OP_EVONORM_GRAD] = oct__cpu_evonorm_grad,
    [OCT_OP_RANGE_EVONORM] = oct__cpu_range_evonorm,
    [OCT_OP_RANGE_EVONORM_GRAD] = oct__cpu_range_evonorm_grad,
    [OCT_OP_RANGE_BATCH_NORM] = oct__cpu_range_batch_norm,
    [OCT_OP_RANGE_BATCH_NORM_EVAL] = oct__cpu_range_batch_norm_eval,
    [OCT_OP_RANGE_BATCH_NORM_GRAD] = oct__cpu_range_batch_norm_grad,
    [OCT_OP_QUANTIZE] = oct__cpu_quantize,
    [OCT_OP_DEQUANTIZE] = oct__cpu_dequantize,
    [OCT_OP_SUMS_QUANTIZE] = oct__cpu_sums_quantize,
    [OCT_OP_SUMS_DEQUANTIZE] = oct__cpu_sums_dequantize,
    [OCT_OP_WEIGHT_QUANTIZE] = oct__cpu_weight_quantize,
    [OCT_OP_VECTOR_QUANTIZE] = oct__cpu_vector_quantize,
    [OCT_OP_ADD_DEQUANTIZE] = oct__cpu_add_dequantize,
    [OCT_OP_ADD_U8] = oct__cpu_add_u8,
    [OCT_OP_RANGE_EVONORM_U8] = oct__cpu_range_evonorm_u8,
    [OCT_OP_RANGE_EVONORM_U8_GRAD] = oct__cpu_range_evonorm_u8_grad,
    [OCT_OP_GRAD_JOIN] = oct__cpu_grad_join,
    [OCT_OP_GRAD_QUANTIZE] = oct__cpu_grad_quantize,
    [OCT_OP_GRAD_MASK] = oct__cpu_grad_mask,
    [OCT_OP_QUANT_COUNT] = oct__cpu_quant_count,
    [OCT_OP_LOSS] = oct__cpu_loss,
    [OCT_OP_CLIP] = oct__cpu_clip,
    [OCT_OP_SGD] = oct__cpu_sgd,
    [OCT_OP_DIFFERENCE] = oct__cpu_difference,
    [OCT_OP_AXPY] = oct__cpu_axpy,
    [OCT_OP_SETTLE] = oct__cpu_settle,
    [OCT_OP_SLOW] = oct__cpu_slow,
    [OCT_OP_COPY] = oct__cpu_copy,
    [OCT_OP_MEAN] = oct__cpu_mean,
    [OCT_OP_PACK] = oct__cpu_pack,
    [OCT_OP_FOLD] = oct__cpu_fold,
    [OCT_OP_NONFINITE] = oct__cpu_nonfinite,
};

oct_status oct__cpu_open(const struct oct_engine_kind *kind, int n_threads,
                         const struct oct__products *products, struct oct__engine **out) {
    void *memory;
    OCT_TRY(oct__alloc(sizeof(struct oct__cpu_engine), "engine", &memory));
    struct oct__cpu_engine *cpu = memory;
    cpu->products = products;
    oct_status status = products->open(n_threads, &cpu->products_context);
    if (status != OCT_OK) {
        oct__free(cpu);
        return status;
    }
    struct oct__engine *engine = &cpu->engine;
    engine->kind = kind;
    engine->n_threads = n_threads;
    engine->uses_host_memory = 1;
    engine->gradient = products->gradient ? products->gradient() : OCT_DTYPE_F32;
    engine->alloc = cpu_alloc;
    engine->free = cpu_free;
    engine->write = cpu_write;
    engine->read = cpu_read;
    engine->prepare = cpu_prepare;
    engine->release = cpu_release;
    engine->keep = products->keep ? cpu_keep : NULL;
    engine->close = cpu_close;
    memcpy(engine->run, operations, sizeof operations);
    for (int op = 0; op < OCT_OP_COUNT; op++) {
        if (products->run[op]) {
            engine->run[op] = products->run[op];
        }
    }
    *out = engine;
    return OCT_OK;
}

/* --- the plug-in ----------------------------------------------------------------------------- */

static oct_status cpu_open(const struct oct_engine_kind *kind, int n_threads,
                           struct oct__engine **out) {
#ifdef OCT_HAVE_DNNL
    return oct__cpu_open(kind, n_threads, &oct__products_onednn, out);
#else
    return oct__cpu_open(kind, n_threads, &oct__products_portable, out);
#endif
}

const struct oct_engine_kind oct_engine_cpu = {
    .plugin =
        {
            .name = "cpu",
#ifdef OCT_HAVE_DNNL
            .summary = "this machine's cores: oneDNN's products, our kernels",
#else
            .summary = "this machine's cores, in plain C (built without oneDNN)",
#endif
        },
    .open = cpu_open,
};
