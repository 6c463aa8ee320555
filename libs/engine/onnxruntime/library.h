/* The library onnxruntime: its table of functions, its one environment, its errors. */
#ifndef ENGINE_ONNXRUNTIME_LIBRARY_H
#define ENGINE_ONNXRUNTIME_LIBRARY_H

#include "base/status.h"

#include <onnxruntime_c_api.h>

/* What this is written for; any later library serves it. */
enum { ORT_API_USED = 21 };

extern const OrtApi *ort; /* NULL before library_open */

/* Finds the functions and makes the environment, once in a process; any thread. */
status_t library_open(err_t *err);
OrtEnv *library_env(void);

/* OK for NULL; else the message, behind `about` and a colon, and the status that its code stands for. Releases it. */
status_t library_check(OrtStatus *failed, const char *about, err_t *err);

#endif
