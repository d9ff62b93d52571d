/* SPDX-License-Identifier: Apache-2.0 */
/* bench_codec.c - times what happens to a row of parameters on its way to a neighbour.
 *
 * The best of several calls is reported, as for kernels: what disturbs a call makes it slower.
 */
#include "train/bench_codec.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "compress/compress.h"
#include "compress/wire.h"
#include "engine/engine.h"
#include "models/model.h"
#include "nn/graph.h"
#include "nn/layer.h"
#include "train/config.h"

/* Timed besides every compressor of the registry as it is by default. */
static const char *const extras[] = {"none:values=bf16", "topk:0.99,values=int8",
                                     "topk:0.997,values=int8", "randk:0.99,values=int8"};

/* One compressor on one engine. */
struct codec {
    const char *name;
    struct oct__engine *engine;
    struct oct__packet_form *form;
    void *from, *onto, *packet; /* the engine's: two rows, a packet */
    void *host;                 /* the packet, here */
    uint8_t *message;
    size_t capacity, length;
    struct oct__plan plans[2]; /* of PACK and FOLD */
    void *scratch;
};

static struct oct__args args_of(const struct codec *codec, enum oct__op op) {
    const struct oct__tensor row = {.at = op == OCT_OP_PACK ? codec->from : codec->onto,
                                    .dtype = OCT_DTYPE_F32,
                                    .n = 1,
                                    .h = 1,
                                    .w = 1,
                                    .c = (int)codec->form->n_elements};
    const struct oct__tensor packet = {.at = codec->packet,
                                       .dtype = OCT_DTYPE_U8,
                                       .n = 1,
                                       .h = 1,
                                       .w = 1,
                                       .c = (int)codec->form->n_bytes};
    struct oct__args args = {.attr.packet = {.form = codec->form, .factor = 0.25F},
                             .handle = codec->plans[op != OCT_OP_PACK].handle};
    args.t[op == OCT_OP_PACK ? 2 : 0] = packet;
    args.t[op == OCT_OP_PACK ? 0 : 1] = row;
    return args;
}

static const struct oct__lane_form one_node = {1, 1, 32};

static oct_status run_op(struct codec *codec, enum oct__op op) {
    const struct oct__plan *plan = &codec->plans[op != OCT_OP_PACK];
    const size_t shared = (plan->shared_bytes + 63) / 64 * 64;
    const struct oct__lane lane = {
        .engine = codec->engine,
        .form = one_node,
        .seed = 1,
        .shared_scratch = codec->scratch,
        .thread_scratch = (char *)codec->scratch + shared,
        .thread_scratch_bytes = plan->thread_bytes,
    };
    const struct oct__args args = args_of(codec, op);
    return oct__engine_run(&lane, op, &args);
}

static const struct oct__wire_header header = {.run = 1, .weight = 1.0};

static oct_status run_pack(struct codec *codec) {
    return run_op(codec, OCT_OP_PACK);
}

static oct_status run_fold(struct codec *codec) {
    return run_op(codec, OCT_OP_FOLD);
}

static oct_status run_encode(struct codec *codec) {
    return oct__wire_encode(codec->form, &header, codec->host, codec->message, codec->capacity,
                            &codec->length);
}

static oct_status run_decode(struct codec *codec) {
    struct oct__wire_header found;
    return oct__wire_decode(codec->form, codec->message, codec->length, &found, codec->host);
}

static const struct {
    const char *name;
    oct_status (*run)(struct codec *codec);
} variants[] = {
    {"pack", run_pack}, {"fold", run_fold}, {"encode", run_encode}, {"decode", run_decode}};

static oct_status time_variant(struct codec *codec, size_t variant, double seconds, double *ns) {
    const double end = oct__seconds() + seconds;
    double best = 1e300;
    for (int i = 0; i < 3 || oct__seconds() < end; i++) {
        const double start = oct__seconds();
        OCT_TRY(variants[variant].run(codec));
        OCT_TRY(codec->engine->finish ? codec->engine->finish(codec->engine) : OCT_OK);
        const double took = oct__seconds() - start;
        best = took < best ? took : best;
    }
    *ns = 1e9 * best;
    return OCT_OK;
}

/* Normal numbers of the size that parameters have; gaps stay zero. */
static oct_status fill_row(const struct codec *codec, void *at, uint32_t layer) {
    void *memory;
    OCT_TRY(oct__alloc_array(codec->form->n_elements, sizeof(float), "row", &memory));
    float *row = memory;
    const struct oct__stream stream = oct__stream(1, OCT_PURPOSE_TEST, 0, 0, layer);
    for (size_t i = 0; i < codec->form->n_parts; i++) {
        const struct oct__part *part = &codec->form->parts[i];
        for (size_t j = part->offset; j < part->offset + part->count; j++) {
            uint32_t words[4];
            double pair[2];
            oct__stream_block(&stream, (uint32_t)j, words);
            oct__normal_pair(words[0], words[1], pair);
            row[j] = (float)(0.05 * pair[0]);
        }
    }
    oct_status status =
        codec->engine->write(codec->engine, at, row, codec->form->n_elements * sizeof *row);
    oct__free(row);
    return status;
}

