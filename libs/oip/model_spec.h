/*
 * What a model looks like to the protocol: the gateway builds one per catalogue entry, and everything that
 * validates, describes or answers reads it. Immutable once built, so any thread may read it.
 *
 * All pointers belong to whoever built the spec (one block, as a rule) and live as long as it does.
 */
#ifndef OIP_MODEL_SPEC_H
#define OIP_MODEL_SPEC_H

#include "oip/tensor.h"

/* Real classifiers have one input; the largest public models (speech, recommendation) stay below 64. */
enum { OIP_MAX_TENSORS = 64 };

/* Dimensions beside the batch that vary from request to request; exports of real models have one to four. */
enum { OIP_MAX_AXES = 16 };

/* Dimensions of one name are one axis: within a request they are of one size. */
typedef struct {
    const char *name;
    int64_t size_max;
    const uint32_t *pad_to; /* rising, the last is size_max; inputs are padded to the next of these */
    uint32_t pad_to_count;  /* 0: they are not padded */
} oip_axis_t;

typedef struct {
    const char *name;
    oip_datatype_t datatype;
    oip_shape_t dims; /* of one row, so without the batch dimension; -1 = any */
    /* of a dimension that is -1: 1 + its axis; 0 = (outputs) it follows from none */
    uint8_t axes[OIP_MAX_RANK];
    double pad_value;
    /* BYTES: the room that one element has at workers, filled up with zeros; 0: they take none */
    uint32_t text_bytes;
} oip_tensor_spec_t;

typedef struct {
    const char *name;
    const char *version;  /* "1" */
    const char *platform; /* "onnx_onednn" */
    uint32_t max_batch;   /* 0: the model cannot be batched; tensors then have exactly the dims of the spec */
    uint32_t input_count, output_count;
    const oip_tensor_spec_t *inputs, *outputs;
    uint32_t axis_count;
    const oip_axis_t *axes;
    int64_t slo_ns;            /* budget of a request that names none */
    const char *const *labels; /* of the classes, or NULL */
    uint32_t label_count;
    int32_t picture_input;  /* input that also accepts BYTES holding a JPEG or PNG picture; -1 = none */
    oip_shape_t picture;    /* what pictures are made into: dims of one row of that input, all known */
    int32_t softmax_output; /* output that the gateway turns into probabilities; -1 = none */
} oip_model_spec_t;

/* The size that inputs of this size are padded to: the same when they are not padded, -1 when it is out of range. */
int64_t oip_axis_padded(const oip_axis_t *axis, int64_t size);
/* Whether it is taken as it is. */
static inline bool oip_axis_takes(const oip_axis_t *axis, int64_t size)
{
    return size > 0 && oip_axis_padded(axis, size) == size;
}

/* The shape as metadata shows it: a leading -1 when the model is batched. */
oip_shape_t oip_model_spec_public_shape(const oip_model_spec_t *spec, const oip_tensor_spec_t *tensor);
/* Bytes of one element at workers; 0: BYTES that they do not take. */
size_t oip_tensor_spec_element_bytes(const oip_tensor_spec_t *tensor);
/* Bytes of so many elements of it at workers. False: it has no size there (a -1 dimension, such BYTES), or it is too large. */
bool oip_tensor_spec_bytes(const oip_tensor_spec_t *tensor, const oip_shape_t *shape, uint64_t *len_bytes);
/* The same of one row. */
bool oip_tensor_spec_row_bytes(const oip_tensor_spec_t *tensor, uint64_t *len_bytes);
/* Index of the tensor of that name, or -1. */
int32_t oip_model_spec_input(const oip_model_spec_t *spec, const char *name);
int32_t oip_model_spec_output(const oip_model_spec_t *spec, const char *name);
/* Checks what the rest relies on (counts, names, datatypes, dims in range); for specs that came over a wire.
 */
status_t oip_model_spec_check(const oip_model_spec_t *spec, err_t *err);

#endif
