/* SPDX-License-Identifier: Apache-2.0 */
/* packets.c - rows, forms and packets for tests: see packets.h. */
#include "support/packets.h"

#include "models/model.h"
#include "nn/layer.h"

/* A test holds it equal to the registry. */
static const struct {
    const char *name, *variants[6];
} known[] = {
    {"none", {"none", "none:values=bf16"}},
    {"int8", {"int8"}},
    {"topk",
     {"topk", "topk:0.9,values=bf16", "topk:0.99,values=int8", "topk:0", "topk:1,values=int8"}},
    {"randk", {"randk", "randk:0.9,values=bf16", "randk:0.97,values=int8", "randk:0.5"}},
    {"qsgd", {"qsgd", "qsgd:1", "qsgd:6", "qsgd:7"}},
    {"sign", {"sign"}},
};

void each_compressor(void (*check)(const char *variant)) {
    for (size_t i = 0; i < OCT_COUNT_OF(known); i++) {
        for (size_t j = 0; j < OCT_COUNT_OF(known[i].variants) && known[i].variants[j]; j++) {
            check(known[i].variants[j]);
        }
    }
}

int compressor_is_known(const char *name) {
    for (size_t i = 0; i < OCT_COUNT_OF(known); i++) {
        if (strcmp(known[i].name, name) == 0) {
            return 1;
        }
    }
    return 0;
}

struct layout layout_of(const size_t *counts, size_t n_counts) {
    struct layout layout = {.n_spans = n_counts};
    assert_true(n_counts <= OCT_COUNT_OF(layout.spans));
    for (size_t i = 0; i < n_counts; i++) {
        layout.spans[i] = (struct oct__span){layout.n_elements, counts[i]};
        layout.n_elements += (counts[i] + 15) / 16 * 16;
        layout.n_params += counts[i];
    }
    return layout;
}

struct layout layout_of_model(const char *model, const char *norm) {
    struct oct_graph graph;
    const struct oct_norm_kind *kind = oct__norm_find(norm);
    assert_non_null(kind);
    EXPECT_OK(oct__graph_init(&graph, 32, 32, 3, 10, kind));
    EXPECT_OK(oct__model_build(model, &graph));
    EXPECT_OK(oct__graph_check(&graph));
    struct layout layout = {.n_spans = graph.params.n_items,
                            .n_elements = graph.params.n_elements,
                            .n_params = oct__row_count(&graph.params)};
    assert_true(layout.n_spans <= OCT_COUNT_OF(layout.spans));
    for (size_t i = 0; i < layout.n_spans; i++) {
        const struct oct__param *item = &graph.params.items[i];
        layout.spans[i] = (struct oct__span){item->offset, item->count};
    }
    oct__graph_fini(&graph);
    return layout;
}

struct oct__packet_form *form_of(const char *compressor, const struct layout *layout) {
    struct oct__compression compression;
    struct oct__packet_form *form = NULL;
    EXPECT_OK(oct__compression_read(compressor, &compression));
    EXPECT_OK(oct__packet_form_create(&compression, layout->spans, layout->n_spans,
                                      layout->n_elements, &form));
    return form;
}

struct oct__tensor row_new(const struct layout *layout) {
    return vector_new((int)layout->n_elements);
}

struct oct__tensor packet_new(const struct oct__packet_form *form) {
    return tensor_new(OCT_DTYPE_U8, 1, 1, 1, (int)form->n_bytes);
}

union oct__attr pack_attr(const struct oct__packet_form *form, uint32_t salt) {
    union oct__attr attr = {.packet = {.form = form, .salt = salt}};
    return attr;
}

union oct__attr fold_attr(const struct oct__packet_form *form, float factor) {
    union oct__attr attr = {.packet = {.form = form, .factor = factor}};
    return attr;
}
