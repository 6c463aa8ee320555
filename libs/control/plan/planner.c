#include "control/plan/planner.h"

#include "control/models/instance.h"
#include "control/models/placement.h"
#include "control/plan/moves.h"

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

/* One class of devices: a problem of its own. Who solves it sees the job, and the arrays that it points to. */
typedef struct {
    plan_job_t *job;
    uint32_t clusters[SUBCLUSTERS_MAX]; /* index of the sub-cluster */
    double shares[SUBCLUSTERS_MAX];
    uint32_t *model; /* catalogue ids, [models_max] */
    uint32_t *current;
    partition_model_t *cost;
    double load, variance; /* of all, as measured */
    bool valid;            /* what is there breaks no bound */
    partition_t now;       /* its measures; the places are `current` */
    bool keep;             /* the gain is not worth the moves */
} class_plan_t;

typedef struct {
    plan_done_fn done;
    void *ctx;
} asked_t;

struct planner {
    turn_t *turn;
    models_t *models;
    int64_t due_ns; /* the next epoch */
    bool solving, stopped;
    _Atomic bool stop; /* whoever solves is to end soon */
    int64_t began_ns, window_began_ns;
    asked_t asked;
    class_plan_t classes[SUBCLUSTERS_MAX / 2]; /* of two sub-clusters or more */
    plan_job_t jobs[SUBCLUSTERS_MAX / 2];
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
static double memory_of(const subclusters_t *subs, const class_plan_t *class)
{
    double least = INFINITY;
    for (uint32_t c = 0; c < class->job->problem.cluster_count; c++) {
        const subcluster_t *sub = subs->all[class->clusters[c]];
        for (uint32_t gpu = 0; gpu < sub->devices_max; gpu++)
            if (sub->devices[gpu] != NULL && sub->devices[gpu]->memory_bytes > 0)
                least = fmin(least, (double)sub->devices[gpu]->memory_bytes);
    }
    return isinf(least) ? 0 : least;
}

static uint32_t place_in(const class_plan_t *class, const subcluster_t *sub)
{
    for (uint32_t c = 0; c < class->job->problem.cluster_count && sub != NULL; c++)
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
    partition_problem_t *problem = &class->job->problem;
    double bytes = (double)(model->canonical != NULL ? model->canonical->report->memory_bytes : 0);
    double load = load_of(p, model, now_ns);
    plan_row_t *row = add_row(p, model, load);
    if (row == NULL)
        return;
    if (problem->memory_max > 0 && bytes > problem->memory_max) {
        row->to = NULL;
        (void)snprintf(row->note, sizeof row->note, "needs %.0f MB, a device has %.0f MB", bytes / 1e6,
                       problem->memory_max / 1e6);
        note_warn(p->turn, "model_does_not_fit", LOG_STR("model", model->name), LOG_STR("reason", row->note));
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
        .move_cost = placement_is_configured(p->models, model) ? problem->cost_max + 1 : 1,
    };
}

/* Those sub-clusters of one class that have devices; false: fewer than two. */
static bool gather_clusters(const subclusters_t *subs, class_plan_t *class, const char *device_class)
{
    class->job->problem.cluster_count = 0;
    for (uint32_t i = 0; i < subs->count; i++) {
        const subcluster_t *sub = subs->all[i];
        if (strcmp(sub->device_class, device_class) != 0 || sub->autoscale.devices == 0)
            continue;
        class->shares[class->job->problem.cluster_count] = sub->autoscale.devices;
        class->clusters[class->job->problem.cluster_count++] = i;
    }
    return class->job->problem.cluster_count >= 2;
}

static bool gather_models(planner_t *p, class_plan_t *class)
{
    const models_t *models = p->models;
    size_t room = models->count + 1;
    class->model = calloc(room, sizeof *class->model);
    class->current = calloc(room, sizeof *class->current);
    class->cost = calloc(room, sizeof *class->cost);
    if (class->model == NULL || class->current == NULL || class->cost == NULL)
        return false;
    for (uint32_t m = 0; m < models->count; m++) {
        const model_t *model = models->all[m];
        bool here = place_in(class, model->home) != PARTITION_NOWHERE;
        if (here || (model->home == NULL && could_load(class, model)))
            add_model(p, class, model, p->turn->now_ns);
    }
    return true;
}

static void class_dispose(class_plan_t *class)
{
    partition_dispose(&class->job->plan);
    free(class->model);
    free(class->current);
    free(class->cost);
    *class->job = (plan_job_t){0};
    *class = (class_plan_t){0};
}

static bool is_first_of_class(const subclusters_t *subs, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++)
        if (strcmp(subs->all[i]->device_class, subs->all[index]->device_class) == 0)
            return false;
    return true;
}

