/* SPDX-License-Identifier: Apache-2.0 */
/* registry.c - the compressors there are. */
#include "base/choose.h"
#include "compress/compress.h"

#define OCT_COMPRESSOR(name) extern const struct oct_compressor_kind oct_compressor_##name;
#include "compress/compressors.def"
#undef OCT_COMPRESSOR

static const void *const kinds[] = {
#define OCT_COMPRESSOR(name) &oct_compressor_##name,
#include "compress/compressors.def"
#undef OCT_COMPRESSOR
    NULL};

const struct oct_compressor_kind *oct__compressor_at(int index) {
    return oct__choice_at(kinds, OCT_COUNT_OF(kinds) - 1, index);
}

oct_status oct__compressor_find(const char *text, const struct oct_compressor_kind **kind,
                                const char **options) {
    const void *found;
    OCT_TRY(oct__choose("compressor", text, kinds, &found, options));
    *kind = found;
    return OCT_OK;
}
