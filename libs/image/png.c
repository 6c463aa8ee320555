/*
 * PNG through spng. Its RGB8 and G8 outputs scale and gamma nothing; palettes are looked up, alpha and tRNS
 * are dropped, 16 bits keep the high byte, as in Pillow's convert("RGB").
 */
#include "image/codec.h"

#include <spng.h>

#include <stdlib.h>

static status_t broken(int code, err_t *err)
{
    if (code == SPNG_EMEM)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a PNG picture");
    return err_set(err, STATUS_INVALID_ARGUMENT, "broken PNG picture: %s", spng_strerror(code));
}

static status_t open_png(const uint8_t *data, size_t len_bytes, spng_ctx **context, struct spng_ihdr *header,
                         err_t *err)
{
    /* Text and colour profiles can be compressed bombs; nobody here reads them. */
    enum { MAX_CHUNK_BYTES = 1 << 20, MAX_CHUNK_CACHE_BYTES = 4 << 20 };
    spng_ctx *opened = spng_ctx_new(0);
    if (!opened)
        return broken(SPNG_EMEM, err);
    int code = spng_set_chunk_limits(opened, MAX_CHUNK_BYTES, MAX_CHUNK_CACHE_BYTES);
    if (code == 0)
        code = spng_set_crc_action(opened, SPNG_CRC_ERROR, SPNG_CRC_DISCARD);
    if (code == 0)
        code = spng_set_png_buffer(opened, data, len_bytes);
    if (code == 0)
        code = spng_get_ihdr(opened, header);
    if (code) {
        spng_ctx_free(opened);
        return broken(code, err);
    }
    *context = opened;
    return STATUS_OK;
}

static uint32_t channels_of(uint8_t colour_type)
{
    switch (colour_type) {
    case SPNG_COLOR_TYPE_GRAYSCALE:
        return 1;
    case SPNG_COLOR_TYPE_GRAYSCALE_ALPHA:
        return 2;
    case SPNG_COLOR_TYPE_TRUECOLOR_ALPHA:
        return 4;
    default:
        return 3;
    }
}

static status_t png_probe(const uint8_t *data, size_t len_bytes, image_info_t *info, err_t *err)
{
    struct spng_ihdr header;
    spng_ctx *context;
    status_t status = open_png(data, len_bytes, &context, &header, err);
    if (status)
        return status;
    spng_ctx_free(context);
    *info = (image_info_t){.width = header.width,
                           .height = header.height,
                           .channels = channels_of(header.color_type),
                           .bits = header.bit_depth,
                           .scans = 1};
    return STATUS_OK;
}

/* spng gives RGB8 for every colour type; grey has the same value three times. */
static void convert(const uint8_t *rgb, size_t pixels, bool grey, image_mode_t mode, uint8_t *out)
{
    if (!grey || mode != IMAGE_L) {
        image_from_rgb(rgb, pixels, mode, out);
        return;
    }
    for (size_t i = 0; i < pixels; i++)
        out[i] = rgb[i * 3];
}

/* Interlaced rows come in seven passes; row_num is where each belongs. CANCELLED is told by *given_up. */
static int decode_rows(spng_ctx *context, const atomic_bool *unwanted, size_t row_bytes, uint8_t *rgb,
                       bool *given_up)
{
    struct spng_row_info row;
    int code = spng_decode_image(context, NULL, 0, SPNG_FMT_RGB8, SPNG_DECODE_PROGRESSIVE);
    while (code == 0) {
        *given_up = unwanted && atomic_load_explicit(unwanted, memory_order_relaxed);
        if (*given_up)
            return SPNG_EOI;
        code = spng_get_row_info(context, &row);
        if (code == 0)
            code = spng_decode_row(context, rgb + row.row_num * row_bytes, row_bytes);
    }
    return code;
}

static status_t png_decode(const uint8_t *data, size_t len_bytes, const image_info_t *info, image_mode_t mode,
                           const atomic_bool *unwanted, image_t *image, err_t *err)
{
    struct spng_ihdr header;
    spng_ctx *context;
    size_t pixels = (size_t)image->width * image->height;
    bool given_up = false;
    status_t status = open_png(data, len_bytes, &context, &header, err);
    if (status)
        return status;
    uint8_t *rgb = mode == IMAGE_L ? malloc(pixels * 3) : image->pixels;
    int code = rgb ? decode_rows(context, unwanted, (size_t)image->width * 3, rgb, &given_up) : SPNG_EMEM;
    if (given_up)
        status = err_set(err, STATUS_CANCELLED, "given up while it was decoded");
    else if (code != SPNG_EOI)
        status = broken(code, err);
    else
        convert(rgb, pixels, info->channels <= 2, mode, image->pixels);
    if (rgb != image->pixels)
        free(rgb);
    spng_ctx_free(context);
    return status;
}

const image_codec_ops_t image_png_ops = {.name = "PNG", .probe = png_probe, .decode = png_decode};
