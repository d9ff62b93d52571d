/* SPDX-License-Identifier: Apache-2.0 */
/* spec.c - "name:options" texts and the numbers in them.
 *
 * Numbers are first held against a grammar written out here and only then given to the C library,
 * which would also take "nan", " 8", "0x10" and, in some locales, "0,8".
 */
#include "base/spec.h"

#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static const char *skip_digits(const char *at) {
    while (is_digit(*at)) {
        at++;
    }
    return at;
}

/* How much of an unusable text an error message shows. */
#define SHOWN 48

oct_status oct__spec_int(const char *what, const char *text, int64_t least, int64_t most,
                         int64_t *out) {
    const char *at = text;
    bool negative = *at == '-';
    at += negative;
    bool fits = is_digit(*at);
    uint64_t size = 0;
    for (; is_digit(*at) && fits; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        fits = size <= ((uint64_t)INT64_MAX - digit) / 10;
        size = fits ? size * 10 + digit : size;
    }
    int64_t value = negative ? -(int64_t)size : (int64_t)size;
    if (!fits || *at != '\0' || value < least || value > most) {
        OCT_FAIL(INVALID, "%s is '%.*s', expected a whole number from %lld to %lld", what, SHOWN,
                 text, (long long)least, (long long)most);
    }
    *out = value;
    return OCT_OK;
}

/* -? ( digits [. digits*] | . digits ) [ e [+-] digits ] */
static bool is_real(const char *text) {
    const char *at = text + (*text == '-');
    const char *whole = at;
    at = skip_digits(at);
    size_t n_digits = (size_t)(at - whole);
    if (*at == '.') {
        const char *fraction = ++at;
        at = skip_digits(at);
        n_digits += (size_t)(at - fraction);
    }
    if (n_digits == 0) {
        return false;
    }
    if (*at == 'e' || *at == 'E') {
        at++;
        at += *at == '+' || *at == '-';
        if (!is_digit(*at)) {
            return false;
        }
        at = skip_digits(at);
    }
    return *at == '\0';
}

/* strtod in the C locale: the calling program may have chosen one whose decimal point is a comma.
 */
static bool convert(const char *text, double *out) {
    locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (plain == (locale_t)0) {
        return false;
    }
    locale_t before = uselocale(plain);
    char *end;
    *out = strtod(text, &end);
    uselocale(before);
    freelocale(plain);
    return *end == '\0';
}

oct_status oct__spec_real(const char *what, const char *text, double least, double most,
                          double *out) {
    double value = 0;
    if (!is_real(text) || !convert(text, &value) || !(value >= least && value <= most)) {
        OCT_FAIL(INVALID, "%s is '%.*s', expected a number from %g to %g", what, SHOWN, text, least,
                 most);
    }
    *out = value;
    return OCT_OK;
}

static bool is_name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '-' ||
           c == '_' || c == '.';
}

oct_status oct__spec_split(const char *spec, char name[OCT_SPEC_NAME], const char **options) {
    size_t length = 0;
    while (is_name_char(spec[length])) {
        length++;
    }
    if (length == 0 || length >= OCT_SPEC_NAME || (spec[length] != '\0' && spec[length] != ':')) {
        OCT_FAIL(INVALID, "'%.*s' is no name, expected NAME or NAME:OPTION=VALUE,OPTION=VALUE",
                 SHOWN, spec);
    }
    memcpy(name, spec, length);
    name[length] = '\0';
    *options = spec[length] == ':' ? spec + length + 1 : NULL;
    return OCT_OK;
}

static bool same_key(const char *key, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        int a = key[i] == '_' ? '-' : key[i];
        int b = text[i] == '_' ? '-' : text[i];
        if (a != b) { /* also at the end of a shorter key */
            return false;
        }
    }
    return key[length] == '\0';
}

/* "samples, classes, noise", as far as they fit: for error messages. */
static const char *list_keys(const struct oct__spec_option *table, char *out, size_t out_bytes) {
    size_t used = 0;
    out[0] = '\0';
    for (const struct oct__spec_option *row = table; row->key; row++) {
        int wrote =
            snprintf(out + used, out_bytes - used, "%s%s", row == table ? "" : ", ", row->key);
        if (wrote < 0 || (size_t)wrote >= out_bytes - used) {
            out[used] = '\0';
            break;
        }
        used += (size_t)wrote;
    }
    return out;
}

