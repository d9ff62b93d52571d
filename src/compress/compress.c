/* SPDX-License-Identifier: Apache-2.0 */
/* compress.c - from a compressor's name and a row's tensors to the form of its packets. */
#include "compress/compress.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"

oct_status oct__compression_read(const char *text, struct oct__compression *out) {
    const struct oct_compressor_kind *kind;
    const char *options;
    OCT_TRY(oct__compressor_find(text, &kind, &options));
    union {
        unsigned char bytes[OCT_COMPRESSOR_OPTIONS];
        double aligned;
        int64_t aligned_too;
    } memory = {{0}};
    if (kind->options_bytes > sizeof memory) {
        OCT_FAIL(INTERNAL, "compressor '%s': options of %zu bytes, at most %zu", kind->plugin.name,
                 kind->options_bytes, sizeof memory);
    }
    if (kind->options_bytes > 0) {
        memcpy(memory.bytes, kind->defaults, kind->options_bytes);
    }
    OCT_TRY(oct__spec_read(kind->plugin.name, options, kind->table, memory.bytes));
    struct oct__compression chosen = {0};
    kind->choose(memory.bytes, &chosen);
    *out = chosen;
    return OCT_OK;
}

/* --- forms ------------------------------------------------------------------------------------ */

static size_t keep_of(const struct oct__compression *compression, size_t count) {
    if (compression->select == OCT_SELECT_ALL) {
        return count;
    }
    const double keep = floor((double)count * (1.0 - compression->drop) + 1e-6);
    return keep < 1.0 ? 1 : keep < (double)count ? (size_t)keep : count;
}

static oct_status check_spans(const struct oct__span *spans, size_t n_spans, size_t n_elements) {
    if (n_spans == 0) {
        OCT_FAIL(INVALID, "packet: a row of no tensors");
    }
    if (n_elements > INT_MAX / 8) {
        OCT_FAIL(INVALID, "packet: a row of %zu elements; at most %d", n_elements, INT_MAX / 8);
    }
    size_t end = 0;
    for (size_t i = 0; i < n_spans; i++) {
        const struct oct__span *span = &spans[i];
        if (span->count == 0 || span->offset < end || span->offset > n_elements ||
            span->count > n_elements - span->offset) {
            OCT_FAIL(INVALID,
                     "packet: tensor %zu, %zu elements from %zu on, of a row of %zu, the tensor "
                     "before it ending at %zu; tensors must be in order and hold something",
                     i, span->count, span->offset, n_elements, end);
        }
        end = span->offset + span->count;
    }
    return OCT_OK;
}

/* Dense: a scale for each tensor. Sparse: one for each large tensor, then one for all small ones. */
static void number_scales(struct oct__packet_form *form, struct oct__part *parts) {
    const int is_sparse = form->select != OCT_SELECT_ALL;
    size_t n_small = 0;
    for (size_t i = 0; i < form->n_parts; i++) {
        if (is_sparse && parts[i].count < OCT_SMALL_TENSOR) {
            n_small++;
        } else {
            parts[i].scale = (int)form->n_scales++;
        }
    }
    if (n_small > 0) {
        for (size_t i = 0; i < form->n_parts; i++) {
            if (parts[i].count < OCT_SMALL_TENSOR) {
                parts[i].scale = (int)form->n_scales;
            }
        }
        form->n_scales++;
    }
}

oct_status oct__packet_form_create(const struct oct__compression *compression,
                                   const struct oct__span *spans, size_t n_spans, size_t n_elements,
                                   struct oct__packet_form **out) {
    OCT_TRY(check_spans(spans, n_spans, n_elements));
    /* Form and parts in one piece of memory. */
    const size_t parts_at = (sizeof(struct oct__packet_form) + 63) / 64 * 64;
    void *memory;
    OCT_TRY(oct__alloc(parts_at + n_spans * sizeof(struct oct__part), "packet form", &memory));
    struct oct__packet_form *form = memory;
    struct oct__part *parts = (void *)((char *)memory + parts_at);
    form->select = compression->select;
    form->coding = compression->coding;
    form->bits = compression->bits;
    form->parts = parts;
    form->n_parts = n_spans;
    form->n_elements = n_elements;
    for (size_t i = 0; i < n_spans; i++) {
        parts[i].offset = spans[i].offset;
        parts[i].count = spans[i].count;
        parts[i].keep = keep_of(compression, spans[i].count);
        parts[i].first = form->n_kept;
        form->n_kept += parts[i].keep;
    }
    if (oct__coding_has_scales(form->coding)) {
        number_scales(form, parts);
    }
    form->index_at = form->n_scales * sizeof(float);
    form->values_at =
        form->index_at + (form->select == OCT_SELECT_ALL ? 0 : form->n_kept * sizeof(uint32_t));
    /* Whole cache lines, so that packets side by side stay aligned; the rest is zero. */
    form->n_bytes =
        (form->values_at + form->n_kept * oct__coding_bytes(form->coding) + 63) / 64 * 64;
    *out = form;
    return OCT_OK;
}

void oct__packet_form_destroy(struct oct__packet_form *form) {
    oct__free(form);
}
