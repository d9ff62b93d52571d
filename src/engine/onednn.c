/* SPDX-License-Identifier: Apache-2.0 */
/* onednn.c - convolutions through oneDNN 2.x; the only file that knows its API.
 *
 * Activations stay NHWC. Weights are repacked from our [out][in][row][column] to whatever layout
 * the chosen primitive wants (by pack.c, where that is its layout): once a call, or once for many calls
 * where they are kept. Weight gradients are computed a shard at a time in that layout, folded in shard
 * order and brought back.
 *
 * Three rules keep oneDNN out of trouble between our own threads (each learned from a hang or a
 * wrong result):
 *   - every primitive is created and executed with OpenMP told to use one thread; one that was
 *     created for two threads may wait for ever for the second;
 *   - scratchpads are ours, one for each thread: a library-managed one is shared;
 *   - memory objects belong to a thread, primitives to all.
 *
 * oneDNN does not train in integers, but has what it takes: x in bytes and its zero point go into a
 * forward convolution; the data gradient is a deconvolution; and for the weight gradient x - zero
 * becomes bf16, exactly, where wgrad.c is not faster. What was learned there, again from wrong
 * results:
 *   - some of its implementations are wrong for some shapes (is_wanted has which), and those without
 *     VNNI saturate at 16 bits: where no other is left, exact.c computes the product;
 *   - a *signed* source is shifted by 128 and put right in f32, too late where the shifted sum had
 *     more than 24 bits; with a stride it is 3 times slower, depth-wise 100 times. So gradients
 *     come as bytes with the zero point 128 (e8), which is put right in integers;
 *   - every sum passes through f32 on its way out, so one beyond 2^24 may have lost its last bits:
 *     where sums are long enough for that, they are looked at, and exact.c computes them again. Who
 *     makes floats of them does not see the difference.
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

/* X and Y are a convolution's input and output, or their gradients, whichever way it is computed. */
enum { X, WEIGHTS, BIAS, Y, N_OPERANDS, SCRATCH = N_OPERANDS, ZERO, N_MEMORIES };
enum { REORDER_FROM, REORDER_TO, REORDER_SCRATCH, N_REORDER };

enum direction { FORWARD, DATA_GRADIENT, WEIGHT_GRADIENT, DECONVOLUTION, N_DIRECTIONS };

/* How an operation is put to oneDNN: where it has the operands above and x's grid; -1: nowhere. */
struct wiring {
    enum direction direction;
    int place[N_OPERANDS];
    int grid;
};

static const struct wiring wirings[OCT_OP_COUNT] = {
    [OCT_OP_CONV] = {FORWARD, {0, 1, 2, 3}, -1},
    [OCT_OP_CONV_DGRAD] = {DATA_GRADIENT, {2, 1, -1, 0}, -1},
    [OCT_OP_CONV_WGRAD] = {WEIGHT_GRADIENT, {0, 2, 3, 1}, -1},
    [OCT_OP_CONV_U8] = {FORWARD, {0, 2, -1, 3}, 1},
    [OCT_OP_CONV_S8_DGRAD] = {DECONVOLUTION, {2, 1, -1, 0}, -1},
    [OCT_OP_CONV_U8_WGRAD] = {WEIGHT_GRADIENT, {0, 3, 4, 2}, 1},
};

/* What oneDNN calls them. */
static const int argument_names[N_DIRECTIONS][N_OPERANDS] = {
    [FORWARD] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST},
    [DATA_GRADIENT] = {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DIFF_DST},
    [WEIGHT_GRADIENT] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS,
                         DNNL_ARG_DIFF_DST},
    [DECONVOLUTION] = {DNNL_ARG_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_SRC},
};

static const dnnl_data_type_t types[OCT_DTYPE_COUNT] = {
    [OCT_DTYPE_F32] = dnnl_f32, [OCT_DTYPE_S32] = dnnl_s32,   [OCT_DTYPE_U8] = dnnl_u8,
    [OCT_DTYPE_S8] = dnnl_s8,   [OCT_DTYPE_BF16] = dnnl_bf16, [OCT_DTYPE_E8] = dnnl_u8,
};

/* The primitive for shards of one size: a batch has whole shards and perhaps a shorter last one. */
struct part {
    int count;
    dnnl_primitive_t primitive;
    dnnl_memory_t *memories; /* [n_threads][N_MEMORIES] */
};

struct plan {
    struct context *context;
    enum oct__op op;
    const struct wiring *wiring;
    struct part parts[2]; /* the second is for a shorter last shard; count 0: there is none */
    int has_bias;
    int is_integer;
    int may_round;                            /* sums of integers can pass 2^24 */
    enum oct__dtype dtype[N_OPERANDS];        /* for oneDNN: an operand of another is converted, a
                                          shard at a time */
    size_t zero_at, converted_at[N_OPERANDS]; /* in a thread's scratch */
    size_t packed_bytes;                      /* of the weights, in the primitive's layout */
    size_t bias_bytes;                        /* rounded up to a cache line */
    size_t flags_at; /* in the shared scratch, behind the pieces: [node][shard] may be rounded */
    dnnl_primitive_t
        reorder; /* ours -> packed, or back for weight gradients; NULL: the same layout */
    dnnl_memory_t *reorder_memories; /* [n_threads][N_REORDER] */
    int packs;                       /* pack.c knows the layout, and is used instead */
    struct oct__pack pack;
};

