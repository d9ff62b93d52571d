/* SPDX-License-Identifier: Apache-2.0 */
/* emulator.cpp - fibers, their scheduler, and memory with fences: see emulator.h. */
#include "emulator.h"

#include <execinfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef __x86_64__
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define EMU_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMU_ASAN 1
#endif
#endif
#ifdef EMU_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

struct dim3 emu_thread, emu_block, emu_block_size, emu_grid_size;

/* --- messages ---------------------------------------------------------------------------------- */

static const struct emu_kernel *kernel_now; /* NULL: none runs */
static uint64_t seed_now = 1;

void emu_fail(const char *format, ...) {
    va_list values;
    fflush(NULL);
    fputs("emulator: ", stderr);
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    if (kernel_now) {
        fprintf(stderr,
                "\nemulator: in thread %u of block (%u, %u, %u) of a grid of %u x %u x %u, blocks "
                "of %u; seed %llu; the kernel (for addr2line -fe): ",
                emu_thread.x, emu_block.x, emu_block.y, emu_block.z, emu_grid_size.x,
                emu_grid_size.y, emu_grid_size.z, emu_block_size.x, (unsigned long long)seed_now);
        fflush(stderr);
        void *at = (void *)(uintptr_t)kernel_now->at;
        backtrace_symbols_fd(&at, 1, STDERR_FILENO);
    } else {
        fputc('\n', stderr);
    }
    abort();
}

/* --- chance ------------------------------------------------------------------------------------ */

static uint64_t chance;

/* 0 … n - 1, by Marsaglia's xorshift. */
static unsigned below(unsigned n) {
    chance ^= chance << 13;
    chance ^= chance >> 7;
    chance ^= chance << 17;
    return (unsigned)((chance >> 32) * n >> 32);
}

static void begin_chance(void) {
    const char *given = getenv("OCT_EMULATOR_SEED");
    seed_now = given ? strtoull(given, NULL, 10) : 1;
    chance = (seed_now + 1) * 0x9E3779B97F4A7C15U | 1;
}

static void mix(unsigned n, unsigned order[]) {
    for (unsigned i = 0; i < n; i++) {
        const unsigned j = below(i + 1);
        order[i] = order[j];
        order[j] = i;
    }
}

/* --- fibers ------------------------------------------------------------------------------------ */

#ifdef EMU_ASAN
enum { STACK = 1 << 18 };
#else
enum { STACK = 1 << 16 };
#endif

/* A thread of the block, or the scheduler itself. */
struct fiber {
#ifdef __x86_64__
    void *top; /* of the stack, where its registers are while it does not run */
#else
    ucontext_t context;
#endif
    char *stack;
    size_t stack_bytes;
    void *fake_stack; /* AddressSanitizer's */
};

static void begin(void);

#ifdef __x86_64__
/* swapcontext asks the kernel about signals each time; this saves what a call has to keep. */
extern "C" void emu_switch_stack(void **from, void *to);
asm(".text\n"
    ".type emu_switch_stack, @function\n"
    "emu_switch_stack:\n"
    "    pushq %rbx\n"
    "    pushq %rbp\n"
    "    pushq %r12\n"
    "    pushq %r13\n"
    "    pushq %r14\n"
    "    pushq %r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq %rsi, %rsp\n"
    "    popq %r15\n"
    "    popq %r14\n"
    "    popq %r13\n"
    "    popq %r12\n"
    "    popq %rbp\n"
    "    popq %rbx\n"
    "    popq %rcx\n" /* not ret: a CPU expects it to return to where the call was */
    "    jmp *%rcx\n"
    ".size emu_switch_stack, . - emu_switch_stack\n");

static void make_ready(struct fiber *fiber) {
    void **top = (void **)(fiber->stack + fiber->stack_bytes);
    *--top = NULL; /* so that `begin` finds the stack as after a call */
    *--top = (void *)begin;
    for (int i = 0; i < 6; i++) {
        *--top = NULL;
    }
    fiber->top = top;
}

static void switch_stack(struct fiber *from, struct fiber *to) {
    emu_switch_stack(&from->top, to->top);
}
#else
static void make_ready(struct fiber *fiber) {
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = fiber->stack_bytes;
    fiber->context.uc_link = NULL;
    makecontext(&fiber->context, begin, 0);
}

