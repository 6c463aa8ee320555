#include "image/codec.h"

#include <turbojpeg.h>

#include <stdlib.h>
#include <string.h>

/* Creating a decompressor costs microseconds against milliseconds of decoding, so it is not kept. */
static status_t open_jpeg(const uint8_t *data, size_t len_bytes, tjhandle *handle, int *width, int *height,
                          int *subsampling, int *colours, err_t *err)
{
    tjhandle opened = tjInitDecompress();
    if (!opened)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a JPEG decoder");
    *width = *height = 0;
    int code = tjDecompressHeader3(opened, data, len_bytes, width, height, subsampling, colours);
    if (code == 0 && *width > 0 && *height > 0) {
        *handle = opened;
        return STATUS_OK;
    }
    /* A file that ends after its tables is a success without a size to the library. */
    err_set(err, STATUS_INVALID_ARGUMENT, "broken JPEG picture: %s",
            code ? tjGetErrorStr2(opened) : "there is no picture in it");
    tjDestroy(opened);
    return STATUS_INVALID_ARGUMENT;
}

static uint32_t channels_of(int colours)
{
    if (colours == TJCS_GRAY)
        return 1;
    return colours == TJCS_CMYK || colours == TJCS_YCCK ? 4 : 3;
}

static status_t jpeg_probe(const uint8_t *data, size_t len_bytes, image_info_t *info, err_t *err)
{
    tjhandle handle;
    int width, height, subsampling = 0, colours = 0;
    status_t status = open_jpeg(data, len_bytes, &handle, &width, &height, &subsampling, &colours, err);
    if (status)
        return status;
    tjDestroy(handle);
    *info = (image_info_t){
        .width = (uint32_t)width, .height = (uint32_t)height, .channels = channels_of(colours), .bits = 8};
    return STATUS_OK;
}

/* Adobe writes CMYK inverted, and so does every other writer in practice; Pillow reads it so too. */
static void rgb_from_cmyk(const uint8_t *in, size_t pixels, uint8_t *out)
{
    for (size_t i = 0; i < pixels; i++)
        for (size_t c = 0; c < 3; c++)
            out[i * 3 + c] = (uint8_t)((in[i * 4 + c] * in[i * 4 + 3] + 127U) / 255U);
}

/*
 * Truncated and damaged files end in a warning and a grey rest: refused, as Pillow does. Stray bytes between
 * segments, which some cameras write, harm nothing.
 */
static bool harmless(tjhandle handle)
{
    return tjGetErrorCode(handle) == TJERR_WARNING && strstr(tjGetErrorStr2(handle), "extraneous bytes");
}

static status_t decompress(tjhandle handle, const uint8_t *data, size_t len_bytes, int pixel_format,
                           const image_t *image, uint8_t *out, err_t *err)
{
    /* LIMITSCANS: a progressive file may not ask for hundreds of passes over a large picture. */
    int flags = TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS;
    if (tjDecompress2(handle, data, len_bytes, out, (int)image->width, 0, (int)image->height, pixel_format,
                      flags) != 0 &&
        !harmless(handle))
        return err_set(err, STATUS_INVALID_ARGUMENT, "broken JPEG picture: %s", tjGetErrorStr2(handle));
    return STATUS_OK;
}

/* For L out of colours: Pillow decodes RGB first and so do we. 4 bytes a pixel hold CMYK and RGB alike. */
static status_t decompress_wide(tjhandle handle, const uint8_t *data, size_t len_bytes, bool cmyk,
                                image_mode_t mode, image_t *image, err_t *err)
{
    size_t pixels = (size_t)image->width * image->height;
    uint8_t *wide = malloc(pixels * 4);
    if (!wide)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a picture of %u x %u pixels", image->width,
                       image->height);
    status_t status = decompress(handle, data, len_bytes, cmyk ? TJPF_CMYK : TJPF_RGB, image, wide, err);
    if (status == STATUS_OK) {
        if (cmyk)
            rgb_from_cmyk(wide, pixels, wide);
        image_from_rgb(wide, pixels, mode, image->pixels);
    }
    free(wide);
    return status;
}

static status_t jpeg_decode(const uint8_t *data, size_t len_bytes, image_mode_t mode, image_t *image,
                            err_t *err)
{
    tjhandle handle;
    int width, height, subsampling = 0, colours = 0;
    status_t status = open_jpeg(data, len_bytes, &handle, &width, &height, &subsampling, &colours, err);
    if (status)
        return status;
    bool cmyk = channels_of(colours) == 4, grey = channels_of(colours) == 1;
    if (cmyk || (mode == IMAGE_L && !grey))
        status = decompress_wide(handle, data, len_bytes, cmyk, mode, image, err);
    else
        status = decompress(handle, data, len_bytes,
                            mode == IMAGE_L     ? TJPF_GRAY
                            : mode == IMAGE_RGB ? TJPF_RGB
                                                : TJPF_BGR,
                            image, image->pixels, err);
    tjDestroy(handle);
    return status;
}

const image_codec_ops_t image_jpeg_ops = {.name = "JPEG", .probe = jpeg_probe, .decode = jpeg_decode};