/* False: there is nothing to plan in this class. */
static bool gather_class(planner_t *p, class_plan_t *class, const char *device_class)
{
    const subclusters_t *subs = p->models->subclusters;
    const control_options_t *o = &p->turn->options;
    if (!gather_clusters(subs, class, device_class))
        return false;
    partition_problem_t *problem = &class->job->problem;
    problem->memory_max = memory_of(subs, class);
    problem->memory_weight = MEMORY_WEIGHT;
    problem->cost_max = 2.0 * o->plan_moves_max; /* unloaded there, loaded here */
    problem->seed = p->draft.number;
    class->job->solver = o->plan_solver;
    if (gather_models(p, class) && problem->model_count > 0)
        return true;
    class_dispose(class);
    return false;
}

/* Now the classes have their places for good. */
static void point_out(planner_t *p)
{
    for (uint32_t c = 0; c < p->class_count; c++) {
        class_plan_t *class = &p->classes[c];
        partition_problem_t *problem = &class->job->problem;
        problem->models = class->cost;
        problem->current = class->current;
        problem->shares = class->shares;
        problem->seconds = (double)p->turn->options.plan_limit_ns / 1e9 / p->class_count;
        problem->stop = &p->stop;
        class->now = (partition_t){.cluster = class->current};
        class->valid = partition_evaluate(problem, &class->now);
    }
}

static void gather(planner_t *p)
{
    const subclusters_t *subs = p->models->subclusters;
    p->class_count = 0;
    for (uint32_t i = 0; i < subs->count && p->class_count < SUBCLUSTERS_MAX / 2; i++) {
        class_plan_t *class = &p->classes[p->class_count];
        class->job = &p->jobs[p->class_count];
        p->class_count += is_first_of_class(subs, i) && gather_class(p, class, subs->all[i]->device_class);
    }
    point_out(p);
}

/* ---- Whether it is worth it ---- */

/* By how much the largest deviation of any of these sub-clusters from their mean may be off, when requests come at
 * random (Poisson): the deviation of one of n is n times its load over that of all. */
static double by_chance(const class_plan_t *class)
{
    return class->load > 0
               ? CHANCE * sqrt((class->job->problem.cluster_count - 1) * class->variance) / class->load
               : 0;
}

/* The spread of the load is from one end to the other: twice the deviation of two sub-clusters, at most that of more. */
static double gain_of(const class_plan_t *class)
{
    const partition_t *plan = &class->job->plan;
    double in_load = fmax((class->now.rate_imbalance - plan->rate_imbalance) / 2, 0);
    return class->now.objective - plan->objective - fmin(in_load, by_chance(class));
}

/* With each class's plan there. */
static void weigh(class_plan_t *class)
{
    plan_job_t *job = class->job;
    class->keep = job->status == STATUS_OK && class->valid && gain_of(class) < LEAST_GAIN;
    if (class->keep)
        memcpy(job->plan.cluster, class->current, job->problem.model_count * sizeof *class->current);
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
    const plan_job_t *job = class->job;
    if (job->status != STATUS_OK) {
        (void)snprintf(report->note, sizeof report->note, "no plan: %.160s", job->err.text);
        return;
    }
    if (job->err.text[0] != '\0') /* it has a plan all the same */
        note_info(p->turn, "plan_solver", LOG_STR("reason", job->err.text));
    double before = class->valid ? class->now.rate_imbalance : 0;
    double after = class->keep ? before : job->plan.rate_imbalance;
    report->imbalance_before = fmax(report->imbalance_before, before);
    report->imbalance_after = fmax(report->imbalance_after, after);
    for (uint32_t i = 0; i < class->job->problem.model_count; i++) {
        plan_row_t *row = row_of(p, class->model[i]);
        uint32_t place = job->plan.cluster[i];
        if (row == NULL || place == PARTITION_NOWHERE)
            continue;
        row->to = p->models->subclusters->all[class->clusters[place]];
        report->moves += row->to != row->from;
    }
}