static void switch_stack(struct fiber *from, struct fiber *to) {
    swapcontext(&from->context, &to->context);
}
#endif

/* `is_last`: `from` will not run again. */
static void switch_to(struct fiber *from, struct fiber *to, int is_last) {
#ifdef EMU_ASAN
    __sanitizer_start_switch_fiber(is_last ? NULL : &from->fake_stack, to->stack, to->stack_bytes);
#endif
    (void)is_last;
    switch_stack(from, to);
#ifdef EMU_ASAN
    __sanitizer_finish_switch_fiber(from->fake_stack, NULL, NULL);
#endif
}

/* --- threads of a block ------------------------------------------------------------------------ */

enum state { READY, AT_BLOCK, AT_WARP, EXITED };

struct thread {
    struct fiber fiber;
    enum emu_together what; /* AT_WARP: for this, with so many bytes */
    size_t bytes;
    unsigned n_met; /* how often: which of the warp's two sets of slots is next */
};

static struct thread threads[EMU_THREADS_MOST];
static unsigned char states[EMU_THREADS_MOST]; /* enum state; apart, for they are read the most */
static unsigned n_at_warp;                     /* of the warp that runs */
static struct fiber scheduler;
static const void *call_now;

/* Two sets: who has met is done with the set before. */
static char slots[2][EMU_THREADS_MOST][EMU_SLOT];

static void wait(enum state state) {
    states[emu_thread.x] = (unsigned char)state;
    n_at_warp += state == AT_WARP;
    switch_to(&threads[emu_thread.x].fiber, &scheduler, state == EXITED);
}

/* What emu_copy_later has promised. */
struct copy {
    void *to;
    const void *from;
    unsigned bytes;
};

static struct {
    struct copy *all;
    unsigned n, most;
} copies[EMU_THREADS_MOST];

/* What every fiber does. */
static void begin(void) {
#ifdef EMU_ASAN
    __sanitizer_finish_switch_fiber(NULL, (const void **)&scheduler.stack, &scheduler.stack_bytes);
#endif
    kernel_now->body(call_now);
    if (copies[emu_thread.x].n > 0) {
        emu_fail("a thread exits and has not awaited %u copies", copies[emu_thread.x].n);
    }
    wait(EXITED);
    abort(); /* nobody wakes a thread that has exited */
}

void emu_wait_for_block(void) {
    wait(AT_BLOCK);
}

const char *emu_meet(enum emu_together what, const void *mine, size_t bytes) {
    struct thread *me = &threads[emu_thread.x];
    char(*set)[EMU_SLOT] = slots[me->n_met++ % 2];
    if (bytes > 0) {
        memcpy(set[emu_thread.x], mine, bytes);
    }
    me->what = what;
    me->bytes = bytes;
    wait(AT_WARP);
    return set[emu_thread.x / EMU_LANES * EMU_LANES];
}

/* --- the scheduler ----------------------------------------------------------------------------- */

static const char *const names[] = {"__syncwarp", "shuffle", "vote", "product", "load of a matrix"};

/* Lanes that wait for their warp while others of it do not, or for something else, never go on. */
static void check_warp(unsigned first) {
    unsigned n_exited = 0, n_at_block = 0;
    for (unsigned i = first; i < first + EMU_LANES; i++) {
        n_exited += i >= emu_block_size.x || states[i] == EXITED;
        n_at_block += i < emu_block_size.x && states[i] == AT_BLOCK;
    }
    for (unsigned i = first; i < first + EMU_LANES && i < emu_block_size.x; i++) {
        const struct thread *t = &threads[i];
        emu_thread.x = i;
        if (states[i] == AT_WARP && n_exited + n_at_block > 0) {
            emu_fail("divergent warp: a lane waits in a %s, while %u lanes of its warp are at the "
                     "block's barrier and %u have exited",
                     names[t->what], n_at_block, n_exited);
        }
        if (states[i] == AT_WARP &&
            (t->what != threads[first].what || t->bytes != threads[first].bytes)) {
            emu_fail("divergent warp: a lane is in a %s of %zu bytes, its first in a %s of %zu",
                     names[t->what], t->bytes, names[threads[first].what], threads[first].bytes);
        }
    }
}

