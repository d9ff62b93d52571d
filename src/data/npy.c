/* SPDX-License-Identifier: Apache-2.0 */
/* npy.c - your own arrays as NumPy files: one folder, four of them.
 *
 *     train_images.npy  uint8 (n, h, w) or (n, h, w, c)     train_labels.npy  any integers, (n,) or (n, 1)
 *     test_images.npy                                       test_labels.npy
 *
 * or x_train.npy, y_train.npy, x_test.npy, y_test.npy. What NumPy can hold and a dataset cannot
 * (floats, Fortran order, channels first) is refused with the line of Python that changes it: the
 * file does not say what range its floats have or which of its axes are channels, and a guess that
 * is wrong trains without a word.
 */
#include "data/npy.h"

#include <stdio.h>
#include <string.h>

#include "base/little.h"

/* --- the header's text ------------------------------------------------------------------------ */

struct cursor {
    const char *file;
    const char *text;
    size_t n, i;
    size_t base; /* of the text in the file */
};

static oct_status expected(const struct cursor *c, const char *what) {
    if (c->i >= c->n) {
        OCT_FAIL(CORRUPT, "%s: the header's text ends at byte %zu, expected %s", c->file,
                 c->base + c->i, what);
    }
    unsigned char found = (unsigned char)c->text[c->i];
    OCT_FAIL(CORRUPT, "%s: 0x%02x at byte %zu of the header, expected %s", c->file, found,
             c->base + c->i, what);
}

static void skip_space(struct cursor *c) {
    while (c->i < c->n && (c->text[c->i] == ' ' || c->text[c->i] == '\n' || c->text[c->i] == '\t' ||
                           c->text[c->i] == '\r')) {
        c->i++;
    }
}

/* Steps over `symbol` when it comes next. */
static bool take(struct cursor *c, char symbol) {
    skip_space(c);
    if (c->i < c->n && c->text[c->i] == symbol) {
        c->i++;
        return true;
    }
    return false;
}

static bool take_word(struct cursor *c, const char *word) {
    skip_space(c);
    size_t length = strlen(word);
    if (c->n - c->i >= length && memcmp(c->text + c->i, word, length) == 0) {
        c->i += length;
        return true;
    }
    return false;
}

/* 'text' or "text", without escapes. */
static oct_status take_string(struct cursor *c, char out[OCT_NPY_DESCR], const char *what) {
    skip_space(c);
    char quote = c->i < c->n ? c->text[c->i] : '\0';
    if (quote != '\'' && quote != '"') {
        return expected(c, what);
    }
    c->i++;
    size_t length = 0;
    for (; c->i < c->n && c->text[c->i] != quote; c->i++, length++) {
        char letter = c->text[c->i];
        if (letter < ' ' || letter > '~' || letter == '\\' || length + 1 >= OCT_NPY_DESCR) {
            return expected(c, what);
        }
        out[length] = letter;
    }
    if (c->i >= c->n) {
        return expected(c, "the end of a string");
    }
    out[length] = '\0';
    c->i++;
    return OCT_OK;
}

/* A whole number, perhaps with the L of Python 2. */
static oct_status take_size(struct cursor *c, uint64_t *out) {
    skip_space(c);
    size_t begin = c->i;
    uint64_t value = 0;
    for (; c->i < c->n && c->text[c->i] >= '0' && c->text[c->i] <= '9'; c->i++) {
        uint64_t digit = (uint64_t)(c->text[c->i] - '0');
        if (value > (UINT64_MAX - digit) / 10) {
            return expected(c, "a size below 2^64");
        }
        value = value * 10 + digit;
    }
    if (c->i == begin) {
        return expected(c, "a size");
    }
    take(c, 'L');
    *out = value;
    return OCT_OK;
}

/* (), (3,), (3, 4), … : in Python (3) is no tuple. */
static oct_status take_shape(struct cursor *c, struct oct__npy *out) {
    if (!take(c, '(')) {
        return expected(c, "'(' and the shape");
    }
    for (out->n_dims = 0; !take(c, ')'); out->n_dims++) {
        uint64_t size = 0;
        OCT_TRY(take_size(c, &size));
        if (out->n_dims < OCT_ARRAY_DIMS) {
            out->dims[out->n_dims] = size;
        }
        if (take(c, ',')) {
            continue;
        }
        if (out->n_dims == 0 || !take(c, ')')) {
            return expected(c, "',' or ')' in the shape");
        }
        out->n_dims++;
        break;
    }
    return OCT_OK;
}

