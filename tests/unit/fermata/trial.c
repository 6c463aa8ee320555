/* Queries that are played to a mode on an engine: all are answered, and the trial is over with the last one. */
#include "fermata/profile/trial.h"

#include "base/clock.h"
#include "exec/whole.h"
#include "maker.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { QUERIES = 20, ROWS = 4, WIDTH = 8 };

static const engine_ops_t *ops;
static engine_t *engine;
static engine_model_t *model;
static _Atomic(int) stop;
static err_t err;

static void begin(void)
{
    size_t len;
    maker_t *m = maker_create(13);
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){-1, WIDTH});
    maker_node(m, "Tanh", "x", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    uint8_t *bytes = maker_pack(m, &len);
    engine_load_t what = {.name = "tanh", .bytes = bytes, .len_bytes = len, .max_batch = ROWS};
    atomic_store(&stop, 0);
    cr_assert_eq(engine_find("reference", &ops, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(ops->open(&(engine_config_t){0}, &engine, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(ops->load(engine, &what, &model, &err), STATUS_OK, "%s", err.text);
    free(bytes);
}

static void end(void)
{
    ops->unload(model);
    ops->close(engine);
}

TestSuite(trial, .init = begin, .fini = end);

static status_t play(const trial_arrival_t *work, bool closed, int64_t *latency_ns, int64_t *took_ns)
{
    whole_config_t config = {.gather = true, .rows_max = ROWS, .queries_max = QUERIES};
    trial_t trial = {.ops = ops,
                     .engine = engine,
                     .model = model,
                     .streams = 1,
                     .rows_max = ROWS,
                     .stages = 1,
                     .work = work,
                     .queries = QUERIES,
                     .closed = closed,
                     .stop = &stop};
    exec_t *exec = exec_create_whole(&config, &err);
    cr_assert_not_null(exec);
    status_t status = trial_run(&trial, exec, latency_ns, took_ns, &err);
    exec_destroy(exec);
    return status;
}

/* What serves a backlog of so little in no time has a peak of thousands a second. */
Test(trial, ends_with_the_last_answer)
{
    trial_arrival_t work[QUERIES] = {0};
    int64_t latency_ns[QUERIES], took_ns = 0;
    for (int i = 0; i < QUERIES; i++)
        work[i].length = 1;
    cr_assert_eq(play(work, false, latency_ns, &took_ns), STATUS_OK, "%s", err.text);
    cr_assert_lt(took_ns, NS_PER_S / 2);
    for (int i = 0; i < QUERIES; i++)
        cr_assert(latency_ns[i] > 0 && latency_ns[i] <= took_ns);
}

Test(trial, queries_come_when_they_are_due)
{
    trial_arrival_t work[QUERIES] = {0};
    int64_t latency_ns[QUERIES], took_ns = 0, last_ns = 50 * NS_PER_MS;
    for (int i = 0; i < QUERIES; i++)
        work[i] = (trial_arrival_t){.at_ns = i == QUERIES - 1 ? last_ns : 0, .length = 1};
    cr_assert_eq(play(work, false, latency_ns, &took_ns), STATUS_OK, "%s", err.text);
    cr_assert_geq(took_ns, last_ns + latency_ns[QUERIES - 1]);
}

/* Else the last of them would wait for all others. */
Test(trial, one_comes_when_the_one_before_it_was_answered)
{
    trial_arrival_t work[QUERIES] = {0};
    int64_t latency_ns[QUERIES], took_ns = 0, sum_ns = 0;
    for (int i = 0; i < QUERIES; i++)
        work[i].length = 1;
    cr_assert_eq(play(work, true, latency_ns, &took_ns), STATUS_OK, "%s", err.text);
    for (int i = 0; i < QUERIES; i++) {
        cr_assert_gt(latency_ns[i], 0);
        sum_ns += latency_ns[i];
    }
    cr_assert_leq(sum_ns, took_ns);
}

Test(trial, can_be_stopped)
{
    trial_arrival_t work[QUERIES] = {0};
    int64_t latency_ns[QUERIES], took_ns = 0;
    for (int i = 0; i < QUERIES; i++)
        work[i] = (trial_arrival_t){.at_ns = i * 3600 * NS_PER_S, .length = 1};
    atomic_store(&stop, 1);
    cr_assert_eq(play(work, false, latency_ns, &took_ns), STATUS_CANCELLED);
}
