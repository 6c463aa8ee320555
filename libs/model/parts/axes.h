/*
 * The axes of a model: its dimensions beside the batch that vary from request to request. Those of one name
 * are one axis; one without a name in the ONNX file is named after its input, as "x[1]", counting the batch
 * dimension.
 *
 * The size of each axis, in the order in which the inputs bring them, is all that tells the shapes of one
 * batch from those of another: gateways and scheduler send nothing else. An output dimension may follow an
 * axis or be known only when it was computed; its size travels back behind the row's outputs
 * (protos/control.proto).
 */
#ifndef MODEL_AXES_H
#define MODEL_AXES_H

#include "engine/engine.h"
#include "model/parts/shape_config.h"

typedef struct {
    char name[AXIS_NAME_BYTES];
    uint32_t size_max;
    uint32_t pad_to[PAD_SIZES_MAX], pad_to_count;
} axis_t;

typedef struct {
    const engine_model_info_t *info;
    axis_t list[AXES_MAX];
    uint32_t count; /* may be 0 where only outputs vary */
    /* 1 + axis of each dimension that varies, without the batch; 0 = none. */
    uint32_t of_input[ENGINE_MAX_IO][ENGINE_MAX_RANK], of_output[ENGINE_MAX_IO][ENGINE_MAX_RANK];
    double pad_value[ENGINE_MAX_IO];
    uint32_t open_outputs; /* output dimensions that vary, of all outputs */
} axes_t;

/* Whether anything but the batch varies. */
bool axes_present(const engine_model_info_t *info);

/* info must outlive the axes. What the config names and the model has not is INVALID_ARGUMENT; too many
 * axes, UNSUPPORTED. */
status_t axes_find(axes_t *axes, const engine_model_info_t *info, const shape_config_t *config, err_t *err);

/* -1: no such axis. */
int32_t axes_index(const axes_t *axes, const char *name);

/* NULL, or what is wrong with sizes that came from elsewhere. */
const char *axes_objection(const axes_t *axes, const uint32_t *sizes, size_t count);

/* No axis is larger than that of `most`. */
bool axes_within(const axes_t *axes, const uint32_t *sizes, const uint32_t *most);

/* Whether rows can be padded here: some axis has sizes to pad to, and each output dimension that varies is an axis, so
 * that what is padding can be cut off again. */
bool axes_can_pad(const axes_t *axes);
/* Whether a row of `sizes` can be padded to `wide`: nowhere larger, and alike along each axis that is not padded. */
bool axes_nest(const axes_t *axes, const uint32_t *sizes, const uint32_t *wide);

/* Bytes of one row of an input; UINT64_MAX when there is no such number. */
uint64_t axes_row_bytes(const axes_t *axes, uint32_t input, const uint32_t *sizes);
/* Elements of one row of all inputs: what latencies go by. */
uint64_t axes_elements(const axes_t *axes, const uint32_t *sizes);
/* The same as the length of a row (exec/exec.h): UINT32_MAX is the longest. */
uint32_t axes_length(const axes_t *axes, const uint32_t *sizes);
/* Fills shapes[input_count], batch dimension included. */
void axes_input_shapes(const axes_t *axes, const uint32_t *sizes, uint32_t batch, engine_shape_t *shapes);

/* Of one row of an output that came out in this shape; UINT64_MAX as above. */
uint64_t axes_output_row_bytes(const engine_model_info_t *info, uint32_t output, const engine_shape_t *shape);
/* Whether what came out is `batch` rows of what the model says: else gateways could not read it. */
bool axes_output_fits(const engine_model_info_t *info, uint32_t output, const engine_shape_t *shape,
                      uint32_t batch);
/* Writes the open_outputs sizes that go behind each row. */
void axes_output_sizes(const axes_t *axes, const engine_shape_t *shapes, uint32_t *sizes);

#endif