static const char *const keys[] = {"descr", "fortran_order", "shape"};

static oct_status take_value(struct cursor *c, size_t key, struct oct__npy *out) {
    skip_space(c);
    size_t at = c->base + c->i;
    if (key == 0) {
        out->descr_at = at;
        if (c->i < c->n && c->text[c->i] == '[') { /* a list of fields, of whatever kinds */
            OCT_FAIL(INVALID,
                     "%s: a structured dtype at byte %zu; save one field alone: "
                     "np.save(F, x['FIELD'])",
                     c->file, at);
        }
        return take_string(c, out->descr, "a dtype such as '|u1'");
    }
    if (key == 1) {
        out->order_at = at;
        out->is_fortran = take_word(c, "True");
        return out->is_fortran || take_word(c, "False") ? OCT_OK : expected(c, "True or False");
    }
    out->shape_at = at;
    return take_shape(c, out);
}

oct_status oct__npy_text(const char *file, const char *text, size_t n_text, size_t at,
                         struct oct__npy *out) {
    struct cursor c = {.file = oct__path_shown(file), .text = text, .n = n_text, .base = at};
    memset(out, 0, sizeof *out);
    bool seen[OCT_COUNT_OF(keys)] = {false};
    if (!take(&c, '{')) {
        return expected(&c, "'{' and a dictionary");
    }
    for (bool more = true; !take(&c, '}');) {
        char name[OCT_NPY_DESCR];
        if (!more) {
            return expected(&c, "',' or '}'");
        }
        size_t begin = c.i;
        OCT_TRY(take_string(&c, name, "'descr', 'fortran_order' or 'shape'"));
        size_t key = 0;
        while (key < OCT_COUNT_OF(keys) && (seen[key] || strcmp(keys[key], name) != 0)) {
            key++;
        }
        if (key == OCT_COUNT_OF(keys)) {
            c.i = begin;
            skip_space(&c);
            return expected(&c, "'descr', 'fortran_order' and 'shape', each once");
        }
        seen[key] = true;
        if (!take(&c, ':')) {
            return expected(&c, "':'");
        }
        OCT_TRY(take_value(&c, key, out));
        more = take(&c, ',');
    }
    for (size_t key = 0; key < OCT_COUNT_OF(keys); key++) {
        if (!seen[key]) {
            OCT_FAIL(CORRUPT, "%s: the header at byte %zu has no '%s'", c.file, at, keys[key]);
        }
    }
    skip_space(&c);
    return c.i == c.n ? OCT_OK : expected(&c, "nothing but spaces behind the dictionary");
}

/* --- before the text -------------------------------------------------------------------------- */

oct_status oct__npy_begin(const char *file, const uint8_t *bytes, size_t *n_length) {
    file = oct__path_shown(file);
    if (memcmp(bytes, "PK\003\004", 4) == 0) {
        OCT_FAIL(INVALID,
                 "%s: an archive of np.savez at byte 0; save each array alone: z = np.load(F); "
                 "np.save('train_images', z['x_train']) and so on",
                 file);
    }
    if (memcmp(bytes, "\223NUMPY", 6) != 0) {
        OCT_FAIL(CORRUPT,
                 "%s: begins with %02x %02x %02x %02x %02x %02x at byte 0, not as np.save writes",
                 file, bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5]);
    }
    if (bytes[6] < 1 || bytes[6] > 3 || bytes[7] != 0) {
        OCT_FAIL(CORRUPT, "%s: format version %d.%d at byte 6, expected 1.0, 2.0 or 3.0", file,
                 bytes[6], bytes[7]);
    }
    *n_length = bytes[6] == 1 ? 2 : 4;
    return OCT_OK;
}

oct_status oct__npy_length(const char *file, const uint8_t *bytes, size_t n_length,
                           size_t *n_text) {
    uint64_t length = oct__get_little(bytes, n_length);
    if (length > OCT_NPY_MOST_TEXT) {
        OCT_FAIL(CORRUPT, "%s: a header of %llu bytes at byte %d, expected at most %d",
                 oct__path_shown(file), (unsigned long long)length, OCT_NPY_BEGIN,
                 OCT_NPY_MOST_TEXT);
    }
    *n_text = (size_t)length;
    return OCT_OK;
}

