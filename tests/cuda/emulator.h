/* SPDX-License-Identifier: Apache-2.0 */
/* emulator.h - a GPU for tests: CUDA kernels, compiled as C++, on one thread of the CPU.
 *
 * Machines that test every change have no GPU, and kernels that are only ever compiled are wrong. This
 * runs them as they are, slowly, and is stricter than a GPU, where most mistakes go well most of the
 * time:
 *
 *   - Every thread of a block is a fiber, which runs until it waits: for its block at a barrier, for its
 *     warp in a shuffle, a vote or a product. Warps take turns in an order drawn anew after every
 *     barrier, and so do the lanes of a warp after everything they do together; blocks run from the
 *     last to the first. A result that depends on the order will differ sooner or later.
 *   - Shared memory is filled before every block with bytes that nobody wants (a NaN, or a large
 *     number), so that what is read before it was written shows.
 *   - What a GPU leaves undefined ends the program with a sentence: a barrier that threads do not all
 *     reach, lanes of a warp at different instructions, a launch that no GPU takes, a write beyond
 *     dynamic shared memory or beyond an allocation, rows of a matrix that are not aligned, a word
 *     that blocks waited for and that is not empty again when the launch ends.
 *
 * The order comes from a seed: OCT_EMULATOR_SEED in the environment, or 1. Not emulated: speed (time is the CPU's),
 * streams (everything is done at once), blocks that run at the same time and talk to one another, and
 * warps of which only some lanes take part in a shuffle (masks other than all lanes).
 *
 * include/ has CUDA's headers, as far as the engine uses them, written on top of this, and headers
 * that take the place of those in src/engine/cuda that are not C++.
 */
#ifndef OCT_TESTS_CUDA_EMULATOR_H
#define OCT_TESTS_CUDA_EMULATOR_H

#include <stddef.h>
#include <stdint.h>

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {
    }
};

enum { EMU_LANES = 32, EMU_THREADS_MOST = 1024, EMU_SLOT = 64 };

/* Of the thread that runs, and of its launch. Blocks have one dimension. */
extern struct dim3 emu_thread, emu_block, emu_block_size, emu_grid_size;

/* Runs `body(call)` as every thread of a grid. */
struct emu_kernel {
    const void *at; /* for limits and messages */
    void (*body)(const void *call);
    char *shared, *shared_end; /* its static shared memory lies there */
};

void emu_launch(const struct emu_kernel *kernel, const void *call, size_t bytes, struct dim3 grid,
                unsigned block, size_t shared);

/* Records launches instead of running them, to be run any number of times; `bytes` of the call, which
 * are copied. One at a time. Lists have owners, of whom the last to drop it ends it. */
struct emu_record;
void emu_record_begin(void);
struct emu_record *emu_record_end(void);
struct emu_record *emu_record_share(struct emu_record *record);
void emu_record_drop(struct emu_record *record);
void emu_replay(const struct emu_record *record);
/* Something between the launches: done at once, or recorded among them. */
void emu_do(void (*body)(void *what), void *what);
int emu_is_recording(void);
/* Ends the program if something is being recorded: the engine records kernels and events alone. */
void emu_record_none(const char *what);

/* Static shared memory is what a file of kernels has in its .bss: `static` variables that begin with
 * nothing. (GCC forgets the attribute `section` in templates.) The ends are labels, the second in a
 * subsection behind all others; this line, once in each file, puts them there. */
#define EMU_SHARED static
#define EMU_SHARED_ENDS                                                                            \
    asm(".pushsection .bss, 0\nemu_shared_begin:\n.popsection\n"                                   \
        ".pushsection .bss, 8191\nemu_shared_end:\n.popsection\n")
extern "C" char emu_shared_begin[] __attribute__((visibility("hidden")));
extern "C" char emu_shared_end[] __attribute__((visibility("hidden")));

/* The launch's dynamic shared memory. */
void *emu_dynamic_shared(void);
/* Lets launches of a kernel have so much of it; -1: no GPU has that much. */
int emu_allow_shared(const void *kernel, size_t bytes);
/* Whether all of it is shared memory of the kernel that runs. */
int emu_is_shared(const void *at, size_t bytes);

/* --- waiting ----------------------------------------------------------------------------------- */

/* Until all threads of the block are here. */
void emu_wait_for_block(void);

/* What the lanes of a warp do together. */
enum emu_together { EMU_SYNC, EMU_SHUFFLE, EMU_VOTE, EMU_MULTIPLY, EMU_LOAD_MATRIX };

/* Until all lanes of the warp are here. Each brings at most EMU_SLOT bytes and gets those of all lanes:
 * lane l's are `bytes` at l * EMU_SLOT. They are there until the lanes do something together again. */
const char *emu_meet(enum emu_together what, const void *mine, size_t bytes);

/* What a block that began earlier has left in this word, in which 0 is nothing. The next launch
 * would take it for news: when this one ends it has to be 0 again. */
uint64_t emu_hear(const uint64_t *word);

/* --- memory ------------------------------------------------------------------------------------ */

/* Memory of the device, filled with bytes that nobody wants, at a multiple of 256; NULL: none left. */
void *emu_alloc(size_t bytes);
void emu_free(void *at);

/* Copies 4 or 16 bytes to shared memory, zeros from NULL: not before this thread awaits its copies,
 * and it must before it exits. */
void emu_copy_later(void *to, const void *from, unsigned bytes);
void emu_await_copies(void);

/* Says where, and ends the program. */
[[noreturn]] void emu_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
