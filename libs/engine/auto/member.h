/* The engines behind "auto", and a model on them. */
#ifndef ENGINE_AUTO_MEMBER_H
#define ENGINE_AUTO_MEMBER_H

#include "engine/auto/faults.h"
#include "engine/auto/split.h"
#include "engine/compile/describe.h"

enum { AUTO_MEMBERS_MAX = 3 };

/* Whether they are here or not, in the order in which a model is tried on them. */
extern const char *const members_names[AUTO_MEMBERS_MAX];

typedef struct {
    const engine_ops_t *ops;
    engine_t *engine;
} member_t;

/* Those that are here, in that order: the first says what is right. */
typedef struct {
    member_t list[AUTO_MEMBERS_MAX];
    const char *names[AUTO_MEMBERS_MAX];
    uint32_t count;
} members_t;

/* All that start; one at least, or why the last one does not. */
status_t members_open(members_t *members, const engine_config_t *config, err_t *err);
void members_close(members_t *members);

struct engine_model {
    const members_t *members;
    engine_model_t *on[AUTO_MEMBERS_MAX]; /* NULL: not loaded there */
    split_t used;                         /* it is loaded where this says */
    char running[ENGINE_RUNNING_BYTES];   /* of `used` */
    fault_t faults[FAULTS_ENGINES + 1];   /* known of it; none where an engine was named */
    description_t description;            /* a copy, which outlives the member that it came from */
    engine_load_t load;                   /* owned copies; forgotten when it is settled */
};

/* Onto what->only, one or two of them, or the first that takes it. */
status_t member_model_create(const members_t *members, const engine_load_t *what, engine_model_t **model,
                             err_t *err);
void member_model_destroy(engine_model_t *model);

/* As engine_choice_t. */
status_t member_model_use(engine_model_t *model, const split_t *wanted, err_t *err);
status_t member_model_use_named(engine_model_t *model, const char *name, err_t *err);
void member_model_leave(engine_model_t *model, uint32_t which);
void member_model_settle(engine_model_t *model);
/* What it takes by now, and where it stops, is told by the engines that it runs on. */
void member_count_memory(engine_model_t *model);

/* The engine that batches of this size run on, and the model there. */
static inline const member_t *member_at(const engine_model_t *model, uint32_t batch)
{
    return &model->members->list[split_at(&model->used, batch)];
}
static inline engine_model_t *member_model_at(const engine_model_t *model, uint32_t batch)
{
    return model->on[split_at(&model->used, batch)];
}

/* Those of large batches: that of all of them, where there is one. */
static inline const engine_ops_t *member_ops(const engine_model_t *model)
{
    return model->members->list[model->used.large].ops;
}
static inline engine_model_t *member_model(const engine_model_t *model)
{
    return model->on[model->used.large];
}

#endif
