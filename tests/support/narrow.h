/* SPDX-License-Identifier: Apache-2.0 */
/* narrow.h - every model in a size that a test can afford: the same layers, few channels. */
#ifndef OCT_TESTS_NARROW_H
#define OCT_TESTS_NARROW_H

#include <string.h>

#include <octet/export.h>

/* The spec of a narrow form of the model called `name`; the name itself when none is written down. */
static inline const char *narrow_model(const char *name) {
    static const char *const specs[][2] = {
        {"resnet20", "resnet20:width=4,blocks=1"},
        {"resnet54", "resnet54:width=4,blocks=2"},
        {"resnet18", "resnet18:width=4"},
        {"vgg11", "vgg11:width=4"},
        {"mobilenetv2", "mobilenetv2:percent=25,blocks=1"},
    };
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        if (strcmp(specs[i][0], name) == 0) {
            return specs[i][1];
        }
    }
    return name;
}

#endif
