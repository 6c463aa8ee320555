#include "engine/auto/member.h"

#include "engine/backends.h"
#include "engine/plugin/plugin.h"

#include <stdlib.h>
#include <string.h>

const char *const members_names[AUTO_MEMBERS_MAX] = {"onnxruntime", "openvino", "onednn"};

/* ---- Engines ---- */

static status_t find(const char *name, const engine_ops_t **ops, err_t *err)
{
    if (strcmp(name, engine_onednn.name) != 0)
        return plugin_load(name, ops, err);
    *ops = &engine_onednn;
    return STATUS_OK;
}

/* An engine that is not here is none of several; one that is, and was told what it cannot do, is a mistake. */
static bool is_mistaken(const engine_config_t *config, const char *name)
{
    return config->providers && config->providers[0] && strcmp(name, "onnxruntime") == 0;
}

status_t members_open(members_t *members, const engine_config_t *config, err_t *err)
{
    *members = (members_t){0};
    for (uint32_t i = 0; i < AUTO_MEMBERS_MAX; i++) {
        member_t *member = &members->list[members->count];
        if (find(members_names[i], &member->ops, err) == STATUS_OK &&
            member->ops->open(config, &member->engine, err) == STATUS_OK) {
            members->names[members->count++] = member->ops->name;
        } else if (is_mistaken(config, members_names[i])) {
            members_close(members);
            return err->code;
        }
    }
    return members->count ? STATUS_OK : STATUS_UNAVAILABLE;
}

void members_close(members_t *members)
{
    for (uint32_t i = 0; i < members->count; i++)
        members->list[i].ops->close(members->list[i].engine);
    members->count = 0;
}

/* ---- Descriptions ---- */

static bool same_tensors(const engine_tensor_t *a, const engine_tensor_t *b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(a[i].name, b[i].name) != 0 || a[i].dtype != b[i].dtype || a[i].rank != b[i].rank ||
            memcmp(a[i].dims, b[i].dims, a[i].rank * sizeof a[i].dims[0]) != 0)
            return false;
    return true;
}

static bool same_info(const engine_model_info_t *a, const engine_model_info_t *b)
{
    return a->input_count == b->input_count && a->output_count == b->output_count &&
           a->batchable == b->batchable && a->max_batch == b->max_batch &&
           same_tensors(a->inputs, b->inputs, a->input_count) &&
           same_tensors(a->outputs, b->outputs, a->output_count);
}

static status_t copy_info(description_t *d, const engine_model_info_t *info, err_t *err)
{
    const engine_load_t rows = {.inputs = info->inputs,
                                .outputs = info->outputs,
                                .input_count = info->input_count,
                                .output_count = info->output_count,
                                .batching = info->batchable ? ENGINE_BATCH_FORCE : ENGINE_BATCH_NONE,
                                .max_batch = info->max_batch};
    status_t status = description_from_tensors(d, &rows, err);
    if (status == STATUS_OK) {
        d->info.memory_bytes = info->memory_bytes;
        d->info.stop_points = info->stop_points;
        d->info.interpreted = info->interpreted;
        memcpy(d->info.alone, info->alone, sizeof d->info.alone);
    }
    return status;
}

/* ---- A model ---- */

static void leave(engine_model_t *model, uint32_t which)
{
    if (model->on[which])
        model->members->list[which].ops->unload(model->on[which]);
    model->on[which] = NULL;
}

static status_t load_on(engine_model_t *model, uint32_t which, err_t *err)
{
    const member_t *member = &model->members->list[which];
    if (model->on[which])
        return STATUS_OK;
    if (describe_is_among(model->load.without, member->ops->name))
        return err_set(err, STATUS_UNSUPPORTED, "engine %s did not stand loading the model on trial",
                       member->ops->name);
    if (!model->load.name)
        return err_set(err, STATUS_UNAVAILABLE, "the engine of the model is settled");
    status_t status = member->ops->load(member->engine, &model->load, &model->on[which], err);
    if (status != STATUS_OK)
        model->on[which] = NULL;
    return status;
}

static bool is_used(const engine_model_t *model, uint32_t which)
{
    return which == model->used.small || which == model->used.large;
}

/* As it was described first. */
static status_t enter(engine_model_t *model, uint32_t which, err_t *err)
{
    const engine_ops_t *ops = model->members->list[which].ops;
    const char *wrong = is_used(model, which) ? NULL : faults_of(model->faults, ops->name);
    if (wrong)
        return err_set(err, STATUS_UNSUPPORTED, "known to be wrong there: %s", wrong);
    status_t status = load_on(model, which, err);
    if (status != STATUS_OK || same_info(ops->info(model->on[which]), &model->description.info))
        return status;
    leave(model, which);
    return err_set(err, STATUS_UNSUPPORTED, "it describes the model otherwise");
}

static void run_on(engine_model_t *model, const split_t *split)
{
    model->used = *split;
    split_name(split, model->members->names, model->running);
    member_count_memory(model);
}

