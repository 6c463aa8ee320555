#include "control/tasks/foretell.h"

#include "control/models/shapes.h"
#include "control/tasks/deadline.h"
#include "estimate_parts.h"
#include "sched/estimate.h"

#include <string.h>

_Static_assert((int)ESTIMATE_LEVELS == (int)SHED_LEVELS, "an estimate has a part for each level");

/* ---- What is told ---- */

static int64_t told_least_ns(const model_t *model, int64_t now_ns)
{
    return now_ns < model->foretold.least_until_ns ? deadline_least_ns(model) : 0;
}

static bool tells_parts(const model_t *model, int64_t now_ns)
{
    return now_ns < model->foretold.parts_until_ns && shed_is_closing(&model->home->shed);
}

static bool is_told(const model_t *model, int64_t now_ns)
{
    return model->home &&
           (told_least_ns(model, now_ns) > 0 || tells_parts(model, now_ns) || model->foretold.waits);
}

static void look_at(model_t *model, int64_t now_ns)
{
    if (model->infeasible != model->foretold.infeasible)
        model->foretold.least_until_ns = now_ns + FORETELL_LATELY_NS;
    if (model->ran.requests != model->foretold.requests)
        model->foretold.parts_until_ns = now_ns + FORETELL_LATELY_NS;
    model->foretold.infeasible = model->infeasible;
    model->foretold.requests = model->ran.requests;
    model->foretold.waits = model->home && shapes_axis_count(model) == 0 &&
                            subcluster_backlog(model->home, model->id, &model->foretold.backlog);
}

/* What waits of low priority is no reason to refuse those of higher. A window of the shed may just have begun, with nobody seen yet. */
static void look_at_priorities(tasks_t *tasks, const subcluster_t *home)
{
    int64_t now_ns = tasks->turn->now_ns;
    uint32_t level = 0;
    while (level < SHED_LEVELS && home->shed.seen[level] == 0)
        level++;
    if (level == SHED_LEVELS || (level > tasks->foretold.lowest[home->index].level &&
                                 now_ns < tasks->foretold.lowest[home->index].until_ns))
        return;
    tasks->foretold.lowest[home->index].level = level;
    tasks->foretold.lowest[home->index].until_ns = now_ns + FORETELL_LATELY_NS;
}

void foretell_tick(tasks_t *tasks)
{
    int64_t now_ns = tasks->turn->now_ns;
    bool told = tasks->foretold.count > 0;
    tasks->foretold.count = 0;
    for (uint32_t i = 0; i < tasks->subclusters->count; i++)
        look_at_priorities(tasks, tasks->subclusters->all[i]);
    for (uint32_t m = 0; m < tasks->models->count; m++) {
        look_at(tasks->models->all[m], now_ns);
        tasks->foretold.count += is_told(tasks->models->all[m], now_ns);
    }
    tasks->foretold.due = told || tasks->foretold.count > 0;
}

/* ---- The message ---- */

/* False: no memory. */
static bool make_room_for_backlog(Control__Estimate *estimate, uint32_t models, pb_arena_t *arena)
{
    estimate->backlog_ns = pb_arena_alloc(arena, (models + 1) * sizeof *estimate->backlog_ns);
    estimate->row_ns = pb_arena_alloc(arena, (models + 1) * sizeof *estimate->row_ns);
    estimate->behind_ns = pb_arena_alloc(arena, (models + 1) * sizeof *estimate->behind_ns);
    estimate->backlog_priority = pb_arena_alloc(arena, (models + 1) * sizeof *estimate->backlog_priority);
    return estimate->backlog_ns && estimate->row_ns && estimate->behind_ns && estimate->backlog_priority;
}

/* Likewise. */
static bool make_room(const tasks_t *tasks, Control__Estimate *estimate, pb_arena_t *arena)
{
    uint32_t models = tasks->foretold.count, homes = tasks->subclusters->count;
    estimate->model = pb_arena_alloc(arena, (models + 1) * sizeof *estimate->model);
    estimate->least_ns = pb_arena_alloc(arena, (models + 1) * sizeof *estimate->least_ns);
    estimate->parts = pb_arena_alloc(arena, (models + 1) * sizeof *estimate->parts);
    estimate->refuse = pb_arena_alloc(arena, (homes + 1) * SHED_LEVELS * sizeof *estimate->refuse);
    return estimate->model && estimate->least_ns && estimate->parts && estimate->refuse &&
           make_room_for_backlog(estimate, models, arena);
}

/* The number of the home's parts, which are written where they are wanted first. */
static uint32_t parts_of(Control__Estimate *estimate, const subcluster_t *home,
                         uint32_t numbers[SUBCLUSTERS_MAX])
{
    if (numbers[home->index] == 0) {
        memcpy(estimate->refuse + estimate->n_refuse, home->shed.refuse, sizeof home->shed.refuse);
        estimate->n_refuse += SHED_LEVELS;
        numbers[home->index] = (uint32_t)(estimate->n_refuse / SHED_LEVELS);
    }
    return numbers[home->index];
}

