/* SPDX-License-Identifier: Apache-2.0 */
/* test_mutants.c - the comparison with the oracle notices mistakes: each mutant, on each engine.
 *
 * Without a mutant the same operands pass, so what fails is the mistake.
 */
#include "oracle/mutants.h"
#include "oracle/trial.h"
#include "support/check.h"
#include "support/rig.h"

/* All rounds of one operation. */
static void judge_rounds(struct oct__engine *engine, enum oct__op op, struct verdict *verdict) {
    memset(verdict, 0, sizeof *verdict);
    for (int round = 0; round < TRIAL_ROUNDS; round++) {
        struct trial trial;
        trial_make(&trial, op, round);
        trial_run(&trial, engine, verdict);
        trial_drop(&trial);
    }
}

static void expect_good(struct oct__engine *engine, enum oct__op op) {
    struct verdict verdict;
    judge_rounds(engine, op, &verdict);
    if (!verdict_is_good(&verdict)) {
        fail_msg("%s, no mutant: %s", engine->kind->plugin.name, verdict.first);
    }
}

static int is_subject(const struct oct__engine *engine) {
    return engine->uses_host_memory && !engine->kind->is_oracle;
}

static void mutants_are_noticed(void **state) {
    (void)state;
    struct oct__engine *engine;
    for (int e = 0; (engine = rig_engine_at(e, 1)); e++) {
        const struct mutant *mutant;
        const char *who = engine->kind->plugin.name;
        for (int i = 0; is_subject(engine) && (mutant = mutant_at(i)); i++) {
            struct verdict verdict;
            oct__op_fn *original = engine->run[mutant->op];
            expect_good(engine, mutant->op);
            mutant_install(mutant, engine);
            judge_rounds(engine, mutant->op, &verdict);
            engine->run[mutant->op] = original;
            print_message("%-9s %-22s %-22s %-36s %6ld wrong\n          first: %s\n", who,
                          mutant->name, oct__op_info[mutant->op].name, mutant->what,
                          verdict.n_wrong, verdict.first);
            if (verdict.n_wrong == 0) {
                fail_msg("%s: the mutant %s was not noticed in %ld elements", who, mutant->name,
                         verdict.n_elements);
            }
        }
        oct__engine_close(engine);
    }
}

/* The smallest change of any output of any operation. */
static void nudges_are_noticed(void **state) {
    (void)state;
    struct oct__engine *engine = NULL;
    EXPECT_OK(oct__engine_open("portable", 1, &engine));
    for (int op = 0; op < OCT_OP_COUNT; op++) {
        int n;
        const struct oct__sim_output *outputs = oct__sim_outputs((enum oct__op)op, &n);
        for (int i = 0; i < n; i++) {
            struct verdict verdict;
            oct__op_fn *original = engine->run[op];
            nudge_install((enum oct__op)op, outputs[i].operand, engine);
            judge_rounds(engine, (enum oct__op)op, &verdict);
            engine->run[op] = original;
            print_message("%-22s operand %2d: %4ld wrong\n", oct__op_info[op].name,
                          outputs[i].operand, verdict.n_wrong);
            if (verdict.n_wrong == 0) {
                fail_msg("%s: operand %d moved, and that was not noticed", oct__op_info[op].name,
                         outputs[i].operand);
            }
        }
    }
    oct__engine_close(engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mutants_are_noticed),
        cmocka_unit_test(nudges_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
