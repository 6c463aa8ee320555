/* A model as onnxruntime has it. */
#ifndef ENGINE_ONNXRUNTIME_SESSION_H
#define ENGINE_ONNXRUNTIME_SESSION_H

#include "engine/engine.h"
#include "engine/onnxruntime/library.h"

/* What computes: how many threads, of which the first is that which calls run and those beyond it wait asleep; and where else. */
typedef struct {
    uint32_t threads;
    const int *cpus; /* of the others, when they are pinned: as in engine_config_t */
    uint32_t cpu_count;
    const char *providers; /* of models that name none; NULL: the CPU */
    uint32_t device;       /* which GPU, for those that use one */
} session_threads_t;

/* From the bytes of `what`, whose path says where external data lies then, or from the file; UNSUPPORTED when onnxruntime lacks something for it. open_batch: leading dimensions of 1 become open ones, for a batch. */
status_t session_create(const engine_load_t *what, const session_threads_t *threads, bool open_batch,
                        OrtSession **session, err_t *err);

/* Whether strings go in or come out. */
status_t session_has_text(const OrtSession *session, bool *text, err_t *err);

/* Whether the memory of an output can be ours: a tensor, of what has a fixed size. */
status_t session_output_binds(const OrtSession *session, uint32_t output, bool *binds, err_t *err);

#endif