static oct_status codec_open(struct codec *codec) {
    struct oct__engine *engine = codec->engine;
    const size_t row_bytes = codec->form->n_elements * sizeof(float);
    size_t scratch = 64;
    OCT_TRY(engine->alloc(engine, row_bytes, "row", &codec->from));
    OCT_TRY(engine->alloc(engine, row_bytes, "row", &codec->onto));
    OCT_TRY(engine->alloc(engine, codec->form->n_bytes, "packet", &codec->packet));
    OCT_TRY(oct__alloc(codec->form->n_bytes, "packet", &codec->host));
    void *memory;
    codec->capacity = oct__wire_most(codec->form);
    OCT_TRY(oct__alloc(codec->capacity, "message", &memory));
    codec->message = memory;
    for (int i = 0; i < 2; i++) {
        const enum oct__op op = i == 0 ? OCT_OP_PACK : OCT_OP_FOLD;
        struct oct__args args = args_of(codec, op);
        args.t[0].at = args.t[1].at = args.t[2].at = NULL;
        OCT_TRY(oct__engine_prepare(engine, op, &one_node, &args, &codec->plans[i]));
        const size_t bytes = codec->plans[i].shared_bytes + codec->plans[i].thread_bytes + 128;
        scratch = bytes > scratch ? bytes : scratch;
    }
    OCT_TRY(engine->alloc(engine, scratch, "scratch", &codec->scratch));
    OCT_TRY(fill_row(codec, codec->from, 0));
    return fill_row(codec, codec->onto, 1);
}

static void codec_close(struct codec *codec) {
    struct oct__engine *engine = codec->engine;
    oct__engine_release(engine, OCT_OP_PACK, codec->plans[0].handle);
    oct__engine_release(engine, OCT_OP_FOLD, codec->plans[1].handle);
    void *const theirs[] = {codec->from, codec->onto, codec->packet, codec->scratch};
    for (size_t i = 0; i < OCT_COUNT_OF(theirs); i++) {
        if (theirs[i]) {
            engine->free(engine, theirs[i]);
        }
    }
    oct__free(codec->host);
    oct__free(codec->message);
    oct__packet_form_destroy(codec->form);
}

static oct_status time_codec(struct codec *codec, double seconds, oct__codec_row_fn *row,
                             void *context) {
    OCT_TRY(codec_open(codec));
    OCT_TRY(run_pack(codec));
    OCT_TRY(codec->engine->read(codec->engine, codec->host, codec->packet, codec->form->n_bytes));
    OCT_TRY(run_encode(codec));
    size_t n = 0;
    for (size_t i = 0; i < codec->form->n_parts; i++) {
        n += codec->form->parts[i].count;
    }
    const double floats = 4.0 * (double)n;
    for (size_t i = 0; i < OCT_COUNT_OF(variants); i++) {
        double ns;
        OCT_TRY(time_variant(codec, i, seconds, &ns));
        const struct oct__codec_time time = {
            .name = codec->name,
            .variant = variants[i].name,
            .ns = ns,
            .gb_per_s = floats / ns,
            .bytes = codec->length,
            .ratio = (OCT_WIRE_HEADER + floats) / (double)codec->length,
        };
        if (row(&time, context) != 0) {
            OCT_FAIL(CANCELLED, "codec benchmark: stopped at %s", codec->name);
        }
    }
    return OCT_OK;
}

/* The parameters of the configuration's model. */
static oct_status build(const struct oct_config *config, struct oct_graph *graph,
                        struct oct__span **spans) {
    const char *name = oct__config_norm(config);
    const struct oct_norm_kind *norm = oct__norm_find(name);
    if (!norm) {
        OCT_FAIL(NOT_FOUND, "norm '%s' is not known; octet info lists them", name);
    }
    OCT_TRY(oct__graph_init(graph, 32, 32, 3, 10, norm));
    OCT_TRY(oct__model_build(config->model, graph));
    OCT_TRY(oct__graph_check(graph));
    void *memory;
    OCT_TRY(oct__alloc_array(graph->params.n_items, sizeof **spans, "spans", &memory));
    *spans = memory;
    for (size_t i = 0; i < graph->params.n_items; i++) {
        (*spans)[i] =
            (struct oct__span){graph->params.items[i].offset, graph->params.items[i].count};
    }
    return OCT_OK;
}

oct_status oct__bench_codec(const struct oct_config *config, const char *only_or_null,
                            double seconds_each, oct__codec_row_fn *row, void *context) {
    struct oct_graph graph = {0};
    struct oct__span *spans = NULL;
    struct oct__engine *engine = NULL;
    oct_status status;
    OCT_TRY_TO(out, build(config, &graph, &spans));
    OCT_TRY_TO(out, oct__engine_open(config->engine, 1, &engine));
    int n_kinds = 0;
    while (oct__compressor_at(n_kinds)) {
        n_kinds++;
    }
    const int n = only_or_null ? 1 : n_kinds + (int)OCT_COUNT_OF(extras);
    for (int i = 0; i < n; i++) {
        struct codec codec = {
            .name = only_or_null  ? only_or_null
                    : i < n_kinds ? oct__compressor_at(i)->plugin.name
                                  : extras[i - n_kinds],
            .engine = engine,
        };
        struct oct__compression compression;
        OCT_TRY_TO(out, oct__compression_read(codec.name, &compression));
        OCT_TRY_TO(out, oct__packet_form_create(&compression, spans, graph.params.n_items,
                                                graph.params.n_elements, &codec.form));
        status = time_codec(&codec, seconds_each, row, context);
        codec_close(&codec);
        if (status != OCT_OK) {
            goto out;
        }
    }
out:
    oct__engine_close(engine);
    oct__free(spans);
    oct__graph_fini(&graph);
    return status;
}
