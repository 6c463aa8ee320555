#include "scheduler/planner.h"

#include "base/log.h"
#include "loop/loop.h"
#include "loop/workpool.h"
#include "plan/partition_apart.h"
#include "scheduler/catalogue.h"
#include "scheduler/devices.h"
#include "scheduler/moves.h"
#include "scheduler/placement.h"
#include "scheduler/service.h"
#include "scheduler/subcluster.h"
#include "scheduler/workers.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the spread of memory counts beside that of load: it is bounded anyway. */
#define MEMORY_WEIGHT 0.1
/* A plan must bring the largest deviation so much closer to the mean: moving costs. */
#define LEAST_GAIN 0.05
/* What it gains in load counts beyond so many standard deviations: rates are estimates, of as many requests as came. */
#define CHANCE 3
/* Load so small counts as none, in devices. */
#define LEAST_LOAD 1e-6

/* One class of devices: a problem of its own. The solver's thread sees nothing else. */
typedef struct {
    uint32_t clusters[SUBCLUSTERS_MAX]; /* index in the scheduler */
    double shares[SUBCLUSTERS_MAX];
    uint32_t *model; /* catalogue ids, [models_max] */
    uint32_t *current;
    partition_model_t *cost;
    partition_problem_t problem;
    partition_t plan;
    double load, variance; /* of all, as measured */
    double before;         /* imbalance */
    bool keep;             /* the gain is not worth the moves */
    const char *solver;    /* NULL: search alone */
    status_t status;
    err_t err; /* with OK: why the solver did not help; "" otherwise */
} class_plan_t;

typedef struct {
    plan_done_fn done;
    void *ctx;
} asked_t;

struct planner {
    work_t work; /* first */
    scheduler_t *scheduler;
    workpool_t *pool;
    loop_timer_t epoch;
    bool solving;
    _Atomic bool stop; /* the solver's thread is to end soon */
    int64_t began_ns, window_began_ns;
    asked_t asked;
    class_plan_t classes[SUBCLUSTERS_MAX / 2]; /* of two sub-clusters or more */
    uint32_t class_count;
    plan_report_t draft, last; /* last.rows NULL: none was made yet */
    uint32_t rows_max;
    moves_t moves;
};

/* ---- The problem ---- */

static uint64_t requests_of(const model_t *model)
{
    return model->ran.requests - model->planned_from.requests;
}

/* Device seconds a second, over the time since the last plan. */
static double load_of(const planner_t *p, const model_t *model, int64_t now_ns)
{
    double seconds = fmax((double)(now_ns - p->window_began_ns) / 1e9, 1e-3);
    uint64_t rows = model->ran.rows - model->planned_from.rows;
    int64_t one_ns = rows > 0 ? (int64_t)((model->ran.busy_ns - model->planned_from.busy_ns) / rows)
                              : profile_latency_ns(&model->profile, 1);
    return (double)requests_of(model) / seconds * (double)one_ns / 1e9;
}

/* The least that a device of the class has. */
static double memory_of(const scheduler_t *s, const class_plan_t *class)
{
    double least = INFINITY;
    for (uint32_t c = 0; c < class->problem.cluster_count; c++) {
        const subcluster_t *sub = s->subclusters[class->clusters[c]];
        for (uint32_t gpu = 0; gpu < sub->devices_max; gpu++)
            if (sub->devices[gpu] != NULL && sub->devices[gpu]->memory_bytes > 0)
                least = fmin(least, (double)sub->devices[gpu]->memory_bytes);
    }
    return isinf(least) ? 0 : least;
}

static uint32_t place_in(const class_plan_t *class, const subcluster_t *sub)
{
    for (uint32_t c = 0; c < class->problem.cluster_count && sub != NULL; c++)
        if (class->clusters[c] == sub->index)
            return c;
    return PARTITION_NOWHERE;
}

/* Whether some worker of the class could load it. */
static bool could_load(const class_plan_t *class, const model_t *model)
{
    for (const instance_t *i = model->instances; i != NULL; i = i->next)
        if (i->state == CONTROL__MODEL_STATE__MODEL_STATE_UNLOADED)
            for (uint32_t d = 0; d < i->worker->device_count; d++)
                if (place_in(class, i->worker->devices[d].subcluster) != PARTITION_NOWHERE)
                    return true;
    return false;
}

static plan_row_t *add_row(planner_t *p, const model_t *model, double load)
{
    if (p->draft.row_count == p->rows_max)
        return NULL;
    plan_row_t *row = &p->draft.rows[p->draft.row_count++];
    *row = (plan_row_t){.model = model, .from = model->home, .to = model->home, .load = load};
    return row;
}