#define LARGEST_EXACT (1 << 24) /* f32 has all whole numbers up to here */

static size_t round_up(size_t bytes) {
    return (bytes + 63) & ~(size_t)63;
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

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

static void release_memories(dnnl_memory_t *memories, int count) {
    for (int i = 0; memories && i < count; i++) {
        if (memories[i]) {
            dnnl_memory_destroy(memories[i]);
        }
    }
    oct__free(memories);
}

static void release_parts(struct plan *plan) {
    for (int p = 0; p < 2; p++) {
        struct part *part = &plan->parts[p];
        release_memories(part->memories, plan->context->n_threads * N_MEMORIES);
        if (part->primitive) {
            dnnl_primitive_destroy(part->primitive);
        }
        memset(part, 0, sizeof *part);
    }
}

static void onednn_release(void *handle) {
    struct plan *plan = handle;
    release_parts(plan);
    release_memories(plan->reorder_memories, plan->context->n_threads * N_REORDER);
    if (plan->reorder) {
        dnnl_primitive_destroy(plan->reorder);
    }
    oct__free(plan);
}

/* What a convolution looks like to oneDNN, for `count` samples. */
struct shape {
    dnnl_memory_desc_t x, y, weights, bias; /* weights in a layout of the primitive's choice */
    dnnl_memory_desc_t plain_weights;       /* in ours */
    dnnl_memory_desc_t zero;
    dnnl_dims_t strides, pads, pads_right;
};

static const struct oct__tensor *operand(const struct wiring *wiring, const struct oct__args *args,
                                         int what) {
    return wiring->place[what] < 0 ? NULL : &args->t[wiring->place[what]];
}

static oct_status describe_tensor(dnnl_memory_desc_t *desc, int n_dims, const dnnl_dims_t dims,
                                  enum oct__dtype dtype, dnnl_format_tag_t tag) {
    return check(dnnl_memory_desc_init_by_tag(desc, n_dims, dims, types[dtype], tag), "tensor");
}

static oct_status describe(const struct plan *plan, const struct oct__args *args, int count,
                           struct shape *shape) {
    const struct oct__tensor *x = operand(plan->wiring, args, X),
                             *y = operand(plan->wiring, args, Y);
    const struct oct__conv_attr *conv = &args->attr.conv;
    const int is_turned = plan->wiring->direction == DECONVOLUTION; /* leads from Y to X */
    const int is_grouped = conv->groups > 1;
    const int from = (is_turned ? y->c : x->c) / conv->groups;
    const int to = (is_turned ? x->c : y->c) / conv->groups;
    const dnnl_dims_t x_dims = {count, x->c, x->h, x->w}, y_dims = {count, y->c, y->h, y->w};
    const dnnl_dims_t grouped = {conv->groups, to, from, conv->kernel, conv->kernel};
    const dnnl_dims_t channels = {y->c}, one = {1};
    static const dnnl_format_tag_t ours[2][2] = {{dnnl_oihw, dnnl_goihw}, {dnnl_iohw, dnnl_giohw}};
    const dnnl_dim_t *weights = grouped + !is_grouped;
    const enum oct__dtype *dtype = plan->dtype;
    memset(shape, 0, sizeof *shape);
    for (int i = 0; i < 2; i++) {
        int in = i == 0 ? x->h : x->w, out = i == 0 ? y->h : y->w;
        shape->strides[i] = conv->stride;
        shape->pads[i] = conv->pad;
        /* Negative where the last rows go unused. */
        shape->pads_right[i] = (out - 1) * conv->stride + conv->kernel - in - conv->pad;
    }
    OCT_TRY(describe_tensor(&shape->x, 4, x_dims, dtype[X], dnnl_nhwc));
    OCT_TRY(describe_tensor(&shape->y, 4, y_dims, dtype[Y], dnnl_nhwc));
    OCT_TRY(describe_tensor(&shape->weights, 4 + is_grouped, weights, dtype[WEIGHTS],
                            dnnl_format_tag_any));
    OCT_TRY(describe_tensor(&shape->plain_weights, 4 + is_grouped, weights, dtype[WEIGHTS],
                            ours[is_turned][is_grouped]));
    OCT_TRY(describe_tensor(&shape->zero, 1, one, OCT_DTYPE_S32, dnnl_x));
    return describe_tensor(&shape->bias, 1, channels, OCT_DTYPE_F32, dnnl_x);
}

/* Scratch memory is ours; the zero point of bytes is told when they are. */
static oct_status make_attributes(int has_zero, dnnl_primitive_attr_t *out) {
    static const int32_t later = DNNL_RUNTIME_S32_VAL;
    OCT_TRY(check(dnnl_primitive_attr_create(out), "attributes"));
    dnnl_status_t made = dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user);
    if (made == dnnl_success && has_zero) {
        made = dnnl_primitive_attr_set_zero_points(*out, DNNL_ARG_SRC, 1, 0, &later);
    }
    oct_status status = check(made, "attributes");
    if (status != OCT_OK) {
        dnnl_primitive_attr_destroy(*out);
    }
    return status;
}

