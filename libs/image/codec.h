/*
 * One picture format. `probe` reads the header without allocating for the pixels; `decode` gets an image already
 * reserved for the mode, and the probed info; it looks at `unwanted` (NULL: it is wanted) between strips and scans, and gives
 * up with CANCELLED. Both fail with INVALID_ARGUMENT on a damaged file.
 */
#ifndef IMAGE_CODEC_H
#define IMAGE_CODEC_H

#include "image/picture.h"

typedef struct {
    const char *name;
    status_t (*probe)(const uint8_t *data, size_t len_bytes, image_info_t *info, err_t *err);
    status_t (*decode)(const uint8_t *data, size_t len_bytes, const image_info_t *info, image_mode_t mode,
                       const atomic_bool *unwanted, image_t *image, err_t *err);
} image_codec_ops_t;

extern const image_codec_ops_t image_jpeg_ops, image_png_ops;

/* Grey as Pillow computes it from RGB: fixed point, 16 bits of fraction, rounded. */
static inline uint8_t image_luma(uint8_t r, uint8_t g, uint8_t b)
{
    return (uint8_t)((r * 19595U + g * 38470U + b * 7471U + 0x8000U) >> 16);
}

/* Interleaved RGB to the mode, in place or not; out may be in. */
void image_from_rgb(const uint8_t *in, size_t pixels, image_mode_t mode, uint8_t *out);

#endif
