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

/* A chain of three operators, the middle one of which is named. */
static engine_model_t *load(const char *op, status_t wanted, err_t *err)
{
    engine_model_t *model = NULL;
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){-1, WIDTH});
    maker_node(m, "Exp", "x", "a");
    maker_node(m, op, "a", "b");
    maker_node(m, "Exp", "b", "y");
    maker_output(m, "y", DTYPE_F32, 2, (int64_t[]){-1, WIDTH});
    cr_assert_eq(network_load(m, ops, engine, ROWS, ENGINE_FP32, &model, err), wanted, "%s", err->text);
    return model;
}

static void run_rows(engine_model_t *model, uint32_t rows, float out[ROWS * WIDTH])
{
    float in[ROWS * WIDTH];
    ticket_t ticket;
    network_noise(in, ROWS * WIDTH, 5);
    engine_job_t job = {
        .model = model, .batch = rows, .inputs = (const void *[]){in}, .outputs = (void *[]){out}};
    cr_assert_eq(ticket_run(&ticket, ops, engine, job), STATUS_OK, "%s", ticket.text);
}

static void run(engine_model_t *model, float out[ROWS * WIDTH])
{
    run_rows(model, ROWS, out);
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

/* ---- Two at once ---- */

static uint32_t find(const engine_model_t *model, const char *name)
{
    for (uint32_t i = 0; i < ops->choice->count(model); i++)
        if (strcmp(ops->choice->name(model, i), name) == 0)
            return i;
    cr_assert_fail("no %s", name);
    return 0;
}

/* Which of two it ran on is seen in the last bits. */
Test(auto_choice, small_batches_run_on_one_and_large_ones_on_another)
{
    float ort[ROWS][ROWS * WIDTH] = {0}, onednn[ROWS][ROWS * WIDTH] = {0}, out[ROWS * WIDTH];
    err_t err;
    begin();
    engine_model_t *model = load("Softmax", STATUS_OK, &err);
    uint32_t a = find(model, "onnxruntime"), b = find(model, "onednn");
    for (uint32_t rows = 1; rows <= ROWS; rows++) {
        cr_assert_eq(ops->choice->use(model, a, &err), STATUS_OK, "%s", err.text);
        run_rows(model, rows, ort[rows - 1]);
        cr_assert_eq(ops->choice->use(model, b, &err), STATUS_OK, "%s", err.text);
        run_rows(model, rows, onednn[rows - 1]);
        cr_assert_neq(memcmp(ort[rows - 1], onednn[rows - 1], sizeof out), 0, "the network tells nothing");
    }
    cr_assert_eq(ops->choice->use_two(model, a, 2, b, &err), STATUS_OK, "%s", err.text);
    cr_expect_str_eq(ops->choice->running(model), "onnxruntime:2+onednn");
    cr_expect_eq(ops->choice->used(model), b);
    ops->choice->settle(model);
    for (uint32_t rows = 1; rows <= ROWS; rows++) {
        memset(out, 0, sizeof out);
        run_rows(model, rows, out);
        cr_expect_eq(memcmp(out, rows <= 2 ? ort[rows - 1] : onednn[rows - 1], sizeof out), 0, "%u", rows);
    }
    ops->unload(model);
    ops->close(engine);
}

Test(auto_choice, two_take_the_memory_of_two_and_cannot_be_cut)
{
    engine_cuts_t cuts;
    engine_border_t *border;
    err_t err;
    begin();
    engine_model_t *model = load("Sigmoid", STATUS_OK, &err);
    cr_assert_eq(ops->choice->use_named(model, "onnxruntime", &err), STATUS_OK, "%s", err.text);
    uint64_t one_bytes = ops->info(model)->memory_bytes;
    uint32_t stops = ops->info(model)->stop_points;
    cr_assert_eq(ops->choice->use_named(model, "onednn", &err), STATUS_OK, "%s", err.text);
    uint64_t other_bytes = ops->info(model)->memory_bytes;
    cr_assert_eq(ops->choice->use_named(model, "onednn:1+onnxruntime", &err), STATUS_OK, "%s", err.text);
    cr_expect_eq(ops->info(model)->memory_bytes, one_bytes + other_bytes);
    cr_expect_gt(stops, 0);
    cr_expect_eq(ops->info(model)->stop_points, 0, "onednn stops nowhere");
    cr_expect_eq(ops->cuts(model, &cuts, &err), STATUS_UNSUPPORTED);
    cr_expect(strstr(err.text, "onednn:1+onnxruntime"), "%s", err.text);
    cr_expect_eq(ops->border_create(model, &(uint32_t){1}, 1, ROWS, NULL, &border, &err), STATUS_UNSUPPORTED);
    cr_expect_eq(ops->prepare_range(model, &(engine_range_t){0}, 1, NULL, &err), STATUS_UNSUPPORTED);
    cr_assert_eq(ops->choice->use_named(model, "onnxruntime", &err), STATUS_OK, "%s", err.text);
    cr_expect_eq(ops->cuts(model, &cuts, &err), STATUS_OK, "on one again");
    ops->unload(model);
    ops->close(engine);
}

Test(auto_choice, who_names_two_gets_both_or_nothing)
{
    engine_model_t *model = NULL;
    err_t err;
    begin();
    const struct {
        const char *only, *without;
        status_t status;
    } cases[] = {{"onednn:2+onnxruntime", NULL, STATUS_OK},
                 {"onednn:2+onnxruntime", "onednn", STATUS_UNSUPPORTED},
                 {"onednn:2+onnxruntime", "onnxruntime", STATUS_UNSUPPORTED},
                 {"onednn:2+nothing", NULL, STATUS_NOT_FOUND},
                 {"nothing:2+onednn", NULL, STATUS_NOT_FOUND},
                 {"onednn:+onnxruntime", NULL, STATUS_NOT_FOUND}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        maker_t *m = maker_create(17);
        maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){-1, WIDTH});
        maker_node(m, "Exp", "x", "y");
        maker_output(m, "y", DTYPE_F32, 2, (int64_t[]){-1, WIDTH});
        engine_load_t what = {.max_batch = ROWS, .only = cases[i].only, .without = cases[i].without};
        cr_assert_eq(network_load_as(m, ops, engine, what, &model, &err), cases[i].status, "%zu: %s", i,
                     err.text);
        if (cases[i].status != STATUS_OK)
            continue;
        cr_expect_str_eq(ops->choice->running(model), cases[i].only);
        ops->unload(model);
    }
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