/* --- what can be used -------------------------------------------------------------------------- */

/* A dtype taken apart: "<i8" is order '<', kind 'i', 8 bytes. A kind of 0 is nothing we know. */
struct dtype {
    char order, kind;
    size_t n_bytes;
};

static struct dtype take_apart(const char *descr) {
    struct dtype out = {'|', '\0', 0};
    if (*descr == '<' || *descr == '>' || *descr == '|') {
        out.order = *descr++;
    }
    if (descr[0] != '\0' && descr[1] >= '1' && descr[1] <= '8' && descr[2] == '\0') {
        out.kind = descr[0];
        out.n_bytes = (size_t)(descr[1] - '0');
    } else if (descr[0] == 'f') { /* f16 */
        out.kind = 'f';
    }
    return out;
}

static oct_status check_image_type(const char *file, const struct oct__npy *npy) {
    const struct dtype type = take_apart(npy->descr);
    if (type.kind == 'u' && type.n_bytes == 1) {
        return OCT_OK;
    }
    const char *remedy = "x.astype(np.uint8), with values from 0 to 255";
    if (npy->descr[0] == '|' && npy->descr[1] == 'O') {
        remedy = "np.stack(list(x)).astype(np.uint8), of images of one size";
    } else if (type.kind == 'f') {
        remedy = "(x * 255).round().astype(np.uint8) when 1 is white, x.round().astype(np.uint8) "
                 "when 255 is";
    } else if (type.kind == 'b') {
        remedy = "x.astype(np.uint8) * 255";
    } else if (type.kind == 'u' && type.n_bytes == 2) {
        remedy = "(x >> 8).astype(np.uint8) when 65535 is white, x.astype(np.uint8) when 255 is";
    }
    OCT_FAIL(INVALID, "%s: images of dtype '%s' at byte %zu, expected uint8 ('|u1'); save %s", file,
             npy->descr, npy->descr_at, remedy);
}

static oct_status check_label_type(const char *file, const struct oct__npy *npy,
                                   struct oct__array *out) {
    const struct dtype type = take_apart(npy->descr);
    const size_t n = type.n_bytes;
    if ((type.kind != 'i' && type.kind != 'u') || (n != 1 && n != 2 && n != 4 && n != 8) ||
        (type.order == '|' && n > 1)) {
        const bool is_text = strchr(npy->descr, 'U') || strchr(npy->descr, 'S') ||
                             (npy->descr[0] == '|' && npy->descr[1] == 'O');
        OCT_FAIL(INVALID, "%s: labels of dtype '%s' at byte %zu, expected integers; save %s", file,
                 npy->descr, npy->descr_at,
                 is_text ? "np.unique(y, return_inverse=True)[1]" : "y.astype(np.int64)");
    }
    out->item_bytes = n;
    out->is_signed = type.kind == 'i';
    out->is_big_endian = type.order == '>';
    return OCT_OK;
}

/* "(60000, 28, 28)" */
static const char *shape_text(const struct oct__npy *npy, char out[128]) {
    size_t used = 1;
    out[0] = '(';
    for (int d = 0; d < npy->n_dims && d < OCT_ARRAY_DIMS; d++) {
        used += (size_t)snprintf(out + used, 128 - used, "%s%llu", d ? ", " : "",
                                 (unsigned long long)npy->dims[d]);
    }
    snprintf(out + used, 128 - used, "%s",
             npy->n_dims > OCT_ARRAY_DIMS ? ", ...)"
             : npy->n_dims == 1           ? ",)"
                                          : ")");
    return out;
}

static bool are_channels(uint64_t size) {
    return size >= 1 && size <= OCT_DATA_CHANNELS;
}

