/*
 * What a load has left to be measured, while the model serves and its device is quiet: sizes that it was too short for,
 * all but one where others left no time, and what was measured beside other work of the host, as the doubt says.
 */
#include "worker/models/lifecycle_private.h"

#include "base/clock.h"
#include "model/measure/profiler.h"

/* Looked at so often while there is such a profile; after tries that left doubt at twice, four times, … this. */
static const int64_t MEASURE_PAUSE_NS = 2 * NS_PER_S;
/* Of one in doubt nobody waits for a second without a batch: the scheduler tries one each second where it believes that
 * no request can be in time. */
static const int64_t DOUBT_QUIET_NS = 100 * NS_PER_MS;
enum {
    PAUSE_DOUBLINGS = 5,
    TRIES_MAX = 8, /* in four minutes: by then the host is so, and batches that are run correct the rest */
};

/* What measuring it once more may tell; the largest first. */
typedef enum { NOTHING, MORE_SIZES, WITHOUT_DOUBT, WHAT_A_ROW_COSTS, AFRESH } need_t;

typedef struct {
    need_t need;
    model_t *model;
    uint32_t which;
} due_t;

static bool has_sizes_left(const model_t *model, const profile_t *profile)
{
    uint32_t sizes[PROFILER_SIZES_MAX];

    return profile->points < profiler_sizes(model->info->max_batch, sizes, PROFILER_SIZES_MAX);
}

static bool is_in_doubt(const profile_t *profile)
{
    return profile_doubt(profile) > PROFILE_DOUBT_MOST;
}

static need_t need_of(const model_t *model, uint32_t which)
{
    const profile_t *profile = model_measured(model, which);
    const model_again_t *again = &model->serving->again[which];

    if (again->afresh)
        return AFRESH;
    if (!profile_is_whole(profile))
        return WHAT_A_ROW_COSTS;
    if (again->tries >= TRIES_MAX)
        return NOTHING;
    if (is_in_doubt(profile))
        return WITHOUT_DOUBT;
    return !again->all_sizes && has_sizes_left(model, profile) ? MORE_SIZES : NOTHING;
}

static bool are_others_served(const lifecycle_t *l, const model_t *model, need_t need)
{
    const profiler_t profiler = model_profiler(model, &l->options.load, NULL);

    return profiler_others_are_served(&profiler, need == WITHOUT_DOUBT || need == AFRESH ? DOUBT_QUIET_NS
                                                                                         : PROFILER_QUIET_NS);
}

/* Puts into *due what of the model is needed most and can be measured now. True: something is needed, now or later. */
static bool look_at(const lifecycle_t *l, model_t *model, int64_t now_ns, due_t *due)
{
    bool any = false;

    if (model->serving->state != MODEL_READY || !model->corrects)
        return false;
    for (uint32_t p = 0; p < model_profiles(model); p++) {
        need_t need = need_of(model, p);
        any |= need != NOTHING;
        if (need > due->need && !model->serving->successor && now_ns >= model->serving->again[p].next_ns &&
            !are_others_served(l, model, need))
            *due = (due_t){need, model, p};
    }
    return any;
}

void measure_later(lifecycle_t *l, model_t *model)
{
    due_t due = {0};

    if (look_at(l, model, clock_now_ns(), &due))
        loop_timer_start_in(&l->measure, MEASURE_PAUSE_NS);
}

/* Fails only where so much waits that the next look is soon enough. */
static void measure_start(lifecycle_t *l, const due_t *due)
{
    l->measuring = due->model->serving->measuring =
        loader_measure(l->loader, due->model, due->which, due->need == AFRESH) == STATUS_OK;
}

void measure_on_timer(loop_timer_t *timer, void *arg)
{
    lifecycle_t *l = arg;
    const served_t *served = l->options.served;
    int64_t now_ns = clock_now_ns();
    bool any = false;
    due_t due = {0};

    for (uint32_t i = 0; i < served->count; i++)
        any |= look_at(l, served->models[i], now_ns, &due);
    if (any)
        loop_timer_start_in(timer, MEASURE_PAUSE_NS);
    if (due.need != NOTHING && !l->measuring)
        measure_start(l, &due);
}

static void note_try(model_again_t *again, const profile_t *profile)
{
    bool settled = profile && !is_in_doubt(profile);

    again->all_sizes = !again->afresh && (again->all_sizes || profile);
    again->afresh = again->afresh && !profile;
    again->tries = settled ? 0 : again->tries + 1;
    uint32_t doublings = again->tries < PAUSE_DOUBLINGS ? again->tries : PAUSE_DOUBLINGS;
    again->next_ns = clock_now_ns() + (MEASURE_PAUSE_NS << doublings);
}

void measure_done(void *ctx, model_t *model, uint32_t which, const profile_t *profile)
{
    lifecycle_t *l = ctx;

    l->measuring = model->serving->measuring = false;
    if (model->serving->state != MODEL_READY) {
        unload_when_idle(l, model);
        return;
    }
    note_try(&model->serving->again[which], profile);
    if (!profile || !profile_is_whole(profile))
        return;
    model_take_profile(model, which, profile);
    lifecycle_tell(l, model, NULL);
}

static const char *objection_to_measuring(const model_t *model)
{
    if (!model || model->serving->state != MODEL_READY)
        return "it is not served here now";
    return model->corrects ? NULL : "how long it takes was given, and not measured";
}

void lifecycle_measure(lifecycle_t *l, uint64_t id, const char *name, int64_t version)
{
    model_t *model = served_find_version(l->options.served, name, version);
    const char *no = objection_to_measuring(model);

    for (uint32_t p = 0; !no && p < model_profiles(model); p++)
        model->serving->again[p] = (model_again_t){.afresh = true};
    if (!no)
        loop_timer_start_in(&l->measure, 0);
    l->options.ops->answer(l->options.ctx, id, no ? STATUS_UNSUPPORTED : STATUS_OK, no ? no : "");
}
