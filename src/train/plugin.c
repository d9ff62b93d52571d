/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - one view over all registries, for help texts and option checks. */
#include <octet/plugin.h>

#include "compress/compress.h"
#include "data/data.h"
#include "data/partition.h"
#include "engine/engine.h"
#include "gossip/gossip.h"
#include "models/model.h"
#include "nn/layer.h"
#include "topology/topology.h"
#include "train/schedule.h"
#include "transport/transport.h"

const char *oct_plugin_kind_name(enum oct_plugin_kind kind) {
    static const char *const names[OCT_PLUGIN_KIND_COUNT] = {
        [OCT_PLUGIN_MODEL] = "model",         [OCT_PLUGIN_NORM] = "norm",
        [OCT_PLUGIN_DATASET] = "dataset",     [OCT_PLUGIN_ENGINE] = "engine",
        [OCT_PLUGIN_SCHEDULE] = "schedule",   [OCT_PLUGIN_RECIPE] = "recipe",
        [OCT_PLUGIN_TOPOLOGY] = "topology",   [OCT_PLUGIN_PARTITION] = "partition",
        [OCT_PLUGIN_ALGORITHM] = "algorithm", [OCT_PLUGIN_COMPRESSOR] = "compressor",
        [OCT_PLUGIN_TRANSPORT] = "transport",
    };
    return (unsigned)kind < OCT_PLUGIN_KIND_COUNT ? names[kind] : NULL;
}

const struct oct_plugin *oct_plugin_at(enum oct_plugin_kind kind, int index) {
#define FROM(at) (at(index) ? &at(index)->plugin : NULL)
    switch (kind) {
    case OCT_PLUGIN_MODEL:
        return FROM(oct__model_at);
    case OCT_PLUGIN_NORM:
        return FROM(oct__norm_at);
    case OCT_PLUGIN_DATASET:
        return FROM(oct__dataset_at);
    case OCT_PLUGIN_ENGINE:
        return FROM(oct__engine_at);
    case OCT_PLUGIN_SCHEDULE:
        return FROM(oct__schedule_at);
    case OCT_PLUGIN_RECIPE:
        return FROM(oct__recipe_at);
    case OCT_PLUGIN_TOPOLOGY:
        return FROM(oct__topology_at);
    case OCT_PLUGIN_PARTITION:
        return FROM(oct__partition_at);
    case OCT_PLUGIN_ALGORITHM:
        return FROM(oct__algorithm_at);
    case OCT_PLUGIN_COMPRESSOR:
        return FROM(oct__compressor_at);
    case OCT_PLUGIN_TRANSPORT:
        return FROM(oct__transport_at);
    default:
        return NULL;
    }
#undef FROM
}
