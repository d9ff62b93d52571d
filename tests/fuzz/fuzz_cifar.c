/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_cifar.c - CIFAR's records: byte 0 chooses the form (bit 0) and the first sample (the rest),
 * then comes the file. */
#include "fuzz.h"

#include "data/cifar.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    enum { ROOM = 3 };
    static const struct oct__cifar_form forms[] = {
        {.n_label_bytes = 1, .n_classes = 10},
        {.n_label_bytes = 2, .n_coarse = 20, .n_classes = 100},
    };
    if (n_bytes < 1) {
        return 0;
    }
    const struct oct__cifar_form *form = &forms[bytes[0] & 1];
    int64_t first = (int64_t)(bytes[0] >> 1) - 2;
    struct oct_dataset *dataset;
    if (oct__dataset_alloc("fuzz", ROOM, 32, 32, 3, form->n_classes, &dataset) != OCT_OK) {
        return 0;
    }
    bytes++;
    n_bytes--;
    if (oct__cifar_parse("file", bytes, n_bytes, form, first, dataset) == OCT_OK) {
        size_t record = (size_t)form->n_label_bytes + OCT_CIFAR_BYTES;
        FUZZ_CHECK(n_bytes % record == 0);
        for (size_t r = 0; r < n_bytes / record; r++) {
            const uint8_t *from = bytes + r * record + form->n_label_bytes;
            const uint8_t *image = oct_dataset_image(dataset, first + (int64_t)r);
            FUZZ_CHECK(image != NULL);
            FUZZ_CHECK(image[0] == from[0] && image[1] == from[1024] && image[3071] == from[3071]);
        }
    }
    for (int64_t i = 0; i < ROOM; i++) {
        FUZZ_CHECK(oct_dataset_label(dataset, i) < form->n_classes);
    }
    oct_dataset_close(dataset);
    return 0;
}
