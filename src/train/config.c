/* SPDX-License-Identifier: Apache-2.0 */
/* config.c - options by name, generated from options.def.
 *
 * A value is checked completely before anything is stored, so a refused one leaves the
 * configuration as it was. Every message begins with the option's name: the command prints it after
 * "--".
 */
#include "train/config.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/spec.h"
#include "base/utf8.h"
#include "compress/compress.h"
#include "data/partition.h"
#include "nn/recipe.h"
#include "train/fault.h"
#include "train/momentum.h"
#include "train/schedule.h"

/* The choices that are not plug-ins. */
static const char *const precisions[] = {"int8", "fp32", "int8-sim", NULL};
static const char *const roundings[] = {"nearest", "stochastic", NULL};
static const char *const augmentations[] = {"crop-flip", "none", NULL};
static const char *const momenta[] = {"qgm", "local", "none", NULL};
static const char *const no_or_yes[] = {"no", "yes", NULL};
static const char *const weights[] = {"out-degree", "metropolis", NULL};
static const char *const records[] = {"must", "try", NULL};
static const char *const statistics[] = {"mix", "own", NULL};

static const struct {
    enum oct__option_index option;
    const char *const *names;
} fixed_choices[] = {
    {OCT__OPTION_precision, precisions},  {OCT__OPTION_activation_rounding, roundings},
    {OCT__OPTION_augment, augmentations}, {OCT__OPTION_momentum, momenta},
    {OCT__OPTION_weights, weights},       {OCT__OPTION_strict, no_or_yes},
    {OCT__OPTION_record, records},        {OCT__OPTION_final_statistics, statistics},
};

#define NAME_BYTES 32

static char names[OCT__OPTION_COUNT][NAME_BYTES]; /* "weight-decay"; see table_ready */

