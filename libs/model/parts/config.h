/*
 * MODEL/config.yaml of the model repository (docs/model-repository.md). Every key is optional; one that is not known
 * is an error with file and line.
 */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include "engine/engine.h"
#include "image/pipeline.h"
#include "model/modes/mode.h"
#include "model/parts/shape_config.h"

enum {
    MODEL_SCHEDULE_BYTES = 16,
    MODEL_LABELS_MAX = 100000, /* ImageNet-21k has 21,843 */
    MODEL_STRING_BYTES_MAX = 1 << 20,
    MODEL_VERSIONS_MAX = 64, /* of one model side by side: canaries need two or three */
};

typedef enum { VERSIONS_LATEST, VERSIONS_ALL, VERSIONS_SPECIFIC } versions_kind_t;

/* Which version folders are served. */
typedef struct {
    versions_kind_t kind;
    uint32_t count;                   /* LATEST: how many, from the highest; SPECIFIC: of the list */
    int64_t list[MODEL_VERSIONS_MAX]; /* SPECIFIC */
} version_policy_t;

/* Those of the CPU, which a model may name: "auto" and what stands behind it; ends with NULL. */
extern const char *const model_cpu_engines[];

enum { MODEL_PROVIDERS_BYTES = 64 };

typedef struct {
    int64_t slo_ns;     /* 0 = not given */
    uint32_t max_batch; /* 0 = not given */
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
} model_config_t;

/* Defaults, then what model_dir/config.yaml says, if there is one, then the labels file that it names. */
status_t model_config_read(const char *model_dir, model_config_t *config, err_t *err);
void model_config_init(model_config_t *config);
/* Whether the schedule of staged is left to the profile, which knows it for the stages that were found with it. */
static inline bool model_config_leaves_schedule(const model_config_t *config)
{
    return !config->stages && !config->schedule[0];
}
void model_config_dispose(model_config_t *config);

#endif
