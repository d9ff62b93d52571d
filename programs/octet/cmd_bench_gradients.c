/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_bench_gradients.c - octet bench gradients: what 8 bits do to the gradients, recipe by recipe.
 *
 * Accuracy after a run says that a recipe is worse, not where. Gradients of the same parameters and
 * batches, beside fp32's, do: parameter by parameter, with the clip rates of the quantizers they
 * passed through.
 */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/compare.h"

enum { RECIPES_MOST = 5, LABEL_MOST = 8 };

static const struct oct_option own[] = {
    {.name = "recipes",
     .placeholder = "NAME[,NAME]",
     .fallback = "paper,octet",
     .summary = "recipes, each as --precision-recipe of octet train takes it",
     .group = "Benchmark"},
    {.name = "steps",
     .placeholder = "N",
     .fallback = "100",
     .summary = "training steps in fp32 before the comparison",
     .group = "Benchmark",
     .type = OCT_OPTION_INT,
     .least = 0,
     .most = 1000000},
    {.name = "batches",
     .placeholder = "N",
     .fallback = "8",
     .summary = "batches whose gradients are compared",
     .group = "Benchmark",
     .type = OCT_OPTION_INT,
     .least = 1,
     .most = 10000},
    {.name = NULL},
};

static const char *const options[] = {
    "model", "norm", "activation-rounding", "data", "data-dir", "augment", "batch", "engine", NULL};

static const struct cli_example examples[] = {
    {"bench gradients", "both recipes after 100 steps"},
    {"bench gradients --recipes octet,octet:range=mean,paper", "one choice at a time"},
    {NULL, NULL},
};

/* What has come in so far. Rows of a recipe come together, so a parameter's errors are gathered
 * before its line can be printed. */
struct found {
    int n_recipes;
    const char *recipes[RECIPES_MOST];
    struct line {
        char *parameter; /* NULL: all of them together */
        double error[RECIPES_MOST], cosine[RECIPES_MOST];
    } * lines;
    int n_lines, capacity;
    int at; /* line of the recipe that is coming in */
    int recipe;
    struct cli_quantizers quantizers[RECIPES_MOST];
    struct cli_json *rows; /* NULL: a table is wanted */
};

/* A comma that is followed by a name begins the next recipe, one that is followed by key=value goes
 * on with this one: a recipe is "octet" or "octet:range=mean,mask=no". */
static int begins_recipe(const char *text) {
    size_t item = strcspn(text, ","), colon = strcspn(text, ":"), equals = strcspn(text, "=");
    return equals >= item || colon < equals;
}

/* Cuts the list in place; every recipe is checked before the first step is trained. */
static int read_recipes(struct cli *cli, char *list, struct found *found) {
    for (char *at = list; at;) {
        char *comma = strchr(at, ',');
        while (comma && !begins_recipe(comma + 1)) {
            comma = strchr(comma + 1, ',');
        }
        if (comma) {
            *comma = '\0';
        }
        if (found->n_recipes == RECIPES_MOST) {
            return cli_usage(cli, "--recipes has more than %d recipes", RECIPES_MOST);
        }
        oct_status status = oct_config_set(cli->config, "precision-recipe", at);
        if (status == OCT_STATUS_INVALID) { /* "precision-recipe is 'octt', expected …" */
            return cli_usage(cli, "--recipes%s", oct_last_error() + strlen("precision-recipe"));
        }
        if (status != OCT_OK) {
            return cli_fail(cli, status);
        }
        found->recipes[found->n_recipes++] = at;
        at = comma ? comma + 1 : NULL;
    }
    return CLI_DONE;
}

static struct line *line_at(struct found *found, const char *parameter) {
    if (found->at == found->capacity) {
        int capacity = found->capacity ? 2 * found->capacity : 128;
        struct line *lines = cli_alloc((size_t)capacity * sizeof *lines);
        if (found->n_lines > 0) {
            memcpy(lines, found->lines, (size_t)found->n_lines * sizeof *lines);
        }
        free(found->lines);
        found->lines = lines;
        found->capacity = capacity;
    }
    struct line *line = &found->lines[found->at];
    if (found->at == found->n_lines) {
        memset(line, 0, sizeof *line);
        if (parameter) {
            size_t bytes = strlen(parameter) + 1;
            line->parameter = cli_alloc(bytes);
            memcpy(line->parameter, parameter, bytes);
        }
        found->n_lines++;
    }
    found->at++;
    return line;
}

