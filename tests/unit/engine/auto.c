/* The engine "auto" with nothing but oneDNN behind it: jobs in their order, one at a time on a stream, whoever submits them. */
#include "networks.h"
#include "ticket.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { MAX = 4, ROW = 8, JOBS = 200, THREADS = 3, STREAMS = 2 };

static const engine_ops_t *ops;
static engine_t *engine;

static void begin(void)
{
    err_t err;
    engine_set_plugin_dir("/nonexistent");
    cr_assert_eq(engine_find("auto", &ops, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(ops->open(&(engine_config_t){.streams = STREAMS}, &engine, &err), STATUS_OK, "%s", err.text);
}

/* y = x + x */
static engine_model_t *load_double(status_t wanted, const char *only, err_t *err)
{
    engine_model_t *model = NULL;
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){-1, ROW});
    maker_node(m, "Add", "x x", "y");
    maker_output(m, "y", DTYPE_F32, 2, (int64_t[]){-1, ROW});
    engine_load_t what = {.max_batch = MAX, .only = only};
    cr_assert_eq(network_load_as(m, ops, engine, what, &model, err), wanted, "%s", err->text);
    return model;
}

typedef struct {
    engine_model_t *model;
    uint32_t stream;
    uint32_t failed;
} submitter_t;

static void *submit_all(void *arg)
{
    submitter_t *s = arg;
    float in[JOBS][ROW], out[JOBS][ROW];
    const void *inputs[JOBS];
    void *outputs[JOBS];
    ticket_t *tickets = calloc(JOBS, sizeof *tickets);
    for (uint32_t i = 0; i < JOBS; i++) {
        for (uint32_t k = 0; k < ROW; k++)
            in[i][k] = (float)(i + k);
        inputs[i] = in[i];
        outputs[i] = out[i];
        ticket_start(&tickets[i], ops, engine,
                     (engine_job_t){.model = s->model,
                                    .batch = 1,
                                    .range = {.stream = s->stream},
                                    .inputs = &inputs[i],
                                    .outputs = &outputs[i]});
    }
    for (uint32_t i = 0; i < JOBS; i++) {
        s->failed += ticket_wait(&tickets[i]) != STATUS_OK;
        for (uint32_t k = 0; k < ROW; k++)
            s->failed += out[i][k] != 2 * in[i][k];
    }
    free(tickets);
    return NULL;
}

Test(auto, jobs_of_many_threads_all_run)
{
    err_t err;
    begin();
    engine_model_t *model = load_double(STATUS_OK, NULL, &err);
    pthread_t threads[THREADS];
    submitter_t submitters[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        submitters[i] = (submitter_t){.model = model, .stream = i % STREAMS};
        cr_assert_eq(pthread_create(&threads[i], NULL, submit_all, &submitters[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        cr_expect_eq(submitters[i].failed, 0);
    }
    ops->flush(engine);
    ops->unload(model);
    ops->close(engine);
}

/* Refused inside submit, before it returns: those behind it run all the same. */
Test(auto, what_is_refused_holds_up_nobody)
{
    float in[ROW] = {1}, out[ROW] = {0};
    const void *inputs[] = {in};
    void *outputs[] = {out};
    err_t err;
    begin();
    engine_model_t *model = load_double(STATUS_OK, NULL, &err);
    engine_job_t good = {.model = model, .batch = 1, .inputs = inputs, .outputs = outputs}, bad = good,
                 no = good;
    ticket_t tickets[3];
    bad.batch = MAX + 1;
    no.range.stream = STREAMS;
    ticket_start(&tickets[0], ops, engine, bad);
    ticket_start(&tickets[1], ops, engine, no);
    ticket_start(&tickets[2], ops, engine, good);
    cr_expect_eq(ticket_wait(&tickets[0]), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(ticket_wait(&tickets[1]), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(ticket_wait(&tickets[2]), STATUS_OK, "%s", tickets[2].text);
    cr_expect_float_eq(out[0], 2, 0);
    cr_expect_gt(tickets[2].job.finished_ns, 0);
    ops->unload(model);
    ops->close(engine);
}

/* Whichever of them has begun ends as usual; done comes once for each. */
Test(auto, what_waits_can_be_cancelled_and_stopped)
{
    float in[ROW] = {1}, out[JOBS][ROW];
    const void *inputs[] = {in};
    static void *outputs[JOBS];
    static ticket_t tickets[JOBS];
    err_t err;
    begin();
    engine_model_t *model = load_double(STATUS_OK, NULL, &err);
    for (uint32_t i = 0; i < JOBS; i++) {
        outputs[i] = out[i];
        ticket_start(&tickets[i], ops, engine,
                     (engine_job_t){.model = model, .batch = 1, .inputs = inputs, .outputs = &outputs[i]});
    }
    uint32_t gone = 0, cancelled = 0;
    for (uint32_t i = JOBS; i-- > 0;)
        gone += i % 2 ? ops->cancel(engine, &tickets[i].job) : ops->stop(engine, &tickets[i].job);
    for (uint32_t i = 0; i < JOBS; i++) {
        status_t status = ticket_wait(&tickets[i]);
        cr_expect(status == STATUS_OK || status == STATUS_CANCELLED, "%s", tickets[i].text);
        cancelled += status == STATUS_CANCELLED;
    }
    cr_expect_eq(cancelled, gone);
    ops->flush(engine);
    ops->unload(model);
    ops->close(engine);
}

Test(auto, one_that_is_not_here_is_told)
{
    err_t err;
    begin();
    load_double(STATUS_NOT_FOUND, "openvino", &err);
    cr_expect(strstr(err.text, "openvino"), "%s", err.text);
    engine_model_t *model = load_double(STATUS_OK, "onednn", &err);
    cr_expect_eq(ops->choice->count(model), 1);
    cr_expect_str_eq(ops->choice->name(model, ops->choice->used(model)), "onednn");
    ops->choice->settle(model);
    cr_expect_eq(ops->choice->use(model, 0, &err), STATUS_OK, "%s", err.text);
    ops->unload(model);
    ops->close(engine);
}