/* What oneDNN lacks is not all that is wrong. */
Test(auto_choice, a_mistake_that_others_find_is_told_beside_what_onednn_lacks)
{
    engine_model_t *model = NULL;
    err_t err;
    begin();
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 1, (int64_t[]){8});
    maker_node(m, "Bernoulli", "x", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    engine_load_t what = {.max_batch = ROWS, .batching = ENGINE_BATCH_FORCE};
    cr_assert_neq(network_load_as(m, ops, engine, what, &model, &err), STATUS_OK);
    cr_expect(strstr(err.text, "Bernoulli") && strstr(err.text, "max_batch"), "%s", err.text);
    ops->close(engine);
}

static engine_job_t part(engine_model_t *model, const float *in, float *out)
{
    static const void *inputs[1];
    static void *outputs[1];
    inputs[0] = in;
    outputs[0] = out;
    return (engine_job_t){.model = model, .batch = ROWS, .inputs = inputs, .outputs = outputs};
}

/* In two parts, at each cut of the engine that it is on. */
static void run_in_parts(engine_model_t *model, const engine_cuts_t *cuts, const float *whole)
{
    float in[ROWS * WIDTH], out[ROWS * WIDTH];
    ticket_t ticket;
    err_t err;
    network_noise(in, ROWS * WIDTH, 5);
    for (uint32_t c = 0; c < cuts->cut_count; c++) {
        engine_border_t *border;
        engine_job_t first = part(model, in, out), rest = first;
        cr_assert_eq(ops->border_create(model, &cuts->cuts[c].op, 1, ROWS, NULL, &border, &err), STATUS_OK,
                     "%s", err.text);
        cr_expect_eq(ops->border_bytes(border), sizeof in);
        first.range.to = rest.range.from = cuts->cuts[c].op;
        first.target = border;
        rest.source = border;
        memset(out, 0, sizeof out);
        cr_assert_eq(ticket_run(&ticket, ops, engine, first), STATUS_OK, "%s", ticket.text);
        cr_assert_eq(ticket_run(&ticket, ops, engine, rest), STATUS_OK, "%s", ticket.text);
        for (uint32_t k = 0; k < ROWS * WIDTH; k++)
            cr_assert_float_eq(out[k], whole[k], 1e-4f);
        ops->border_destroy(border);
    }
}