static void add_model(planner_t *p, class_plan_t *class, const model_t *model, int64_t now_ns)
{
    partition_problem_t *problem = &class->problem;
    double bytes = (double)(model->canonical != NULL ? model->canonical->report->memory_bytes : 0);
    double load = load_of(p, model, now_ns);
    plan_row_t *row = add_row(p, model, load);
    if (row == NULL)
        return;
    if (problem->memory_max > 0 && bytes > problem->memory_max) {
        row->to = NULL;
        (void)snprintf(row->note, sizeof row->note, "needs %.0f MB, a device has %.0f MB", bytes / 1e6,
                       problem->memory_max / 1e6);
        log_warn("model_does_not_fit", LOG_STR("model", model->name), LOG_STR("reason", row->note));
        return;
    }
    uint64_t requests = requests_of(model);
    class->load += load;
    class->variance += requests > 0 ? load * load / (double)requests : 0;
    uint32_t i = problem->model_count++;
    class->model[i] = model->id;
    class->current[i] = place_in(class, model->home);
    class->cost[i] = (partition_model_t){
        .rate = fmax(load, LEAST_LOAD),
        .static_bytes = bytes,
        .move_cost = placement_is_configured(p->scheduler, model) ? problem->cost_max + 1 : 1,
    };
}

/* Those sub-clusters of one class that have devices; false: fewer than two. */
static bool gather_clusters(planner_t *p, class_plan_t *class, const char *device_class)
{
    const scheduler_t *s = p->scheduler;
    class->problem.cluster_count = 0;
    for (uint32_t i = 0; i < s->subcluster_count; i++) {
        const subcluster_t *sub = s->subclusters[i];
        if (strcmp(sub->device_class, device_class) != 0 || sub->autoscale.devices == 0)
            continue;
        class->shares[class->problem.cluster_count] = sub->autoscale.devices;
        class->clusters[class->problem.cluster_count++] = i;
    }
    return class->problem.cluster_count >= 2;
}

static bool gather_models(planner_t *p, class_plan_t *class)
{
    scheduler_t *s = p->scheduler;
    size_t room = s->model_count + 1;
    class->model = calloc(room, sizeof *class->model);
    class->current = calloc(room, sizeof *class->current);
    class->cost = calloc(room, sizeof *class->cost);
    if (class->model == NULL || class->current == NULL || class->cost == NULL)
        return false;
    for (uint32_t m = 0; m < s->model_count; m++) {
        const model_t *model = s->models[m];
        bool here = place_in(class, model->home) != PARTITION_NOWHERE;
        if (here || (model->home == NULL && could_load(class, model)))
            add_model(p, class, model, loop_now_ns());
    }
    return true;
}

static void class_dispose(class_plan_t *class)
{
    partition_dispose(&class->plan);
    free(class->model);
    free(class->current);
    free(class->cost);
    *class = (class_plan_t){0};
}

static bool is_first_of_class(const scheduler_t *s, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++)
        if (strcmp(s->subclusters[i]->device_class, s->subclusters[index]->device_class) == 0)
            return false;
    return true;
}

static void gather(planner_t *p)
{
    scheduler_t *s = p->scheduler;
    const scheduler_options_t *o = &s->options;
    p->class_count = 0;
    for (uint32_t i = 0; i < s->subcluster_count && p->class_count < SUBCLUSTERS_MAX / 2; i++) {
        class_plan_t *class = &p->classes[p->class_count];
        if (!is_first_of_class(s, i) || !gather_clusters(p, class, s->subclusters[i]->device_class))
            continue;
        class->problem.memory_max = memory_of(s, class);
        class->problem.memory_weight = MEMORY_WEIGHT;
        class->problem.cost_max = 2.0 * o->plan_moves_max; /* unloaded there, loaded here */
        class->problem.seed = p->draft.number;
        class->solver = o->plan_solver;
        if (gather_models(p, class) && class->problem.model_count > 0)
            p->class_count++;
        else
            class_dispose(class);
    }
    for (uint32_t c = 0; c < p->class_count; c++) { /* now they have their place for good */
        class_plan_t *class = &p->classes[c];
        class->problem.models = class->cost;
        class->problem.current = class->current;
        class->problem.shares = class->shares;
        class->problem.seconds = (double)o->plan_limit_ns / 1e9 / p->class_count;
        class->problem.stop = &p->stop;
    }
}

/* ---- The solver's thread ---- */

static status_t solve_apart(void *ctx, const partition_problem_t *problem, const partition_t *start,
                            partition_t *plan, err_t *err)
{
    return partition_milp_apart(ctx, problem, start, plan, err);
}

