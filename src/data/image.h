/* SPDX-License-Identifier: Apache-2.0 */
/* image.h - picture files, JPEG or PNG, as samples: read, decoded, cropped, resampled.
 *
 * A file's format is what its first bytes say, whatever its name. Everything becomes red, green and
 * blue in bytes: grey is repeated, CMYK multiplied out, 16 bits rounded to 8, what is transparent
 * laid over black. Orientation marks and colour profiles are not followed.
 *
 * Files are outside input. One that cannot be decoded to its last row is CORRUPT, and so is one that
 * a decoder only warns about (it would fill the rest with grey); so are sizes beyond
 * OCT_IMAGE_PIXELS, before memory is taken. A decoder that has no memory says NO_MEMORY: nothing is
 * taken for damaged because a machine is small.
 */
#ifndef OCT_DATA_IMAGE_H
#define OCT_DATA_IMAGE_H

#include "data/resample.h"

/* The most pixels a picture may have: 67 million. */
#define OCT_IMAGE_PIXELS (1 << 26)

/* What a thread needs to read pictures; it grows to the largest and is used again. */
struct oct__image_reader;

OCT_MUST_CHECK oct_status oct__image_reader_create(struct oct__image_reader **out);
void oct__image_reader_destroy(struct oct__image_reader *reader);

/* The sample [size][size][3] in the file at `path`: its middle, or with `augment` a random part of
 * it (crop.h), which `row` names. It is not mirrored. */
OCT_MUST_CHECK oct_status oct__image_read(struct oct__image_reader *reader, const char *path,
                                          int size, const struct oct__augment *augment,
                                          uint32_t row, uint8_t *out);

/* Decodes the whole file, for nothing but to know that it can be. */
OCT_MUST_CHECK oct_status oct__image_check(struct oct__image_reader *reader, const char *path);

/* The same two for a file that is in memory already; `path` is for messages. */
OCT_MUST_CHECK oct_status oct__image_decode(struct oct__image_reader *reader, const char *path,
                                            const uint8_t *bytes, size_t n_bytes, int size,
                                            const struct oct__augment *augment, uint32_t row,
                                            uint8_t *out);
OCT_MUST_CHECK oct_status oct__image_check_bytes(struct oct__image_reader *reader, const char *path,
                                                 const uint8_t *bytes, size_t n_bytes);

#endif
