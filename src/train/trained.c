/* SPDX-License-Identifier: Apache-2.0 */
/* trained.c - a model file put to use: the public side of inference.h. */
#include <string.h>

#include <octet/model.h>

#include "base/alloc.h"
#include "base/parallel.h"
#include "train/inference.h"
#include "train/model.h"
#include "train/network.h"
#include "train/safetensors.h"

#define BATCH 64
#define BATCH_MOST 65536

struct oct_model {
    struct oct_config *config;
    struct oct_graph graph;
    struct oct_dataset *slots; /* [batch] images on their way in */
    struct oct__engine *engine;
    struct oct__resident resident;
    struct oct__inference *inference;
    void *params, *stats; /* in the engine's memory */
    uint32_t *rows;       /* [batch] */
    float *logits;        /* [batch][class] */
    int batch, n_threads;
};

static oct_status set_options(struct oct_model *model, const struct oct_model_options *options) {
    model->batch = options && options->batch ? options->batch : BATCH;
    model->n_threads = options && options->n_threads ? options->n_threads : oct__parallel_width();
    if (model->batch < 1 || model->batch > BATCH_MOST) {
        OCT_FAIL(INVALID, "a model: batch is %d, expected 1 to %d", model->batch, BATCH_MOST);
    }
    if (model->n_threads < 1) {
        OCT_FAIL(INVALID, "a model: %d threads, expected 1 or more", model->n_threads);
    }
    model->n_threads = model->n_threads < OCT_PARALLEL_MOST ? model->n_threads : OCT_PARALLEL_MOST;
    return options && options->engine ? oct_config_set(model->config, "engine", options->engine)
                                      : OCT_OK;
}

static oct_status make_slots(struct oct_model *model, const struct oct_dataset *shape) {
    OCT_TRY(oct__dataset_alloc("images", model->batch, shape->height, shape->width, shape->channels,
                               shape->n_classes, &model->slots));
    memcpy(model->slots->mean, shape->mean, sizeof shape->mean);
    memcpy(model->slots->deviation, shape->deviation, sizeof shape->deviation);
    void *memory;
    OCT_TRY(oct__alloc_array((size_t)model->batch, sizeof *model->rows, "rows", &memory));
    model->rows = memory;
    OCT_TRY(oct__alloc_array((size_t)model->batch * (size_t)shape->n_classes, sizeof *model->logits,
                             "logits", &memory));
    model->logits = memory;
    return OCT_OK;
}

static oct_status place(struct oct__engine *engine, const struct oct__row *row, const float *values,
                        const char *what, void **at) {
    const size_t bytes = row->n_elements * sizeof *values;
    OCT_TRY(engine->alloc(engine, bytes > 0 ? bytes : sizeof *values, what, at));
    return bytes > 0 ? engine->write(engine, *at, values, bytes) : OCT_OK;
}

/* The file's numbers into the engine's memory. */
static oct_status take_numbers(struct oct_model *model, const char *path, const uint8_t *bytes,
                               size_t n_bytes) {
    struct oct__whole whole;
    OCT_TRY(oct__whole_init(&model->graph, &whole));
    oct_status status = oct__model_read(path, bytes, n_bytes, &whole.row, whole.values);
    if (status == OCT_OK) {
        status =
            place(model->engine, &model->graph.params, whole.values, "parameters", &model->params);
    }
    if (status == OCT_OK) {
        status =
            place(model->engine, &model->graph.stats, whole.stats, "statistics", &model->stats);
    }
    oct__whole_fini(&whole);
    return status;
}

static oct_status make_inference(struct oct_model *model) {
    const struct oct__inference_config config = {
        .engine = model->engine,
        .graph = &model->graph,
        .data = &model->resident,
        .batch = model->batch,
        .n_threads = model->n_threads,
    };
    OCT_TRY(oct__resident_open(model->engine, model->slots, model->slots, &model->resident));
    OCT_TRY(oct__inference_create(&config, &model->inference));
    return oct__inference_set(model->inference, model->params, model->stats);
}

