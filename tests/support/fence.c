/* SPDX-License-Identifier: Apache-2.0 */
/* fence.c - the test engine whose memory is out of reach outside its operations: see engines.h.
 *
 * Each request gets pages of its own, so that the hardware can guard it. It ends where a page ends,
 * and the page after that is never opened, so that a step over the end is a fault at once:
 *
 *     | unused ... request | guard page |
 *
 * Single-threaded by nature: what one thread unlocks, all could touch.
 */
#define _DEFAULT_SOURCE 1 /* MAP_ANONYMOUS */

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "engine/packet.h"
#include "support/engines.h"

enum { MOST_BLOCKS = 256 };

struct block {
    char *first;  /* page */
    size_t bytes; /* whole pages, the guard not counted */
    int access;   /* that the operation under way needs */
};

struct fence {
    struct oct__engine engine; /* first, so that a pointer to one is a pointer to the other */
    struct oct__engine *inner;
    struct block blocks[MOST_BLOCKS];
    int n_blocks;
    long n_operations;
};

static const struct oct_engine_kind fence_kind = {
    .plugin = {.name = "fence", .summary = "memory that only operations can touch"}};

static struct fence *fence_of(const struct oct__engine *engine) {
    return (struct fence *)(uintptr_t)engine;
}

static size_t page_bytes(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

static struct block *find(struct fence *fence, const void *at) {
    const char *address = at;
    for (int i = 0; i < fence->n_blocks; i++) {
        struct block *block = &fence->blocks[i];
        if (address >= block->first && address < block->first + block->bytes + page_bytes()) {
            return block;
        }
    }
    return NULL;
}

int fence_owns(const struct oct__engine *engine, const void *at) {
    return find(fence_of(engine), at) != NULL;
}

long fence_operations(const struct oct__engine *engine) {
    return fence_of(engine)->n_operations;
}

/* --- locking --------------------------------------------------------------------------------- */

static oct_status want(struct fence *fence, const void *at, int access) {
    struct block *block = find(fence, at);
    if (!block) {
        OCT_FAIL(INTERNAL, "fence: an operand lies at %p, which is not the engine's memory", at);
    }
    block->access |= access;
    return OCT_OK;
}

/* Opens what `want` asked for, or closes it again. */
static oct_status turn(struct fence *fence, int is_open) {
    for (int i = 0; i < fence->n_blocks; i++) {
        struct block *block = &fence->blocks[i];
        if (block->access != PROT_NONE) {
            int access = is_open ? block->access : PROT_NONE;
            if (mprotect(block->first, block->bytes, access) != 0) {
                OCT_FAIL(INTERNAL, "fence: mprotect: %s", strerror(errno));
            }
            block->access = is_open ? block->access : PROT_NONE;
        }
    }
    return OCT_OK;
}

/* --- memory ---------------------------------------------------------------------------------- */

static oct_status fence_alloc(struct oct__engine *engine, size_t bytes, const char *what,
                              void **at) {
    struct fence *fence = fence_of(engine);
    size_t aligned = (bytes + 63) / 64 * 64 + (bytes == 0 ? 64 : 0);
    size_t rounded = (aligned + page_bytes() - 1) / page_bytes() * page_bytes();
    if (fence->n_blocks == MOST_BLOCKS) {
        OCT_FAIL(NO_MEMORY, "%s: the fence holds %d requests at most", what, MOST_BLOCKS);
    }
    void *memory =
        mmap(NULL, rounded + page_bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        OCT_FAIL(NO_MEMORY, "%s: %zu bytes: %s", what, bytes, strerror(errno));
    }
    fence->blocks[fence->n_blocks++] = (struct block){memory, rounded, PROT_NONE};
    *at = (char *)memory + rounded - aligned;
    return OCT_OK;
}

static void fence_free(struct oct__engine *engine, void *at) {
    struct fence *fence = fence_of(engine);
    struct block *block = find(fence, at);
    if (block) {
        munmap(block->first, block->bytes + page_bytes());
        *block = fence->blocks[--fence->n_blocks];
    }
}

static oct_status fence_write(struct oct__engine *engine, void *at, const void *host,
                              size_t bytes) {
    struct fence *fence = fence_of(engine);
    OCT_TRY(want(fence, at, PROT_READ | PROT_WRITE));
    OCT_TRY(turn(fence, 1));
    memcpy(at, host, bytes);
    return turn(fence, 0);
}

static oct_status fence_read(struct oct__engine *engine, void *host, const void *at, size_t bytes) {
    struct fence *fence = fence_of(engine);
    OCT_TRY(want(fence, at, PROT_READ));
    OCT_TRY(turn(fence, 1));
    memcpy(host, at, bytes);
    return turn(fence, 0);
}

/* --- operations ------------------------------------------------------------------------------ */

static oct_status fence_prepare(struct oct__engine *engine, enum oct__op op,
                                const struct oct__lane_form *form, const struct oct__args *args,
                                struct oct__plan *plan) {
    return oct__engine_prepare(fence_of(engine)->inner, op, form, args, plan);
}

static void fence_release(struct oct__engine *engine, enum oct__op op, void *handle) {
    oct__engine_release(fence_of(engine)->inner, op, handle);
}

/* Packets that are no operand. */
static oct_status want_shares(struct fence *fence, const struct oct__lane *lane,
                              const struct oct__args *args) {
    const int n = args->attr.packet.shares ? args->attr.packet.start[lane->form.n_nodes] : 0;
    for (int i = 0; i < n; i++) {
        OCT_TRY(want(fence, args->attr.packet.shares[i].packet, PROT_READ));
    }
    return OCT_OK;
}

static oct_status run(enum oct__op op, const struct oct__lane *lane, const struct oct__args *args) {
    struct fence *fence = fence_of(lane->engine);
    const char *operands = oct__op_info[op].operands;
    OCT_TRY(op == OCT_OP_FOLD ? want_shares(fence, lane, args) : OCT_OK);
    for (int i = 0; operands[i]; i++) {
        if (args->t[i].n != 0) {
            int is_read_only = operands[i] == 'i' || operands[i] == 'I';
            OCT_TRY(want(fence, args->t[i].at, PROT_READ | (is_read_only ? 0 : PROT_WRITE)));
        }
    }
    if (lane->shared_scratch) {
        OCT_TRY(want(fence, lane->shared_scratch, PROT_READ | PROT_WRITE));
    }
    struct oct__lane inner = *lane;
    inner.engine = fence->inner;
    OCT_TRY(turn(fence, 1));
    oct_status status = oct__engine_run(&inner, op, args);
    OCT_TRY(turn(fence, 0));
    fence->n_operations++;
    return status;
}

#define OCT_OP(name, text, product, operands, summary)                                             \
    static oct_status run_##name(const struct oct__lane *lane, const struct oct__args *args) {     \
        return run(OCT_OP_##name, lane, args);                                                     \
    }
#include "engine/ops.def"
#undef OCT_OP

static oct__op_fn *const operations[OCT_OP_COUNT] = {
#define OCT_OP(name, text, product, operands, summary) run_##name,
#include "engine/ops.def"
#undef OCT_OP
};

static void fence_close(struct oct__engine *engine) {
    struct fence *fence = fence_of(engine);
    while (fence->n_blocks > 0) {
        fence_free(engine, fence->blocks[0].first);
    }
    oct__engine_close(fence->inner);
    oct__free(fence);
}

oct_status fence_open(struct oct__engine **out) {
    void *memory;
    OCT_TRY(oct__alloc(sizeof(struct fence), "fence", &memory));
    struct fence *fence = memory;
    oct_status status = oct__engine_open("cpu", 1, &fence->inner);
    if (status != OCT_OK) {
        oct__free(fence);
        return status;
    }
    struct oct__engine *engine = &fence->engine;
    engine->kind = &fence_kind;
    engine->n_threads = 1;
    engine->gradient = fence->inner->gradient;
    engine->alloc = fence_alloc;
    engine->free = fence_free;
    engine->write = fence_write;
    engine->read = fence_read;
    engine->prepare = fence_prepare;
    engine->release = fence_release;
    engine->close = fence_close;
    memcpy(engine->run, operations, sizeof operations);
    *out = engine;
    return OCT_OK;
}
