/* SPDX-License-Identifier: Apache-2.0 */
/* judge.c - see judge.h. */
#include "oracle/judge.h"

#include <float.h>
#include <stdarg.h>
#include <stdlib.h>

#include "support/check.h"

/* One output of one node under judgement. */
struct matter {
    struct oct__sim_call call; /* its operands of letter b are those before the operation */
    const struct oct__sim_output *output;
    enum oct__sim_form form;
    const char *where;
    const double *expected; /* before rounding */
    const double *found;
    size_t count;
    double largest;        /* of the expected */
    double zero, lo, step; /* where the form has them */
    struct verdict *verdict;
};

static void wrong(struct matter *m, size_t i, const char *format, ...) OCT_PRINTF(3, 4);

static void wrong(struct matter *m, size_t i, const char *format, ...) {
    struct verdict *v = m->verdict;
    if (v->n_wrong++ == 0) {
        char what[160];
        va_list list;
        va_start(list, format);
        vsnprintf(what, sizeof what, format, list);
        va_end(list);
        snprintf(v->first, sizeof v->first, "%s, %s: operand %d, node %d, element %zu %s", m->where,
                 oct__op_info[m->call.op].name, m->output->operand, m->call.node, i, what);
    }
}

/* How far `x` is from where its rounding changes. */
static double to_border(double x, enum oct__sim_form form) {
    return form == OCT_SIM_CHANCE ? fabs(x - rint(x)) : fabs(fabs(x - floor(x)) - 0.5);
}

static double hold(double x, double lo, double hi) {
    return x > lo ? (x < hi ? x : hi) : lo;
}

/* A whole number that was rounded from `exact`, shifted by `zero` and held to lo … hi. */
static void judge_whole(struct matter *m, size_t i, double exact, enum oct__sim_form form,
                        double zero, double lo, double hi) {
    const double rounded = form == OCT_SIM_CHANCE ? floor(exact) : rint(exact);
    const double expected = hold(rounded + zero, lo, hi);
    if (m->found[i] == expected) {
        return;
    }
    if (fabs(m->found[i] - expected) == 1.0 && to_border(exact, form) < BORDER) {
        m->verdict->n_exceptions++;
        return;
    }
    wrong(m, i, "is %g, the oracle's %g (%.9g from zero point %g, %s)", m->found[i], expected,
          exact, zero, form == OCT_SIM_CHANCE ? "rounded down" : "to the nearest");
}

static int same_float(double found, double exact) {
    return (isnan(found) && isnan(exact)) || found == (double)(float)exact;
}

/* The scale of a range norm comes from a difference of its values, which is as uncertain as these:
 * s = 1 / (R * f + eps), so an error of a hair of the largest |x| in R is one of |x| * s hairs in s. */
static double uncertainty(const struct matter *m, double scale) {
    const enum oct__op op = m->call.op;
    const int is_bytes = op == OCT_OP_RANGE_EVONORM_U8;
    double largest = 0.0;
    if (op != OCT_OP_RANGE_EVONORM && op != OCT_OP_RANGE_BATCH_NORM && !is_bytes) {
        return 1.0;
    }
    for (size_t i = 0; i < oct__tensor_count(oct__sim_tensor(&m->call, 0)); i++) {
        const double x =
            is_bytes ? oct__sim_dequantize(&m->call, 0, 1, i) : oct__sim_get(&m->call, 0, i);
        largest = fmax(largest, fabs(x));
    }
    return fmax(1.0, largest * scale);
}

static void judge_scale(struct matter *m, size_t i) {
    const double exact = m->expected[i], found = m->found[i];
    if (same_float(found, exact)) {
        return;
    }
    const double error = fabs(found - exact) / fabs(exact) / uncertainty(m, exact);
    if (!(error <= SCALE_ERROR)) {
        wrong(m, i, "is %.9g, the oracle's %.9g: a scale off by %.1e of itself", found, exact,
              error);
        return;
    }
    m->verdict->worst_scale = fmax(m->verdict->worst_scale, error);
}

/* Half of what two neighbouring numbers of the type are apart. */
static double half_unit(enum oct__dtype dtype, double x) {
    int exponent;
    frexp(x, &exponent);
    return dtype == OCT_DTYPE_BF16 ? ldexp(1.0, exponent - 9) : 0.0;
}

static void judge_value(struct matter *m, size_t i, double exact) {
    const enum oct__dtype dtype = oct__sim_tensor(&m->call, m->output->operand)->dtype;
    const double found = m->found[i];
    if (same_float(found, exact)) {
        return;
    }
    const double distance = fmax(0.0, fabs(found - exact) - half_unit(dtype, exact));
    const double error = distance / m->largest;
    if (!(error <= VALUE_ERROR)) {
        wrong(m, i, "is %.9g, the oracle's %.9g: off by %.1e of the largest", found, exact, error);
        return;
    }
    m->verdict->worst_value = fmax(m->verdict->worst_value, error);
}

/* One of 256 steps: the nearest, or the next one where the border is near. */
static void judge_step(struct matter *m, size_t i) {
    const double exact = m->expected[i];
    const double near = m->lo + m->step * rint(exact);
    const double other = m->lo + m->step * (rint(exact) + (exact > rint(exact) ? 1.0 : -1.0));
    if (to_border(exact, OCT_SIM_STEPS) < BORDER &&
        fabs(m->found[i] - other) < fabs(m->found[i] - near)) {
        m->verdict->n_exceptions++;
        judge_value(m, i, other);
        return;
    }
    judge_value(m, i, near);
}