/* The core was given deadlines that leave time for the answer's way back; budgets are told as their clients have them. */
static void put_backlog(const tasks_t *tasks, Control__Estimate *estimate, size_t place, const model_t *model)
{
    const sched_backlog_t *backlog = &model->foretold.backlog;
    int64_t now_ns = tasks->turn->now_ns, left_ns = backlog->deadline_ns - now_ns;
    bool waits = model->foretold.waits;
    estimate->backlog_ns[place] = waits ? backlog->ends_ns - now_ns : 0;
    estimate->row_ns[place] = waits ? backlog->row_ns : 0;
    estimate->behind_ns[place] = waits ? left_ns + deadline_reserve_ns(model->home, left_ns) : 0;
    estimate->backlog_priority[place] = waits ? tasks->foretold.lowest[model->home->index].level : 0;
}

static void put_models(const tasks_t *tasks, Control__Estimate *estimate)
{
    int64_t now_ns = tasks->turn->now_ns;
    uint32_t numbers[SUBCLUSTERS_MAX] = {0};
    size_t count = 0;
    bool waits = false;
    for (uint32_t m = 0; m < tasks->models->count && count < tasks->foretold.count; m++) {
        const model_t *model = tasks->models->all[m];
        if (!is_told(model, now_ns))
            continue;
        waits |= model->foretold.waits;
        put_backlog(tasks, estimate, count, model);
        estimate->model[count] = model->id;
        estimate->least_ns[count] = told_least_ns(model, now_ns);
        estimate->parts[count++] = tells_parts(model, now_ns) ? parts_of(estimate, model->home, numbers) : 0;
    }
    estimate->n_model = estimate->n_least_ns = estimate->n_parts = count;
    estimate->n_backlog_ns = estimate->n_row_ns = waits ? count : 0;
    estimate->n_behind_ns = estimate->n_backlog_priority = waits ? count : 0;
}

Control__Estimate *foretell_message(tasks_t *tasks, pb_arena_t *arena)
{
    if (!tasks->foretold.due)
        return NULL;
    tasks->foretold.due = false;
    Control__Estimate *estimate = pb_arena_alloc(arena, sizeof *estimate);
    if (!estimate)
        return NULL;
    control__estimate__init(estimate);
    if (!make_room(tasks, estimate, arena))
        return NULL;
    put_models(tasks, estimate);
    return estimate;
}

/* ---- What gateways have refused ---- */

static void count_refused(model_t *model, uint32_t priority, const estimate_refused_t *refused)
{
    uint32_t busy = refused->overload + refused->backlog; /* a message has fewer than wrap */
    model->infeasible += refused->infeasible;
    metrics_add(model->metrics.infeasible, refused->infeasible);
    if (busy == 0)
        return;
    model->ran.requests += busy;
    model->dropped += busy;
    metrics_add(model->metrics.dropped, busy);
    if (!model->home)
        return;
    model->home->sums.requests += busy;
    model->home->sums.bad += busy;
    shed_note_judged(&model->home->shed, priority, 0, busy);
    subcluster_note_refused(model->home, model->id, refused->backlog);
}

/* What is left of what one message may report. */
static uint32_t take(uint32_t *left, uint32_t count)
{
    uint32_t taken = count < *left ? count : *left;
    *left -= taken;
    return taken;
}

void foretell_refused(tasks_t *tasks, gateway_t *gateway, const Control__Refused *refused)
{
    size_t n = refused->n_model;
    uint32_t left = FORETELL_REFUSED_MOST;
    if (refused->n_priority != n || refused->n_overload != n || refused->n_infeasible != n ||
        (refused->n_backlog != n && refused->n_backlog != 0)) {
        peer_complain(&gateway->peer, NONSENSE_ARRAYS, "what it says that it refused is ignored");
        return;
    }
    if (gateway->estimates == 0) {
        peer_complain(&gateway->peer, NONSENSE_FLOOD,
                      "it refused tasks that it was told nothing of; they are not counted");
        return;
    }
    gateway->estimates--;
    for (size_t i = 0; i < n; i++) {
        model_t *model = models_get(tasks->models, refused->model[i]);
        const estimate_refused_t counts = {.overload = take(&left, refused->overload[i]),
                                           .backlog =
                                               take(&left, refused->n_backlog > 0 ? refused->backlog[i] : 0),
                                           .infeasible = take(&left, refused->infeasible[i])};
        if (model)
            count_refused(model, refused->priority[i], &counts);
        else
            peer_complain(&gateway->peer, NONSENSE_MODEL, "it refused tasks of an unknown catalogue id");
    }
    if (left == 0)
        peer_complain(&gateway->peer, NONSENSE_FLOOD,
                      "it refused more tasks than it can have got; a part is counted");
}
