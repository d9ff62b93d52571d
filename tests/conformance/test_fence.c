/* SPDX-License-Identifier: Apache-2.0 */
/* test_fence.c - nothing outside an engine touches tensor memory.
 *
 * Every model trains on an engine whose memory is out of reach outside its operations, to the same
 * bits as on the engine inside it: that is what an accelerator will rely on. And the fence is shown
 * to bite, by processes that touch what they must not.
 */
#define _DEFAULT_SOURCE 1

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "models/model.h"
#include "nn/layer.h"
#include "support/check.h"
#include "support/engines.h"
#include "support/outcome.h"

static void train_behind_the_fence(const struct run_form *form) {
    struct outcome expected = outcome_on(plain_engine("cpu", form->n_threads), form), found;
    struct run run;
    struct oct__engine *fence = NULL;
    EXPECT_OK(fence_open(&fence));
    run_open(&run, fence, form);
    run_train(&run, &found);
    char name[96];
    snprintf(name, sizeof name, "%s, %s, %s", form->model, form->norm,
             form->recipe ? "int8" : "fp32");
    print_message("%s: %ld operations of %zu layers behind the fence\n", name,
                  fence_operations(fence), run.graph.n_layers);
    assert_true(fence_operations(fence) > (long)(OUTCOME_STEPS * run.graph.n_layers));
    outcome_compare(name, &found, &expected);
    run_close(&run);
    oct__engine_close(fence);
    outcome_free(&found);
    outcome_free(&expected);
}

static const struct run_form small = {.model = "resnet20",
                                      .data = "synthetic:samples=40,size=16",
                                      .n_nodes = 1,
                                      .n_threads = 1,
                                      .batch = 6};

static void every_norm_trains_behind_the_fence(void **state) {
    (void)state;
    for (int i = 0; oct__norm_at(i); i++) {
        struct run_form form = small;
        form.norm = oct__norm_at(i)->plugin.name;
        train_behind_the_fence(&form);
        form.recipe = "octet";
        train_behind_the_fence(&form);
    }
}

/* A model as it is would fill and clear a hundred megabytes of pages; its narrow form has channels for
 * which products have no blocked layout. These are in between. */
static const char *medium_model(const char *name) {
    static const char *const specs[][2] = {
        {"resnet20", "resnet20"},
        {"resnet54", "resnet54:blocks=2"},
        {"resnet18", "resnet18:width=16"},
        {"vgg11", "vgg11:width=16"},
        {"mobilenetv2", "mobilenetv2:percent=50"},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(specs); i++) {
        if (strcmp(specs[i][0], name) == 0) {
            return specs[i][1];
        }
    }
    return name;
}

static void every_model_trains_behind_the_fence(void **state) {
    (void)state;
    for (int i = 0; oct__model_at(i); i++) {
        struct run_form form = small;
        form.model = medium_model(oct__model_at(i)->plugin.name);
        form.batch = 3;
        form.norm = "evonorm-s0";
        train_behind_the_fence(&form);
        form.norm = "range-evonorm";
        form.recipe = "octet";
        train_behind_the_fence(&form);
    }
}

/* --- biting ----------------------------------------------------------------------------------- */

/* Exit codes of a process that touches something. */
enum { NOTHING_HAPPENED = 0, HIT_THE_FENCE = 42, HIT_SOMETHING_ELSE = 43 };

static const struct oct__engine *guarded;

static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)context;
    _exit(fence_owns(guarded, info->si_addr) ? HIT_THE_FENCE : HIT_SOMETHING_ELSE);
}

