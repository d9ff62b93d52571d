/* SPDX-License-Identifier: Apache-2.0 */
/* onednn.c - convolutions through oneDNN 2.x; the only file that knows its API.
 *
 * Activations stay NHWC. Weights are repacked once a call, from our [out][in][row][column] to
 * whatever layout the chosen primitive wants; weight gradients are computed a shard at a time in
 * that layout, folded in shard order and brought back.
 *
 * Three rules keep oneDNN out of trouble between our own threads (each learned from a hang or a
 * wrong result):
 *   - every primitive is created and executed with OpenMP told to use one thread; one that was
 *     created for two threads may wait for ever for the second;
 *   - scratchpads are ours, one for each thread: a library-managed one is shared;
 *   - memory objects belong to a thread, primitives to all.
 */
#include "engine/cpu.h"

#ifdef OCT_HAVE_DNNL

#include <dnnl.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include <octet/cpu.h>

#include "base/alloc.h"
#include "base/log.h"
#include "kernels/kernels.h"

struct context {
    dnnl_engine_t engine;
    dnnl_stream_t *streams; /* [n_threads] */
    int n_threads;
};

enum { SRC, WEIGHTS, BIAS, DST, SCRATCH, N_MEMORIES };
enum { REORDER_FROM, REORDER_TO, REORDER_SCRATCH, N_REORDER };

/* The primitive for shards of one size: a batch has whole shards and perhaps a shorter last one. */
struct part {
    int count;
    dnnl_primitive_t primitive;
    dnnl_memory_t *memories; /* [n_threads][N_MEMORIES] */
};

struct plan {
    struct context *context;
    enum oct__op op;
    int n_parts;
    struct part parts[2];
    int has_bias;
    size_t packed_bytes; /* of the weights, in the primitive's layout */
    size_t bias_bytes;   /* rounded up to a cache line */
    dnnl_primitive_t
        reorder; /* ours -> packed, or back for weight gradients; NULL: the same layout */
    dnnl_memory_t *reorder_memories; /* [n_threads][N_REORDER] */
};

static oct_status check(dnnl_status_t status, const char *what) {
    if (status == dnnl_out_of_memory) {
        OCT_FAIL(NO_MEMORY, "oneDNN: %s: memory ran out", what);
    }
    if (status == dnnl_unimplemented) {
        OCT_FAIL(UNSUPPORTED,
                 "oneDNN has no %s for these shapes on this CPU; --engine portable has", what);
    }
    if (status != dnnl_success) {
        OCT_FAIL(INTERNAL, "oneDNN: %s failed with status %d", what, (int)status);
    }
    return OCT_OK;
}

/* --- one thread inside oneDNN ---------------------------------------------------------------- */

/* oneDNN's own threads are OpenMP's. How many it may use is a setting of the calling thread, which
 * is put back afterwards: it may be the user's. */
static int one_thread(void) {
#ifdef _OPENMP
    int before = omp_get_max_threads();
    if (before != 1) {
        omp_set_num_threads(1);
    }
    return before;
#else
    return 1;
#endif
}

static void restore_threads(int before) {
#ifdef _OPENMP
    if (before != 1) {
        omp_set_num_threads(before);
    }
#else
    (void)before;
#endif
}

/* --- opening --------------------------------------------------------------------------------- */

/* oneDNN picks its own instruction set; hold it to ours. It can only be told before its first use.
 */
static void limit_instructions(void) {
    static const dnnl_cpu_isa_t isa[OCT_CPU_COUNT] = {
        [OCT_CPU_REF] = dnnl_cpu_isa_sse41,
        [OCT_CPU_AVX2] = dnnl_cpu_isa_avx2,
        [OCT_CPU_AVX512] = dnnl_cpu_isa_avx512_core,
        [OCT_CPU_AVX512VNNI] = dnnl_cpu_isa_avx512_core_vnni,
        [OCT_CPU_AVX512BF16] = dnnl_cpu_isa_avx512_core_bf16,
        [OCT_CPU_AMX] = dnnl_cpu_isa_all,
    };
    enum oct_cpu_level level = oct_cpu_level();
    if (level == oct_cpu_machine_level()) {
        return;
    }
    if (dnnl_set_max_cpu_isa(isa[level]) != dnnl_success &&
        dnnl_get_effective_cpu_isa() != isa[level]) {
        oct__log(OCT_LOG_WARNING,
                 "oneDNN was used before the CPU level was lowered to %s and keeps "
                 "its own",
                 oct_cpu_level_name(level));
    }
}

