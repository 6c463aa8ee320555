#include "gateway/models/catalogue.h"

#include "base/log.h"
#include "base/map.h"
#include "control.pb-c.h"
#include "metrics/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The versions of one name. */
typedef struct {
    model_entry_t *first; /* by version; NULL only within an update */
    char name[];
} model_versions_t;

struct catalogue {
    metrics_t *metrics;
    struct stats_board *board;
    strmap_t by_name;                              /* model_versions_t */
    model_versions_t *names[CATALOGUE_MODELS_MAX]; /* between updates, in their order */
    uint32_t name_count;
    uint32_t count, ready_count; /* versions */
    uint32_t trial_turn;
};

status_t catalogue_create(struct metrics *metrics, struct stats_board *board, catalogue_t **catalogue,
                          err_t *err)
{
    catalogue_t *made = calloc(1, sizeof *made);
    if (!made || strmap_init(&made->by_name, CATALOGUE_MODELS_MAX, NULL) != STATUS_OK) {
        free(made);
        return err_set(err, STATUS_NO_MEMORY, "no memory for the model catalogue");
    }
    made->metrics = metrics;
    made->board = board;
    *catalogue = made;
    return STATUS_OK;
}

void catalogue_destroy(catalogue_t *catalogue)
{
    if (!catalogue)
        return;
    for (uint32_t i = 0; i < catalogue->name_count; i++) {
        for (model_entry_t *entry; (entry = catalogue->names[i]->first);) {
            catalogue->names[i]->first = entry->next;
            model_entry_unref(entry);
        }
        free(catalogue->names[i]);
    }
    strmap_dispose(&catalogue->by_name);
    free(catalogue);
}

model_entry_t *catalogue_next(const catalogue_t *catalogue, const model_entry_t *entry, uint32_t *name)
{
    model_entry_t *next = entry ? entry->next : NULL;
    if (!next && *name < catalogue->name_count)
        next = catalogue->names[(*name)++]->first;
    return next;
}

/* ------------------------------------------------------------------ taking over */

static const char *state_text(bool ready, Control__ModelState state)
{
    if (ready)
        return "READY";
    if (state == CONTROL__MODEL_STATE__MODEL_STATE_LOADING)
        return "LOADING";
    return state == CONTROL__MODEL_STATE__MODEL_STATE_UNLOADING ? "UNLOADING" : "UNAVAILABLE";
}

/* NULL: no room. */
static model_versions_t *versions_for(catalogue_t *catalogue, const char *name)
{
    model_versions_t *model = strmap_get(&catalogue->by_name, name);
    size_t bytes = strlen(name) + 1;
    if (model || catalogue->name_count == CATALOGUE_MODELS_MAX)
        return model;
    model = malloc(sizeof *model + bytes);
    if (!model)
        return NULL;
    model->first = NULL;
    memcpy(model->name, name, bytes);
    strmap_put(&catalogue->by_name, model->name, model);
    catalogue->names[catalogue->name_count++] = model;
    return model;
}

/* The entry of that version, or where one belongs. */
static model_entry_t **place_of(model_versions_t *model, int64_t version)
{
    model_entry_t **at = &model->first;
    while (*at && (*at)->version < version)
        at = &(*at)->next;
    return at;
}

/* The entry that the report describes: the one that is there, or a new one in its place. NULL: no room. */
static model_entry_t *entry_for(catalogue_t *catalogue, const Control__ModelReport *report)
{
    model_versions_t *model = versions_for(catalogue, report->name);
    if (!model)
        return NULL;
    model_entry_t **place = place_of(model, report->version), *old = *place;
    bool exists = old && old->version == report->version;
    if (exists && model_entry_is(old, report))
        return old;
    if (!exists && catalogue->count == CATALOGUE_MODELS_MAX)
        return NULL;
    model_entry_t *made = model_entry_create(report, catalogue->metrics, catalogue->board);
    if (!made)
        return NULL;
    made->next = exists ? old->next : old;
    *place = made;
    catalogue->count += !exists;
    if (exists) {
        old->listed = false;
        model_stats_leave(&old->stats);
        model_entry_unref(old);
    }
    return made;
}

