/*
 * Values of onnxruntime and the worker's buffers. Numbers lie in both alike. Strings are laid out anew on the way in and out, each
 * in a room of its own (engine_tensor_t.text). A sequence of maps from a class to a number, which is how classifiers made by
 * scikit-learn give their probabilities, becomes a tensor: a row for each map, in the order of its keys.
 */
#ifndef ENGINE_ONNXRUNTIME_VALUES_H
#define ENGINE_ONNXRUNTIME_VALUES_H

#include "engine/engine.h"
#include "engine/onnxruntime/library.h"
#include "graph/ir/tensor.h"

/* A tensor that goes in or out, where its bytes lie; strings are copied. */
status_t value_bind(const tensor_t *tensor, bool text, OrtValue **value, err_t *err);

/* Of what came out. `made` is memory of its own that data points to, to be freed; NULL where data points into the value. */
typedef struct {
    tensor_t tensor;
    void *made;
} value_read_t;

/* text_bytes: room for each string, if there are any. UNSUPPORTED: neither numbers nor strings nor maps to numbers; TOO_LARGE: a
 * string that is longer. */
status_t value_read(const OrtValue *value, const char *name, size_t text_bytes, value_read_t *read,
                    err_t *err);

#endif
