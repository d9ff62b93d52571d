/* SPDX-License-Identifier: Apache-2.0 */
/* train.c - train, evaluate, save: the tutorial of <octet/octet.h>, which a test keeps equal. */
#include <octet/octet.h>
#include <stdio.h>

/* Called between steps; returning 1 would stop the run. */
static int show(const struct oct_progress *p, void *context) {
    (void)context;
    if (p->phase == OCT_PHASE_EPOCH_END) {
        printf("epoch %d of %d: accuracy %.1f %%, %.1f MB sent\n", p->epoch, p->n_epochs,
               p->test_accuracy, 1e-6 * (double)p->bytes_sent);
    }
    return 0;
}

int main(void) {
    struct oct_config *config = NULL;
    struct oct_trainer *trainer = NULL;
    struct oct_hooks hooks = {.progress = show};
    struct oct_result result;
    oct_status status;

    /* Any option of `octet train` by its name; each call says OCT_OK or why not. */
    if ((status = oct_config_create(&config)) != OCT_OK ||
        (status = oct_config_set(config, "data", "synthetic:size=8")) != OCT_OK ||
        (status = oct_config_set(config, "augment", "none")) != OCT_OK ||
        (status = oct_config_set(config, "nodes", "4")) != OCT_OK ||
        (status = oct_config_set(config, "skew", "0.5")) != OCT_OK ||
        (status = oct_config_set(config, "batch", "8")) != OCT_OK ||
        (status = oct_config_set(config, "lr", "0.05")) != OCT_OK ||
        (status = oct_config_set(config, "epochs", "5")) != OCT_OK ||
        (status = oct_trainer_create(config, &hooks, &trainer)) != OCT_OK ||
        (status = oct_trainer_run(trainer)) != OCT_OK ||
        (status = oct_trainer_result(trainer, &result)) != OCT_OK ||
        (status = oct_trainer_save(trainer, "model.safetensors")) != OCT_OK) {
        fprintf(stderr, "%s: %s\n", oct_status_name(status), oct_last_error());
    } else {
        printf("accuracy %.1f %% of the average model, saved in model.safetensors\n",
               result.accuracy);
    }
    oct_trainer_destroy(trainer);
    oct_config_destroy(config);
    return status == OCT_OK ? 0 : 1;
}
