/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.h - what this build offers: models, norms, datasets, engines and the rest, by kind. */
#ifndef OCTET_PLUGIN_H
#define OCTET_PLUGIN_H

#include <octet/export.h>

#ifdef __cplusplus
extern "C" {
#endif

enum oct_plugin_kind {
    OCT_PLUGIN_MODEL,
    OCT_PLUGIN_NORM,
    OCT_PLUGIN_DATASET,
    OCT_PLUGIN_ENGINE,
    OCT_PLUGIN_SCHEDULE,
    OCT_PLUGIN_RECIPE, /* of 8-bit training */
    OCT_PLUGIN_TOPOLOGY,
    OCT_PLUGIN_PARTITION,
    OCT_PLUGIN_ALGORITHM, /* of gossip */
    OCT_PLUGIN_COMPRESSOR,
    OCT_PLUGIN_TRANSPORT,
    OCT_PLUGIN_KIND_COUNT
};

struct oct_plugin {
    const char *name;        /* as options name it: "resnet20" */
    const char *summary;     /* one line */
    const char *reference;   /* paper or origin; NULL: none */
    const char *options;     /* "samples=N, classes=N"; NULL: none */
    const char *unavailable; /* why it cannot be used in this build; NULL: it can */
};

/* "model"; NULL for a number that is no kind. */
OCT_API const char *oct_plugin_kind_name(enum oct_plugin_kind kind);

/* Entry `index` of a kind, unavailable ones included; NULL past the end. */
OCT_API const struct oct_plugin *oct_plugin_at(enum oct_plugin_kind kind, int index);

#ifdef __cplusplus
}
#endif

#endif
