/*
 * Pictures: JPEG and PNG bytes to 8-bit channels. EXIF orientation is ignored, alpha is dropped and 16 bits
 * are cut to 8, as Pillow's open() and convert() do.
 */
#ifndef IMAGE_PICTURE_H
#define IMAGE_PICTURE_H

#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { IMAGE_RGB, IMAGE_BGR, IMAGE_L } image_mode_t; /* L: grey, (299 R + 587 G + 114 B) / 1000 */
typedef enum { IMAGE_JPEG, IMAGE_PNG } image_format_t;

/* Looked at in the header, before anything is allocated for the pixels. */
typedef struct {
    uint32_t max_side; /* pixels */
    /* width x height; of a file of several scans, IMAGE_SCANS_ALLOWED times as many in all of them */
    uint64_t max_pixels;
    size_t max_file_bytes; /* encoded */
} image_limits_t;

/* libjpeg and mozjpeg write progressive files of 6 to 10 scans; each goes over the whole picture. */
enum { IMAGE_SCANS_ALLOWED = 10, IMAGE_SCANS_MAX = 500 };

/* 16384 a side, 64 megapixels (a 192 MB picture once decoded), 64 MiB encoded. A pipeline has narrower ones. */
extern const image_limits_t image_limits_default;

typedef struct {
    image_format_t format;
    uint32_t width, height;
    uint32_t channels; /* as encoded: 1 grey, 2 grey+alpha, 3 colour (or palette), 4 colour+alpha or CMYK */
    uint32_t bits;     /* per channel, as encoded */
    uint32_t scans;    /* passes over the picture that decoding takes, 1 for most */
} image_info_t;

/* What decoding takes, in pixels that are gone over. */
static inline uint64_t image_work(const image_info_t *info)
{
    return (uint64_t)info->width * info->height * info->scans;
}

/* Interleaved 8-bit channels; rows lie without gaps. The memory is reused by the next decode into it. */
typedef struct {
    uint32_t width, height, channels;
    uint8_t *pixels;
    size_t cap_bytes;
} image_t;

void image_init(image_t *image);
void image_dispose(image_t *image);
/* Makes room for that size; NO_MEMORY leaves the image as it was. Contents are undefined. */
status_t image_reserve(image_t *image, uint32_t width, uint32_t height, uint32_t channels, err_t *err);

/* True when the bytes begin like a JPEG or PNG file. */
bool image_recognise(const void *data, size_t len_bytes, image_format_t *format);

/* Reads the header only. INVALID_ARGUMENT when it is no picture, TOO_LARGE when it is over the limits. */
status_t image_probe(const void *data, size_t len_bytes, const image_limits_t *limits, image_info_t *info,
                     err_t *err);

/* Decodes to the mode: 3 channels, or 1 for L. A truncated or damaged file is INVALID_ARGUMENT. CANCELLED soon after *unwanted
 * was set by another thread; NULL: it is wanted. */
status_t image_decode(const void *data, size_t len_bytes, image_mode_t mode, const image_limits_t *limits,
                      const atomic_bool *unwanted, image_t *image, err_t *err);

#endif