static void judge_element(struct matter *m, size_t i) {
    const struct oct__tensor *t = oct__sim_tensor(&m->call, m->output->operand);
    m->verdict->n_elements++;
    switch (m->form) {
    case OCT_SIM_NEAREST:
    case OCT_SIM_CHANCE:
        m->verdict->n_bytes++;
        if (t->dtype == OCT_DTYPE_U8) {
            judge_whole(m, i, m->expected[i], m->form, m->zero, 0.0, 255.0);
        } else {
            judge_whole(m, i, m->expected[i], m->form, 0.0, -127.0, 127.0);
        }
        break;
    case OCT_SIM_STEPS:
        judge_step(m, i);
        break;
    case OCT_SIM_GRID:
        if (i == 2) {
            judge_whole(m, i, m->expected[i], OCT_SIM_NEAREST, 0.0, 0.0, 255.0);
        } else {
            judge_scale(m, i);
        }
        break;
    case OCT_SIM_VALUE:
        if (t->dtype != OCT_DTYPE_F32 && t->dtype != OCT_DTYPE_BF16) {
            if (m->found[i] != m->expected[i]) {
                wrong(m, i, "is %.0f, the oracle's %.0f", m->found[i], m->expected[i]);
            }
        } else if (m->output->is_scale) {
            judge_scale(m, i);
        } else {
            judge_value(m, i, m->expected[i]);
        }
        break;
    }
}

/* The oracle's numbers for a whole output, row by row. */
static void ask(const struct oct__sim_call *call, const struct oct__sim_output *output,
                double *to) {
    const size_t each = oct__sim_row(call, output->operand);
    const size_t n = output->is_whole ? 1 : (size_t)oct__sim_tensor(call, output->operand)->n;
    for (size_t row = 0; row < n; row++) {
        output->exact(call, row, to + row * each);
    }
}

/* Range BatchNorm is computed as x * k + (beta - mean * k), k = gamma * used: its error is one of the
 * terms, and where a channel is constant these are 1 / eps times as large as their difference. */
static double largest_term(const struct matter *m) {
    const int is_eval = m->call.op == OCT_OP_RANGE_BATCH_NORM_EVAL;
    const int y = is_eval ? 5 : 8, used = is_eval ? 4 : 7;
    double largest = 0.0;
    if ((!is_eval && m->call.op != OCT_OP_RANGE_BATCH_NORM) || m->output->operand != y) {
        return 0.0;
    }
    for (size_t i = 0; i < m->count; i++) {
        const size_t c = i % (size_t)oct__sim_tensor(&m->call, 0)->c;
        largest = fmax(largest, fabs(oct__sim_get(&m->call, 0, i) * oct__sim_get(&m->call, 1, c) *
                                     oct__sim_get(&m->call, used, c)));
    }
    return largest;
}

static void judge_output(struct matter *m, void *after) {
    const int operand = m->output->operand;
    m->count = oct__tensor_count(oct__sim_tensor(&m->call, operand));
    double *expected = calloc(m->count, sizeof *expected), *found = calloc(m->count, sizeof *found);
    assert_non_null(expected);
    assert_non_null(found);
    ask(&m->call, m->output, expected);
    struct oct__args later = *m->call.args;
    later.t[operand].at = after ? after : later.t[operand].at;
    const struct oct__sim_call result = {m->call.op, m->call.lane, &later, m->call.node};
    m->largest = fmax((double)FLT_MIN, largest_term(m)); /* below it floats have fewer digits */
    for (size_t i = 0; i < m->count; i++) {
        found[i] = oct__sim_get(&result, operand, i);
        m->largest = isfinite(expected[i]) ? fmax(m->largest, fabs(expected[i])) : m->largest;
    }
    m->form = oct__sim_form_of(&m->call, m->output);
    if (m->form == OCT_SIM_STEPS) {
        oct__sim_steps(&m->call, m->output->source, &m->lo, &m->step);
        m->largest = fmax(fabs(m->lo), fabs(m->lo + 255.0 * m->step));
    } else if (m->form == OCT_SIM_NEAREST || m->form == OCT_SIM_CHANCE) {
        const int has_zero = oct__sim_tensor(&m->call, operand)->dtype == OCT_DTYPE_U8;
        m->zero = has_zero ? oct__sim_get(&m->call, m->output->source, 2) : 0.0;
    }
    m->expected = expected;
    m->found = found;
    for (size_t i = 0; i < m->count; i++) {
        judge_element(m, i);
    }
    free(expected);
    free(found);
}

void judge(const struct oct__lane *lane, enum oct__op op, const struct oct__args *args,
           void *const *run, const char *where, struct verdict *verdict) {
    int n;
    const struct oct__sim_output *outputs = oct__sim_outputs(op, &n);
    for (int node = 0; node < lane->form.n_nodes; node++) {
        for (int i = 0; i < n; i++) {
            if (args->t[outputs[i].operand].n == 0) {
                continue;
            }
            struct matter m = {
                .call = {op, lane, args, node},
                .output = &outputs[i],
                .where = where,
                .verdict = verdict,
            };
            judge_output(&m, run[outputs[i].operand]);
        }
    }
}

void verdict_add(struct verdict *sum, const struct verdict *part) {
    if (sum->n_wrong == 0 && part->n_wrong > 0) {
        memcpy(sum->first, part->first, sizeof sum->first);
    }
    sum->n_elements += part->n_elements;
    sum->n_bytes += part->n_bytes;
    sum->n_exceptions += part->n_exceptions;
    sum->n_wrong += part->n_wrong;
    sum->worst_value = fmax(sum->worst_value, part->worst_value);
    sum->worst_scale = fmax(sum->worst_scale, part->worst_scale);
}

int verdict_is_good(const struct verdict *verdict) {
    return verdict->n_wrong == 0 &&
           (double)verdict->n_exceptions <= EXCEPTION_SHARE * (double)verdict->n_bytes + 1.0;
}
