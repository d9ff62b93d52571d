/* SPDX-License-Identifier: Apache-2.0 */
/* json.c - the only file that knows jansson: objects are built by key and printed once.
 *
 * Nothing here reports a failure where it happens: the one thing that can go wrong is memory, and
 * then the object is not printed at all.
 */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef OCT_HAVE_JANSSON

#include <jansson.h>

static int failed;

static struct cli_json *made(json_t *value) {
    failed |= value == NULL;
    return (struct cli_json *)value;
}

static json_t *inside(struct cli_json *json) {
    return (json_t *)json;
}

int cli_json_available(void) {
    return 1;
}

struct cli_json *cli_json_object(void) {
    return made(json_object());
}

struct cli_json *cli_json_array(void) {
    return made(json_array());
}

/* JSON is UTF-8, a path need not be: bytes that are not are replaced. */
static json_t *text_value(const char *text) {
    if (!text) {
        return json_null();
    }
    json_t *value = json_string(text);
    if (value) {
        return value;
    }
    size_t length = strlen(text);
    char *copy = cli_alloc(length + 1);
    for (size_t i = 0; i <= length; i++) {
        copy[i] = (unsigned char)text[i] < 0x80 ? text[i] : '?';
    }
    value = json_string(copy);
    free(copy);
    return value;
}

static void put(struct cli_json *object, const char *key, json_t *value) {
    failed |= value == NULL || json_object_set_new(inside(object), key, value) != 0;
}

void cli_json_text(struct cli_json *object, const char *key, const char *value) {
    put(object, key, text_value(value));
}

void cli_json_real(struct cli_json *object, const char *key, double value) {
    put(object, key, isfinite(value) ? json_real(value) : json_null());
}

void cli_json_int(struct cli_json *object, const char *key, int64_t value) {
    put(object, key, json_integer((json_int_t)value));
}

void cli_json_flag(struct cli_json *object, const char *key, int value) {
    put(object, key, value ? json_true() : json_false());
}

void cli_json_put(struct cli_json *object, const char *key, struct cli_json *child) {
    put(object, key, inside(child));
}

void cli_json_add(struct cli_json *array, struct cli_json *child) {
    failed |= !child || json_array_append_new(inside(array), inside(child)) != 0;
}

void cli_json_add_text(struct cli_json *array, const char *value) {
    failed |= json_array_append_new(inside(array), text_value(value)) != 0;
}

void cli_json_add_int(struct cli_json *array, int64_t value) {
    failed |= json_array_append_new(inside(array), json_integer((json_int_t)value)) != 0;
}

void cli_json_add_real(struct cli_json *array, double value) {
    json_t *number = isfinite(value) ? json_real(value) : json_null();
    failed |= json_array_append_new(inside(array), number) != 0;
}

void cli_json_destroy(struct cli_json *json) {
    json_decref(inside(json));
}

int cli_json_print(struct cli_json *object) {
    json_t *root = json_object();
    json_t *rest = inside(object);
    failed |= !root || json_object_set_new(root, "schema", json_integer(1)) != 0 ||
              json_object_update(root, rest) != 0;
    /* 15 digits: what a double surely holds, so 0.1 is printed as 0.1. */
    char *text = failed ? NULL : json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    json_decref(rest);
    json_decref(root);
    if (!text) {
        fprintf(stderr, "octet: no memory for the JSON object\n");
        return CLI_FAILED;
    }
    puts(text);
    free(text);
    return CLI_DONE;
}

#else

/* --json is refused before any of these is called; they exist so that callers need no #ifdef. */

int cli_json_available(void) {
    return 0;
}

struct cli_json *cli_json_object(void) {
    return NULL;
}

struct cli_json *cli_json_array(void) {
    return NULL;
}

void cli_json_text(struct cli_json *object, const char *key, const char *value) {
    (void)object, (void)key, (void)value;
}

void cli_json_real(struct cli_json *object, const char *key, double value) {
    (void)object, (void)key, (void)value;
}

void cli_json_int(struct cli_json *object, const char *key, int64_t value) {
    (void)object, (void)key, (void)value;
}

void cli_json_flag(struct cli_json *object, const char *key, int value) {
    (void)object, (void)key, (void)value;
}

void cli_json_put(struct cli_json *object, const char *key, struct cli_json *child) {
    (void)object, (void)key, (void)child;
}

void cli_json_add(struct cli_json *array, struct cli_json *child) {
    (void)array, (void)child;
}

void cli_json_add_text(struct cli_json *array, const char *value) {
    (void)array, (void)value;
}

void cli_json_add_int(struct cli_json *array, int64_t value) {
    (void)array, (void)value;
}

void cli_json_add_real(struct cli_json *array, double value) {
    (void)array, (void)value;
}

void cli_json_destroy(struct cli_json *json) {
    (void)json;
}

int cli_json_print(struct cli_json *object) {
    (void)object;
    return CLI_FAILED;
}

#endif

void cli_json_option(struct cli_json *object, const char *name, const char *value) {
    const struct oct_option *option = oct_option_find(name);
    char key[64];
    snprintf(key, sizeof key, "%s", name);
    for (char *c = key; *c; c++) {
        *c = *c == '-' ? '_' : *c;
    }
    if (option && option->type == OCT_OPTION_INT) {
        cli_json_int(object, key, strtoll(value, NULL, 10));
    } else if (option && option->type == OCT_OPTION_REAL) {
        cli_json_real(object, key, strtod(value, NULL));
    } else {
        cli_json_text(object, key, value);
    }
}

struct cli_json *cli_json_config(const struct oct_config *config) {
    struct cli_json *object = cli_json_object();
    const struct oct_option *option;
    char gamma[32]; /* in as many digits as it has on record */
    snprintf(gamma, sizeof gamma, "%.6g", oct_config_gamma(config));
    for (int i = 0; (option = oct_option_at(i)) != NULL; i++) {
        const char *value = oct_config_get(config, option->name);
        const int is_derived = strcmp(option->name, "gamma") == 0 && strtod(value, NULL) == 0;
        cli_json_option(object, option->name, is_derived ? gamma : value);
    }
    return object;
}
