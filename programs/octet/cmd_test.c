/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_test.c - octet test: a saved model on a test set, as whoever uses it would: with the model's file
 * and nothing else of the run that it came from.
 */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <octet/dataset.h>
#include <octet/model.h>

/* Of one class of the test set. */
struct class_count {
    int64_t n, n_right;
};

/* What came of it. */
struct outcome {
    struct oct_model_info model;
    struct oct_dataset_info data;
    int64_t n, n_right;
    double loss, seconds;        /* a sample's mean; of running the model alone */
    int64_t *taken_for;          /* [n_classes][n_classes] of the one, for the other */
    struct class_count *classes; /* [n_classes] */
    int is_stopped;
};

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* --- counting --------------------------------------------------------------------------------- */

/* The cross-entropy of the logits; *best is the class of the largest, of equal ones the first. */
static double loss_of(const float *logits, int n, int label, int *best) {
    double others = 0; /* beside the largest */
    *best = 0;
    for (int i = 1; i < n; i++) {
        *best = logits[i] > logits[*best] ? i : *best;
    }
    for (int i = 0; i < n; i++) {
        others += i == *best ? 0 : exp((double)logits[i] - (double)logits[*best]);
    }
    return log1p(others) - ((double)logits[label] - (double)logits[*best]);
}

static void count(struct outcome *out, const float *logits, int label) {
    int best;
    out->loss += loss_of(logits, out->model.n_classes, label, &best);
    out->n++;
    out->n_right += best == label;
    out->classes[label].n++;
    out->classes[label].n_right += best == label;
    out->taken_for[label * out->model.n_classes + best]++;
}

/* The class that one is most often taken for wrongly; -1: none. */
static int mistake(const struct outcome *out, int label) {
    const int64_t *taken_for = out->taken_for + (size_t)label * (size_t)out->model.n_classes;
    int most = -1;
    for (int i = 0; i < out->model.n_classes; i++) {
        const int64_t n = i == label ? 0 : taken_for[i];
        most = n > 0 && (most < 0 || n > taken_for[most]) ? i : most;
    }
    return most;
}

/* The first `n` samples, a batch at a time. */
static oct_status run_all(struct oct_model *model, const struct oct_dataset *data, int64_t n,
                          struct outcome *out) {
    const size_t bytes = (size_t)out->model.height * (size_t)out->model.width *
                         (size_t)out->model.channels,
                 batch = (size_t)out->model.batch, n_classes = (size_t)out->model.n_classes;
    uint8_t *images = cli_alloc(batch * bytes);
    float *logits = cli_alloc(batch * n_classes * sizeof *logits);
    oct_status status = OCT_OK;
    for (int64_t done = 0; done < n && status == OCT_OK && !cli_interrupted();) {
        const int64_t some = n - done < (int64_t)batch ? n - done : (int64_t)batch;
        for (int64_t i = 0; i < some && status == OCT_OK; i++) {
            status = oct_dataset_read(data, done + i, images + (size_t)i * bytes);
        }
        const double began = now();
        if (status == OCT_OK) {
            status = oct_model_run(model, images, some, logits);
        }
        out->seconds += now() - began;
        for (int64_t i = 0; i < some && status == OCT_OK; i++) {
            count(out, logits + (size_t)i * n_classes, oct_dataset_label(data, done + i));
        }
        done += some;
        cli_progress_note("%lld of %lld samples", (long long)done, (long long)n);
    }
    cli_progress_clear();
    out->is_stopped = out->n < n;
    free(images);
    free(logits);
    return status;
}

/* --- showing ---------------------------------------------------------------------------------- */

static struct cli_text class_name(const struct oct_dataset *data, int label) {
    struct cli_text out;
    const char *name = oct_dataset_class_name(data, label);
    if (name) {
        snprintf(out.text, sizeof out.text, "%.30s", name);
    } else {
        snprintf(out.text, sizeof out.text, "%d", label);
    }
    return out;
}

static double share(int64_t part, int64_t whole) {
    return whole > 0 ? (double)part / (double)whole : (double)NAN;
}

