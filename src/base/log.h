/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - internal side of <octet/log.h>: oct__log(OCT_LOG_INFO, "…", …). */
#ifndef OCT_BASE_LOG_H
#define OCT_BASE_LOG_H

#include <octet/log.h>

void oct__log(enum oct_log_level level, const char *format, ...) OCT_PRINTF(2, 3);

#endif