static void put_model(catalogue_t *catalogue, const Control__CatalogueModel *model)
{
    const Control__ModelReport *report = model->description;
    model_entry_t *entry = entry_for(catalogue, report);
    if (!entry) {
        log_error_limited("model_ignored", LOG_STR("model", report->name),
                          LOG_I64("version", report->version));
        return;
    }
    entry->id = model->id;
    entry->rising = model->rising;
    entry->tried = model->tried;
    entry->refused = model->refused;
    entry->listed = true;
    entry->ready = model->ready && !entry->defect[0];
    /* A model that is still loading has no tensors yet: that is no defect, and the worker's reason says more. */
    snprintf(entry->reason, sizeof entry->reason, "%s", model->ready ? entry->defect : model->reason);
    snprintf(entry->note, sizeof entry->note, "%s", model->ready ? report->reason : "");
    entry->state = state_text(entry->ready, report->state);
}

static void keep_unlisted(model_entry_t *entry)
{
    entry->ready = false;
    entry->state = state_text(false, CONTROL__MODEL_STATE__MODEL_STATE_UNKNOWN);
    snprintf(entry->reason, sizeof entry->reason, "no worker has reported it to the scheduler yet");
}

static void settle_versions(catalogue_t *catalogue, model_versions_t *model, bool keep_absent)
{
    for (model_entry_t **at = &model->first; *at;) {
        model_entry_t *entry = *at;
        if (entry->listed || keep_absent) {
            if (!entry->listed)
                keep_unlisted(entry);
            at = &entry->next;
        } else {
            *at = entry->next;
            catalogue->count--;
            model_stats_hide(&entry->stats);
            model_entry_unref(entry);
        }
    }
}

static void drop_empty_names(catalogue_t *catalogue)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < catalogue->name_count; i++) {
        model_versions_t *model = catalogue->names[i];
        if (model->first) {
            catalogue->names[kept++] = model;
        } else {
            strmap_remove(&catalogue->by_name, model->name);
            free(model);
        }
    }
    catalogue->name_count = kept;
}

static void settle(catalogue_t *catalogue, bool keep_absent)
{
    for (uint32_t i = 0; i < catalogue->name_count; i++)
        settle_versions(catalogue, catalogue->names[i], keep_absent);
    drop_empty_names(catalogue);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(model_versions_t *const *)a)->name, (*(model_versions_t *const *)b)->name);
}

static bool is_known(const catalogue_t *catalogue, const Control__ModelReport *report)
{
    model_versions_t *model = strmap_get(&catalogue->by_name, report->name);
    const model_entry_t *entry = model ? *place_of(model, report->version) : NULL;
    return entry && entry->version == report->version;
}

/* Either those that are there, or those that are not. */
static void put_models(catalogue_t *catalogue, const Control__Catalogue *message, bool known)
{
    for (size_t i = 0; i < message->n_models; i++) {
        const Control__ModelReport *report = message->models[i]->description;
        if (report && report->name[0] && is_known(catalogue, report) == known)
            put_model(catalogue, message->models[i]);
    }
}

void catalogue_update(catalogue_t *catalogue, const Control__Catalogue *message, bool keep_absent)
{
    uint32_t name = 0;
    for (model_entry_t *entry = NULL; (entry = catalogue_next(catalogue, entry, &name));)
        entry->listed = false;
    put_models(catalogue, message, true);
    settle(catalogue, keep_absent); /* what leaves makes room for what comes */
    uint32_t before = catalogue->name_count;
    put_models(catalogue, message, false);
    drop_empty_names(catalogue);
    if (catalogue->name_count > before)
        qsort(catalogue->names, catalogue->name_count, sizeof catalogue->names[0], by_name);
    catalogue->ready_count = name = 0;
    for (model_entry_t *entry = NULL; (entry = catalogue_next(catalogue, entry, &name));)
        catalogue->ready_count += entry->ready;
    log_info("catalogue", LOG_U64("version", message->version), LOG_U64("models", catalogue->count),
             LOG_U64("ready", catalogue->ready_count));
}

static bool is_doubted(const model_entry_t *entry)
{
    return entry->tried || entry->refused;
}

/* ------------------------------------------------------------------ reading */

/* How well a version serves those who name none. */
static int fitness(const model_entry_t *entry)
{
    if (!entry->ready)
        return 0;
    return is_doubted(entry) ? 1 : 3 - entry->rising;
}

status_t catalogue_find(catalogue_t *catalogue, const char *name, const char *version, model_entry_t **entry,
                        err_t *err)
{
    const model_versions_t *model = strmap_get(&catalogue->by_name, name);
    bool any_version = !version || !version[0];
    model_entry_t *found = NULL;
    if (!model)
        return err_set(err, STATUS_NOT_FOUND, "unknown model '%s'", name);
    for (model_entry_t *at = model->first; at; at = at->next)
        if (any_version ? !found || fitness(at) >= fitness(found) : strcmp(at->spec.version, version) == 0)
            found = at;
    if (!found)
        return err_set(err, STATUS_NOT_FOUND, "model '%s' has no version '%s'", name, version);
    *entry = found;
    return STATUS_OK;
}

