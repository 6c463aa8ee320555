/*
 * The execution mode of a model (docs/modes/README.md): which one was asked for, in which one it runs, and why not that one.
 *
 * A mode that a model, its engine or its device cannot have is no failure: the model runs `whole`, a metric
 * counts it, and log and model state say why, once.
 */
#ifndef MODEL_MODE_H
#define MODEL_MODE_H

#include "model/measure/profiler.h"
#include "model/modes/segments.h"
#include "model/modes/stages.h"

#include <stdint.h>

enum { MODE_TEXT_BYTES = 160 };

typedef enum { MODE_WHOLE, MODE_STAGED, MODE_OVERLAP, MODE_PREEMPT, MODES } model_mode_t;

/* By model_mode_t, then NULL: what config.yaml and --mode take, and what is reported. */
extern const char *const model_mode_names[MODES + 1];

/* Why a mode was not to be had; one word each, the label of a metric. */
typedef enum {
    MODE_GRANTED,
    MODE_NO_ENGINE,    /* the engine cannot stop or cut */
    MODE_UNCUTTABLE,   /* the model has no border inside */
    MODE_NO_MEMORY,    /* its buffers do not fit */
    MODE_NO_PREDICTOR, /* overlap: there is none, or it is of another device or other models */
    MODE_NO_DEVICE,    /* the devices were opened before any model asked for it */
    MODE_REFUSALS,
} mode_refusal_t;

extern const char *const mode_refusal_names[MODE_REFUSALS];

typedef struct {
    model_mode_t asked, mode;
    mode_refusal_t refusal;
    char why[MODE_TEXT_BYTES]; /* of a refusal */
    uint32_t *exits; /* preempt: cuts at which a batch can stop; owned. NULL: the engine stops it anywhere */
    uint32_t exit_points;       /* how many, or as many as the scheduler shall reckon with */
    model_stages_t *stages;     /* staged; owned */
    model_segments_t *segments; /* overlap; owned */
} mode_choice_t;

typedef struct model model_t;
typedef struct model_load_options model_load_options_t;

/* Whether batches of this shape (NULL: the model has no shapes) run in the mode of the model, and not whole. */
bool mode_suits(const model_t *model, const uint32_t *sizes);

/* Finds out whether the loaded model can run in the mode that its config, or else the worker, asks for,
 * and what that takes. Blocks: operators are measured. Fails only when stopped, or when the
 * engine does. */
status_t mode_choose(model_t *model, const model_load_options_t *options, err_t *err);
void mode_dispose(mode_choice_t *choice);

#endif
