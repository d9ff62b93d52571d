/* SPDX-License-Identifier: Apache-2.0 */
/* own_model.c - training a network that Octet does not know: a function builds its graph.
 *
 * Two convolutions, each with the run's norm and activation, then pooling and a classifier. The
 * builder needs no checks: the first mistake sticks, and oct_trainer_create reports it with the
 * name of its layer.
 */
#include <octet/octet.h>
#include <stdio.h>

struct size {
    int channels;
};

static oct_status build(struct oct_graph *g, void *context) {
    const struct size *size = context;
    int x = oct_graph_input(g);

    x = oct_graph_conv(g, "conv1", x,
                       (struct oct_conv){.channels = size->channels, .kernel = 3, .pad = 1});
    x = oct_graph_norm(g, "norm1", x);
    x = oct_graph_activation(g, "act1", x);
    x = oct_graph_max_pool(g, "shrink", x, (struct oct_pool){.kernel = 2});

    x = oct_graph_conv(g, "conv2", x,
                       (struct oct_conv){.channels = 2 * size->channels, .kernel = 3, .pad = 1});
    x = oct_graph_norm(g, "norm2", x);
    x = oct_graph_activation(g, "act2", x);

    x = oct_graph_global_pool(g, "pool", x);
    x = oct_graph_dropout(g, "drop", x, 0.1);
    x = oct_graph_linear(g, "head", x, oct_graph_classes(g));
    oct_graph_output(g, x);
    return OCT_OK;
}

int main(void) {
    struct oct_config *config = NULL;
    struct oct_trainer *trainer = NULL;
    struct size size = {.channels = 16};
    struct oct_hooks hooks = {.model = build, .model_context = &size};
    struct oct_result result;
    oct_status status;

    if ((status = oct_config_create(&config)) == OCT_OK &&
        (status = oct_config_set(config, "data", "synthetic:samples=1024,classes=4,size=8")) ==
            OCT_OK &&
        (status = oct_config_set(config, "nodes", "1")) == OCT_OK &&
        (status = oct_config_set(config, "momentum", "local")) == OCT_OK &&
        (status = oct_config_set(config, "norm", "batchnorm")) == OCT_OK &&
        (status = oct_config_set(config, "augment", "none")) == OCT_OK &&
        (status = oct_config_set(config, "epochs", "6")) == OCT_OK &&
        (status = oct_trainer_create(config, &hooks, &trainer)) == OCT_OK &&
        (status = oct_trainer_run(trainer)) == OCT_OK &&
        (status = oct_trainer_result(trainer, &result)) == OCT_OK) {
        printf("accuracy %.1f %% with %lld parameters\n", result.accuracy,
               (long long)result.n_parameters);
    }
    if (status != OCT_OK) {
        fprintf(stderr, "%s: %s\n", oct_status_name(status), oct_last_error());
    }
    oct_trainer_destroy(trainer);
    oct_config_destroy(config);
    return status == OCT_OK ? 0 : 1;
}
