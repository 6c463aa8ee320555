/*
 * One model version on this machine: from its place in the repository to what a batch needs to run it.
 *
 *   repository.h ─▶ model_place: files ─▶ on its devices ─▶ batch sizes prepared
 *                ─▶ model_ready: profile ─▶ mode ─▶ ready                          (model_load: both)
 *
 *   trial/    what a model's files do to a process that loads them, found in one of its own
 *   modes/    what an execution mode needs of a model: stages, segments, exit points, the duration model
 *   measure/  how long batches take, and what is kept of it
 *   parts/    what it is made of: config, axes and shapes, memory, devices
 *
 * A room calls those behind it and none before; what stands beside them calls all (scripts/check-calls).
 *
 * Threads: one thread at a time. Who loads it on a thread of its own touches it elsewhere only before and after that, but for
 * `stop` and `serving`. A loaded model does not change but by model_took and model_take_profile.
 */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "model/measure/profile_memo.h"
#include "model/parts/config.h"
#include "model/parts/devices.h"
#include "model/parts/shapes.h"
#include "profile/correction.h"

#include <limits.h>

typedef struct trials trials_t; /* trial/trial.h */

enum {
    MODEL_NAME_BYTES = 128,
    MODEL_WITHOUT_BYTES = 64,                             /* the names of all engines of the CPU */
    MODEL_PATH_BYTES = PATH_MAX + TRITON_NAME_BYTES + 24, /* of its file: folder, version, name */
    MODEL_ROW_BYTES_MAX =
        64 << 20, /* inputs of one row, or outputs: what the data plane takes (docs/data-plane.md) */
};

/* Memory of one batch: a buffer for each input and each output, max_batch rows long; where rows vary in
 * size, as long as the largest batch needed that it was used for. */
typedef struct model_buffers {
    struct model_buffers *next;
    engine_t *engine;         /* whose buffer_alloc it came from */
    uint32_t group;           /* the free list it goes back to */
    void **inputs, **outputs; /* both in one array */
    size_t *capacity;         /* of each, inputs first */
    void **device_inputs;     /* the same inputs' places on the device; NULL: it has none */
} model_buffers_t;

/* What was found of one of the engines that a model could run on. */
enum {
    MODEL_ENGINES_MAX = 4,
    MODEL_ENGINE_NAME_BYTES = ENGINE_RUNNING_BYTES,
    MODEL_ENGINE_SIZES = 3,
    MODEL_ENGINE_WHY_BYTES = 160,
    MODEL_ENGINES_TEXT_BYTES = 512
};
typedef struct {
    char name[MODEL_ENGINE_NAME_BYTES];
    status_t status; /* OK: it runs, and agrees with the others */
    bool unfit;      /* it cannot stop or cut the model, as the mode that is asked for wants it */
    int64_t latency_ns
        [MODEL_ENGINE_SIZES]; /* medians of batches of 1, 4 and the largest, as far as there are so many */
    char why[MODEL_ENGINE_WHY_BYTES]; /* it does not run */
} model_engine_t;

