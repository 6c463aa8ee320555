/*
 * MODEL/config.pbtxt, the configuration that Triton reads (docs/model-repository.md, "config.pbtxt"), for as far as it has a
 * meaning here. What has none is kept as a note with its line: nothing of the file is passed over in silence. What would
 * make a model answer otherwise than it does under Triton (another backend, an ensemble, a state) is an error.
 */
#ifndef MODEL_TRITON_H
#define MODEL_TRITON_H

#include "engine/engine.h"
#include "model/parts/shape_config.h"
#include "model/parts/version_policy.h"

enum {
    TRITON_NAME_BYTES = 256,
    TRITON_KEY_BYTES = 96,
    TRITON_NOTES_MAX = 48, /* what is beyond is counted: a file with more is one of parameters */
};

/* A key that is not taken up, and why. */
typedef struct {
    char key[TRITON_KEY_BYTES]; /* "instance_group.count" */
    int line;
    const char *why;
} triton_note_t;

typedef struct {
    char name[TRITON_NAME_BYTES];
    bool is_input;
    char datatype[16]; /* as the Open Inference Protocol has it; "" = not given */
    bool has_dims, has_reshape;
    uint32_t rank, reshape_rank;
    int64_t dims[ENGINE_MAX_RANK];    /* as clients see them, without the batch dimension; -1 = varies */
    int64_t reshape[ENGINE_MAX_RANK]; /* as the model sees them */
    int line;
} triton_tensor_t;

typedef struct {
    char name[TRITON_NAME_BYTES];
    char file[TRITON_NAME_BYTES]; /* default_model_filename; "" = not given */
    char labels[TRITON_NAME_BYTES];
    bool has_versions, has_batch;
    version_policy_t versions;
    uint32_t max_batch; /* 0: the model has no batch dimension */
    int64_t slo_ns;     /* 0 = not given */
    int name_line, labels_line, versions_line, batch_line, slo_line;
    triton_tensor_t tensors[2 * ENGINE_MAX_IO];
    uint32_t tensor_count;
    triton_note_t notes[TRITON_NOTES_MAX];
    uint32_t note_count, notes_left_out;
} triton_config_t;

/* *config is NULL where there is no such file; the caller frees it. INVALID_ARGUMENT or UNSUPPORTED: "file:line:column: …". */
status_t triton_config_read(const char *model_dir, triton_config_t **config, err_t *err);

/* The same of a document's root, for which there is one. */
struct ptext_field;
status_t triton_config_take(const struct ptext_field *root, triton_config_t **config, err_t *err);

/*
 * Holds inputs and outputs against those of the model as it was loaded. What the config fixes and the file leaves open becomes a
 * bound of that axis, where `shapes` says nothing about axes yet.
 */
status_t triton_config_check(const triton_config_t *config, const engine_model_info_t *info,
                             shape_config_t *shapes, err_t *err);

/* The dimensions by which clients know a tensor of the model that is reshaped; NULL: those of the model. */
const triton_tensor_t *triton_config_reshaped(const triton_config_t *config, const char *tensor,
                                              bool is_input);

/* "config.pbtxt: not taken up: instance_group.count (line 9), …", cut to what fits; "" without notes or config. */
const char *triton_config_text(const triton_config_t *config, char *text, size_t text_bytes);

/* For triton.c and its parts alone. */
void triton_note(triton_config_t *config, const struct ptext_field *field, const char *within,
                 const char *why);
status_t triton_read_tensor(triton_config_t *config, const struct ptext_field *field, bool is_input,
                            err_t *err);

#endif