static const struct row {
    struct oct_option option;
    const char *field;
    int registry; /* of a CHOICE: an oct_plugin_kind, or -1 */
    size_t offset;
} rows[] = {
#define OCT_OPTION(member, kind, initial, low, high, shown, heading, line)                         \
    {{.name = names[OCT__OPTION_##member],                                                         \
      .placeholder = shown,                                                                        \
      .fallback = initial,                                                                         \
      .summary = line,                                                                             \
      .group = heading,                                                                            \
      .type = OCT_OPTION_##kind,                                                                   \
      .least = OCT_OPTION_##kind == OCT_OPTION_CHOICE ? 0 : (low),                                 \
      .most = (high)},                                                                             \
     #member,                                                                                      \
     OCT_OPTION_##kind == OCT_OPTION_CHOICE ? (int)(low) : -1,                                     \
     offsetof(struct oct_config, member)},
#include "train/options.def"
#undef OCT_OPTION
};

/* C cannot turn a field's '_' into an option's '-' at compile time, so the first caller does it;
 * others who arrive meanwhile wait for these few bytes. */
static void table_ready(void) {
    enum { UNTOUCHED, BUSY, READY };
    static atomic_int state = UNTOUCHED;
    if (atomic_load_explicit(&state, memory_order_acquire) == READY) {
        return;
    }
    int expected = UNTOUCHED;
    if (atomic_compare_exchange_strong(&state, &expected, BUSY)) {
        for (int i = 0; i < OCT__OPTION_COUNT; i++) {
            for (int j = 0; j < NAME_BYTES - 1 && rows[i].field[j]; j++) {
                names[i][j] = rows[i].field[j] == '_' ? '-' : rows[i].field[j];
            }
        }
        atomic_store_explicit(&state, READY, memory_order_release);
    }
    while (atomic_load_explicit(&state, memory_order_acquire) != READY) {
    }
}

static int same_name(const char *a, const char *b) {
    for (; *a && *b; a++, b++) {
        if ((*a == '_' ? '-' : *a) != (*b == '_' ? '-' : *b)) {
            return 0;
        }
    }
    return *a == *b;
}

/* The row of a name, or -1. */
static int row_find(const char *name) {
    table_ready();
    for (int i = 0; name && i < OCT__OPTION_COUNT; i++) {
        if (same_name(name, names[i])) {
            return i;
        }
    }
    return -1;
}

const struct oct_option *oct_option_at(int index) {
    table_ready();
    return index >= 0 && index < OCT__OPTION_COUNT ? &rows[index].option : NULL;
}

const struct oct_option *oct_option_find(const char *name) {
    int i = row_find(name);
    return i < 0 ? NULL : &rows[i].option;
}

static const char *row_choice(int row, int index) {
    if (rows[row].option.type != OCT_OPTION_CHOICE || index < 0) {
        return NULL;
    }
    if (rows[row].registry >= 0) {
        const struct oct_plugin *plugin =
            oct_plugin_at((enum oct_plugin_kind)rows[row].registry, index);
        return plugin ? plugin->name : NULL;
    }
    for (size_t i = 0; i < OCT_COUNT_OF(fixed_choices); i++) {
        if ((int)fixed_choices[i].option == row) {
            const char *const *name = fixed_choices[i].names;
            while (index > 0 && *name) {
                name++;
                index--;
            }
            return *name;
        }
    }
    return NULL;
}

const char *oct_option_choice(const struct oct_option *option, int index) {
    int row = option ? row_find(option->name) : -1;
    return row < 0 ? NULL : row_choice(row, index);
}

/* A value as it appears in a message: shortened, and with nothing a terminal would act on. */
struct shown {
    char text[48];
};

static struct shown shown(const char *value, size_t length) {
    struct shown out;
    size_t n = 0;
    for (; n < length && n < sizeof out.text - 4; n++) {
        unsigned char c = (unsigned char)value[n];
        out.text[n] = c < 0x20 || c == 0x7f ? '?' : (char)c;
    }
    if (n < length) {
        while (n > 0 && ((unsigned char)value[n] & 0xc0) == 0x80) {
            n--; /* never half of a UTF-8 character */
        }
    }
    memcpy(out.text + n, n < length ? "..." : "", n < length ? 4 : 1);
    return out;
}

static oct_status read_number(const struct oct_option *option, const char *value, double *out) {
    if (option->type == OCT_OPTION_REAL) {
        OCT_TRY(oct__spec_real(option->name, value, option->least, option->most, out));
        *out += 0.0; /* "-0" is 0 */
        return OCT_OK;
    }
    int64_t whole = 0;
    OCT_TRY(
        oct__spec_int(option->name, value, (int64_t)option->least, (int64_t)option->most, &whole));
    *out = (double)whole; /* exact: no range goes beyond 2^53 */
    return OCT_OK;
}

/* How far `given` is from `name` (optimal string alignment: letters inserted, left out, replaced or
 * swapped with a neighbour): 0 is equal, '-' and '_' being the same; negative is no resemblance
 * worth a suggestion. */
static int text_distance(const char *given, const char *name) {
    enum { LONGEST = 40 };
    size_t n = strlen(given), m = strlen(name);
    if (n == 0 || n > LONGEST || m > LONGEST) {
        return -1;
    }
    int line[3][LONGEST + 1] = {{0}};
    int *before = line[0], *last = line[1], *now = line[2];
    for (size_t j = 0; j <= m; j++) {
        last[j] = (int)j;
    }
    for (size_t i = 1; i <= n; i++) {
        now[0] = (int)i;
        char a = given[i - 1] == '_' ? '-' : given[i - 1];
        for (size_t j = 1; j <= m; j++) {
            char b = name[j - 1] == '_' ? '-' : name[j - 1];
            int best = last[j - 1] + (a != b);
            best = last[j] + 1 < best ? last[j] + 1 : best;
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            if (i > 1 && j > 1 && given[i - 1] == name[j - 2] && given[i - 2] == name[j - 1] &&
                before[j - 2] + 1 < best) {
                best = before[j - 2] + 1;
            }
            now[j] = best;
        }
        int *swap = before;
        before = last;
        last = now;
        now = swap;
    }
    int distance = last[m];
    if (distance <= 1 + (int)n / 4 && distance < (int)m) {
        return distance;
    }
    /* "--weight" means weight-decay, though many letters are missing. */
    return n >= 2 && n < m && strncmp(given, name, n) == 0 ? LONGEST : -1;
}

/* The choices of a row in one line: "a, b, c". */
static void list_choices(int row, char *out, size_t bytes) {
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; row_choice(row, i); i++) {
        int n = snprintf(out + used, bytes - used, "%s%s", i ? ", " : "", row_choice(row, i));
        if (n < 0 || (size_t)n >= bytes - used) {
            break;
        }
        used += (size_t)n;
    }
}

