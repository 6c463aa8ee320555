#include "gateway/models/estimates.h"

#include "control.pb-c.h"
#include "estimate_parts.h"

bool estimates_take(catalogue_t *catalogue, const Control__Estimate *message, int64_t now_ns)
{
    uint32_t name = 0;
    if (!estimate_is_whole(message))
        return false;
    for (model_entry_t *entry = NULL; (entry = catalogue_next(catalogue, entry, &name));) {
        size_t place = entry->listed ? estimate_find(message, entry->id) : message->n_model;
        if (place < message->n_model)
            estimate_tell(&entry->estimate, now_ns, message->least_ns[place],
                          estimate_refuse(message, place));
        else
            estimate_lapse(&entry->estimate);
    }
    return true;
}

void estimates_forget(catalogue_t *catalogue)
{
    uint32_t name = 0;
    for (model_entry_t *entry = NULL; (entry = catalogue_next(catalogue, entry, &name));)
        estimate_forget(&entry->estimate);
}

static void gather(model_entry_t *entry, estimates_refused_t *refused)
{
    for (uint32_t level = 0; level < SHED_LEVELS && refused->count < ESTIMATES_REFUSED_MAX; level++) {
        size_t i = refused->count;
        refused->model[i] = entry->id;
        refused->priority[i] = level;
        refused->count +=
            estimate_take_refused(&entry->estimate, level, &refused->overload[i], &refused->infeasible[i]);
    }
}

bool estimates_gather(catalogue_t *catalogue, estimates_refused_t *refused)
{
    uint32_t name = 0;
    refused->count = 0;
    for (model_entry_t *entry = NULL; (entry = catalogue_next(catalogue, entry, &name));)
        if (entry->listed)
            gather(entry, refused);
    return refused->count > 0;
}
