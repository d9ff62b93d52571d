/* SPDX-License-Identifier: Apache-2.0 */
/* bench_profile.c - octet bench step --profile: the time of a step by kind of work and by layer.
 *
 * Two tables and a sentence answer what to make faster next; the hundreds of calls behind them are
 * for --verbose and for programs. Where the engine knows its ceilings, all of them have the same
 * columns: time, what has to be moved and computed, how long that takes at least, and the gap.
 */
#include "bench_step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *title(enum oct__work work) {
    static const char *const titles[OCT_WORK_COUNT] = {
        [OCT_WORK_FORWARD] = "forward products",
        [OCT_WORK_DATA_GRADIENT] = "data-gradient products",
        [OCT_WORK_WEIGHT_GRADIENT] = "weight-gradient products",
        [OCT_WORK_NORM] = "norms, forward",
        [OCT_WORK_NORM_GRADIENT] = "norms, gradient",
        [OCT_WORK_VALUES] = "quantizers of values",
        [OCT_WORK_GRADIENTS] = "quantizers of gradients",
        [OCT_WORK_SUM] = "sums of layers",
        [OCT_WORK_PARAMETERS] = "parameters to bytes",
        [OCT_WORK_UPDATE] = "update",
        [OCT_WORK_INPUT] = "input",
        [OCT_WORK_REST] = "ReLU, pooling, loss",
    };
    return titles[work];
}

static double ratio(double a, double b) {
    return b > 0 ? a / b : (double)NAN;
}

/* Billions of multiply-adds a second. */
static double pace(const struct oct__profile_sum *sum) {
    return sum->madds > 0 ? ratio(1e-6 * (double)sum->madds, sum->ms) : (double)NAN;
}

/* How many times the floor something takes. */
static double gap_of(const struct oct__profile_sum *sum) {
    return ratio(sum->ms, sum->floor_ms);
}

static double operations(const struct oct__profile_sum *sum) {
    return 2.0 * (double)sum->madds;
}

/* --- text ------------------------------------------------------------------------------------ */

#define FLOOR_HEADS "|>ms|>share|>MB|>bytes ms|>Gop|>ops ms|>floor ms|>gap"
#define CALL_HEADS "|>us|>MB|>bytes us|>Gop|>ops us|>floor us|>gap"

/* Cells for what follows the time in both: `unit` of them are a millisecond. Of what is no call only its
 * time is known. */
static void bound_cells(struct cli_table *table, const struct oct__profile_sum *sum, double unit,
                        int digits) {
    const int is_call = sum->n_calls > 0, is_product = sum->madds > 0;
    const struct {
        double value;
        int is_shown, digits;
    } cells[] = {
        {1e-6 * (double)sum->bytes, is_call, 1}, {unit * sum->bytes_ms, is_call, digits},
        {1e-9 * operations(sum), is_product, 2}, {unit * sum->operations_ms, is_product, digits},
        {unit * sum->floor_ms, is_call, digits}, {gap_of(sum), is_call, 1},
    };
    for (size_t i = 0; i < CLI_COUNT_OF(cells); i++) {
        cli_table_cell(table, "%s",
                       cells[i].is_shown ? cli_decimals(cells[i].value, cells[i].digits).text : "");
    }
}

static void floor_cells(struct cli_table *table, const struct oct__profile_sum *sum,
                        double step_ms) {
    cli_table_cell(table, "%s", cli_decimals(sum->ms, 3).text);
    cli_table_cell(table, "%s", cli_percent(ratio(sum->ms, step_ms), 1).text);
    bound_cells(table, sum, 1, 3);
}

static void kind_cells(struct cli_table *table, const char *name,
                       const struct oct__profile_sum *sum,
                       const struct oct__step_profile *profile) {
    const double step_ms = profile->step_ms;
    cli_table_cell(table, "%s", name);
    if (oct__profile_has_ceilings(profile)) {
        floor_cells(table, sum, step_ms);
        return;
    }
    cli_table_cell(table, "%s", cli_decimals(sum->ms, 2).text);
    cli_table_cell(table, "%s", cli_percent(ratio(sum->ms, step_ms), 1).text);
    if (sum->madds > 0) {
        cli_table_cell(table, "%s", cli_decimals(sum->floor_ms, 2).text);
        cli_table_cell(table, "%s", cli_percent(ratio(sum->floor_ms, sum->ms), 0).text);
        cli_table_cell(table, "%s", cli_decimals(pace(sum), 1).text);
    } else {
        for (int i = 0; i < 3; i++) {
            cli_table_cell(table, "%s", "");
        }
    }
}

