/* SPDX-License-Identifier: Apache-2.0 */
/* engines.h - two engines that exist only to be tested with.
 *
 * `fence` computes with `cpu` on one thread, but its memory can be touched only while an operation,
 * a write or a read is under way, and then only what that operation was given: operands that are
 * read are readable, those that are written are writable, everything else is a fault. What trains
 * on it never dereferences tensor memory outside an engine, and no operation reaches beyond its
 * operands' buffers.
 *
 * `hollow` has memory and nothing else: every operation goes through the fallback. The addresses
 * that it hands out are no addresses at all, on any number of threads.
 */
#ifndef OCT_TESTS_ENGINES_H
#define OCT_TESTS_ENGINES_H

#include "engine/engine.h"

OCT_MUST_CHECK oct_status fence_open(struct oct__engine **out);

/* How many operations have run; whether `at` lies in the engine's memory. */
long fence_operations(const struct oct__engine *engine);
int fence_owns(const struct oct__engine *engine, const void *at);

OCT_MUST_CHECK oct_status hollow_open(int n_threads, struct oct__engine **out);

#endif