struct model {
    char name[MODEL_NAME_BYTES];
    int64_t version;      /* 0 = none could be chosen, and it is FAILED */
    char dir[PATH_MAX];   /* MODEL in the repository; "" = a model without a file (emulated) */
    char file[PATH_MAX];  /* the ONNX file, when it is not one of DIR/VERSION; else "" */
    bool bare;            /* no file: described by emulated_elements below */
    uint64_t fingerprint; /* of the files as they were when it was read: another one = worth loading anew */
    uint32_t emulated_elements;
    model_config_t config;
    profile_t profile;     /* to plan with; it follows what batches take */
    profile_t measured;    /* the medians as they were measured */
    profile_modes_t modes; /* what `fermata profile` found for the execution modes; kept with the profile */
    char hash[PROFILE_CACHE_TEXT_BYTES]; /* of model_hash, when it was loaded; "": not known yet */
    /* That loading it takes at most, as a trial (trial/trial.h) found; 0: it was not tried. */
    uint64_t loading_bytes;
    char without[MODEL_WITHOUT_BYTES]; /* engines that did not stand the trial, with commas */
    /* The engine (or two) that the trial measured as the fastest, as `engines` says; "": it did not measure. */
    char fastest[MODEL_ENGINE_NAME_BYTES];
    bool corrects;              /* not with an engine that asks us for the latency */
    engine_model_t **on_device; /* one for each device */
    uint32_t on_device_count;
    const engine_model_info_t *info; /* of the first; that of all */
    char running[MODEL_ENGINE_NAME_BYTES];
    const char *engine; /* that it runs on (engine_choice_t.running); NULL until that is known */
    char only_engine
        [PROFILE_CACHE_ENGINE_BYTES]; /* it is loaded on this one and no other; "": on which it likes */
    model_engine_t engines[MODEL_ENGINES_MAX]; /* as they were tried; none where nothing was to be chosen */
    uint32_t engine_count;
    char engines_text[MODEL_ENGINES_TEXT_BYTES]; /* of these, for people */
    uint64_t row_in_bytes;                       /* one task's input item; 0 with shapes */
    model_shapes_t *shapes;                      /* NULL: nothing but the batch varies */
    uint64_t *batch_bytes; /* [b] of a device: memory with batches up to b; [0] unused. NULL until prepared */
    uint64_t taken_bytes;  /* of each device */
    int64_t slo_ns;
    mode_choice_t choice;
    status_t load_status;
    err_t load_err;
    _Atomic(int) stop; /* set by another thread: the load is not wanted any more */

    model_buffers_t **free_buffers; /* one list for each buffer group */
    uint32_t buffer_groups;
    correction_t correction; /* of a model without shapes: what batches took */
    int64_t corrected_ns;    /* when last */
    struct serving *serving; /* what whoever serves it knows of it beside; NULL: nobody does */
};

status_t model_create(const char *name, int64_t version, const char *dir, model_t **model, err_t *err);

/* Takes it off the devices and frees its buffers; what describes it stays. No batch of it may be under
 * way. Any one thread. */
void model_unload(model_t *model, const model_devices_t *devices);
/* The same, and frees it. devices may be NULL for one that was never loaded. */
void model_destroy(model_t *model, const model_devices_t *devices);

/*
 * Loads it on all devices, prepares all batch sizes and finds its profile: by measuring, from the cache beside the
 * model, or given (emulated). Blocks. *stop set by another thread makes it return early with CANCELLED.
 */
struct model_load_options {
    const model_devices_t *devices;
    int64_t profile_budget_ns;     /* for measuring, at each shape; sizes not reached are extrapolated */
    model_mode_t mode;             /* of a model whose config names none */
    const overlap_plan_t *overlap; /* NULL: there is none, for the reason that overlap_why says */
    const char *overlap_why;
    bool use_cache;
    bool coarse; /* few sizes are measured; whoever loads it has the others measured later */
    bool afresh; /* of model_measure_again: what the model has, and what others found, counts for nothing */
    trials_t *trials; /* it is loaded by a process of its own first; NULL: here at once */
    /* That no device uses: models are placed there while others are measured on the devices. 0: nothing is measured meanwhile. */
    uint32_t beside_cpus;
    profile_memo_t *memo; /* what was measured of copies of it, for model_ready; NULL: nothing */
    const _Atomic(int64_t)
        *step_most_ns;  /* a measured batch that would take longer is not run; NULL: no matter */
    bool profile_later; /* neither prepares batch sizes nor finds a profile: the caller measures */
    const _Atomic(int) *stop;
};
status_t model_load(model_t *model, const model_load_options_t *options, err_t *err);

/*
 * Its halves. Several models may be placed at once, on threads of their own: nothing runs on the devices meanwhile.
 * Measuring does, and is of one model at a time. What failed has left the devices.
 */
status_t model_place(model_t *model, const model_load_options_t *options, err_t *err);
status_t model_ready(model_t *model, const model_load_options_t *options, err_t *err);

/*
 * Prepares its batch sizes on all devices: 1, 2, 4, 8, … and the largest; those between only where a batch would wait for
 * them, else its first batch of such a size does so. It is loaded. batch_bytes is set.
 */
status_t model_prepare(model_t *model, const model_load_options_t *options, err_t *err);

/* Finds its profile, or one for each of its references. It is loaded and prepared. */
status_t model_measure(model_t *model, const model_load_options_t *options, err_t *err);

