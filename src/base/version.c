/* SPDX-License-Identifier: Apache-2.0 */
/* version.c - the version the library was built as, against the one a program was compiled with. */
#include <octet/octet.h>

const char *oct_version(void) {
    return OCT_VERSION;
}
