#include "control/plan/problem.h"

#include "control/models/placement.h"

#include <math.h>
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

/* What all of it is done with. */
typedef struct {
    plan_problem_t *problem;
    models_t *models;
    int64_t since_ns;
    const _Atomic bool *stop;
    plan_report_t *report;
    uint32_t rows_max;
} gather_t;

static uint64_t requests_of(const model_t *model)
{
    return model->ran.requests - model->planned_from.requests;
}

/* Device seconds a second, over the time since the last plan. */
static double load_of(const gather_t *g, const model_t *model)
{
    double seconds = fmax((double)(g->models->turn->now_ns - g->since_ns) / 1e9, 1e-3);
    uint64_t rows = model->ran.rows - model->planned_from.rows;
    int64_t one_ns = rows > 0 ? (int64_t)((model->ran.busy_ns - model->planned_from.busy_ns) / rows)
                              : profile_latency_ns(model->profile, 1);
    return (double)requests_of(model) / seconds * (double)one_ns / 1e9;
}

/* The least that a device of the class has. */
static double memory_of(const subclusters_t *subs, const class_plan_t *class)
{
    double least = INFINITY;
    for (uint32_t c = 0; c < class->job->problem.cluster_count; c++) {
        const subcluster_t *sub = subs->all[class->clusters[c]];
        for (uint32_t gpu = 0; gpu < sub->devices_max; gpu++)
            if (sub->devices[gpu] && sub->devices[gpu]->memory_bytes > 0)
                least = fmin(least, (double)sub->devices[gpu]->memory_bytes);
    }
    return isinf(least) ? 0 : least;
}

static uint32_t place_in(const class_plan_t *class, const subcluster_t *sub)
{
    for (uint32_t c = 0; c < class->job->problem.cluster_count && sub; c++)
        if (class->clusters[c] == sub->index)
            return c;
    return PARTITION_NOWHERE;
}

/* Whether some worker of the class could load it. */
static bool could_load(const class_plan_t *class, const model_t *model)
{
    for (const instance_t *i = model->instances; i; i = i->next)
        if (i->state == CONTROL__MODEL_STATE__MODEL_STATE_UNLOADED)
            for (uint32_t d = 0; d < i->worker->device_count; d++)
                if (place_in(class, i->worker->devices[d].subcluster) != PARTITION_NOWHERE)
                    return true;
    return false;
}

static plan_row_t *add_row(const gather_t *g, const model_t *model, double load)
{
    if (g->report->row_count == g->rows_max)
        return NULL;
    plan_row_t *row = &g->report->rows[g->report->row_count++];
    *row = (plan_row_t){.model = model, .from = model->home, .to = model->home, .load = load};
    return row;
}

static void add_model(const gather_t *g, class_plan_t *class, const model_t *model)
{
    partition_problem_t *problem = &class->job->problem;
    double bytes = (double)(model->canonical ? model->canonical->report->memory_bytes : 0);
    double load = load_of(g, model);
    plan_row_t *row = add_row(g, model, load);
    if (!row)
        return;
    if (problem->memory_max > 0 && bytes > problem->memory_max) {
        row->to = NULL;
        (void)snprintf(row->note, sizeof row->note, "needs %.0f MB, a device has %.0f MB", bytes / 1e6,
                       problem->memory_max / 1e6);
        note_warn(g->models->turn, "model_does_not_fit", LOG_STR("model", model->name),
                  LOG_STR("reason", row->note));
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
        .move_cost = placement_is_configured(g->models, model) ? problem->cost_max + 1 : 1,
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

static bool gather_models(const gather_t *g, class_plan_t *class)
{
    const models_t *models = g->models;
    size_t room = models->count + 1;
    class->model = calloc(room, sizeof *class->model);
    class->current = calloc(room, sizeof *class->current);
    class->cost = calloc(room, sizeof *class->cost);
    if (!class->model || !class->current || !class->cost)
        return false;
    for (uint32_t m = 0; m < models->count; m++) {
        const model_t *model = models->all[m];
        bool here = place_in(class, model->home) != PARTITION_NOWHERE;
        if (here || (!model->home && could_load(class, model)))
            add_model(g, class, model);
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
static bool gather_class(const gather_t *g, class_plan_t *class, const char *device_class)
{
    const subclusters_t *subs = g->models->subclusters;
    const control_options_t *o = &g->models->turn->options;
    if (!gather_clusters(subs, class, device_class))
        return false;
    partition_problem_t *problem = &class->job->problem;
    problem->memory_max = memory_of(subs, class);
    problem->memory_weight = MEMORY_WEIGHT;
    problem->cost_max = 2.0 * o->plan_moves_max; /* unloaded there, loaded here */
    problem->seed = g->report->number;
    class->job->solver = o->plan_solver;
    if (gather_models(g, class) && problem->model_count > 0)
        return true;
    class_dispose(class);
    return false;
}

/* Now the classes have their places for good. */
static void point_out(const gather_t *g)
{
    plan_problem_t *p = g->problem;
    for (uint32_t c = 0; c < p->class_count; c++) {
        class_plan_t *class = &p->classes[c];
        partition_problem_t *problem = &class->job->problem;
        problem->models = class->cost;
        problem->current = class->current;
        problem->shares = class->shares;
        problem->seconds = (double)g->models->turn->options.plan_limit_ns / 1e9 / p->class_count;
        problem->stop = g->stop;
        class->now = (partition_t){.cluster = class->current};
        class->valid = partition_evaluate(problem, &class->now);
    }
}

void problem_gather(plan_problem_t *p, models_t *models, int64_t since_ns, const _Atomic bool *stop,
                    plan_report_t *report, uint32_t rows_max)
{
    const gather_t g = {p, models, since_ns, stop, report, rows_max};
    const subclusters_t *subs = models->subclusters;
    p->class_count = 0;
    for (uint32_t i = 0; i < subs->count && p->class_count < SUBCLUSTERS_MAX / 2; i++) {
        class_plan_t *class = &p->classes[p->class_count];
        class->job = &p->jobs[p->class_count];
        p->class_count += is_first_of_class(subs, i) && gather_class(&g, class, subs->all[i]->device_class);
    }
    point_out(&g);
}

void problem_dispose(plan_problem_t *p)
{
    for (uint32_t c = 0; c < p->class_count; c++)
        class_dispose(&p->classes[c]);
    p->class_count = 0;
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

void problem_weigh(class_plan_t *class)
{
    plan_job_t *job = class->job;
    class->keep = job->status == STATUS_OK && class->valid && gain_of(class) < LEAST_GAIN;
    if (class->keep)
        memcpy(job->plan.cluster, class->current, job->problem.model_count * sizeof *class->current);
}
