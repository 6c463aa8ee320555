/*
 * Whether a network compiled for certain shapes is worth its memory beside one compiled for all: both run in turns, on zeros.
 */
#ifndef ENGINE_OPENVINO_TRIAL_H
#define ENGINE_OPENVINO_TRIAL_H

#include "engine/openvino/compiled.h"

/* On `threads` threads. Takes a tenth of a second, or six runs of each where they are long. Fails where one of them does not run. */
status_t trial_is_worth(compiled_t *own, compiled_t *open, uint32_t threads, const engine_model_info_t *info,
                        const tensor_t *inputs, bool *worth, err_t *err);

#endif