static oct_status check_choice(int row, const char *value) {
    const char *name = names[row];
    const char *colon = rows[row].registry >= 0 ? strchr(value, ':') : NULL;
    size_t length = colon ? (size_t)(colon - value) : strlen(value);
    struct shown given = shown(value, length);
    const char *nearest = NULL;
    int least = 0;
    for (int i = 0; row_choice(row, i); i++) {
        const char *choice = row_choice(row, i);
        if (strlen(choice) != length || memcmp(choice, value, length) != 0) {
            int distance = text_distance(given.text, choice);
            if (distance >= 0 && (!nearest || distance < least)) {
                nearest = choice;
                least = distance;
            }
            continue;
        }
        const struct oct_plugin *plugin = NULL;
        if (rows[row].registry >= 0) {
            plugin = oct_plugin_at((enum oct_plugin_kind)rows[row].registry, i);
        }
        if (plugin && plugin->unavailable) {
            OCT_FAIL(UNSUPPORTED, "%s is '%s', which is unavailable: %s", name, choice,
                     plugin->unavailable);
        }
        if (colon && !(plugin && plugin->options)) {
            OCT_FAIL(INVALID, "%s is '%s', expected '%s' alone: it takes no options", name,
                     shown(value, strlen(value)).text, choice);
        }
        return OCT_OK;
    }
    char choices[256];
    list_choices(row, choices, sizeof choices);
    OCT_FAIL(INVALID, "%s is '%s', expected one of: %s%s%s%s", name, given.text, choices,
             nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

/* Options after a plug-in's name, of those kinds whose options need nothing else to be read. */
static oct_status check_plugin_options(int row, const char *value) {
    struct oct__recipe recipe;
    struct oct__compression compression;
    struct oct__schedule schedule;
    oct_status status = OCT_OK;
    switch (rows[row].registry) {
    case OCT_PLUGIN_RECIPE:
        status = oct__recipe_read(value, &recipe);
        break;
    case OCT_PLUGIN_COMPRESSOR:
        status = oct__compression_read(value, &compression);
        break;
    case OCT_PLUGIN_PARTITION:
        status = oct__partition_check(value);
        break;
    case OCT_PLUGIN_SCHEDULE:
        status = oct__schedule_read(value, &schedule);
        break;
    default:
        break;
    }
    return status == OCT_OK ? OCT_OK : oct__fail_within(status, "%s ", names[row]);
}

static oct_status check_fault(const char *value) {
    struct oct__fault_plan plan;
    oct_status status = oct__fault_read(value, &plan);
    oct__fault_fini(&plan);
    return status;
}

/* It is shown in tables, on pages and in other programs' files. */
static oct_status check_label(const char *value) {
    const size_t n_bytes = strlen(value);
    uint32_t code;
    for (size_t i = 0, length; i < n_bytes; i += length) {
        length = oct__utf8_read((const unsigned char *)value + i, n_bytes - i, &code);
        if (length == 0) {
            OCT_FAIL(INVALID, "label: byte 0x%02x is not UTF-8", (unsigned char)value[i]);
        }
    }
    return OCT_OK;
}

/* Stores a value that was checked; the text and the typed field change together. */
static oct_status store(struct oct_config *config, int row, const char *value, double number) {
    char *text = NULL;
    OCT_TRY(oct__alloc_text(value, "an option's value", &text));
    oct__free(config->text[row]);
    config->text[row] = text;
    oct__free(config->place[row]);
    config->place[row] = NULL;
    void *field = (char *)config + rows[row].offset;
    switch (rows[row].option.type) {
    case OCT_OPTION_TEXT:
    case OCT_OPTION_CHOICE:
        *(const char **)field = text;
        break;
    case OCT_OPTION_INT:
        *(int64_t *)field = (int64_t)number;
        break;
    case OCT_OPTION_REAL:
        *(double *)field = number;
        break;
    }
    return OCT_OK;
}

static void swap(void *a, void *b, size_t bytes) {
    unsigned char held[sizeof(double) > sizeof(void *) ? sizeof(double) : sizeof(void *)];
    memcpy(held, a, bytes);
    memcpy(a, b, bytes);
    memcpy(b, held, bytes);
}

static size_t field_bytes(int row) {
    switch (rows[row].option.type) {
    case OCT_OPTION_INT:
        return sizeof(int64_t);
    case OCT_OPTION_REAL:
        return sizeof(double);
    default:
        return sizeof(const char *);
    }
}

void oct__config_swap(struct oct_config *config, struct oct_config *from) {
    for (int row = 0; row < OCT__OPTION_COUNT; row++) {
        const size_t offset = rows[row].offset;
        if (strcmp(config->text[row], from->text[row]) != 0) {
            swap(&config->text[row], &from->text[row], sizeof(char *));
            swap((char *)config + offset, (char *)from + offset, field_bytes(row));
        }
        swap(&config->place[row], &from->place[row], sizeof(char *));
        swap(&config->is_set[row], &from->is_set[row], 1);
    }
}

static int is_numeric(int row) {
    return rows[row].option.type == OCT_OPTION_INT || rows[row].option.type == OCT_OPTION_REAL;
}

oct_status oct_config_create(struct oct_config **out) {
    if (!out) {
        OCT_FAIL(INVALID, "oct_config_create: the place is NULL");
    }
    table_ready();
    void *memory = NULL;
    OCT_TRY(oct__alloc(sizeof(struct oct_config), "a configuration", &memory));
    struct oct_config *config = memory;
    oct_status status = OCT_OK;
    for (int row = 0; row < OCT__OPTION_COUNT; row++) {
        const char *value = rows[row].option.fallback;
        double number = 0;
        if (is_numeric(row)) {
            OCT_TRY_TO(out, read_number(&rows[row].option, value, &number));
        }
        /* A default choice is not looked up: in a small build it may be unavailable, which whoever
         * uses it will say. */
        OCT_TRY_TO(out, store(config, row, value, number));
    }
    *out = config;
    return OCT_OK;
out:
    oct_config_destroy(config);
    return status;
}

void oct_config_destroy(struct oct_config *config) {
    if (!config) {
        return;
    }
    for (int row = 0; row < OCT__OPTION_COUNT; row++) {
        oct__free(config->text[row]);
        oct__free(config->place[row]);
    }
    oct__free(config);
}

/* An option that is set, with where. */
static oct_status copy_set(const struct oct_config *config, int row, struct oct_config *copy) {
    OCT_TRY(oct_config_set(copy, names[row], config->text[row]));
    return config->place[row] ? oct__alloc_text(config->place[row], "a place", &copy->place[row])
                              : OCT_OK;
}

oct_status oct_config_copy(const struct oct_config *config, struct oct_config **out) {
    if (!config || !out) {
        OCT_FAIL(INVALID, "oct_config_copy: the %s is NULL", !config ? "configuration" : "place");
    }
    struct oct_config *copy;
    OCT_TRY(oct_config_create(&copy));
    for (int row = 0; row < OCT__OPTION_COUNT; row++) {
        oct_status status = config->is_set[row] ? copy_set(config, row, copy) : OCT_OK;
        if (status != OCT_OK) {
            oct_config_destroy(copy);
            return status;
        }
    }
    *out = copy;
    return OCT_OK;
}

/* An option that is not at its default although the precision gives it no meaning; -1: none. */
static int meaningless(const struct oct_config *config) {
    static const enum oct__option_index of_int8[] = {OCT__OPTION_precision_recipe,
                                                     OCT__OPTION_activation_rounding};
    for (size_t i = 0; i < OCT_COUNT_OF(of_int8) && !oct__config_is_int8(config); i++) {
        if (strcmp(config->text[of_int8[i]], rows[of_int8[i]].option.fallback) != 0) {
            return (int)of_int8[i];
        }
    }
    const int is_elsewhere = strcmp(config->engine, "sim") != 0 &&
                             strcmp(config->engine, rows[OCT__OPTION_engine].option.fallback) != 0;
    return is_elsewhere && strcmp(config->precision, "int8-sim") == 0 ? OCT__OPTION_engine : -1;
}

oct_status oct__config_check_precision(const struct oct_config *config) {
    const int row = meaningless(config);
    if (row >= 0) {
        OCT_FAIL(
            INVALID, "%s is '%s', but precision is '%s', which %s; leave one of them out",
            names[row], shown(config->text[row], strlen(config->text[row])).text, config->precision,
            row == OCT__OPTION_engine ? "is computed by the engine 'sim'" : "quantizes nothing");
    }
    return OCT_OK;
}

oct_status oct__config_drop(struct oct_config *config, const struct oct_config *given) {
    for (int row; (row = meaningless(config)) >= 0 && !(given && given->is_set[row]);) {
        /* they are texts, all of them */
        OCT_TRY(store(config, row, rows[row].option.fallback, 0));
        config->is_set[row] = 0;
    }
    return OCT_OK;
}

oct_status oct_config_recast(const struct oct_config *config, const char *precision,
                             struct oct_config **out) {
    struct oct_config *copy;
    if (!out) {
        OCT_FAIL(INVALID, "oct_config_recast: the place is NULL");
    }
    OCT_TRY(oct_config_copy(config, &copy));
    oct_status status = oct_config_set(copy, "precision", precision);
    if (status == OCT_OK) {
        status = oct__config_drop(copy, NULL);
    }
    if (status != OCT_OK) {
        oct_config_destroy(copy);
        return status;
    }
    *out = copy;
    return OCT_OK;
}

static oct_status fail_unknown(const char *name) {
    const char *nearest = NULL;
    int least = 0;
    for (int i = 0; i < OCT__OPTION_COUNT; i++) {
        int distance = text_distance(name, names[i]);
        if (distance >= 0 && (!nearest || distance < least)) {
            nearest = names[i];
            least = distance;
        }
    }
    OCT_FAIL(NOT_FOUND, "'%s' is no option%s%s%s", shown(name, strlen(name)).text,
             nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

/* "skew: 0.8" is short for "partition: skew:0.8", and is complained about as skew. */
static oct_status set_skew(struct oct_config *config, const char *value) {
    double number;
    char text[80];
    OCT_TRY(oct__spec_real("skew", value, 0, 1, &number));
    snprintf(text, sizeof text, "skew:%s", value);
    return oct_config_set(config, "partition", text);
}

oct_status oct_config_set(struct oct_config *config, const char *name, const char *value) {
    if (!config || !name || !value) {
        OCT_FAIL(INVALID, "oct_config_set: the %s is NULL",
                 !config ? "configuration" : (!name ? "name" : "value"));
    }
    if (same_name(name, "skew")) {
        return set_skew(config, value);
    }
    int row = row_find(name);
    if (row < 0) {
        return fail_unknown(name);
    }
    double number = 0;
    if (is_numeric(row)) {
        OCT_TRY(read_number(&rows[row].option, value, &number));
    } else if (rows[row].option.type == OCT_OPTION_CHOICE) {
        OCT_TRY(check_choice(row, value));
        OCT_TRY(check_plugin_options(row, value));
    } else if (row == OCT__OPTION_fault) {
        OCT_TRY(check_fault(value));
    } else if (row == OCT__OPTION_label) {
        OCT_TRY(check_label(value));
    }
    OCT_TRY(store(config, row, value, number));
    config->is_set[row] = 1;
    return OCT_OK;
}

int oct_option_is_incidental(const char *name) {
    static const enum oct__option_index incidental[] = {
        OCT__OPTION_threads,    OCT__OPTION_checkpoint, OCT__OPTION_every,     OCT__OPTION_resume,
        OCT__OPTION_db,         OCT__OPTION_eval_nodes, OCT__OPTION_transport, OCT__OPTION_data_dir,
        OCT__OPTION_test_every, OCT__OPTION_label,      OCT__OPTION_strict,    OCT__OPTION_record,
    };
    int row = row_find(name);
    for (size_t i = 0; i < OCT_COUNT_OF(incidental); i++) {
        if ((int)incidental[i] == row) {
            return 1;
        }
    }
    return 0;
}

/* What runs side by side may each have their own, besides what is incidental: nothing that a
 * launch of all of them depends on. */
static int is_own(int row) {
    static const enum oct__option_index own[] = {
        OCT__OPTION_seed,
        OCT__OPTION_partition,
        OCT__OPTION_topology,
        OCT__OPTION_weights,
        OCT__OPTION_graph_hold,
        OCT__OPTION_algorithm,
        OCT__OPTION_compress,
        OCT__OPTION_gamma,
        OCT__OPTION_final_gossip,
        OCT__OPTION_fault,
        OCT__OPTION_compensation_rounds,
        OCT__OPTION_final_statistics,
    };
    for (size_t i = 0; i < OCT_COUNT_OF(own); i++) {
        if ((int)own[i] == row) {
            return 1;
        }
    }
    return 0;
}

/* Of what is incidental: they have one dataset, one clock, one pool of threads, and one way to
 * talk. */
static int is_shared(int row) {
    return row == OCT__OPTION_data_dir || row == OCT__OPTION_threads ||
           row == OCT__OPTION_transport || row == OCT__OPTION_every;
}

int oct__option_same(const struct oct_option *option, const char *a, const char *b) {
    double x, y;
    if (strcmp(a, b) == 0) {
        return 1;
    }
    return (option->type == OCT_OPTION_INT || option->type == OCT_OPTION_REAL) &&
           oct__spec_real(option->name, a, option->least, option->most, &x) == OCT_OK &&
           oct__spec_real(option->name, b, option->least, option->most, &y) == OCT_OK && x == y;
}

static oct_status differ(const char *name, const char *a, const char *b) {
    OCT_FAIL(INVALID, "%s is '%s' in one run and '%s' in the other: side by side all have the same",
             name, a, b);
}

static oct_status fits(const struct oct_config *a, const struct oct_config *b, int row) {
    const struct oct_option *option = &rows[row].option;
    const char *one = oct_config_get(a, option->name), *other = oct_config_get(b, option->name);
    return oct__option_same(option, one, other) ? OCT_OK : differ(option->name, one, other);
}

/* By itself it follows from the rest, by an experiment on the graph. */
static oct_status momentum_fits(const struct oct_config *a, const struct oct_config *b,
                                const char **momentum) {
    const char *other;
    OCT_TRY(oct__config_momentum(a, momentum));
    OCT_TRY(oct__config_momentum(b, &other));
    return strcmp(*momentum, other) == 0 ? OCT_OK : differ("momentum", *momentum, other);
}

/* A step ends alike: with quasi-global momentum in any case, else with push-sum weights or without.
 */
static oct_status weights_fit(const struct oct_config *a, const struct oct_config *b,
                              const char *momentum) {
    const struct oct_algorithm_kind *one, *other;
    OCT_TRY(oct__algorithm_find(a->algorithm, &one));
    OCT_TRY(oct__algorithm_find(b->algorithm, &other));
    if (strcmp(momentum, "qgm") != 0 && !one->is_push_sum != !other->is_push_sum) {
        OCT_FAIL(INVALID,
                 "algorithm is '%s' in one run and '%s' in the other: side by side all have "
                 "push-sum weights or none has",
                 a->algorithm, b->algorithm);
    }
    return OCT_OK;
}

oct_status oct_config_fits(const struct oct_config *a, const struct oct_config *b) {
    const char *momentum;
    if (!a || !b) {
        OCT_FAIL(INVALID, "oct_config_fits: a configuration is NULL");
    }
    OCT_TRY(fits(a, b, OCT__OPTION_precision)); /* others follow from it */
    for (int row = 0; row < OCT__OPTION_COUNT; row++) {
        const int counts = !oct_option_is_incidental(rows[row].option.name) || is_shared(row);
        if (counts && !is_own(row) && row != OCT__OPTION_momentum) {
            OCT_TRY(fits(a, b, row));
        }
    }
    OCT_TRY(momentum_fits(a, b, &momentum));
    return weights_fit(a, b, momentum);
}

const char *oct_option_before(const struct oct_option *option) {
    const int row = option ? row_find(option->name) : -1;
    return row < 0 ? NULL : row == OCT__OPTION_final_statistics ? "own" : option->fallback;
}

int oct__config_is_int8(const struct oct_config *config) {
    return strncmp(config->precision, "int8", 4) == 0;
}

const char *oct__config_norm(const struct oct_config *config) {
    if (config->norm[0]) {
        return config->norm;
    }
    return oct__config_is_int8(config) ? "range-evonorm" : "evonorm-s0";
}

/* What is wrong with the options is said by whoever sets the run up. */
static const char *momentum_of(const struct oct_config *config) {
    char detail[OCT_DETAIL_BYTES];
    const char *momentum;
    oct__detail_take(detail);
    oct_status status = oct__config_momentum(config, &momentum);
    oct__detail_give(detail);
    return status == OCT_OK ? momentum : config->momentum;
}

double oct_config_gamma(const struct oct_config *config) {
    char detail[OCT_DETAIL_BYTES];
    double gamma = 0;
    oct__detail_take(detail);
    oct_status status = config ? oct__config_gamma(config, &gamma) : OCT_STATUS_INVALID;
    oct__detail_give(detail);
    return status == OCT_OK ? gamma : 0;
}

const char *oct_config_get(const struct oct_config *config, const char *name) {
    int row = row_find(name);
    if (!config || row < 0) {
        return NULL;
    }
    switch (row) {
    case OCT__OPTION_norm:
        return oct__config_norm(config);
    case OCT__OPTION_momentum:
        return momentum_of(config);
    default:
        return config->text[row];
    }
}

int oct_config_is_set(const struct oct_config *config, const char *name) {
    int row = row_find(name);
    return config && row >= 0 && config->is_set[row];
}

oct_status oct__config_topology(const struct oct_config *config, struct oct_topology **out) {
    const struct oct_topology_options options = {
        .name = config->topology,
        .weights = config->weights[0] ? config->weights : NULL,
        .n_nodes = (int)config->nodes,
        .hold = (int)config->graph_hold,
        .seed = (uint64_t)config->seed,
    };
    return oct_topology_create(&options, out);
}
