/*
 * The declared form: configuration text in and out.
 */
#include "image/pipeline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Larger inputs than any vision model's; also keeps width x height x 3 floats far below overflow. */
enum { MAX_TARGET_SIDE = 8192 };

/* A photograph of a phone has 12 megapixels, whatever the model makes of it. */
enum { PIXELS_PER_PIXEL = 256, PIXELS_LEAST = 16 << 20, PIXELS_MOST = 64 << 20, MAX_PIXELS_MOST = 1 << 28 };

static const char *const mode_names[] = {[IMAGE_RGB] = "RGB", [IMAGE_BGR] = "BGR", [IMAGE_L] = "L"};
static const char *const resize_mode_names[] = {
    [IMAGE_STRETCH] = "stretch", [IMAGE_SHORTER_SIDE] = "shorter_side"};
static const char *const layout_names[] = {[IMAGE_NCHW] = "NCHW", [IMAGE_NHWC] = "NHWC"};
static const char *const datatype_names[] = {[IMAGE_FP32] = "FP32", [IMAGE_UINT8] = "UINT8"};
#define NAMES(table) table, sizeof(table) / sizeof((table)[0])

void image_pipeline_init(image_pipeline_t *pipeline)
{
    *pipeline = (image_pipeline_t){.decode = IMAGE_RGB,
                                   .filter = IMAGE_BILINEAR,
                                   .resize_mode = IMAGE_STRETCH,
                                   .scale = 1.0F,
                                   .std = {1.0F, 1.0F, 1.0F},
                                   .layout = IMAGE_NCHW,
                                   .datatype = IMAGE_FP32};
}

static status_t wrong(const char *key, const char *value, const char *wanted, err_t *err)
{
    return err_set(err, STATUS_INVALID_ARGUMENT, "%s: '%.64s' is not %s", key, value, wanted);
}

static status_t set_name(char name[IMAGE_NAME_BYTES], const char *key, const char *value, err_t *err)
{
    size_t len = strlen(value);
    if (len == 0 || len >= IMAGE_NAME_BYTES || strpbrk(value, "\r\n"))
        return wrong(key, value, "the name of a tensor", err);
    memcpy(name, value, len + 1);
    return STATUS_OK;
}

static status_t set_choice(int *choice, const char *const *names, size_t count, const char *key,
                           const char *value, err_t *err)
{
    char wanted[64] = "one of";
    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(value, names[i]) == 0) {
            *choice = (int)i;
            return STATUS_OK;
        }
        snprintf(wanted + strlen(wanted), sizeof wanted - strlen(wanted), " %s", names[i]);
    }
    return wrong(key, value, wanted, err);
}

static status_t set_side(uint32_t *side, const char *key, const char *value, err_t *err)
{
    char *end;
    long number = strtol(value, &end, 10);
    if (end == value || *end || number < 1 || number > MAX_TARGET_SIDE)
        return wrong(key, value, "a number of pixels from 1 to 8192", err);
    *side = (uint32_t)number;
    return STATUS_OK;
}

static status_t set_pixels(uint32_t *pixels, const char *key, const char *value, err_t *err)
{
    char *end;
    long number = strtol(value, &end, 10);
    if (end == value || *end || number < 1 || number > MAX_PIXELS_MOST)
        return wrong(key, value, "a number of pixels from 1 to 268435456", err);
    *pixels = (uint32_t)number;
    return STATUS_OK;
}

static const char *skip_separators(const char *at)
{
    return at + strspn(at, "[], \t");
}

static status_t set_floats(float *values, size_t count, const char *key, const char *value, err_t *err)
{
    size_t found = 0;
    for (const char *at = skip_separators(value); *at; at = skip_separators(at)) {
        char *end;
        float number = strtof(at, &end);
        if (end == at || !isfinite(number) || found == count)
            return wrong(key, value, count == 1 ? "a number" : "one or three numbers", err);
        values[found++] = number;
        at = end;
    }
    if (count == 3 && found == 1)
        values[1] = values[2] = values[0];
    else if (found != count)
        return wrong(key, value, count == 1 ? "a number" : "one or three numbers", err);
    return STATUS_OK;
}

