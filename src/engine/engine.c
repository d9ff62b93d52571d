/* SPDX-License-Identifier: Apache-2.0 */
/* engine.c - the list of operations, the list of engines, and calls through an engine's slots. */
#include "engine/engine.h"

#include <stdio.h>
#include <string.h>

#include "engine/fallback.h"

const struct oct__op_info oct__op_info[OCT_OP_COUNT] = {
#define OCT_OP(name, text, product, operands, summary) {text, product, operands},
#include "engine/ops.def"
#undef OCT_OP
};

int oct__op_only_reads(enum oct__op op, const struct oct__args *args, int operand) {
    const struct oct__quant_attr *quant = &args->attr.quant;
    switch (op) {
    case OCT_OP_RANGE_EVONORM_U8:
        quant = &args->attr.norm.quant;
        break;
    case OCT_OP_QUANTIZE:
    case OCT_OP_SUMS_QUANTIZE:
    case OCT_OP_ADD_U8:
        break;
    default:
        return 0;
    }
    return oct__op_info[op].operands[operand] == 'b' && quant->range == OCT_RANGE_RUNNING;
}

#define OCT_OP(name, text, product, operands, summary)                                             \
    _Static_assert(sizeof(operands) - 1 <= OCT_ARGS_MOST, text " has too many operands");
#include "engine/ops.def"
#undef OCT_OP

#define OCT_ENGINE(name) extern const struct oct_engine_kind oct_engine_##name;
#include "engine/engines.def"
#undef OCT_ENGINE

static const struct oct_engine_kind *const kinds[] = {
#define OCT_ENGINE(name) &oct_engine_##name,
#include "engine/engines.def"
#undef OCT_ENGINE
};

const struct oct_engine_kind *oct__engine_at(int index) {
    if (index < 0 || (size_t)index >= OCT_COUNT_OF(kinds)) {
        return NULL;
    }
    return kinds[index]->here ? kinds[index]->here() : kinds[index];
}

oct_status oct__engine_open(const char *name, int n_threads, struct oct__engine **out) {
    char known[256] = "";
    for (size_t i = 0; i < OCT_COUNT_OF(kinds); i++) {
        const struct oct_plugin *plugin = &kinds[i]->plugin;
        if (strcmp(plugin->name, name) == 0) {
            const struct oct_engine_kind *kind = oct__engine_at((int)i);
            if (kind->plugin.unavailable) {
                OCT_FAIL(UNSUPPORTED, "engine %s: %s", name, kind->plugin.unavailable);
            }
            return kind->open(kind, n_threads, out);
        }
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", plugin->name);
    }
    OCT_FAIL(NOT_FOUND, "engine '%s' is not known; there are %s", name, known);
}

void oct__engine_close(struct oct__engine *engine) {
    if (engine) {
        engine->close(engine);
    }
}

oct_status oct__engine_write_rows(struct oct__engine *engine, void *at, size_t stride,
                                  const void *host, size_t bytes, int rows) {
    if (engine->write_rows) {
        return engine->write_rows(engine, at, stride, host, bytes, rows);
    }
    for (size_t i = 0; i < (size_t)rows; i++) {
        OCT_TRY(
            engine->write(engine, (char *)at + i * stride, (const char *)host + i * bytes, bytes));
    }
    return OCT_OK;
}

oct_status oct__engine_read_rows(struct oct__engine *engine, void *host, const void *at,
                                 size_t stride, size_t bytes, int rows) {
    if (engine->read_rows) {
        return engine->read_rows(engine, host, at, stride, bytes, rows);
    }
    for (size_t i = 0; i < (size_t)rows; i++) {
        OCT_TRY(
            engine->read(engine, (char *)host + i * bytes, (const char *)at + i * stride, bytes));
    }
    return OCT_OK;
}

oct_status oct__engine_fetch_rows(struct oct__engine *engine, void *host, const void *at,
                                  size_t stride, size_t bytes, int rows) {
    return engine->fetch_rows ? engine->fetch_rows(engine, host, at, stride, bytes, rows)
                              : oct__engine_read_rows(engine, host, at, stride, bytes, rows);
}

void oct__engine_free(struct oct__engine *engine, void *at) {
    if (at) {
        engine->free(engine, at);
    }
}

oct_status oct__engine_await(struct oct__engine *engine) {
    return engine->await ? engine->await(engine) : OCT_OK;
}

/* Integer products add up in 32 bits. A value is up to 255 on either side of its zero point, a
 * gradient and a weight up to 127, so at their worst 66,311 products of the one fit and 133,144 of
 * the other. */
static oct_status sums_fit(enum oct__op op, const struct oct__args *args) {
    if (op != OCT_OP_CONV_U8 && op != OCT_OP_CONV_S8_DGRAD) {
        return OCT_OK;
    }
    const int kernel = args->attr.conv.kernel, channels = args->t[0].c / args->attr.conv.groups;
    const int most = INT32_MAX / ((op == OCT_OP_CONV_U8 ? 255 : 127) * 127);
    if ((int64_t)channels * kernel * kernel > most) {
        OCT_FAIL(UNSUPPORTED,
                 "%s: a sum of %d channels x %d x %d products can leave 32 bits, which hold %d; "
                 "use smaller kernels, more groups or precision fp32",
                 oct__op_info[op].name, channels, kernel, kernel, most);
    }
    return OCT_OK;
}

oct_status oct__engine_prepare(struct oct__engine *engine, enum oct__op op,
                               const struct oct__lane_form *form, const struct oct__args *args,
                               struct oct__plan *plan) {
    memset(plan, 0, sizeof *plan);
    OCT_TRY(sums_fit(op, args));
    if (!engine->run[op]) {
        return oct__fallback_prepare(engine, op, form, args, plan);
    }
    if (engine->prepare) {
        OCT_TRY(engine->prepare(engine, op, form, args, plan));
    }
    if (!engine->keep) {
        plan->kept_bytes = 0;
    }
    return OCT_OK;
}

void oct__engine_release(struct oct__engine *engine, enum oct__op op, void *handle) {
    if (!handle) {
        return;
    }
    if (!engine->run[op]) {
        oct__fallback_release(handle);
    } else if (engine->release) {
        engine->release(engine, op, handle);
    }
}

struct oct__stream oct__lane_stream(const struct oct__lane *lane, enum oct__purpose purpose,
                                    int node, uint32_t layer) {
    const int n = lane->seeds ? lane->n_each : node + 1;
    const uint64_t seed = lane->seeds ? lane->seeds[node / n] : lane->seed;
    return oct__stream(seed, purpose, (uint32_t)(lane->first_node + node % n), lane->step, layer);
}

oct_status oct__engine_run(const struct oct__lane *lane, enum oct__op op,
                           const struct oct__args *args) {
    oct__op_fn *run = lane->engine->run[op];
    return run ? run(lane, args) : oct__fallback_run(lane, op, args);
}
