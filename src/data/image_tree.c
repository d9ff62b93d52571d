/* SPDX-License-Identifier: Apache-2.0 */
/* image_tree.c - listing folders of pictures, checking every file, fetching samples; image_tree.h. */
#include "data/image_tree.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/parallel.h"
#include "data/files.h"
#include "data/image.h"

/* Damaged files that are named one by one. */
#define MOST_NAMED 10

/* ImageNet's, which everybody uses for photographs. */
static const float mean[3] = {0.485F, 0.456F, 0.406F};
static const float deviation[3] = {0.229F, 0.224F, 0.225F};

/* --- names ----------------------------------------------------------------------------------- */

/* Entries of a folder, sorted. */
struct names {
    char *text;
    size_t n_text, text_capacity;
    const char **items; /* into text, once all are known */
    size_t n_items;
    size_t n_others; /* entries that are not what was looked for */
};

static void names_fini(struct names *names) {
    oct__free(names->text);
    oct__free(names->items);
    memset(names, 0, sizeof *names);
}

static oct_status names_add(struct names *names, const char *name) {
    const size_t bytes = strlen(name) + 1;
    void *memory = names->text;
    OCT_TRY(oct__alloc_grow(&memory, &names->text_capacity, names->n_text + bytes, 1, "names"));
    names->text = memory;
    memcpy(names->text + names->n_text, name, bytes);
    names->n_text += bytes;
    names->n_items++;
    return OCT_OK;
}

