/*
 * JPEG through libjpeg-turbo's own interface, which can be asked to stop between rows of blocks and between scans.
 */
#include "image/codec.h"

#include <stdio.h> /* jpeglib.h needs it before */

#include <jpeglib.h>

#include <jerror.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#ifndef JCS_EXTENSIONS
#error "this libjpeg has no colour spaces for BGR: libjpeg-turbo is wanted"
#endif

enum { MARKER = 0xff, SOI = 0xd8, EOI = 0xd9, SOS = 0xda, RST0 = 0xd0, RST7 = 0xd7, TEM = 0x01 };

/* libjpeg leaves by longjmp. All that is alive then stands in here, not in the frames between. */
typedef struct {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf leave;
    uint32_t scans_max;
    uint8_t *wide; /* pixels of 4 bytes, where those of the picture are not what libjpeg gives; NULL: none */
    const atomic_bool *unwanted;
    status_t status; /* with which it left */
    err_t *err;
} reader_t;

static _Noreturn void leave(reader_t *reader, status_t status)
{
    reader->status = status;
    longjmp(reader->leave, 1);
}

static _Noreturn void leave_broken(reader_t *reader)
{
    char text[JMSG_LENGTH_MAX];
    reader->errors.format_message((j_common_ptr)&reader->info, text);
    if (reader->errors.msg_code == JERR_OUT_OF_MEMORY)
        leave(reader, err_set(reader->err, STATUS_NO_MEMORY, "no memory for a JPEG decoder"));
    leave(reader, err_set(reader->err, STATUS_INVALID_ARGUMENT, "broken JPEG picture: %s", text));
}

static void on_error(j_common_ptr info)
{
    leave_broken(info->client_data);
}

/*
 * A warning (level -1) is how truncated and damaged files are told, which would end in a grey rest: refused, as Pillow does. Stray bytes
 * between segments, which some cameras write, harm nothing. Other levels trace.
 */
static void on_message(j_common_ptr info, int level)
{
    if (level == -1 && info->err->msg_code != JWRN_EXTRANEOUS_DATA)
        leave_broken(info->client_data);
}

/* libjpeg calls it for each row of blocks of each scan, of files of several scans before there is any output. */
static void on_progress(j_common_ptr info)
{
    reader_t *reader = info->client_data;
    if (reader->unwanted && atomic_load_explicit(reader->unwanted, memory_order_relaxed))
        leave(reader, err_set(reader->err, STATUS_CANCELLED, "given up while it was decoded"));
    if (reader->info.input_scan_number > (int)reader->scans_max)
        leave(reader, err_set(reader->err, STATUS_INVALID_ARGUMENT,
                              "broken JPEG picture: it has more scans than its segments show"));
}

static void reader_begin(reader_t *reader, const uint8_t *data, size_t len_bytes, err_t *err)
{
    reader->err = err;
    reader->info.err = jpeg_std_error(&reader->errors);
    reader->errors.error_exit = on_error;
    reader->errors.emit_message = on_message;
    reader->info.client_data = reader;
    jpeg_create_decompress(&reader->info);
    reader->progress.progress_monitor = on_progress;
    reader->info.progress = &reader->progress;
    jpeg_mem_src(&reader->info, data, len_bytes);
    jpeg_read_header(&reader->info, TRUE);
}

/* The last of the data when there is none. */
static size_t next_marker(const uint8_t *data, size_t len_bytes, size_t at)
{
    while (at < len_bytes) {
        const uint8_t *found = memchr(data + at, MARKER, len_bytes - at);
        if (!found)
            return len_bytes;
        at = (size_t)(found - data);
        while (at < len_bytes && data[at] == MARKER)
            at++;
        if (at < len_bytes && data[at] != 0)
            return at;
    }
    return len_bytes;
}

static bool stands_alone(uint8_t marker)
{
    return marker == TEM || marker == SOI || (marker >= RST0 && marker <= RST7);
}

/* Scans by the segments, without decoding any: what follows a segment up to the next marker is entropy coded. */
static uint32_t count_scans(const uint8_t *data, size_t len_bytes)
{
    uint32_t scans = 0;
    size_t at = 0;
    while ((at = next_marker(data, len_bytes, at)) < len_bytes) {
        uint8_t marker = data[at++];
        if (marker == EOI)
            break;
        if (stands_alone(marker))
            continue;
        scans += marker == SOS;
        if (len_bytes - at < 2)
            break;
        at += (size_t)data[at] << 8 | data[at + 1];
    }
    return scans ? scans : 1;
}