static void onednn_close(void *pointer) {
    struct context *context = pointer;
    for (int i = 0; context->streams && i < context->n_threads; i++) {
        if (context->streams[i]) {
            dnnl_stream_destroy(context->streams[i]);
        }
    }
    if (context->engine) {
        dnnl_engine_destroy(context->engine);
    }
    oct__free(context->streams);
    oct__free(context);
}

static oct_status onednn_open(int n_threads, void **out) {
    oct_status status;
    void *memory;
    limit_instructions();
    OCT_TRY(oct__alloc(sizeof(struct context), "oneDNN context", &memory));
    struct context *context = memory;
    context->n_threads = n_threads;
    OCT_TRY_TO(fail, oct__alloc_array((size_t)n_threads, sizeof(dnnl_stream_t), "oneDNN streams",
                                      &memory));
    context->streams = memory;
    OCT_TRY_TO(fail, check(dnnl_engine_create(&context->engine, dnnl_cpu, 0), "engine"));
    for (int i = 0; i < n_threads; i++) {
        OCT_TRY_TO(fail, check(dnnl_stream_create(&context->streams[i], context->engine,
                                                  dnnl_stream_default_flags),
                               "stream"));
    }
    *out = context;
    return OCT_OK;
fail:
    onednn_close(context);
    return status;
}

/* --- preparing ------------------------------------------------------------------------------- */

static void onednn_release(void *handle) {
    struct plan *plan = handle;
    int n_threads = plan->context->n_threads;
    for (int p = 0; p < plan->n_parts; p++) {
        struct part *part = &plan->parts[p];
        for (int i = 0; part->memories && i < n_threads * N_MEMORIES; i++) {
            if (part->memories[i]) {
                dnnl_memory_destroy(part->memories[i]);
            }
        }
        if (part->primitive) {
            dnnl_primitive_destroy(part->primitive);
        }
        oct__free(part->memories);
    }
    for (int i = 0; plan->reorder_memories && i < n_threads * N_REORDER; i++) {
        if (plan->reorder_memories[i]) {
            dnnl_memory_destroy(plan->reorder_memories[i]);
        }
    }
    if (plan->reorder) {
        dnnl_primitive_destroy(plan->reorder);
    }
    oct__free(plan->reorder_memories);
    oct__free(plan);
}

/* What a convolution looks like to oneDNN, for `count` samples. */
struct shape {
    dnnl_memory_desc_t src, dst, weights, bias; /* weights in a layout of the primitive's choice */
    dnnl_memory_desc_t plain_weights;           /* in ours */
    dnnl_dims_t strides, pads, pads_right;
    int has_bias;
};

static const struct oct__tensor *operand(enum oct__op op, const struct oct__args *a, int what) {
    static const int place[3][4] = {
        /* SRC WEIGHTS BIAS DST */
        {0, 1, 2, 3},  /* CONV */
        {2, 1, -1, 0}, /* CONV_DGRAD */
        {0, 2, 3, 1},  /* CONV_WGRAD */
    };
    int index = place[op - OCT_OP_CONV][what];
    return index < 0 ? NULL : &a->t[index];
}