static status_t set_bool(bool *truth, const char *key, const char *value, err_t *err)
{
    bool yes = strcasecmp(value, "true") == 0;
    if (!yes && strcasecmp(value, "false") != 0)
        return wrong(key, value, "true or false", err);
    *truth = yes;
    return STATUS_OK;
}

static status_t set_resize(image_pipeline_t *p, const char *key, const char *word, const char *value,
                           err_t *err)
{
    int choice = (int)p->resize_mode;
    status_t status;
    if (strcmp(word, "width") == 0)
        return set_side(&p->resize_width, key, value, err);
    if (strcmp(word, "height") == 0)
        return set_side(&p->resize_height, key, value, err);
    if (strcmp(word, "filter") == 0)
        return image_filter_parse(value, &p->filter)
                   ? STATUS_OK
                   : wrong(key, value, "one of nearest box bilinear hamming bicubic lanczos", err);
    if (strcmp(word, "mode") != 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "unknown key %s", key);
    status = set_choice(&choice, NAMES(resize_mode_names), key, value, err);
    p->resize_mode = (image_resize_mode_t)choice;
    return status;
}

static status_t set_preprocess(image_pipeline_t *p, const char *key, const char *word, const char *value,
                               err_t *err)
{
    int choice = 0;
    status_t status;
    if (strcmp(word, "input") == 0)
        return set_name(p->input, key, value, err);
    if (strncmp(word, "resize.", 7) == 0)
        return set_resize(p, key, word + 7, value, err);
    if (strcmp(word, "crop.width") == 0)
        return set_side(&p->crop_width, key, value, err);
    if (strcmp(word, "crop.height") == 0)
        return set_side(&p->crop_height, key, value, err);
    if (strcmp(word, "scale") == 0)
        return set_floats(&p->scale, 1, key, value, err);
    if (strcmp(word, "mean") == 0)
        return set_floats(p->mean, 3, key, value, err);
    if (strcmp(word, "std") == 0)
        return set_floats(p->std, 3, key, value, err);
    if (strcmp(word, "max_pixels") == 0)
        return set_pixels(&p->max_pixels, key, value, err);
    if (strcmp(word, "invert") == 0)
        return set_bool(&p->invert, key, value, err);
    if (strcmp(word, "decode") == 0) {
        status = set_choice(&choice, NAMES(mode_names), key, value, err);
        if (status == STATUS_OK)
            p->decode = (image_mode_t)choice;
        return status;
    }
    if (strcmp(word, "layout") == 0) {
        status = set_choice(&choice, NAMES(layout_names), key, value, err);
        if (status == STATUS_OK)
            p->layout = (image_layout_t)choice;
        return status;
    }
    if (strcmp(word, "datatype") != 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "unknown key %s", key);
    status = set_choice(&choice, NAMES(datatype_names), key, value, err);
    if (status == STATUS_OK)
        p->datatype = (image_datatype_t)choice;
    return status;
}

status_t image_pipeline_set(image_pipeline_t *pipeline, const char *key, const char *value, err_t *err)
{
    static const char preprocess[] = "preprocess.";
    if (strcmp(key, "postprocess.softmax") == 0)
        return set_name(pipeline->softmax, key, value, err);
    if (strncmp(key, preprocess, strlen(preprocess)) == 0)
        return set_preprocess(pipeline, key, key + strlen(preprocess), value, err);
    return err_set(err, STATUS_INVALID_ARGUMENT, "unknown key %s", key);
}

static bool is_plain(const image_pipeline_t *p)
{
    bool plain = p->scale == 1.0F;
    for (int i = 0; i < 3; i++)
        plain = plain && p->mean[i] == 0.0F && p->std[i] == 1.0F;
    return plain;
}

