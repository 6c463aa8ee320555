#include "gateway/models/estimates.h"

#include "control.pb-c.h"
#include "estimate_parts.h"

static void take_one(model_entry_t *entry, const Control__Estimate *message, size_t place, int64_t now_ns)
{
    estimate_tell(&entry->estimate, now_ns, message->least_ns[place], estimate_refuse(message, place));
    if (!estimate_has_backlog(message, place))
        return;
    const estimate_backlog_t backlog = {.ends_in_ns = message->backlog_ns[place],
                                        .row_ns = message->row_ns[place],
                                        .behind_ns = message->behind_ns[place],
                                        .level = message->backlog_priority[place]};
    estimate_tell_backlog(&entry->estimate, now_ns, &backlog);
}

bool estimates_take(catalogue_t *catalogue, const Control__Estimate *message, int64_t now_ns)
{
    uint32_t name = 0;
    if (!estimate_is_whole(message))
        return false;
    for (model_entry_t *entry = NULL; (entry = catalogue_next(catalogue, entry, &name));) {
        size_t place = entry->listed ? estimate_find(message, entry->id) : message->n_model;
        if (place < message->n_model)
            take_one(entry, message, place, now_ns);
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
        estimate_refused_t taken;
        refused->count += estimate_take_refused(&entry->estimate, level, &taken);
        refused->overload[i] = taken.overload;
        refused->backlog[i] = taken.backlog;
        refused->infeasible[i] = taken.infeasible;
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