/* How many profiles it has, one or one for each of its references, and one of them as it was measured. */
static inline uint32_t model_profiles(const model_t *model)
{
    return model->shapes ? model->shapes->reference_count : 1;
}
static inline const profile_t *model_measured(const model_t *model, uint32_t which)
{
    return model->shapes ? &model->shapes->measured.members[which].profile : &model->measured;
}

/*
 * Measures one profile of a model that serves, for model_take_profile; the model is left as it is. Where the one it has
 * tells what a row costs, no run takes longer than step_most_ns, and the larger sizes go on as they were. UNAVAILABLE: what
 * came of it is in doubt, and more so than what it has.
 */
status_t model_measure_again(const model_t *model, const model_load_options_t *options, uint32_t which,
                             profile_t *profile, err_t *err);
/* From now on it is planned with this one; what batches took is forgotten, and its SLO stays. */
void model_take_profile(model_t *model, uint32_t which, const profile_t *profile);

/* The mode that its config names, else that of those who load it. */
static inline model_mode_t model_asked_mode(const model_t *model, const model_load_options_t *options)
{
    return model->config.has_mode ? model->config.mode : options->mode;
}

/* The engine on which a copy of it was measured lately. False: none. */
bool model_known_engine(const model_t *model, const model_load_options_t *options,
                        char word[PROFILE_CACHE_ENGINE_BYTES]);

/* To measure the loaded model on the first of its devices, beside what that serves. sizes: of its axes; NULL when it
 * has none. */
profiler_t model_profiler(const model_t *model, const model_load_options_t *options, const uint32_t *sizes);

/* Sizes of its largest reference. NULL: nothing but the batch varies, or nobody knows how far (an emulated device takes any shape). */
const uint32_t *model_largest(const model_t *model);
/* To measure operators of a model that is loaded, with its profile; of one whose dimensions vary, at the
 * largest reference. */
profiler_t model_profiler_of_largest(const model_t *model, const model_load_options_t *options);

/* Where one device can cut it. Where dimensions vary these are the cuts of the shapes that were prepared last: of a row of these sizes,
 * which the engine cannot cut if it cannot prepare it. Blocks. */
status_t model_cuts(const model_t *model, const engine_ops_t *ops, uint32_t device, const uint32_t *sizes,
                    engine_cuts_t *cuts, err_t *err);

/* The ONNX file. */
void model_file_path(const model_t *model, char path[MODEL_PATH_BYTES]);

/* Whether a file in the folder of a version is part of the model: all but dot files and kept profiles. */
bool model_is_part(const char *name);

/* Tells the files of the model (and the precision it is run in) apart from others. */
status_t model_hash(const model_t *model, char text[PROFILE_CACHE_TEXT_BYTES], err_t *err);

/* How long a batch takes; sizes: of the model's axes, NULL when it has no shapes. */
int64_t model_latency_ns(const model_t *model, const uint32_t *sizes, uint32_t batch);

/* Its SLO; where that follows from its profile, which may not be there yet, the least that it can be. */
int64_t model_least_slo_ns(const model_t *model);
/* Its SLO, once it is loaded and has its profile: the config's, or one that leaves time for batches to form. */
int64_t model_slo_ns(const model_t *model);

/* A batch of so many rows took so long. True when the profile has changed, and whoever plans with it should hear of it. */
bool model_took(model_t *model, int64_t now_ns, const uint32_t *sizes, uint32_t batch, int64_t exec_ns);

/* Buffers for one batch on a device, reused ones first. NULL: no memory. */
model_buffers_t *model_buffers_get(model_t *model, const model_devices_t *devices, uint32_t device);
/* Room for so many bytes in buffer i, inputs first; what was in it is lost when it grows. False: no memory. */
bool model_buffers_reserve(const model_devices_t *devices, model_buffers_t *buffers, uint32_t i,
                           size_t bytes);
void model_buffers_put(model_t *model, model_buffers_t *buffers);
/* devices->watch hears that all that were put are gone: before the model is unloaded, and no other is taken until then. */
void model_buffers_withdraw(const model_t *model, const model_devices_t *devices);
void model_buffers_free(model_t *model, const model_devices_t *devices); /* all that were put */

#endif