/* A fault in a foreign solver must not take the scheduler along: CBC runs in a process of its own, or not at all. */
static status_t solve(class_plan_t *class)
{
    class->err = (err_t){0};
    if (class->solver == NULL)
        return partition_search(&class->problem, &class->plan, &class->err);
    return partition_solve_by(&class->problem, solve_apart, (void *)(uintptr_t) class->solver, &class->plan,
                              &class->err);
}

/* By how much the largest deviation of any of these sub-clusters from their mean may be off, when requests come at
 * random (Poisson): the deviation of one of n is n times its load over that of all. */
static double by_chance(const class_plan_t *class)
{
    return class->load > 0 ? CHANCE * sqrt((class->problem.cluster_count - 1) * class->variance) / class->load
                           : 0;
}

/* The spread of the load is from one end to the other: twice the deviation of two sub-clusters, at most that of more. */
static double gain_of(const class_plan_t *class, const partition_t *now)
{
    double in_load = fmax((now->rate_imbalance - class->plan.rate_imbalance) / 2, 0);
    return now->objective - class->plan.objective - fmin(in_load, by_chance(class));
}

static void solve_class(class_plan_t *class)
{
    partition_t now = {.cluster = class->current};
    bool valid = partition_evaluate(&class->problem, &now);
    class->before = valid ? now.rate_imbalance : 0;
    class->status = solve(class);
    class->keep = class->status == STATUS_OK && valid && gain_of(class, &now) < LEAST_GAIN;
    if (class->keep)
        memcpy(class->plan.cluster, class->current, class->problem.model_count * sizeof *class->current);
}

static void on_solve(work_t *work)
{
    planner_t *p = (planner_t *)work;
    for (uint32_t c = 0; c < p->class_count; c++)
        solve_class(&p->classes[c]);
}

/* ---- The plan ---- */

static plan_row_t *row_of(planner_t *p, uint32_t model)
{
    for (uint32_t r = 0; r < p->draft.row_count; r++)
        if (p->draft.rows[r].model->id == model)
            return &p->draft.rows[r];
    return NULL;
}

static void report_class(planner_t *p, const class_plan_t *class)
{
    plan_report_t *report = &p->draft;
    if (class->status != STATUS_OK) {
        (void)snprintf(report->note, sizeof report->note, "no plan: %.160s", class->err.text);
        return;
    }
    if (class->err.text[0] != '\0') /* it has a plan all the same */
        log_info("plan_solver", LOG_STR("reason", class->err.text));
    double after = class->keep ? class->before : class->plan.rate_imbalance;
    report->imbalance_before = fmax(report->imbalance_before, class->before);
    report->imbalance_after = fmax(report->imbalance_after, after);
    for (uint32_t i = 0; i < class->problem.model_count; i++) {
        plan_row_t *row = row_of(p, class->model[i]);
        uint32_t place = class->plan.cluster[i];
        if (row == NULL || place == PARTITION_NOWHERE)
            continue;
        row->to = p->scheduler->subclusters[class->clusters[place]];
        report->moves += row->to != row->from;
    }
}

static void carry_out(planner_t *p)
{
    scheduler_t *s = p->scheduler;
    for (uint32_t r = 0; r < p->draft.row_count; r++) {
        const plan_row_t *row = &p->draft.rows[r];
        if (row->to == NULL || row->to == row->from)
            continue;
        model_t *model = s->models[row->model->id];
        if (model->home == row->from) /* else it has moved by itself meanwhile */
            (void)moves_begin(&p->moves, s, model, row->from, s->subclusters[row->to->index]);
    }
    p->window_began_ns = loop_now_ns();
    for (uint32_t m = 0; m < s->model_count; m++)
        s->models[m]->planned_from = s->models[m]->ran;
}

static void on_solved(work_t *work, bool cancelled)
{
    planner_t *p = (planner_t *)work;
    plan_report_t *report = &p->draft;
    p->solving = false;
    if (cancelled)
        (void)snprintf(report->note, sizeof report->note, "the scheduler stops");
    for (uint32_t c = 0; c < p->class_count; c++) {
        if (!cancelled)
            report_class(p, &p->classes[c]);
        class_dispose(&p->classes[c]);
    }
    report->made_ns = loop_now_ns();
    report->solve_ns = report->made_ns - p->began_ns;
    log_info("plan_made", LOG_U64("number", report->number), LOG_U64("models", report->row_count),
             LOG_U64("moves", report->moves), LOG_STR("note", report->note), LOG_MS("ms", report->solve_ns));
    if (report->apply && !cancelled && !p->scheduler->stopping)
        carry_out(p);
    plan_report_t older = p->last;
    p->last = p->draft;
    p->draft = older;
    asked_t asked = p->asked;
    p->asked = (asked_t){0};
    if (asked.done != NULL)
        asked.done(asked.ctx, &p->last);
}

