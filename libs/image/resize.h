/*
 * Resizing 8-bit pictures the way Pillow does: separable convolution whose support widens with the reduction
 * (so it antialiases), fixed-point weights, rounding to 8 bits after each pass. Nearest picks the source
 * pixel under the centre.
 */
#ifndef IMAGE_RESIZE_H
#define IMAGE_RESIZE_H

#include "image/picture.h"

typedef enum {
    IMAGE_NEAREST,
    IMAGE_BOX,
    IMAGE_BILINEAR,
    IMAGE_HAMMING,
    IMAGE_BICUBIC,
    IMAGE_LANCZOS,
    IMAGE_FILTER_COUNT,
} image_filter_t;

const char *image_filter_name(image_filter_t filter); /* "bilinear" */
bool image_filter_parse(const char *text, image_filter_t *filter);

/* Working memory of one thread: the weights and the picture between the two passes. */
typedef struct {
    image_t middle;
    void *weights;
    size_t weights_cap_bytes;
} image_resizer_t;

void image_resizer_init(image_resizer_t *resizer);
void image_resizer_dispose(image_resizer_t *resizer);

/* Makes dst a width x height version of src; dst must not be src. NO_MEMORY or INVALID_ARGUMENT (a zero
 * size). */
status_t image_resize(image_resizer_t *resizer, const image_t *src, uint32_t width, uint32_t height,
                      image_filter_t filter, image_t *dst, err_t *err);

#endif