model_entry_t *catalogue_share(catalogue_t *catalogue, model_entry_t *serving)
{
    enum { TRIAL_SHARE = 8 };
    for (model_entry_t *at = serving->next; at; at = at->next)
        if (at->ready && at->tried && fitness(serving) > fitness(at) && model_entry_alike(at, serving))
            return ++catalogue->trial_turn % TRIAL_SHARE == 0 ? at : serving;
    return serving;
}

model_entry_t *catalogue_fallback(catalogue_t *catalogue, const model_entry_t *entry)
{
    model_entry_t *now;
    if (!is_doubted(entry) || catalogue_find(catalogue, entry->spec.name, NULL, &now, NULL) != STATUS_OK)
        return NULL;
    return now->ready && !is_doubted(now) && model_entry_alike(now, entry) ? now : NULL;
}

model_entry_t *catalogue_successor(catalogue_t *catalogue, model_entry_t *entry)
{
    model_entry_t *now;
    if (entry->listed && entry->ready)
        return entry;
    if (catalogue_find(catalogue, entry->spec.name, NULL, &now, NULL) != STATUS_OK)
        return entry;
    return now->ready && model_entry_alike(now, entry) ? now : entry;
}

uint32_t catalogue_versions(catalogue_t *catalogue, const char *name, const char **versions, uint32_t cap)
{
    const model_versions_t *model = strmap_get(&catalogue->by_name, name);
    uint32_t count = 0;
    for (int all = 0; model && all < 2 && count == 0; all++)
        for (model_entry_t *entry = model->first; entry && count < cap; entry = entry->next)
            if (all || entry->ready)
                versions[count++] = entry->spec.version;
    return count;
}

uint32_t catalogue_count(const catalogue_t *catalogue)
{
    return catalogue->count;
}

uint32_t catalogue_ready_count(const catalogue_t *catalogue)
{
    return catalogue->ready_count;
}

/* ------------------------------------------------------------------ documents */

status_t catalogue_write_index(catalogue_t *catalogue, bool only_ready, bool pb, strbuf_t *out)
{
    oip_index_entry_t *entries = calloc(catalogue->count + 1, sizeof *entries);
    uint32_t count = 0, name = 0;
    if (!entries)
        return STATUS_NO_MEMORY;
    for (const model_entry_t *entry = NULL; (entry = catalogue_next(catalogue, entry, &name));)
        if (entry->ready || !only_ready)
            entries[count++] = (oip_index_entry_t){.name = entry->spec.name,
                                                   .version = entry->spec.version,
                                                   .state = entry->state,
                                                   .reason = entry->ready ? entry->note : entry->reason};
    status_t status =
        pb ? oip_describe_index_pb(out, entries, count) : oip_describe_index_json(out, entries, count);
    free(entries);
    return status;
}

static bool is_wanted(const model_entry_t *entry, const char *name, const char *version)
{
    return (!name || !name[0] || strcmp(entry->spec.name, name) == 0) &&
           (!version || !version[0] || strcmp(entry->spec.version, version) == 0);
}

status_t catalogue_write_stats(catalogue_t *catalogue, const char *name, const char *version, bool pb,
                               strbuf_t *out, err_t *err)
{
    model_entry_t *found;
    if (name && name[0] && catalogue_find(catalogue, name, version, &found, err) != STATUS_OK)
        return STATUS_NOT_FOUND;
    oip_model_stats_t *stats = calloc(catalogue->count + 1, sizeof *stats);
    oip_batch_stats_t(*batches)[STATS_BATCHES_MAX] = calloc(catalogue->count + 1, sizeof *batches);
    status_t status = STATUS_NO_MEMORY;
    if (stats && batches) {
        uint32_t count = 0, at = 0;
        for (const model_entry_t *entry = NULL; (entry = catalogue_next(catalogue, entry, &at));) {
            if (!is_wanted(entry, name, version))
                continue;
            model_stats_describe(&entry->stats, &stats[count], batches[count]);
            count++;
        }
        status = pb ? oip_describe_stats_pb(out, stats, count) : oip_describe_stats_json(out, stats, count);
    }
    free(stats);
    free(batches);
    return status == STATUS_OK ? STATUS_OK : err_set(err, status, "cannot write the statistics");
}
