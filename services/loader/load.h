/* One model, loaded as a worker would, on each engine that it would try, to see what that takes. */
#ifndef LOADER_LOAD_H
#define LOADER_LOAD_H

#include "model/trial/wire.h"

typedef void (*load_tell_fn)(void *arg, trial_answer_t *answer);

/* Reads the model's files, all of them, as far as they are part of the model: INVALID_ARGUMENT names one that is not regular. */
status_t load_files(const model_t *model, char hash[PROFILE_CACHE_TEXT_BYTES], err_t *err);

/* The devices that the request asks for: one, and of its engines those that are here. Not with graph_only. */
status_t load_open(const trial_request_t *request, const trial_go_t *go, model_devices_t *devices,
                   metrics_t **metrics, err_t *err);

/* Loads, prepares, runs 1 and the largest batch, and unloads, on each engine; `tell` hears of each before, and of the first that
 * passes when others are to come. Fills answer for TRIAL_DONE. */
void load_try(const trial_request_t *request, model_t *model, model_devices_t *devices, load_tell_fn tell,
              void *arg, trial_answer_t *answer);

/* The file and what it says of its graph. */
void load_graph(const model_t *model, trial_answer_t *answer);

#endif
