/* SPDX-License-Identifier: Apache-2.0 */
/* bench_cost.c - octet bench step --cost: figure 3 of arXiv 2111.09389, counted, measured, modelled.
 *
 * Every figure says what it is: *counted* from the calls and tensors of the step, *measured* on this
 * machine, or *modelled* (energy, train/cost.h). Memory and work are those of one node and one step,
 * the process is the whole of one.
 */
#include "bench_step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "svg.h"

/* --- a process of its own -------------------------------------------------------------------- */

enum { PROCESS_STEPS = 5 };

static uint64_t kib_after(const char *line, const char *key) {
    const size_t n = strlen(key);
    return strncmp(line, key, n) == 0 ? 1024 * (uint64_t)strtoull(line + n, NULL, 10) : 0;
}

/* Linux tells; elsewhere nothing is known. */
static void look(const struct oct__step_memory *memory, void *context) {
    struct bench_process *out = context;
    char line[256];
    FILE *file = fopen("/proc/self/status", "r");
    out->memory = *memory;
    while (file && fgets(line, sizeof line, file)) {
        out->peak_bytes += kib_after(line, "VmHWM:");
        out->own_bytes += kib_after(line, "RssAnon:");
        out->file_bytes += kib_after(line, "RssFile:");
    }
    if (file) {
        fclose(file);
    }
    out->is_known = out->peak_bytes > 0 && out->own_bytes > 0;
}

/* A failure is not reported here: the measurement that follows meets it too, and says more. */
void bench_process_measure(const struct cli *cli, int n_nodes, struct bench_process *out) {
    int ends[2];
    memset(out, 0, sizeof *out);
    out->n_nodes = n_nodes;
    fflush(NULL);
    if (pipe(ends) != 0) {
        return;
    }
    const pid_t child = fork();
    if (child == 0) {
        struct bench_process found = {.n_nodes = n_nodes};
        close(ends[0]);
        oct_status status = oct__bench_memory(cli->config, n_nodes, PROCESS_STEPS, look, &found);
        _exit(status == OCT_OK && write(ends[1], &found, sizeof found) == (ssize_t)sizeof found
                  ? 0
                  : 1);
    }
    close(ends[1]);
    if (child > 0) {
        struct bench_process found;
        if (read(ends[0], &found, sizeof found) == (ssize_t)sizeof found) {
            *out = found;
        }
        waitpid(child, NULL, 0);
    }
    close(ends[0]);
}

/* --- what is told ---------------------------------------------------------------------------- */

enum unit { COUNT, BYTES, PICOJOULE, MILLIJOULE, MICROSECOND };

static const char counted[] = "counted", measured[] = "measured", modelled[] = "modelled";

static double unknown_unless(int is_known, uint64_t bytes) {
    return is_known ? (double)bytes : (double)NAN;
}

static double forward_madds(const struct bench_row *row) {
    return (double)row->cost.counted.madds[OCT_WORK_FORWARD] / row->cost.counted.batch;
}

static double madds(const struct bench_row *row) {
    const uint64_t *of = row->cost.counted.madds;
    return (double)(of[OCT_WORK_FORWARD] + of[OCT_WORK_DATA_GRADIENT] +
                    of[OCT_WORK_WEIGHT_GRADIENT]);
}

static double elements(const struct bench_row *row) {
    return (double)row->cost.counted.elements;
}

static double parameters(const struct bench_row *row) {
    return (double)row->cost.counted.parameter_bytes;
}

static double kept(const struct bench_row *row) {
    return (double)row->cost.counted.kept_bytes;
}

static double work(const struct bench_row *row) {
    return (double)row->cost.counted.work_bytes;
}

static double work_used(const struct bench_row *row) {
    return (double)row->cost.used_bytes;
}

static double workspace(const struct bench_row *row) {
    return (double)row->cost.workspace_bytes;
}

static double state(const struct bench_row *row) {
    return (double)row->cost.state_bytes;
}

static double message(const struct bench_row *row) {
    return (double)row->cost.wire_bytes;
}

static double process_peak(const struct bench_row *row) {
    return unknown_unless(row->process.is_known, row->process.peak_bytes);
}

static double process_own(const struct bench_row *row) {
    return unknown_unless(row->process.is_known, row->process.own_bytes);
}

static double process_files(const struct bench_row *row) {
    return unknown_unless(row->process.is_known, row->process.file_bytes);
}

static double process_asked(const struct bench_row *row) {
    const struct oct__step_memory *m = &row->process.memory;
    return unknown_unless(row->process.is_known, m->state_bytes + m->workspace_bytes +
                                                     m->evaluation_bytes + m->dataset_bytes);
}

static double least_pj(const struct bench_row *row) {
    return row->cost.counted.least_pj;
}

