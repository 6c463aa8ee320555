/*
 * A model is loaded in a process of its own first (`fermata-loader`, services/loader), which limits itself: what a file makes of an engine (it
 * crashes, hangs, takes all memory, opens sockets) costs that process and becomes one error of that model.
 *
 *   model ──▶ files checked and hashed, in the loader ──▶ tried before (a kept profile says so)? ──▶ loaded here
 *                                                     └─▶ loaded there on each engine, one run of 1 and of the largest batch ──▶ loaded here
 *
 * Of several engines the fastest is found there, too, and while others are still to be tried the fastest so far is loaded here:
 *
 *   loader   onnxruntime, measured │ openvino   │ measured: faster │ onednn     │ measured: no    │
 *   here                           │ onnxruntime│                  │ openvino   │                 │ ready
 *
 * Both then have the memory that is left between them, and what is loaded here is taken from what the loader may. Nothing is loaded here while
 * there is measured. Where others are measured beside it on the same CPUs, or batches of others run for more than a tenth of the time, or the model's mode asks more of an engine than to be fast, or two engines do not find
 * room at once, each is tried alone there, the first that passed is loaded here meanwhile, and the choice is made here
 * (measure/choose_engine.h).
 *
 * Threads: any number may try models; what is not known is loaded by one loader at a time, so that each has all that is left.
 */
#ifndef MODEL_TRIAL_TRIAL_H
#define MODEL_TRIAL_TRIAL_H

#include "model/model.h"

typedef struct {
    const char *program; /* fermata-loader; valid until destroyed */
    int64_t timeout_ns;  /* of one model, from when its loader starts, without the wait for others */
    /* Threads, providers and memory_limit_bytes of what the devices were opened with. */
    engine_config_t engine;
} trials_options_t;

/* fermata-loader beside this program, or what is named; "none": *program is NULL, and nothing is tried. NOT_FOUND: there is none. */
enum { TRIALS_PROGRAM_BYTES = PATH_MAX };
status_t trials_program(const char *named, char path[TRIALS_PROGRAM_BYTES], const char **program, err_t *err);

status_t trials_create(const trials_options_t *options, trials_t **trials, err_t *err);
/* No trial may be under way. NULL is fine. */
void trials_destroy(trials_t *trials);

/* Called with the first engine that passed, and with each that is the fastest so far, while others are tried; hash, without and loading_bytes are then those of what was
 * tried so far. What it does takes no time of the loader's. */
typedef struct {
    void (*passed)(void *arg, const char *engine);
    void *arg;
} trial_early_t;

/*
 * Sets hash, loading_bytes and without of the model, which is not loaded, and, of one that was measured, fastest and engines. What has stood its trial
 * since `trials` was created, or as a kept profile says, is not tried again. What it says of a model that is refused names the cause: NO_MEMORY,
 * with the sizes; DEADLINE_EXCEEDED; INVALID_ARGUMENT (a file that is none, a call that is not allowed); INTERNAL (it crashed);
 * CANCELLED when *options->stop was set, within a tenth of a second of that and of `early`. early: NULL is nobody. A model that its engines refuse in order is OK here: who loads it is told why.
 */
status_t trial_of(trials_t *trials, model_t *model, const model_load_options_t *options,
                  const trial_early_t *early, err_t *err);

#endif