static oct_status describe(enum oct__op op, const struct oct__args *a, int count,
                           struct shape *shape) {
    const struct oct__tensor *x = operand(op, a, SRC), *y = operand(op, a, DST);
    const struct oct__tensor *bias = operand(op, a, BIAS);
    const int groups = a->attr.conv.groups, kernel = a->attr.conv.kernel;
    const int stride = a->attr.conv.stride, pad = a->attr.conv.pad;
    dnnl_dims_t src = {count, x->c, x->h, x->w}, dst = {count, y->c, y->h, y->w};
    dnnl_dims_t weights = {y->c, x->c, kernel, kernel};
    dnnl_dims_t grouped = {groups, y->c / groups, x->c / groups, kernel, kernel};
    dnnl_dims_t channels = {y->c};
    const int n_dims = groups > 1 ? 5 : 4;
    memset(shape, 0, sizeof *shape);
    shape->has_bias = bias && bias->n != 0;
    for (int i = 0; i < 2; i++) {
        int in = i == 0 ? x->h : x->w, out = i == 0 ? y->h : y->w;
        shape->strides[i] = stride;
        shape->pads[i] = pad;
        shape->pads_right[i] =
            (out - 1) * stride + kernel - in - pad; /* may leave rows unused: < 0 */
    }
    OCT_TRY(check(dnnl_memory_desc_init_by_tag(&shape->src, 4, src, dnnl_f32, dnnl_nhwc), "src"));
    OCT_TRY(check(dnnl_memory_desc_init_by_tag(&shape->dst, 4, dst, dnnl_f32, dnnl_nhwc), "dst"));
    OCT_TRY(
        check(dnnl_memory_desc_init_by_tag(&shape->weights, n_dims, groups > 1 ? grouped : weights,
                                           dnnl_f32, dnnl_format_tag_any),
              "weights"));
    OCT_TRY(check(dnnl_memory_desc_init_by_tag(&shape->plain_weights, n_dims,
                                               groups > 1 ? grouped : weights, dnnl_f32,
                                               groups > 1 ? dnnl_goihw : dnnl_oihw),
                  "weights"));
    return check(dnnl_memory_desc_init_by_tag(&shape->bias, 1, channels, dnnl_f32, dnnl_x), "bias");
}

/* Scratch memory is ours. */
static oct_status make_attributes(dnnl_primitive_attr_t *out) {
    OCT_TRY(check(dnnl_primitive_attr_create(out), "attributes"));
    oct_status status =
        check(dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user),
              "scratchpad mode");
    if (status != OCT_OK) {
        dnnl_primitive_attr_destroy(*out);
    }
    return status;
}

/* The primitive descriptor of `op` for `shape`; backward ones need the forward one as a hint. */
static oct_status describe_primitive(const struct context *context, enum oct__op op,
                                     const struct shape *shape, dnnl_primitive_desc_t *out) {
    oct_status status = OCT_OK;
    dnnl_convolution_desc_t desc;
    dnnl_primitive_desc_t forward = NULL;
    dnnl_primitive_attr_t attr = NULL;
    const dnnl_memory_desc_t *bias = shape->has_bias ? &shape->bias : NULL;
    OCT_TRY(make_attributes(&attr));
    OCT_TRY_TO(done, check(dnnl_convolution_forward_desc_init(
                               &desc, dnnl_forward_training, dnnl_convolution_direct, &shape->src,
                               &shape->weights, bias, &shape->dst, shape->strides, shape->pads,
                               shape->pads_right),
                           "convolution"));
    OCT_TRY_TO(done, check(dnnl_primitive_desc_create(&forward, &desc, attr, context->engine, NULL),
                           "forward descriptor"));
    if (op == OCT_OP_CONV) {
        *out = forward;
        forward = NULL;
    } else {
        dnnl_status_t made =
            op == OCT_OP_CONV_DGRAD
                ? dnnl_convolution_backward_data_desc_init(
                      &desc, dnnl_convolution_direct, &shape->src, &shape->weights, &shape->dst,
                      shape->strides, shape->pads, shape->pads_right)
                : dnnl_convolution_backward_weights_desc_init(
                      &desc, dnnl_convolution_direct, &shape->src, &shape->weights, bias,
                      &shape->dst, shape->strides, shape->pads, shape->pads_right);
        OCT_TRY_TO(done, check(made, "backward convolution"));
        OCT_TRY_TO(done,
                   check(dnnl_primitive_desc_create(out, &desc, attr, context->engine, forward),
                         "backward descriptor"));
    }
done:
    if (forward) {
        dnnl_primitive_desc_destroy(forward);
    }
    dnnl_primitive_attr_destroy(attr);
    return status;
}

static oct_status make_memory(const struct context *context, const dnnl_memory_desc_t *desc,
                              dnnl_memory_t *out) {
    return check(dnnl_memory_create(out, desc, context->engine, DNNL_MEMORY_NONE), "memory");
}

static const dnnl_memory_desc_t *packed_weights(const_dnnl_primitive_desc_t desc, enum oct__op op) {
    return dnnl_primitive_desc_query_md(
        desc, op == OCT_OP_CONV_WGRAD ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0);
}