static double mean_pj(const struct bench_row *row) {
    return row->cost.counted.mean_pj;
}

static double product_mj(const struct bench_row *row) {
    return 1e-9 * row->cost.counted.product_pj;
}

static double element_mj(const struct bench_row *row) {
    return 1e-9 * row->cost.counted.element_pj;
}

static double step_mj(const struct bench_row *row) {
    return product_mj(row) + element_mj(row);
}

static double sample_us(const struct bench_row *row) {
    return 1e6 / row->time.samples_per_s;
}

static const struct quantity {
    const char *key, *title, *how;
    enum unit unit;
    double (*of)(const struct bench_row *row);
    const char *group; /* in the drawing; NULL: not in it */
} quantities[] = {
    {"forward_multiply_adds_per_sample", "multiply-adds forward, a sample", counted, COUNT,
     forward_madds, NULL},
    {"multiply_adds", "multiply-adds of a step", counted, COUNT, madds, NULL},
    {"element_operations", "element operations", counted, COUNT, elements, NULL},
    {"parameter_bytes", "parameters, as computed with", counted, BYTES, parameters, "memory"},
    {"activation_bytes", "activations kept for backward", counted, BYTES, kept, "memory"},
    {"work_bytes", "activations and gradients, planned", counted, BYTES, work, NULL},
    {"work_used_bytes", "the same, as steps fill it", measured, BYTES, work_used, NULL},
    {"workspace_bytes", "workspace, with scratch", counted, BYTES, workspace, "memory"},
    {"state_bytes", "state (floats in any case)", counted, BYTES, state, NULL},
    {"peak_rss_bytes", "process: peak resident", measured, BYTES, process_peak, NULL},
    {"own_rss_bytes", "process: its own memory", measured, BYTES, process_own, "memory"},
    {"asked_bytes", "process: asked for by the run", counted, BYTES, process_asked, NULL},
    {"file_rss_bytes", "process: program and libraries", measured, BYTES, process_files, NULL},
    {"least_pj", "energy of a forward multiply-add", modelled, PICOJOULE, least_pj, "compute"},
    {"mean_pj", "energy of a mean multiply-add", modelled, PICOJOULE, mean_pj, NULL},
    {"product_mj", "energy of a step: products", modelled, MILLIJOULE, product_mj, NULL},
    {"element_mj", "energy of a step: element-wise", modelled, MILLIJOULE, element_mj, NULL},
    {"step_mj", "energy of a step", modelled, MILLIJOULE, step_mj, "compute"},
    {"sample_us", "time of a sample", measured, MICROSECOND, sample_us, "compute"},
    {"wire_bytes", "a message", counted, BYTES, message, "communication"},
};

static const char *dtype_name(enum oct__dtype dtype) {
    static const char *const names[OCT_DTYPE_COUNT] = {
        [OCT_DTYPE_F32] = "f32", [OCT_DTYPE_S32] = "s32",   [OCT_DTYPE_U8] = "u8",
        [OCT_DTYPE_S8] = "s8",   [OCT_DTYPE_BF16] = "bf16", [OCT_DTYPE_E8] = "s8",
    };
    return names[dtype];
}

/* 1.31 G, 40.8 M, 12.3 k */
static struct cli_text amount(double number) {
    static const char *const units[] = {"", " k", " M", " G", " T"};
    struct cli_text out;
    int unit = 0;
    while (number >= 999.5 && unit < 4) {
        number /= 1000;
        unit++;
    }
    const int digits = unit == 0 || number >= 99.95 ? 0 : number >= 9.995 ? 1 : 2;
    snprintf(out.text, sizeof out.text, "%.*f%s", digits, number, units[unit]);
    return out;
}

static struct cli_text shown(enum unit unit, double value) {
    struct cli_text out;
    if (!isfinite(value)) {
        return cli_decimals(value, 0);
    }
    switch (unit) {
    case COUNT:
        return amount(value);
    case BYTES:
        return cli_bytes((uint64_t)value);
    case PICOJOULE:
        snprintf(out.text, sizeof out.text, "%.2f pJ", value);
        return out;
    case MILLIJOULE:
        snprintf(out.text, sizeof out.text, "%.2f mJ", value);
        return out;
    case MICROSECOND:
        snprintf(out.text, sizeof out.text, "%.0f us", value);
        return out;
    }
    return cli_decimals(value, 2);
}

/* --- the table ------------------------------------------------------------------------------- */

static uint64_t madds_of_type(const struct bench_row *row, struct oct__call_products type) {
    const struct oct__cost *cost = &row->cost.counted;
    for (int i = 0; i < cost->n_types; i++) {
        if (cost->types[i].a == type.a && cost->types[i].b == type.b) {
            return cost->types[i].madds;
        }
    }
    return 0;
}

