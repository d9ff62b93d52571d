/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_spec.c - "name:options" texts and numbers; texts of several (option fault). */
#include "fuzz.h"

#include <string.h>

#include "base/spec.h"
#include "train/fault.h"

struct values {
    int64_t count;
    double rate;
    int kind;
};

static const char *const kinds[] = {"f32", "bf16", "int8", NULL};

static const struct oct__spec_option table[] = {
    {"count", OCT_SPEC_INT, offsetof(struct values, count), -5, 1000, NULL},
    {"drop-rate", OCT_SPEC_REAL, offsetof(struct values, rate), -1, 1, NULL},
    {"values", OCT_SPEC_CHOICE, offsetof(struct values, kind), 0, 0, kinds},
    {NULL, OCT_SPEC_INT, 0, 0, 0, NULL},
};

static void try_faults(const char *text) {
    struct oct__fault_plan plan;
    if (oct__fault_read(text, &plan) == OCT_OK) {
        FUZZ_CHECK(plan.drop >= 0 && plan.drop <= 1 && plan.delay_rounds >= 1);
        for (size_t i = 0; i < plan.n_crashes; i++) {
            FUZZ_CHECK(plan.crashes[i].step >= 0 && plan.crashes[i].back > plan.crashes[i].step);
            FUZZ_CHECK(i == 0 || plan.crashes[i].step >= plan.crashes[i - 1].step);
        }
    }
    oct__fault_fini(&plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    char *text = malloc(n_bytes + 1);
    if (!text) {
        return 0;
    }
    memcpy(text, bytes, n_bytes);
    text[n_bytes] = '\0';
    char name[OCT_SPEC_NAME];
    const char *options = NULL;
    if (oct__spec_split(text, name, &options) == OCT_OK) {
        FUZZ_CHECK(strlen(name) > 0 && strlen(name) < sizeof name);
        FUZZ_CHECK(strncmp(name, text, strlen(name)) == 0);
        struct values values = {.count = 7, .rate = 0.5, .kind = 1};
        if (oct__spec_read(name, options, table, &values) == OCT_OK) {
            FUZZ_CHECK(values.count >= -5 && values.count <= 1000);
            FUZZ_CHECK(values.rate >= -1 && values.rate <= 1);
            FUZZ_CHECK(values.kind >= 0 && values.kind < 3);
        } else {
            FUZZ_CHECK(values.count == 7 && values.rate == 0.5 && values.kind == 1);
        }
    }
    try_faults(text);
    int64_t whole;
    double real;
    if (oct__spec_int("n", text, -1000000, 1000000, &whole) == OCT_OK) {
        char *end;
        FUZZ_CHECK(strtoll(text, &end, 10) == whole && *end == '\0');
        FUZZ_CHECK(oct__spec_real("n", text, -1e6, 1e6, &real) == OCT_OK && real == (double)whole);
    }
    if (oct__spec_real("x", text, -1e300, 1e300, &real) == OCT_OK) {
        char *end;
        FUZZ_CHECK(strtod(text, &end) == real && *end == '\0');
        FUZZ_CHECK(!strpbrk(text, "xXnNiIpP ,"));
    }
    free(text);
    return 0;
}
