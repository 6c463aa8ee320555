/* One model, loaded as a worker would, on each engine that it would try, to see what that takes. */
#ifndef LOADER_LOAD_H
#define LOADER_LOAD_H

#include "model/trial/wire.h"

/* The worker. */
typedef struct {
    void (*tell)(void *arg, trial_answer_t *answer);
    /* Until it has done what it does of a TRIAL_PASSED. */
    void (*wait)(void *arg);
    void *arg;
} load_listener_t;

/* Reads the model's files, all of them, as far as they are part of the model: INVALID_ARGUMENT names one that is not regular. */
status_t load_files(const model_t *model, char hash[PROFILE_CACHE_TEXT_BYTES], err_t *err);

/* The devices that the request asks for: one, and of its engines those that are here. Not with graph_only. */
status_t load_open(const trial_request_t *request, const trial_go_t *go, model_devices_t *devices,
                   metrics_t **metrics, err_t *err);

/*
 * Loads, prepares, runs 1 and the largest batch, and unloads, on each engine; `listener` hears of each before, and of the first that passes
 * when others are to come. If it is to choose (trial_go_t), and the first takes so little that two of them find room, they are measured as well, and it
 * hears of each that is the fastest so far. Fills answer for TRIAL_DONE.
 */
void load_try(const trial_request_t *request, const trial_go_t *go, model_t *model, model_devices_t *devices,
              const load_listener_t *listener, trial_answer_t *answer);

/* The file and what it says of its graph. */
void load_graph(const model_t *model, trial_answer_t *answer);

#endif