static oct_status check_image_shape(const char *file, const struct oct__npy *npy) {
    char shape[128];
    shape_text(npy, shape);
    if (npy->is_fortran) {
        OCT_FAIL(INVALID,
                 "%s: Fortran order at byte %zu, expected C order; save np.ascontiguousarray(x)",
                 file, npy->order_at);
    }
    if (npy->n_dims == 4 && !are_channels(npy->dims[3]) && are_channels(npy->dims[1])) {
        OCT_FAIL(INVALID,
                 "%s: shape %s at byte %zu looks like (n, c, h, w), expected channels last; save "
                 "np.ascontiguousarray(x.transpose(0, 2, 3, 1))",
                 file, shape, npy->shape_at);
    }
    if (npy->n_dims == 4 && !are_channels(npy->dims[3])) {
        OCT_FAIL(INVALID, "%s: shape %s at byte %zu has %llu channels, expected 1 to %d", file,
                 shape, npy->shape_at, (unsigned long long)npy->dims[3], OCT_DATA_CHANNELS);
    }
    if (npy->n_dims != 3 && npy->n_dims != 4) {
        OCT_FAIL(INVALID,
                 "%s: shape %s at byte %zu, expected (n, h, w) or (n, h, w, c); save "
                 "x.reshape(len(x), HEIGHT, WIDTH)",
                 file, shape, npy->shape_at);
    }
    return OCT_OK;
}

static oct_status check_label_shape(const char *file, const struct oct__npy *npy) {
    char shape[128];
    if (npy->n_dims != 1 && !(npy->n_dims == 2 && npy->dims[1] == 1)) {
        OCT_FAIL(INVALID, "%s: shape %s at byte %zu, expected (n,) or (n, 1); save %s", file,
                 shape_text(npy, shape), npy->shape_at,
                 npy->n_dims == 2 ? "y.argmax(1) when a row has a 1 at its class"
                                  : "y.reshape(-1)");
    }
    return OCT_OK;
}

oct_status oct__npy_array(const char *file, const struct oct__npy *npy, enum oct__array_role role,
                          struct oct__array *out) {
    file = oct__path_shown(file);
    *out = (struct oct__array){.item_bytes = 1};
    if (role == OCT_ARRAY_IMAGES) {
        OCT_TRY(check_image_type(file, npy));
        OCT_TRY(check_image_shape(file, npy));
    } else {
        OCT_TRY(check_label_shape(file, npy)); /* one column is the same in either order */
        OCT_TRY(check_label_type(file, npy, out));
    }
    out->n_dims = npy->n_dims;
    memcpy(out->dims, npy->dims, sizeof out->dims);
    if (npy->dims[0] == 0) {
        OCT_FAIL(INVALID, "%s: no samples: shape %s at byte %zu", file,
                 shape_text(npy, (char[128]){""}), npy->shape_at);
    }
    return OCT_OK;
}

/* --- the plug-in ------------------------------------------------------------------------------ */

static oct_status read_header(struct oct__reader *reader, enum oct__array_role role,
                              struct oct__array *out) {
    uint8_t bytes[OCT_NPY_BEGIN + 4];
    size_t n_length, n_text;
    OCT_TRY(oct__array_need(reader, bytes, OCT_NPY_BEGIN));
    OCT_TRY(oct__npy_begin(reader->path, bytes, &n_length));
    OCT_TRY(oct__array_need(reader, bytes, n_length));
    OCT_TRY(oct__npy_length(reader->path, bytes, n_length, &n_text));
    char text[OCT_NPY_MOST_TEXT];
    OCT_TRY(oct__array_need(reader, text, n_text));
    struct oct__npy npy;
    OCT_TRY(oct__npy_text(reader->path, text, n_text, OCT_NPY_BEGIN + n_length, &npy));
    return oct__npy_array(reader->path, &npy, role, out);
}

static const char *const train_images[] = {"train_images.npy", "x_train.npy", NULL};
static const char *const train_labels[] = {"train_labels.npy", "y_train.npy", NULL};
static const char *const test_images[] = {"test_images.npy", "x_test.npy", NULL};
static const char *const test_labels[] = {"test_labels.npy", "y_test.npy", NULL};

static const struct oct__arrays_form form = {
    .names = {{train_images, train_labels}, {test_images, test_labels}},
    .hint = "write it with np.save (an .npz archive cannot be read)",
    .read_header = read_header,
};

static oct_status open_split(const struct oct_dataset_kind *kind, const char *options,
                             const char *folder, enum oct_split split,
                             const struct oct__data_choice *choice, struct oct_dataset **out) {
    (void)folder;
    return oct__arrays_open(kind, &form, options, split, choice, out);
}

const struct oct_dataset_kind oct_dataset_npy = {
    .plugin = {.name = "npy",
               .summary =
                   "your own arrays from NumPy: {train,test}_{images,labels}.npy in a folder",
               .options = OCT_ARRAYS_OPTIONS},
    .locate = oct__arrays_locate,
    .open = open_split,
};
