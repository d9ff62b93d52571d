/* SPDX-License-Identifier: Apache-2.0 */
/* hollow.c - the test engine with memory alone: see engines.h. */
#include <string.h>

#include "base/alloc.h"
#include "support/engines.h"

/* Added to every address that is handed out: what results is no place a program can touch. */
#define ELSEWHERE ((uintptr_t)1 << 62)

static const struct oct_engine_kind hollow_kind = {
    .plugin = {.name = "hollow", .summary = "memory without operations"}};

static void *outside(void *at) {
    return (void *)((uintptr_t)at + ELSEWHERE);
}

static void *inside(const void *at) {
    return (void *)((uintptr_t)at - ELSEWHERE);
}

static oct_status hollow_alloc(struct oct__engine *engine, size_t bytes, const char *what,
                               void **at) {
    (void)engine;
    void *memory;
    OCT_TRY(oct__alloc(bytes, what, &memory));
    *at = outside(memory);
    return OCT_OK;
}

static void hollow_free(struct oct__engine *engine, void *at) {
    (void)engine;
    oct__free(inside(at));
}

static oct_status hollow_write(struct oct__engine *engine, void *at, const void *host,
                               size_t bytes) {
    (void)engine;
    memcpy(inside(at), host, bytes);
    return OCT_OK;
}

static oct_status hollow_read(struct oct__engine *engine, void *host, const void *at,
                              size_t bytes) {
    (void)engine;
    memcpy(host, inside(at), bytes);
    return OCT_OK;
}

static void hollow_close(struct oct__engine *engine) {
    oct__free(engine);
}

oct_status hollow_open(int n_threads, struct oct__engine **out) {
    void *memory;
    OCT_TRY(oct__alloc(sizeof(struct oct__engine), "hollow", &memory));
    struct oct__engine *engine = memory;
    engine->kind = &hollow_kind;
    engine->n_threads = n_threads;
    engine->alloc = hollow_alloc;
    engine->free = hollow_free;
    engine->write = hollow_write;
    engine->read = hollow_read;
    engine->close = hollow_close;
    *out = engine;
    return OCT_OK;
}