/* The rows of the plan before the last serve again. */
static status_t begin_draft(planner_t *p, bool apply)
{
    plan_row_t *rows = p->draft.rows != NULL ? p->draft.rows : calloc(p->rows_max, sizeof *rows);
    if (rows == NULL)
        return STATUS_NO_MEMORY;
    p->draft = (plan_report_t){.number = p->last.number + 1, .apply = apply, .rows = rows};
    return STATUS_OK;
}

status_t planner_ask(planner_t *p, bool apply, plan_done_fn done, void *ctx)
{
    if (p->solving || p->moves.count > 0 || p->pool == NULL)
        return STATUS_UNAVAILABLE;
    if (begin_draft(p, apply) != STATUS_OK)
        return STATUS_NO_MEMORY;
    p->began_ns = loop_now_ns();
    p->asked = (asked_t){done, ctx};
    gather(p);
    if (p->class_count == 0)
        (void)snprintf(p->draft.note, sizeof p->draft.note,
                       "no class of devices has two sub-clusters with devices and models");
    p->solving = true;
    p->work = (work_t){.run = on_solve, .done = on_solved};
    if (workpool_submit(p->pool, &p->work) == STATUS_OK)
        return STATUS_OK;
    p->solving = false;
    p->asked = (asked_t){0};
    return STATUS_UNAVAILABLE;
}

/* The least busy of those whose workers have it unloaded. */
static subcluster_t *refuge(const model_t *model)
{
    subcluster_t *best = NULL;
    for (const instance_t *i = model->instances; i != NULL; i = i->next) {
        if (i->state != CONTROL__MODEL_STATE__MODEL_STATE_UNLOADED)
            continue;
        for (uint32_t d = 0; d < i->worker->device_count; d++) {
            subcluster_t *sub = i->worker->devices[d].subcluster;
            if (device_serves(&i->worker->devices[d]) &&
                (best == NULL || sub->autoscale.busy_fraction < best->autoscale.busy_fraction))
                best = sub;
        }
    }
    return best;
}

void planner_rescue(planner_t *p, model_t *model)
{
    subcluster_t *to = p->pool != NULL ? refuge(model) : NULL;
    if (to == NULL)
        return;
    log_warn("model_rescued", LOG_STR("model", model->name), LOG_STR("from", model->planned->name),
             LOG_STR("to", to->name));
    model->planned = NULL; /* once: what fails now is the next plan's */
    (void)moves_begin(&p->moves, p->scheduler, model, NULL, to);
}

static void on_epoch(loop_timer_t *timer, void *arg)
{
    planner_t *p = arg;
    if (p->scheduler->subcluster_count > 1)
        (void)planner_ask(p, true, NULL, NULL); /* when one is under way the next epoch does */
    loop_timer_start_in(timer, p->scheduler->options.plan_interval_ns);
}

/* ---- Making ---- */

status_t planner_create(scheduler_t *s, planner_t **out, err_t *err)
{
    planner_t *p = calloc(1, sizeof *p);
    if (p == NULL)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a planner");
    *out = p;
    p->scheduler = s;
    p->window_began_ns = loop_now_ns();
    p->rows_max = s->options.models_max;
    status_t status = workpool_create(&p->pool, s->loop, 1, 1, err);
    if (status == STATUS_OK)
        status = loop_timer_init(&p->epoch, s->loop, on_epoch, p, err);
    if (status == STATUS_OK && s->options.plan_interval_ns > 0)
        loop_timer_start_in(&p->epoch, s->options.plan_interval_ns);
    return status;
}

void planner_stop(planner_t *p)
{
    workpool_t *pool = p->pool;
    p->pool = NULL;
    atomic_store(&p->stop, true);
    if (p->epoch.loop != NULL)
        loop_timer_stop(&p->epoch);
    if (pool != NULL)
        workpool_destroy(pool);
}

void planner_destroy(planner_t *p)
{
    if (p == NULL)
        return;
    planner_stop(p);
    if (p->epoch.loop != NULL)
        loop_timer_dispose(&p->epoch);
    moves_dispose(&p->moves);
    free(p->draft.rows);
    free(p->last.rows);
    free(p);
}

const plan_report_t *planner_last(const planner_t *p)
{
    return p->last.rows != NULL ? &p->last : NULL;
}

uint32_t planner_moving(const planner_t *p)
{
    return p->moves.count;
}
