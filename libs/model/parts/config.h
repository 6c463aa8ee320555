/*
 * MODEL/config.yaml of the model repository (docs/model-repository.md). Every key is optional; one that is not known
 * is an error with file and line. A config.pbtxt beside it (triton.h) says the rest.
 */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include "engine/engine.h"
#include "image/pipeline.h"
#include "model/modes/mode.h"
#include "model/parts/shape_config.h"
#include "model/parts/triton.h"
#include "model/parts/version_policy.h"

enum {
    MODEL_SCHEDULE_BYTES = 16,
    MODEL_LABELS_MAX = 100000, /* ImageNet-21k has 21,843 */
    MODEL_STRING_BYTES_MAX = 1 << 20,
};

/* Those of the CPU, which a model may name: "auto" and what stands behind it; ends with NULL. */
extern const char *const model_cpu_engines[];
/* Those that a worker or a tool may be told to use; ends with NULL. */
extern const char *const model_engines[];

enum { MODEL_PROVIDERS_BYTES = 64 };

typedef struct {
    int64_t slo_ns;     /* 0 = not given */
    uint32_t max_batch; /* 0 = not given */
    /* AUTO unless config.pbtxt says more; a max_batch above 1 is FORCE in any case. */
    engine_batching_t batching;
    uint32_t priority;
    uint32_t string_bytes;     /* room for one string of an input or output; 0 = not given */
    version_policy_t versions; /* the highest unless given */
    engine_precision_t precision;
    char engine[MODEL_SCHEDULE_BYTES];     /* where there are several; "" = the fastest */
    char providers[MODEL_PROVIDERS_BYTES]; /* of onnxruntime, with commas; "" = not given */
    bool has_mode;                         /* else it is the worker's */
    model_mode_t mode;
    uint32_t stages;      /* staged: how many; 0 = not given */
    int64_t comp_wait_ns; /* staged: no rows join a batch that is older; 0 = not given */
    double split_slack;   /* staged: how much more the parts of a batch may cost than the whole */
    char schedule[MODEL_SCHEDULE_BYTES]; /* staged: a table of exec/staged.h or "granted"; "" = not given */
    image_pipeline_t image;
    char **labels; /* NULL = none */
    uint32_t label_count;
    shape_config_t shapes;
    bool has_line; /* emulate: the emulated engine's alpha · b + beta */
    int64_t alpha_ns, beta_ns;
    triton_config_t *triton; /* config.pbtxt; NULL = there is none. What it says here too is in both */
} model_config_t;

/* Defaults, then what model_dir/config.yaml and config.pbtxt say, those that there are, then the labels file that they name.
 * Where the two contradict each other, the error has both values and lines. */
status_t model_config_read(const char *model_dir, model_config_t *config, err_t *err);
void model_config_init(model_config_t *config);
/* The file in the folder of a version. */
static inline const char *model_config_file(const model_config_t *config)
{
    return config->triton && config->triton->file[0] ? config->triton->file : "model.onnx";
}
/* Whether the schedule of staged is left to the profile, which knows it for the stages that were found with it. */
static inline bool model_config_leaves_schedule(const model_config_t *config)
{
    return !config->stages && !config->schedule[0];
}
void model_config_dispose(model_config_t *config);

#endif
