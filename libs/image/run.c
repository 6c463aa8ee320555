/*
 * The pipeline at work: one picture into one row of a tensor. Nothing is allocated once the workspace has grown to the
 * largest of usual pictures that came.
 */
#include "image/pipeline.h"

#include <stdlib.h>
#include <string.h>

struct image_workspace {
    image_t decoded, resized;
    image_resizer_t resizer;
};

image_workspace_t *image_workspace_create(void)
{
    image_workspace_t *workspace = malloc(sizeof *workspace);
    if (!workspace)
        return NULL;
    image_init(&workspace->decoded);
    image_init(&workspace->resized);
    image_resizer_init(&workspace->resizer);
    return workspace;
}

void image_workspace_destroy(image_workspace_t *workspace)
{
    if (!workspace)
        return;
    image_dispose(&workspace->decoded);
    image_dispose(&workspace->resized);
    image_resizer_dispose(&workspace->resizer);
    free(workspace);
}

/* Of each buffer. What a larger one took goes: it would stay for each thread, and next to decoding so much allocating it is little. */
enum { KEPT_BYTES = 4 << 20 };

static void keep_little(image_t *image)
{
    if (image->cap_bytes > KEPT_BYTES)
        image_dispose(image);
}

/* The smallest size of the picture's aspect that covers the box; the longer side is cut down to whole pixels. */
static void cover(uint32_t picture_width, uint32_t picture_height, uint32_t *width, uint32_t *height)
{
    uint64_t by_width = (uint64_t)*width * picture_height, by_height = (uint64_t)*height * picture_width;
    if (by_width >= by_height)
        *height = (uint32_t)(by_width / picture_width);
    else
        *width = (uint32_t)(by_height / picture_height);
}

/* What a picture of that size is resized to: itself, where it is not. */
static status_t find_resized(const image_pipeline_t *pipeline, const image_limits_t *limits, uint32_t *width,
                             uint32_t *height, err_t *err)
{
    uint32_t to_width = pipeline->resize_width, to_height = pipeline->resize_height;
    if (!to_width)
        return STATUS_OK;
    if (pipeline->resize_mode == IMAGE_SHORTER_SIDE)
        cover(*width, *height, &to_width, &to_height);
    if ((uint64_t)to_width * to_height > limits->max_pixels)
        return err_set(err, STATUS_TOO_LARGE,
                       "the picture would be resized to %u x %u pixels, over the limit of %llu in all "
                       "(preprocess.max_pixels in the model's config.yaml)",
                       to_width, to_height, (unsigned long long)limits->max_pixels);
    *width = to_width;
    *height = to_height;
    return STATUS_OK;
}

static status_t resize(const image_pipeline_t *pipeline, const image_limits_t *limits,
                       image_workspace_t *workspace, const image_t **current, err_t *err)
{
    uint32_t width = workspace->decoded.width, height = workspace->decoded.height;
    status_t status = find_resized(pipeline, limits, &width, &height, err);
    if (status != STATUS_OK || (width == workspace->decoded.width && height == workspace->decoded.height))
        return status;
    status = image_resize(&workspace->resizer, &workspace->decoded, width, height, pipeline->filter,
                          &workspace->resized, err);
    if (status == STATUS_OK)
        *current = &workspace->resized;
    return status;
}

/* The part of the picture that becomes the tensor. */
typedef struct {
    const uint8_t *pixels; /* top left */
    uint32_t width, height, channels;
    size_t row_bytes;
} window_t;

/* Half pixels go down for odd differences that halve to even numbers, up otherwise, as Python's round does. */
static uint32_t half(uint32_t difference)
{
    uint32_t down = difference / 2;
    return difference % 2 && down % 2 ? down + 1 : down;
}

static status_t crop(const image_pipeline_t *pipeline, const image_t *picture, window_t *window, err_t *err)
{
    uint32_t width, height;
    if (!image_pipeline_size(pipeline, &width, &height)) {
        width = picture->width;
        height = picture->height;
    }
    if (width > picture->width || height > picture->height)
        return err_set(err, STATUS_INVALID_ARGUMENT, "the picture is %u x %u pixels, the crop wants %u x %u",
                       picture->width, picture->height, width, height);
    size_t row_bytes = (size_t)picture->width * picture->channels;
    *window = (window_t){.pixels = picture->pixels + half(picture->height - height) * row_bytes +
                                   (size_t)half(picture->width - width) * picture->channels,
                         .width = width,
                         .height = height,
                         .channels = picture->channels,
                         .row_bytes = row_bytes};
    return STATUS_OK;
}

/* Where channel c of the pixel at x, y goes: one of the two layouts. */
typedef struct {
    size_t pixel, channel, row; /* strides in elements */
} strides_t;

