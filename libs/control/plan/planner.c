#include "control/plan/planner.h"

#include "control/models/instance.h"
#include "control/plan/moves.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

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
    plan_problem_t problem;
    plan_report_t draft, last; /* last.rows NULL: none was made yet */
    uint32_t rows_max;
    moves_t moves;
};

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
        if (!row || place == PARTITION_NOWHERE)
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
        if (!row->to || row->to == row->from)
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
    for (uint32_t c = 0; c < p->problem.class_count && !cancelled; c++) {
        problem_weigh(&p->problem.classes[c]);
        report_class(p, &p->problem.classes[c]);
    }
    problem_dispose(&p->problem);
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
    if (asked.done)
        asked.done(asked.ctx, &p->last);
}

/* The rows of the plan before the last serve again. */
static status_t begin_draft(planner_t *p, bool apply)
{
    plan_row_t *rows = p->draft.rows ? p->draft.rows : calloc(p->rows_max, sizeof *rows);
    if (!rows)
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
    problem_gather(&p->problem, p->models, p->window_began_ns, &p->stop, &p->draft, p->rows_max);
    if (p->problem.class_count == 0)
        (void)snprintf(p->draft.note, sizeof p->draft.note,
                       "no class of devices has two sub-clusters with devices and models");
    p->solving = true;
    if (p->turn->world.solve(p->turn->arg, p->problem.jobs, p->problem.class_count) == STATUS_OK)
        return STATUS_OK;
    p->solving = false;
    p->asked = (asked_t){0};
    problem_dispose(&p->problem);
    return STATUS_UNAVAILABLE;
}

/* ---- From time to time ---- */

/* The least busy of those whose workers have it unloaded. */
static subcluster_t *refuge(const model_t *model)
{
    subcluster_t *best = NULL;
    for (const instance_t *i = model->instances; i; i = i->next) {
        if (i->state != CONTROL__MODEL_STATE__MODEL_STATE_UNLOADED)
            continue;
        for (uint32_t d = 0; d < i->worker->device_count; d++) {
            subcluster_t *sub = i->worker->devices[d].subcluster;
            if (device_serves(&i->worker->devices[d]) &&
                (!best || sub->autoscale.busy_fraction < best->autoscale.busy_fraction))
                best = sub;
        }
    }
    return best;
}

/* The sub-cluster that a plan gave this model to has lost it: it is loaded where it still can be. */
static void rescue(planner_t *p, model_t *model)
{
    subcluster_t *to = refuge(model);
    if (!to)
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
        if (!model->ready && model->planned && !model_any(model, instance_is_draining))
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
    if (!p)
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
    if (!p)
        return;
    moves_dispose(&p->moves);
    free(p->draft.rows);
    free(p->last.rows);
    free(p);
}

const plan_report_t *planner_last(const planner_t *p)
{
    return p->last.rows ? &p->last : NULL;
}

uint32_t planner_moving(const planner_t *p)
{
    return p->moves.count;
}
