/*
 * The image pipeline of a model, as its config.yaml declares it, and its run from an encoded picture
 * straight into tensor memory.
 *
 *   picture -> decode to 8-bit channels -> resize -> centre crop -> invert -> (x * scale - mean) / std -> layout
 *
 * The parsed form is plain data; pipeline_wire.h is what the control protocol carries of it.
 */
#ifndef IMAGE_PIPELINE_H
#define IMAGE_PIPELINE_H

#include "image/picture.h"
#include "image/resize.h"

enum { IMAGE_NAME_BYTES = 128 };

typedef enum { IMAGE_STRETCH, IMAGE_SHORTER_SIDE } image_resize_mode_t;
typedef enum { IMAGE_NCHW, IMAGE_NHWC } image_layout_t;
typedef enum { IMAGE_FP32, IMAGE_UINT8 } image_datatype_t;

typedef struct {
    char input[IMAGE_NAME_BYTES]; /* the input that takes pictures; "" = the model has no preprocessing */
    image_mode_t decode;
    uint32_t resize_width, resize_height; /* 0 = not resized */
    image_filter_t filter;
    image_resize_mode_t resize_mode;  /* shorter side: smallest size of the same aspect that covers the box */
    uint32_t crop_width, crop_height; /* 0 = not cropped, except that shorter_side crops to its box */
    float scale;
    float mean[3], std[3];
    image_layout_t layout;
    image_datatype_t datatype;      /* UINT8 takes no scale, mean and std */
    uint32_t max_pixels;            /* of a picture; 0: as its size says, see image_pipeline_limits */
    bool invert;                    /* 255 - x: dark ink on white paper for a model trained on the opposite */
    char softmax[IMAGE_NAME_BYTES]; /* the output to turn into probabilities; "" = none */
} image_pipeline_t;

/* The defaults: nothing declared, RGB, bilinear, stretch, scale 1, mean 0, std 1, NCHW, FP32. */
void image_pipeline_init(image_pipeline_t *pipeline);

/*
 * Sets one value from its configuration text. Keys: preprocess.{input, decode, resize.{width, height, filter,
 * mode}, crop.{width, height}, scale, mean, std, layout, datatype, invert, max_pixels}, postprocess.softmax. mean and std
 * take one or three numbers, as "[0.5, 0.5, 0.5]" or separated by commas or spaces. INVALID_ARGUMENT names
 * the key.
 */
status_t image_pipeline_set(image_pipeline_t *pipeline, const char *key, const char *value, err_t *err);
/* Checks that the whole makes sense, after the last set. */
status_t image_pipeline_check(const image_pipeline_t *pipeline, err_t *err);

bool image_pipeline_present(const image_pipeline_t *pipeline); /* there is preprocessing */

/* Size of the produced picture, or false when it is that of the source (neither resize nor crop). */
bool image_pipeline_size(const image_pipeline_t *pipeline, uint32_t *width, uint32_t *height);
uint32_t image_pipeline_channels(const image_pipeline_t *pipeline);

/* Whether both make the same tensor of the same picture, for the same input. */
bool image_pipeline_alike(const image_pipeline_t *a, const image_pipeline_t *b);

/*
 * What a picture for it may take: max_pixels or, where that is 0, 256 times the pixels of what it is resized to (of the crop, where it is
 * not resized), from 16 to 64 megapixels.
 */
void image_pipeline_limits(const image_pipeline_t *pipeline, image_limits_t *limits);

/* Working memory of one thread, reused from picture to picture; grows up to what the limits allow, and keeps some MiB at most. */
typedef struct image_workspace image_workspace_t;
image_workspace_t *image_workspace_create(void);
void image_workspace_destroy(image_workspace_t *workspace);

/* An encoded picture for one row of a tensor. */
typedef struct {
    const void *picture;
    size_t picture_bytes;
    void *dst; /* receives exactly dst_bytes: channels x height x width elements */
    size_t dst_bytes;
    const atomic_bool *unwanted; /* set by another thread: give up. NULL: it is wanted */
} image_task_t;

/*
 * Reads the header: what the run will take, in pixels gone over. INVALID_ARGUMENT: no such picture, or one that gives another size than
 * dst_bytes; TOO_LARGE: over the limits. Takes no longer than reading the file once.
 */
status_t image_pipeline_probe(const image_pipeline_t *pipeline, const image_limits_t *limits,
                              const image_task_t *task, uint64_t *work, err_t *err);

/* Runs the pipeline, after the same checks. CANCELLED when it was given up. Any thread, one workspace each. */
status_t image_pipeline_run(const image_pipeline_t *pipeline, const image_limits_t *limits,
                            image_workspace_t *workspace, const image_task_t *task, err_t *err);

#endif
