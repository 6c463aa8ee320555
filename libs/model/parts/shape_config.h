/*
 * What config.yaml says about dimensions beside the batch that vary: their bounds, to what lengths inputs are
 * padded, and at which sizes the model is measured (docs/model-repository.md).
 *
 *   dims: {sequence: {max: 512, pad_to: [32, 128, 512]}}
 *   pad_value: {input_ids: 0}
 *   profile_shapes: [{sequence: 32}, {sequence: 512}]
 */
#ifndef MODEL_SHAPE_CONFIG_H
#define MODEL_SHAPE_CONFIG_H

#include "base/status.h"

#include <stdint.h>

enum {
    AXES_MAX = 16, /* varying dimensions of one model; exports have one to four */
    AXIS_NAME_BYTES = 128,
    /* Unless `max` says less: longer sequences and larger pictures do not fit a task. */
    AXIS_SIZE_MAX = 1 << 20,
    PAD_SIZES_MAX = 32,
    PAD_VALUES_MAX = 64,
    REFERENCES_MAX = 8, /* as profile/family.h has it */
};

typedef struct {
    char name[AXIS_NAME_BYTES];
    uint32_t size_max; /* of pad_to the last */
    uint32_t pad_to[PAD_SIZES_MAX], pad_to_count;
} dim_config_t;

typedef struct {
    char input[AXIS_NAME_BYTES];
    double value;
} pad_value_t;

typedef struct {
    char axis[AXIS_NAME_BYTES];
    uint32_t size;
} axis_size_t;

typedef struct {
    axis_size_t sizes[AXES_MAX];
    uint32_t count;
} reference_config_t;

typedef struct {
    dim_config_t dims[AXES_MAX];
    uint32_t dim_count;
    pad_value_t pad_values[PAD_VALUES_MAX];
    uint32_t pad_value_count;
    reference_config_t references[REFERENCES_MAX];
    uint32_t reference_count;
} shape_config_t;

struct ydoc_node;

/* From the root of config.yaml; what is not there stays zero. */
status_t shape_config_read(const struct ydoc_node *root, shape_config_t *config, err_t *err);

#endif