/* Runs a warp until every lane is at the block's barrier or has exited. */
static void run_warp(unsigned first) {
    const unsigned n =
        emu_block_size.x - first < EMU_LANES ? emu_block_size.x - first : (unsigned)EMU_LANES;
    for (;;) {
        unsigned order[EMU_LANES];
        n_at_warp = 0;
        mix(n, order);
        for (unsigned i = 0; i < n; i++) {
            emu_thread.x = first + order[i];
            if (states[emu_thread.x] == READY) {
                switch_to(&scheduler, &threads[emu_thread.x].fiber, 0);
            }
        }
        if (n_at_warp == 0) {
            return;
        }
        check_warp(first);
        memset(states + first, READY, n);
    }
}

static void begin_threads(void) {
    for (unsigned i = 0; i < emu_block_size.x; i++) {
        struct thread *t = &threads[i];
        if (!t->fiber.stack) {
            void *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (stack == MAP_FAILED) {
                emu_fail("no memory for the stack of a thread");
            }
            /* Tops a multiple of a page apart would all want the same few lines of a cache. */
            t->fiber.stack = (char *)stack;
            t->fiber.stack_bytes = STACK - i % 64 * 192;
        }
        make_ready(&t->fiber);
        states[i] = READY;
        t->n_met = 0;
    }
}

static void run_block(void) {
    const unsigned n_warps = (emu_block_size.x + EMU_LANES - 1) / EMU_LANES;
    begin_threads();
    for (;;) {
        unsigned order[EMU_THREADS_MOST / EMU_LANES], n_exited = 0;
        mix(n_warps, order);
        for (unsigned w = 0; w < n_warps; w++) {
            run_warp(order[w] * EMU_LANES);
        }
        for (unsigned i = 0; i < emu_block_size.x; i++) {
            n_exited += states[i] == EXITED;
        }
        if (n_exited == emu_block_size.x) {
            return;
        }
        for (unsigned i = 0; i < emu_block_size.x; i++) {
            emu_thread.x = i;
            if (n_exited > 0 && states[i] == AT_BLOCK) {
                emu_fail("a thread waits at its block's barrier, but %u of %u have exited",
                         n_exited, emu_block_size.x);
            }
            states[i] = READY;
        }
    }
}

/* --- shared memory ----------------------------------------------------------------------------- */

/* What a kernel may have without asking, and what the largest GPU has. */
enum { USUAL = 48 << 10, MOST = 227 << 10, FENCE = 256, FENCE_BYTE = 0xA5 };

static unsigned char dynamic[MOST + FENCE] __attribute__((aligned(128)));
static size_t dynamic_bytes;

static struct {
    const void *kernel;
    size_t bytes;
} allowed[64];

int emu_allow_shared(const void *kernel, size_t bytes) {
    if (bytes > MOST) {
        return -1;
    }
    size_t i = 0;
    while (i < sizeof allowed / sizeof *allowed && allowed[i].kernel &&
           allowed[i].kernel != kernel) {
        i++;
    }
    if (i == sizeof allowed / sizeof *allowed) {
        emu_fail("more than %zu kernels want much shared memory: enlarge the table", i);
    }
    allowed[i].kernel = kernel;
    allowed[i].bytes = bytes;
    return 0;
}

static size_t allowed_bytes(const void *kernel) {
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        if (allowed[i].kernel == kernel && allowed[i].bytes > USUAL) {
            return allowed[i].bytes;
        }
    }
    return USUAL;
}

void *emu_dynamic_shared(void) {
    return dynamic;
}

static int lies_in(const void *at, size_t bytes, const void *from, const void *end) {
    return (uintptr_t)at >= (uintptr_t)from && (uintptr_t)at + bytes <= (uintptr_t)end;
}

int emu_is_shared(const void *at, size_t bytes) {
    return lies_in(at, bytes, dynamic, dynamic + dynamic_bytes) ||
           lies_in(at, bytes, kernel_now->shared, kernel_now->shared_end);
}

/* memset, but over what AddressSanitizer has put between variables, too. */
__attribute__((no_sanitize("address", "undefined"))) static void fill(char *at, int byte,
                                                                      size_t n) {
#ifdef EMU_ASAN
    for (volatile char *to = at; n > 0; n--) {
        *to++ = (char)byte;
    }
#else
    memset(at, byte, n);
#endif
}

