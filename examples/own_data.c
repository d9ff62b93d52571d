/* SPDX-License-Identifier: Apache-2.0 */
/* own_data.c - training on data that Octet does not know: one callback copies sample i.
 *
 * The data here are drawn, not read: stripes that run across, stripes that run down, and checks,
 * each with a random phase, brightness and noise. A real program would copy from its own files or
 * sensors.
 */
#include <octet/octet.h>
#include <stdio.h>

enum { SIDE = 8, CLASSES = 3, TRAIN = 576, TEST = 192 };

/* A few well mixed bits for sample `index` (the finalizer of SplitMix64). */
static uint64_t mix(uint64_t index) {
    uint64_t z = (index + 1) * 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}

/* Octet asks for every sample once, when the dataset is created. `context` is ours: here, where
 * this part of the data begins. Nonzero would say that the sample could not be had. */
static int draw(void *context, int64_t index, uint8_t *image, int *label) {
    uint64_t number = *(const uint64_t *)context + (uint64_t)index;
    uint64_t bits = mix(number);
    *label = (int)(number % CLASSES);
    int phase_y = (int)(bits & 3), phase_x = (int)(bits >> 2 & 3), dark = (int)(bits >> 4 & 63);
    for (int y = 0; y < SIDE; y++) {
        for (int x = 0; x < SIDE; x++) {
            int across = (y + phase_y) / 2 % 2, down = (x + phase_x) / 2 % 2;
            int lit = *label == 0 ? across : *label == 1 ? down : across ^ down;
            int noise = (int)(mix(bits + (uint64_t)(y * SIDE + x)) & 31);
            image[y * SIDE + x] = (uint8_t)(dark + noise + (lit ? 120 : 0));
        }
    }
    return 0;
}

static oct_status make(const char *name, int64_t n_samples, uint64_t first,
                       struct oct_dataset **out) {
    struct oct_dataset_custom custom = {
        .name = name,
        .n_samples = n_samples,
        .height = SIDE,
        .width = SIDE,
        .channels = 1,
        .n_classes = CLASSES,
        .get = draw, /* mean and deviation stay 0: they are measured */
        .context = &first,
    };
    return oct_dataset_create(&custom, out);
}

int main(void) {
    struct oct_config *config = NULL;
    struct oct_trainer *trainer = NULL;
    struct oct_dataset *train = NULL, *test = NULL;
    struct oct_hooks hooks = {0};
    struct oct_result result;
    oct_status status;

    if ((status = make("stripes", TRAIN, 0, &train)) == OCT_OK &&
        (status = make("stripes", TEST, TRAIN, &test)) == OCT_OK &&
        (status = oct_config_create(&config)) == OCT_OK &&
        (status = oct_config_set(config, "nodes", "1")) == OCT_OK &&
        (status = oct_config_set(config, "momentum", "local")) == OCT_OK &&
        (status = oct_config_set(config, "epochs", "3")) == OCT_OK &&
        (status = oct_config_set(config, "lr", "0.03")) == OCT_OK && /* for so few steps */
        (status = oct_config_set(config, "augment", "none")) == OCT_OK) {
        hooks.train = train; /* borrowed: both live until the trainer is gone */
        hooks.test = test;
        if ((status = oct_trainer_create(config, &hooks, &trainer)) == OCT_OK &&
            (status = oct_trainer_run(trainer)) == OCT_OK &&
            (status = oct_trainer_result(trainer, &result)) == OCT_OK) {
            printf("accuracy %.1f %% on %d images that were not trained on\n", result.accuracy,
                   TEST);
        }
    }
    if (status != OCT_OK) {
        fprintf(stderr, "%s: %s\n", oct_status_name(status), oct_last_error());
    }
    oct_trainer_destroy(trainer);
    oct_dataset_close(train);
    oct_dataset_close(test);
    oct_config_destroy(config);
    return status == OCT_OK ? 0 : 1;
}