static strides_t strides_of(const image_pipeline_t *pipeline, const window_t *window)
{
    if (pipeline->layout == IMAGE_NHWC)
        return (strides_t){
            .pixel = window->channels, .channel = 1, .row = (size_t)window->width * window->channels};
    return (strides_t){.pixel = 1, .channel = (size_t)window->width * window->height, .row = window->width};
}

static void store_bytes(const image_pipeline_t *pipeline, const window_t *window, uint8_t *out)
{
    strides_t strides = strides_of(pipeline, window);
    uint8_t flip = pipeline->invert ? 0xff : 0;
    for (uint32_t y = 0; y < window->height; y++)
        for (uint32_t c = 0; c < window->channels; c++) {
            const uint8_t *in = window->pixels + y * window->row_bytes + c;
            uint8_t *to = out + y * strides.row + c * strides.channel;
            for (uint32_t x = 0; x < window->width; x++)
                to[x * strides.pixel] = in[(size_t)x * window->channels] ^ flip;
        }
}

/* A byte has 256 values: the arithmetic is done once for each, in double. */
static void fill_table(const image_pipeline_t *pipeline, uint32_t channel, float table[256])
{
    for (int i = 0; i < 256; i++) {
        double value = pipeline->invert ? 255 - i : i;
        value = value * (double)pipeline->scale - (double)pipeline->mean[channel];
        table[i] = (float)(value / (double)pipeline->std[channel]);
    }
}

static void store_floats(const image_pipeline_t *pipeline, const window_t *window, float *out)
{
    strides_t strides = strides_of(pipeline, window);
    float table[256];
    for (uint32_t c = 0; c < window->channels; c++) {
        fill_table(pipeline, c, table);
        for (uint32_t y = 0; y < window->height; y++) {
            const uint8_t *in = window->pixels + y * window->row_bytes + c;
            float *to = out + y * strides.row + c * strides.channel;
            for (uint32_t x = 0; x < window->width; x++)
                to[x * strides.pixel] = table[in[(size_t)x * window->channels]];
        }
    }
}

static status_t check_size(const image_pipeline_t *pipeline, uint32_t width, uint32_t height,
                           size_t dst_bytes, err_t *err)
{
    size_t element_bytes = pipeline->datatype == IMAGE_FP32 ? sizeof(float) : 1;
    size_t wanted = (size_t)width * height * image_pipeline_channels(pipeline) * element_bytes;
    if (wanted != dst_bytes)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "the picture of %u x %u pixels gives %zu bytes, the model's input has %zu", width,
                       height, wanted, dst_bytes);
    return STATUS_OK;
}

static void store(const image_pipeline_t *pipeline, const window_t *window, void *dst)
{
    if (pipeline->datatype == IMAGE_FP32)
        store_floats(pipeline, window, dst);
    else
        store_bytes(pipeline, window, dst);
}

status_t image_pipeline_probe(const image_pipeline_t *pipeline, const image_limits_t *limits,
                              const image_task_t *task, uint64_t *work, err_t *err)
{
    image_info_t info;
    uint32_t width, height;
    status_t status = image_probe(task->picture, task->picture_bytes, limits, &info, err);
    if (status != STATUS_OK)
        return status;
    uint32_t resized_width = info.width, resized_height = info.height;
    if (!image_pipeline_size(pipeline, &width, &height)) /* then it must have the size already */
        status = check_size(pipeline, info.width, info.height, task->dst_bytes, err);
    if (status == STATUS_OK)
        status = find_resized(pipeline, limits, &resized_width, &resized_height, err);
    if (status == STATUS_OK)
        *work = image_work(&info) + (uint64_t)resized_width * resized_height;
    return status;
}

static status_t run(const image_pipeline_t *pipeline, const image_limits_t *limits,
                    image_workspace_t *workspace, const image_task_t *task, err_t *err)
{
    const image_t *current = &workspace->decoded;
    window_t window;
    uint64_t work;
    status_t status = image_pipeline_probe(pipeline, limits, task, &work, err);
    if (status == STATUS_OK)
        status = image_decode(task->picture, task->picture_bytes, pipeline->decode, limits, task->unwanted,
                              &workspace->decoded, err);
    if (status == STATUS_OK)
        status = resize(pipeline, limits, workspace, &current, err);
    if (status == STATUS_OK)
        status = crop(pipeline, current, &window, err);
    if (status == STATUS_OK)
        status = check_size(pipeline, window.width, window.height, task->dst_bytes, err);
    if (status == STATUS_OK)
        store(pipeline, &window, task->dst);
    return status;
}

status_t image_pipeline_run(const image_pipeline_t *pipeline, const image_limits_t *limits,
                            image_workspace_t *workspace, const image_task_t *task, err_t *err)
{
    status_t status = run(pipeline, limits, workspace, task, err);
    keep_little(&workspace->decoded);
    keep_little(&workspace->resized);
    return status;
}
