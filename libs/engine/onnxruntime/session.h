/* A model as onnxruntime has it, and how it is run: buffers in, buffers out, nothing copied but outputs whose size it decides. */
#ifndef ENGINE_ONNXRUNTIME_SESSION_H
#define ENGINE_ONNXRUNTIME_SESSION_H

#include "engine/engine.h"
#include "engine/onnxruntime/library.h"
#include "graph/ir/tensor.h"

/* How many threads compute; the first is that which calls run. Those beyond it wait asleep. */
typedef struct {
    uint32_t threads;
    const int *cpus; /* of the others, when they are pinned: as in engine_config_t */
    uint32_t cpu_count;
} session_threads_t;

/* From the file, or the bytes, of `what`; UNSUPPORTED when onnxruntime lacks something for it. open_batch: leading dimensions of 1 become open ones, for a batch. */
status_t session_create(const engine_load_t *what, const session_threads_t *threads, bool open_batch,
                        OrtSession **session, err_t *err);

/* A tensor that goes in or out. data NULL of an output: onnxruntime makes it. */
status_t session_bind(const tensor_t *tensor, size_t len_bytes, OrtValue **value, err_t *err);

/* Type, shape and place of a value that came out. UNSUPPORTED: no dense tensor of numbers. */
status_t session_look(const OrtValue *value, const char *name, tensor_t *tensor, err_t *err);

#endif
