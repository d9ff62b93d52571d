/* SPDX-License-Identifier: Apache-2.0 */
/* once.h - the n-th request for memory fails, and no other.
 *
 * oct__alloc_fail_after makes every later request fail too, which hides a failure that is noticed
 * only because the next one fails as well.
 */
#ifndef OCT_TESTS_ONCE_H
#define OCT_TESTS_ONCE_H

#include <stdint.h>

#include "support/check.h"

/* Where the function beneath oct__alloc, which nobody else uses, can be replaced. */
#if defined(__GLIBC__) && !IS_SANITIZED
#define CAN_FAIL_ONCE 1
#else
#define CAN_FAIL_ONCE 0
#endif

/* The n-th from now; 0: none. */
void fail_once(uint64_t n);

#endif