static struct oct__profile_sum sum_of(const struct oct__profile_sum *kinds, int from, int to) {
    struct oct__profile_sum sum = {0};
    for (int i = from; i < to; i++) {
        oct__profile_join(&sum, &kinds[i]);
    }
    return sum;
}

/* More than medians differ by on a machine of one's own. */
static int is_disturbed(const struct oct__step_profile *profile) {
    return oct__profile_disturbed(profile) > 0.03 * profile->step_ms;
}

static void print_kinds(const struct oct__step_profile *profile,
                        const struct oct__profile_sum *kinds) {
    static const struct {
        const char *name;
        int from, to;
    } halves[] = {{"all products", 0, OCT_WORK_PRODUCTS},
                  {"all element-wise", OCT_WORK_PRODUCTS, OCT_WORK_COUNT}};
    struct cli_table table;
    cli_table_init(&table, oct__profile_has_ceilings(profile)
                               ? "work" FLOOR_HEADS
                               : "work|>ms|>share|>floor ms|>of floor|>G madd/s");
    for (size_t h = 0; h < CLI_COUNT_OF(halves); h++) {
        for (int i = halves[h].from; i < halves[h].to; i++) {
            if (kinds[i].n_calls > 0) {
                kind_cells(&table, title((enum oct__work)i), &kinds[i], profile);
            }
        }
        const struct oct__profile_sum sum = sum_of(kinds, halves[h].from, halves[h].to);
        kind_cells(&table, halves[h].name, &sum, profile);
    }
    if (oct__profile_has_ceilings(profile)) {
        const struct oct__profile_sum sum = sum_of(kinds, 0, OCT_WORK_COUNT);
        kind_cells(&table, "all calls", &sum, profile);
    }
    if (ratio(profile->gossip_ms, profile->step_ms) >= 0.0005) { /* else nobody talks */
        kind_cells(&table, "gossip", &(struct oct__profile_sum){.ms = profile->gossip_ms}, profile);
    }
    kind_cells(&table, "around the calls", &(struct oct__profile_sum){.ms = profile->around_ms},
               profile);
    if (is_disturbed(profile)) {
        kind_cells(&table, "disturbance",
                   &(struct oct__profile_sum){.ms = oct__profile_disturbed(profile)}, profile);
    }
    kind_cells(&table, "step", &(struct oct__profile_sum){.ms = profile->step_ms}, profile);
    cli_table_print(&table, stdout);
    cli_table_fini(&table);
}

static void layer_cells(struct cli_table *table, const char *indent, const char *name,
                        const struct oct__profile_layer *layer,
                        const struct oct__step_profile *profile) {
    const double step_ms = profile->step_ms;
    cli_table_cell(table, "%s%s", indent, name);
    if (oct__profile_has_ceilings(profile)) {
        floor_cells(table, &layer->all, step_ms);
        return;
    }
    for (int i = 0; i < OCT_WORK_PRODUCTS; i++) {
        cli_table_cell(table, "%s",
                       layer->product_ms[i] > 0 ? cli_decimals(layer->product_ms[i], 2).text : "");
    }
    cli_table_cell(table, "%s",
                   layer->element_ms > 0 ? cli_decimals(layer->element_ms, 2).text : "");
    cli_table_cell(table, "%s", cli_decimals(layer->all.ms, 2).text);
    cli_table_cell(table, "%s", cli_percent(ratio(layer->all.ms, step_ms), 1).text);
}

/* Layers that belong to one stage: "stage1.block0.conv1" and those after it that begin with
 * "stage1." too. */
static size_t stage_of(const struct oct__profile_layer *layers, size_t n, size_t *prefix) {
    const char *dot = strchr(layers[0].name, '.');
    size_t length = 1;
    *prefix = dot ? (size_t)(dot - layers[0].name) + 1 : 0;
    while (dot && length < n && strncmp(layers[length].name, layers[0].name, *prefix) == 0) {
        length++;
    }
    return length;
}

