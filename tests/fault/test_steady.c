/* SPDX-License-Identifier: Apache-2.0 */
/* test_steady.c - a running trainer asks for no memory: not by our own count, not behind its back,
 * and the process does not grow.
 *
 * The C library's allocation functions are replaced in this program. While a test watches, a
 * request counts unless it comes from oneDNN (or from the C++ library, which only oneDNN uses here)
 * or from OpenMP's runtime; these allocate a little in every step, and we cannot change that.
 */
#define _GNU_SOURCE 1 /* dladdr */

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include <octet/octet.h>

#include "base/alloc.h"
#include "engine/engine.h"
#include "nn/layer.h"
#include "support/check.h"
#include "support/solo.h"
#include "train/trainer.h"

/* --- whose request is it ---------------------------------------------------------------------- */

#if defined(__GLIBC__) && !IS_SANITIZED
#define IS_WATCHED 1
#else
#define IS_WATCHED 0 /* sanitizers replace the same functions, and other C libraries have none */
#endif

static atomic_int is_watching;
static atomic_long n_ours, n_theirs;
static void *_Atomic first_caller;

#if IS_WATCHED

static int is_theirs(const void *caller) {
    static const char *const libraries[] = {"libdnnl", "libstdc++", "libgcc_s", "libgomp",
                                            "libomp",  "libiomp",   "ld-linux"};
    Dl_info info;
    if (!dladdr(caller, &info) || !info.dli_fname) {
        return 0;
    }
    for (size_t i = 0; i < OCT_COUNT_OF(libraries); i++) {
        if (strstr(info.dli_fname, libraries[i])) {
            return 1;
        }
    }
    return 0;
}

static void note(void *caller) {
    if (!atomic_load(&is_watching)) {
        return;
    }
    if (is_theirs(caller)) {
        atomic_fetch_add(&n_theirs, 1);
    } else if (atomic_fetch_add(&n_ours, 1) == 0) {
        atomic_store(&first_caller, caller);
    }
}

#define EXPORTED __attribute__((visibility("default")))

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

EXPORTED void *malloc(size_t bytes) {
    note(__builtin_return_address(0));
    return __libc_malloc(bytes);
}

EXPORTED void *calloc(size_t count, size_t bytes) {
    note(__builtin_return_address(0));
    return __libc_calloc(count, bytes);
}

EXPORTED void *realloc(void *memory, size_t bytes) {
    note(__builtin_return_address(0));
    return __libc_realloc(memory, bytes);
}

EXPORTED void *aligned_alloc(size_t alignment, size_t bytes) {
    note(__builtin_return_address(0));
    return __libc_memalign(alignment, bytes);
}

EXPORTED void *memalign(size_t alignment, size_t bytes);
EXPORTED void *memalign(size_t alignment, size_t bytes) {
    note(__builtin_return_address(0));
    return __libc_memalign(alignment, bytes);
}

EXPORTED int posix_memalign(void **out, size_t alignment, size_t bytes) {
    note(__builtin_return_address(0));
    void *memory = __libc_memalign(alignment, bytes);
    if (!memory) {
        return ENOMEM;
    }
    *out = memory;
    return 0;
}

#endif

struct watch {
    uint64_t own_count;
    long ours, theirs;
};

static struct watch watch_begin(void) {
    atomic_store(&n_ours, 0);
    atomic_store(&n_theirs, 0);
    atomic_store(&first_caller, NULL);
    struct watch watch = {.own_count = oct__alloc_count()};
    atomic_store(&is_watching, 1);
    return watch;
}

static void watch_end(struct watch *watch) {
    atomic_store(&is_watching, 0);
    watch->own_count = oct__alloc_count() - watch->own_count;
    watch->ours = atomic_load(&n_ours);
    watch->theirs = atomic_load(&n_theirs);
}

static void expect_none(const char *what, const struct watch *watch) {
    print_message("%s: %llu by our own count, %ld seen outside oneDNN and OpenMP, %ld inside\n",
                  what, (unsigned long long)watch->own_count, watch->ours, watch->theirs);
    assert_int_equal(watch->own_count, 0);
    if (watch->ours != 0) {
        Dl_info info = {0};
        void *caller = atomic_load(&first_caller);
        dladdr(caller, &info);
        fail_msg("%s: %ld allocations; the first from %p in %s, after %s", what, watch->ours,
                 caller, info.dli_fname ? info.dli_fname : "?",
                 info.dli_sname ? info.dli_sname : "a static function");
    }
}

