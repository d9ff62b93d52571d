/* SPDX-License-Identifier: Apache-2.0 */
/* place.c - which line of a run file a failure is about.
 *
 * What is wrong with a value by itself is found while the file is read, at its line. What is wrong
 * with several together is found when the run is set up, by whoever needs them, and nobody there
 * knows of files. But messages about options begin with an option's name ("slow-momentum goes with
 * …") or with that of the plug-in it chose ("torus: 7 nodes make no grid …"), and some name others
 * further on. So the first of them that a file has set says where to look.
 */
#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "train/config.h"

oct_status oct__config_place(struct oct_config *config, int row, const char *file, size_t line) {
    struct oct__text text = {0};
    OCT_TRY(oct__text_add(&text, "%s:%zu", file, line));
    oct__free(config->place[row]);
    config->place[row] = text.at;
    return OCT_OK;
}

struct word {
    const char *at;
    size_t length;
};

/* Of names, and of paths, which are no names. */
static int is_in_words(char c) {
    return isalnum((unsigned char)c) || c == '-' || c == '_' || c == '/' || c == '.';
}

/* The next word after `word`; of length 0 at the end of the text. */
static struct word next(struct word word) {
    const char *at = word.at + word.length;
    while (*at && (!is_in_words(*at) || *at == '-')) { /* "--weights" is weights */
        at++;
    }
    struct word found = {at, 0};
    while (is_in_words(at[found.length])) {
        found.length++;
    }
    return found;
}

static int is_word(struct word word, const char *text, size_t length) {
    return length == word.length && strncmp(word.at, text, length) == 0;
}

/* Whether a message that begins with this word is about the plug-in that an option chose. */
static int is_choice(const struct oct_option *option, const char *value, struct word word) {
    return option->type == OCT_OPTION_CHOICE && word.at[word.length] == ':' &&
           is_word(word, value, strcspn(value, ":"));
}

/* Further on in a message most names of options are words as any other: nodes, data, every. */
static int is_unmistakable(const char *name) {
    static const char *const others[] = {"algorithm", "momentum", "precision", "topology"};
    for (size_t i = 0; i < OCT_COUNT_OF(others); i++) {
        if (strcmp(name, others[i]) == 0) {
            return 1;
        }
    }
    return strchr(name, '-') != NULL;
}

/* Where a file set the option that a word names; NULL: it names none, or no file did. */
static const char *place_of(const struct oct_config *config, struct word word, int is_first) {
    const struct oct_option *option;
    for (int row = 0; (option = oct_option_at(row)) != NULL; row++) {
        const int is_name = is_word(word, option->name, strlen(option->name)) ||
                            (row == OCT__OPTION_partition && is_word(word, "skew", 4));
        const int is_it = is_first ? is_name || is_choice(option, config->text[row], word)
                                   : is_name && is_unmistakable(option->name);
        if (config->place[row] && is_it) {
            return config->place[row];
        }
    }
    return NULL;
}

oct_status oct_config_locate(const struct oct_config *config, oct_status status) {
    if (!config || (status != OCT_STATUS_INVALID && status != OCT_STATUS_UNSUPPORTED)) {
        return status;
    }
    const struct word before = {oct_last_error(), 0}, first = next(before);
    for (int row = 0; row < OCT__OPTION_COUNT; row++) {
        const char *place = config->place[row];
        if (place && strncmp(before.at, place, strlen(place)) == 0) {
            return status; /* it has been told */
        }
    }
    for (struct word word = first; word.length > 0; word = next(word)) {
        const char *place = place_of(config, word, word.at == first.at);
        if (place) {
            return oct__fail_within(status, "%s: ", place);
        }
    }
    return status;
}