/* A line for each layer, and above those of a stage their sum. */
static void print_layers(const struct oct__step_profile *profile) {
    struct oct__profile_layer *layers = cli_alloc((profile->n_calls + 1) * sizeof *layers);
    const size_t n = oct__profile_layers(profile, layers);
    struct cli_table table;
    cli_table_init(&table, oct__profile_has_ceilings(profile)
                               ? "layer" FLOOR_HEADS
                               : "layer|>forward|>data grad|>weight grad|>element-wise|>ms|>share");
    for (size_t i = 0; i < n;) {
        size_t prefix, length = stage_of(layers + i, n - i, &prefix);
        if (length == 1) {
            layer_cells(&table, "", layers[i].name, &layers[i], profile);
            i++;
            continue;
        }
        struct oct__profile_layer stage = {0};
        char name[64];
        for (size_t j = i; j < i + length; j++) {
            for (int k = 0; k < OCT_WORK_PRODUCTS; k++) {
                stage.product_ms[k] += layers[j].product_ms[k];
            }
            stage.element_ms += layers[j].element_ms;
            oct__profile_join(&stage.all, &layers[j].all);
        }
        snprintf(name, sizeof name, "%.*s", (int)(prefix - 1), layers[i].name);
        layer_cells(&table, "", name, &stage, profile);
        for (size_t end = i + length; i < end; i++) {
            layer_cells(&table, "  ", layers[i].name + prefix, &layers[i], profile);
        }
    }
    cli_table_print(&table, stdout);
    cli_table_fini(&table);
    free(layers);
}

static void print_calls(const struct oct__step_profile *profile) {
    struct cli_table table;
    const int has_ceilings = oct__profile_has_ceilings(profile);
    cli_table_init(&table, has_ceilings ? "layer|operation" CALL_HEADS
                                        : "layer|operation|>ms|>share|>floor ms|");
    for (size_t i = 0; i < profile->n_calls; i++) {
        const struct oct__profile_call *call = &profile->calls[i];
        cli_table_cell(&table, "%s", call->layer);
        cli_table_cell(&table, "%s", call->op);
        if (has_ceilings) {
            struct oct__profile_sum sum = {0};
            oct__profile_add(&sum, call);
            cli_table_cell(&table, "%s", cli_decimals(1e3 * call->ms, 1).text);
            bound_cells(&table, &sum, 1e3, 1);
            continue;
        }
        cli_table_cell(&table, "%s", cli_decimals(call->ms, 3).text);
        cli_table_cell(&table, "%s", cli_percent(ratio(call->ms, profile->step_ms), 1).text);
        cli_table_cell(&table, "%s", call->madds > 0 ? cli_decimals(call->floor_ms, 3).text : "");
        cli_table_cell(&table, "%s", title(call->work));
    }
    cli_table_print(&table, stdout);
    cli_table_fini(&table);
}

static void print_sentence(const struct bench_row *row, const struct oct__profile_sum *kinds) {
    const struct oct__step_profile *profile = &row->profile;
    const struct oct__profile_sum products = sum_of(kinds, 0, OCT_WORK_PRODUCTS);
    const struct oct__profile_sum elements = sum_of(kinds, OCT_WORK_PRODUCTS, OCT_WORK_COUNT);
    double gap;
    const enum oct__work worst = oct__profile_gap(kinds, &gap);
    char text[640], disturbance[64] = "";
    if (is_disturbed(profile)) {
        snprintf(disturbance, sizeof disturbance, " + disturbance %s",
                 cli_decimals(oct__profile_disturbed(profile), 2).text);
    }
    snprintf(
        text, sizeof text,
        "%s: a step of %s ms = products %s + element-wise %s + around them %s%s ms; its floor, "
        "the products alone, is %s ms (%s of the step). The largest gap: %s, %s ms%s (%s of "
        "the step).",
        row->precision, cli_decimals(profile->step_ms, 2).text, cli_decimals(products.ms, 2).text,
        cli_decimals(elements.ms, 2).text,
        cli_decimals(profile->around_ms + profile->gossip_ms, 2).text, disturbance,
        cli_decimals(products.floor_ms, 2).text,
        cli_percent(ratio(products.floor_ms, profile->step_ms), 0).text, title(worst),
        cli_decimals(gap, 2).text, kinds[worst].madds > 0 ? " above their floor" : "",
        cli_percent(ratio(gap, profile->step_ms), 0).text);
    const int width = cli_width(stdout, 100);
    cli_wrap(stdout, text, 0, 0, width < 100 ? width : 100);
}