/* --- trainers --------------------------------------------------------------------------------- */

static struct oct_trainer *create(const char *engine, const char *norm, int n_nodes,
                                  const char *threads, const char *data,
                                  const struct oct_hooks *hooks) {
    struct oct_config *config = NULL;
    struct oct_trainer *trainer = NULL;
    EXPECT_OK(oct_config_create(&config));
    EXPECT_OK(oct_config_set(config, "model", "resnet20:width=4,blocks=1"));
    EXPECT_OK(oct_config_set(config, "data", data));
    EXPECT_OK(oct_config_set(config, "batch", "20"));
    EXPECT_OK(oct_config_set(config, "epochs", "1000"));
    EXPECT_OK(oct_config_set(config, "engine", engine));
    EXPECT_OK(oct_config_set(config, "norm", norm));
    EXPECT_OK(oct_config_set(config, "threads", threads));
    EXPECT_OK(solo(config, n_nodes));
    if (n_nodes > 1) { /* a round of gossip is part of the step */
        EXPECT_OK(oct_config_set(config, "algorithm", "choco"));
        EXPECT_OK(oct_config_set(config, "compress", "topk:0.9,values=int8"));
        EXPECT_OK(oct_config_set(config, "momentum", "qgm"));
    }
    EXPECT_OK(oct_trainer_create(config, hooks, &trainer));
    oct_config_destroy(config);
    return trainer;
}

/* --- tests ------------------------------------------------------------------------------------ */

/* The watch sees what it should: our own requests, in each form, and those of the fallback. */
static void the_watch_sees(void **state) {
    (void)state;
    if (!IS_WATCHED) {
        skip();
    }
    void *volatile memory[5] = {NULL};
    void *ours = NULL, *aligned = NULL;
    struct watch watch = watch_begin();
    memory[0] = malloc(10);
    memory[1] = calloc(3, 10);
    memory[2] = realloc(NULL, 10);
    memory[3] = aligned_alloc(64, 64);
    int failed = posix_memalign(&aligned, 64, 100);
    memory[4] = aligned;
    oct_status status = oct__alloc(100, "watched", &ours);
    watch_end(&watch);
    for (int i = 0; i < 5; i++) {
        free(memory[i]);
    }
    oct__free(ours);
    print_message("six requests: %ld seen, %llu by our own count\n", watch.ours,
                  (unsigned long long)watch.own_count);
    assert_int_equal(failed, 0);
    assert_int_equal(status, OCT_OK);
    assert_int_equal(watch.ours, 6);
    assert_int_equal(watch.own_count, 1);
}

static void steps_allocate_nothing(void **state) {
    (void)state;
    static const struct {
        int n_nodes;
        const char *threads;
    } forms[] = {{1, "1"}, {1, "2"}, {3, "2"}};
    for (int e = 0; oct__engine_at(e); e++) {
        if (oct__engine_at(e)->plugin.unavailable) {
            continue;
        }
        for (int i = 0; oct__norm_at(i); i++) {
            for (size_t f = i == 0 ? 0 : 2; f < OCT_COUNT_OF(forms); f++) {
                const char *engine = oct__engine_at(e)->plugin.name;
                const char *norm = oct__norm_at(i)->plugin.name;
                struct oct_trainer *trainer =
                    create(engine, norm, forms[f].n_nodes, forms[f].threads,
                           "synthetic:samples=70,size=8", NULL);
                struct oct_result result;
                EXPECT_OK(oct__trainer_step(trainer)); /* threads start, lazy symbols bind */
                EXPECT_OK(oct_trainer_result(trainer, &result));
                oct_status status = OCT_OK;
                struct watch watch = watch_begin();
                for (int step = 0; step < 50 && status == OCT_OK; step++) {
                    status = oct__trainer_step(trainer);
                }
                if (status == OCT_OK) {
                    status = oct_trainer_result(trainer, &result);
                }
                watch_end(&watch);
                EXPECT_OK(status);
                char what[128];
                snprintf(what, sizeof what, "%s, %s, %d nodes, %s threads: 50 steps and a result",
                         engine, norm, forms[f].n_nodes, forms[f].threads);
                expect_none(what, &watch);
                oct_trainer_destroy(trainer);
            }
        }
    }
}