static engine_model_t *load_halving(bool corners, err_t *err)
{
    engine_model_t *model = NULL;
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 4, (int64_t[]){-1, 1, 5, 5});
    maker_floats(m, "scales", 1, (int64_t[]){4}, (float[]){1, 1, 0.7F, 0.7F});
    Onnx__NodeProto *node = maker_node(m, "Resize", "x  scales", "y");
    maker_attr_string(node, "mode", "linear");
    if (corners)
        maker_attr_string(node, "coordinate_transformation_mode", "align_corners");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    cr_assert_eq(network_load(m, ops, engine, ROWS, ENGINE_FP32, &model, err), STATUS_OK, "%s", err->text);
    return model;
}

/* The other way to resize is right everywhere. */
Test(auto_choice, a_model_does_not_go_where_it_is_known_to_come_out_wrong)
{
    err_t err;
    begin();
    for (int corners = 0; corners < 2; corners++) {
        engine_model_t *model = load_halving(corners, &err);
        cr_expect_str_eq(ops->choice->name(model, ops->choice->used(model)),
                         corners ? "onednn" : "onnxruntime");
        for (uint32_t i = 0; i < ops->choice->count(model); i++) {
            if (i == ops->choice->used(model) || strcmp(ops->choice->name(model, i), "openvino") == 0)
                continue;
            cr_expect_eq(ops->choice->use(model, i, &err), corners ? STATUS_UNSUPPORTED : STATUS_OK);
            cr_expect(!corners || strstr(err.text, "known to be wrong"), "%s", err.text);
            break;
        }
        ops->unload(model);
    }
    ops->close(engine);
}

/* One that the configuration names is taken as it is. */
Test(auto_choice, who_names_an_engine_gets_it)
{
    engine_model_t *model = NULL;
    err_t err;
    begin();
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 3, (int64_t[]){-1, 8, 1});
    maker_node(m, "DFT", "x", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    cr_assert_eq(network_load_as(m, ops, engine, (engine_load_t){.max_batch = ROWS, .only = "onnxruntime"},
                                 &model, &err),
                 STATUS_OK, "%s", err.text);
    cr_expect_str_eq(ops->choice->name(model, ops->choice->used(model)), "onnxruntime");
    ops->unload(model);
    ops->close(engine);
}

/* OpenVINO has none. */
Test(auto_choice, cuts_and_borders_are_those_of_the_engine_in_use)
{
    float whole[ROWS * WIDTH];
    uint32_t cutting = 0;
    err_t err;
    begin();
    engine_model_t *model = load("Softmax", STATUS_OK, &err);
    run(model, whole);
    for (uint32_t i = 0; i < ops->choice->count(model); i++) {
        engine_cuts_t cuts;
        cr_assert_eq(ops->choice->use(model, i, &err), STATUS_OK, "%s", err.text);
        bool cuts_models = strcmp(ops->choice->name(model, i), "openvino") != 0;
        status_t status = ops->cuts(model, &cuts, &err);
        cr_expect_eq(status, cuts_models ? STATUS_OK : STATUS_UNSUPPORTED, "%s", err.text);
        cr_expect_eq(ops->info(model)->stop_points > 0,
                     strcmp(ops->choice->name(model, i), "onnxruntime") == 0);
        if (status == STATUS_OK)
            run_in_parts(model, &cuts, whole);
        else
            cr_expect(strstr(err.text, "openvino"), "%s", err.text);
        cutting += status == STATUS_OK;
        ops->choice->leave(model, i); /* it runs there: nothing happens */
    }
    cr_expect_eq(cutting, 2);
    ops->choice->leave(model, 0);
    cr_assert_eq(ops->choice->use(model, 0, &err), STATUS_OK, "%s", err.text); /* anew */
    run(model, whole);
    ops->unload(model);
    ops->close(engine);
}

/* It is loaded on another, and not tried there later. */
Test(auto_choice, an_engine_that_is_left_out_has_no_part_in_it)
{
    engine_model_t *model = NULL;
    err_t err;
    begin();
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){-1, 8});
    maker_node(m, "Relu", "x", "y");
    maker_output(m, "y", DTYPE_F32, 2, (int64_t[]){-1, 8});
    cr_assert_eq(network_load_as(m, ops, engine,
                                 (engine_load_t){.max_batch = ROWS, .without = "openvino,onnxruntime"},
                                 &model, &err),
                 STATUS_OK, "%s", err.text);
    for (uint32_t i = 0; i < ops->choice->count(model); i++)
        cr_expect_eq(ops->choice->use(model, i, &err),
                     strcmp(ops->choice->name(model, i), "onednn") == 0 ? STATUS_OK : STATUS_UNSUPPORTED);
    ops->unload(model);
    ops->close(engine);
}
