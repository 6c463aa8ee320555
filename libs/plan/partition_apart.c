#include "plan/partition_apart.h"

#include "base/clock.h"
#include "base/companion.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What starting a process and writing the problem may take beside the solver's own time. */
#define GRACE_NS NS_PER_S

static const uint64_t MAGIC = 0x6665726d70617274; /* "fermpart" */

/* The fixed part of a problem; the arrays follow: models, and shares, current and start where there are. */
typedef struct {
    uint64_t magic;
    uint32_t model_count, cluster_count;
    bool has_shares, has_current, has_start;
    double rate_max, memory_max, memory_weight, cost_max, seconds;
} head_t;

/* The answer; with OK the clusters follow. */
typedef struct {
    uint64_t magic;
    uint32_t status, model_count;
    double bound;
} answer_t;

static const companion_patience_t endless = {.until_ns = INT64_MAX};

/* ---- The caller's side ---- */

static status_t put_problem(int fd, const partition_problem_t *problem, const partition_t *start,
                            const companion_patience_t *patience)
{
    const size_t models = problem->model_count;
    head_t head;
    memset(&head, 0, sizeof head); /* padding too: it leaves the process */
    head.magic = MAGIC;
    head.model_count = problem->model_count;
    head.cluster_count = problem->cluster_count;
    head.has_shares = problem->shares;
    head.has_current = problem->current;
    head.has_start = start;
    head.rate_max = problem->rate_max;
    head.memory_max = problem->memory_max;
    head.memory_weight = problem->memory_weight;
    head.cost_max = problem->cost_max;
    head.seconds = problem->seconds;
    status_t status = companion_put(fd, &head, sizeof head, patience);
    if (status == STATUS_OK)
        status = companion_put(fd, problem->models, models * sizeof *problem->models, patience);
    if (status == STATUS_OK && problem->shares)
        status =
            companion_put(fd, problem->shares, problem->cluster_count * sizeof *problem->shares, patience);
    if (status == STATUS_OK && problem->current)
        status = companion_put(fd, problem->current, models * sizeof *problem->current, patience);
    if (status == STATUS_OK && start)
        status = companion_put(fd, start->cluster, models * sizeof *start->cluster, patience);
    return status;
}

/* Into clusters, which has room for all models. */
static status_t get_plan(int fd, const partition_problem_t *problem, uint32_t *clusters, double *bound,
                         const companion_patience_t *patience)
{
    answer_t answer;
    status_t status = companion_get(fd, &answer, sizeof answer, patience);
    if (status != STATUS_OK)
        return status;
    if (answer.magic != MAGIC || answer.model_count != problem->model_count ||
        answer.status > STATUS_INTERNAL)
        return STATUS_INTERNAL;
    if (answer.status != STATUS_OK)
        return (status_t)answer.status;
    *bound = answer.bound;
    return companion_get(fd, clusters, problem->model_count * sizeof *clusters, patience);
}

static bool is_stopped(void *arg)
{
    return partition_is_stopped(arg);
}

static status_t talk(const companion_t *child, const partition_problem_t *problem, const partition_t *start,
                     uint32_t *clusters, double *bound)
{
    const companion_patience_t patience = {
        .until_ns = clock_now_ns() + (int64_t)(problem->seconds * (double)NS_PER_S) + GRACE_NS,
        .stopped = is_stopped,
        .arg = (void *)(uintptr_t)problem};
    status_t status = put_problem(child->in, problem, start, &patience);
    return status == STATUS_OK ? get_plan(child->out, problem, clusters, bound, &patience) : status;
}

