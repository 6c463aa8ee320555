/* A model on each of the engines behind "auto": the plug-ins are here. */
#include "networks.h"
#include "ticket.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 3, WIDTH = 6 };

static const engine_ops_t *ops;
static engine_t *engine;

static void begin(void)
{
    err_t err;
    cr_assert_eq(engine_find("auto", &ops, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(ops->open(&(engine_config_t){0}, &engine, &err), STATUS_OK, "%s", err.text);
}

static engine_model_t *load(const char *op, status_t wanted, err_t *err)
{
    engine_model_t *model = NULL;
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){-1, WIDTH});
    maker_node(m, op, "x", "y");
    maker_output(m, "y", DTYPE_F32, 2, (int64_t[]){-1, WIDTH});
    cr_assert_eq(network_load(m, ops, engine, ROWS, ENGINE_FP32, &model, err), wanted, "%s", err->text);
    return model;
}

static void run(engine_model_t *model, float out[ROWS * WIDTH])
{
    float in[ROWS * WIDTH];
    ticket_t ticket;
    network_noise(in, ROWS * WIDTH, 5);
    engine_job_t job = {
        .model = model, .batch = ROWS, .inputs = (const void *[]){in}, .outputs = (void *[]){out}};
    cr_assert_eq(ticket_run(&ticket, ops, engine, job), STATUS_OK, "%s", ticket.text);
}

Test(auto_choice, each_engine_runs_it_and_one_stays)
{
    float first[ROWS * WIDTH], out[ROWS * WIDTH];
    err_t err;
    begin();
    engine_model_t *model = load("Sigmoid", STATUS_OK, &err);
    uint32_t count = ops->choice->count(model);
    cr_assert_geq(count, 2);
    cr_expect_str_eq(ops->choice->name(model, ops->choice->used(model)), "onnxruntime");
    run(model, first);
    for (uint32_t i = 0; i < count; i++) {
        cr_assert_eq(ops->choice->use(model, i, &err), STATUS_OK, "%s", err.text);
        cr_expect_eq(ops->choice->used(model), i);
        memset(out, 0, sizeof out);
        run(model, out);
        for (uint32_t k = 0; k < ROWS * WIDTH; k++)
            cr_assert_float_eq(out[k], first[k], 1e-5f);
    }
    const engine_model_info_t *info = ops->info(model);
    ops->choice->settle(model);
    cr_expect_eq(ops->info(model), info);
    cr_expect_str_eq(info->inputs[0].name, "x"); /* though who described it is gone */
    cr_expect_eq(ops->choice->use(model, 0, &err), STATUS_UNAVAILABLE);
    run(model, out);
    ops->unload(model);
    ops->close(engine);
}

/* What none of them takes is told as oneDNN tells it. */
Test(auto_choice, what_no_engine_takes_is_told_once)
{
    err_t err;
    begin();
    load("NoSuchOperator", STATUS_UNSUPPORTED, &err);
    cr_expect(strstr(err.text, "NoSuchOperator"), "%s", err.text);
    ops->close(engine);
}

/* What only oneDNN can do is not offered for others. */
Test(auto_choice, cuts_are_those_of_the_engine_in_use)
{
    engine_cuts_t cuts;
    err_t err;
    begin();
    engine_model_t *model = load("Softmax", STATUS_OK, &err);
    cr_expect_eq(ops->cuts(model, &cuts, &err), STATUS_UNSUPPORTED);
    cr_expect(strstr(err.text, "onnxruntime"), "%s", err.text);
    for (uint32_t i = 0; i < ops->choice->count(model); i++) {
        if (strcmp(ops->choice->name(model, i), "onednn") != 0)
            continue;
        cr_assert_eq(ops->choice->use(model, i, &err), STATUS_OK, "%s", err.text);
        status_t status = ops->cuts(model, &cuts, &err);
        cr_expect(status == STATUS_OK || !strstr(err.text, "cannot cut"), "%s", err.text);
    }
    ops->unload(model);
    ops->close(engine);
}