/* Bytes that nobody wants: as floats NaN or 3.4e38, as integers -1 or a large number, by turns, because
 * a search for the largest value overlooks the one and a search for the smallest the other. */
static void spoil_shared(uint64_t turn) {
    const int byte = turn % 2 ? 0x7F : 0xFF;
    fill(kernel_now->shared, byte, (size_t)(kernel_now->shared_end - kernel_now->shared));
    memset(dynamic, byte, dynamic_bytes);
    memset(dynamic + dynamic_bytes, FENCE_BYTE, FENCE);
}

static void check_fence(const unsigned char *fence, const char *what) {
    for (int i = 0; i < FENCE; i++) {
        if (fence[i] != FENCE_BYTE) {
            emu_fail("something was written beyond %s", what);
        }
    }
}

void emu_copy_later(void *to, const void *from, unsigned bytes) {
    if (!emu_is_shared(to, bytes) || ((uintptr_t)to | (uintptr_t)from) % bytes != 0) {
        emu_fail("a copy of %u bytes from %p to %p: not to shared memory, or not aligned", bytes,
                 from, to);
    }
    auto *mine = &copies[emu_thread.x];
    if (mine->n == mine->most) {
        mine->most = mine->most ? 2 * mine->most : 16;
        mine->all = (struct copy *)realloc(mine->all, mine->most * sizeof *mine->all);
        if (!mine->all) {
            emu_fail("no memory for %u copies", mine->most);
        }
    }
    mine->all[mine->n++] = {to, from, bytes};
}

void emu_await_copies(void) {
    auto *mine = &copies[emu_thread.x];
    for (unsigned i = 0; i < mine->n; i++) {
        const struct copy *copy = &mine->all[i];
        if (copy->from) {
            memcpy(copy->to, copy->from, copy->bytes);
        } else {
            memset(copy->to, 0, copy->bytes);
        }
    }
    mine->n = 0;
}

/* --- words that blocks wait for ---------------------------------------------------------------- */

/* Those that blocks of this launch have heard, each of them once. */
static struct {
    const uint64_t **all;
    unsigned n, most;
} heard;

uint64_t emu_hear(const uint64_t *word) {
    if (*word == 0) { /* blocks run one after another */
        emu_fail("a block waits for one that begins later");
    }
    unsigned i = heard.n;
    while (i > 0 && heard.all[i - 1] != word) {
        i--;
    }
    if (i == 0) {
        if (heard.n == heard.most) {
            heard.most = heard.most ? 2 * heard.most : 16;
            heard.all =
                (const uint64_t **)realloc((void *)heard.all, heard.most * sizeof *heard.all);
            if (!heard.all) {
                emu_fail("no memory for %u words", heard.most);
            }
        }
        heard.all[heard.n++] = word;
    }
    return *word;
}

static void check_heard(void) {
    for (unsigned i = 0; i < heard.n; i++) {
        if (*heard.all[i] != 0) {
            emu_fail("a word that blocks waited for, at %p, is %#llx when the launch ends, which "
                     "the next would hear",
                     (const void *)heard.all[i], (unsigned long long)*heard.all[i]);
        }
    }
    heard.n = 0;
}

/* --- launches ---------------------------------------------------------------------------------- */

static void check_launch(struct dim3 grid, unsigned block, size_t shared) {
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffffU || grid.y > 65535 ||
        grid.z > 65535 || block == 0 || block > EMU_THREADS_MOST) {
        emu_fail("a GPU takes no grid of %u x %u x %u blocks of %u threads", grid.x, grid.y, grid.z,
                 block);
    }
    if (shared > allowed_bytes(kernel_now->at)) {
        emu_fail("a launch with %zu bytes of dynamic shared memory, and the kernel may have %zu",
                 shared, allowed_bytes(kernel_now->at));
    }
}

