/* The engines behind "auto", and a model on them. */
#ifndef ENGINE_AUTO_MEMBER_H
#define ENGINE_AUTO_MEMBER_H

#include "engine/auto/faults.h"
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
    uint32_t count;
} members_t;

/* All that start; one at least, or why the last one does not. */
status_t members_open(members_t *members, const engine_config_t *config, err_t *err);
void members_close(members_t *members);

struct engine_model {
    const members_t *members;
    engine_model_t *on[AUTO_MEMBERS_MAX]; /* NULL: not loaded there */
    uint32_t used;
    fault_t faults[FAULTS_ENGINES + 1]; /* known of it; none where an engine was named */
    description_t description;          /* a copy, which outlives the member that it came from */
    engine_load_t load;                 /* owned copies; forgotten when it is settled */
};

/* Onto what->only, or the first that takes it. */
status_t member_model_create(const members_t *members, const engine_load_t *what, engine_model_t **model,
                             err_t *err);
void member_model_destroy(engine_model_t *model);

/* As engine_choice_t. */
status_t member_model_use(engine_model_t *model, uint32_t which, err_t *err);
void member_model_leave(engine_model_t *model, uint32_t which);
void member_model_settle(engine_model_t *model);

/* The engine that it runs on, and the model there. */
static inline const engine_ops_t *member_ops(const engine_model_t *model)
{
    return model->members->list[model->used].ops;
}
static inline engine_model_t *member_model(const engine_model_t *model)
{
    return model->on[model->used];
}

/* What it takes by now is told by the engine that it runs on, and so is where it stops. */
static inline void member_count_memory(engine_model_t *model)
{
    const engine_model_info_t *told = member_ops(model)->info(member_model(model));
    model->description.info.memory_bytes = told->memory_bytes;
    model->description.info.stop_points = told->stop_points;
}

#endif
