/*
 * Input: one byte for the pipeline, then any bytes as a picture. Whatever is refused must say why.
 */
#include "image/pipeline.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum { SIDE = 8 };

/* Small pictures, so that an input is a matter of microseconds. */
static const image_limits_t limits = {.max_side = 256, .max_pixels = 1 << 14, .max_file_bytes = 1 << 16};

static image_pipeline_t make_pipeline(uint8_t choice)
{
    image_pipeline_t pipeline;
    image_pipeline_init(&pipeline);
    strcpy(pipeline.input, "x");
    pipeline.decode = (image_mode_t)(choice % 3);
    pipeline.resize_mode = choice & 4 ? IMAGE_SHORTER_SIDE : IMAGE_STRETCH;
    pipeline.filter = (image_filter_t)(choice >> 3 & 3);
    pipeline.layout = choice & 32 ? IMAGE_NHWC : IMAGE_NCHW;
    pipeline.datatype = choice & 64 ? IMAGE_UINT8 : IMAGE_FP32;
    pipeline.invert = choice & 128;
    pipeline.resize_width = pipeline.resize_height = SIDE;
    return pipeline;
}

static void must_say_why(status_t status, const err_t *err)
{
    if (status != STATUS_OK && !*err->text)
        abort();
}

/* What is decoded is of the size that the header told, every byte of it. */
static void decode(const uint8_t *bytes, size_t len, image_mode_t mode)
{
    image_info_t info;
    image_t image;
    err_t err = {.text = ""};
    image_init(&image);
    status_t probed = image_probe(bytes, len, &limits, &info, &err);
    must_say_why(probed, &err);
    status_t status = image_decode(bytes, len, mode, &limits, NULL, &image, &err);
    must_say_why(status, &err);
    if (status == STATUS_OK &&
        (probed != STATUS_OK || image.width != info.width || image.height != info.height))
        abort();
    volatile uint8_t sum = 0;
    for (size_t i = 0; status == STATUS_OK && i < (size_t)image.width * image.height * image.channels; i++)
        sum = (uint8_t)(sum + image.pixels[i]);
    image_dispose(&image);
}

static void run(const uint8_t *bytes, size_t len, const image_pipeline_t *pipeline)
{
    image_workspace_t *workspace = image_workspace_create();
    size_t element = pipeline->datatype == IMAGE_UINT8 ? 1 : sizeof(float);
    size_t tensor_bytes = element * SIDE * SIDE * image_pipeline_channels(pipeline);
    void *tensor = malloc(tensor_bytes);
    err_t err = {.text = ""};
    if (!workspace || !tensor)
        abort();
    const image_task_t task = {
        .picture = bytes, .picture_bytes = len, .dst = tensor, .dst_bytes = tensor_bytes};
    must_say_why(image_pipeline_run(pipeline, &limits, workspace, &task, &err), &err);
    free(tensor);
    image_workspace_destroy(workspace);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (len < 1)
        return 0;
    image_pipeline_t pipeline = make_pipeline(bytes[0]);
    uint8_t *picture = malloc(len); /* its own block, so that overruns are seen; never of no bytes */
    memcpy(picture, bytes + 1, len - 1);
    decode(picture, len - 1, pipeline.decode);
    run(picture, len - 1, &pipeline);
    free(picture);
    return 0;
}