static oct_status make(struct oct_model *model, const struct oct_model_options *options,
                       const char *path, const uint8_t *bytes, size_t n_bytes) {
    struct oct_dataset shape = {.name = NULL};
    OCT_TRY(oct_config_create(&model->config));
    OCT_TRY(set_options(model, options));
    OCT_TRY(oct__model_recall(path, bytes, n_bytes, model->config, &shape));
    oct_status status = oct__config_check_precision(model->config);
    if (status != OCT_OK) {
        return oct__fail_within(status, "%s: ", path);
    }
    OCT_TRY(make_slots(model, &shape));
    OCT_TRY(oct__network_begin(model->config, &shape, &model->graph));
    OCT_TRY(oct__network_build(model->config, &model->graph));
    OCT_TRY(oct__engine_open(oct__network_engine(model->config), model->n_threads, &model->engine));
    OCT_TRY(take_numbers(model, path, bytes, n_bytes));
    return make_inference(model);
}

oct_status oct_model_open(const char *path, const struct oct_model_options *options,
                          struct oct_model **out) {
    if (!path || !out) {
        OCT_FAIL(INVALID, "opening a model needs a file name and a place to be returned");
    }
    void *memory;
    uint8_t *bytes;
    size_t n_bytes;
    OCT_TRY(oct__alloc(sizeof(struct oct_model), "model", &memory));
    struct oct_model *model = memory;
    oct_status status = oct__safetensors_read(path, &bytes, &n_bytes);
    if (status == OCT_OK) {
        status = make(model, options, path, bytes, n_bytes);
        oct__free(bytes);
    }
    if (status != OCT_OK) {
        oct_model_close(model);
        return status;
    }
    *out = model;
    return OCT_OK;
}

void oct_model_close(struct oct_model *model) {
    if (!model) {
        return;
    }
    oct__inference_destroy(model->inference);
    if (model->engine) {
        oct__resident_close(model->engine, &model->resident);
        oct__engine_free(model->engine, model->params);
        oct__engine_free(model->engine, model->stats);
        oct__engine_close(model->engine);
    }
    oct__graph_fini(&model->graph);
    oct_dataset_close(model->slots);
    oct_config_destroy(model->config);
    oct__free(model->rows);
    oct__free(model->logits);
    oct__free(model);
}

oct_status oct_model_info(const struct oct_model *model, struct oct_model_info *out) {
    if (!model || !out) {
        OCT_FAIL(INVALID, "information needs a model and a place to be returned");
    }
    const struct oct_graph *graph = &model->graph;
    *out = (struct oct_model_info){
        .height = model->slots->height,
        .width = model->slots->width,
        .channels = model->slots->channels,
        .n_classes = graph->n_classes,
        .model = model->config->model,
        .norm = model->config->norm,
        .precision = model->config->precision,
        .n_parameters = (int64_t)oct__row_count(&graph->params),
        .batch = model->batch,
        .memory_bytes = (graph->params.n_elements + graph->stats.n_elements) * sizeof(float) +
                        model->inference->workspace_bytes +
                        (uint64_t)model->batch * oct__sample_bytes(model->slots),
    };
    memcpy(out->mean, model->slots->mean, sizeof out->mean);
    memcpy(out->deviation, model->slots->deviation, sizeof out->deviation);
    return OCT_OK;
}

/* No more than a batch. */
static oct_status run_some(struct oct_model *model, const uint8_t *images, int n, float *logits) {
    struct oct__engine *engine = model->engine;
    const size_t bytes = (size_t)n * oct__sample_bytes(model->slots);
    const size_t classes = (size_t)model->graph.n_classes;
    memcpy(model->slots->images, images, bytes);
    if (!model->resident.is_borrowed) {
        OCT_TRY(engine->write(engine, model->resident.images, images, bytes));
    }
    for (int i = 0; i < model->batch; i++) {
        model->rows[i] = i < n ? (uint32_t)i : 0;
    }
    OCT_TRY(oct__inference_some(model->inference, model->rows, n, model->logits));
    memcpy(logits, model->logits, (size_t)n * classes * sizeof *logits);
    return OCT_OK;
}

oct_status oct_model_run(struct oct_model *model, const uint8_t *images, int64_t n, float *logits) {
    if (!model || (n > 0 && (!images || !logits)) || n < 0) {
        OCT_FAIL(INVALID, "running a model needs one, images and a place for their logits");
    }
    const size_t bytes = oct__sample_bytes(model->slots), classes = (size_t)model->graph.n_classes;
    for (int64_t done = 0; done < n; done += model->batch) {
        const int some = n - done < model->batch ? (int)(n - done) : model->batch;
        OCT_TRY(
            run_some(model, images + (size_t)done * bytes, some, logits + (size_t)done * classes));
    }
    return OCT_OK;
}