status_t partition_milp_apart(const char *program, const partition_problem_t *problem,
                              const partition_t *start, partition_t *plan, err_t *err)
{
    companion_t child;
    int how;
    partition_t found = {.cluster = malloc(problem->model_count * sizeof *found.cluster)};
    double bound = 0;
    if (!found.cluster)
        return err_set(err, STATUS_NO_MEMORY, "no memory to plan %u models", problem->model_count);
    status_t status = companion_start(program, &child, err);
    if (status != STATUS_OK) {
        partition_dispose(&found);
        return status;
    }
    status = talk(&child, problem, start, found.cluster, &bound);
    (void)companion_end(&child, INT64_MAX, &how); /* also one that has crashed, or does not end */
    if (status != STATUS_OK) {
        partition_dispose(&found);
        return err_set(err, status, "%s: %s", program,
                       status == STATUS_IO                  ? "it ended without an answer"
                       : status == STATUS_DEADLINE_EXCEEDED ? "no answer in time"
                       : status == STATUS_CANCELLED         ? "stopped"
                                                            : "it has no plan");
    }
    if (!partition_evaluate(problem, &found)) {
        partition_dispose(&found);
        return err_set(err, STATUS_INTERNAL, "the solver's plan breaks a bound");
    }
    found.bound = isfinite(bound) && bound > 0 && bound <= found.objective ? bound : 0;
    *plan = found;
    return STATUS_OK;
}

/* ---- The solver's side ---- */

typedef struct {
    partition_problem_t problem;
    partition_model_t *models;
    double *shares;
    uint32_t *current;
    partition_t start;
} task_t;

static status_t get_array(int in, void **array, size_t count, size_t size)
{
    *array = malloc(count * size);
    return *array ? companion_get(in, *array, count * size, &endless) : STATUS_NO_MEMORY;
}

static status_t get_problem(int in, task_t *task)
{
    head_t head;
    status_t status = companion_get(in, &head, sizeof head, &endless);
    if (status != STATUS_OK)
        return status;
    if (head.magic != MAGIC || head.model_count == 0 || head.model_count > PARTITION_MODELS_MAX ||
        head.cluster_count == 0 || head.cluster_count > PARTITION_CLUSTERS_MAX)
        return STATUS_INVALID_ARGUMENT;
    status = get_array(in, (void **)&task->models, head.model_count, sizeof *task->models);
    if (status == STATUS_OK && head.has_shares)
        status = get_array(in, (void **)&task->shares, head.cluster_count, sizeof *task->shares);
    if (status == STATUS_OK && head.has_current)
        status = get_array(in, (void **)&task->current, head.model_count, sizeof *task->current);
    if (status == STATUS_OK && head.has_start)
        status = get_array(in, (void **)&task->start.cluster, head.model_count, sizeof *task->start.cluster);
    task->problem = (partition_problem_t){.models = task->models,
                                          .model_count = head.model_count,
                                          .cluster_count = head.cluster_count,
                                          .shares = task->shares,
                                          .rate_max = head.rate_max,
                                          .memory_max = head.memory_max,
                                          .memory_weight = head.memory_weight,
                                          .current = task->current,
                                          .cost_max = head.cost_max,
                                          .seconds = head.seconds};
    return status;
}

static status_t put_plan(int out, const task_t *task, status_t status, const partition_t *plan)
{
    answer_t answer;
    memset(&answer, 0, sizeof answer);
    answer.magic = MAGIC;
    answer.status = status;
    answer.model_count = task->problem.model_count;
    answer.bound = status == STATUS_OK ? plan->bound : 0;
    status_t put_status = companion_put(out, &answer, sizeof answer, &endless);
    if (put_status == STATUS_OK && status == STATUS_OK)
        put_status = companion_put(out, plan->cluster, answer.model_count * sizeof *plan->cluster, &endless);
    return put_status;
}

int partition_apart_main(int in, int out)
{
    task_t task = {0};
    partition_t plan = {0};
    err_t err;
    status_t status = get_problem(in, &task);
    bool starts = task.start.cluster;
    if (status == STATUS_OK && starts && !partition_evaluate(&task.problem, &task.start))
        status = STATUS_INVALID_ARGUMENT;
    if (status == STATUS_OK) {
        status = partition_milp(&task.problem, starts ? &task.start : NULL, &plan, &err);
        status = put_plan(out, &task, status, &plan);
    }
    partition_dispose(&plan);
    partition_dispose(&task.start);
    free(task.models);
    free(task.shares);
    free(task.current);
    return status == STATUS_OK ? 0 : 1;
}
