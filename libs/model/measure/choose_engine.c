#include "model/measure/choose_engine.h"

#include "base/clock.h"
#include "base/log.h"
#include "model/measure/agreement.h"
#include "model/measure/pick_engine.h"
#include "model/measure/profiler.h"
#include "model/parts/memory.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the time for measuring; the rest is for the one that is chosen. */
enum { BUDGET_PART = 4, TURN_PART = 16, TURNS = 2, SMALL_PART = 100, FIGURES_BYTES = 96 };
/* How long one size is run on one engine. */
static const int64_t SIZE_NS = 20 * NS_PER_MS;

typedef struct {
    model_t *model;
    const model_load_options_t *options;
    const engine_choice_t *choice;
    const choice_watch_t *watch;
    agreement_t agreement; /* with the first that ran */
    uint32_t sizes[MODEL_ENGINE_SIZES], size_count;
} chooser_t;

/* ---- One engine ---- */

static uint32_t sizes_of(uint32_t max_batch, uint32_t sizes[MODEL_ENGINE_SIZES])
{
    uint32_t count = 0;

    sizes[count++] = 1;
    if (max_batch > 4)
        sizes[count++] = 4;
    if (max_batch > 1)
        sizes[count++] = max_batch;
    return count;
}

/* Runs the engine in use for a part of the time for measuring; `found` keeps the least that a size has ever taken. */
static status_t time_it(const chooser_t *c, const profiler_t *profiler, int part, model_engine_t *found,
                        err_t *err)
{
    profiler_sample_t samples[PROFILER_SIZES_MAX];
    profiler_t how = *profiler;
    uint32_t count;

    how.sizes = c->sizes;
    how.size_count = c->size_count;
    how.size_goal_ns = SIZE_NS;
    how.budget_ns = c->options->profile_budget_ns / part;
    how.granted_ns = NULL;
    status_t status = profiler_run(&how, samples, &count, err);
    for (uint32_t i = 0; status == STATUS_OK && i < count; i++)
        for (uint32_t s = 0; s < c->size_count; s++)
            if (samples[i].batch == c->sizes[s] &&
                (found->latency_ns[s] <= 0 || samples[i].min_ns < found->latency_ns[s]))
                found->latency_ns[s] = samples[i].min_ns; /* one run beside others' work tells nothing */
    return status;
}

/* Whether the engine in use can do what a mode wants. What it says of it goes into why. */
static bool fits_mode(const chooser_t *c, err_t *why)
{
    model_mode_t mode = model_asked_mode(c->model, c->options);
    engine_cuts_t cuts;

    if (mode == MODE_WHOLE || (mode == MODE_PREEMPT && c->model->info->stop_points > 0))
        return true;
    if (model_cuts(c->model, c->options->devices->ops, 0, model_largest(c->model), &cuts, why) != STATUS_OK)
        return false;
    if (cuts.cut_count == 0)
        err_set(why, STATUS_UNSUPPORTED, "it has no border inside");
    return cuts.cut_count > 0;
}

static void name_it(const chooser_t *c, uint32_t which, status_t status, model_engine_t *found)
{
    *found = (model_engine_t){.status = status};
    snprintf(found->name, sizeof(found->name), "%s", c->choice->name(c->model->on_device[0], which));
}

/* What was prepared was prepared on the first. */
static status_t prepare_again(model_t *model, const model_load_options_t *options, err_t *err)
{
    return options->profile_later ? STATUS_OK : model_prepare_engines(model, options, err);
}

/* It would be right, and take minutes for a detector: nothing to measure where another one runs. */
static status_t is_compiled(const chooser_t *c, err_t *err)
{
    return c->agreement.made && c->model->info->interpreted
               ? err_set(err, STATUS_UNSUPPORTED, "its shapes depend on contents: it would be interpreted")
               : STATUS_OK;
}