static void launch_now(const struct emu_kernel *kernel, const void *call, struct dim3 grid,
                       unsigned block, size_t shared) {
    if (chance == 0) {
        begin_chance();
    }
    kernel_now = kernel;
    call_now = call;
    emu_grid_size = grid;
    emu_block_size = dim3(block);
    emu_thread = dim3(0, 0, 0);
    check_launch(grid, block, shared);
    dynamic_bytes = shared;
    for (uint64_t left = (uint64_t)grid.x * grid.y * grid.z; left > 0; left--) {
        const uint64_t i = left - 1, rest = i / grid.x;
        emu_block =
            dim3((unsigned)(i % grid.x), (unsigned)(rest % grid.y), (unsigned)(rest / grid.y));
        spoil_shared(i);
        run_block();
        check_fence(dynamic + dynamic_bytes, "dynamic shared memory");
    }
    check_heard();
    kernel_now = NULL;
}

/* --- recording --------------------------------------------------------------------------------- */

struct emu_launched {
    struct emu_kernel kernel;
    void *call;
    struct dim3 grid;
    unsigned block;
    size_t shared;
    void (*body)(void *what); /* no kernel but this, of `what` */
    void *what;
    struct emu_launched *next;
};

struct emu_record {
    struct emu_launched *first, **end;
    int n_owners;
};

static struct emu_record *recording;

void emu_record_begin(void) {
    emu_record_none("recording");
    recording = (struct emu_record *)calloc(1, sizeof *recording);
    recording->end = &recording->first;
    recording->n_owners = 1;
}

struct emu_record *emu_record_end(void) {
    struct emu_record *record = recording;
    recording = NULL;
    return record;
}

struct emu_record *emu_record_share(struct emu_record *record) {
    record->n_owners++;
    return record;
}

void emu_record_drop(struct emu_record *record) {
    if (--record->n_owners > 0) {
        return;
    }
    for (struct emu_launched *at = record->first, *next; at; at = next) {
        next = at->next;
        free(at->call);
        free(at);
    }
    free(record);
}

void emu_replay(const struct emu_record *record) {
    emu_record_none("replaying");
    for (const struct emu_launched *at = record->first; at; at = at->next) {
        if (at->body) {
            at->body(at->what);
        } else {
            launch_now(&at->kernel, at->call, at->grid, at->block, at->shared);
        }
    }
}

int emu_is_recording(void) {
    return recording != NULL;
}

void emu_record_none(const char *what) {
    if (recording) {
        emu_fail("%s while launches are recorded", what);
    }
}

static struct emu_launched *append() {
    struct emu_launched *at = (struct emu_launched *)calloc(1, sizeof *at);
    *recording->end = at;
    recording->end = &at->next;
    return at;
}

void emu_launch(const struct emu_kernel *kernel, const void *call, size_t bytes, struct dim3 grid,
                unsigned block, size_t shared) {
    if (!recording) {
        launch_now(kernel, call, grid, block, shared);
        return;
    }
    struct emu_launched *at = append();
    at->kernel = *kernel;
    at->call = malloc(bytes);
    memcpy(at->call, call, bytes);
    at->grid = grid;
    at->block = block;
    at->shared = shared;
}

void emu_do(void (*body)(void *what), void *what) {
    if (!recording) {
        body(what);
        return;
    }
    struct emu_launched *at = append();
    at->body = body;
    at->what = what;
}

/* --- memory ------------------------------------------------------------------------------------ */

/* What is given out lies between fences, and its size before the first. */
enum { BEFORE = 2 * FENCE };

static size_t *size_of(void *at) {
    return (size_t *)((char *)at - BEFORE);
}

void *emu_alloc(size_t bytes) {
    void *all = NULL;
    if (posix_memalign(&all, FENCE, BEFORE + bytes + FENCE) != 0) {
        return NULL;
    }
    char *at = (char *)all + BEFORE;
    memset(all, FENCE_BYTE, BEFORE);
    memset(at, 0xFF, bytes);
    memset(at + bytes, FENCE_BYTE, FENCE);
    *size_of(at) = bytes;
    ASAN_POISON_MEMORY_REGION(at - FENCE, FENCE);
    ASAN_POISON_MEMORY_REGION(at + bytes, FENCE);
    return at;
}

void emu_free(void *at) {
    if (at) {
        const unsigned char *end = (unsigned char *)at + *size_of(at);
        ASAN_UNPOISON_MEMORY_REGION((char *)at - FENCE, FENCE);
        ASAN_UNPOISON_MEMORY_REGION(end, FENCE);
        check_fence(end, "the end of the device's memory");
        check_fence((unsigned char *)at - FENCE, "the beginning of the device's memory");
        free(size_of(at));
    }
}
