#include "worker/state/served.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

status_t served_add(served_t *served, model_t *model, err_t *err)
{
    if (served->count == served->capacity) {
        uint32_t capacity = served->capacity ? served->capacity * 2 : 16;
        model_t **models = realloc(served->models, capacity * sizeof(*models));
        if (!models)
            return err_set(err, STATUS_NO_MEMORY, "out of memory");
        served->models = models;
        served->capacity = capacity;
    }
    if (serving_begin(model, err) != STATUS_OK)
        return STATUS_NO_MEMORY;
    served->models[served->count++] = model;
    return STATUS_OK;
}

static status_t take_failure(served_t *served, const repository_reading_t *reading, err_t *err)
{
    model_t *model;
    status_t status = model_create(reading->name, 0, "", &model, err);

    if (status != STATUS_OK)
        return status;
    model->load_status = reading->status;
    model->load_err = reading->err;
    status = served_add(served, model, err);
    if (status == STATUS_OK)
        model->serving->state = MODEL_FAILED;
    else
        serving_destroy(model, NULL);
    return status;
}

status_t served_take(served_t *served, repository_reading_t *reading, err_t *err)
{
    if (reading->status != STATUS_OK)
        return take_failure(served, reading, err);
    for (uint32_t i = 0; i < reading->count; i++) {
        if (!reading->versions[i])
            continue;
        if (served_add(served, reading->versions[i], err) != STATUS_OK)
            return STATUS_NO_MEMORY;
        reading->versions[i] = NULL;
    }
    return STATUS_OK;
}

status_t served_fill(served_t *served, const repository_source_t *source, err_t *err)
{
    repository_reading_t *readings;
    uint32_t count;
    status_t status = repository_read_all(source, &readings, &count, err);

    if (status != STATUS_OK)
        return status;
    for (uint32_t i = 0; i < count; i++) {
        if (status == STATUS_OK)
            status = served_take(served, &readings[i], err);
        repository_reading_dispose(&readings[i]);
    }
    free(readings);
    return status;
}

void served_remove(served_t *served, const model_t *model)
{
    for (uint32_t i = 0; i < served->count; i++) {
        if (served->models[i] == model) {
            served->models[i] = served->models[--served->count];
            return;
        }
    }
}

void served_replace(served_t *served, const model_t *old, model_t *model)
{
    for (uint32_t i = 0; i < served->count; i++) {
        if (served->models[i] == old)
            served->models[i] = model;
    }
}

model_t *served_find(const served_t *served, const char *name)
{
    for (uint32_t i = 0; i < served->count; i++) {
        if (strcmp(served->models[i]->name, name) == 0)
            return served->models[i];
    }
    return NULL;
}

model_t *served_find_version(const served_t *served, const char *name, int64_t version)
{
    for (uint32_t i = 0; i < served->count; i++) {
        model_t *model = served->models[i];
        if (model->version == version && strcmp(model->name, name) == 0)
            return model;
    }
    return NULL;
}

void served_retire(served_t *served, model_t *model)
{
    model->serving->next_retired = served->retired;
    served->retired = model;
}

void served_unretire(served_t *served, model_t *model)
{
    for (model_t **at = &served->retired; *at; at = &(*at)->serving->next_retired) {
        if (*at == model) {
            *at = model->serving->next_retired;
            return;
        }
    }
}

void served_stop_loads(served_t *served)
{
    for (uint32_t i = 0; i < served->count; i++) {
        model_t *model = served->models[i];
        atomic_store(&model->stop, 1);
        if (model->serving->successor)
            atomic_store(&model->serving->successor->stop, 1);
    }
}

void served_dispose(served_t *served, const model_devices_t *devices)
{
    for (uint32_t i = 0; i < served->count; i++) {
        if (served->models[i]->serving->successor)
            serving_destroy(served->models[i]->serving->successor, devices);
        serving_destroy(served->models[i], devices);
    }
    for (model_t *model = served->retired, *next; model; model = next) {
        next = model->serving->next_retired;
        serving_destroy(model, devices);
    }
    free(served->models);
    *served = (served_t){0};
}
