#include "image/codec.h"

#include <string.h>

static const image_codec_ops_t *const codecs[] = {
    [IMAGE_JPEG] = &image_jpeg_ops, [IMAGE_PNG] = &image_png_ops};

void image_from_rgb(const uint8_t *in, size_t pixels, image_mode_t mode, uint8_t *out)
{
    for (size_t i = 0; i < pixels; i++, in += 3) {
        uint8_t r = in[0], g = in[1], b = in[2];
        if (mode == IMAGE_L) {
            out[i] = image_luma(r, g, b);
            continue;
        }
        out[i * 3] = mode == IMAGE_RGB ? r : b;
        out[i * 3 + 1] = g;
        out[i * 3 + 2] = mode == IMAGE_RGB ? b : r;
    }
}

static status_t check_limits(const image_info_t *info, const image_limits_t *limits, err_t *err)
{
    if (info->width == 0 || info->height == 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "the picture has no pixels");
    if (info->width > limits->max_side || info->height > limits->max_side)
        return err_set(err, STATUS_TOO_LARGE, "the picture is %u x %u pixels, over the limit of %u a side",
                       info->width, info->height, limits->max_side);
    if ((uint64_t)info->width * info->height > limits->max_pixels)
        return err_set(
            err, STATUS_TOO_LARGE,
            "the picture is %u x %u pixels, over the limit of %llu in all (preprocess.max_pixels in "
            "the model's config.yaml)",
            info->width, info->height, (unsigned long long)limits->max_pixels);
    if (info->scans > IMAGE_SCANS_MAX ||
        (info->scans > 1 && image_work(info) > limits->max_pixels * IMAGE_SCANS_ALLOWED))
        return err_set(
            err, STATUS_TOO_LARGE,
            "the picture is %u x %u pixels in %u scans, over the limit of %d scans and %llu pixels in all "
            "of them (%d times preprocess.max_pixels in the model's config.yaml)",
            info->width, info->height, info->scans, IMAGE_SCANS_MAX,
            (unsigned long long)limits->max_pixels * IMAGE_SCANS_ALLOWED, IMAGE_SCANS_ALLOWED);
    return STATUS_OK;
}

/* What JSON clients send that forgot to say so. */
static bool is_base64(const char *data, size_t len_bytes)
{
    static const char jpeg[] = "/9j/", png[] = "iVBORw0KGgo";
    return (len_bytes >= strlen(jpeg) && memcmp(data, jpeg, strlen(jpeg)) == 0) ||
           (len_bytes >= strlen(png) && memcmp(data, png, strlen(png)) == 0);
}

static status_t not_a_picture(const void *data, size_t len_bytes, err_t *err)
{
    if (is_base64(data, len_bytes))
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "base64 of a picture, which the input's parameter content_type: \"base64\" must say");
    return err_set(err, STATUS_INVALID_ARGUMENT, "neither a JPEG nor a PNG picture");
}

status_t image_probe(const void *data, size_t len_bytes, const image_limits_t *limits, image_info_t *info,
                     err_t *err)
{
    image_format_t format;
    image_info_t found = {0};
    if (len_bytes > limits->max_file_bytes)
        return err_set(err, STATUS_TOO_LARGE, "the picture file has %zu bytes, the limit is %zu", len_bytes,
                       limits->max_file_bytes);
    if (!image_recognise(data, len_bytes, &format))
        return not_a_picture(data, len_bytes, err);
    status_t status = codecs[format]->probe(data, len_bytes, &found, err);
    if (status == STATUS_OK)
        status = check_limits(&found, limits, err);
    if (status)
        return status;
    found.format = format;
    *info = found;
    return STATUS_OK;
}

status_t image_decode(const void *data, size_t len_bytes, image_mode_t mode, const image_limits_t *limits,
                      const atomic_bool *unwanted, image_t *image, err_t *err)
{
    image_info_t info;
    status_t status = image_probe(data, len_bytes, limits, &info, err);
    if (status == STATUS_OK)
        status = image_reserve(image, info.width, info.height, mode == IMAGE_L ? 1 : 3, err);
    if (status == STATUS_OK)
        status = codecs[info.format]->decode(data, len_bytes, &info, mode, unwanted, image, err);
    return status;
}