status_t member_model_use(engine_model_t *model, const split_t *wanted, err_t *err)
{
    status_t status = enter(model, wanted->large, err);
    if (status == STATUS_OK && wanted->rows)
        status = enter(model, wanted->small, err);
    if (status == STATUS_OK)
        run_on(model, wanted);
    return status;
}

status_t member_model_use_named(engine_model_t *model, const char *name, err_t *err)
{
    split_t split;
    if (!split_parse(name, model->members->names, model->members->count, &split))
        return err_set(err, STATUS_NOT_FOUND, "engine '%.40s' is not here", name);
    return member_model_use(model, &split, err);
}

void member_model_leave(engine_model_t *model, uint32_t which)
{
    if (!is_used(model, which))
        leave(model, which);
}

void member_count_memory(engine_model_t *model)
{
    engine_model_info_t *info = &model->description.info;
    const engine_model_info_t *told = member_ops(model)->info(member_model(model));
    info->memory_bytes = told->memory_bytes;
    info->stop_points = told->stop_points;
    info->interpreted = told->interpreted;
    if (model->used.rows == 0)
        return;
    told = member_at(model, 1)->ops->info(member_model_at(model, 1));
    info->memory_bytes += told->memory_bytes;
    info->stop_points = told->stop_points < info->stop_points ? told->stop_points : info->stop_points;
    info->interpreted |= told->interpreted;
}

void member_model_settle(engine_model_t *model)
{
    for (uint32_t i = 0; i < model->members->count; i++)
        member_model_leave(model, i);
    describe_load_dispose(&model->load);
}

enum { REASON_BYTES = 240 }; /* so that two of them are one error */

/* What the first says is told, and behind it what others lack. oneDNN comes in front: it names the node. */
static status_t add_reason(const engine_ops_t *ops, const err_t *why, bool first, err_t *err)
{
    err_t before = *err;
    if (first)
        return err_set(err, why->code, "%s", why->text);
    if (ops == &engine_onednn)
        return why->code == STATUS_UNSUPPORTED && strcmp(why->text, before.text) != 0
                   ? err_set(err, why->code, "%.*s; %.*s", REASON_BYTES, why->text, REASON_BYTES, before.text)
                   : err_set(err, why->code, "%s", why->text);
    return before.code;
}

/* What was said before of the engines that do not take it. */
typedef struct {
    const char *only;
    bool first;
    status_t status;
} refusals_t;

/* Those of which something wrong is known, or those of which nothing is. True: it is on one. */
static bool load_on_some(engine_model_t *model, bool wrong, refusals_t *so_far, err_t *err)
{
    for (uint32_t i = 0; i < model->members->count; i++) {
        const engine_ops_t *ops = model->members->list[i].ops;
        err_t why;
        if ((so_far->only && strcmp(so_far->only, ops->name) != 0) ||
            wrong != !!faults_of(model->faults, ops->name))
            continue;
        so_far->status = load_on(model, i, &why);
        if (so_far->status == STATUS_OK) {
            run_on(model, &(split_t){.small = i, .large = i});
            return true;
        }
        so_far->status = add_reason(ops, &why, so_far->first, err);
        so_far->first = false;
    }
    return false;
}

/* What every other engine refuses is served by one that is wrong in some of it, as everybody else serves it. */
static status_t load_first(engine_model_t *model, const char *only, err_t *err)
{
    refusals_t refusals = {.only = only, .first = true};
    faults_find(&model->load, model->faults);
    refusals.status = err_set(err, STATUS_NOT_FOUND, "engine '%.40s' is not here", only ? only : "auto");
    if (!load_on_some(model, false, &refusals, err))
        load_on_some(model, true, &refusals, err);
    return refusals.status;
}

/* Of one, or of two (split.h); what names neither stays as it is. */
static const char *name_of_large(const members_t *members, const char *only)
{
    split_t split;
    return only && split_parse(only, members->names, members->count, &split) ? members->names[split.large]
                                                                             : only;
}

status_t member_model_create(const members_t *members, const engine_load_t *what, engine_model_t **out,
                             err_t *err)
{
    engine_model_t *model = calloc(1, sizeof *model);
    if (!model)
        return err_set(err, STATUS_NO_MEMORY, "no memory for model '%.80s'", what->name);
    model->members = members;
    status_t status = describe_load_copy(&model->load, what, err);
    if (status == STATUS_OK)
        status = load_first(model, name_of_large(members, what->only), err);
    if (status == STATUS_OK)
        status = copy_info(&model->description, member_ops(model)->info(member_model(model)), err);
    if (status == STATUS_OK && what->only)
        status = member_model_use_named(model, what->only, err);
    if (status == STATUS_OK)
        *out = model;
    else
        member_model_destroy(model);
    return status;
}

void member_model_destroy(engine_model_t *model)
{
    for (uint32_t i = 0; i < model->members->count; i++)
        leave(model, i);
    describe_load_dispose(&model->load);
    description_dispose(&model->description);
    free(model);
}
