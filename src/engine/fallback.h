/* SPDX-License-Identifier: Apache-2.0 */
/* fallback.h - what an engine's empty slot does: the operands come to the host, the portable CPU
 * engine computes, the results go back.
 *
 * Slow, and right: a new engine starts with memory alone and fills its slots one by one, each
 * checked against the run before.
 */
#ifndef OCT_ENGINE_FALLBACK_H
#define OCT_ENGINE_FALLBACK_H

#include "engine/engine.h"

OCT_MUST_CHECK oct_status oct__fallback_prepare(struct oct__engine *engine, enum oct__op op,
                                                const struct oct__lane_form *form,
                                                const struct oct__args *args,
                                                struct oct__plan *plan);
void oct__fallback_release(void *handle);
OCT_MUST_CHECK oct_status oct__fallback_run(const struct oct__lane *lane, enum oct__op op,
                                            const struct oct__args *args);

#endif
