#include "engine/compile/plan_table.h"

#include <stdlib.h>
#include <string.h>

status_t plan_table_init(plan_table_t *table, const engine_model_info_t *info, bool varies,
                         void (*destroy)(plan_entry_t *plan), err_t *err)
{
    *table =
        (plan_table_t){.max_batch = info->max_batch, .input_count = info->input_count, .destroy = destroy};
    if (!varies && !(table->by_batch = calloc(info->max_batch + 1, sizeof(plan_entry_t *))))
        return err_set(err, STATUS_NO_MEMORY, "no memory for the plans of a model");
    pthread_mutex_init(&table->building, NULL);
    pthread_mutex_init(&table->mutex, NULL);
    return STATUS_OK;
}

static void drop(plan_table_t *table, plan_entry_t *plan)
{
    if (!plan)
        return;
    free(plan->shapes);
    table->destroy(plan);
}

void plan_table_dispose(plan_table_t *table)
{
    if (!table->destroy)
        return;
    for (uint32_t b = 1; table->by_batch && b <= table->max_batch; b++)
        drop(table, table->by_batch[b]);
    for (uint32_t i = 0; i < PLAN_TABLE_SHAPES_MAX; i++)
        drop(table, table->by_shape[i]);
    free(table->by_batch);
    pthread_mutex_destroy(&table->mutex);
    pthread_mutex_destroy(&table->building);
    *table = (plan_table_t){.destroy = NULL};
}

static bool same_shapes(const plan_table_t *table, const plan_entry_t *plan, const tensor_t *inputs)
{
    for (uint32_t i = 0; i < table->input_count; i++)
        if (!tensor_same_shape(&plan->shapes[i], &inputs[i]))
            return false;
    return true;
}

static plan_entry_t *find_locked(const plan_table_t *table, uint32_t batch, const tensor_t *inputs)
{
    if (table->by_batch)
        return table->by_batch[batch];
    for (uint32_t i = 0; i < PLAN_TABLE_SHAPES_MAX; i++)
        if (table->by_shape[i] && same_shapes(table, table->by_shape[i], inputs))
            return table->by_shape[i];
    return NULL;
}

plan_entry_t *plan_table_find(plan_table_t *table, uint32_t batch, const tensor_t *inputs)
{
    pthread_mutex_lock(&table->mutex);
    plan_entry_t *plan = find_locked(table, batch, inputs);
    if (plan) {
        plan->used = ++table->clock;
        plan->users++;
    }
    pthread_mutex_unlock(&table->mutex);
    return plan;
}

bool plan_table_last_shapes(plan_table_t *table, tensor_t *inputs)
{
    const plan_entry_t *last = NULL;
    pthread_mutex_lock(&table->mutex);
    for (uint32_t i = 0; i < PLAN_TABLE_SHAPES_MAX; i++) {
        const plan_entry_t *plan = table->by_shape[i];
        last = plan && (!last || plan->used > last->used) ? plan : last;
    }
    if (last)
        memcpy(inputs, last->shapes, table->input_count * sizeof *inputs);
    pthread_mutex_unlock(&table->mutex);
    return last;
}

void plan_table_release(plan_table_t *table, plan_entry_t *plan)
{
    pthread_mutex_lock(&table->mutex);
    plan->users--;
    pthread_mutex_unlock(&table->mutex);
}

/* An empty place, else that of the least recently used plan without users; NULL: all are in use. */
static plan_entry_t **oldest_place(plan_table_t *table)
{
    plan_entry_t **oldest = NULL;
    for (uint32_t i = 0; i < PLAN_TABLE_SHAPES_MAX; i++) {
        plan_entry_t **place = &table->by_shape[i];
        if (!*place)
            return place;
        if (!(*place)->users && (!oldest || (*place)->used < (*oldest)->used))
            oldest = place;
    }
    return oldest;
}

static status_t store_shape(plan_table_t *table, const tensor_t *inputs, plan_entry_t *plan, err_t *err)
{
    plan_entry_t **place = oldest_place(table);
    tensor_t *shapes = malloc((table->input_count + 1) * sizeof *shapes);
    if (!place || !shapes) {
        free(shapes);
        return err_set(err, STATUS_NO_MEMORY, "no room for the plan of one more set of shapes");
    }
    memcpy(shapes, inputs, table->input_count * sizeof *shapes);
    plan->shapes = shapes;
    drop(table, *place);
    *place = plan;
    return STATUS_OK;
}

static status_t store(plan_table_t *table, uint32_t batch, const tensor_t *inputs, plan_entry_t *plan,
                      err_t *err)
{
    status_t status = STATUS_OK;
    pthread_mutex_lock(&table->mutex);
    if (table->by_batch)
        table->by_batch[batch] = plan;
    else
        status = store_shape(table, inputs, plan, err);
    plan->used = ++table->clock;
    plan->users = 1;
    pthread_mutex_unlock(&table->mutex);
    return status;
}

status_t plan_table_get(plan_table_t *table, uint32_t batch, const tensor_t *inputs, plan_build_fn build,
                        void *ctx, plan_entry_t **out, err_t *err)
{
    status_t status = STATUS_OK;
    plan_entry_t *plan = plan_table_find(table, batch, inputs);
    if (plan) {
        *out = plan;
        return STATUS_OK;
    }
    pthread_mutex_lock(&table->building);
    plan = plan_table_find(table, batch, inputs); /* somebody else may have built it just now */
    if (!plan && (status = build(ctx, inputs, &plan, err)) == STATUS_OK) {
        status = store(table, batch, inputs, plan, err);
        if (status != STATUS_OK)
            table->destroy(plan);
    }
    pthread_mutex_unlock(&table->building);
    if (status == STATUS_OK)
        *out = plan;
    return status;
}