static void take_row(struct found *found, const struct oct__compare_row *row) {
    if (found->rows) {
        struct cli_json *object = cli_json_object();
        cli_json_text(object, "recipe", row->recipe);
        cli_json_text(object, "parameter", row->parameter);
        cli_json_real(object, "error", row->error);
        cli_json_real(object, "cosine", row->cosine);
        cli_json_add(found->rows, object);
        return;
    }
    struct line *line = line_at(found, row->parameter);
    line->error[found->recipe] = row->error;
    line->cosine[found->recipe] = row->cosine;
}

static int take(const struct oct__compare_row *row, const struct oct__compare_quantizer *quantizer,
                void *context) {
    struct found *found = context;
    const char *recipe = row ? row->recipe : quantizer->recipe;
    while (found->recipes[found->recipe] != recipe && found->recipe + 1 < found->n_recipes) {
        found->recipe++;
        found->at = 0;
    }
    cli_progress_note("gradients: recipe %d of %d, %s", found->recipe + 1, found->n_recipes,
                      recipe);
    if (row) {
        take_row(found, row);
    } else {
        struct oct_quantizer copy = {.layer = quantizer->layer,
                                     .is_gradient = quantizer->is_gradient,
                                     .clipped = quantizer->clipped,
                                     .zero = quantizer->zero,
                                     .scale = quantizer->scale};
        cli_quantizers_add(&found->quantizers[found->recipe], &copy);
    }
    return 0;
}

/* --- what is printed ------------------------------------------------------------------------ */

static int print_json(const struct cli *cli, struct found *found) {
    struct cli_json *root = cli_json_object(), *quantizers = cli_json_array();
    for (int i = 0; i < found->n_recipes; i++) {
        cli_quantizers_json(&found->quantizers[i], found->recipes[i], quantizers);
    }
    cli_json_int(root, "steps", (int64_t)cli_own_number(cli, "steps"));
    cli_json_int(root, "batches", (int64_t)cli_own_number(cli, "batches"));
    cli_json_put(root, "rows", found->rows);
    cli_json_put(root, "quantizers", quantizers);
    cli_json_put(root, "config", cli_json_config(cli->config));
    found->rows = NULL;
    return cli_json_print(root);
}

/* A recipe as a heading: its text, or, where that takes too much room, a letter that a legend
 * explains. */
static int has_letter(const struct found *found, int recipe) {
    return found->n_recipes > 2 || strlen(found->recipes[recipe]) > LABEL_MOST;
}

static struct cli_text label_of(const struct found *found, int recipe) {
    struct cli_text out;
    if (!has_letter(found, recipe)) {
        snprintf(out.text, sizeof out.text, "%s", found->recipes[recipe]);
    } else {
        snprintf(out.text, sizeof out.text, "%c", 'A' + recipe);
    }
    return out;
}

/* Cosines are left out of a window that has no room for them. */
static void print_gradients(const struct found *found) {
    struct cli_table table;
    char errors[128] = "", both[256] = "";
    int longest = (int)strlen("all together"), columns = 0, screen = cli_width(stdout, 0);
    for (int i = 0; i < found->n_lines; i++) {
        int length = found->lines[i].parameter ? (int)strlen(found->lines[i].parameter) : 0;
        longest = length > longest ? length : longest;
    }
    for (int i = 0; i < found->n_recipes; i++) {
        size_t used = strlen(errors), used_both = strlen(both);
        struct cli_text label = label_of(found, i);
        columns += snprintf(errors + used, sizeof errors - used, "|>%s error", label.text);
        snprintf(both + used_both, sizeof both - used_both, "|>%s error|>cosine", label.text);
        columns += 2 + 6;
    }
    int with_cosine = screen == 0 || longest + columns <= screen;
    char heads[320];
    snprintf(heads, sizeof heads, "gradient of%s", with_cosine ? both : errors);
    cli_table_init(&table, heads);
    for (int i = 0; i < found->n_lines; i++) {
        const struct line *line = &found->lines[i];
        cli_table_cell(&table, "%s", line->parameter ? line->parameter : "all together");
        for (int r = 0; r < found->n_recipes; r++) {
            cli_table_cell(&table, "%s", cli_percent(line->error[r], 1).text);
            if (with_cosine) {
                cli_table_cell(&table, "%s", cli_decimals(line->cosine[r], 4).text);
            }
        }
    }
    cli_table_print(&table, stdout);
    cli_table_fini(&table);
    if (!with_cosine) {
        printf("cosines need a wider window, a pipe or --json\n");
    }
}