/* The same where every call has a floor. */
static void print_floor_sentence(const struct bench_row *row,
                                 const struct oct__profile_sum *kinds) {
    const struct oct__step_profile *profile = &row->profile;
    const struct oct__profile_sum all = sum_of(kinds, 0, OCT_WORK_COUNT);
    double gap;
    const enum oct__work worst = oct__profile_gap(kinds, &gap);
    char text[640];
    snprintf(text, sizeof text,
             "%s: a step of %s ms. Its calls, timed one by one, take %s ms; their floors add up to "
             "%s ms (gap %s; %s of the step). The largest gap: %s, %s ms above their floor (%s of "
             "the step).",
             row->precision, cli_decimals(profile->step_ms, 3).text, cli_decimals(all.ms, 3).text,
             cli_decimals(all.floor_ms, 3).text, cli_decimals(gap_of(&all), 1).text,
             cli_percent(ratio(all.floor_ms, profile->step_ms), 0).text, title(worst),
             cli_decimals(gap, 3).text, cli_percent(ratio(gap, profile->step_ms), 0).text);
    const int width = cli_width(stdout, 100);
    cli_wrap(stdout, text, 0, 0, width < 100 ? width : 100);
}

static void print_ceilings(const struct oct__ceilings *ceilings) {
    const double *rates = ceilings->operations_per_s;
    char text[320];
    snprintf(text, sizeof text,
             "ceilings, measured: memory %s TB/s; products of bytes %s Top/s, of bf16 %s, of f32 "
             "%s; an empty launch %s us",
             cli_decimals(1e-12 * ceilings->bytes_per_s, 2).text,
             cli_decimals(1e-12 * rates[OCT_UNIT_S8], 1).text,
             cli_decimals(1e-12 * rates[OCT_UNIT_BF16], 1).text,
             cli_decimals(1e-12 * rates[OCT_UNIT_F32], 1).text,
             cli_decimals(1e6 * ceilings->launch_s, 1).text);
    const int width = cli_width(stdout, 100);
    cli_wrap(stdout, text, 0, 2, width < 100 ? width : 100);
}

void bench_profile_print(const struct bench_row *row, int calls) {
    const struct oct__step_profile *profile = &row->profile;
    struct oct__profile_sum kinds[OCT_WORK_COUNT];
    oct__profile_kinds(profile, kinds);
    printf("\n%s%s%s, %s: medians of %d steps\n", cli_style(stdout, CLI_BOLD), row->precision,
           cli_style(stdout, CLI_PLAIN), row->norm, profile->n_steps);
    if (oct__profile_has_ceilings(profile)) {
        print_ceilings(&profile->ceilings);
    }
    print_kinds(profile, kinds);
    putchar('\n');
    print_layers(profile);
    if (calls) {
        putchar('\n');
        print_calls(profile);
    }
    putchar('\n');
    if (oct__profile_has_ceilings(profile)) {
        print_floor_sentence(row, kinds);
    } else {
        print_sentence(row, kinds);
    }
}

/* --- JSON ------------------------------------------------------------------------------------ */

static void floor_json(const struct bench_row *row, struct cli_json *object,
                       const struct oct__profile_sum *sum) {
    const int is_known = oct__profile_has_ceilings(&row->profile) && sum->n_calls > 0;
    cli_json_int(object, "bytes", (int64_t)sum->bytes);
    cli_json_int(object, "operations", (int64_t)(2 * sum->madds));
    cli_json_real(object, "bytes_ms", is_known ? sum->bytes_ms : (double)NAN);
    cli_json_real(object, "operations_ms", is_known ? sum->operations_ms : (double)NAN);
    cli_json_real(object, "gap", is_known ? gap_of(sum) : (double)NAN);
}

/* Whether a sum has a floor: a product's, or any where there are ceilings. */
static int has_floor(const struct bench_row *row, int is_product,
                     const struct oct__profile_sum *sum) {
    return is_product || (oct__profile_has_ceilings(&row->profile) && sum->n_calls > 0);
}

static struct cli_json *kind_json(const struct bench_row *row, const char *kind, int is_product,
                                  const struct oct__profile_sum *sum) {
    struct cli_json *object = cli_json_object();
    cli_json_text(object, "precision", row->precision);
    cli_json_text(object, "kind", kind);
    cli_json_flag(object, "is_product", is_product);
    cli_json_int(object, "calls", (int64_t)sum->n_calls);
    cli_json_real(object, "ms", sum->ms);
    cli_json_real(object, "share", ratio(sum->ms, row->profile.step_ms));
    const int is_bounded = has_floor(row, is_product, sum);
    cli_json_real(object, "floor_ms", is_bounded ? sum->floor_ms : (double)NAN);
    cli_json_real(object, "share_of_floor",
                  is_bounded ? ratio(sum->floor_ms, sum->ms) : (double)NAN);
    cli_json_real(object, "gmadds_per_s", pace(sum));
    floor_json(row, object, sum);
    return object;
}

