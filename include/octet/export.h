/* SPDX-License-Identifier: Apache-2.0 */
/* export.h - which symbols leave the library: those marked OCT_API, and no others. */
#ifndef OCTET_EXPORT_H
#define OCTET_EXPORT_H

#if defined(__GNUC__)
#define OCT_API __attribute__((__visibility__("default")))
#define OCT_MUST_CHECK __attribute__((__warn_unused_result__))
#define OCT_PRINTF(text, first) __attribute__((__format__(__printf__, text, first)))
#else
#define OCT_API
#define OCT_MUST_CHECK
#define OCT_PRINTF(text, first)
#endif

#endif