static void print_clips(const struct found *found) {
    struct cli_table table;
    cli_table_init(&table, "quantizers|of|>clipped|>zero|>at worst|in");
    for (int i = 0; i < found->n_recipes; i++) {
        for (int is_gradient = 0; is_gradient < 2; is_gradient++) {
            struct cli_clips clips = cli_quantizers_clips(&found->quantizers[i], is_gradient);
            cli_table_cell(&table, "%s", label_of(found, i).text);
            cli_table_cell(&table, "%d %s", clips.n, is_gradient ? "gradients" : "values");
            cli_table_cell(&table, "%s", cli_percent(clips.clipped, 2).text);
            cli_table_cell(&table, "%s", cli_percent(clips.zero, 1).text);
            cli_table_cell(&table, "%s", cli_percent(clips.worst, 2).text);
            cli_table_cell(&table, "%s", clips.worst > 0 ? clips.layer : "");
        }
    }
    cli_table_print(&table, stdout);
    cli_table_fini(&table);
}

static void print_text(const struct cli *cli, const struct found *found) {
    printf("%s%s on %s%s: %s\nint8 against fp32 after %s steps, %s batches of %s\n",
           cli_style(stdout, CLI_BOLD), oct_config_get(cli->config, "model"),
           oct_config_get(cli->config, "data"), cli_style(stdout, CLI_PLAIN),
           oct_config_get(cli->config, "norm"), cli_own(cli, "steps"), cli_own(cli, "batches"),
           oct_config_get(cli->config, "batch"));
    for (int i = 0; i < found->n_recipes; i++) {
        if (has_letter(found, i)) {
            printf("  %c  %s\n", 'A' + i, found->recipes[i]);
        }
    }
    print_gradients(found);
    putchar('\n');
    print_clips(found);
}

static int gradients(struct cli *cli) {
    struct found found = {.n_recipes = 0};
    char list[1024];
    const char *given = cli_own(cli, "recipes");
    if (strlen(given) >= sizeof list) {
        return cli_usage(cli, "--recipes is too long, '%.40s...'", given);
    }
    snprintf(list, sizeof list, "%s", given);
    int code = read_recipes(cli, list, &found);
    if (code != CLI_DONE) {
        return code;
    }
    found.rows = cli->json ? cli_json_array() : NULL;
    cli_progress_note("training %s steps in fp32", cli_own(cli, "steps"));
    oct_status status = oct__compare_gradients(cli->config, found.n_recipes, found.recipes,
                                               (int)cli_own_number(cli, "steps"),
                                               (int)cli_own_number(cli, "batches"), take, &found);
    cli_progress_clear();
    if (status != OCT_OK) {
        code = cli_fail(cli, status);
    } else if (cli->json) {
        code = print_json(cli, &found);
    } else {
        print_text(cli, &found);
    }
    cli_json_destroy(found.rows);
    for (int i = 0; i < found.n_lines; i++) {
        free(found.lines[i].parameter);
    }
    free(found.lines);
    for (int i = 0; i < found.n_recipes; i++) {
        cli_quantizers_fini(&found.quantizers[i]);
    }
    return code;
}

const struct cli_command cli_bench_gradients = {
    .name = "bench gradients",
    .summary = "how far int8 gradients are from fp32's",
    .about = "Trains some steps in fp32, then computes gradients at the same parameters and "
             "batches in fp32 and in int8 under each recipe. The error is of single batches, "
             "relative; the cosine is between sums over the batches, where rounding by chance "
             "averages out and bias stays. A list of recipes is 'paper,octet' or "
             "'octet:range=mean,mask=no,paper': a name begins the next one.",
    .own = own,
    .options = options,
    .examples = examples,
    .json = "steps, batches, rows (recipe, parameter, error, cosine; parameter null: all "
            "together), quantizers (recipe, layer, kind, clipped, zero, scale), config",
    .run = gradients,
};
