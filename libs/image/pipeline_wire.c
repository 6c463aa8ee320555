#include "image/pipeline_wire.h"

#include <stdio.h>
#include <string.h>

typedef Control__ImagePipeline message_t;

static char *text(const char *constant)
{
    return (char *)(uintptr_t)constant; /* protobuf-c only reads it */
}

void image_pipeline_to_wire(const image_pipeline_t *pipeline, image_pipeline_wire_t *wire)
{
    message_t *message = &wire->message;
    control__image_pipeline__init(message);
    message->input = text(pipeline->input);
    message->resize_width = pipeline->resize_width;
    message->resize_height = pipeline->resize_height;
    message->resize_mode = text(pipeline->resize_mode == IMAGE_SHORTER_SIDE ? "shorter_side" : "stretch");
    message->filter = text(image_filter_name(pipeline->filter));
    message->crop_width = pipeline->crop_width;
    message->crop_height = pipeline->crop_height;
    message->scale = (double)pipeline->scale;
    for (int i = 0; i < 3; i++) {
        wire->mean[i] = (double)pipeline->mean[i];
        wire->std[i] = (double)pipeline->std[i];
    }
    message->n_mean = message->n_std = image_pipeline_channels(pipeline);
    message->mean = wire->mean;
    message->std = wire->std;
    message->color = text(pipeline->decode == IMAGE_L ? "L" : pipeline->decode == IMAGE_BGR ? "BGR" : "RGB");
    message->layout = text(pipeline->layout == IMAGE_NHWC ? "NHWC" : "NCHW");
    message->datatype = text(pipeline->datatype == IMAGE_UINT8 ? "UINT8" : "FP32");
    message->invert = pipeline->invert;
    message->max_pixels = pipeline->max_pixels;
}

/* Everything goes through image_pipeline_set, so that a message is held to the rules of a configuration file. */
static status_t set_uint(image_pipeline_t *pipeline, const char *key, uint32_t value, err_t *err)
{
    char digits[16];
    if (value == 0)
        return STATUS_OK;
    snprintf(digits, sizeof digits, "%u", value);
    return image_pipeline_set(pipeline, key, digits, err);
}

static status_t set_text(image_pipeline_t *pipeline, const char *key, const char *value, err_t *err)
{
    return value && value[0] ? image_pipeline_set(pipeline, key, value, err) : STATUS_OK;
}

static status_t set_doubles(image_pipeline_t *pipeline, const char *key, const double *values, size_t count,
                            err_t *err)
{
    char numbers[128] = "";
    if (count == 0)
        return STATUS_OK;
    if (count > 3)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%s: %zu numbers, one or three are possible", key,
                       count);
    for (size_t i = 0; i < count; i++)
        snprintf(numbers + strlen(numbers), sizeof numbers - strlen(numbers), "%s%.17g", i ? "," : "",
                 values[i]);
    return image_pipeline_set(pipeline, key, numbers, err);
}

static status_t set_texts(image_pipeline_t *pipeline, const message_t *message, err_t *err)
{
    const struct {
        const char *key, *value;
    } texts[] = {
        {"preprocess.input", message->input},          {"preprocess.resize.mode", message->resize_mode},
        {"preprocess.resize.filter", message->filter}, {"preprocess.decode", message->color},
        {"preprocess.layout", message->layout},        {"preprocess.datatype", message->datatype}};
    status_t status = STATUS_OK;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && status == STATUS_OK; i++)
        status = set_text(pipeline, texts[i].key, texts[i].value, err);
    return status;
}

static status_t set_numbers(image_pipeline_t *pipeline, const message_t *message, err_t *err)
{
    const struct {
        const char *key;
        uint32_t value;
    } wholes[] = {{"preprocess.resize.width", message->resize_width},
                  {"preprocess.resize.height", message->resize_height},
                  {"preprocess.crop.width", message->crop_width},
                  {"preprocess.crop.height", message->crop_height},
                  {"preprocess.max_pixels", message->max_pixels}};
    status_t status = STATUS_OK;
    for (size_t i = 0; i < sizeof wholes / sizeof wholes[0] && status == STATUS_OK; i++)
        status = set_uint(pipeline, wholes[i].key, wholes[i].value, err);
    if (status == STATUS_OK && message->scale != 0.0) /* 0 = not set: it would make every pixel the same */
        status = set_doubles(pipeline, "preprocess.scale", &message->scale, 1, err);
    if (status == STATUS_OK)
        status = set_doubles(pipeline, "preprocess.mean", message->mean, message->n_mean, err);
    if (status == STATUS_OK)
        status = set_doubles(pipeline, "preprocess.std", message->std, message->n_std, err);
    return status;
}

status_t image_pipeline_from_wire(image_pipeline_t *pipeline, const message_t *message,
                                  const char *softmax_output, err_t *err)
{
    image_pipeline_t parsed;
    status_t status = STATUS_OK;
    image_pipeline_init(&parsed);
    if (message) {
        status = set_texts(&parsed, message, err);
        if (status == STATUS_OK)
            status = set_numbers(&parsed, message, err);
        parsed.invert = message->invert;
    }
    if (status == STATUS_OK)
        status = set_text(&parsed, "postprocess.softmax", softmax_output, err);
    if (status == STATUS_OK)
        status = image_pipeline_check(&parsed, err);
    if (status == STATUS_OK)
        *pipeline = parsed;
    return status;
}
