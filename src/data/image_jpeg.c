/* SPDX-License-Identifier: Apache-2.0 */
/* image_jpeg.c - JPEG files through libjpeg-turbo.
 *
 * Only what a sample needs is decoded in full: rows above its box are skipped, those below are never
 * reached, columns beside it are left out, and a box that is several times too large is decoded at
 * 1/2, 1/4 or 1/8 of its size. A check reads every coefficient, which is where files are damaged, and
 * makes pictures of 1/8 of them.
 *
 * Every file gets a decoder of its own. One that is used again remembers the tables of the last file,
 * and a file without tables would be decoded with whatever its thread had met before.
 *
 * The transform is the exact one of the library's (JDCT_ISLOW), whose vector code gives the same
 * bytes as its C code.
 */
#include "data/codec.h"
#include "data/files.h"

#ifdef OCT_HAVE_JPEG

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

enum {
    MOST_SCANS = 200, /* a file of a few kilobytes can ask for hours of work otherwise */
    MARGIN = 2,       /* columns beside the box that its own depend on, by coarser colours */
};

struct decoder {
    const struct oct__decoding *decoding;
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf failed;
    char text[JMSG_LENGTH_MAX];
};

static struct decoder *owner(j_common_ptr info) {
    return info->client_data;
}

static void on_error(j_common_ptr info) {
    info->err->format_message(info, owner(info)->text);
    longjmp(owner(info)->failed, 1);
}

/* A warning means that the rest of the picture is made up, but for those about notes that say nothing of
 * the pixels (some cameras write the last two), and about bytes between segments. */
static void on_message(j_common_ptr info, int level) {
    const int code = info->err->msg_code;
    if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_ADOBE_XFORM &&
        code != JWRN_JFIF_MAJOR && code != JWRN_NOT_SEQUENTIAL) {
        on_error(info);
    }
}

static void on_output(j_common_ptr info) {
    (void)info;
}

static void on_progress(j_common_ptr info) {
    if (((j_decompress_ptr)info)->input_scan_number > MOST_SCANS) {
        info->err->msg_code = 0;
        snprintf(owner(info)->text, JMSG_LENGTH_MAX, "more than %d scans", MOST_SCANS);
        longjmp(owner(info)->failed, 1);
    }
}

static oct_status refused(const struct decoder *decoder) {
    const char *path = oct__path_shown(decoder->decoding->path);
    if (decoder->errors.msg_code == JERR_OUT_OF_MEMORY) {
        OCT_FAIL(NO_MEMORY, "%s: no memory to decode it", path);
    }
    OCT_FAIL(CORRUPT, "%s: not a whole JPEG file: %s", path, decoder->text);
}

static oct_status choose_colours(struct jpeg_decompress_struct *info, const char *path) {
    switch (info->jpeg_color_space) {
    case JCS_GRAYSCALE:
    case JCS_YCbCr:
    case JCS_RGB:
        info->out_color_space = JCS_RGB;
        return OCT_OK;
    case JCS_CMYK:
    case JCS_YCCK:
        info->out_color_space = JCS_CMYK;
        return OCT_OK;
    default:
        OCT_FAIL(CORRUPT, "%s: a JPEG file of %d components, expected grey, colour or CMYK",
                 oct__path_shown(path), info->num_components);
    }
}

/* In its place. Adobe's programs, that is all in practice, store the inks upside down. */
static void cmyk_to_rgb(uint8_t *line, size_t n_pixels, int is_inverted) {
    const uint8_t *from = line;
    for (size_t i = 0; i < n_pixels; i++, from += 4, line += 3) {
        uint32_t key = is_inverted ? from[3] : 255U - from[3];
        for (int c = 0; c < 3; c++) {
            const uint32_t light = is_inverted ? from[c] : 255U - from[c];
            line[c] = (uint8_t)((light * key + 127) / 255);
        }
    }
}

/* How much smaller it can be decoded without losing what the sample shows. */
static unsigned reduction(const struct oct__box *box, int size) {
    unsigned by = 8;
    while (by > 1 && (box->width < (int64_t)size * OCT_PIXEL * by ||
                      box->height < (int64_t)size * OCT_PIXEL * by)) {
        by /= 2;
    }
    return by;
}

