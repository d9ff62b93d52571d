/* SPDX-License-Identifier: Apache-2.0 */
/* test_check.c - src/train/check.c: options that cannot go together are refused before any data is
 * opened; those that go together and were hardly meant are warned of, and no others. */
#include "support/check.h"

#include <octet/octet.h>

#include "train/config.h"

static char heard[1024];

static void hear(enum oct_log_level level, const char *text, void *context) {
    (void)context;
    assert_int_equal(level, OCT_LOG_WARNING);
    const size_t length = strlen(heard);
    snprintf(heard + length, sizeof heard - length, "%s\n", text);
}

struct setting {
    const char *name, *value;
};

#define SETTINGS_MOST 4

/* Of data that are nowhere: who looks for them fails otherwise than is expected here. */
static struct oct_config *configure(const struct setting *settings) {
    struct oct_config *config;
    EXPECT_OK(oct_config_create(&config));
    EXPECT_OK(oct_config_set(config, "data", "cifar10"));
    EXPECT_OK(oct_config_set(config, "data-dir", "/nowhere"));
    for (int i = 0; i < SETTINGS_MOST && settings[i].name; i++) {
        print_message("--%s %s ", settings[i].name, settings[i].value);
        EXPECT_OK(oct_config_set(config, settings[i].name, settings[i].value));
    }
    print_message("\n");
    return config;
}

static oct_status check(const struct oct_config *config) {
    heard[0] = '\0';
    oct_log_set(hear, NULL, OCT_LOG_WARNING);
    oct_status status = oct_config_check(config);
    oct_log_set(NULL, NULL, OCT_LOG_ERROR);
    return status;
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    static const struct {
        struct setting settings[SETTINGS_MOST];
        const char *piece;
    } cases[] = {
        {{{"precision", "fp32"}, {"precision-recipe", "paper"}}, "quantizes nothing"},
        {{{"nodes", "7"}, {"topology", "torus"}}, "7 nodes make no grid"},
        {{{"topology", "star"}, {"weights", "out-degree"}}, "use its push-sum form quant-sgp"},
        {{{"compensation-rounds", "3"}}, "sc-sparse-push has"},
        {{{"momentum", "local"}, {"global-beta", "0.95"}}, "and it is of momentum qgm"},
        {{{"momentum", "none"}, {"own-momentum", "0.5"}}, "and it is of momentum qgm"},
        {{{"nodes", "1"}, {"global-beta", "0.95"}}, "because nodes do not talk"},
        {{{"algorithm", "none"}, {"own-momentum", "0.5"}}, "because nodes do not talk"},
        {{{"nodes", "32"}, {"own-momentum", "0.01"}}, "because qgm is not stable with it"},
        {{{"slow-momentum", "0.9"}, {"global-beta", "0.95"}},
         "because slow-momentum goes with that"},
        {{{"momentum", "qgm"}, {"global-beta", "0.95"}, {"own-momentum", "0.5"}}, "give one"},
        {{{"momentum", "qgm"}, {"slow-momentum", "0.9"}}, "not with qgm"},
        {{{"fault", "crash:node=8,step=3"}}, "nodes 0 to 7"},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(cases); i++) {
        struct oct_config *config = configure(cases[i].settings);
        struct oct_trainer *trainer = NULL;
        char said[512];
        EXPECT_FAILURE(check(config), OCT_STATUS_INVALID, cases[i].piece);
        snprintf(said, sizeof said, "%s", oct_last_error());
        EXPECT_FAILURE(oct_trainer_create(config, NULL, &trainer), OCT_STATUS_INVALID, said);
        assert_string_equal(oct_last_error(), said);
        oct_config_destroy(config);
    }
    EXPECT_FAILURE(oct_config_check(NULL), OCT_STATUS_INVALID, "NULL");
}

static void what_was_hardly_meant_is_warned_of(void **state) {
    (void)state;
    static const struct {
        struct setting settings[SETTINGS_MOST];
        const char *expected;
    } cases[] = {
        {{{NULL, NULL}}, ""},
        {{{"nodes", "1"}, {"momentum", "local"}}, ""},
        {{{"nodes", "1"}, {"momentum", "qgm"}, {"compress", "topk:0.9"}},
         "no effect, because nodes is 1: compress, momentum\n"},
        {{{"algorithm", "none"}, {"momentum", "qgm"}, {"topology", "ring"}},
         "no effect, because algorithm none sends nothing: topology, momentum\n"},
        {{{"algorithm", "none"}, {"gamma", "0"}, {"compress", "int8"}},
         ""}, /* defaults, spelt out */
        {{{"algorithm", "allreduce"}, {"momentum", "qgm"}, {"gamma", "0.5"}},
         "no effect, because algorithm allreduce averages whole models: gamma\n"},
        {{{"final-statistics", "own"}, {"graph-hold", "3"}},
         "no effect, because this graph does not change: graph-hold\n"
         "no effect, because final-gossip is 0: final-statistics\n"},
        {{{"final-statistics", "own"}, {"final-gossip", "3"}}, ""},
        {{{"topology", "one-peer-exponential"}, {"graph-hold", "3"}}, ""},
        {{{"momentum", "none"}, {"beta", "0.5"}}, "no effect, because momentum is none: beta\n"},
        {{{"slow-rate", "0.5"}}, "no effect, because there is no slow-momentum: slow-rate\n"},
        {{{"slow-rate", "0.5"}, {"slow-momentum", "0.9"}}, ""},
        {{{"nodes", "16"}, {"momentum", "qgm"}, {"global-beta", "0.98"}}, ""},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(cases); i++) {
        struct oct_config *config = configure(cases[i].settings);
        EXPECT_OK(check(config));
        assert_string_equal(heard, cases[i].expected);
        oct_config_destroy(config);
    }
    struct oct_config *config =
        configure((struct setting[SETTINGS_MOST]){{"nodes", "16"}, {"momentum", "qgm"}});
    EXPECT_OK(check(config));
    assert_non_null(strstr(heard, "momentum qgm is unstable on this graph"));
    assert_non_null(strstr(heard, "global-beta 0.98"));
    oct_config_destroy(config);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(what_was_hardly_meant_is_warned_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