static const char *name_of(const_dnnl_primitive_desc_t desc) {
    const char *name = "?";
    dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, (void *)&name);
    return name;
}

/* Which of oneDNN's implementations to use where there is another way; names are those of its
 * verbose mode, and "ref" are plain loops. For integers these were found to be exact, others not:
 * "gemm" miscounts the padding of groups, "amx" that of more than half a kernel and, with a kernel
 * of 1, writes beyond its result; deconvolutions miss places at the right border where it is
 * further away than they think, and where they borrow a convolution, that one rounds. Weight gradients
 * of bf16 read what is not there where a stride is more than a padded kernel or a padded row; those of
 * f32, AVX2 and a kernel of 1 with a stride write beyond their scratch unless channels fill vectors. `x`
 * is what a weight gradient reads: [count][channels][rows][columns]. */
static int is_wanted(const struct plan *plan, const struct oct__conv_attr *conv,
                     const dnnl_dim_t *x, const char *name) {
    enum { AVX2_FLOATS = 8 };
    if (plan->dtype[X] == OCT_DTYPE_F32) {
        return plan->wiring->direction != WEIGHT_GRADIENT || conv->stride == 1 ||
               x[1] % AVX2_FLOATS == 0 || strcmp(name, "jit_1x1:avx2") != 0;
    }
    if (plan->dtype[X] == OCT_DTYPE_BF16) {
        return !strstr(name, "ref") &&
               (conv->pad == 0 || (conv->kernel >= conv->stride && x[3] >= conv->stride));
    }
    if (plan->wiring->direction == DECONVOLUTION) {
        return strcmp(name, "jit_deconvolution:avx512_core_vnni") == 0 &&
               (conv->stride == 1 || (conv->stride == 2 && conv->kernel % 2 == 1));
    }
    return strstr(name, ":avx512_core_vnni") ||
           (strcmp(name, "jit:avx512_core_amx_int8") == 0 && conv->pad <= conv->kernel / 2);
}

/* The first implementation that is wanted. */
static oct_status choose(const struct plan *plan, const struct oct__conv_attr *conv,
                         const dnnl_convolution_desc_t *desc, const_dnnl_primitive_attr_t attr,
                         const_dnnl_primitive_desc_t forward, dnnl_primitive_desc_t *out) {
    dnnl_primitive_desc_iterator_t each = NULL;
    dnnl_status_t found =
        dnnl_primitive_desc_iterator_create(&each, desc, attr, plan->context->engine, forward);
    *out = NULL;
    while (found == dnnl_success && !*out) {
        *out = dnnl_primitive_desc_iterator_fetch(each);
        if (!*out) {
            found = dnnl_out_of_memory;
        } else if (!is_wanted(plan, conv, desc->src_desc.dims, name_of(*out))) {
            dnnl_primitive_desc_destroy(*out);
            *out = NULL;
            found = dnnl_primitive_desc_iterator_next(each);
        }
    }
    if (each) {
        dnnl_primitive_desc_iterator_destroy(each);
    }
    return check(found == dnnl_iterator_ends ? dnnl_unimplemented : found, "convolution");
}

