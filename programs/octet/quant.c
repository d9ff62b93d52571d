/* SPDX-License-Identifier: Apache-2.0 */
/* quant.c - quantizers as people look at them: a row each, or all of them in two numbers.
 *
 * The library's rows name layers that live as long as their trainer. A result is printed after
 * that, so a list here keeps copies.
 */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *kind_of(const struct cli_quantizer *quantizer) {
    return quantizer->is_gradient ? "gradient" : "value";
}

void cli_quantizers_add(struct cli_quantizers *list, const struct oct_quantizer *quantizer) {
    if (list->n == list->capacity) {
        int capacity = list->capacity ? 2 * list->capacity : 64;
        struct cli_quantizer *rows = cli_alloc((size_t)capacity * sizeof *rows);
        if (list->n > 0) {
            memcpy(rows, list->rows, (size_t)list->n * sizeof *rows);
        }
        free(list->rows);
        list->rows = rows;
        list->capacity = capacity;
    }
    size_t bytes = strlen(quantizer->layer) + 1;
    char *layer = cli_alloc(bytes);
    memcpy(layer, quantizer->layer, bytes);
    list->rows[list->n++] = (struct cli_quantizer){
        layer, quantizer->is_gradient, quantizer->clipped, quantizer->zero, quantizer->scale};
}

void cli_quantizers_read(struct cli_quantizers *list, const struct oct_trainer *trainer) {
    struct oct_quantizer quantizer;
    cli_quantizers_fini(list);
    for (int i = 0; oct_trainer_quantizer(trainer, i, &quantizer) == OCT_OK; i++) {
        cli_quantizers_add(list, &quantizer);
    }
}

struct cli_clips cli_quantizers_clips(const struct cli_quantizers *list, int is_gradient) {
    struct cli_clips out = {.layer = NULL};
    for (int i = 0; i < list->n; i++) {
        const struct cli_quantizer *row = &list->rows[i];
        if (!row->is_gradient != !is_gradient) {
            continue;
        }
        out.clipped += row->clipped;
        out.zero += row->zero;
        if (out.n++ == 0 || row->clipped > out.worst) {
            out.worst = row->clipped;
            out.layer = row->layer;
        }
    }
    double n = out.n > 0 ? out.n : (double)NAN;
    out.clipped /= n;
    out.zero /= n;
    return out;
}

void cli_quantizers_print(const struct cli_quantizers *list, FILE *out) {
    struct cli_table table;
    cli_table_init(&table, "quantizer|of its|>clipped|>zero|>scale");
    for (int i = 0; i < list->n; i++) {
        const struct cli_quantizer *row = &list->rows[i];
        cli_table_cell(&table, "%s", row->layer);
        cli_table_cell(&table, "%s", kind_of(row));
        cli_table_cell(&table, "%s", cli_percent(row->clipped, 2).text);
        cli_table_cell(&table, "%s", cli_percent(row->zero, 1).text);
        cli_table_cell(&table, "%.3g", row->scale);
    }
    cli_table_print(&table, out);
    cli_table_fini(&table);
}

void cli_quantizers_json(const struct cli_quantizers *list, const char *recipe,
                         struct cli_json *array) {
    for (int i = 0; i < list->n; i++) {
        const struct cli_quantizer *row = &list->rows[i];
        struct cli_json *object = cli_json_object();
        if (recipe) {
            cli_json_text(object, "recipe", recipe);
        }
        cli_json_text(object, "layer", row->layer);
        cli_json_text(object, "kind", kind_of(row));
        cli_json_real(object, "clipped", row->clipped);
        cli_json_real(object, "zero", row->zero);
        cli_json_real(object, "scale", row->scale);
        cli_json_add(array, object);
    }
}

void cli_quantizers_fini(struct cli_quantizers *list) {
    for (int i = 0; i < list->n; i++) {
        free(list->rows[i].layer);
    }
    free(list->rows);
    memset(list, 0, sizeof *list);
}
