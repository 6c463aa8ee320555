/* The pieces of a model that `fermata profile --overlap` measures, at rows of several lengths: what they compute
 * one after the other is what the model computes. */
#include "fermata/profile/overlap_service.h"

#include "engine/wait.h"
#include "maker.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef SERVICE_ENGINE
#define SERVICE_ENGINE "onednn"
#endif

enum { WIDTH = 8, LAYERS = 3, ROWS = 4, LONGEST = 9, STREAM = 1 };

static const uint32_t rows[] = {1, ROWS};
static const engine_ops_t *ops;
static engine_t *engine;
static engine_model_t *model;
static axes_t axes;
static profile_mix_t mix;
static overlap_service_t service;
static err_t err;

/* Each layer adds the sum of all words to a product of each: of one word that is a product with a residual, which is
 * another operator. */
static maker_t *totals(void)
{
    static float w[WIDTH * WIDTH];
    maker_t *m = maker_create(13);

    for (int i = 0; i < WIDTH * WIDTH; i++)
        w[i] = (float)(i * 7 % 11 - 5) / 20;
    maker_input(m, "x0", DTYPE_F32, 3, (int64_t[]){-1, -2, WIDTH});
    maker_ints(m, "axis", 1, (int64_t[]){1});
    maker_floats(m, "w", 2, (int64_t[]){WIDTH, WIDTH}, w);
    for (int i = 0; i < LAYERS; i++) {
        char in[32], name[4][16];
        snprintf(name[0], sizeof(name[0]), "sum%d", i);
        snprintf(name[1], sizeof(name[1]), "product%d", i);
        snprintf(name[2], sizeof(name[2]), "all%d", i);
        snprintf(name[3], sizeof(name[3]), "x%d", i + 1);
        snprintf(in, sizeof(in), "x%d axis", i);
        maker_node(m, "ReduceSum", in, name[0]);
        snprintf(in, sizeof(in), "x%d w", i);
        maker_node(m, "MatMul", in, name[1]);
        snprintf(in, sizeof(in), "%.15s %.15s", name[1], name[0]);
        maker_node(m, "Add", in, name[2]);
        maker_node(m, "Tanh", name[2], name[3]);
    }
    maker_output(m, "x3", DTYPE_F32, -1, NULL);
    return m;
}

static void load(void)
{
    static const shape_config_t any;
    size_t len;
    uint8_t *bytes = maker_pack(totals(), &len);
    engine_load_t what = {.name = "totals", .bytes = bytes, .len_bytes = len, .max_batch = ROWS};

    cr_assert_eq(engine_find(SERVICE_ENGINE, &ops, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(ops->open(&(engine_config_t){.streams = STREAM + 1}, &engine, &err), STATUS_OK, "%s",
                 err.text);
    cr_assert_eq(ops->load(engine, &what, &model, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(axes_find(&axes, ops->info(model), &any, &err), STATUS_OK, "%s", err.text);
    free(bytes);
}

/* A third of the rows each. */
static void begin(const uint32_t lengths[3])
{
    load();
    mix = (profile_mix_t){.axes = &axes, .count = 3};
    for (uint32_t i = 0; i < 3; i++) {
        mix.shapes[i].sizes[0] = lengths[i];
        mix.shapes[i].until = (i + 1) / 3.0;
    }
    service = (overlap_service_t){.ops = ops, .engine = engine, .model = model, .mix = &mix};
    cr_assert_eq(overlap_service_open(&service, rows, 2, &err), STATUS_OK, "%s", err.text);
    for (uint32_t i = 0; i < ROWS * overlap_service_length(&service, mix.count - 1); i++)
        ((float *)service.inputs[0])[i] = (float)(i * 13 % 17) / 8 - 1;
}

static void end(void)
{
    overlap_service_close(&service);
    ops->unload(model);
    ops->close(engine);
}

static void run(engine_job_t job)
{
    cr_assert_eq(engine_run_wait(ops, engine, &job, &err), STATUS_OK, "%s", err.text);
}

static void run_in_pieces(const exec_part_t *part)
{
    for (uint32_t piece = 0; piece < service.pieces; piece++) {
        run(overlap_service_job(&service, part, piece, piece + 1));
        engine_border_t *written = service.target;
        service.target = service.source;
        service.source = written;
    }
}

Test(overlap_service, pieces_of_any_length_compute_what_the_model_does)
{
    static float whole[ROWS * LONGEST * WIDTH];

    begin((const uint32_t[]){2, 5, LONGEST});
    cr_assert_gt(service.pieces, 2);
    for (uint32_t i = 0; i < 6;
         i++) { /* back and forth: what another shape left in a border must not matter */
        uint32_t shape = i * 2 % 3, length = mix.shapes[shape].sizes[0];
        exec_part_t part = {.stream = STREAM,
                            .to = service.pieces,
                            .rows = rows[i % 2],
                            .length = overlap_service_length(&service, shape)};
        size_t len = (size_t)part.rows * length * WIDTH;
        cr_assert_eq(part.length, length * WIDTH, "the elements of a row");
        cr_assert_eq(overlap_service_prepare(&service, &part, &err), STATUS_OK, "%s", err.text);
        run(overlap_service_job(&service, &part, 0, service.pieces));
        memcpy(whole, service.outputs[0], len * sizeof(float));
        memset(service.outputs[0], 0, len * sizeof(float));
        run_in_pieces(&part);
        for (size_t at = 0; at < len; at++)
            cr_assert_float_eq(((float *)service.outputs[0])[at], whole[at], 1e-4, "length %u, element %zu",
                               length, at);
    }
    end();
}

Test(overlap_service, a_shape_with_other_operators_is_left_out)
{
    begin((const uint32_t[]){1, 4, LONGEST});
    cr_assert_eq(mix.count, 2);
    cr_assert_eq(mix.shapes[0].sizes[0], 4);
    cr_assert_float_eq(profile_mix_share(&mix, 0), 0.5, 1e-9);
    cr_assert_float_eq(mix.shapes[1].until, 1, 1e-9);
    cr_assert_eq(overlap_service_length(&service, 0), 4 * WIDTH);
    end();
}

/* Its rows come in one shape only, whatever the others are: its cuts are those of the last. */
Test(overlap_service, the_largest_shape_is_the_one_that_is_cut)
{
    begin((const uint32_t[]){1, 1, 1});
    cr_assert_eq(mix.count, 3);
    uint32_t of_one_word = service.op_count;
    end();
    begin((const uint32_t[]){2, 3, LONGEST});
    cr_assert_lt(of_one_word, service.op_count);
    end();
}