/* A whole run through the public API, progress and evaluations included. */
static int count_calls(const struct oct_progress *progress, void *context) {
    (void)progress;
    ++*(int *)context;
    return 0;
}

static void a_run_allocates_nothing(void **state) {
    (void)state;
    struct oct_config *config = NULL;
    struct oct_trainer *trainer = NULL;
    int n_calls = 0;
    const struct oct_hooks hooks = {.progress = count_calls, .progress_context = &n_calls};
    EXPECT_OK(oct_config_create(&config));
    EXPECT_OK(solo(config, 1));
    EXPECT_OK(oct_config_set(config, "model", "resnet20:width=8,blocks=1"));
    EXPECT_OK(oct_config_set(config, "data", "synthetic:samples=70,size=8"));
    EXPECT_OK(oct_config_set(config, "epochs", "5"));
    EXPECT_OK(oct_config_set(config, "threads", "2"));
    EXPECT_OK(oct_trainer_create(config, &hooks, &trainer));
    EXPECT_OK(oct__trainer_step(trainer));
    struct watch watch = watch_begin();
    oct_status status = oct_trainer_run(trainer);
    watch_end(&watch);
    EXPECT_OK(status);
    assert_true(n_calls > 15);
    expect_none("a run of five epochs", &watch);
    oct_trainer_destroy(trainer);
    oct_config_destroy(config);
}

static long resident_pages(void) {
    long total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file) {
        return -1;
    }
    if (fscanf(file, "%ld %ld", &total, &resident) != 2) {
        resident = -1;
    }
    fclose(file);
    return resident;
}

/* One of everything that a residual network has; larger ones only do the same more often. */
static oct_status small_network(struct oct_graph *g, void *context) {
    (void)context;
    int x = oct_graph_conv(g, "stem", oct_graph_input(g),
                           (struct oct_conv){.channels = 8, .kernel = 3, .pad = 1});
    x = oct_graph_activation(g, "act", oct_graph_norm(g, "norm", x));
    int y = oct_graph_conv(g, "conv", x, (struct oct_conv){.channels = 8, .kernel = 3, .pad = 1});
    y = oct_graph_dropout(g, "drop", oct_graph_norm(g, "norm2", y), 0.1);
    x = oct_graph_max_pool(g, "max", oct_graph_add(g, "sum", x, y), (struct oct_pool){2, 0, 0});
    x = oct_graph_global_pool(g, "pool", x);
    oct_graph_output(g, oct_graph_linear(g, "head", x, oct_graph_classes(g)));
    return OCT_OK;
}

/* A leak of 300 bytes a step would show; the slack is for pages that heap and stacks first touch
 * late. */
static void a_thousand_steps_do_not_grow(void **state) {
    (void)state;
    enum { WARM_UP = 100, STEPS = 1000, SLACK_BYTES = 256 << 10 };
    if (IS_SANITIZED || resident_pages() < 0) {
        skip(); /* a sanitizer keeps freed memory for a while, on purpose */
    }
    for (int e = 0; oct__engine_at(e); e++) {
        if (oct__engine_at(e)->plugin.unavailable) {
            continue;
        }
        const struct oct_hooks hooks = {.model = small_network};
        struct oct_trainer *trainer = create(oct__engine_at(e)->plugin.name, "evonorm-s0", 1, "2",
                                             "synthetic:samples=70,size=4", &hooks);
        for (int i = 0; i < WARM_UP; i++) {
            EXPECT_OK(oct__trainer_step(trainer));
        }
        const long before = resident_pages();
        for (int i = 0; i < STEPS; i++) {
            EXPECT_OK(oct__trainer_step(trainer));
        }
        const long after = resident_pages(), page = sysconf(_SC_PAGESIZE);
        print_message("%s: %ld KiB resident after %d steps, %ld KiB after %d more\n",
                      oct__engine_at(e)->plugin.name, before * page / 1024, WARM_UP,
                      after * page / 1024, STEPS);
        assert_true((after - before) * page <= SLACK_BYTES);
        oct_trainer_destroy(trainer);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_watch_sees),
        cmocka_unit_test(steps_allocate_nothing),
        cmocka_unit_test(a_run_allocates_nothing),
        cmocka_unit_test(a_thousand_steps_do_not_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
