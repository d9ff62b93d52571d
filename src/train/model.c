/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - model files in floats and in 8 bits; see model.h. */
#include "train/model.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/crc32c.h"
#include "base/spec.h"
#include "base/text.h"
#include "data/data.h"
#include "engine/grid.h"
#include "kernels/kernels.h"
#include "train/safetensors.h"

#define VECTORS "octet.vectors"

static int is_weight(const struct oct__param *p) {
    return p->n_dims > 1;
}

static size_t scales_of(const struct oct__param *p, int by_channel) {
    return !is_weight(p) ? 0 : by_channel ? (size_t)p->n : 1;
}

/* --- the row that an int8 file holds ---------------------------------------------------------- */

/* Its first tensor is VECTORS, the others are the weights, as whole numbers. */
struct packed {
    struct oct__row row;
    float *values;
};

static void packed_fini(struct packed *packed) {
    oct__free(packed->row.items);
    oct__free(packed->values);
}

static oct_status packed_init(const struct oct__row *row, int by_channel, struct packed *packed) {
    void *memory;
    memset(packed, 0, sizeof *packed);
    OCT_TRY(oct__alloc_array(row->n_items + 1, sizeof *packed->row.items, "tensor list", &memory));
    packed->row.items = memory;
    struct oct__param *vectors = &packed->row.items[packed->row.n_items++];
    for (size_t i = 0; i < row->n_items; i++) {
        const struct oct__param *p = &row->items[i];
        vectors->count += is_weight(p) ? scales_of(p, by_channel) : p->count;
        if (is_weight(p)) {
            packed->row.items[packed->row.n_items++] = *p;
        }
    }
    vectors->name = VECTORS;
    vectors->n_dims = 1;
    vectors->n = vectors->h = vectors->w = 1;
    vectors->c = (int)vectors->count;
    for (size_t i = 0; i < packed->row.n_items; i++) {
        packed->row.items[i].offset = packed->row.n_elements;
        packed->row.n_elements += packed->row.items[i].count;
    }
    oct_status status = oct__alloc_array(packed->row.n_elements, sizeof *packed->values,
                                         "parameters of a file", &memory);
    if (status != OCT_OK) {
        packed_fini(packed);
        return status;
    }
    packed->values = memory;
    return OCT_OK;
}

/* A checksum over every tensor's name and shape, as 8 digits. */
static void layout_of(const struct oct__row *row, char out[OCT_METADATA_BYTES]) {
    uint32_t sum = 0;
    for (size_t i = 0; i < row->n_items; i++) {
        const struct oct__param *p = &row->items[i];
        char shape[64];
        int length =
            snprintf(shape, sizeof shape, ":%d,%d,%d,%d,%d\n", p->n_dims, p->n, p->c, p->h, p->w);
        sum = oct__crc32c(sum, p->name, strlen(p->name));
        sum = oct__crc32c(sum, shape, (size_t)length);
    }
    snprintf(out, OCT_METADATA_BYTES, "%08x", sum);
}

/* --- floats to bytes and back ----------------------------------------------------------------- */

/* The weights of one scale, exactly as an engine quantizes them. */
static void pack_group(size_t n, const float *w, int8_t *q, float *scale, float *to) {
    const struct oct__kernels *k = oct__kernels();
    float peak = 0.0F;
    k->absmax_f32(n, w, &peak);
    *scale = oct__symmetric_scale(peak);
    k->quantize_s8_f32(n, w, oct__symmetric_inverse(*scale), q);
    for (size_t i = 0; i < n; i++) {
        to[i] = q[i];
    }
}

static oct_status pack(const struct oct__row *row, const float *values, int by_channel,
                       struct packed *packed) {
    float *scale = packed->values, *vector = packed->values;
    size_t most = 1;
    for (size_t i = 0; i < row->n_items; i++) {
        vector += scales_of(&row->items[i], by_channel);
        most = is_weight(&row->items[i]) && row->items[i].count > most ? row->items[i].count : most;
    }
    void *bytes;
    OCT_TRY(oct__alloc(most, "weights as bytes", &bytes));
    const struct oct__param *weight = packed->row.items + 1;
    for (size_t i = 0; i < row->n_items; i++) {
        const struct oct__param *p = &row->items[i];
        const float *from = values + p->offset;
        if (!is_weight(p)) {
            memcpy(vector, from, p->count * sizeof *from);
            vector += p->count;
            continue;
        }
        const size_t n_scales = scales_of(p, by_channel), n = p->count / n_scales;
        for (size_t s = 0; s < n_scales; s++) {
            pack_group(n, from + s * n, bytes, scale++, packed->values + weight->offset + s * n);
        }
        weight++;
    }
    oct__free(bytes);
    return OCT_OK;
}