/* The primitive descriptor for `shape`; backward ones need the forward one as a hint. */
static oct_status describe_primitive(const struct plan *plan, const struct oct__conv_attr *conv,
                                     const struct shape *shape, dnnl_primitive_desc_t *out) {
    oct_status status = OCT_OK;
    dnnl_convolution_desc_t desc;
    dnnl_primitive_desc_t forward = NULL;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t made;
    const enum direction direction = plan->wiring->direction;
    const dnnl_memory_desc_t *x = &shape->x, *y = &shape->y;
    const dnnl_memory_desc_t *bias = plan->has_bias ? &shape->bias : NULL;
    const dnnl_dim_t *strides = shape->strides, *pads = shape->pads, *right = shape->pads_right;
    dnnl_memory_desc_t weights = shape->weights;
    if (direction == WEIGHT_GRADIENT) { /* the gradient is f32, the weights as x is */
        OCT_TRY(describe_tensor(&weights, shape->weights.ndims, shape->weights.dims, plan->dtype[X],
                                dnnl_format_tag_any));
    }
    OCT_TRY(make_attributes(plan->is_integer, &attr));
    if (direction == DECONVOLUTION) {
        made = dnnl_deconvolution_forward_desc_init(&desc, dnnl_forward_training,
                                                    dnnl_deconvolution_direct, y, &weights, bias, x,
                                                    strides, pads, right);
    } else {
        made = dnnl_convolution_forward_desc_init(&desc, dnnl_forward_training,
                                                  dnnl_convolution_direct, x, &weights, bias, y,
                                                  strides, pads, right);
    }
    OCT_TRY_TO(done, check(made, "convolution"));
    if (direction == DATA_GRADIENT || direction == WEIGHT_GRADIENT) {
        OCT_TRY_TO(done, check(dnnl_primitive_desc_create(&forward, &desc, attr,
                                                          plan->context->engine, NULL),
                               "convolution"));
        made = direction == DATA_GRADIENT
                   ? dnnl_convolution_backward_data_desc_init(&desc, dnnl_convolution_direct, x,
                                                              &weights, y, strides, pads, right)
                   : dnnl_convolution_backward_weights_desc_init(&desc, dnnl_convolution_direct, x,
                                                                 &shape->weights, bias, y, strides,
                                                                 pads, right);
        OCT_TRY_TO(done, check(made, "backward convolution"));
    }
    OCT_TRY_TO(done, choose(plan, conv, &desc, attr, forward, out));
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

/* Makes the primitive for shards of `count` samples and its memory objects for every thread. */
static oct_status make_part(struct plan *plan, const struct oct__args *args, int count,
                            struct part *part, size_t *scratch_bytes, struct shape *shape) {
    oct_status status;
    struct context *context = plan->context;
    dnnl_primitive_desc_t desc = NULL;
    void *memory;
    part->count = count;
    const dnnl_memory_desc_t chosen = shape->weights;
    OCT_TRY(describe(plan, args, count, shape));
    if (chosen.ndims != 0) {
        shape->weights = chosen; /* the packed weights are shared, so is their layout */
    }
    OCT_TRY(describe_primitive(plan, &args->attr.conv, shape, &desc));
    oct__log(OCT_LOG_DEBUG, "oneDNN: %s %dx%dx%dx%d -> %d, kernel %d: %s",
             oct__op_info[plan->op].name, count, (int)shape->x.dims[2], (int)shape->x.dims[3],
             (int)shape->x.dims[1], (int)shape->y.dims[1], args->attr.conv.kernel, name_of(desc));
    const dnnl_query_t which = plan->wiring->direction == WEIGHT_GRADIENT
                                   ? dnnl_query_diff_weights_md
                                   : dnnl_query_weights_md;
    const dnnl_memory_desc_t *weights = dnnl_primitive_desc_query_md(desc, which, 0);
    const dnnl_memory_desc_t *scratch =
        dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    *scratch_bytes = larger(*scratch_bytes, dnnl_memory_desc_get_size(scratch));
    plan->packed_bytes = round_up(dnnl_memory_desc_get_size(weights));
    shape->weights = *weights;
    OCT_TRY_TO(out, check(dnnl_primitive_create(&part->primitive, desc), "primitive"));
    OCT_TRY_TO(out, oct__alloc_array((size_t)context->n_threads * N_MEMORIES, sizeof(dnnl_memory_t),
                                     "oneDNN memories", &memory));
    part->memories = memory;
    const dnnl_memory_desc_t *const descs[N_MEMORIES] = {
        [X] = &shape->x, [WEIGHTS] = weights, [BIAS] = &shape->bias,
        [Y] = &shape->y, [SCRATCH] = scratch, [ZERO] = &shape->zero,
    };
    for (int i = 0; i < context->n_threads * N_MEMORIES; i++) {
        OCT_TRY_TO(out, make_memory(context, descs[i % N_MEMORIES], &part->memories[i]));
    }
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
    const int back = plan->wiring->direction == WEIGHT_GRADIENT;
    const dnnl_memory_desc_t *from = back ? &shape->weights : &shape->plain_weights;
    const dnnl_memory_desc_t *to = back ? &shape->plain_weights : &shape->weights;
    oct_status status;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t desc = NULL;
    void *memory;
    OCT_TRY(make_attributes(0, &attr));
    OCT_TRY_TO(done, check(dnnl_reorder_primitive_desc_create(&desc, from, context->engine, to,
                                                              context->engine, attr),
                           "reorder descriptor"));
    const dnnl_memory_desc_t *scratch =
        dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    *scratch_bytes = larger(*scratch_bytes, dnnl_memory_desc_get_size(scratch));
    OCT_TRY_TO(done, check(dnnl_primitive_create(&plan->reorder, desc), "reorder"));
    OCT_TRY_TO(done, oct__alloc_array((size_t)context->n_threads * N_REORDER, sizeof(dnnl_memory_t),
                                      "oneDNN memories", &memory));
    plan->reorder_memories = memory;
    const dnnl_memory_desc_t *const descs[N_REORDER] = {from, to, scratch};
    for (int i = 0; i < context->n_threads * N_REORDER; i++) {
        OCT_TRY_TO(done, make_memory(context, descs[i % N_REORDER], &plan->reorder_memories[i]));
    }
done:
    if (desc) {
        dnnl_primitive_desc_destroy(desc);
    }
    dnnl_primitive_attr_destroy(attr);
    return status;
}

/* Is it the layout that pack.c makes, and nothing else behind the weights than their sums? */
static int is_blocks(const dnnl_memory_desc_t *weights) {
    static const dnnl_dim_t sizes[] = {4, OCT_PACK_SIDE, 4}, of[] = {1, 0, 1};
    const dnnl_blocking_desc_t *blocks = &weights->format_desc.blocking;
    if (weights->ndims != 4 || weights->data_type != dnnl_s8 || weights->offset0 != 0 ||
        weights->format_kind != dnnl_blocked || blocks->inner_nblks != 3 ||
        memcmp(blocks->inner_blks, sizes, sizeof sizes) != 0 ||
        memcmp(blocks->inner_idxs, of, sizeof of) != 0) {
        return 0;
    }
    dnnl_dim_t step = OCT_PACK_SIDE * OCT_PACK_SIDE;
    for (int i = 3; i >= 0; i--) {
        if (blocks->strides[i] != step || weights->padded_dims[i] % (i < 2 ? OCT_PACK_SIDE : 1)) {
            return 0;
        }
        step *= i < 2 ? weights->padded_dims[i] / OCT_PACK_SIDE : weights->dims[i];
    }
    return weights->extra.flags == dnnl_memory_extra_flag_compensation_conv_asymmetric_src &&
           weights->extra.asymm_compensation_mask == 1;
}

/* Ours is [out][in][row][column] of the convolution; a deconvolution leads from its `out` to its `in`. */
static void choose_pack(struct plan *plan, const struct shape *shape) {
    const dnnl_dim_t *dims = shape->weights.dims, *steps = NULL;
    plan->packs = is_blocks(&shape->weights);
    if (plan->packs) {
        steps = shape->plain_weights.format_desc.blocking.strides;
        plan->pack = (struct oct__pack){
            .out = (int)dims[0],
            .in = (int)dims[1],
            .taps = (int)(dims[2] * dims[3]),
            .out_step = (size_t)steps[0],
            .in_step = (size_t)steps[1],
        };
    }
}

/* One of the two sizes of shards chooses the layout of the weights. The other may have no fast way
 * with it: then they change places. */
static oct_status make_parts(struct plan *plan, const struct oct__lane_form *form,
                             const struct oct__args *args, size_t *scratch_bytes,
                             struct shape *shape) {
    const int batch = operand(plan->wiring, args, X)->n;
    const int counts[2] = {batch < form->shard ? batch : form->shard,
                           batch > form->shard ? batch % form->shard : 0};
    oct_status status = OCT_STATUS_UNSUPPORTED;
    const int n_parts = counts[1] > 0 ? 2 : 1;
    for (int first = 0; first < n_parts && status == OCT_STATUS_UNSUPPORTED; first++) {
        release_parts(plan);
        memset(shape, 0, sizeof *shape);
        status = OCT_OK;
        for (int i = 0; i < n_parts && status == OCT_OK; i++) {
            const int p = i == 0 ? first : 1 - first;
            status = make_part(plan, args, counts[p], &plan->parts[p], scratch_bytes, shape);
        }
    }
    return status;
}

static oct_status make_primitives(struct plan *plan, const struct oct__lane_form *form,
                                  const struct oct__args *args, size_t *scratch_bytes) {
    struct shape shape;
    int threads_before = one_thread();
    oct_status status = make_parts(plan, form, args, scratch_bytes, &shape);
    if (status == OCT_OK) {
        choose_pack(plan, &shape);
        status = make_reorder(plan, &shape, scratch_bytes);
    }
    restore_threads(threads_before);
    return status;
}

static int is_converted(const struct plan *plan, const struct oct__args *args, int what) {
    const struct oct__tensor *t = operand(plan->wiring, args, what);
    return t && t->dtype != plan->dtype[what];
}

/* Shared scratch: packed weights of each node, or the gradients of each node and shard, bias after
 * them; then what is known of sums. A thread's: what the primitives ask for, the zero point, and X
 * and Y where they are converted. */
static void size_scratch(struct plan *plan, const struct oct__lane_form *form,
                         const struct oct__args *args, size_t scratch_bytes,
                         struct oct__plan *out) {
    const size_t nodes = (size_t)form->n_nodes;
    const size_t shards = (size_t)oct__shard_count(form, operand(plan->wiring, args, X)->n);
    const size_t pieces = plan->wiring->direction == WEIGHT_GRADIENT ? nodes * shards : nodes;
    plan->bias_bytes = round_up((size_t)operand(plan->wiring, args, Y)->c * sizeof(float));
    plan->flags_at = pieces * (plan->packed_bytes + plan->bias_bytes);
    plan->zero_at = round_up(scratch_bytes);
    out->shared_bytes = plan->flags_at;
    out->thread_bytes = plan->zero_at + round_up(sizeof(int32_t));
    for (int what = 0; what < N_OPERANDS; what++) {
        if (is_converted(plan, args, what)) {
            const struct oct__tensor *t = operand(plan->wiring, args, what);
            const size_t sample = oct__tensor_count(t) / (size_t)t->n;
            plan->converted_at[what] = out->thread_bytes;
            out->thread_bytes += round_up((size_t)plan->parts[0].count * sample *
                                          oct__dtype_bytes(plan->dtype[what]));
        }
    }
    if (plan->may_round) {
        struct oct__plan exact = {.handle = NULL};
        oct__exact_scratch(plan->op, form, args, &exact);
        out->shared_bytes += nodes * shards * sizeof(int32_t);
        out->shared_bytes = larger(out->shared_bytes, exact.shared_bytes);
        out->thread_bytes = larger(out->thread_bytes, exact.thread_bytes);
    }
}

/* Can a sum of integers pass 2^24? */
static int may_round(const struct plan *plan, const struct oct__args *args) {
    const int is_forward = plan->wiring->direction == FORWARD;
    const struct oct__conv_attr *conv = &args->attr.conv;
    const int64_t channels = operand(plan->wiring, args, is_forward ? X : Y)->c / conv->groups;
    const int64_t largest = is_forward ? 255 * 128 : 128 * 128; /* product */
    return channels * conv->kernel * conv->kernel * largest > LARGEST_EXACT;
}

/* `gradient`: the type of floats that a weight gradient is computed from. */
static oct_status make_plan(struct context *context, enum oct__op op,
                            const struct oct__lane_form *form, const struct oct__args *args,
                            enum oct__dtype gradient, struct oct__plan *out) {
    void *memory;
    size_t scratch_bytes = 0;
    OCT_TRY(oct__alloc(sizeof(struct plan), "oneDNN plan", &memory));
    struct plan *plan = memory;
    plan->context = context;
    plan->op = op;
    plan->wiring = &wirings[op];
    for (int what = 0; what < N_OPERANDS; what++) {
        const struct oct__tensor *t = operand(plan->wiring, args, what);
        plan->dtype[what] = t ? t->dtype : OCT_DTYPE_F32;
        plan->has_bias |= what == BIAS && t && t->n != 0;
    }
    plan->is_integer = plan->dtype[WEIGHTS] == OCT_DTYPE_S8;
    plan->may_round = plan->is_integer && !args->attr.conv.as_floats && may_round(plan, args);
    if (op == OCT_OP_CONV_U8_WGRAD) {
        plan->dtype[X] = plan->dtype[Y] = gradient;
    }
    oct_status status = make_primitives(plan, form, args, &scratch_bytes);
    if (status != OCT_OK) {
        onednn_release(plan);
        return status;
    }
    size_scratch(plan, form, args, scratch_bytes, out);
    if (plan->reorder && plan->wiring->direction == FORWARD && !plan->may_round) {
        out->kept_bytes = plan->packed_bytes;
        out->kept_operand = plan->wiring->place[WEIGHTS];
    }
    out->handle = plan;
    return OCT_OK;
}

/* Our own weight gradient is the faster one where bf16 is multiplied in vectors; AMX multiplies it in
 * tiles, which oneDNN's does. */
static int is_wgrad_ours(enum oct__op op, const struct oct__args *args) {
    return op == OCT_OP_CONV_U8_WGRAD && oct_cpu_level() == OCT_CPU_AVX512BF16 &&
           oct__wgrad_serves(args);
}

/* Without a handle, integer products are exact.c's, and weight gradients wgrad.c's. */
static oct_status onednn_prepare(void *pointer, enum oct__op op, const struct oct__lane_form *form,
                                 const struct oct__args *args, struct oct__plan *out) {
    const struct wiring *wiring = &wirings[op];
    const enum oct__dtype gradient = operand(wiring, args, Y)->dtype;
    const int is_integer = operand(wiring, args, WEIGHTS)->dtype == OCT_DTYPE_S8;
    if (is_wgrad_ours(op, args)) {
        oct__wgrad_scratch(form, args, out);
        return OCT_OK;
    }
    oct_status status = make_plan(pointer, op, form, args, gradient, out);
    if (status == OCT_STATUS_UNSUPPORTED && is_integer) {
        oct__exact_scratch(op, form, args, out);
        return OCT_OK;
    }
    if (status == OCT_STATUS_UNSUPPORTED && gradient == OCT_DTYPE_BF16) {
        status = make_plan(pointer, op, form, args, OCT_DTYPE_F32, out);
    }
    return status;
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

/* oneDNN clears the padding of packed weights whenever it is told where they are. Those that are
 * kept are read by several lanes at once, so keep_weights has told it. */
static oct_status point_weights(const struct oct__shard *s, dnnl_memory_t memory, void *at) {
    void *now = NULL;
    if (s->args->kept) {
        OCT_TRY(check(dnnl_memory_get_data_handle(memory, &now), "memory handle"));
    }
    return now && now == at ? OCT_OK : point(memory, at);
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

/* A node's weights as the primitive reads them. */
static void *packed_weights(const struct oct__shard *s, const struct plan *plan) {
    if (s->args->kept) {
        return (char *)s->args->kept + (size_t)s->node * s->args->kept_stride;
    }
    return plan->reorder ? piece(s, plan, s->node) : oct__node_at(s, plan->wiring->place[WEIGHTS]);
}

static oct_status pack_node(const struct oct__shard *s) {
    const struct plan *plan = s->args->handle;
    void *from = oct__node_at(s, plan->wiring->place[WEIGHTS]), *to = packed_weights(s, plan);
    if (plan->packs) {
        oct__pack_s8(&plan->pack, from, to);
        return OCT_OK;
    }
    return reorder(s, plan, from, to);
}

static const struct part *part_of(const struct plan *plan, int count) {
    return &plan->parts[plan->parts[1].count == count];
}

/* Of x's bytes as their grid has it; a gradient's are in excess 128. */
static float zero_point(const struct oct__shard *s, const struct wiring *wiring) {
    if (wiring->grid < 0) {
        return OCT_EXCESS;
    }
    const struct oct__grid *grid = oct__node_at(s, wiring->grid);
    return grid->zero;
}

/* The shard's X or Y in the primitive's type: the operand itself, or a copy in the thread's
 * scratch. */
static void *shard_operand(const struct oct__shard *s, const struct plan *plan, int what) {
    const struct oct__kernels *k = oct__kernels();
    const struct wiring *wiring = plan->wiring;
    const struct oct__tensor *t = operand(wiring, s->args, what);
    const size_t n = (size_t)s->count * (oct__tensor_count(t) / (size_t)t->n);
    void *from = oct__shard_at(s, wiring->place[what]);
    if (!is_converted(plan, s->args, what)) {
        return from;
    }
    void *to = (char *)oct__thread_scratch(s) + plan->converted_at[what];
    if (s->lane->bare) {
        return to;
    }
    if (t->dtype == OCT_DTYPE_BF16) {
        k->widen_bf16_f32(n, from, to);
    } else if (plan->dtype[what] == OCT_DTYPE_BF16) {
        k->center_u8_bf16(n, from, zero_point(s, wiring), to);
    } else {
        k->dequantize_u8_f32(n, from, 1.0F, zero_point(s, wiring), to);
    }
    return to;
}

static int shard_number(const struct oct__shard *s) {
    return s->node * oct__shard_count(&s->lane->form, s->args->t[0].n) + s->index;
}

static int32_t *rounded_flags(const struct oct__lane *lane, const struct plan *plan) {
    return (int32_t *)((char *)lane->shared_scratch + plan->flags_at);
}

/* Remembers whether one of the shard's sums may have been rounded. */
static void look_at_sums(const struct oct__shard *s, const struct plan *plan) {
    const int what = plan->wiring->direction == FORWARD ? Y : X;
    const struct oct__tensor *t = operand(plan->wiring, s->args, what);
    const size_t n = (size_t)s->count * (oct__tensor_count(t) / (size_t)t->n);
    int32_t range[2] = {0, 0};
    oct__kernels()->minmax_s32(n, oct__shard_at(s, plan->wiring->place[what]), range);
    rounded_flags(s->lane, plan)[shard_number(s)] =
        range[0] <= -LARGEST_EXACT || range[1] >= LARGEST_EXACT;
}

static oct_status product_shard(const struct oct__shard *s) {
    const struct plan *plan = s->args->handle;
    const struct wiring *wiring = plan->wiring;
    const struct part *part = part_of(plan, s->count);
    const int *name = argument_names[wiring->direction];
    dnnl_memory_t *m = &part->memories[(ptrdiff_t)thread_of(s) * N_MEMORIES];
    char *scratch = oct__thread_scratch(s);
    dnnl_exec_arg_t args[N_MEMORIES] = {{name[X], m[X]},
                                        {name[WEIGHTS], m[WEIGHTS]},
                                        {name[Y], m[Y]},
                                        {DNNL_ARG_SCRATCHPAD, m[SCRATCH]}};
    int n_args = 4;
    OCT_TRY(point(m[X], shard_operand(s, plan, X)));
    OCT_TRY(point(m[Y], shard_operand(s, plan, Y)));
    OCT_TRY(point(m[SCRATCH], scratch));
    if (wiring->direction == WEIGHT_GRADIENT) {
        char *gradients = piece(s, plan, shard_number(s));
        OCT_TRY(point(m[WEIGHTS], gradients));
        OCT_TRY(point(m[BIAS], gradients + plan->packed_bytes));
    } else {
        OCT_TRY(point_weights(s, m[WEIGHTS], packed_weights(s, plan)));
        if (plan->has_bias) {
            OCT_TRY(point(m[BIAS], oct__node_at(s, wiring->place[BIAS])));
        }
    }
    if (plan->has_bias) {
        args[n_args++] = (dnnl_exec_arg_t){name[BIAS], m[BIAS]};
    }
    if (plan->is_integer) {
        int32_t *zero = (int32_t *)(scratch + plan->zero_at);
        *zero = (int32_t)zero_point(s, wiring);
        OCT_TRY(point(m[ZERO], zero));
        args[n_args++] = (dnnl_exec_arg_t){DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC, m[ZERO]};
    }
    OCT_TRY(execute(plan, thread_of(s), part->primitive, n_args, args));
    if (plan->may_round && !s->lane->bare) {
        look_at_sums(s, plan);
    }
    return OCT_OK;
}

/* Sums the shards' gradients in place, in order, then brings them to our layout. Those of bytes
 * have counted x in steps: its scale comes last. */
static oct_status fold_node(const struct oct__shard *s) {
    const struct plan *plan = s->args->handle;
    const struct wiring *wiring = plan->wiring;
    const struct oct__kernels *k = oct__kernels();
    const int n_shards = oct__shard_count(&s->lane->form, s->args->t[0].n);
    const size_t stride = (plan->packed_bytes + plan->bias_bytes) / sizeof(float);
    const size_t packed = plan->packed_bytes / sizeof(float);
    const size_t count = oct__tensor_count(operand(wiring, s->args, WEIGHTS));
    float *dw = oct__node_at(s, wiring->place[WEIGHTS]);
    float *sum = (float *)piece(s, plan, s->node * n_shards);
    k->fold_f32(plan->reorder ? packed : count, (size_t)n_shards, stride, sum,
                plan->reorder ? sum : dw);
    if (plan->has_bias) {
        k->fold_f32((size_t)operand(wiring, s->args, BIAS)->c, (size_t)n_shards, stride,
                    sum + packed, oct__node_at(s, wiring->place[BIAS]));
    }
    if (plan->reorder) {
        OCT_TRY(reorder(s, plan, sum, dw));
    }
    if (wiring->grid >= 0) {
        const struct oct__grid *grid = oct__node_at(s, wiring->grid);
        for (size_t i = 0; i < count; i++) {
            dw[i] *= grid->scale;
        }
    }
    return OCT_OK;
}

static oct_status product(const struct oct__lane *lane, const struct oct__args *args) {
    const struct plan *plan = args->handle;
    const int is_gradient = plan->wiring->direction == WEIGHT_GRADIENT;
    if (!is_gradient && plan->reorder && !args->kept && !lane->bare) {
        OCT_TRY(oct__each_node(lane, args, pack_node));
    }
    OCT_TRY(oct__each_shard(lane, args, args->t[0].n, product_shard));
    if (is_gradient && !lane->bare) {
        OCT_TRY(oct__each_node(lane, args, fold_node));
    }
    return OCT_OK;
}

/* Runs alone: every thread is told where the weights are before any of them reads. */
static oct_status keep_weights(const struct oct__lane *lane, const struct oct__args *args) {
    const struct plan *plan = args->handle;
    for (int p = 0; p < 2; p++) {
        for (int thread = 0; plan->parts[p].count > 0 && thread < plan->context->n_threads;
             thread++) {
            OCT_TRY(point(plan->parts[p].memories[(ptrdiff_t)thread * N_MEMORIES + WEIGHTS],
                          args->kept));
        }
    }
    return oct__each_node(lane, args, pack_node);
}

/* --- products of integers -------------------------------------------------------------------- */

static int was_rounded(const struct oct__lane *lane, const struct oct__args *args) {
    const struct plan *plan = args->handle;
    const int n_flags = lane->form.n_nodes * oct__shard_count(&lane->form, args->t[0].n);
    int any = 0;
    for (int i = 0; plan->may_round && !lane->bare && i < n_flags; i++) {
        any |= rounded_flags(lane, plan)[i];
    }
    return any;
}

static oct_status integer_product(const struct oct__lane *lane, const struct oct__args *args,
                                  oct__op_fn *exact) {
    if (args->handle) {
        OCT_TRY(product(lane, args));
    }
    return !args->handle || was_rounded(lane, args) ? exact(lane, args) : OCT_OK;
}

static oct_status conv_u8(const struct oct__lane *lane, const struct oct__args *args) {
    return integer_product(lane, args, oct__exact_conv_u8);
}

static oct_status conv_s8_dgrad(const struct oct__lane *lane, const struct oct__args *args) {
    return integer_product(lane, args, oct__exact_conv_s8_dgrad);
}

static oct_status conv_u8_wgrad(const struct oct__lane *lane, const struct oct__args *args) {
    return args->handle ? product(lane, args) : oct__wgrad_conv_u8(lane, args);
}

static enum oct__dtype onednn_gradient(void) {
    return oct_cpu_level() >= OCT_CPU_AVX512BF16 ? OCT_DTYPE_BF16 : OCT_DTYPE_F32;
}

const struct oct__products oct__products_onednn = {
    .name = "oneDNN",
    .open = onednn_open,
    .close = onednn_close,
    .prepare = onednn_prepare,
    .release = onednn_release,
    .gradient = onednn_gradient,
    .keep = keep_weights,
    .run =
        {
            [OCT_OP_CONV] = product,
            [OCT_OP_CONV_DGRAD] = product,
            [OCT_OP_CONV_WGRAD] = product,
            [OCT_OP_CONV_U8] = conv_u8,
            [OCT_OP_CONV_S8_DGRAD] = conv_s8_dgrad,
            [OCT_OP_CONV_U8_WGRAD] = conv_u8_wgrad,
        },
};

#else

/* Built without oneDNN: the engine `cpu` uses the portable products, and nothing of this file. */
typedef int oct__onednn_absent;

#endif
