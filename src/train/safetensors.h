/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.h - parameters in a file that other tools read too.
 *
 * The format (github.com/huggingface/safetensors): eight bytes of little-endian header length, a
 * JSON object
 * {"name": {"dtype": "F32", "shape": […], "data_offsets": [begin, end]}, …}, then the tensors'
 * bytes. We write F32, in graph order, convolution weights as [out][in][row][column]: what PyTorch
 * calls them too. A model file of bytes (model.h) has I8 weights. The header's metadata say what the
 * CRC-32C of the tensors' bytes is ("crc32c"); where they do, a file whose bytes have another one is
 * CORRUPT.
 */
#ifndef OCT_TRAIN_SAFETENSORS_H
#define OCT_TRAIN_SAFETENSORS_H

#include "nn/graph.h"

/* Writes beside `path` first and renames, so that a full disk leaves an older file as it was. What
 * is no regular file (a pipe, a device) is written to as it is. */
OCT_MUST_CHECK oct_status oct__safetensors_save(const char *path, const struct oct__row *row,
                                                const float *values);

/* The same with `metadata`, what the header says of itself, as JSON pairs. */
OCT_MUST_CHECK oct_status oct__safetensors_save_with(const char *path, const struct oct__row *row,
                                                     const float *values, const char *metadata);

/* Every tensor of `row` must be there with its shape; others are refused. `values` is written only
 * when all of the file is right. */
OCT_MUST_CHECK oct_status oct__safetensors_load(const char *path, const struct oct__row *row,
                                                float *values);

/* The same from memory: what the fuzzer drives. `name` opens the messages. */
OCT_MUST_CHECK oct_status oct__safetensors_parse(const char *name, const uint8_t *bytes,
                                                 size_t n_bytes, const struct oct__row *row,
                                                 float *values);

/* --- other forms ------------------------------------------------------------------------------- */

/* The same for a row whose tensors of more than one dimension are I8 in the file. Their values are
 * whole numbers from -128 to 127. */
OCT_MUST_CHECK oct_status oct__safetensors_save_bytes(const char *path, const struct oct__row *row,
                                                      const float *values, const char *metadata);
OCT_MUST_CHECK oct_status oct__safetensors_parse_bytes(const char *name, const uint8_t *bytes,
                                                       size_t n_bytes, const struct oct__row *row,
                                                       float *values);

#define OCT_METADATA_BYTES 128

/* What the header says of itself under `key`; "" when it says nothing, or too much. CORRUPT for a
 * header that cannot be read to its end. */
OCT_MUST_CHECK oct_status oct__safetensors_metadata(const char *name, const uint8_t *bytes,
                                                    size_t n_bytes, const char *key,
                                                    char out[OCT_METADATA_BYTES]);

/* A whole file; the caller frees `bytes` with oct__free. */
OCT_MUST_CHECK oct_status oct__safetensors_read(const char *path, uint8_t **bytes, size_t *n_bytes);

/* --- several rows in one file ---------------------------------------------------------------- */

/* A node's file in a checkpoint holds many rows of floats. Each is a section, and its tensors are
 * called SECTION/TENSOR. Sections come one after another, tensors in the order of their row, without
 * holes: so a section is one stretch of bytes, and files of any size are written and read with one
 * row of memory. */
#define OCT_SECTION_NAME 32 /* bytes, NUL included */

struct oct__section {
    char name[OCT_SECTION_NAME]; /* letters, digits, '.', '_' and '-' */
    const struct oct__row *row;
};

/* How a section's name may look; INVALID otherwise. */
OCT_MUST_CHECK oct_status oct__section_check(const char *name);

/* The beginning of such a file, up to its first tensor, and how many bytes follow; the caller frees
 * `head` with oct__free. */
OCT_MUST_CHECK oct_status oct__sections_head(const struct oct__section *sections, size_t n_sections,
                                             uint8_t **head, size_t *n_head, uint64_t *n_data);

/* A section's bytes are its values without the gaps, 4 * oct__row_count(row) of them. Unpacking
 * writes all of `values`, the gaps as 0. */
void oct__section_pack(const struct oct__row *row, const float *values, uint8_t *bytes);
void oct__section_unpack(const struct oct__row *row, const uint8_t *bytes, float *values);

/* What reads a file: `row` names the row of a section (NULL: there is no such section, and the file
 * is refused with SHAPE); `read` gets each section that is right, in order, and where its bytes
 * begin, counted from the first tensor's. */
struct oct__section_reader {
    void *context;
    const struct oct__row *(*row)(void *context, const char *section);
    oct_status (*read)(void *context, const char *section, const struct oct__row *row,
                       uint64_t offset);
};

/* Walks a header of `n_header` bytes (the JSON alone) that is followed by `n_data` bytes of tensors.
 * Sections before the first mistake have been read by then. */
OCT_MUST_CHECK oct_status oct__sections_walk(const char *name, const uint8_t *header,
                                             size_t n_header, uint64_t n_data,
                                             const struct oct__section_reader *reader);

/* The length of the JSON that a file of `n_bytes` begins with, from its first eight bytes. */
OCT_MUST_CHECK oct_status oct__safetensors_length(const char *name, const uint8_t first[8],
                                                  uint64_t n_bytes, size_t *n_header);

#endif
