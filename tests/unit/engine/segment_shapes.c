/*
 * Segments of a model whose dimensions vary: borders made for the largest shape hold batches of every smaller one.
 */
#include "networks.h"
#include "ticket.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifndef SEGMENTS_ENGINE
#define SEGMENTS_ENGINE "onednn"
#endif

enum {
    ROWS = 6,
    STREAMS = 3,
    LONGEST = 12,
    ROW_FLOATS = LONGEST * NETWORK_WIDTH,
    FLOATS = ROWS * ROW_FLOATS
};

static const int64_t lengths[] = {1, 2, 5, 11, LONGEST};
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

static const engine_ops_t *ops;
static engine_t *engine;
static engine_model_t *model;
static engine_cuts_t cuts;
static float x[FLOATS], mask[ROWS * LONGEST], whole[FLOATS], out[FLOATS];
static const void *inputs[] = {x, mask};
static void *wholes[] = {whole}, *outputs[] = {out};
static size_t room;

/* The engine keeps pointers to these while a job runs; each test runs one at a time. */
static engine_shape_t shapes[2], got[1];

static void set_length(uint32_t rows, int64_t length)
{
    shapes[0] = (engine_shape_t){.rank = 3, .dims = {rows, length, NETWORK_WIDTH}};
    shapes[1] = (engine_shape_t){.rank = 4, .dims = {rows, 1, 1, length}};
}

static engine_job_t part(uint32_t stream, uint32_t from, uint32_t to, uint32_t row, uint32_t rows,
                         int64_t length)
{
    set_length(rows, length);
    room = sizeof out;
    return (engine_job_t){.model = model,
                          .batch = rows,
                          .row = row,
                          .range = {.stream = stream, .from = from, .to = to},
                          .inputs = inputs,
                          .outputs = outputs,
                          .input_shapes = shapes,
                          .output_shapes = got,
                          .output_capacity_bytes = &room};
}

static void run(engine_job_t job, const char *what)
{
    ticket_t t;
    cr_assert_eq(ticket_run(&t, ops, engine, job), STATUS_OK, "%s: %s", what, t.text);
}

static engine_border_t *border(const uint32_t *at, uint32_t count)
{
    engine_border_t *made = NULL;
    err_t err;
    set_length(1, LONGEST);
    cr_assert_eq(ops->border_create(model, at, count, ROWS, shapes, &made, &err), STATUS_OK, "%s", err.text);
    return made;
}

static void begin(void)
{
    err_t err;
    cr_assert_eq(engine_find(SEGMENTS_ENGINE, &ops, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(ops->open(&(engine_config_t){.streams = STREAMS}, &engine, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(network_load(network_of_any_length(), ops, engine, ROWS, ENGINE_FP32, &model, &err),
                 STATUS_OK, "%s", err.text);
    cr_assert_eq(ops->cuts(model, &cuts, &err), STATUS_OK, "%s", err.text);
    cr_assert_gt(cuts.cut_count, 3);
    network_noise(x, FLOATS, 1);
    network_noise(mask, ROWS * LONGEST, 2);
}

static void end(void)
{
    ops->unload(model);
    ops->close(engine);
}

static void compare(int64_t length, double tolerance)
{
    for (size_t at = 0; at < (size_t)(ROWS * length * NETWORK_WIDTH); at++)
        cr_assert(fabs((double)out[at] - (double)whole[at]) <= tolerance * (1 + fabs((double)whole[at])),
                  "length %d: element %zu is %g, not %g", (int)length, at, (double)out[at],
                  (double)whole[at]);
    memset(out, 0xff, sizeof out);
}

static void run_whole(int64_t length)
{
    engine_job_t job = part(0, 0, 0, 0, ROWS, length);
    job.outputs = wholes;
    run(job, "whole");
}

TestSuite(segment_shapes, .init = begin, .fini = end);

/* One after the other through the same border: what another shape left there must not matter. */
Test(segment_shapes, two_halves_at_any_cut_and_any_length)
{
    for (uint32_t c = 0; c < cuts.cut_count; c++) {
        uint32_t op = cuts.cuts[c].op, stream = c % STREAMS;
        engine_border_t *at = border(&op, 1);
        for (uint32_t i = 0; i < 2 * LENGTHS; i++) {
            int64_t length = lengths[i * 3 % LENGTHS];
            run_whole(length);
            engine_job_t first = part(stream, 0, op, 0, ROWS, length);
            first.target = at;
            run(first, "first half");
            engine_job_t rest = part(stream, op, 0, 0, ROWS, length);
            rest.source = at;
            run(rest, "second half");
            cr_assert_eq(got[0].dims[1], length);
            compare(length, 0);
        }
        ops->border_destroy(at);
    }
}

/* Rows that came first and such that catch up, then parts of the batch. */
Test(segment_shapes, rows_come_together_and_go_apart)
{
    for (uint32_t c = 0; c < cuts.cut_count; c++) {
        uint32_t op = cuts.cuts[c].op;
        engine_border_t *at = border(&op, 1);
        for (uint32_t i = 0; i < LENGTHS; i++) {
            run_whole(lengths[i]);
            for (uint32_t row = 0; row < ROWS; row += 2) {
                engine_job_t first = part(0, 0, op, row, 2, lengths[i]);
                first.target = at;
                run(first, "two rows");
            }
            for (uint32_t row = 0; row < ROWS; row += 3) {
                engine_job_t rest = part(1, op, 0, row, 3, lengths[i]);
                rest.source = at;
                run(rest, "three rows");
            }
            compare(lengths[i], 1e-4);
        }
        ops->border_destroy(at);
    }
}

Test(segment_shapes, longer_rows_than_the_border_is_for_are_refused)
{
    uint32_t op = cuts.cuts[0].op;
    engine_border_t *at = border(&op, 1);
    ticket_t t;
    engine_job_t job = part(0, 0, op, 0, 1, LONGEST + 1);
    job.target = at;
    cr_assert_eq(ticket_run(&t, ops, engine, job), STATUS_UNSUPPORTED, "%s", t.text);
    cr_assert(strstr(t.text, "larger than what the border was made for"), "%s", t.text);
    ops->border_destroy(at);
}

Test(segment_shapes, outputs_need_room_behind_the_rows_before)
{
    uint32_t op = cuts.cuts[0].op;
    engine_border_t *at = border(&op, 1);
    ticket_t t;
    engine_job_t job = part(0, op, 0, ROWS - 1, 1, LONGEST);
    job.source = at;
    room = sizeof out - 1;
    cr_assert_eq(ticket_run(&t, ops, engine, job), STATUS_TOO_LARGE, "%s", t.text);
    cr_assert_eq(got[0].dims[0], 1);
    cr_assert_eq(got[0].dims[1], LONGEST);
    room = sizeof out;
    run(job, "the last row");
    ops->border_destroy(at);
}

Test(segment_shapes, borders_want_to_know_the_largest_shape)
{
    engine_border_t *made;
    err_t err;
    uint32_t op = cuts.cuts[0].op;
    cr_assert_eq(ops->border_create(model, &op, 1, ROWS, NULL, &made, &err), STATUS_INVALID_ARGUMENT);
}
