/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_runfile.c - run files: refused whole and by line, or taken whole. */
#include "fuzz.h"

#include <string.h>

#include "train/runfile.h"

/* Whether the option's value is there to be read. Momentum that nobody has set is found by an experiment on
 * the graph, for which a thousand nodes need half a minute here, and eight as long as a hundred files. */
static int is_at_hand(const struct oct_config *config, const struct oct_option *option) {
    return strcmp(option->name, "momentum") != 0 || oct_config_is_set(config, option->name);
}

/* Every value of `config` can be set again, so nothing half-read got in. */
static void check_values(const struct oct_config *config) {
    struct oct_config *again = NULL;
    FUZZ_CHECK(oct_config_copy(config, &again) == OCT_OK);
    const struct oct_option *option;
    for (int i = 0; (option = oct_option_at(i)) != NULL; i++) {
        if (!is_at_hand(config, option)) {
            FUZZ_CHECK(!oct_config_is_set(again, option->name));
            continue;
        }
        const char *value = oct_config_get(config, option->name);
        FUZZ_CHECK(strcmp(oct_config_get(again, option->name), value) == 0);
        FUZZ_CHECK(!strpbrk(value, "\n\r\t\x1b"));
    }
    oct_config_destroy(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    struct oct_config *config = NULL, *plain = NULL;
    FUZZ_CHECK(oct_config_create(&config) == OCT_OK &&
               oct_config_set(config, "lr", "0.5") == OCT_OK);
    FUZZ_CHECK(oct_config_copy(config, &plain) == OCT_OK);
    oct_status status = oct__runfile_parse("f", bytes, n_bytes, config);
    FUZZ_CHECK(strcmp(oct_config_get(config, "lr"), "0.5") == 0);
    if (status == OCT_OK) {
        FUZZ_CHECK(n_bytes <= OCT_RUNFILE_MOST_BYTES && !memchr(bytes, '\0', n_bytes));
        check_values(config);
    } else if (status == OCT_STATUS_INVALID) {
        size_t n_lines = 1;
        for (size_t i = 0; i + 1 < n_bytes; i++) { /* a last one ends the last line */
            n_lines += bytes[i] == '\n';
        }
        const char *message = oct_last_error();
        char *end = NULL;
        FUZZ_CHECK(strncmp(message, "f:", 2) == 0);
        unsigned long line = strtoul(message + 2, &end, 10);
        FUZZ_CHECK(strncmp(end, ": ", 2) == 0 && line >= 1 && line <= n_lines);
    } else {
        FUZZ_CHECK(status == OCT_STATUS_UNSUPPORTED);
    }
    const struct oct_option *option;
    for (int i = 0; status != OCT_OK && (option = oct_option_at(i)) != NULL; i++) {
        FUZZ_CHECK(oct_config_is_set(config, option->name) ==
                   oct_config_is_set(plain, option->name));
        FUZZ_CHECK(!is_at_hand(config, option) || strcmp(oct_config_get(config, option->name),
                                                         oct_config_get(plain, option->name)) == 0);
    }
    oct_config_destroy(config);
    oct_config_destroy(plain);
    return 0;
}