static uint32_t channels_of(J_COLOR_SPACE colours)
{
    if (colours == JCS_GRAYSCALE)
        return 1;
    return colours == JCS_CMYK || colours == JCS_YCCK ? 4 : 3;
}

static status_t jpeg_probe(const uint8_t *data, size_t len_bytes, image_info_t *info, err_t *err)
{
    reader_t reader = {.scans_max = 1};
    if (setjmp(reader.leave) == 0) {
        reader_begin(&reader, data, len_bytes, err);
        *info = (image_info_t){.width = reader.info.image_width,
                               .height = reader.info.image_height,
                               .channels = channels_of(reader.info.jpeg_color_space),
                               .bits = 8,
                               .scans = count_scans(data, len_bytes)};
    }
    jpeg_destroy_decompress(&reader.info);
    return reader.status;
}

/* Adobe writes CMYK inverted, and so does every other writer in practice; Pillow reads it so too. */
static void rgb_from_cmyk(const uint8_t *in, size_t pixels, uint8_t *out)
{
    for (size_t i = 0; i < pixels; i++)
        for (size_t c = 0; c < 3; c++)
            out[i * 3 + c] = (uint8_t)((in[i * 4 + c] * in[i * 4 + 3] + 127U) / 255U);
}

static void read_rows(reader_t *reader, J_COLOR_SPACE colours, uint8_t *out)
{
    struct jpeg_decompress_struct *info = &reader->info;
    info->out_color_space = colours;
    info->dct_method = JDCT_ISLOW;
    jpeg_start_decompress(info);
    size_t row_bytes = (size_t)info->output_width * (size_t)info->output_components;
    while (info->output_scanline < info->output_height) {
        JSAMPROW row = out + info->output_scanline * row_bytes;
        jpeg_read_scanlines(info, &row, 1);
    }
    jpeg_finish_decompress(info);
}

/* For L out of colours: Pillow decodes RGB first and so do we. 4 bytes a pixel hold CMYK and RGB alike. */
static J_COLOR_SPACE colours_for(const reader_t *reader, image_mode_t mode, bool *wide)
{
    uint32_t channels = channels_of(reader->info.jpeg_color_space);
    *wide = channels == 4 || (mode == IMAGE_L && channels != 1);
    if (*wide)
        return channels == 4 ? JCS_CMYK : JCS_EXT_RGB;
    return mode == IMAGE_L ? JCS_GRAYSCALE : mode == IMAGE_RGB ? JCS_EXT_RGB : JCS_EXT_BGR;
}

static void read_picture(reader_t *reader, image_mode_t mode, image_t *image)
{
    bool wide;
    J_COLOR_SPACE colours = colours_for(reader, mode, &wide);
    size_t pixels = (size_t)image->width * image->height;
    if (!wide) {
        read_rows(reader, colours, image->pixels);
        return;
    }
    reader->wide = malloc(pixels * 4);
    if (!reader->wide)
        leave(reader, err_set(reader->err, STATUS_NO_MEMORY, "no memory for a picture of %u x %u pixels",
                              image->width, image->height));
    read_rows(reader, colours, reader->wide);
    if (colours == JCS_CMYK)
        rgb_from_cmyk(reader->wide, pixels, reader->wide);
    image_from_rgb(reader->wide, pixels, mode, image->pixels);
}

static status_t jpeg_decode(const uint8_t *data, size_t len_bytes, const image_info_t *info,
                            image_mode_t mode, const atomic_bool *unwanted, image_t *image, err_t *err)
{
    reader_t reader = {.scans_max = info->scans, .unwanted = unwanted};
    if (setjmp(reader.leave) == 0) {
        reader_begin(&reader, data, len_bytes, err);
        read_picture(&reader, mode, image);
    }
    jpeg_destroy_decompress(&reader.info);
    free(reader.wide);
    return reader.status;
}

const image_codec_ops_t image_jpeg_ops = {.name = "JPEG", .probe = jpeg_probe, .decode = jpeg_decode};