/* Makes the primitive for shards of `count` samples and its memory objects for every thread. */
static oct_status make_part(struct plan *plan, const struct oct__args *args, int count,
                            struct part *part, size_t *scratch_bytes, struct shape *shape) {
    oct_status status;
    struct context *context = plan->context;
    dnnl_primitive_desc_t desc = NULL;
    void *memory;
    part->count = count;
    const int is_second = plan->packed_bytes != 0;
    const dnnl_memory_desc_t first_weights = shape->weights;
    OCT_TRY(describe(plan->op, args, count, shape));
    if (is_second) {
        shape->weights = first_weights; /* the packed weights are shared, so is their layout */
    }
    OCT_TRY(describe_primitive(context, plan->op, shape, &desc));
    const dnnl_memory_desc_t *weights = packed_weights(desc, plan->op);
    const dnnl_memory_desc_t *scratch =
        dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    *scratch_bytes = dnnl_memory_desc_get_size(scratch);
    plan->packed_bytes = (dnnl_memory_desc_get_size(weights) + 63) & ~(size_t)63;
    shape->weights = *weights;
    OCT_TRY_TO(out, check(dnnl_primitive_create(&part->primitive, desc), "primitive"));
    OCT_TRY_TO(out, oct__alloc_array((size_t)context->n_threads * N_MEMORIES, sizeof(dnnl_memory_t),
                                     "oneDNN memories", &memory));
    part->memories = memory;
    for (int i = 0; i < context->n_threads; i++) {
        dnnl_memory_t *of = &part->memories[(ptrdiff_t)i * N_MEMORIES];
        OCT_TRY_TO(out, make_memory(context, &shape->src, &of[SRC]));
        OCT_TRY_TO(out, make_memory(context, weights, &of[WEIGHTS]));
        OCT_TRY_TO(out, make_memory(context, &shape->bias, &of[BIAS]));
        OCT_TRY_TO(out, make_memory(context, &shape->dst, &of[DST]));
        OCT_TRY_TO(out, make_memory(context, scratch, &of[SCRATCH]));
    }
    const char *chosen = NULL;
    if (dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &chosen) == dnnl_success) {
        oct__log(OCT_LOG_DEBUG, "oneDNN: %s %dx%dx%dx%d -> %d, kernel %d: %s",
                 oct__op_info[plan->op].name, count, (int)shape->src.dims[2],
                 (int)shape->src.dims[3], (int)shape->src.dims[1], (int)shape->dst.dims[1],
                 args->attr.conv.kernel, chosen);
    }
    status = OCT_OK;
out:
    dnnl_primitive_desc_destroy(desc);
    return status;
}

static oct_status make_reorder(struct plan *plan, const struct shape *shape,
                               size_t *scratch_bytes) {
    struct context *context = plan->context;
    if (dnnl_memory_desc_equal(&shape->plain_weights, &shape->weights)) {
        return OCT_OK;
    }
    const int back = plan->op == OCT_OP_CONV_WGRAD;
    const dnnl_memory_desc_t *from = back ? &shape->weights : &shape->plain_weights;
    const dnnl_memory_desc_t *to = back ? &shape->plain_weights : &shape->weights;
    oct_status status;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t desc = NULL;
    void *memory;
    OCT_TRY(make_attributes(&attr));
    OCT_TRY_TO(done, check(dnnl_reorder_primitive_desc_create(&desc, from, context->engine, to,
                                                              context->engine, attr),
                           "reorder descriptor"));
    const dnnl_memory_desc_t *scratch =
        dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    *scratch_bytes = dnnl_memory_desc_get_size(scratch);
    OCT_TRY_TO(done, check(dnnl_primitive_create(&plan->reorder, desc), "reorder"));
    OCT_TRY_TO(done, oct__alloc_array((size_t)context->n_threads * N_REORDER, sizeof(dnnl_memory_t),
                                      "oneDNN memories", &memory));
    plan->reorder_memories = memory;
    for (int i = 0; i < context->n_threads; i++) {
        dnnl_memory_t *of = &plan->reorder_memories[(ptrdiff_t)i * N_REORDER];
        OCT_TRY_TO(done, make_memory(context, from, &of[REORDER_FROM]));
        OCT_TRY_TO(done, make_memory(context, to, &of[REORDER_TO]));
        OCT_TRY_TO(done, make_memory(context, scratch, &of[REORDER_SCRATCH]));
    }
done:
    if (desc) {
        dnnl_primitive_desc_destroy(desc);
    }
    dnnl_primitive_attr_destroy(attr);
    return status;
}