/* The largest magnitude that has this scale: 127 times it, or the float beside that which the
 * division by 127 brings back to the same bits. */
static float peak_of(float scale) {
    const float about = 127.0F * scale;
    const float candidates[] = {about, nextafterf(about, 0.0F), nextafterf(about, INFINITY)};
    for (size_t i = 0; i < OCT_COUNT_OF(candidates); i++) {
        if (oct__symmetric_scale(candidates[i]) == scale) {
            return candidates[i];
        }
    }
    return about;
}

static oct_status unpack_group(const char *name, const struct oct__param *p, size_t n,
                               const float *q, float scale, float *to) {
    const float peak = peak_of(scale);
    if (!(scale >= 0.0F) || !isfinite(peak) || (scale > 0.0F && scale < FLT_MIN)) {
        OCT_FAIL(CORRUPT, "%s: a scale of %s in %s is %g, expected 0 or a normal number", name,
                 p->name, VECTORS, (double)scale);
    }
    for (size_t i = 0; i < n; i++) {
        if (q[i] < -127.0F) {
            OCT_FAIL(CORRUPT, "%s: element %zu of a group of %s is -128, expected -127 to 127",
                     name, i, p->name);
        }
        to[i] = q[i] == 127.0F ? peak : q[i] == -127.0F ? -peak : q[i] * scale;
    }
    return OCT_OK;
}

static oct_status unpack(const char *name, const struct packed *packed, int by_channel,
                         const struct oct__row *row, float *values) {
    const float *scale = packed->values, *vector = packed->values;
    const struct oct__param *weight = packed->row.items + 1;
    for (size_t i = 0; i < row->n_items; i++) {
        vector += scales_of(&row->items[i], by_channel);
    }
    for (size_t i = 0; i < row->n_items; i++) {
        const struct oct__param *p = &row->items[i];
        float *to = values + p->offset;
        if (!is_weight(p)) {
            memcpy(to, vector, p->count * sizeof *to);
            vector += p->count;
            continue;
        }
        const size_t n_scales = scales_of(p, by_channel), n = p->count / n_scales;
        for (size_t s = 0; s < n_scales; s++) {
            OCT_TRY(unpack_group(name, p, n, packed->values + weight->offset + s * n, *scale++,
                                 to + s * n));
        }
        weight++;
    }
    return OCT_OK;
}

/* --- files ------------------------------------------------------------------------------------ */

/* A model with a NaN is none: it would be found out wherever it is used. */
static oct_status check_finite(const char *path, const struct oct__row *row, const float *values) {
    for (size_t i = 0; i < row->n_items; i++) {
        const struct oct__param *p = &row->items[i];
        for (size_t k = p->offset; k < p->offset + p->count; k++) {
            if (!isfinite(values[k])) {
                OCT_FAIL(NOT_FINITE, "%s: %s has an element that is %g", path, p->name,
                         fabs((double)values[k]));
            }
        }
    }
    return OCT_OK;
}

oct_status oct__model_save(const char *path, enum oct_model_form form, int by_channel,
                           const char *about, const struct oct__row *row, const float *values) {
    OCT_TRY(check_finite(path, row, values));
    if (form == OCT_MODEL_F32) {
        return oct__safetensors_save_with(path, row, values, about);
    }
    struct packed packed;
    char layout[OCT_METADATA_BYTES], metadata[OCT_MODEL_ABOUT + 256];
    OCT_TRY(packed_init(row, by_channel, &packed));
    oct_status status = pack(row, values, by_channel, &packed);
    if (status == OCT_OK) {
        layout_of(row, layout);
        snprintf(metadata, sizeof metadata,
                 "\"form\":\"int8\",\"scales\":\"%s\",\"layout\":\"%s\"%s%s",
                 by_channel ? "channel" : "tensor", layout, about[0] ? "," : "", about);
        status = oct__safetensors_save_bytes(path, &packed.row, packed.values, metadata);
    }
    packed_fini(&packed);
    return status;
}