/* The one that the model was placed on is on it, and is told nobody. */
static status_t put_on(const chooser_t *c, uint32_t which, err_t *err)
{
    engine_model_t *on = c->model->on_device[0];
    const choice_watch_t *watch = c->choice->used(on) == which ? NULL : c->watch;
    const char *name = c->choice->name(on, which);

    if (watch && watch->begins)
        watch->begins(watch->arg, name);
    status_t status = c->choice->use(on, which, err);
    if (status == STATUS_OK)
        status = is_compiled(c, err);
    if (status == STATUS_OK && watch)
        status = prepare_again(c->model, c->options, err);
    return status == STATUS_OK && watch && watch->loaded ? watch->loaded(watch->arg, name, err) : status;
}

/* OK: `found` says how fast it is, or why it is left out. */
static status_t try_engine(chooser_t *c, uint32_t which, model_engine_t *found, err_t *err)
{
    profiler_t profiler = model_profiler_of_largest(c->model, c->options);
    err_t why = {0};

    name_it(c, which, STATUS_OK, found);
    if (atomic_load(c->options->stop))
        return err_set(err, STATUS_CANCELLED, "stopped");
    status_t status = put_on(c, which, &why);
    if (status == STATUS_OK)
        status = agreement_check(&c->agreement, &profiler, &why);
    if (status == STATUS_OK)
        status = time_it(c, &profiler, BUDGET_PART, found, &why);
    found->status = status;
    found->unfit = status == STATUS_OK && !fits_mode(c, &why);
    if (status != STATUS_OK || found->unfit)
        snprintf(found->why, sizeof(found->why), "%.150s", why.text);
    return status == STATUS_CANCELLED ? err_set(err, status, "%s", why.text) : STATUS_OK;
}

static uint32_t find(const chooser_t *c, const char *name)
{
    uint32_t count = c->choice->count(c->model->on_device[0]);

    for (uint32_t i = 0; i < count; i++)
        if (strcmp(c->choice->name(c->model->on_device[0], i), name) == 0)
            return i;
    return UINT32_MAX;
}

/* ---- The fastest ---- */

static picked_from_t found(const chooser_t *c)
{
    return (picked_from_t){c->model->engines, c->model->engine_count, c->sizes, c->size_count};
}

static uint32_t fastest(const chooser_t *c, uint32_t first)
{
    const picked_from_t from = found(c);

    return pick_fastest(&from, first);
}

/* Two that are near each other are run again in turns, so that what else the machine does meanwhile befalls both. */
static status_t run_in_turns(chooser_t *c, uint32_t best, uint32_t which, err_t *err)
{
    profiler_t profiler = model_profiler_of_largest(c->model, c->options);
    const uint32_t both[] = {best, which};
    status_t status = STATUS_OK;

    for (uint32_t n = 0; n < 2 * TURNS && status == STATUS_OK; n++) {
        status = c->choice->use(c->model->on_device[0], both[n % 2], err);
        if (status == STATUS_OK)
            status = time_it(c, &profiler, TURN_PART, &c->model->engines[both[n % 2]], err);
    }
    return status;
}

/* "1: 3.85, 4: 15.2, 32: 120 ms"; a size that there was no time for is left out. */
static void figures(const chooser_t *c, const model_engine_t *e, char *text, size_t size)
{
    size_t len = 0;

    text[0] = '\0';
    for (uint32_t s = 0; s < c->size_count && len < size; s++)
        if (e->latency_ns[s] > 0)
            len += (size_t)snprintf(text + len, size - len, "%s%u: %.3g", len ? ", " : "", c->sizes[s],
                                    (double)e->latency_ns[s] / (double)NS_PER_MS);
    if (len && len < size)
        (void)snprintf(text + len, size - len, " ms");
}

/* What an engine has in running the model. */
static const char *part_of(const char *running, const char *name)
{
    const char *large = strchr(running, '+');
    size_t len = strlen(name);

    if (strcmp(running, name) == 0)
        return "yes";
    if (large && strcmp(large + 1, name) == 0)
        return "large batches";
    return large && strncmp(running, name, len) == 0 && running[len] == ':' ? "small batches" : "no";
}

