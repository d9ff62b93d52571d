/* SPDX-License-Identifier: Apache-2.0 */
/* fault.c - plans of faults: their text, what a run can have of them, and their schedule. */
#include "train/fault.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "base/spec.h"

/* Longer texts are no plan somebody wrote. */
#define TEXT_MOST 4096

/* Messages that are late are kept until then, each with its bytes. */
#define DELAY_MOST 1000

/* --- reading ---------------------------------------------------------------------------------- */

/* What the options of any fault can say. */
struct entry {
    double p;
    int64_t rounds, node, step, back;
    int memory;
};

static const char *const memories[] = {"kept", "lost", NULL};

#define P                                                                                          \
    { "p", OCT_SPEC_REAL, offsetof(struct entry, p), 0, 1, NULL }
#define END                                                                                        \
    { NULL, OCT_SPEC_INT, 0, 0, 0, NULL }

static const struct oct__spec_option chance_table[] = {P, END};

static const struct oct__spec_option delay_table[] = {
    P,
    {"rounds", OCT_SPEC_INT, offsetof(struct entry, rounds), 1, DELAY_MOST, NULL},
    END,
};

static const struct oct__spec_option crash_table[] = {
    {"node", OCT_SPEC_INT, offsetof(struct entry, node), 0, 65535, NULL},
    {"step", OCT_SPEC_INT, offsetof(struct entry, step), 0, UINT32_MAX, NULL},
    {"back", OCT_SPEC_INT, offsetof(struct entry, back), 1, UINT32_MAX, NULL},
    {"memory", OCT_SPEC_CHOICE, offsetof(struct entry, memory), 0, 0, memories},
    END,
};

static const struct kind {
    const char *name, *example;
    const struct oct__spec_option *table;
    size_t chance; /* where in a plan its p goes; 0: it is a crash */
} kinds[] = {
    {"drop", "drop:p=0.01", chance_table, offsetof(struct oct__fault_plan, drop) + 1},
    {"delay", "delay:p=0.01,rounds=2", delay_table, offsetof(struct oct__fault_plan, delay) + 1},
    {"duplicate", "duplicate:p=0.01", chance_table,
     offsetof(struct oct__fault_plan, duplicate) + 1},
    {"reorder", "reorder:p=0.01", chance_table, offsetof(struct oct__fault_plan, reorder) + 1},
    {"crash", "crash:node=3,step=100,back=150", crash_table, 0},
};

static oct_status add_crash(struct oct__fault_plan *plan, const struct entry *entry) {
    if (entry->node < 0 || entry->step < 0) {
        OCT_FAIL(INVALID, "crash: which node, and from which step on? crash:node=3,step=100");
    }
    if (entry->back <= entry->step) {
        OCT_FAIL(INVALID, "crash: back is %lld, expected a step after step %lld",
                 (long long)entry->back, (long long)entry->step);
    }
    if (entry->memory && entry->back == INT64_MAX) {
        OCT_FAIL(INVALID, "crash: memory=lost is about coming back: give back, too");
    }
    const struct oct__crash crash = {entry->node, entry->step, entry->back, entry->memory};
    void *crashes = plan->crashes;
    OCT_TRY(
        oct__alloc_grow(&crashes, &plan->capacity, plan->n_crashes + 1, sizeof crash, "faults"));
    plan->crashes = crashes;
    size_t at = plan->n_crashes++;
    for (; at > 0 && plan->crashes[at - 1].step > crash.step; at--) {
        plan->crashes[at] = plan->crashes[at - 1];
    }
    plan->crashes[at] = crash;
    return OCT_OK;
}

static oct_status add(const char *text, struct oct__fault_plan *plan, unsigned *seen) {
    char name[OCT_SPEC_NAME];
    const char *options;
    OCT_TRY(oct__spec_split(text, name, &options));
    size_t k = 0;
    while (k < OCT_COUNT_OF(kinds) && strcmp(name, kinds[k].name) != 0) {
        k++;
    }
    if (k == OCT_COUNT_OF(kinds)) {
        OCT_FAIL(INVALID, "'%s' is none; there are drop, delay, duplicate, reorder and crash",
                 name);
    }
    const struct kind *kind = &kinds[k];
    struct entry entry = {.p = -1, .rounds = 1, .node = -1, .step = -1, .back = INT64_MAX};
    OCT_TRY(oct__spec_read(name, options, kind->table, &entry));
    if (kind->chance == 0) {
        return add_crash(plan, &entry);
    }
    if (entry.p < 0) {
        OCT_FAIL(INVALID, "%s: how often? %s", name, kind->example);
    }
    if (*seen & 1U << k) {
        OCT_FAIL(INVALID, "%s is given twice", name);
    }
    *seen |= 1U << k;
    memcpy((char *)plan + kind->chance - 1, &entry.p, sizeof entry.p);
    plan->delay_rounds = kind->table == delay_table ? entry.rounds : plan->delay_rounds;
    return OCT_OK;
}

/* "a+b+c", one after another. */
static oct_status read_all(char *text, struct oct__fault_plan *plan) {
    unsigned seen = 0;
    for (char *at = text; at;) {
        char *plus = strchr(at, '+');
        if (plus) {
            *plus = '\0';
        }
        OCT_TRY(add(at, plan, &seen));
        at = plus ? plus + 1 : NULL;
    }
    return OCT_OK;
}