static oct_status list_choices(const char *what, const char *value, const char *const *choices) {
    char list[200] = "";
    size_t used = 0;
    for (int i = 0; choices[i]; i++) {
        int wrote = snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", choices[i]);
        if (wrote < 0 || (size_t)wrote >= sizeof list - used) {
            list[used] = '\0';
            break;
        }
        used += (size_t)wrote;
    }
    OCT_FAIL(INVALID, "%s is '%.*s', expected one of: %s", what, SHOWN, value, list);
}

/* Checks `value` for `row`, and stores it unless `into` is NULL. */
static oct_status set_option(const char *who, const struct oct__spec_option *row, const char *value,
                             char *into) {
    char what[2 * OCT_SPEC_NAME];
    snprintf(what, sizeof what, "%s: %s", who, row->key);
    if (row->type == OCT_SPEC_INT) {
        int64_t number;
        OCT_TRY(oct__spec_int(what, value, (int64_t)row->least, (int64_t)row->most, &number));
        if (into) {
            memcpy(into + row->offset, &number, sizeof number);
        }
    } else if (row->type == OCT_SPEC_REAL) {
        double number;
        OCT_TRY(oct__spec_real(what, value, row->least, row->most, &number));
        if (into) {
            memcpy(into + row->offset, &number, sizeof number);
        }
    } else if (row->type == OCT_SPEC_TEXT) {
        if (into) {
            memcpy(into + row->offset, value, strlen(value) + 1);
        }
    } else {
        int choice = 0;
        while (row->choices[choice] && strcmp(row->choices[choice], value) != 0) {
            choice++;
        }
        if (!row->choices[choice]) {
            return list_choices(what, value, row->choices);
        }
        if (into) {
            memcpy(into + row->offset, &choice, sizeof choice);
        }
    }
    return OCT_OK;
}

/* One walk over the text: the first with `into` NULL, so that a text with an error in its last
 * option leaves the struct as it was. */
static oct_status walk(const char *who, const char *options, const struct oct__spec_option *table,
                       char *into) {
    char keys[200];
    uint64_t seen = 0; /* bit r: row r of the table was set */
    const char *at = options;
    const bool has_text = table->type == OCT_SPEC_TEXT;
    for (int number = 0;; number++) {
        size_t length = strcspn(at, ",");
        const char *equals = memchr(at, '=', length);
        const struct oct__spec_option *row = table;
        const char *value = at;
        if (equals) {
            while (row->key && !same_key(row->key, at, (size_t)(equals - at))) {
                row++;
            }
            value = equals + 1;
            if (number == 0 && has_text && memchr(at, '/', (size_t)(equals - at))) {
                row = table; /* a path with '=' in it: no option is called so */
                value = at;
            }
        } else if (number > 0) {
            OCT_FAIL(INVALID, "%s: '%.*s' has no option name, expected OPTION=VALUE; options: %s%s",
                     who, (int)(length < SHOWN ? length : SHOWN), at,
                     list_keys(table, keys, sizeof keys),
                     has_text ? "; a path cannot have a comma in it, a link to it helps" : "");
        }
        if (!row->key) {
            size_t shown = equals ? (size_t)(equals - at) : length;
            OCT_FAIL(INVALID, "%s: no option '%.*s'; options: %s", who,
                     (int)(shown < SHOWN ? shown : SHOWN), at, list_keys(table, keys, sizeof keys));
        }
        size_t value_length = (size_t)(at + length - value);
        const size_t most = row->type == OCT_SPEC_TEXT ? OCT_SPEC_TEXT_MOST : OCT_SPEC_VALUE;
        if (value_length == 0 || value_length >= most) {
            OCT_FAIL(INVALID, "%s: %s has %s, expected %s=VALUE", who, row->key,
                     value_length == 0 ? "no value" : "too long a value", row->key);
        }
        uint64_t bit = (uint64_t)1 << ((row - table) & 63);
        if (seen & bit) {
            OCT_FAIL(INVALID, "%s: %s is given twice", who, row->key);
        }
        seen |= bit;
        char copy[OCT_SPEC_TEXT_MOST];
        memcpy(copy, value, value_length);
        copy[value_length] = '\0';
        OCT_TRY(set_option(who, row, copy, into));
        if (at[length] == '\0') {
            return OCT_OK;
        }
        at += length + 1;
    }
}

oct_status oct__spec_read(const char *who, const char *options,
                          const struct oct__spec_option *table, void *into) {
    if (!options) {
        return OCT_OK;
    }
    OCT_TRY(walk(who, options, table, NULL));
    return walk(who, options, table, into);
}