static void cells(struct cli_table *table, const char *name, const char *how, enum unit unit,
                  const double *values, int n) {
    cli_table_cell(table, "%s", name);
    for (int i = 0; i < n; i++) {
        cli_table_cell(table, "%s", shown(unit, values[i]).text);
    }
    for (int i = 1; i < n; i++) {
        const int is_ratio = values[i] > 0 && values[0] > 0;
        cli_table_cell(table, "%s", is_ratio ? cli_times(values[0] / values[i]).text : "");
    }
    cli_table_cell(table, "%s", how);
}

enum { ROWS_MOST = (CLI_TABLE_COLUMNS - 1) / 2 }; /* a value and a ratio each, two other columns */

static void type_cells(struct cli_table *table, const struct bench_row *rows, int n) {
    for (int from = 0; from < n; from++) {
        const struct oct__cost *cost = &rows[from].cost.counted;
        for (int t = 0; t < cost->n_types; t++) {
            double values[ROWS_MOST];
            char name[64];
            int is_told = 0;
            for (int i = 0; i < n; i++) {
                values[i] = (double)madds_of_type(&rows[i], cost->types[t]);
                is_told |= i < from && values[i] > 0;
            }
            if (!is_told) {
                snprintf(name, sizeof name, "  %s x %s", dtype_name(cost->types[t].a),
                         dtype_name(cost->types[t].b));
                cells(table, name, counted, COUNT, values, n);
            }
        }
    }
}

void bench_cost_print(const struct bench_row *rows, int n_rows) {
    const int n = n_rows < ROWS_MOST ? n_rows : ROWS_MOST;
    char heads[512] = "cost of a step and node";
    for (int i = 0; i < n; i++) {
        snprintf(heads + strlen(heads), sizeof heads - strlen(heads), "|>%s", rows[i].precision);
    }
    for (int i = 1; i < n; i++) {
        snprintf(heads + strlen(heads), sizeof heads - strlen(heads), "|>%s/%s", rows[0].precision,
                 rows[i].precision);
    }
    snprintf(heads + strlen(heads), sizeof heads - strlen(heads), "|");
    struct cli_table table;
    cli_table_init(&table, heads);
    for (size_t q = 0; q < CLI_COUNT_OF(quantities); q++) {
        double values[ROWS_MOST];
        for (int i = 0; i < n; i++) {
            values[i] = quantities[q].of(&rows[i]);
        }
        cells(&table, quantities[q].title, quantities[q].how, quantities[q].unit, values, n);
        if (quantities[q].of == madds) {
            type_cells(&table, rows, n);
        }
    }
    putchar('\n');
    cli_table_print(&table, stdout);
    cli_table_fini(&table);
    const int width = cli_width(stdout, 100);
    putchar('\n');
    cli_wrap(
        stdout,
        "Energy is that of arithmetic at 45 nm (Horowitz, ISSCC 2014): f32 multiply 3.7 pJ, add "
        "0.9; 16-bit float multiply 1.1; 8-bit multiply 0.2, add 0.03; s32 add 0.1. A forward "
        "multiply-add is taken with the narrowest sum; in the step bytes are summed in s32, "
        "bf16 products in f32, and an element operation is a multiply-add of floats. "
        "Fetching operands is not in it. The process is another one, with all nodes, the "
        "images and the workspace of evaluations.",
        0, 0, width < 100 ? width : 100);
}

/* --- JSON ------------------------------------------------------------------------------------ */

static struct cli_json *types_json(const struct oct__cost *cost) {
    struct cli_json *array = cli_json_array();
    for (int t = 0; t < cost->n_types; t++) {
        struct cli_json *object = cli_json_object();
        cli_json_text(object, "a", dtype_name(cost->types[t].a));
        cli_json_text(object, "b", dtype_name(cost->types[t].b));
        cli_json_int(object, "multiply_adds", (int64_t)cost->types[t].madds);
        cli_json_real(object, "pj", oct__multiply_add_pj(cost->types[t].a, cost->types[t].b));
        cli_json_add(array, object);
    }
    return array;
}

struct cli_json *bench_cost_json(const struct bench_row *rows, int n_rows) {
    struct cli_json *array = cli_json_array();
    for (int i = 0; i < n_rows; i++) {
        struct cli_json *object = cli_json_object(), *ratios = cli_json_object();
        struct cli_json *how = cli_json_object();
        cli_json_text(object, "precision", rows[i].precision);
        for (size_t q = 0; q < CLI_COUNT_OF(quantities); q++) {
            const struct quantity *quantity = &quantities[q];
            const double value = quantity->of(&rows[i]);
            const int is_whole = quantity->unit == BYTES || quantity->unit == COUNT;
            if (is_whole && isfinite(value)) {
                cli_json_int(object, quantity->key, (int64_t)value);
            } else {
                cli_json_real(object, quantity->key, value);
            }
            cli_json_real(ratios, quantity->key, quantity->of(&rows[0]) / value);
            cli_json_text(how, quantity->key, quantity->how);
        }
        cli_json_put(object, "products", types_json(&rows[i].cost.counted));
        cli_json_put(object, "ratios", ratios);
        cli_json_put(object, "how", how);
        cli_json_add(array, object);
    }
    return array;
}