static void print_classes(const struct outcome *out, const struct oct_dataset *data) {
    struct cli_table table;
    cli_table_init(&table, "class|>samples|>right|~most often taken for");
    for (int label = 0; label < out->model.n_classes; label++) {
        const struct class_count *c = &out->classes[label];
        const int most = mistake(out, label);
        cli_table_cell(&table, "%s", class_name(data, label).text);
        cli_table_cell(&table, "%s", cli_count((double)c->n).text);
        cli_table_cell(&table, "%s", cli_percent(share(c->n_right, c->n), 1).text);
        if (most < 0) {
            cli_table_cell(&table, "%s", "");
        } else {
            cli_table_cell(
                &table, "%s, %s", class_name(data, most).text,
                cli_percent(share(out->taken_for[label * out->model.n_classes + most], c->n), 1)
                    .text);
        }
    }
    cli_table_print(&table, stdout);
    cli_table_fini(&table);
}

static void print_text(const struct outcome *out, const struct oct_dataset *data) {
    enum { CLASSES_SHOWN = 100 };
    struct cli_table table;
    printf("%s, %s, %s on %s%s\n", out->model.model, out->model.norm, out->model.precision,
           out->data.name, out->is_stopped ? ", interrupted" : "");
    cli_table_init(&table, "result|>value|~");
    cli_table_cell(&table, "accuracy");
    cli_table_cell(&table, "%s", cli_percent(share(out->n_right, out->n), 2).text);
    cli_table_cell(&table, "of %s test samples", cli_count((double)out->n).text);
    cli_table_cell(&table, "loss");
    cli_table_cell(&table, "%s", cli_decimals(out->loss, 4).text);
    cli_table_cell(&table, "%s", "");
    cli_table_cell(&table, "samples/s");
    cli_table_cell(&table, "%s", cli_count((double)out->n / out->seconds).text);
    cli_table_cell(&table, "%d at a time, reading them not counted", out->model.batch);
    cli_table_cell(&table, "parameters");
    cli_table_cell(&table, "%s", cli_count((double)out->model.n_parameters).text);
    cli_table_cell(&table, "%s", "");
    cli_table_cell(&table, "memory");
    cli_table_cell(&table, "%s", cli_bytes(out->model.memory_bytes).text);
    cli_table_cell(&table, "%s", "parameters and workspace");
    cli_table_print(&table, stdout);
    cli_table_fini(&table);
    if (out->model.n_classes <= CLASSES_SHOWN) {
        putchar('\n');
        print_classes(out, data);
    }
}

static int print_json(const struct outcome *out, const struct oct_dataset *data) {
    struct cli_json *root = cli_json_object(), *classes = cli_json_array();
    cli_json_text(root, "model", out->model.model);
    cli_json_text(root, "norm", out->model.norm);
    cli_json_text(root, "precision", out->model.precision);
    cli_json_text(root, "data", out->data.name);
    cli_json_int(root, "samples", out->n);
    cli_json_real(root, "accuracy", 100 * share(out->n_right, out->n));
    cli_json_real(root, "loss", out->loss);
    cli_json_int(root, "batch", out->model.batch);
    cli_json_real(root, "samples_per_s", (double)out->n / out->seconds);
    cli_json_int(root, "n_parameters", out->model.n_parameters);
    cli_json_int(root, "memory_bytes", (int64_t)out->model.memory_bytes);
    cli_json_flag(root, "interrupted", out->is_stopped);
    for (int label = 0; label < out->model.n_classes; label++) {
        const struct class_count *c = &out->classes[label];
        struct cli_json *row = cli_json_object();
        const int most = mistake(out, label);
        cli_json_int(row, "label", label);
        cli_json_text(row, "name", oct_dataset_class_name(data, label));
        cli_json_int(row, "samples", c->n);
        cli_json_real(row, "accuracy", 100 * share(c->n_right, c->n));
        cli_json_real(row, "taken_for", most < 0 ? (double)NAN : (double)most);
        cli_json_add(classes, row);
    }
    cli_json_put(root, "classes", classes);
    return cli_json_print(root);
}

/* --- the command ------------------------------------------------------------------------------ */

static int fits(const struct cli *cli, const struct outcome *out) {
    const struct oct_model_info *m = &out->model;
    const struct oct_dataset_info *d = &out->data;
    if (m->height == d->height && m->width == d->width && m->channels == d->channels &&
        m->n_classes == d->n_classes) {
        return CLI_DONE;
    }
    return cli_error(cli, CLI_FAILED, OCT_STATUS_SHAPE,
                     "the model is for samples of %dx%dx%d in %d classes, and %s has %dx%dx%d in "
                     "%d; --data names another dataset",
                     m->height, m->width, m->channels, m->n_classes, d->name, d->height, d->width,
                     d->channels, d->n_classes);
}

