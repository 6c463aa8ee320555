/* What config.yaml, options, metrics and logs call modes and refusals. */
#include "model/modes/mode.h"

#include <stddef.h>

const char *const model_mode_names[MODES + 1] = {"whole", "staged", "overlap", "preempt", NULL};

const char *const mode_refusal_names[MODE_REFUSALS] = {"granted", "engine",    "uncuttable",
                                                       "memory",  "predictor", "device"};