static oct_status parse_int8(const char *name, const uint8_t *bytes, size_t n_bytes,
                             const struct oct__row *row, float *values) {
    char scales[OCT_METADATA_BYTES], layout[OCT_METADATA_BYTES], expected[OCT_METADATA_BYTES];
    OCT_TRY(oct__safetensors_metadata(name, bytes, n_bytes, "scales", scales));
    OCT_TRY(oct__safetensors_metadata(name, bytes, n_bytes, "layout", layout));
    const int by_channel = strcmp(scales, "channel") == 0;
    if (!by_channel && strcmp(scales, "tensor") != 0) {
        OCT_FAIL(CORRUPT, "%s: scales are '%s', expected 'tensor' or 'channel'", name, scales);
    }
    layout_of(row, expected);
    if (strcmp(layout, expected) != 0) {
        OCT_FAIL(SHAPE,
                 "%s: its tensors have the layout '%s', this model's '%s'; was it saved from "
                 "another model or norm?",
                 name, layout, expected);
    }
    struct packed packed;
    void *memory = NULL;
    OCT_TRY(packed_init(row, by_channel, &packed));
    oct_status status = OCT_OK;
    OCT_TRY_TO(out, oct__safetensors_parse_bytes(name, bytes, n_bytes, &packed.row, packed.values));
    OCT_TRY_TO(out, oct__alloc_array(row->n_elements, sizeof *values, "parameters", &memory));
    OCT_TRY_TO(out, unpack(name, &packed, by_channel, row, memory));
    memcpy(values, memory, row->n_elements * sizeof *values);
out:
    oct__free(memory);
    packed_fini(&packed);
    return status;
}

oct_status oct__model_parse(const char *name, const uint8_t *bytes, size_t n_bytes,
                            const struct oct__row *row, float *values) {
    char form[OCT_METADATA_BYTES];
    OCT_TRY(oct__safetensors_metadata(name, bytes, n_bytes, "form", form));
    if (form[0] && strcmp(form, "int8") != 0) {
        OCT_FAIL(UNSUPPORTED, "%s: a file of the form '%s'; this version knows int8, and F32 alone",
                 name, form);
    }
    return form[0] ? parse_int8(name, bytes, n_bytes, row, values)
                   : oct__safetensors_parse(name, bytes, n_bytes, row, values);
}

oct_status oct__model_read(const char *name, const uint8_t *bytes, size_t n_bytes,
                           const struct oct__row *row, float *values) {
    OCT_TRY(oct__model_parse(name, bytes, n_bytes, row, values));
    return check_finite(name, row, values);
}

oct_status oct__model_load(const char *path, const struct oct__row *row, float *values) {
    uint8_t *bytes;
    size_t n_bytes;
    OCT_TRY(oct__safetensors_read(path, &bytes, &n_bytes));
    oct_status status = oct__model_read(path, bytes, n_bytes, row, values);
    oct__free(bytes);
    return status;
}

/* --- what it is a model of -------------------------------------------------------------------- */

/* The CRC-32C of "KEY=VALUE\n" for every pair in its order: the file's own is of its tensors alone, and a
 * mean that has changed is as wrong as a weight. */
#define PAIRS_SUM "network-crc32c"

static uint32_t add_to_sum(uint32_t sum, const char *key, const char *value) {
    sum = oct__crc32c(sum, key, strlen(key));
    sum = oct__crc32c(sum, "=", 1);
    sum = oct__crc32c(sum, value, strlen(value));
    return oct__crc32c(sum, "\n", 1);
}

/* The options that make a network. */
static const enum oct__option_index of_network[] = {
    OCT__OPTION_model,
    OCT__OPTION_norm,
    OCT__OPTION_precision,
    OCT__OPTION_precision_recipe,
    OCT__OPTION_activation_rounding,
};

/* Pairs on their way into a header. */
struct pairs {
    struct oct__text text;
    uint32_t sum;
};

static oct_status add_pair(struct pairs *pairs, const char *key, const char *value) {
    pairs->sum = add_to_sum(pairs->sum, key, value);
    return oct__text_add(&pairs->text, "%s\"%s\":\"%s\"", pairs->text.at ? "," : "", key, value);
}

/* "0.491400003 0.482199997", with C's point whatever the locale. */
static oct_status add_numbers(struct pairs *pairs, const char *key, const float *numbers, int n) {
    char text[OCT_METADATA_BYTES] = "";
    for (int i = 0, at = 0; i < n; i++) {
        at += snprintf(text + at, sizeof text - (size_t)at, "%s%.9g", i ? " " : "",
                       (double)numbers[i]);
    }
    for (char *comma = text; (comma = strchr(comma, ',')) != NULL;) {
        *comma = '.';
    }
    return add_pair(pairs, key, text);
}

static oct_status describe(const struct oct_config *config, const struct oct_dataset *data,
                           struct pairs *pairs) {
    char text[64];
    snprintf(text, sizeof text, "%dx%dx%d", data->height, data->width, data->channels);
    OCT_TRY(add_pair(pairs, "input", text));
    snprintf(text, sizeof text, "%d", data->n_classes);
    OCT_TRY(add_pair(pairs, "classes", text));
    OCT_TRY(add_numbers(pairs, "mean", data->mean, data->channels));
    OCT_TRY(add_numbers(pairs, "deviation", data->deviation, data->channels));
    for (size_t i = 0; i < OCT_COUNT_OF(of_network); i++) {
        const char *name = oct_option_at((int)of_network[i])->name;
        OCT_TRY(add_pair(pairs, name, oct_config_get(config, name)));
    }
    snprintf(text, sizeof text, "%08x", pairs->sum);
    return add_pair(pairs, PAIRS_SUM, text);
}