status_t image_pipeline_check(const image_pipeline_t *p, err_t *err)
{
    if (!image_pipeline_present(p)) {
        image_pipeline_t untouched;
        image_pipeline_init(&untouched);
        if (p->resize_width || p->resize_height || p->crop_width || p->crop_height || p->invert ||
            !is_plain(p) || p->max_pixels || p->decode != untouched.decode)
            return err_set(err, STATUS_INVALID_ARGUMENT, "preprocess.input is missing");
        return STATUS_OK;
    }
    if (!p->resize_width != !p->resize_height)
        return err_set(err, STATUS_INVALID_ARGUMENT, "preprocess.resize needs both width and height");
    if (!p->crop_width != !p->crop_height)
        return err_set(err, STATUS_INVALID_ARGUMENT, "preprocess.crop needs both width and height");
    if (p->resize_mode == IMAGE_SHORTER_SIDE && !p->resize_width)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "preprocess.resize.mode shorter_side needs width and height");
    if (p->resize_width && p->crop_width &&
        (p->crop_width > p->resize_width || p->crop_height > p->resize_height))
        return err_set(err, STATUS_INVALID_ARGUMENT, "preprocess.crop is larger than preprocess.resize");
    if (p->max_pixels && (uint64_t)p->resize_width * p->resize_height > p->max_pixels)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "preprocess.max_pixels is less than preprocess.resize has");
    for (int i = 0; i < 3; i++)
        if (p->std[i] == 0.0F)
            return err_set(err, STATUS_INVALID_ARGUMENT, "preprocess.std must not be 0");
    if (p->datatype == IMAGE_UINT8 && !is_plain(p))
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "preprocess.scale, mean and std need preprocess.datatype FP32");
    return STATUS_OK;
}

bool image_pipeline_present(const image_pipeline_t *pipeline)
{
    return pipeline->input[0] != '\0';
}

bool image_pipeline_size(const image_pipeline_t *pipeline, uint32_t *width, uint32_t *height)
{
    *width = pipeline->crop_width ? pipeline->crop_width : pipeline->resize_width;
    *height = pipeline->crop_height ? pipeline->crop_height : pipeline->resize_height;
    return *width != 0;
}

void image_pipeline_limits(const image_pipeline_t *pipeline, image_limits_t *limits)
{
    uint64_t pixels = pipeline->resize_width ? (uint64_t)pipeline->resize_width * pipeline->resize_height
                                             : (uint64_t)pipeline->crop_width * pipeline->crop_height;
    *limits = image_limits_default;
    if (pipeline->max_pixels)
        limits->max_pixels = pipeline->max_pixels;
    else if (pixels * PIXELS_PER_PIXEL < PIXELS_LEAST)
        limits->max_pixels = PIXELS_LEAST;
    else if (pixels * PIXELS_PER_PIXEL < PIXELS_MOST)
        limits->max_pixels = pixels * PIXELS_PER_PIXEL;
    else
        limits->max_pixels = PIXELS_MOST;
}

uint32_t image_pipeline_channels(const image_pipeline_t *pipeline)
{
    return pipeline->decode == IMAGE_L ? 1 : 3;
}

bool image_pipeline_alike(const image_pipeline_t *a, const image_pipeline_t *b)
{
    bool alike = strcmp(a->input, b->input) == 0 && a->decode == b->decode &&
                 a->resize_width == b->resize_width && a->resize_height == b->resize_height &&
                 a->filter == b->filter && a->resize_mode == b->resize_mode &&
                 a->crop_width == b->crop_width && a->crop_height == b->crop_height && a->scale == b->scale &&
                 a->layout == b->layout && a->datatype == b->datatype && a->invert == b->invert;
    for (int c = 0; c < 3; c++)
        alike = alike && a->mean[c] == b->mean[c] && a->std[c] == b->std[c];
    return alike;
}
