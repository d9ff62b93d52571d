/* SPDX-License-Identifier: Apache-2.0 */
/* cifar.c - reading the binary files of CIFAR-10 and CIFAR-100; see cifar.h.
 *
 * Files are read, parsed and hashed side by side: hashing 154 MB takes longer than reading them. Who
 * wants some samples only wants to save memory: then it is one file at a time, twice, because what
 * to hold is decided by the labels of all. The second reading is the one that is hashed.
 */
#include "data/cifar.h"

#include <string.h>

#include "base/parallel.h"
#include "data/files.h"

/* More files than any split has. */
#define MOST_FILES 16

/* Planes become pixels. */
static void copy_pixels(const uint8_t *red, uint8_t *to) {
    for (size_t p = 0; p < OCT_CIFAR_PIXELS; p++, to += 3) {
        to[0] = red[p];
        to[1] = red[p + OCT_CIFAR_PIXELS];
        to[2] = red[p + 2 * (size_t)OCT_CIFAR_PIXELS];
    }
}

oct_status oct__cifar_parse(const char *file, const uint8_t *bytes, size_t n_bytes,
                            const struct oct__cifar_form *form, int64_t first,
                            struct oct_dataset *dataset) {
    file = oct__path_shown(file);
    size_t n_label_bytes = (size_t)form->n_label_bytes;
    size_t record_bytes = n_label_bytes + OCT_CIFAR_BYTES;
    size_t n_records = n_bytes / record_bytes;
    char at[OCT_GROUPED_BYTES];
    if (n_bytes % record_bytes != 0) {
        OCT_FAIL(CORRUPT, "%s: record %zu at byte %s is cut off: %zu of %zu bytes", file, n_records,
                 oct__grouped(n_records * record_bytes, at), n_bytes % record_bytes, record_bytes);
    }
    int64_t room = first >= 0 && first < dataset->n_samples ? dataset->n_samples - first : 0;
    if (n_records > (uint64_t)room) {
        OCT_FAIL(CORRUPT, "%s: %zu records, room for %lld", file, n_records, (long long)room);
    }
    for (size_t r = 0; r < n_records; r++) {
        const uint8_t *record = bytes + r * record_bytes;
        for (size_t k = 0; k < n_label_bytes; k++) {
            int n_allowed = k + 1 == n_label_bytes ? form->n_classes : form->n_coarse;
            if (record[k] >= n_allowed) {
                OCT_FAIL(CORRUPT, "%s: label %d of record %zu at byte %s, expected 0 to %d", file,
                         record[k], r, oct__grouped(r * record_bytes + k, at), n_allowed - 1);
            }
        }
        const uint8_t label = record[n_label_bytes - 1];
        int64_t sample = first + (int64_t)r;
        if (dataset->place && dataset->labels[sample] != label) {
            OCT_FAIL(CORRUPT, "%s: label %d of record %zu was %d before: it changed meanwhile",
                     file, label, r, dataset->labels[sample]);
        }
        dataset->labels[sample] = label;
        uint8_t *to = oct__dataset_room(dataset, sample);
        if (to) {
            copy_pixels(record + n_label_bytes, to);
        }
    }
    return OCT_OK;
}

struct reading {
    const struct oct_dataset_kind *kind;
    const struct oct__cifar_form *form;
    const char *dir;
    struct oct_dataset *dataset;
    int n_files;
    const struct oct__data_file *files[MOST_FILES];
    int64_t first[MOST_FILES]; /* sample that a file begins with */
};

static oct_status read_file(void *context, int item, int worker) {
    (void)worker;
    const struct reading *reading = context;
    const struct oct__data_file *file = reading->files[item];
    struct oct__loaded loaded = {0};
    OCT_TRY(oct__files_load(reading->dir, file, reading->kind->remedy, &loaded));
    oct_status status = oct__cifar_parse(loaded.path, loaded.bytes, loaded.n_bytes, reading->form,
                                         reading->first[item], reading->dataset);
    if (status == OCT_OK && reading->dataset->images) {
        status = oct__files_check(&loaded, file, reading->kind->remedy);
    }
    oct__loaded_fini(&loaded);
    return status;
}

static oct_status read_all(struct reading *reading, const struct oct__data_choice *choice) {
    if (choice) {
        OCT_TRY(oct__parallel(1, reading->n_files, read_file, reading));
    }
    OCT_TRY(oct__dataset_hold(reading->dataset, choice));
    return oct__parallel(choice ? 1 : oct__parallel_width(), reading->n_files, read_file, reading);
}

oct_status oct__cifar_open(const struct oct_dataset_kind *kind, const struct oct__cifar_form *form,
                           const char *folder, enum oct_split split,
                           const struct oct__data_choice *choice, struct oct_dataset **out) {
    char dir[OCT_PATH_BYTES];
    OCT_TRY(oct__files_locate(kind, folder, dir));
    struct reading reading = {.kind = kind, .form = form, .dir = dir};
    uint64_t record_bytes = (uint64_t)form->n_label_bytes + OCT_CIFAR_BYTES;
    int64_t n_samples = 0;
    for (const struct oct__data_file *file = kind->files; file->name; file++) {
        if (file->split == split && reading.n_files < MOST_FILES) {
            reading.files[reading.n_files] = file;
            reading.first[reading.n_files] = n_samples;
            reading.n_files++;
            n_samples += (int64_t)(file->n_bytes / record_bytes);
        }
    }
    OCT_TRY(oct__dataset_alloc_labels(kind->plugin.name, n_samples, OCT_CIFAR_SIDE, OCT_CIFAR_SIDE,
                                      3, form->n_classes, &reading.dataset));
    oct_status status = read_all(&reading, choice);
    if (status != OCT_OK) {
        oct_dataset_close(reading.dataset);
        return status;
    }
    memcpy(reading.dataset->mean, form->mean, sizeof form->mean);
    memcpy(reading.dataset->deviation, form->deviation, sizeof form->deviation);
    *out = reading.dataset;
    return OCT_OK;
}