oct_status oct__model_about(const struct oct_config *config, const struct oct_dataset *data,
                            char out[OCT_MODEL_ABOUT]) {
    struct pairs pairs = {.sum = 0};
    oct_status status = describe(config, data, &pairs);
    const char *text = pairs.text.at;
    const int fits =
        status == OCT_OK && text && pairs.text.n_bytes < OCT_MODEL_ABOUT && !strchr(text, '\\');
    snprintf(out, OCT_MODEL_ABOUT, "%s", fits ? text : ""); /* options of such length make none */
    oct__text_fini(&pairs.text);
    return status;
}

/* A header that is read pair by pair. */
struct header {
    const char *name;
    const uint8_t *bytes;
    size_t n_bytes;
    uint32_t sum;
};

static oct_status said(struct header *header, const char *key, char out[OCT_METADATA_BYTES]) {
    OCT_TRY(oct__safetensors_metadata(header->name, header->bytes, header->n_bytes, key, out));
    if (!out[0]) {
        OCT_FAIL(
            UNSUPPORTED,
            "%s: it does not say of what network it is ('%s'): of one that a program built, or "
            "written by an older version; oct_trainer_load takes it where the network is known",
            header->name, key);
    }
    header->sum = add_to_sum(header->sum, key, out);
    return OCT_OK;
}

/* The next of the numbers in `*at`, which are `between` each other. */
static oct_status next_number(const char *name, const char *key, char **at, char between,
                              double least, double most, double *out) {
    char *end = strchr(*at, between);
    if (end) {
        *end = '\0';
    }
    oct_status status = oct__spec_real(key, *at, least, most, out);
    *at = end ? end + 1 : *at + strlen(*at);
    if (status != OCT_OK) {
        OCT_FAIL(CORRUPT, "%s: what its header says as '%s' is no such thing", name, key);
    }
    return OCT_OK;
}

static oct_status recall_numbers(struct header *header, const char *key, double least, int n,
                                 float *out) {
    char text[OCT_METADATA_BYTES], *at = text;
    OCT_TRY(said(header, key, text));
    for (int i = 0; i < n; i++) {
        double number;
        OCT_TRY(next_number(header->name, key, &at, ' ', least, 1e30, &number));
        out[i] = (float)number;
    }
    return OCT_OK;
}

static oct_status recall_shape(struct header *header, struct oct_dataset *shape) {
    char text[OCT_METADATA_BYTES], *at = text;
    double sides[3], classes;
    OCT_TRY(said(header, "input", text));
    for (int i = 0; i < 3; i++) {
        OCT_TRY(next_number(header->name, "input", &at, 'x', 1, i < 2 ? 16384 : OCT_DATA_CHANNELS,
                            &sides[i]));
    }
    OCT_TRY(said(header, "classes", at = text));
    OCT_TRY(next_number(header->name, "classes", &at, ' ', 2, UINT16_MAX + 1, &classes));
    shape->height = (int)sides[0];
    shape->width = (int)sides[1];
    shape->channels = (int)sides[2];
    shape->n_classes = (int)classes;
    OCT_TRY(recall_numbers(header, "mean", -1e30, shape->channels, shape->mean));
    return recall_numbers(header, "deviation", FLT_MIN, shape->channels, shape->deviation);
}

static oct_status recall_options(struct header *header, struct oct_config *config) {
    for (size_t i = 0; i < OCT_COUNT_OF(of_network); i++) {
        char text[OCT_METADATA_BYTES];
        const char *option = oct_option_at((int)of_network[i])->name;
        OCT_TRY(said(header, option, text));
        oct_status status = oct_config_set(config, option, text);
        if (status != OCT_OK) {
            return oct__fail_within(status, "%s: ", header->name);
        }
    }
    return OCT_OK;
}

oct_status oct__model_recall(const char *name, const uint8_t *bytes, size_t n_bytes,
                             struct oct_config *config, struct oct_dataset *shape) {
    struct header header = {name, bytes, n_bytes, 0};
    char sum[OCT_METADATA_BYTES], expected[OCT_METADATA_BYTES];
    OCT_TRY(recall_shape(&header, shape));
    OCT_TRY(recall_options(&header, config));
    snprintf(expected, sizeof expected, "%08x", header.sum);
    OCT_TRY(said(&header, PAIRS_SUM, sum));
    if (strcmp(sum, expected) != 0) {
        OCT_FAIL(CORRUPT,
                 "%s: altered: what it says of its network has the CRC-32C %s, expected %s", name,
                 expected, sum);
    }
    return OCT_OK;
}