/* Runs `touch` in a process of its own and returns its exit code. */
static int touched(void (*touch)(void *at), void *at) {
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct sigaction action;
        memset(&action, 0, sizeof action);
        action.sa_sigaction = on_fault;
        action.sa_flags = SA_SIGINFO;
        sigaction(SIGSEGV, &action, NULL);
        sigaction(SIGBUS, &action, NULL);
        touch(at);
        _exit(NOTHING_HAPPENED);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void read_it(void *at) {
    volatile const char *from = at;
    (void)*from;
}

static void write_it(void *at) {
    volatile char *to = at;
    *to = 1;
}

static void touch_nothing(void *at) {
    (void)at;
}

static struct run run;

static int open_run(void **state) {
    (void)state;
    const struct run_form form = {.model = "resnet20:width=8,blocks=1",
                                  .data = "synthetic:samples=32,size=8",
                                  .norm = "evonorm-s0",
                                  .n_nodes = 1,
                                  .n_threads = 1,
                                  .batch = 4};
    struct oct__engine *fence = NULL;
    EXPECT_OK(fence_open(&fence));
    run_open(&run, fence, &form);
    guarded = fence;
    return 0;
}

static int close_run(void **state) {
    (void)state;
    struct oct__engine *fence = run.cohort->engine;
    run_close(&run);
    oct__engine_close(fence);
    return 0;
}

static void touching_is_caught(void **state) {
    (void)state;
    assert_false(run.cohort->crew->train.is_borrowed);
    void *const places[] = {
        run.cohort->state[OCT_HOME_PARAM],   run.cohort->state[OCT_HOME_MOMENTUM],
        run.cohort->average[OCT_HOME_PARAM], run.cohort->crew->lanes[0].work,
        run.cohort->crew->lanes[0].grad,     run.cohort->crew->lanes[0].scratch,
        run.cohort->crew->train.images,      run.cohort->crew->train.lut};
    for (int after_a_step = 0; after_a_step < 2; after_a_step++) {
        assert_int_equal(touched(touch_nothing, places[0]), NOTHING_HAPPENED);
        for (size_t i = 0; i < OCT_COUNT_OF(places); i++) {
            int reading = touched(read_it, places[i]), writing = touched(write_it, places[i]);
            print_message("place %zu: reading %d, writing %d\n", i, reading, writing);
            assert_int_equal(reading, HIT_THE_FENCE);
            assert_int_equal(writing, HIT_THE_FENCE);
        }
        struct oct__node_step node; /* opens and closes everything */
        EXPECT_OK(oct__cohort_step(run.cohort, &(struct oct__step){0, 0.1F, 0, 0, 0}, &node));
    }
}

/* An operation whose result is too small for what it writes. */
static void *too_small;

static void run_over_the_end(void *from) {
    struct oct__args args;
    memset(&args, 0, sizeof args);
    args.t[0] = (struct oct__tensor){.at = from, .n = 1, .h = 1, .w = 1, .c = 4096};
    args.t[1] = (struct oct__tensor){.at = too_small, .n = 1, .h = 1, .w = 1, .c = 16};
    (void)!oct__engine_run(&run.cohort->crew->lanes[0].lane, OCT_OP_RELU, &args);
}

/* An operation that writes to what it was only lent: the sampled images. */
static void run_into_its_input(void *images) {
    struct oct__lane lane = run.cohort->crew->lanes[0].lane;
    struct oct__args args;
    memset(&args, 0, sizeof args);
    args.t[0] = (struct oct__tensor){.at = images, .n = 1, .h = 1, .w = 1, .c = 16};
    args.t[1] = (struct oct__tensor){.n = 0}; /* absent, as far as the fence can see */
    args.t[1].at = images;
    (void)!lane.engine->run[OCT_OP_NONFINITE](&lane, &args);
}

static void operations_are_held_to_their_operands(void **state) {
    (void)state;
    struct oct__engine *fence = run.cohort->engine;
    void *from;
    EXPECT_OK(fence->alloc(fence, 4096 * sizeof(float), "a", &from));
    EXPECT_OK(fence->alloc(fence, 16 * sizeof(float), "b", &too_small));
    int over = touched(run_over_the_end, from);
    int into = touched(run_into_its_input, run.cohort->crew->train.images);
    print_message("over the end of its result: %d; into what it may only read: %d\n", over, into);
    assert_int_equal(over, HIT_THE_FENCE);
    assert_int_equal(into, HIT_THE_FENCE);
    fence->free(fence, from);
    fence->free(fence, too_small);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_norm_trains_behind_the_fence),
        cmocka_unit_test(every_model_trains_behind_the_fence),
        cmocka_unit_test_setup_teardown(touching_is_caught, open_run, close_run),
        cmocka_unit_test_setup_teardown(operations_are_held_to_their_operands, open_run, close_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
