/* SPDX-License-Identifier: Apache-2.0 */
/* pictures.h - JPEG and PNG files that a test makes for itself, with the libraries that decode them.
 *
 * Whatever fails here fails the test. In a build without a library its function returns no bytes. */
#ifndef OCT_TESTS_PICTURES_H
#define OCT_TESTS_PICTURES_H

#include <stddef.h>
#include <stdint.h>

enum picture_format {
    PICTURE_JPEG,
    PICTURE_PNG,
};

/* How a picture becomes a file. */
struct picture_form {
    int width, height;
    int channels;       /* 1 grey, 2 grey with alpha (PNG), 3 colour, 4 CMYK (JPEG) or with alpha */
    int is_progressive; /* or interlaced */
    int is_apart;       /* JPEG: a scan for each channel */
    int across, down;   /* JPEG in colour: pixels that share a colour; 0: 2 each way */
    int is_adobe;       /* JPEG of 4 channels: as YCCK with inks upside down, as Adobe writes it */
    int bits;           /* PNG: 16; else 8 */
    int has_palette; /* PNG of 1 channel: its values are numbers of colours (i, 255 - i, i / 2) */
};

/* A file's bytes; the caller frees them. `pixels` are those of the form, 16 bits as two bytes, the
 * high one first. */
uint8_t *picture_encode(enum picture_format format, const struct picture_form *form,
                        const uint8_t *pixels, size_t *n_bytes);

/* All pixels of a JPEG file [height][width][3], by the library alone; the caller frees them. */
uint8_t *picture_decode(const uint8_t *bytes, size_t n_bytes);

/* A smooth picture in colour: a gradient each way and one along the diagonal, [height][width][3]. */
void picture_gradient(int width, int height, uint8_t *pixels);

/* A whole dataset of small pictures in FOLDER/train and FOLDER/val: class c is pictures of one hue,
 * of 20 to 40 pixels each way. Files are JPEG, or PNG where a build has no libjpeg-turbo. */
void picture_tree(const char *folder, int n_classes, int n_train, int n_test);

/* Whether this build can read any. */
int pictures_are_there(void);

#endif