static void calls_json(const struct bench_row *row, struct cli_json *array) {
    for (size_t i = 0; i < row->profile.n_calls; i++) {
        const struct oct__profile_call *call = &row->profile.calls[i];
        const int is_product = call->work < OCT_WORK_PRODUCTS;
        struct oct__profile_sum sum = {0};
        struct cli_json *object = cli_json_object();
        oct__profile_add(&sum, call);
        cli_json_text(object, "precision", row->precision);
        cli_json_text(object, "layer", call->layer);
        cli_json_text(object, "op", call->op);
        cli_json_text(object, "kind", oct__work_name(call->work));
        cli_json_real(object, "ms", call->ms);
        cli_json_real(object, "share", ratio(call->ms, row->profile.step_ms));
        cli_json_flag(object, "is_product", is_product);
        cli_json_real(object, "floor_ms",
                      has_floor(row, is_product, &sum) ? call->floor_ms : (double)NAN);
        cli_json_int(object, "multiply_adds", (int64_t)call->madds);
        floor_json(row, object, &sum);
        cli_json_add(array, object);
    }
}

static void layers_json(const struct bench_row *row, struct cli_json *array) {
    static const char *const keys[OCT_WORK_PRODUCTS] = {"forward_ms", "data_gradient_ms",
                                                        "weight_gradient_ms"};
    const struct oct__step_profile *profile = &row->profile;
    struct oct__profile_layer *layers = cli_alloc((profile->n_calls + 1) * sizeof *layers);
    const size_t n = oct__profile_layers(profile, layers);
    for (size_t i = 0; i < n; i++) {
        struct cli_json *object = cli_json_object();
        cli_json_text(object, "precision", row->precision);
        cli_json_text(object, "layer", layers[i].name);
        for (int k = 0; k < OCT_WORK_PRODUCTS; k++) {
            cli_json_real(object, keys[k], layers[i].product_ms[k]);
        }
        cli_json_real(object, "element_ms", layers[i].element_ms);
        cli_json_real(object, "ms", layers[i].all.ms);
        cli_json_real(object, "share", ratio(layers[i].all.ms, profile->step_ms));
        cli_json_real(object, "floor_ms",
                      has_floor(row, 0, &layers[i].all) ? layers[i].all.floor_ms : (double)NAN);
        floor_json(row, object, &layers[i].all);
        cli_json_add(array, object);
    }
    free(layers);
}

static struct cli_json *ceilings_json(const struct bench_row *row) {
    const struct oct__ceilings *ceilings = &row->profile.ceilings;
    const double *rates = ceilings->operations_per_s;
    struct cli_json *object = cli_json_object();
    cli_json_text(object, "precision", row->precision);
    cli_json_real(object, "bytes_per_s", ceilings->bytes_per_s);
    cli_json_real(object, "s8_operations_per_s", rates[OCT_UNIT_S8]);
    cli_json_real(object, "bf16_operations_per_s", rates[OCT_UNIT_BF16]);
    cli_json_real(object, "f32_operations_per_s", rates[OCT_UNIT_F32]);
    cli_json_real(object, "launch_us", 1e6 * ceilings->launch_s);
    return object;
}

void bench_profile_json(const struct bench_row *row, struct cli_json *calls, struct cli_json *kinds,
                        struct cli_json *layers, struct cli_json *ceilings) {
    const struct oct__step_profile *profile = &row->profile;
    if (oct__profile_has_ceilings(profile)) {
        cli_json_add(ceilings, ceilings_json(row));
    }
    struct oct__profile_sum sums[OCT_WORK_COUNT];
    oct__profile_kinds(profile, sums);
    for (int i = 0; i < OCT_WORK_COUNT; i++) {
        if (sums[i].n_calls > 0) {
            cli_json_add(kinds, kind_json(row, oct__work_name((enum oct__work)i),
                                          i < OCT_WORK_PRODUCTS, &sums[i]));
        }
    }
    cli_json_add(kinds,
                 kind_json(row, "gossip", 0, &(struct oct__profile_sum){.ms = profile->gossip_ms}));
    cli_json_add(kinds,
                 kind_json(row, "around", 0, &(struct oct__profile_sum){.ms = profile->around_ms}));
    cli_json_add(kinds,
                 kind_json(row, "disturbed", 0,
                           &(struct oct__profile_sum){.ms = oct__profile_disturbed(profile)}));
    calls_json(row, calls);
    layers_json(row, layers);
}
