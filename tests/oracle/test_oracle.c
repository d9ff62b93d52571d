/* SPDX-License-Identifier: Apache-2.0 */
/* test_oracle.c - every engine's 8-bit operations against the formulas in double (engine/sim.h).
 *
 * First alone, with operands made up to be awkward (trial.c), then in programs, fed what the program
 * itself produced (walk.c). What counts as equal is written in judge.h; test_mutants.c shows that
 * the comparison fails where it should.
 *
 * OCT_CPU limits the instructions, as it does for the command `octet`; on a machine without that
 * level the program exits with 77, which counts as skipped.
 */
#include <stdlib.h>

#include <octet/cpu.h>

#include "oracle/trial.h"
#include "oracle/walk.h"
#include "support/check.h"
#include "support/rig.h"

enum { SKIPPED = 77 };

static void print_verdict(const char *what, const struct verdict *v) {
    print_message(
        "  %-22s %9ld elements  %5ld of %8ld bytes at a border  scales %.0e  floats %.0e\n", what,
        v->n_elements, v->n_exceptions, v->n_bytes, v->worst_scale, v->worst_value);
}

/* Operation by operation, and all together. */
static void sum_up(const struct verdict *verdicts, int is_short, struct verdict *all) {
    memset(all, 0, sizeof *all);
    for (int op = 0; op < OCT_OP_COUNT; op++) {
        verdict_add(all, &verdicts[op]);
        if (verdicts[op].n_elements > 0 && (!is_short || verdicts[op].n_wrong > 0)) {
            print_verdict(oct__op_info[op].name, &verdicts[op]);
            if (verdicts[op].n_wrong > 0) {
                print_message("    %ld wrong, first: %s\n", verdicts[op].n_wrong,
                              verdicts[op].first);
            }
        }
    }
    print_verdict("all", all);
}

/* A formula for each row of ops.def that reads or writes bytes, and for the range norms. */
static void every_operation_has_formulas(void **state) {
    (void)state;
    for (int op = OCT_OP_RANGE_EVONORM; op <= OCT_OP_QUANT_COUNT; op++) {
        const char *operands = oct__op_info[op].operands;
        int n, n_written = 0;
        const struct oct__sim_output *outputs = oct__sim_outputs((enum oct__op)op, &n);
        for (int i = 0; operands[i]; i++) {
            const int is_written = strchr("oObB", operands[i]) != NULL;
            int n_found = 0;
            for (int j = 0; j < n; j++) {
                n_found += outputs[j].operand == i;
            }
            n_written += is_written;
            if (n_found != is_written) {
                fail_msg("%s: operand %d has %d formulas", oct__op_info[op].name, i, n_found);
            }
        }
        print_message("%-22s %d outputs\n", oct__op_info[op].name, n_written);
    }
}

static void operations_alone(void **state) {
    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        struct oct__engine *engine;
        for (int e = 0; (engine = rig_engine_at(e, threads)); e++) {
            struct verdict verdicts[OCT_OP_COUNT] = {{0}}, all;
            for (int op = 0; op < OCT_OP_COUNT; op++) {
                for (int round = 0; trial_is_for((enum oct__op)op) && round < TRIAL_ROUNDS;
                     round++) {
                    struct trial trial;
                    trial_make(&trial, (enum oct__op)op, round);
                    trial_run(&trial, engine, &verdicts[op]);
                    trial_drop(&trial);
                }
            }
            print_message("%s, %d threads, operations alone\n", engine->kind->plugin.name, threads);
            sum_up(verdicts, threads > 1, &all);
            if (!verdict_is_good(&all)) {
                fail_msg("%s: %ld elements are wrong; %ld of %ld bytes are exceptions; %s",
                         engine->kind->plugin.name, all.n_wrong, all.n_exceptions, all.n_bytes,
                         all.first);
            }
            oct__engine_close(engine);
        }
    }
}

static void programs(void **state) {
    (void)state;
    struct oct__engine *engine;
    for (int e = 0; (engine = rig_engine_at(e, 1)); e++) {
        const struct walk_form *form;
        struct verdict sum[OCT_OP_COUNT] = {{0}}, all;
        for (int f = 0; (form = walk_form_at(f)) && !engine->kind->is_oracle; f++) {
            struct verdict verdicts[OCT_OP_COUNT] = {{0}};
            walk(engine, form, verdicts);
            for (int op = 0; op < OCT_OP_COUNT; op++) {
                verdict_add(&sum[op], &verdicts[op]);
            }
            print_message("%s, %s, %s, values %s, %s\n", engine->kind->plugin.name, form->norm,
                          form->recipe, form->stochastic ? "by chance" : "to the nearest",
                          form->model ? form->model : "odd network");
            sum_up(verdicts, 1, &all);
            if (!verdict_is_good(&all)) {
                fail_msg("%s, %s, %s: %ld elements are wrong; %ld of %ld bytes are exceptions; %s",
                         engine->kind->plugin.name, form->norm, form->recipe, all.n_wrong,
                         all.n_exceptions, all.n_bytes, all.first);
            }
        }
        if (!engine->kind->is_oracle) {
            print_message("%s, all programs\n", engine->kind->plugin.name);
            sum_up(sum, 0, &all);
        }
        oct__engine_close(engine);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_has_formulas),
        cmocka_unit_test(operations_alone),
        cmocka_unit_test(programs),
    };
    const char *level = getenv("OCT_CPU");
    if (level && level[0]) {
        oct_status status = oct_cpu_limit(level);
        if (status != OCT_OK) {
            fprintf(stderr, "OCT_CPU: %s\n", oct_last_error());
            return status == OCT_STATUS_UNSUPPORTED ? SKIPPED : 2;
        }
    }
    print_message("level %s\n", oct_cpu_level_name(oct_cpu_level()));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
