/* The devices that models run on: all of one kind, of one engine backend, in one process. */
#ifndef MODEL_DEVICES_H
#define MODEL_DEVICES_H

#include "engine/engine.h"
#include "metrics/metrics.h"

enum {
    MODEL_DEVICES_MAX = 4096, /* emulated ones in one process; a host has 16 real ones at most */
    MODEL_DEVICE_TEXT_BYTES = 128,
};

typedef struct {
    engine_t *engine;
    char name[MODEL_DEVICE_TEXT_BYTES]; /* "cpu0", "emulated17", as the scheduler shows it */
    metric_t *busy;
    bool lost;                    /* nothing runs on it any more; for whoever runs batches on it */
    _Atomic(uint64_t) used_bytes; /* by models; memory.h */
    _Atomic(uint32_t) batches;    /* granted and not ended: measuring waits for a gap */
    _Atomic(int64_t) granted_ns;  /* when the last of them was; 0: none yet */
} model_device_t;

/*
 * Who is told of the memory of batches (model_buffers_t), so that it can be made known to what else reads and writes it. Called on the thread
 * that takes and returns buffers, which need not be that which unloads the model: so it is told before that, by model_buffers_withdraw.
 */
typedef struct {
    void (*made)(void *ctx, bool on_device, void *base, size_t len_bytes);
    void (*gone)(void *ctx, void *base); /* it is freed after this */
    void *ctx;
} model_buffers_watch_t;

/* The devices of the process: all of one kind, served by one engine backend. */
typedef struct {
    const engine_ops_t *ops;
    const char *kind;         /* "cpu", "cuda", "emulated" */
    const char *device_class; /* devices of one class are alike; the kind if nothing else is said */
    char identity[MODEL_DEVICE_TEXT_BYTES]; /* what a profile measured here is valid for */
    bool emulated;
    model_device_t *list;
    uint32_t count;
    uint32_t streams; /* of each */
    bool stretches;   /* rows can join a batch that runs: some model is to be staged */
    uint32_t slots;   /* batches that run side by side; 0 and 1: one */
    uint32_t ahead;   /* with slots: per mille of a device that may be granted for the next group */
    /* batches of each that may be granted and not have ended; 0: as few as the scheduler likes */
    uint32_t inflight;
    uint64_t memory_bytes;              /* of each: what models may take */
    bool inputs_on_device;              /* something can write inputs there (engine.h: input_alloc) */
    const model_buffers_watch_t *watch; /* of buffers; NULL: nobody */
} model_devices_t;

/* Whether it computes with all that the host's CPUs have ("reference" does not count). */
bool model_engine_is_cpu(const char *engine);

/* Opens count devices of the engine of that name (0 = as many as there are; emulated: 1). pin: each
 * device's threads stay on CPUs of their own. Unwinds on failure. */
status_t model_devices_open(model_devices_t *devices, const char *engine, uint32_t count,
                            const engine_config_t *config, bool pin, metrics_t *metrics, err_t *err);
/* Borders between segments (engine.h) and their array; of those that were never made the places are NULL,
 * as may be the array. */
void model_borders_free(const model_devices_t *devices, engine_border_t **borders, uint32_t count);
/* After all models are unloaded. */
void model_devices_close(model_devices_t *devices);

#endif