static oct_status check(struct jpeg_decompress_struct *info, const struct oct__decoding *d) {
    info->scale_num = 1;
    info->scale_denom = 8;
    jpeg_start_decompress(info);
    OCT_TRY(oct__decoding_line(d, (size_t)info->output_width * (size_t)info->output_components));
    while (info->output_scanline < info->output_height) {
        jpeg_read_scanlines(info, d->line, 1);
    }
    jpeg_finish_decompress(info);
    return OCT_OK;
}

static oct_status sample(struct jpeg_decompress_struct *info, const struct oct__decoding *d) {
    struct oct__resampler *resampler = d->resampler;
    struct oct__box box = oct__decoding_box(d, (int)info->image_width, (int)info->image_height);
    const unsigned by = reduction(&box, d->size);
    box = (struct oct__box){box.x / by, box.y / by, box.width / by, box.height / by};
    info->scale_num = 1;
    info->scale_denom = by;
    jpeg_start_decompress(info);
    OCT_TRY(oct__resample_begin(resampler, &box, (int)info->output_width, (int)info->output_height,
                                d->size, d->out));
    JDIMENSION left = 0;
#ifdef LIBJPEG_TURBO_VERSION_NUMBER
    /* Where colours are coarser than 2 x 2 pixels, the library forgets some of their columns when it
     * crops a picture that it also makes smaller. */
    if (by == 1 || info->max_h_samp_factor * info->max_v_samp_factor < 8) {
        const JDIMENSION first = (JDIMENSION)resampler->x.first;
        const JDIMENSION past = (JDIMENSION)resampler->x.past + MARGIN;
        left = first > MARGIN ? first - MARGIN : 0;
        JDIMENSION width = (past < info->output_width ? past : info->output_width) - left;
        jpeg_crop_scanline(info, &left, &width);
    }
#endif
    OCT_TRY(oct__decoding_line(d, (size_t)info->output_width * (size_t)info->output_components));
#ifdef LIBJPEG_TURBO_VERSION_NUMBER
    jpeg_skip_scanlines(info, (JDIMENSION)resampler->y.first);
#endif
    const uint8_t *pixels = *d->line + ((size_t)resampler->x.first - left) * 3;
    while (info->output_scanline < (JDIMENSION)resampler->y.past) {
        const int y = (int)info->output_scanline;
        jpeg_read_scanlines(info, d->line, 1);
        if (info->out_color_space == JCS_CMYK) {
            cmyk_to_rgb(*d->line, info->output_width, info->saw_Adobe_marker);
        }
        if (y >= resampler->y.first) {
            oct__resample_row(resampler, pixels);
        }
    }
    return OCT_OK;
}

static oct_status decode(struct jpeg_decompress_struct *info, const struct oct__decoding *d) {
    jpeg_mem_src(info, d->bytes, (unsigned long)d->n_bytes);
    jpeg_read_header(info, TRUE);
    OCT_TRY(oct__image_check_size(d->path, info->image_width, info->image_height));
    OCT_TRY(choose_colours(info, d->path));
    info->dct_method = JDCT_ISLOW;
    return d->is_check ? check(info, d) : sample(info, d);
}

/* What changes after setjmp lies in the caller's frame. */
static oct_status guarded(struct decoder *decoder) {
    if (setjmp(decoder->failed)) {
        return refused(decoder);
    }
    jpeg_create_decompress(&decoder->info); /* keeps err and client_data */
    decoder->info.progress = &decoder->progress;
    return decode(&decoder->info, decoder->decoding);
}

oct_status oct__jpeg_decode(const struct oct__decoding *decoding) {
    struct decoder decoder = {.decoding = decoding};
    decoder.info.err = jpeg_std_error(&decoder.errors);
    decoder.errors.error_exit = on_error;
    decoder.errors.emit_message = on_message;
    decoder.errors.output_message = on_output;
    decoder.progress.progress_monitor = on_progress;
    decoder.info.client_data = &decoder;
    const oct_status status = guarded(&decoder);
    jpeg_destroy_decompress(&decoder.info);
    return status;
}

#else

oct_status oct__jpeg_decode(const struct oct__decoding *decoding) {
    OCT_FAIL(UNSUPPORTED, "%s: this build has no libjpeg-turbo to decode it",
             oct__path_shown(decoding->path));
}

#endif
