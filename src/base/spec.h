/* SPDX-License-Identifier: Apache-2.0 */
/* spec.h - texts that name a plug-in and set its options: "topk:0.99,values=int8".
 *
 *     name [ ':' option { ',' option } ]     option = key '=' value, or the first one's value alone
 *
 * A plug-in writes down its options as a table; oct__spec_read fills a struct from the text and
 * refuses everything it does not understand in full, because a half-read option ("8x" as 8, "0,8"
 * as 0) runs the wrong experiment without a word. The two number readers serve every other place
 * where people type numbers.
 */
#ifndef OCT_BASE_SPEC_H
#define OCT_BASE_SPEC_H

#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"

/* Longest name and longest value, NUL included; a text may be longer than other values. */
#define OCT_SPEC_NAME 64
#define OCT_SPEC_VALUE 64
#define OCT_SPEC_TEXT_MOST 1024

/* What a member of the plug-in's struct is. */
enum oct__spec_type {
    OCT_SPEC_INT,    /* int64_t in least … most */
    OCT_SPEC_REAL,   /* double in least … most */
    OCT_SPEC_CHOICE, /* int: the index into `choices` */
    OCT_SPEC_TEXT,   /* char[OCT_SPEC_TEXT_MOST]: a path, say; it cannot have a comma in it */
};

struct oct__spec_option {
    const char *key; /* "samples"; NULL ends the table; the first row may go unnamed */
    enum oct__spec_type type;
    size_t offset;              /* of the member that receives it */
    double least, most;         /* of a number, both allowed */
    const char *const *choices; /* ends with NULL */
};

/* Cuts "name:options" in two. *options points behind the ':' (NULL when there is none). INVALID for
 * a name that is empty, too long or holds anything but letters, digits, '-', '_' and '.'. */
OCT_MUST_CHECK oct_status oct__spec_split(const char *spec, char name[OCT_SPEC_NAME],
                                          const char **options);

/* Reads `options` (NULL: none) into the struct at `into`, which already holds the defaults; on
 * failure it keeps them all. `who` opens the error message. '-' and '_' are the same in a key. */
OCT_MUST_CHECK oct_status oct__spec_read(const char *who, const char *options,
                                         const struct oct__spec_option *table, void *into);

/* A number that takes up the whole text, in least … most; INVALID otherwise, saying what was
 * expected. Digits are those of C whatever the locale; "nan", "inf" and hexadecimal are refused. */
OCT_MUST_CHECK oct_status oct__spec_int(const char *what, const char *text, int64_t least,
                                        int64_t most, int64_t *out);
OCT_MUST_CHECK oct_status oct__spec_real(const char *what, const char *text, double least,
                                         double most, double *out);

#endif