/* A node that is away cannot crash, nor one that comes back in that very step. */
static oct_status check_overlaps(const struct oct__fault_plan *plan) {
    for (size_t i = 0; i < plan->n_crashes; i++) {
        for (size_t j = i + 1; j < plan->n_crashes; j++) {
            const struct oct__crash *a = &plan->crashes[i], *b = &plan->crashes[j];
            if (a->node == b->node && b->step <= a->back) {
                OCT_FAIL(INVALID, "crash: node %lld is to crash at step %lld, when it %s",
                         (long long)a->node, (long long)b->step,
                         b->step < a->back ? "is away" : "comes back: make it one crash");
            }
        }
    }
    return OCT_OK;
}

oct_status oct__fault_read(const char *text, struct oct__fault_plan *out) {
    char *copy;
    *out = (struct oct__fault_plan){.delay_rounds = 1};
    if (!text[0]) {
        return OCT_OK;
    }
    if (strlen(text) > TEXT_MOST) {
        OCT_FAIL(INVALID, "fault: %zu characters; %d are the most", strlen(text), TEXT_MOST);
    }
    OCT_TRY(oct__alloc_text(text, "faults", &copy));
    oct_status status = read_all(copy, out);
    oct__free(copy);
    if (status == OCT_OK) {
        status = check_overlaps(out);
    }
    return status == OCT_OK ? OCT_OK : oct__fail_within(status, "fault: ");
}

void oct__fault_fini(struct oct__fault_plan *plan) {
    oct__free(plan->crashes);
    memset(plan, 0, sizeof *plan);
}

int oct__fault_is_any(const struct oct__fault_plan *plan) {
    return plan->drop > 0 || plan->delay > 0 || plan->duplicate > 0 || plan->reorder > 0 ||
           plan->n_crashes > 0;
}

/* Somebody has to be there who has a model: nodes that return without their memory ask for one. */
static oct_status check_models(const struct oct__fault_plan *plan, int n_nodes, int64_t step) {
    for (int node = 0; node < n_nodes; node++) {
        if (!oct__fault_is_away(plan, node, step) && !oct__fault_forgets(plan, node, step)) {
            return OCT_OK;
        }
    }
    OCT_FAIL(INVALID, "fault: crash: at step %lld nobody would be left who has a model",
             (long long)step);
}

oct_status oct__fault_check(const struct oct__fault_plan *plan, int n_nodes, int64_t n_steps) {
    for (size_t i = 0; i < plan->n_crashes; i++) {
        const struct oct__crash *crash = &plan->crashes[i];
        if (crash->node >= n_nodes) {
            OCT_FAIL(INVALID, "fault: crash: node is %lld, and the run has nodes 0 to %d",
                     (long long)crash->node, n_nodes - 1);
        }
        if (n_steps > 0 && crash->step >= n_steps) {
            OCT_FAIL(INVALID, "fault: crash: step is %lld, and the run has steps 0 to %lld",
                     (long long)crash->step, (long long)n_steps - 1);
        }
    }
    /* Steps at which nodes come back need no look: who has no model then was away the step before. */
    for (size_t i = 0; i < plan->n_crashes; i++) {
        OCT_TRY(check_models(plan, n_nodes, plan->crashes[i].step));
    }
    return OCT_OK;
}

/* --- the schedule ----------------------------------------------------------------------------- */

int oct__fault_is_away(const struct oct__fault_plan *plan, int node, int64_t step) {
    for (size_t i = 0; i < plan->n_crashes; i++) {
        const struct oct__crash *crash = &plan->crashes[i];
        if (crash->node == node && step >= crash->step && step < crash->back) {
            return 1;
        }
    }
    return 0;
}

int oct__fault_forgets(const struct oct__fault_plan *plan, int node, int64_t step) {
    for (size_t i = 0; i < plan->n_crashes; i++) {
        const struct oct__crash *crash = &plan->crashes[i];
        if (crash->node == node && crash->back == step && crash->forgets) {
            return 1;
        }
    }
    return 0;
}

int64_t oct__fault_steps_away(const struct oct__fault_plan *plan, int node, int64_t from,
                              int64_t to) {
    int64_t n = 0;
    for (size_t i = 0; i < plan->n_crashes; i++) {
        const struct oct__crash *crash = &plan->crashes[i];
        const int64_t first = crash->step > from ? crash->step : from;
        const int64_t end = crash->back < to ? crash->back : to;
        n += crash->node == node && end > first ? end - first : 0;
    }
    return n;
}

/* A word for each kind, so that one kind's chance changes nothing about the others' messages. */
enum oct__fate oct__fault_fate(const struct oct__fault_plan *plan, uint64_t seed, int from, int to,
                               uint32_t round) {
    const struct oct__stream stream =
        oct__stream(seed, OCT_PURPOSE_FAULT, (uint32_t)from, round, 0);
    const double chances[4] = {plan->drop, plan->delay, plan->reorder, plan->duplicate};
    static const enum oct__fate fates[4] = {OCT_FATE_DROPPED, OCT_FATE_LATE, OCT_FATE_OVERTAKEN,
                                            OCT_FATE_TWICE};
    uint32_t words[4];
    oct__stream_block(&stream, (uint32_t)to, words);
    for (int i = 0; i < 4; i++) {
        if ((double)words[i] < chances[i] * 0x1p32) {
            return fates[i];
        }
    }
    return OCT_FATE_ARRIVES;
}