static void tell(const chooser_t *c, const char *running)
{
    model_t *model = c->model;
    char text[FIGURES_BYTES];
    size_t len = 0;

    model->engines_text[0] = '\0';
    for (uint32_t i = 0; i < model->engine_count; i++) {
        const model_engine_t *e = &model->engines[i];
        figures(c, e, text, sizeof(text));
        log_info("engine_tried", LOG_STR("model", model->name), LOG_STR("engine", e->name),
                 LOG_STR("chosen", part_of(running, e->name)), LOG_STR("batches", text),
                 LOG_STR("reason", e->why));
        if (len < sizeof(model->engines_text))
            len += (size_t)snprintf(model->engines_text + len, sizeof(model->engines_text) - len, "%s%s: %s",
                                    i ? "; " : "", e->name, e->status == STATUS_OK ? text : e->why);
    }
}

/* Where the largest batch takes a hundredth of the SLO, trying others takes longer than it could ever save. */
static bool is_small(const chooser_t *c, const model_engine_t *found)
{
    int64_t largest_ns = found->latency_ns[c->size_count - 1];

    return found->status == STATUS_OK && largest_ns > 0 &&
           largest_ns < model_least_slo_ns(c->model) / SMALL_PART;
}

/* Why others need not be tried; NULL: they are. A plan of overlap is of one engine, which is the same at each start. */
static const char *settled(const chooser_t *c, const model_engine_t *found)
{
    if (is_small(c, found))
        return "the model is so small that it does not matter";
    if (model_asked_mode(c->model, c->options) == MODE_OVERLAP && found->status == STATUS_OK && !found->unfit)
        return "overlap runs on the one that cuts finest";
    return NULL;
}

static void leave_out(const chooser_t *c, uint32_t which, const char *why, model_engine_t *found)
{
    name_it(c, which, STATUS_CANCELLED, found);
    snprintf(found->why, sizeof(found->why), "not tried: %s", why);
}

/* Two have a model at a time: the fastest so far and the one that is tried. */
static status_t keep_fastest(const chooser_t *c, uint32_t first, err_t *err)
{
    engine_model_t *on = c->model->on_device[0];
    uint32_t best = fastest(c, first);
    status_t status = best == UINT32_MAX ? STATUS_OK : c->choice->use(on, best, err);

    for (uint32_t i = 0; i < c->model->engine_count; i++)
        if (status == STATUS_OK && i != c->choice->used(on))
            c->choice->leave(on, i);
    return status;
}

static void tell_leads(const chooser_t *c, uint32_t first)
{
    uint32_t best = fastest(c, first);

    if (c->watch && c->watch->leads && best != UINT32_MAX)
        c->watch->leads(c->watch->arg, c->model->engines[best].name);
}

/* The one that a model is tried on first: where it is to be cut or stopped, that which cuts finest; else the one that it was
 * loaded on. */
static uint32_t first_of(const chooser_t *c)
{
    uint32_t found = find(c, "onednn");
    err_t why;

    if (model_asked_mode(c->model, c->options) == MODE_WHOLE || found == UINT32_MAX ||
        c->choice->use(c->model->on_device[0], found, &why) != STATUS_OK)
        return c->choice->used(c->model->on_device[0]);
    return found;
}

static status_t try_beside_best(chooser_t *c, uint32_t first, uint32_t which, err_t *err)
{
    model_engine_t *engines = c->model->engines;
    uint32_t best = fastest(c, first);
    status_t status = try_engine(c, which, &engines[which], err);

    if (status == STATUS_OK && best != UINT32_MAX && pick_are_near(&engines[best], &engines[which]))
        status = run_in_turns(c, best, which, err);
    return status;
}

static status_t measure_others(chooser_t *c, uint32_t first, err_t *err)
{
    model_t *model = c->model;
    const char *enough = settled(c, &model->engines[first]);
    status_t status = keep_fastest(c, first, err);

    for (uint32_t i = 0; status == STATUS_OK && i < model->engine_count; i++) {
        if (i == first)
            continue;
        if (enough) {
            leave_out(c, i, enough, &model->engines[i]);
            continue;
        }
        tell_leads(c, first);
        status = try_beside_best(c, first, i, err);
        if (status == STATUS_OK)
            status = keep_fastest(c, first, err);
    }
    return status;
}