/* --- the drawing ----------------------------------------------------------------------------- */

enum { WIDTH = 760, LEFT = 250, RIGHT = 620, BAR = 13, BAR_STEP = 16, ROW_GAP = 12, TOP = 84 };

/* The largest value against the first row's, so that the longest bar fits. */
static double largest_ratio(const struct bench_row *rows, int n_rows) {
    double largest = 1;
    for (size_t q = 0; q < CLI_COUNT_OF(quantities); q++) {
        for (int i = 1; quantities[q].group && i < n_rows; i++) {
            const double ratio = quantities[q].of(&rows[i]) / quantities[q].of(&rows[0]);
            largest = isfinite(ratio) && ratio > largest ? ratio : largest;
        }
    }
    return largest;
}

static double draw_quantity(struct svg *svg, const struct quantity *quantity,
                            const struct bench_row *rows, int n_rows, double unit, double y) {
    const double first = quantity->of(&rows[0]);
    const double middle = y + BAR_STEP * n_rows / 2.0;
    svg_text(svg, "ink", 'e', LEFT - 12, middle - 1, "%s", quantity->title);
    svg_text(svg, "dim", 'e', LEFT - 12, middle + 14, "%s", quantity->how);
    for (int i = 0; i < n_rows; i++) {
        const double value = quantity->of(&rows[i]), ratio = value / first;
        char colour[4];
        snprintf(colour, sizeof colour, "c%d", i % SVG_SERIES);
        const double width = isfinite(ratio) ? unit * ratio : 0;
        svg_group_begin(svg, "%s, %s: %s", rows[i].precision, quantity->title,
                        shown(quantity->unit, value).text);
        svg_rect(svg, colour, LEFT, y, width, BAR);
        svg_text(svg, "label", 's', LEFT + width + 6, y + BAR - 2.5, "%s%s%s",
                 shown(quantity->unit, value).text, i ? ", " : "", i ? cli_part(ratio).text : "");
        svg_group_end(svg);
        y += BAR_STEP;
    }
    return y;
}

int bench_cost_draw(const struct cli *cli, const char *path, const struct bench_row *rows,
                    int n_rows) {
    double height = TOP + 8;
    const char *group = "";
    for (size_t q = 0; q < CLI_COUNT_OF(quantities); q++) {
        if (quantities[q].group) {
            height += BAR_STEP * n_rows + ROW_GAP + (strcmp(group, quantities[q].group) ? 30 : 0);
            group = quantities[q].group;
        }
    }
    char title[128];
    snprintf(title, sizeof title, "What a training step of %s costs a node",
             oct_config_get(cli->config, "model"));
    struct svg *svg = svg_open(path, WIDTH, height, title);
    svg_text(svg, "title", 's', 16, 30, "%s", title);
    svg_text(svg, "dim", 's', 16, 50, "batch %s; bars relative to %s; the process has %d node%s",
             oct_config_get(cli->config, "batch"), rows[0].precision, rows[0].process.n_nodes,
             rows[0].process.n_nodes == 1 ? "" : "s");
    double x = 16;
    for (int i = 0; i < n_rows; i++) {
        char colour[4];
        snprintf(colour, sizeof colour, "c%d", i % SVG_SERIES);
        svg_rect(svg, colour, x, 62, BAR, BAR);
        svg_text(svg, "ink", 's', x + BAR + 6, 73, "%s, %s", rows[i].precision, rows[i].norm);
        x += 40 + 7.5 * (double)(strlen(rows[i].precision) + strlen(rows[i].norm) + 2);
    }
    const double unit = (RIGHT - LEFT) / largest_ratio(rows, n_rows);
    double y = TOP;
    group = "";
    for (size_t q = 0; q < CLI_COUNT_OF(quantities); q++) {
        if (!quantities[q].group) {
            continue;
        }
        if (strcmp(group, quantities[q].group) != 0) {
            group = quantities[q].group;
            svg_line(svg, "grid", 16, y + 6, WIDTH - 16, y + 6);
            svg_text(svg, "dim", 's', 16, y + 22, "%s", group);
            y += 30;
        }
        y = draw_quantity(svg, &quantities[q], rows, n_rows, unit, y) + ROW_GAP;
    }
    int error = svg_close(svg);
    return cli_output_say(cli, path, error);
}
