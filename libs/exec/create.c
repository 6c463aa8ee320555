/*
 * All memory of the modes: one block each, made here and nowhere else.
 */
#include "exec/overlap_core.h"
#include "exec/preempt.h"
#include "exec/staged_core.h"
#include "exec/whole_core.h"

#include <stdlib.h>

/* The object, then the slots of the queries that wait. */
static void *block(size_t object_bytes, uint32_t slot_count, queries_slot_t **slots, err_t *err)
{
    size_t at =
        (object_bytes + _Alignof(queries_slot_t) - 1) / _Alignof(queries_slot_t) * _Alignof(queries_slot_t);
    char *memory = calloc(1, at + slot_count * sizeof(queries_slot_t));
    if (!memory)
        err_set(err, STATUS_NO_MEMORY, "no memory for an execution mode with %u queries", slot_count);
    else
        *slots = (queries_slot_t *)(void *)(memory + at);
    return memory;
}

static bool in(uint32_t value, uint32_t least, uint32_t most, const char *what, err_t *err)
{
    if (value >= least && value <= most)
        return true;
    err_set(err, STATUS_INVALID_ARGUMENT, "%s is %u, must be %u..%u", what, value, least, most);
    return false;
}

exec_t *exec_create_whole(const whole_config_t *config, err_t *err)
{
    queries_slot_t *slots;
    uint32_t slot_count = config->gather ? queries_slots(config->queries_max) : 1;
    if (!in(config->rows_max, 1, config->gather ? EXEC_ROWS_MAX : EXEC_QUERIES_MAX, "rows_max", err) ||
        (config->gather && !in(config->queries_max, 1, EXEC_QUERIES_MAX, "queries_max", err)))
        return NULL;
    whole_t *whole = block(sizeof(*whole), slot_count, &slots, err);
    if (whole)
        whole_init(whole, config, slots, slot_count);
    return whole ? &whole->exec : NULL;
}

exec_t *exec_create_preempt(uint32_t rows_max, err_t *err)
{
    whole_config_t config = {.rows_max = rows_max};
    exec_t *exec = exec_create_whole(&config, err);
    if (exec)
        exec->ops = &preempt_ops;
    return exec;
}

static bool staged_config_good(const staged_config_t *config, err_t *err)
{
    if (!in(config->stages, 1, STAGED_STAGES_MAX, "stages", err) ||
        !in(config->pairs, 1, STAGED_PAIRS_MAX, "pairs", err) ||
        !in(config->new_pairs, 1, config->pairs, "new_pairs", err) ||
        !in(config->width, 1, STAGED_WIDTH_MAX, "width", err) ||
        !in(config->streams, 0, STAGED_STREAMS_MAX, "streams", err) ||
        !in(config->rows_max, 1, EXEC_ROWS_MAX, "rows_max", err) ||
        !in(config->queries_max, config->rows_max, EXEC_QUERIES_MAX, "queries_max", err))
        return false;
    if (config->cost && config->schedule && config->schedule->enter)
        return true;
    err_set(err, STATUS_INVALID_ARGUMENT,
            "staged needs a cost function and a schedule that lets batches enter");
    return false;
}

exec_t *exec_create_staged(const staged_config_t *config, err_t *err)
{
    queries_slot_t *slots;
    if (!staged_config_good(config, err))
        return NULL;
    uint32_t slot_count = queries_slots(config->queries_max);
    staged_t *staged = block(sizeof(*staged), slot_count, &slots, err);
    if (staged)
        staged_init(staged, config, slots, slot_count);
    return staged ? &staged->exec : NULL;
}

exec_t *exec_create_overlap(const overlap_config_t *config, err_t *err)
{
    if (!in(config->models, 1, OVERLAP_MODELS_MAX, "models", err) ||
        !in(config->ways, 1, OVERLAP_WAYS_MAX, "ways", err) ||
        !in(config->queries_max, 1, OVERLAP_QUERIES_MAX, "queries_max", err))
        return NULL;
    for (uint32_t i = 0; i < config->models; i++)
        if (!in(config->ops[i], 1, 1 << 16, "operators of a model", err))
            return NULL;
    bool predicts = config->order == OVERLAP_ABACUS || config->order == OVERLAP_SJF || config->drop_predicted;
    if (!config->predict && predicts) {
        err_set(err, STATUS_INVALID_ARGUMENT, "this order, or to drop by prediction, needs a duration model");
        return NULL;
    }
    overlap_t *overlap = calloc(1, sizeof(*overlap) + config->queries_max * sizeof(overlap_active_t));
    if (!overlap) {
        err_set(err, STATUS_NO_MEMORY, "no memory for %u queries", config->queries_max);
        return NULL;
    }
    overlap->exec.ops = &overlap_ops;
    overlap->gain = 1;
    overlap->config = *config;
    overlap->active = (overlap_active_t *)(void *)(overlap + 1);
    return &overlap->exec;
}

void exec_destroy(exec_t *exec)
{
    free(exec);
}
