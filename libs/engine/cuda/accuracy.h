/*
 * What a precision costs: the model's outputs on seeded input against the same model in float32 with TF32
 * off, on the same device.
 */
#ifndef ENGINE_CUDA_ACCURACY_H
#define ENGINE_CUDA_ACCURACY_H

#include "engine/cuda/model.h"

typedef struct {
    double max_relative; /* largest |y - ref| / largest |ref| of that output, over all outputs */
    double rms_relative; /* ‖y - ref‖ / ‖ref‖, the worst output's */
} accuracy_t;

/* Of one batch row. Needs the memory of both at once: NO_MEMORY says that it was not measured. */
status_t accuracy_measure(engine_model_t *model, accuracy_t *accuracy, err_t *err);

#endif
