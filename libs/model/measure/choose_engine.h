/*
 * Which of several engines a model runs on (engine_choice_t): each that takes it is held against the first one's outputs on
 * random inputs and measured at batches of 1, 4 and the largest; the fastest serves. What was found once of the same files on
 * this machine is kept with the profile.
 */
#ifndef MODEL_CHOOSE_ENGINE_H
#define MODEL_CHOOSE_ENGINE_H

#include "model/model.h"

/* What tells two engines' floats apart: |a - b| above this part of |b| plus this part of the largest |b| of the output. Integers
 * and truths are equal. */
#define ENGINE_AGREEMENT 1e-3

/* Behind model_place and before the profile: the model is on its engine on every device, alone and prepared, and
 * model->engines says what was found. OK where there is no choice. Blocks; runs in gaps as measuring does. */
status_t model_choose_engine(model_t *model, const model_load_options_t *options, err_t *err);

#endif