/* Shared scratch: packed weights of each node, or the gradients of each node and shard, bias after
 * them. */
static oct_status onednn_prepare(void *pointer, enum oct__op op, const struct oct__lane_form *form,
                                 const struct oct__args *args, struct oct__plan *out) {
    void *memory;
    OCT_TRY(oct__alloc(sizeof(struct plan), "oneDNN plan", &memory));
    struct plan *plan = memory;
    plan->context = pointer;
    plan->op = op;
    struct shape shape = {.has_bias = 0};
    const int batch = operand(op, args, SRC)->n;
    const int counts[2] = {batch < form->shard ? batch : form->shard,
                           batch > form->shard ? batch % form->shard : 0};
    oct_status status = OCT_OK;
    int threads_before = one_thread();
    size_t scratch_bytes = 0;
    for (int p = 0; p < 2 && counts[p] > 0 && status == OCT_OK; p++) {
        plan->n_parts++;
        status = make_part(plan, args, counts[p], &plan->parts[p], &scratch_bytes, &shape);
        if (out->thread_bytes < scratch_bytes) {
            out->thread_bytes = scratch_bytes;
        }
    }
    if (status == OCT_OK) {
        scratch_bytes = 0;
        status = make_reorder(plan, &shape, &scratch_bytes);
        if (out->thread_bytes < scratch_bytes) {
            out->thread_bytes = scratch_bytes;
        }
    }
    restore_threads(threads_before);
    if (status != OCT_OK) {
        onednn_release(plan);
        return status;
    }
    plan->has_bias = shape.has_bias;
    plan->bias_bytes = (dnnl_memory_desc_get_size(&shape.bias) + 63) & ~(size_t)63;
    size_t pieces = (size_t)form->n_nodes;
    if (op == OCT_OP_CONV_WGRAD) {
        pieces *= (size_t)oct__shard_count(form, batch);
    }
    out->shared_bytes = pieces * (plan->packed_bytes + plan->bias_bytes);
    out->handle = plan;
    return OCT_OK;
}

/* --- running --------------------------------------------------------------------------------- */

static oct_status execute(const struct plan *plan, int thread, dnnl_primitive_t primitive,
                          int n_args, const dnnl_exec_arg_t *args) {
    int threads_before = one_thread();
    dnnl_status_t status =
        dnnl_primitive_execute(primitive, plan->context->streams[thread], n_args, args);
    restore_threads(threads_before);
    return check(status, oct__op_info[plan->op].name);
}

static oct_status point(dnnl_memory_t memory, void *at) {
    return check(dnnl_memory_set_data_handle(memory, at), "memory handle");
}

static int thread_of(const struct oct__shard *s) {
    return s->lane->first_thread + s->worker;
}

/* Piece `index` of the shared scratch: a node's packed weights, or a shard's gradients. */
static char *piece(const struct oct__shard *s, const struct plan *plan, int index) {
    size_t size = plan->packed_bytes + plan->bias_bytes;
    return (char *)s->lane->shared_scratch + (size_t)index * size;
}

static oct_status reorder(const struct oct__shard *s, const struct plan *plan, void *from,
                          void *to) {
    dnnl_memory_t *m = &plan->reorder_memories[(ptrdiff_t)thread_of(s) * N_REORDER];
    OCT_TRY(point(m[REORDER_FROM], from));
    OCT_TRY(point(m[REORDER_TO], to));
    OCT_TRY(point(m[REORDER_SCRATCH], oct__thread_scratch(s)));
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, m[REORDER_FROM]},
                              {DNNL_ARG_TO, m[REORDER_TO]},
                              {DNNL_ARG_SCRATCHPAD, m[REORDER_SCRATCH]}};
    return execute(plan, thread_of(s), plan->reorder, 3, args);
}

static oct_status pack_node(const struct oct__shard *s) {
    const struct plan *plan = s->args->handle;
    return reorder(s, plan, oct__node_at(s, 1), piece(s, plan, s->node));
}

