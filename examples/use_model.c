/* SPDX-License-Identifier: Apache-2.0 */
/* use_model.c - a saved model put to use: what a program on a device does. For the example's sake it is
 * trained first; a real one is there already. Usage: use_model [MODEL]
 */
#include <octet/octet.h>
#include <stdio.h>
#include <stdlib.h>

static oct_status train(const char *path) {
    static const char *const options[][2] = {
        {"data", "synthetic:samples=600,size=12,classes=3,noise=0"},
        {"model", "resnet20:width=8,blocks=1"},
        {"augment", "none"},
        {"nodes", "2"},
        {"skew", "0.2"},
        {"batch", "8"},
        {"epochs", "10"},
    };
    struct oct_config *config = NULL;
    struct oct_trainer *trainer = NULL;
    oct_status status = oct_config_create(&config);
    for (size_t i = 0; i < sizeof options / sizeof *options && status == OCT_OK; i++) {
        status = oct_config_set(config, options[i][0], options[i][1]);
    }
    if (status == OCT_OK && (status = oct_trainer_create(config, NULL, &trainer)) == OCT_OK &&
        (status = oct_trainer_run(trainer)) == OCT_OK) {
        status = oct_trainer_save_as(trainer, path, OCT_MODEL_INT8); /* a quarter of the size */
    }
    oct_trainer_destroy(trainer);
    oct_config_destroy(config);
    return status;
}

/* Classifies the first images of the test set, as they would come in: one at a time. */
static oct_status use(const char *path) {
    const struct oct_model_options options = {.batch = 1, .n_threads = 1};
    struct oct_model *model = NULL;
    struct oct_model_info info;
    struct oct_dataset *images = NULL;
    float *logits = NULL;
    int n_right = 0;
    oct_status status;
    if ((status = oct_model_open(path, &options, &model)) != OCT_OK ||
        (status = oct_model_info(model, &info)) != OCT_OK ||
        (status = oct_dataset_open("synthetic:samples=600,size=12,classes=3,noise=0", NULL,
                                   OCT_SPLIT_TEST, &images)) != OCT_OK) {
        oct_model_close(model);
        return status;
    }
    printf("%s: %s, %s, for images of %dx%dx%d, %d classes; %llu bytes of memory\n", path,
           info.model, info.precision, info.height, info.width, info.channels, info.n_classes,
           (unsigned long long)info.memory_bytes);
    logits = calloc((size_t)info.n_classes, sizeof *logits);
    for (int i = 0; logits && i < 20 && status == OCT_OK; i++) {
        int best = 0;
        status = oct_model_run(model, oct_dataset_image(images, i), 1, logits);
        for (int class = 1; class < info.n_classes; class ++) {
            best = logits[class] > logits[best] ? class : best;
        }
        n_right += best == oct_dataset_label(images, i);
    }
    printf("%d of 20 images are what it takes them for\n", n_right);
    free(logits);
    oct_dataset_close(images);
    oct_model_close(model);
    return status;
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "use_model.safetensors";
    oct_status status = argc > 1 ? OCT_OK : train(path);
    if (status == OCT_OK) {
        status = use(path);
    }
    if (status != OCT_OK) {
        fprintf(stderr, "%s: %s\n", oct_status_name(status), oct_last_error());
    }
    return status == OCT_OK ? 0 : 1;
}
