#include "control/models/announce.h"

#include "repeated.h"

static Control__ModelReport *nothing_known(model_t *model, pb_arena_t *arena)
{
    Control__ModelReport *report = pb_arena_alloc(arena, sizeof *report);
    if (!report)
        return NULL;
    control__model_report__init(report);
    report->name = model->name;
    report->version = model->version;
    return report;
}

/* False: no memory. */
static bool fill_entry(Control__CatalogueModel *entry, model_t *model, pb_arena_t *arena)
{
    entry->id = model->id;
    entry->ready = model->ready;
    entry->workers = model->ready_workers;
    entry->rising = model->rising;
    entry->tried = model->trial.state == VERSION_TRIED;
    entry->refused = model->trial.state == VERSION_REFUSED;
    if (!model->ready)
        entry->reason = model->reason;
    entry->description = model->canonical ? model->canonical->report : nothing_known(model, arena);
    return entry->description;
}

static void leave_out(models_t *models, Control__CatalogueModel *entry, const model_t *model,
                      Control__ModelReport *bare)
{
    static char reason[] = "the catalogue has no room for its description";
    entry->ready = false;
    entry->workers = 0;
    entry->reason = reason;
    entry->description = bare;
    if (!models->full)
        note_error(models->turn, "catalogue_full", LOG_STR("model", model->name),
                   LOG_I64("version", model->version), LOG_U64("limit_mib", CATALOGUE_BYTES_MAX >> 20));
    models->full = true;
}

/* False: no memory. */
static bool fit_entry(models_t *models, Control__CatalogueModel *entry, model_t *model, pb_arena_t *arena,
                      size_t *room)
{
    size_t bytes = control__catalogue_model__get_packed_size(entry);
    if (bytes > *room) {
        Control__ModelReport *bare = nothing_known(model, arena);
        if (!bare)
            return false;
        leave_out(models, entry, model, bare);
        bytes = control__catalogue_model__get_packed_size(entry);
    }
    *room -= bytes < *room ? bytes : *room;
    return true;
}

Control__Catalogue *announce_catalogue(models_t *models, pb_arena_t *arena)
{
    Control__Catalogue *catalogue = pb_arena_alloc(arena, sizeof *catalogue);
    if (!catalogue)
        return NULL;
    control__catalogue__init(catalogue);
    catalogue->version = models->version;
    catalogue->models =
        repeated_make(&control__catalogue_model__descriptor, models->count, &arena->allocator);
    if (!catalogue->models)
        return NULL;
    size_t room = CATALOGUE_BYTES_MAX;
    for (uint32_t m = 0; m < models->count; m++) {
        Control__CatalogueModel *entry = catalogue->models[catalogue->n_models];
        if (models->all[m]->forgotten)
            continue;
        if (!fill_entry(entry, models->all[m], arena) ||
            !fit_entry(models, entry, models->all[m], arena, &room))
            return NULL;
        catalogue->n_models++;
    }
    return catalogue;
}