static const struct part *part_of(const struct plan *plan, int count) {
    return &plan->parts[plan->n_parts > 1 && plan->parts[1].count == count ? 1 : 0];
}

static oct_status product_shard(const struct oct__shard *s) {
    const struct plan *plan = s->args->handle;
    const struct part *part = part_of(plan, s->count);
    dnnl_memory_t *m = &part->memories[(ptrdiff_t)thread_of(s) * N_MEMORIES];
    const int n_shards = oct__shard_count(&s->lane->form, s->args->t[0].n);
    static const int names[3][4] = {
        {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST},
        {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DIFF_DST},
        {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS, DNNL_ARG_DIFF_DST},
    };
    const int *name = names[plan->op - OCT_OP_CONV];
    if (plan->op == OCT_OP_CONV_WGRAD) {
        char *gradients = piece(s, plan, s->node * n_shards + s->index);
        OCT_TRY(point(m[SRC], oct__shard_at(s, 0)));
        OCT_TRY(point(m[DST], oct__shard_at(s, 1)));
        OCT_TRY(point(m[WEIGHTS], gradients));
        OCT_TRY(point(m[BIAS], gradients + plan->packed_bytes));
    } else {
        const int forward = plan->op == OCT_OP_CONV;
        OCT_TRY(point(m[SRC], oct__shard_at(s, forward ? 0 : 2)));
        OCT_TRY(point(m[DST], oct__shard_at(s, forward ? 3 : 0)));
        OCT_TRY(point(m[WEIGHTS], plan->reorder ? piece(s, plan, s->node) : oct__node_at(s, 1)));
        if (plan->has_bias) {
            OCT_TRY(point(m[BIAS], oct__node_at(s, 2)));
        }
    }
    OCT_TRY(point(m[SCRATCH], oct__thread_scratch(s)));
    dnnl_exec_arg_t args[5] = {{name[0], m[SRC]},
                               {name[1], m[WEIGHTS]},
                               {name[3], m[DST]},
                               {DNNL_ARG_SCRATCHPAD, m[SCRATCH]},
                               {name[2], m[BIAS]}};
    return execute(plan, thread_of(s), part->primitive, plan->has_bias ? 5 : 4, args);
}

/* Sums the shards' gradients in place, in order, then brings them to our layout. */
static oct_status fold_node(const struct oct__shard *s) {
    const struct plan *plan = s->args->handle;
    const struct oct__kernels *k = oct__kernels();
    const int n_shards = oct__shard_count(&s->lane->form, s->args->t[0].n);
    const size_t stride = (plan->packed_bytes + plan->bias_bytes) / sizeof(float);
    float *sum = (float *)piece(s, plan, s->node * n_shards);
    size_t packed = plan->packed_bytes / sizeof(float);
    float *to = plan->reorder ? sum : oct__node_at(s, 2);
    size_t count = plan->reorder ? packed : oct__tensor_count(&s->args->t[2]);
    k->fold_f32(count, (size_t)n_shards, stride, sum, to);
    if (plan->has_bias) {
        k->fold_f32((size_t)s->args->t[3].c, (size_t)n_shards, stride, sum + packed,
                    oct__node_at(s, 3));
    }
    return plan->reorder ? reorder(s, plan, sum, oct__node_at(s, 2)) : OCT_OK;
}

static oct_status product(const struct oct__lane *lane, const struct oct__args *args) {
    const struct plan *plan = args->handle;
    const int is_gradient = plan->op == OCT_OP_CONV_WGRAD;
    if (!is_gradient && plan->reorder && !lane->bare) {
        OCT_TRY(oct__each_node(lane, args, pack_node));
    }
    OCT_TRY(oct__each_shard(lane, args, args->t[0].n, product_shard));
    if (is_gradient && !lane->bare) {
        OCT_TRY(oct__each_node(lane, args, fold_node));
    }
    return OCT_OK;
}

const struct oct__products oct__products_onednn = {
    .name = "oneDNN",
    .open = onednn_open,
    .close = onednn_close,
    .prepare = onednn_prepare,
    .release = onednn_release,
    .run = {product, product, product},
};

#else

/* Built without oneDNN: the engine `cpu` uses the portable products, and nothing of this file. */
typedef int oct__onednn_absent;

#endif
