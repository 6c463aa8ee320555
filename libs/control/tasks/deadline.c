/* Hot path. */
#include "control/tasks/deadline.h"

#include "control/models/instance.h"
#include "control/models/shapes.h"

/* What goes before and behind a batch takes at most a quarter of the budget: on a host so bad that more was measured it is
 * better to try than to refuse everything, and only what is tried brings new measurements. */
enum { RESERVE_SHARE = 4 };
/* A measurement may be off by so much, on a host that did other things meanwhile. */
enum { WRONG_MOST = 4 };
/* A model that takes longer than its own SLO is held for as long as its row takes, and as long again for the way. */
enum { ALONE_SHARE = 2 };
/* What leaves the core sooner was not held: it takes too long, or the core has no room for it. */
enum { HELD_SHARE = 4 };

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* A profile that was taken, or corrected, while the host did other things is too slow, and the core sees it first. */
static double quicker(const subcluster_t *home, uint32_t core_id)
{
    sched_scatter_t scatter;
    if (!home)
        return 1;
    subcluster_model_scatter(home, core_id, &scatter);
    return scatter.mean < 1 ? scatter.mean : 1;
}

void deadlines_tick(tasks_t *tasks)
{
    for (uint32_t m = 0; m < tasks->models->count; m++) {
        tasks->models->all[m]->quicker = quicker(tasks->models->all[m]->home, m);
        for (shape_t *shape = tasks->models->all[m]->shapes; shape; shape = shape->next)
            shape->quicker = quicker(shape->home, shape->core_id);
    }
}

int64_t deadline_alone_ns(const task_t *task, const model_t *model)
{
    int64_t alone_ns = task->shape ? task->shape->alone_ns : profile_latency_ns(model->profile, 1);
    double factor = task->shape ? task->shape->quicker : model->quicker;
    return factor > 0 ? (int64_t)((double)alone_ns * factor) : alone_ns;
}

bool deadline_infeasible(const subcluster_t *home, int64_t alone_ns, int64_t budget_ns)
{
    if (budget_ns <= 0)
        return true;
    return alone_ns > 0 && budget_ns < alone_ns + smaller(home->delays.usual_ns, budget_ns / RESERVE_SHARE);
}

/* budget < alone + min(usual, budget / RESERVE_SHARE), solved for the budget. */
int64_t deadline_least_ns(const model_t *model)
{
    const task_t any = {0};
    int64_t alone_ns = shapes_axis_count(model) > 0 ? 0 : deadline_alone_ns(&any, model);
    if (alone_ns <= 0)
        return 0;
    return alone_ns + smaller(model->home->delays.usual_ns, alone_ns / (RESERVE_SHARE - 1));
}

static bool has_idle_device(const model_t *model)
{
    const subcluster_t *home = model->home;
    for (uint32_t gpu = 0; gpu < home->devices_max; gpu++) {
        const device_t *device = home->devices[gpu];
        if (device && device->inflight == 0 && device_serves(device) && model_runs_on(model, device))
            return true;
    }
    return false;
}

bool deadline_try(const model_t *model, int64_t alone_ns, int64_t budget_ns, int64_t now_ns)
{
    return now_ns - model->granted_ns >= DEADLINE_TRY_NS && budget_ns >= alone_ns / WRONG_MOST &&
           has_idle_device(model);
}

static int64_t hold_most_ns(const task_t *task, const model_t *model)
{
    int64_t alone_ns = ALONE_SHARE * deadline_alone_ns(task, model);
    if (model->slo_ns <= 0 || task->patient)
        return INT64_MAX;
    return model->slo_ns > alone_ns ? model->slo_ns : alone_ns;
}

int64_t deadline_hold_ns(const task_t *task, const model_t *model, const subcluster_t *home, int64_t now_ns)
{
    int64_t most_ns = hold_most_ns(task, model);
    int64_t left_ns = task->trial ? ALONE_SHARE * deadline_alone_ns(task, model) : task->answer_ns - now_ns;
    if (left_ns > most_ns)
        left_ns = most_ns;
    int64_t reserve_ns = home->delays.push_bound_ns + task->gateway->peer.delay.most_ns;
    int64_t budget_ns = smaller(task->answer_ns - task->arrival_ns, most_ns);
    int64_t reserve_most_ns = budget_ns > 0 ? budget_ns / RESERVE_SHARE : 0;
    return now_ns + left_ns - smaller(reserve_ns, reserve_most_ns);
}

/* What is kept back is no more than a quarter of what there was. */
int64_t deadline_reserve_ns(const subcluster_t *home, int64_t left_ns)
{
    return smaller(home->delays.push_bound_ns, left_ns / (RESERVE_SHARE - 1));
}

bool deadline_again(task_t *task, const model_t *model, int64_t now_ns)
{
    int64_t most_ns = hold_most_ns(task, model);
    int64_t left_ns = task->answer_ns - now_ns - ALONE_SHARE * deadline_alone_ns(task, model);
    bool cut = task->answer_ns - task->queued_ns > most_ns; /* else the core had all that there was */
    if (!cut || left_ns <= 0 || task->trial)
        return false;
    task->patient = now_ns - task->queued_ns < most_ns / HELD_SHARE;
    return true;
}