static int test_on(const struct cli *cli, struct oct_model *model, const struct oct_dataset *data,
                   struct outcome *out) {
    const int64_t wanted = strtoll(oct_config_get(cli->config, "test-samples"), NULL, 10);
    oct_dataset_info(data, &out->data);
    int code = fits(cli, out);
    if (code != CLI_DONE) {
        return code;
    }
    if (wanted > out->data.n_samples) {
        return cli_usage(cli, "--test-samples: %lld, but the test set of %s has %lld",
                         (long long)wanted, out->data.name, (long long)out->data.n_samples);
    }
    const size_t n_classes = (size_t)out->model.n_classes;
    out->classes = cli_alloc(n_classes * sizeof *out->classes);
    out->taken_for = cli_alloc(n_classes * n_classes * sizeof *out->taken_for);
    memset(out->classes, 0, n_classes * sizeof *out->classes);
    memset(out->taken_for, 0, n_classes * n_classes * sizeof *out->taken_for);
    oct_status status = run_all(model, data, wanted ? wanted : out->data.n_samples, out);
    out->loss = out->n > 0 ? out->loss / (double)out->n : (double)NAN;
    if (status != OCT_OK) {
        code = cli_fail(cli, status);
    } else if (cli->json) {
        code = print_json(out, data);
    } else {
        print_text(out, data);
    }
    free(out->classes);
    free(out->taken_for);
    return out->is_stopped && code == CLI_DONE ? CLI_INTERRUPTED : code;
}

static int test(struct cli *cli) {
    struct oct_model *model = NULL;
    struct oct_dataset *data = NULL;
    struct outcome out = {.n = 0};
    const struct oct_model_options options = {
        .batch = (int)cli_own_number(cli, "batch"),
        .n_threads = (int)strtol(oct_config_get(cli->config, "threads"), NULL, 10),
        .engine = oct_config_get(cli->config, "engine"),
    };
    oct_status status = oct_model_open(cli->words[0], &options, &model);
    if (status == OCT_OK) {
        status = oct_model_info(model, &out.model);
    }
    if (status == OCT_OK) {
        cli_progress_note("reading %s", oct_config_get(cli->config, "data"));
        status = oct_dataset_open(oct_config_get(cli->config, "data"), cli_data_folder(cli),
                                  OCT_SPLIT_TEST, &data);
        cli_progress_clear();
    }
    cli_interrupt_catch();
    const int code = status == OCT_OK ? test_on(cli, model, data, &out) : cli_fail(cli, status);
    oct_dataset_close(data);
    oct_model_close(model);
    return code;
}

static const char *const table_options[] = {"data", "data-dir", "test-samples", "engine", NULL};

static const struct oct_option own[] = {
    {.name = "batch",
     .placeholder = "N",
     .fallback = "64",
     .summary = "samples that go through the model together",
     .group = "Model",
     .type = OCT_OPTION_INT,
     .least = 1,
     .most = 65536},
    {.name = NULL},
};

static const struct cli_example examples[] = {
    {"test kept.model", "how good it is on Fashion-MNIST's test set"},
    {"test kept.model --data cifar10 --batch 1", "one sample at a time, as they come in"},
    {"test kept.model --data folder:photos,size=32", "on pictures of one's own"},
    {NULL, NULL},
};

const struct cli_command cli_test = {
    .name = "test",
    .arguments = "MODEL",
    .least_words = 1,
    .most_words = 1,
    .summary = "a saved model on a test set: accuracy, class by class",
    .about =
        "Classifies a test set with a model that 'octet train --save' has written, as a program "
        "that uses it would: the file says of what network it is, in which arithmetic, and how "
        "pixels enter it. The accuracy is that of the average model at the end of training. "
        "--test-samples N are the "
        "first N here, where octet train draws them.",
    .own = own,
    .options = table_options,
    .examples = examples,
    .json =
        "model, norm, precision, data, samples, accuracy (per cent), loss, batch, "
        "samples_per_s, n_parameters, memory_bytes, interrupted, classes (label, name, samples, "
        "accuracy, taken_for: the label that it is most often taken for wrongly)",
    .run = test,
};