static void carry_out(planner_t *p)
{
    models_t *models = p->models;
    for (uint32_t r = 0; r < p->draft.row_count; r++) {
        const plan_row_t *row = &p->draft.rows[r];
        if (row->to == NULL || row->to == row->from)
            continue;
        model_t *model = models->all[row->model->id];
        if (model->home == row->from) /* else it has moved by itself meanwhile */
            (void)moves_begin(&p->moves, models, model, row->from, models->subclusters->all[row->to->index]);
    }
    p->window_began_ns = p->turn->now_ns;
    for (uint32_t m = 0; m < models->count; m++)
        models->all[m]->planned_from = models->all[m]->ran;
}

void planner_solved(planner_t *p, bool cancelled)
{
    plan_report_t *report = &p->draft;
    p->solving = false;
    if (cancelled)
        (void)snprintf(report->note, sizeof report->note, "the scheduler stops");
    for (uint32_t c = 0; c < p->class_count; c++) {
        if (!cancelled) {
            weigh(&p->classes[c]);
            report_class(p, &p->classes[c]);
        }
        class_dispose(&p->classes[c]);
    }
    report->made_ns = p->turn->now_ns;
    report->solve_ns = report->made_ns - p->began_ns;
    note_info(p->turn, "plan_made", LOG_U64("number", report->number), LOG_U64("models", report->row_count),
              LOG_U64("moves", report->moves), LOG_STR("note", report->note), LOG_MS("ms", report->solve_ns));
    if (report->apply && !cancelled && !p->stopped)
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
    if (p->solving || p->moves.count > 0 || p->stopped)
        return STATUS_UNAVAILABLE;
    if (begin_draft(p, apply) != STATUS_OK)
        return STATUS_NO_MEMORY;
    p->began_ns = p->turn->now_ns;
    p->asked = (asked_t){done, ctx};
    gather(p);
    if (p->class_count == 0)
        (void)snprintf(p->draft.note, sizeof p->draft.note,
                       "no class of devices has two sub-clusters with devices and models");
    p->solving = true;
    if (p->turn->world.solve(p->turn->arg, p->jobs, p->class_count) == STATUS_OK)
        return STATUS_OK;
    p->solving = false;
    p->asked = (asked_t){0};
    for (uint32_t c = 0; c < p->class_count; c++)
        class_dispose(&p->classes[c]);
    return STATUS_UNAVAILABLE;
}

/* ---- From time to time ---- */

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

/* The sub-cluster that a plan gave this model to has lost it: it is loaded where it still can be. */
static void rescue(planner_t *p, model_t *model)
{
    subcluster_t *to = refuge(model);
    if (to == NULL)
        return;
    note_warn(p->turn, "model_rescued", LOG_STR("model", model->name), LOG_STR("from", model->planned->name),
              LOG_STR("to", to->name));
    model->planned = NULL; /* once: what fails now is the next plan's */
    (void)moves_begin(&p->moves, p->models, model, NULL, to);
}

void planner_tick(planner_t *p)
{
    if (p->stopped)
        return;
    for (uint32_t m = 0; m < p->models->count; m++) {
        model_t *model = p->models->all[m];
        if (!model->ready && model->planned != NULL && !model_any(model, instance_is_draining))
            rescue(p, model);
    }
    if (p->turn->options.plan_interval_ns <= 0 || p->turn->now_ns < p->due_ns)
        return;
    p->due_ns = p->turn->now_ns + p->turn->options.plan_interval_ns;
    if (p->models->subclusters->count > 1)
        (void)planner_ask(p, true, NULL, NULL); /* when one is under way the next epoch does */
}

/* ---- Making ---- */

status_t planner_create(turn_t *turn, models_t *models, planner_t **out, err_t *err)
{
    planner_t *p = calloc(1, sizeof *p);
    if (p == NULL)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a planner");
    *out = p;
    p->turn = turn;
    p->models = models;
    p->window_began_ns = turn->now_ns;
    p->due_ns = turn->now_ns + turn->options.plan_interval_ns;
    p->rows_max = turn->options.models_max;
    return STATUS_OK;
}

void planner_stop(planner_t *p)
{
    p->stopped = true;
    atomic_store(&p->stop, true);
}

void planner_destroy(planner_t *p)
{
    if (p == NULL)
        return;
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
