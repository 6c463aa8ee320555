#include "control/models/versions.h"

#include "control/models/instance.h"

#include <string.h>

static bool are_versions(const model_t *a, const model_t *b)
{
    return a != b && strcmp(a->name, b->name) == 0;
}

/* Some worker that has it ready has the other one, too. */
static bool shares_a_worker(const model_t *model, const model_t *other)
{
    for (const instance_t *i = model->instances; i; i = i->next)
        if (instance_is_ready(i) && instance_of(other, i->worker))
            return true;
    return false;
}

/* There is a lower version that is trusted, and none of those vouches for this one. */
static bool is_a_strangers(const models_t *models, const model_t *model)
{
    bool lower = false;
    for (uint32_t m = 0; m < models->count; m++) {
        const model_t *other = models->all[m];
        if (!are_versions(model, other) || !other->ready || other->trial.state != VERSION_TRUSTED)
            continue;
        if (shares_a_worker(model, other))
            return false;
        lower |= other->version < model->version;
    }
    return lower;
}

static void change(models_t *models, model_t *model, version_state_t state)
{
    static const char *const events[] = {[VERSION_TRUSTED] = "version_trusted",
                                         [VERSION_TRIED] = "version_on_trial",
                                         [VERSION_REFUSED] = "version_refused"};
    model->trial.state = state;
    models->changed = true;
    models->version++;
    turn_touch(models->turn);
    note_at(models->turn, state == VERSION_REFUSED ? LOG_WARN : LOG_INFO, events[state],
            LOG_STR("model", model->name), LOG_I64("version", model->version),
            LOG_U64("good", model->trial.good), LOG_U64("bad", model->trial.bad));
}

void versions_settle(models_t *models, model_t *model)
{
    bool was = model->trial.ready, stranger = false;
    model->trial.ready = model->ready;
    if (!model->ready) {
        model->trial.state = VERSION_TRUSTED; /* judged when it comes again */
        return;
    }
    if (!was || model->trial.state == VERSION_TRIED)
        stranger = is_a_strangers(models, model);
    if (!was && stranger) {
        model->trial.good = model->trial.bad = 0;
        change(models, model, VERSION_TRIED);
    } else if (model->trial.state == VERSION_TRIED && !stranger) {
        change(models, model, VERSION_TRUSTED);
    }
}

const char *version_state_name(version_state_t state)
{
    static const char *const names[] = {
        [VERSION_TRUSTED] = "", [VERSION_TRIED] = "tried", [VERSION_REFUSED] = "refused"};
    return names[state];
}

void versions_tick(models_t *models)
{
    for (uint32_t m = 0; m < models->count; m++) {
        model_t *model = models->all[m];
        if (model->trial.state != VERSION_TRIED)
            continue;
        if (model->trial.bad >= VERSION_BAD && model->trial.bad > model->trial.good)
            change(models, model, VERSION_REFUSED);
        else if (model->trial.good >= VERSION_PROVEN && 2 * model->trial.bad <= model->trial.good)
            change(models, model, VERSION_TRUSTED);
    }
}
