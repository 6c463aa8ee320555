/*
 * Which of several engines a model runs on (engine_choice_t): each that takes it is held against the first one's outputs on
 * random inputs and measured at batches of 1, 4 and the largest; the fastest serves. Where one is faster with small batches and
 * another with large ones, by more than two measurements differ, and there is memory for both, two serve. What was found once of the
 * same files on this machine is kept with the profile.
 */
#ifndef MODEL_CHOOSE_ENGINE_H
#define MODEL_CHOOSE_ENGINE_H

#include "model/model.h"

/* What tells two engines' floats apart: |a - b| above this part of |b| plus this part of the largest |b| of the output. Integers
 * and truths are equal. */
#define ENGINE_AGREEMENT 1e-3

/* Behind model_place and before the profile: the model is on its engine on every device, alone and prepared, and
 * model->engines says what was found. OK where there is no choice, and where a trial has measured already (model->fastest):
 * then it is loaded on that engine, and what was found there is told. Blocks; runs in gaps as measuring does. */
status_t model_choose_engine(model_t *model, const model_load_options_t *options, err_t *err);

/* Who hears of the engines behind the one that the model was placed on. Called on the thread that compares; NULL: not called. */
typedef struct {
    void (*begins)(void *arg, const char *engine); /* before it loads the model */
    /* It has, its batch sizes are prepared, and nothing was run on it. Another status than OK leaves it out for the reason in err. */
    status_t (*loaded)(void *arg, const char *engine, err_t *err);
    /* This is the fastest so far, and others are still to come. */
    void (*leads)(void *arg, const char *engine);
    void *arg;
} choice_watch_t;

/*
 * The measuring alone: the model, placed on one of several engines, is tried on the others; model->engines says what was found, and
 * `fastest` which of them it should run on. It is left on these, which need not be prepared. Two of them have it at a time. Errors: that
 * of the first when it runs on none; CANCELLED.
 */
status_t model_compare_engines(model_t *model, const model_load_options_t *options,
                               const choice_watch_t *watch, char fastest[MODEL_ENGINE_NAME_BYTES],
                               err_t *err);

/* model_prepare and memory_take; of two engines one is left again where there is no memory for both, or too little for others then. */
status_t model_prepare_engines(model_t *model, const model_load_options_t *options, err_t *err);

#endif
