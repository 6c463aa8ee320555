/*
 * Whether rows of a batch hang on one another, as far as operators tell that libs/graph does not read: a branch is taken, and a scale
 * chosen, for all of them at once.
 */
#ifndef ENGINE_ONNXRUNTIME_ROWS_H
#define ENGINE_ONNXRUNTIME_ROWS_H

#include "engine/engine.h"

/* Names the node in `alone`, which stays "" when there is none, or the file is not read. */
void rows_check(const engine_load_t *what, char alone[ENGINE_REASON_BYTES]);

#endif
