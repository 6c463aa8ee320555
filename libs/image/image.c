#include "image/picture.h"

#include <stdlib.h>
#include <string.h>

const image_limits_t image_limits_default = {
    .max_side = 16384, .max_pixels = UINT64_C(64) << 20, .max_file_bytes = (size_t)64 << 20};

void image_init(image_t *image)
{
    *image = (image_t){0};
}

void image_dispose(image_t *image)
{
    free(image->pixels);
    image_init(image);
}

status_t image_reserve(image_t *image, uint32_t width, uint32_t height, uint32_t channels, err_t *err)
{
    uint64_t bytes;
    if (__builtin_mul_overflow((uint64_t)width, (uint64_t)height, &bytes) ||
        __builtin_mul_overflow(bytes, (uint64_t)channels, &bytes) || bytes > INT64_MAX)
        return err_set(err, STATUS_TOO_LARGE, "a picture of %u x %u pixels", width, height);
    if (bytes > image->cap_bytes) {
        uint8_t *pixels = malloc(bytes);
        if (!pixels)
            return err_set(err, STATUS_NO_MEMORY, "no memory for a picture of %u x %u pixels", width, height);
        free(image->pixels);
        image->pixels = pixels;
        image->cap_bytes = bytes;
    }
    image->width = width;
    image->height = height;
    image->channels = channels;
    return STATUS_OK;
}

bool image_recognise(const void *data, size_t len_bytes, image_format_t *format)
{
    static const uint8_t jpeg[] = {0xff, 0xd8, 0xff}, png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    if (len_bytes >= sizeof jpeg && memcmp(data, jpeg, sizeof jpeg) == 0)
        *format = IMAGE_JPEG;
    else if (len_bytes >= sizeof png && memcmp(data, png, sizeof png) == 0)
        *format = IMAGE_PNG;
    else
        return false;
    return true;
}
