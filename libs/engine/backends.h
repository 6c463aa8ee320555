/* The built-in backends, one line each; engine.c lists them. */
#ifndef ENGINE_BACKENDS_H
#define ENGINE_BACKENDS_H

#include "engine/engine.h"

extern const engine_ops_t engine_auto, engine_emulated, engine_onednn, engine_reference;

#endif