static int compare(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static oct_status names_sort(struct names *names) {
    void *memory;
    OCT_TRY(oct__alloc_array(names->n_items, sizeof *names->items, "names", &memory));
    names->items = memory;
    const char *at = names->text;
    for (size_t i = 0; i < names->n_items; i++, at += strlen(at) + 1) {
        names->items[i] = at;
    }
    if (names->n_items > 0) {
        qsort(names->items, names->n_items, sizeof *names->items, compare);
    }
    return OCT_OK;
}

static int is_image_name(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot && (strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0 ||
                   strcasecmp(dot, ".png") == 0);
}

static oct_status look_at(const char *folder, const char *name, int wants_folders,
                          struct names *names) {
    char path[OCT_PATH_BYTES];
    struct stat facts;
    if (!wants_folders && !is_image_name(name)) {
        names->n_others++;
        return OCT_OK;
    }
    OCT_TRY(oct__path_join(folder, name, "", path));
    if (stat(path, &facts) != 0) {
        OCT_FAIL(IO, "%s: %s; remove it, or make it readable", oct__path_shown(path),
                 strerror(errno));
    }
    if (wants_folders ? S_ISDIR(facts.st_mode) : S_ISREG(facts.st_mode)) {
        return names_add(names, name);
    }
    names->n_others++;
    return OCT_OK;
}

/* The folders, or the pictures, in a folder. */
static oct_status list(const char *folder, int wants_folders, struct names *names) {
    DIR *directory = opendir(folder);
    if (!directory) {
        OCT_FAIL(IO, "%s: %s; make it a folder that you may read", oct__path_shown(folder),
                 strerror(errno));
    }
    oct_status status = OCT_OK;
    while (status == OCT_OK) {
        errno = 0;
        const struct dirent *entry = readdir(directory);
        if (!entry) {
            if (errno != 0) {
                status =
                    oct__fail(OCT_STATUS_IO, "%s: %s", oct__path_shown(folder), strerror(errno));
            }
            break;
        }
        if (entry->d_name[0] != '.') {
            status = look_at(folder, entry->d_name, wants_folders, names);
        }
    }
    closedir(directory);
    return status == OCT_OK ? names_sort(names) : status;
}

/* --- the tree -------------------------------------------------------------------------------- */

struct tree {
    int size;
    char half[OCT_PATH_BYTES]; /* ROOT/train */
    struct names classes;
    struct names *files; /* [n_classes] */
    size_t n_files;
    const char **samples;     /* [n_files] names of those that are used, class by class */
    uint16_t *labels;         /* [n_files] */
    uint8_t *is_damaged;      /* [n_files], while they are checked */
    const char **class_names; /* [n_classes] */
};

static void tree_close(void *context) {
    struct tree *tree = context;
    for (size_t i = 0; tree->files && i < tree->classes.n_items; i++) {
        names_fini(&tree->files[i]);
    }
    names_fini(&tree->classes);
    oct__free(tree->files);
    oct__free(tree->samples);
    oct__free(tree->labels);
    oct__free(tree->is_damaged);
    oct__free(tree->class_names);
    oct__free(tree);
}

static oct_status path_of(const struct tree *tree, const char *name, int label,
                          char path[OCT_PATH_BYTES]) {
    char folder[OCT_PATH_BYTES];
    OCT_TRY(oct__path_join(tree->half, tree->classes.items[label], "", folder));
    return oct__path_join(folder, name, "", path);
}

static int is_folder(const char *path) {
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

static oct_status no_such(const struct oct__image_tree_form *form, const char *half) {
    if (form->remedy) {
        OCT_FAIL(NOT_FOUND, "%s: %s has no folder '%s'; get it with: %s", form->name,
                 oct__path_shown(form->root), half, form->remedy);
    }
    OCT_FAIL(NOT_FOUND,
             "%s: %s has no folder '%s'; expected are train/CLASS/*.jpg and test/CLASS/*.jpg (or "
             "val) in it, a folder for each class",
             form->name, oct__path_shown(form->root), half);
}

/* ROOT/train, and ROOT/test or ROOT/val. */
static oct_status find_half(const struct oct__image_tree_form *form, enum oct_split split,
                            char out[OCT_PATH_BYTES]) {
    OCT_TRY(oct__path_join(form->root, split == OCT_SPLIT_TRAIN ? "train" : "test", "", out));
    if (split == OCT_SPLIT_TRAIN) {
        return is_folder(out) ? OCT_OK : no_such(form, "train");
    }
    char other[OCT_PATH_BYTES];
    OCT_TRY(oct__path_join(form->root, "val", "", other));
    const int has_test = is_folder(out), has_val = is_folder(other);
    if (has_test && has_val) {
        oct__log(OCT_LOG_INFO, "%s: %s has both test and val; test is used", form->name,
                 form->root);
    } else if (has_val) {
        memcpy(out, other, sizeof other);
    }
    return has_test || has_val ? OCT_OK : no_such(form, "test");
}

/* The class of a folder; -1: none. */
static int find_class(const struct tree *tree, const char *name) {
    const char **found = bsearch(&name, tree->classes.items, tree->classes.n_items,
                                 sizeof *tree->classes.items, compare);
    return found ? (int)(found - tree->classes.items) : -1;
}

/* Classes are those of train, also for the other half. */
static oct_status list_classes(struct tree *tree, const struct oct__image_tree_form *form) {
    char train[OCT_PATH_BYTES];
    OCT_TRY(find_half(form, OCT_SPLIT_TRAIN, train));
    OCT_TRY(list(train, 1, &tree->classes));
    const size_t n = tree->classes.n_items;
    if (n < 1 || n > UINT16_MAX + 1) {
        OCT_FAIL(SHAPE, "%s: %zu folders, expected one for each class, 2 to %d",
                 oct__path_shown(train), n, UINT16_MAX + 1);
    }
    for (size_t i = 0; form->folders && (i < n || form->folders[i]); i++) {
        if (i >= n || !form->folders[i] || strcmp(tree->classes.items[i], form->folders[i]) != 0) {
            OCT_FAIL(CORRUPT, "%s: has %zu classes, but %s is not '%s'; get it again with: %s",
                     oct__path_shown(train), n, i < n ? tree->classes.items[i] : "what is missing",
                     form->folders[i] ? form->folders[i] : "one of them", form->remedy);
        }
    }
    void *memory;
    OCT_TRY(oct__alloc_array(n, sizeof *tree->files, "classes", &memory));
    tree->files = memory;
    OCT_TRY(oct__alloc_array(n, sizeof *tree->class_names, "classes", &memory));
    tree->class_names = memory;
    for (size_t i = 0; i < n; i++) {
        tree->class_names[i] = form->words ? form->words[i] : tree->classes.items[i];
    }
    return OCT_OK;
}

/* There is nothing to learn from one class. */
static oct_status check_classes(const struct tree *tree, const struct oct__image_tree_form *form) {
    if (tree->classes.n_items < 2) {
        OCT_FAIL(
            INVALID,
            "%s: all pictures in %s are of one class, '%s'; expected a folder for each of 2 or "
            "more to tell apart",
            form->name, oct__path_shown(tree->half), tree->classes.items[0]);
    }
    return OCT_OK;
}

static oct_status list_class(struct tree *tree, const struct oct__image_tree_form *form,
                             enum oct_split split, int label) {
    char folder[OCT_PATH_BYTES];
    struct names *files = &tree->files[label];
    OCT_TRY(oct__path_join(tree->half, tree->classes.items[label], "", folder));
    OCT_TRY(list(folder, 0, files));
    tree->n_files += files->n_items;
    if (form->counts[split] && files->n_items != (size_t)form->counts[split][label]) {
        OCT_FAIL(CORRUPT, "%s: %zu pictures, expected %d; get it again with: %s",
                 oct__path_shown(folder), files->n_items, form->counts[split][label], form->remedy);
    }
    if (files->n_items == 0) {
        OCT_FAIL(NOT_FOUND,
                 "%s: no picture in it (.jpg, .jpeg or .png); put some there or remove the folder",
                 oct__path_shown(folder));
    }
    return OCT_OK;
}

static oct_status list_files(struct tree *tree, const struct oct__image_tree_form *form,
                             enum oct_split split) {
    struct names folders = {0};
    size_t n_others = 0;
    oct_status status = list(tree->half, 1, &folders);
    for (size_t i = 0; i < folders.n_items && status == OCT_OK; i++) {
        const int label = find_class(tree, folders.items[i]);
        if (label < 0) {
            OCT_FAIL_TO(out, SHAPE,
                        "%s has a class '%s' that the training half has not; put it there too, or "
                        "remove it",
                        oct__path_shown(tree->half), folders.items[i]);
        }
        status = list_class(tree, form, split, label);
        n_others += tree->files[label].n_others;
    }
    n_others += folders.n_others;
    if (status == OCT_OK && tree->n_files == 0) {
        OCT_FAIL_TO(out, NOT_FOUND, "%s: no class in it, expected folders of pictures",
                    oct__path_shown(tree->half));
    }
    if (status == OCT_OK && n_others > 0) {
        oct__log(OCT_LOG_INFO, "%s: %zu files in %s are no pictures and are ignored", form->name,
                 n_others, tree->half);
    }
out:
    names_fini(&folders);
    return status;
}

static oct_status line_up(struct tree *tree) {
    void *memory;
    OCT_TRY(oct__alloc_array(tree->n_files, sizeof *tree->samples, "files", &memory));
    tree->samples = memory;
    OCT_TRY(oct__alloc_array(tree->n_files, sizeof *tree->labels, "files", &memory));
    tree->labels = memory;
    OCT_TRY(oct__alloc(tree->n_files, "files", &memory));
    tree->is_damaged = memory;
    size_t n = 0;
    for (size_t label = 0; label < tree->classes.n_items; label++) {
        for (size_t i = 0; i < tree->files[label].n_items; i++, n++) {
            tree->samples[n] = tree->files[label].items[i];
            tree->labels[n] = (uint16_t)label;
        }
    }
    return OCT_OK;
}

/* --- checking every file ---------------------------------------------------------------------- */

/* Files that a worker takes at once. */
#define CHECK_FILES 16

struct checking {
    struct tree *tree;
    struct oct__image_reader *readers[OCT_PARALLEL_MOST];
};

static oct_status check_file(const struct tree *tree, size_t i, struct oct__image_reader *reader) {
    char path[OCT_PATH_BYTES];
    OCT_TRY(path_of(tree, tree->samples[i], tree->labels[i], path));
    return oct__image_check(reader, path);
}

static oct_status check_files(void *context, int item, int worker) {
    struct checking *checking = context;
    struct tree *tree = checking->tree;
    if (!checking->readers[worker]) {
        OCT_TRY(oct__image_reader_create(&checking->readers[worker]));
    }
    const size_t first = (size_t)item * CHECK_FILES, left = tree->n_files - first;
    for (size_t i = first; i < first + (left < CHECK_FILES ? left : CHECK_FILES); i++) {
        oct_status status = check_file(tree, i, checking->readers[worker]);
        if (status != OCT_OK && status != OCT_STATUS_CORRUPT) {
            return status;
        }
        tree->is_damaged[i] = status != OCT_OK;
    }
    return OCT_OK;
}

static oct_status check_all(struct tree *tree) {
    struct checking checking = {.tree = tree};
    int n_workers = oct__parallel_width();
    n_workers = n_workers < OCT_PARALLEL_MOST ? n_workers : OCT_PARALLEL_MOST;
    const int n_items = (int)((tree->n_files + CHECK_FILES - 1) / CHECK_FILES);
    oct_status status = oct__parallel(n_workers, n_items, check_files, &checking);
    for (int i = 0; i < OCT_PARALLEL_MOST; i++) {
        oct__image_reader_destroy(checking.readers[i]);
    }
    return status;
}

/* Names a damaged file: what is wrong with it is found out once more. */
static oct_status name_damaged(const struct tree *tree, size_t i, struct oct_dataset *dataset) {
    struct oct__image_reader *reader;
    OCT_TRY(oct__image_reader_create(&reader));
    oct_status status = check_file(tree, i, reader);
    oct__image_reader_destroy(reader);
    if (status != OCT_STATUS_CORRUPT) {
        return status; /* it has become whole since, or is gone */
    }
    oct__log(OCT_LOG_WARNING, "%s: left out", oct_last_error());
    return dataset->skipped ? OCT_OK
                            : oct__alloc_text(oct_last_error(), "message", &dataset->skipped);
}

/* Moves up what is whole; in the order of files, so that threads do not matter. */
static oct_status leave_out(struct tree *tree, struct oct_dataset *dataset) {
    int64_t n_used = 0;
    for (size_t i = 0; i < tree->n_files; i++) {
        if (!tree->is_damaged[i]) {
            continue;
        }
        if (dataset->n_skipped++ < MOST_NAMED) {
            OCT_TRY(name_damaged(tree, i, dataset));
        }
    }
    for (size_t i = 0; i < tree->n_files; i++) {
        if (!tree->is_damaged[i]) {
            tree->samples[n_used] = tree->samples[i];
            dataset->labels[n_used++] = tree->labels[i];
        }
    }
    dataset->n_samples = n_used;
    if (dataset->n_skipped > 0) {
        oct__log(OCT_LOG_WARNING, "%s: %lld of %zu pictures in %s are damaged and left out",
                 dataset->name, (long long)dataset->n_skipped, tree->n_files, tree->half);
    }
    return OCT_OK;
}

/* A class that has lost all its pictures is as wrong as one that never had any. */
static oct_status check_whole(const struct tree *tree, const struct oct_dataset *dataset) {
    int64_t i = 0;
    for (size_t label = 0; label < tree->classes.n_items; label++) {
        const int64_t first = i;
        while (i < dataset->n_samples && dataset->labels[i] == label) {
            i++;
        }
        if (i == first && tree->files[label].n_items > 0) {
            OCT_FAIL(CORRUPT, "%s: all %zu pictures of class '%s' are damaged: %s",
                     oct__path_shown(tree->half), tree->files[label].n_items,
                     tree->classes.items[label], dataset->skipped ? dataset->skipped : "");
        }
    }
    return OCT_OK;
}

/* --- samples --------------------------------------------------------------------------------- */

static oct_status reader_create(void **out) {
    struct oct__image_reader *reader;
    OCT_TRY(oct__image_reader_create(&reader));
    *out = reader;
    return OCT_OK;
}

static void reader_destroy(void *reader) {
    oct__image_reader_destroy(reader);
}

static oct_status fetch(const struct oct_dataset *dataset, void *reader, int64_t row,
                        const struct oct__augment *augment, uint8_t *out) {
    const struct tree *tree = dataset->context;
    char path[OCT_PATH_BYTES];
    OCT_TRY(path_of(tree, tree->samples[row], dataset->labels[row], path));
    return oct__image_read(reader, path, tree->size, augment, (uint32_t)row, out);
}

static const struct oct__streamed streamed = {reader_create, reader_destroy, fetch, tree_close};

static oct_status fill(struct tree *tree, const struct oct__image_tree_form *form,
                       enum oct_split split, struct oct_dataset **out) {
    OCT_TRY(find_half(form, split, tree->half));
    OCT_TRY(list_classes(tree, form));
    OCT_TRY(list_files(tree, form, split));
    OCT_TRY(check_classes(tree, form));
    OCT_TRY(line_up(tree));
    oct__log(OCT_LOG_INFO, "%s: decoding all %zu pictures in %s once", form->name, tree->n_files,
             tree->half);
    OCT_TRY(check_all(tree));
    return oct__dataset_alloc_streamed(form->name, (int64_t)tree->n_files, form->size, form->size,
                                       3, (int)tree->classes.n_items, &streamed, tree, out);
}

oct_status oct__image_tree_open(const struct oct__image_tree_form *form, enum oct_split split,
                                struct oct_dataset **out) {
    void *memory;
    OCT_TRY(oct__alloc(sizeof(struct tree), "folder of pictures", &memory));
    struct tree *tree = memory;
    struct oct_dataset *dataset;
    tree->size = form->size;
    oct_status status = fill(tree, form, split, &dataset);
    if (status != OCT_OK) {
        tree_close(tree);
        return status;
    }
    dataset->class_names = tree->class_names;
    memcpy(dataset->mean, mean, sizeof mean);
    memcpy(dataset->deviation, deviation, sizeof deviation);
    status = leave_out(tree, dataset);
    if (status == OCT_OK) {
        status = check_whole(tree, dataset);
    }
    if (status != OCT_OK) {
        oct_dataset_close(dataset);
        return status;
    }
    *out = dataset;
    return OCT_OK;
}
