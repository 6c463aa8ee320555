/*
 * Execution providers: the parts of onnxruntime that run nodes on other devices. They are tried in the order of a list of names
 * with commas, "tensorrt,cuda"; what none of them takes the CPU does, which is always last.
 */
#ifndef ENGINE_ONNXRUNTIME_PROVIDERS_H
#define ENGINE_ONNXRUNTIME_PROVIDERS_H

#include "engine/onnxruntime/library.h"

#include <stdint.h>

/* INVALID_ARGUMENT names one that nobody knows, that comes twice, or a CPU that is not last; UNAVAILABLE one that this library
 * was not built with, and those that it has. NULL and "" are fine. */
status_t providers_check(const char *list, err_t *err);

/* device: which GPU. */
status_t providers_append(OrtSessionOptions *options, const char *list, uint32_t device, err_t *err);

#endif
