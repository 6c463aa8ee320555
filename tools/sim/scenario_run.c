/*
 * The rows of a scenario on all cores. Each row is a simulation of its own, so threads share nothing but the
 * list and the file of results.
 */
#include "scenario.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS_MAX = 256, LINE_BYTES = 2048 };

typedef struct {
    scenario_t *scenario;
    bool *done; /* per row: known before the run */
    size_t next, finished;
    FILE *resume; /* NULL: nothing is kept */
    status_t status;
    err_t *err;
    pthread_mutex_t lock;
} pool_t;

/* What is drawn must be run again: only its number would be known. */
static bool is_kept(const scenario_row_t *row)
{
    return !row->track.wanted && !row->drawn;
}

/* A line of the file of results is NAME VALUE COMMAND, with a tab between each. */
static void take_known(pool_t *pool, FILE *file)
{
    char line[LINE_BYTES];
    scenario_t *scenario = pool->scenario;
    while (fgets(line, sizeof(line), file)) {
        char *rest = line;
        line[strcspn(line, "\n")] = '\0';
        const char *name = strsep(&rest, "\t"), *value = strsep(&rest, "\t");
        if (!value || !rest || strcmp(name, scenario->value) != 0)
            continue;
        for (size_t i = 0; i < scenario->row_count; i++) {
            if (strcmp(scenario->rows[i].command, rest) == 0 && is_kept(&scenario->rows[i])) {
                scenario->rows[i].value = strtod(value, NULL);
                pool->done[i] = true;
            }
        }
    }
}

static status_t open_results(pool_t *pool, const char *path, err_t *err)
{
    if (!path)
        return STATUS_OK;
    FILE *known = fopen(path, "re");
    if (known) {
        take_known(pool, known);
        fclose(known);
    }
    pool->resume = fopen(path, "ae");
    return pool->resume ? STATUS_OK : err_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
}

static status_t perform(const scenario_t *scenario, scenario_row_t *row, err_t *err)
{
    job_t job;
    status_t status = job_init(&job, &row->options, err);
    if (row->track.wanted) {
        job.config.on_second = scenario_track_on_second;
        job.config.ctx = &row->track;
    }
    if (status == STATUS_OK)
        status = job_perform(&job, err);
    if (status == STATUS_OK && row->track.exhausted)
        status = err_set(err, STATUS_NO_MEMORY, "no memory for a run over time");
    if (status == STATUS_OK && !job_value(&job, scenario->value, &row->value))
        status = err_set(err, STATUS_INVALID_ARGUMENT, "the result has no %s", scenario->value);
    job_dispose(&job);
    return status;
}

static void finish(pool_t *pool, const scenario_row_t *row, status_t status, const err_t *err)
{
    pool->finished++;
    if (status != STATUS_OK && pool->status == STATUS_OK) {
        pool->status = status;
        err_set(pool->err, status, "%.120s:%u: %.160s", pool->scenario->path, row->line_number, err->text);
    }
    if (status == STATUS_OK && pool->resume && is_kept(row)) {
        fprintf(pool->resume, "%s\t%.9g\t%s\n", pool->scenario->value, row->value, row->command);
        fflush(pool->resume);
    }
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%s: %zu of %zu ", pool->scenario->name, pool->finished, pool->scenario->row_count);
}

static void *work(void *arg)
{
    pool_t *pool = arg;
    pthread_mutex_lock(&pool->lock);
    while (pool->next < pool->scenario->row_count && pool->status == STATUS_OK) {
        size_t i = pool->next++;
        scenario_row_t *row = &pool->scenario->rows[i];
        err_t err;
        status_t status = STATUS_OK;
        if (pool->done[i]) {
            pool->finished++;
            continue;
        }
        pthread_mutex_unlock(&pool->lock);
        status = perform(pool->scenario, row, &err);
        pthread_mutex_lock(&pool->lock);
        finish(pool, row, status, &err);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

status_t scenario_run(scenario_t *scenario, unsigned threads, const char *resume_path, err_t *err)
{
    pthread_t handles[THREADS_MAX];
    pool_t pool = {.scenario = scenario, .err = err, .lock = PTHREAD_MUTEX_INITIALIZER};
    unsigned started = 0;
    pool.done = calloc(scenario->row_count, sizeof(*pool.done));
    if (!pool.done)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a scenario");
    pool.status = open_results(&pool, resume_path, err);
    while (pool.status == STATUS_OK && started + 1 < threads && started < THREADS_MAX &&
           pthread_create(&handles[started], NULL, work, &pool) == 0)
        started++;
    work(&pool);
    for (unsigned t = 0; t < started; t++)
        pthread_join(handles[t], NULL);
    if (pool.resume)
        fclose(pool.resume);
    free(pool.done);
    return pool.status;
}
