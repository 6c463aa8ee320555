/* Where a model can be cut, as the engine that it is on says. */
#include "model/model.h"

status_t model_cuts(const model_t *model, const engine_ops_t *ops, uint32_t device, const uint32_t *sizes,
                    engine_cuts_t *cuts, err_t *err)
{
    engine_shape_t inputs[ENGINE_MAX_IO];

    if (sizes && ops->prepare_shapes) {
        axes_input_shapes(&model->shapes->axes, sizes, 1, inputs);
        status_t status = ops->prepare_shapes(model->on_device[device], 1, inputs, err);
        if (status != STATUS_OK)
            return status == STATUS_NO_MEMORY ? status : STATUS_UNSUPPORTED;
    }
    return ops->cuts(model->on_device[device], cuts, err);
}