/* ---- Two of them ---- */

/* Batches are run whole; where they may be stopped, both can. */
static bool may_be_two(const chooser_t *c, uint32_t best)
{
    model_mode_t mode = model_asked_mode(c->model, c->options);

    return mode == MODE_WHOLE || (mode == MODE_PREEMPT && !c->model->engines[best].unfit);
}

static bool find_two(const chooser_t *c, uint32_t best, pick_two_t *two)
{
    const picked_from_t from = found(c);

    return may_be_two(c, best) && pick_two(&from, best, two);
}

/* What was found once is asked again, both being there. */
static status_t confirm_two(chooser_t *c, uint32_t best, pick_two_t *two, bool *confirmed, err_t *err)
{
    uint32_t other = two->small == best ? two->large : two->small;
    engine_model_t *on = c->model->on_device[0];
    err_t why;

    *confirmed = false;
    if (c->watch && c->watch->begins)
        c->watch->begins(c->watch->arg, c->choice->name(on, other));
    if (c->choice->use(on, other, &why) != STATUS_OK)
        return STATUS_OK;
    status_t status = run_in_turns(c, best, other, err);
    *confirmed =
        status == STATUS_OK && find_two(c, best, two) && (two->small == other || two->large == other);
    return status;
}

/* Onto the best, or onto two where they are better. */
static status_t settle_on(chooser_t *c, uint32_t best, err_t *err)
{
    engine_model_t *on = c->model->on_device[0];
    bool confirmed = false;
    pick_two_t two;
    status_t status = find_two(c, best, &two) ? confirm_two(c, best, &two, &confirmed, err) : STATUS_OK;

    if (status == STATUS_OK)
        status = confirmed ? c->choice->use_two(on, two.small, two.rows, two.large, err)
                           : c->choice->use(on, best, err);
    for (uint32_t i = 0; i < c->model->engine_count; i++)
        c->choice->leave(on, i);
    return status;
}

static status_t measure_all(chooser_t *c, err_t *err)
{
    model_t *model = c->model;
    uint32_t count = c->choice->count(model->on_device[0]), first = first_of(c);

    memset(model->engines, 0, sizeof(model->engines));
    model->engine_count = count < MODEL_ENGINES_MAX ? count : MODEL_ENGINES_MAX;
    c->size_count = sizes_of(model->info->max_batch, c->sizes);
    status_t status = try_engine(c, first, &model->engines[first], err);
    if (status == STATUS_OK)
        status = measure_others(c, first, err);
    agreement_dispose(&c->agreement);
    if (status != STATUS_OK)
        return status;
    uint32_t best = fastest(c, first);
    return best == UINT32_MAX ? err_set(err, model->engines[first].status, "%s", model->engines[first].why)
                              : settle_on(c, best, err);
}

/* ---- What need not be measured ---- */

/* One that was loaded on an engine because it is named, or a copy of which was measured. NULL: neither. */
static const char *known_engine(const chooser_t *c, char word[PROFILE_CACHE_ENGINE_BYTES])
{
    if (c->model->only_engine[0])
        return c->model->only_engine;
    return model_known_engine(c->model, c->options, word) ? word : NULL;
}

/* As a trial found, if it did: of what it named. */
static bool was_measured(chooser_t *c, const char *running)
{
    model_t *model = c->model;

    if (strcmp(model->fastest, running) != 0)
        return false;
    c->size_count = sizes_of(model->info->max_batch, c->sizes);
    return true;
}

/* ---- Onto it ---- */

static status_t use_everywhere(const chooser_t *c, const char *name, err_t *err)
{
    model_t *model = c->model;

    for (uint32_t d = 0; d < model->on_device_count; d++) {
        status_t status = c->choice->use_named(model->on_device[d], name, err);
        if (status != STATUS_OK)
            return status;
        c->choice->settle(model->on_device[d]);
    }
    return STATUS_OK;
}

