/* SPDX-License-Identifier: Apache-2.0 */
/* compare.c - gradients in int8 beside gradients in fp32, at the same parameters and batches. */
#include "train/compare.h"

#include <math.h>

#include "base/alloc.h"
#include "train/config.h"
#include "train/trainer.h"

/* A trainer of one node for `precision`, everything else as `config` says. */
static oct_status open_trainer(const struct oct_config *config, const char *precision,
                               const char *recipe, struct oct_trainer **out) {
    struct oct_config *own;
    oct_status status;
    OCT_TRY(oct_config_recast(config, precision, &own));
    if (!config->norm[0]) {
        OCT_TRY_TO(out, oct_config_set(own, "norm", "range-evonorm")); /* in both precisions */
    }
    if (recipe) {
        OCT_TRY_TO(out, oct_config_set(own, "precision-recipe", recipe));
    }
    OCT_TRY_TO(out, oct_config_set(own, "nodes", "1"));
    OCT_TRY_TO(out, oct_config_set(own, "algorithm", "none"));
    OCT_TRY_TO(out, oct_config_set(own, "momentum", "local"));
    status = oct_trainer_create(own, NULL, out);
out:
    oct_config_destroy(own);
    return status;
}

/* The gradients of `n_batches` batches from step `step` on, one row after another. */
static oct_status gradients(struct oct_trainer *trainer, int64_t step, int n_batches, float *rows) {
    struct oct__cohort *cohort = trainer->cohort;
    const size_t n = trainer->graph.params.n_elements;
    for (int b = 0; b < n_batches; b++) {
        struct oct__node_step result;
        const struct oct__step now = {.number = (uint32_t)(step + b), .watch = 1};
        OCT_TRY(oct__cohort_step(cohort, &now, &result));
        OCT_TRY(cohort->engine->read(cohort->engine, rows + (size_t)b * n,
                                     cohort->crew->lanes[0].grad, n * sizeof *rows));
    }
    return OCT_OK;
}

/* Sums over one parameter, or over all. */
struct distance {
    double apart, length;            /* sum |g8 - g|^2, sum |g|^2 over the batches */
    double product, square8, square; /* of the gradients summed over the batches */
};

static void add_element(struct distance *d, const float *g, const float *g8, size_t n_elements,
                        int n_batches) {
    double sum = 0, sum8 = 0;
    for (int b = 0; b < n_batches; b++, g += n_elements, g8 += n_elements) {
        double a = (double)*g, b8 = (double)*g8;
        d->apart += (b8 - a) * (b8 - a);
        d->length += a * a;
        sum += a;
        sum8 += b8;
    }
    d->product += sum * sum8;
    d->square += sum * sum;
    d->square8 += sum8 * sum8;
}

static struct oct__compare_row row_of(const struct distance *d, const char *recipe,
                                      const char *parameter) {
    double lengths = sqrt(d->square) * sqrt(d->square8);
    return (struct oct__compare_row){
        .recipe = recipe,
        .parameter = parameter,
        .error = d->length > 0 ? sqrt(d->apart / d->length) : 0,
        .cosine = lengths > 0 ? d->product / lengths : (double)NAN,
    };
}

/* Returns nonzero when the caller wants no more. */
static int report_gradients(const struct oct__row *params, const char *recipe, const float *g,
                            const float *g8, int n_batches, oct__compare_fn *row, void *context) {
    struct distance all = {0};
    for (size_t p = 0; p < params->n_items; p++) {
        const struct oct__param *param = &params->items[p];
        struct distance own = {0};
        for (size_t i = param->offset; i < param->offset + param->count; i++) {
            add_element(&own, g + i, g8 + i, params->n_elements, n_batches);
        }
        struct oct__compare_row out = row_of(&own, recipe, param->name);
        if (row(&out, NULL, context)) {
            return 1;
        }
        all.apart += own.apart;
        all.length += own.length;
        all.product += own.product;
        all.square += own.square;
        all.square8 += own.square8;
    }
    struct oct__compare_row out = row_of(&all, recipe, NULL);
    return row(&out, NULL, context);
}

static int report_quantizers(const struct oct_trainer *trainer, const char *recipe,
                             oct__compare_fn *row, void *context) {
    const struct oct__program *program = trainer->cohort->crew->step_program;
    for (size_t w = 0; w < program->n_watches; w++) {
        const float *found = trainer->cohort->watched + 4 * w;
        struct oct__compare_quantizer out = {
            .recipe = recipe,
            .layer = trainer->graph.layers[program->watches[w].layer].name,
            .is_gradient = program->watches[w].is_gradient,
            .clipped = oct__watch_clips(program, &program->watches[w]) ? (double)found[0] : 0,
            .zero = (double)found[1],
            .scale = (double)found[2],
        };
        if (row(NULL, &out, context)) {
            return 1;
        }
    }
    return 0;
}

oct_status oct__compare_gradients(const struct oct_config *config, int n_recipes,
                                  const char *const *recipes, int n_steps, int n_batches,
                                  oct__compare_fn *row, void *context) {
    struct oct_trainer *exact = NULL, *trainer = NULL;
    oct_status status;
    void *memory = NULL;
    float *params = NULL;
    double distance;
    OCT_TRY(open_trainer(config, "fp32", NULL, &exact));
    const size_t n = exact->graph.params.n_elements;
    OCT_TRY_TO(done, oct__alloc_array(((size_t)n_batches * 2 + 1) * n, sizeof *params,
                                      "gradients to compare", &memory));
    params = memory;
    float *g = params + n, *g8 = g + (size_t)n_batches * n;
    for (int i = 0; i < n_steps; i++) {
        OCT_TRY_TO(done, oct__trainer_step(exact));
    }
    OCT_TRY_TO(done, oct__cohort_average(exact->cohort, NULL, NULL, &distance));
    OCT_TRY_TO(done, oct__cohort_read_average(exact->cohort, OCT_HOME_PARAM, params));
    OCT_TRY_TO(done, gradients(exact, n_steps, n_batches, g));
    status = OCT_OK;
    for (int i = 0; i < n_recipes; i++) {
        OCT_TRY_TO(done, open_trainer(config, "int8", recipes[i], &trainer));
        OCT_TRY_TO(done, oct__cohort_write(trainer->cohort, OCT_HOME_PARAM, params));
        OCT_TRY_TO(done, gradients(trainer, n_steps, n_batches, g8));
        if (report_gradients(&exact->graph.params, recipes[i], g, g8, n_batches, row, context) ||
            report_quantizers(trainer, recipes[i], row, context)) {
            break;
        }
        oct_trainer_destroy(trainer);
        trainer = NULL;
    }
done:
    oct_trainer_destroy(trainer);
    oct_trainer_destroy(exact);
    oct__free(params);
    return status;
}
