/*
 * The image pipeline as the control protocol carries it (ModelReport.image and .softmax_output).
 */
#ifndef IMAGE_PIPELINE_WIRE_H
#define IMAGE_PIPELINE_WIRE_H

#include "control.pb-c.h"
#include "image/pipeline.h"

/* The message and what it points to; it borrows from the pipeline, and must not be moved once filled. */
typedef struct {
    Control__ImagePipeline message;
    double mean[3], std[3];
} image_pipeline_wire_t;

void image_pipeline_to_wire(const image_pipeline_t *pipeline, image_pipeline_wire_t *wire);

/* message may be NULL (no preprocessing), softmax_output may be NULL or "". Checks; INVALID_ARGUMENT names
 * the key. */
status_t image_pipeline_from_wire(image_pipeline_t *pipeline, const Control__ImagePipeline *message,
                                  const char *softmax_output, err_t *err);

#endif