status_t model_compare_engines(model_t *model, const model_load_options_t *options,
                               const choice_watch_t *watch, char best[MODEL_ENGINE_NAME_BYTES], err_t *err)
{
    chooser_t c = {
        .model = model, .options = options, .choice = options->devices->ops->choice, .watch = watch};
    status_t status = measure_all(&c, err);

    if (status == STATUS_OK)
        snprintf(best, MODEL_ENGINE_NAME_BYTES, "%s", c.choice->running(model->on_device[0]));
    return status;
}

/* Whether it is, and fits. */
static bool put_on_known(const chooser_t *c)
{
    char word[PROFILE_CACHE_ENGINE_BYTES];
    const char *known = known_engine(c, word);
    err_t why;

    return known && c->choice->use_named(c->model->on_device[0], known, &why) == STATUS_OK &&
           (c->model->config.engine[0] || fits_mode(c, &why));
}

/* A copy: what the engine says of itself goes with the model there. */
static void note_running(model_t *model, const engine_choice_t *choice)
{
    snprintf(model->running, sizeof(model->running), "%s", choice->running(model->on_device[0]));
    model->engine = model->running;
}

status_t model_choose_engine(model_t *model, const model_load_options_t *options, err_t *err)
{
    chooser_t c = {.model = model, .options = options, .choice = options->devices->ops->choice};

    if (!c.choice) {
        model->engine = options->devices->ops->name;
        return STATUS_OK;
    }
    char first[MODEL_ENGINE_NAME_BYTES];
    snprintf(first, sizeof(first), "%s", c.choice->running(model->on_device[0]));
    bool measures = !put_on_known(&c);
    status_t status = measures ? measure_all(&c, err) : STATUS_OK;
    if (status != STATUS_OK)
        return status;
    note_running(model, c.choice);
    if (measures || was_measured(&c, model->engine))
        tell(&c, model->engine);
    status = use_everywhere(&c, model->engine, err);
    if (status == STATUS_OK && strcmp(first, model->engine) != 0)
        status = prepare_again(model, options, err);
    if (status == STATUS_OK)
        note_running(model, c.choice);
    return status;
}

/* ---- Memory for two ---- */

/* On what it runs now; what it was prepared on before counts no more. */
static status_t prepare_and_take(model_t *model, const model_load_options_t *options, err_t *err)
{
    free(model->batch_bytes);
    model->batch_bytes = NULL;
    status_t status = model_prepare(model, options, err);

    return status == STATUS_OK ? memory_take(model, options->devices, err) : status;
}

/* Of two, the one of the large batches. */
static status_t keep_one(model_t *model, const engine_choice_t *choice, err_t *err)
{
    for (uint32_t d = 0; d < model->on_device_count; d++) {
        engine_model_t *on = model->on_device[d];
        status_t status = choice->use(on, choice->used(on), err);
        if (status != STATUS_OK)
            return status;
        for (uint32_t i = 0; i < choice->count(on); i++)
            choice->leave(on, i);
    }
    if (model->only_engine[0])
        snprintf(model->only_engine, sizeof(model->only_engine), "%s", choice->running(model->on_device[0]));
    return STATUS_OK;
}

status_t model_prepare_engines(model_t *model, const model_load_options_t *options, err_t *err)
{
    const engine_choice_t *choice = options->devices->ops->choice;
    status_t status = prepare_and_take(model, options, err);
    bool fits = status == STATUS_OK && memory_is_ample(model, options->devices);

    if (fits || (status != STATUS_OK && status != STATUS_NO_MEMORY) || !choice ||
        !strchr(choice->running(model->on_device[0]), '+'))
        return status;
    log_info("engine_left", LOG_STR("model", model->name),
             LOG_STR("engine", choice->running(model->on_device[0])),
             LOG_STR("reason", "of two engines one stays: both leave too little memory"));
    status = keep_one(model, choice, err);
    return status == STATUS_OK ? prepare_and_take(model, options, err) : status;
}
