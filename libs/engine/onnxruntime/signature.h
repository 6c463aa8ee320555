/*
 * What a model says of itself by its session, for graphs that libs/graph does not read: declared shapes, and a run of two rows
 * of zeros that shows whether its outputs grow with the batch.
 */
#ifndef ENGINE_ONNXRUNTIME_SIGNATURE_H
#define ENGINE_ONNXRUNTIME_SIGNATURE_H

#include "engine/compile/describe.h"
#include "engine/onnxruntime/library.h"

/* UNSUPPORTED names the input or output that is no dense tensor of numbers or strings, and no maps to numbers as values.h has them. */
status_t signature_read(description_t *d, OrtSession *session, const engine_load_t *what, err_t *err);

#endif
