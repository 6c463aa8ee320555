/*
 * Exactly one answer, whatever scheduler, worker and client do. The end of each test checks it, and that no
 * memory is left.
 */
#include "rig.h"

#include "oip/rest_codec.h"

#include <string.h>

static rig_t rig;

static void setup(void)
{
    rig_start(&rig, 0, 16);
}

static void teardown(void)
{
    rig_stop(&rig);
}

TestSuite(session, .init = setup, .fini = teardown, .timeout = 120);

#define ONE_ROW "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,2],\"datatype\":\"INT32\",\"data\":[7,8]}]}"
#define SHORT_ROW                          \
    "{\"parameters\":{\"timeout\":60000}," \
    "\"inputs\":[{\"name\":\"x\",\"shape\":[1,2],\"datatype\":\"INT32\",\"data\":[7,8]}]}"

#define CLASSES(k)                                                                          \
    "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,2],\"datatype\":\"INT32\",\"data\":[7,8]}]," \
    "\"outputs\":[{\"name\":\"y\",\"parameters\":{\"classification\":" k "}}]}"

static const rig_answer_t *answer_of(int call)
{
    rig_until(&rig, rig.answers[call].status != 0);
    return &rig.answers[call];
}

static const rig_task_t *task(int index)
{
    rig_until(&rig, rig.task_count > index);
    return &rig.tasks[index];
}

/* ------------------------------------------------------------------ results */

Test(session, rows_become_tasks_and_are_answered_together)
{
    int call = rig_infer_json(&rig, "one",
                              "{\"id\":\"q\",\"parameters\":{\"fermata_timing\":true},"
                              "\"inputs\":[{\"name\":\"x\",\"shape\":[3,2],\"datatype\":\"INT32\","
                              "\"data\":[[1,2],[3,4],[5,6]]}]}");
    for (int i = 2; i >= 0; i--) { /* results in another order than the rows */
        int32_t row[2];
        cr_assert(task(i)->model == 10 && task(i)->len_bytes == 8);
        cr_assert(task(i)->budget_ns > 200 * NS_PER_MS && task(i)->budget_ns <= 300 * NS_PER_MS);
        cr_assert(rig_fetch(&rig, task(i), row) == STATUS_OK);
        cr_assert(row[0] == 2 * i + 1 && row[1] == 2 * i + 2);
        cr_assert(rig.answers[call].status == 0);
        row[0] *= 10;
        row[1] *= 10;
        cr_assert(rig_push(&rig, task(i), STATUS_OK, NULL, row, sizeof row));
    }
    const rig_answer_t *answer = answer_of(call);
    cr_assert(answer->status == 200, "%s", answer->body);
    cr_assert(strstr(answer->body, "\"data\":[10,20,30,40,50,60]") && strstr(answer->body, "\"shape\":[3,2]"),
              "%s", answer->body);
    cr_assert(strstr(answer->body, "\"id\":\"q\"") && strstr(answer->body, "\"fermata_batch_size\":2") &&
                  strstr(answer->body, "\"fermata_compute_us\":3000"),
              "%s", answer->body);
}

Test(session, several_tensors_lie_side_by_side_in_an_item)
{
    int call = rig_infer_json(
        &rig, "two",
        "{\"inputs\":[{\"name\":\"b\",\"shape\":[2,3],\"datatype\":\"INT8\",\"data\":[1,2,3,4,5,6]},"
        "{\"name\":\"x\",\"shape\":[2,2],\"datatype\":\"INT32\",\"data\":[10,11,12,13]}],"
        "\"outputs\":[{\"name\":\"y\"},{\"name\":\"z\"}]}");
    for (int i = 0; i < 2; i++) {
        struct __attribute__((packed)) {
            int32_t x[2];
            int8_t b[3];
        } in;
        struct __attribute__((packed)) {
            int8_t z[3];
            int32_t y[2];
        } out;
        cr_assert(task(i)->len_bytes == sizeof in);
        cr_assert(rig_fetch(&rig, task(i), &in) == STATUS_OK);
        cr_assert(in.x[0] == 10 + 2 * i && in.x[1] == 11 + 2 * i && in.b[0] == 1 + 3 * i &&
                  in.b[2] == 3 + 3 * i);
        memcpy(out.z, in.b, 3);
        memcpy(out.y, in.x, 8);
        cr_assert(rig_push(&rig, task(i), STATUS_OK, NULL, &out, sizeof out));
    }
    const rig_answer_t *answer = answer_of(call);
    const char *y = strstr(answer->body, "\"data\":[10,11,12,13]"),
               *z = strstr(answer->body, "\"data\":[1,2,3,4,5,6]");
    cr_assert(answer->status == 200 && y && z && y < z, "%s", answer->body);
}

Test(session, raw_bodies_are_fetched_from_where_they_were_received)
{
    const int32_t in[] = {1, 2, 3, 4};
    int call = rig_infer(&rig, "one", "Inference-Header-Content-Length: 0\r\n", in, sizeof in);
    for (int i = 0; i < 2; i++) {
        int32_t row[2];
        cr_assert(rig_fetch(&rig, task(i), row) == STATUS_OK && row[0] == 1 + 2 * i);
        cr_assert(rig_push(&rig, task(i), STATUS_OK, NULL, row, sizeof row));
    }
    const rig_answer_t *answer = answer_of(call);
    cr_assert(answer->status == 200, "%s", answer->body);
    size_t json = strtoul(answer->json_length, NULL, 10);
    cr_assert(json > 0 && answer->body_len == json + sizeof in &&
              memcmp(answer->body + json, in, sizeof in) == 0);
}

/* ------------------------------------------------------------------ results that are made where they are answered from */

#define TWO_ROWS "{\"inputs\":[{\"name\":\"x\",\"shape\":[2,2],\"datatype\":\"INT32\",\"data\":[1,2,3,4]}]}"

typedef struct {
    int32_t *memory;
    void *token;
} placed_t;

static placed_t place_of(uint64_t id, transfer_handle_t handle, uint32_t count, uint64_t len_bytes)
{
    placed_t placed;
    const transfer_wanted_t wanted = {
        .task_id = id, .handle = handle, .count = count, .len_bytes = len_bytes};
    placed.memory = transfer_place(dataplane_owner(rig.gateway.dataplane), &wanted, &placed.token);
    return placed;
}

static placed_t place(uint32_t count)
{
    const placed_t placed = place_of(task(0)->id, task(0)->handle, count, 8);
    cr_assert(placed.memory);
    return placed;
}

static void vacate(placed_t placed)
{
    transfer_vacate(dataplane_owner(rig.gateway.dataplane), placed.token, placed.memory);
}

/* As a worker of the process does with a row that it has written there. */
static void hand(placed_t placed, int row)
{
    struct iovec made = {placed.memory + 2 * row, 8};
    const transfer_result_t result = {
        .task_id = task(row)->id, .handle = task(row)->handle, .iov = &made, .iov_count = 1};
    transfer_handover_t handover = {
        .owner = dataplane_owner(rig.gateway.dataplane), .results = &result, .count = 1};
    cr_assert(transfer_hand(&handover, NULL));
}

Test(session, rows_that_are_made_in_place_are_answered_from_there)
{
    int call = rig_infer_json(&rig, "one", TWO_ROWS);
    task(1);
    placed_t placed = place(2);
    memcpy(placed.memory, (const int32_t[]){5, 6, 7, 8}, 16);
    hand(placed, 1);
    hand(placed, 0);
    vacate(placed);
    cr_assert(strstr(answer_of(call)->body, "\"data\":[5,6,7,8]"), "%s", rig.answers[call].body);
}

/* A scheduler has forgotten that they are run here, and another worker has brought one. */
Test(session, what_another_worker_brings_is_not_written_over)
{
    int call = rig_infer_json(&rig, "one", TWO_ROWS);
    task(1);
    placed_t placed = place(2);
    cr_assert(rig_push(&rig, task(0), STATUS_OK, NULL, "\1\0\0\0\2\0\0\0", 8));
    memcpy(placed.memory, (const int32_t[]){5, 6, 7, 8}, 16);
    hand(placed, 0); /* it has come */
    hand(placed, 1);
    memset(placed.memory, 0xff, 16);
    vacate(placed);
    cr_assert(strstr(answer_of(call)->body, "\"data\":[1,2,7,8]"), "%s", rig.answers[call].body);
}

Test(session, what_came_before_stays_when_another_worker_brings_more)
{
    int call = rig_infer_json(&rig, "one", TWO_ROWS);
    task(1);
    placed_t placed = place(2);
    memcpy(placed.memory, (const int32_t[]){5, 6, 7, 8}, 16);
    hand(placed, 0);
    cr_assert(rig_push(&rig, task(1), STATUS_OK, NULL, "\1\0\0\0\2\0\0\0", 8));
    vacate(placed);
    cr_assert(strstr(answer_of(call)->body, "\"data\":[5,6,1,2]"), "%s", rig.answers[call].body);
}

Test(session, the_memory_stays_when_its_client_has_left)
{
    arena_stats_t stats;
    rig_infer_json(&rig, "one", ONE_ROW);
    placed_t placed = place(1);
    http_client_destroy(rig.client);
    rig_until(&rig, rig.cancel_count == 1);
    arena_stats(rig.gateway.arena, &stats);
    cr_assert_gt(stats.regions, 0);
    memset(placed.memory, 0xff, 8);
    hand(placed, 0); /* too late */
    vacate(placed);
    const http_client_config_t client = {.server = rest_address(rig.rest)};
    cr_assert(http_client_create(loop_uv(rig.gateway.loop), &client, &rig.client, NULL) == STATUS_OK);
}

Test(session, only_all_rows_of_a_request_that_waits_for_them_are_made_in_place)
{
    int call = rig_infer_json(&rig, "one", TWO_ROWS);
    const rig_task_t second = *task(1), first = *task(0);
    const transfer_handle_t foreign = {first.handle.hi, first.handle.lo ^ 1};
    cr_expect_null(place_of(first.id, first.handle, 1, 8).memory);
    cr_expect_null(place_of(first.id, first.handle, 3, 8).memory);
    cr_expect_null(place_of(second.id, first.handle, 2, 8).memory);
    cr_expect_null(place_of(first.id, foreign, 2, 8).memory);
    cr_expect_null(place_of(first.id, first.handle, 2, 16).memory);
    cr_expect_null(place_of(first.id + (UINT64_C(1) << 32), first.handle, 2, 8).memory);
    placed_t placed = place(2);
    cr_expect_null(place_of(first.id, first.handle, 2, 8).memory, "another does it");
    vacate(placed);
    cr_assert(rig_push(&rig, task(0), STATUS_OK, NULL, "\1\0\0\0\2\0\0\0", 8));
    cr_expect_null(place_of(first.id, first.handle, 2, 8).memory, "one has come");
    cr_assert(rig_push(&rig, task(1), STATUS_OK, NULL, "\1\0\0\0\2\0\0\0", 8));
    cr_assert(answer_of(call)->status == 200);
}

/* ------------------------------------------------------------------ refusals */

Test(session, bad_requests_never_reach_the_scheduler)
{
    static const struct {
        const char *model, *headers, *body;
        int status;
        const char *text;
    } cases[] = {
        {"nix", NULL, ONE_ROW, 404, "unknown model 'nix'"},
        {"one/versions/2", NULL, ONE_ROW, 404, "no version '2'"},
        {"one", NULL, "{", 400, ""},
        {"one", NULL, "{\"inputs\":[]}", 400, "'x'"},
        {"one", NULL,
         "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"INT32\",\"data\":[1,2,3]}]}", 400,
         "shape"},
        {"one", NULL, "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,2],\"datatype\":\"FP32\",\"data\":[1,2]}]}",
         400, "'x'"},
        {"one", "Inference-Header-Content-Length: x\r\n", ONE_ROW, 400, "Inference-Header-Content-Length"},
        {"one", "Inference-Header-Content-Length: 99999\r\n", ONE_ROW, 400, ""},
        {"one", "Inference-Header-Content-Length: 9\r\nInference-Header-Content-Length: 0\r\n", "123456789",
         400, "twice"},
        {"one", "Inference-Header-Content-Length: 0\r\n", "123", 400, ""},
        {"one", "Content-Encoding: gzip\r\n", ONE_ROW, 415, "gzip"},
        {"one", NULL, CLASSES("2000"), 400, "classification of output 'y' must be 1 to 1024"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const rig_answer_t *answer = answer_of(
            rig_infer(&rig, cases[i].model, cases[i].headers, cases[i].body, strlen(cases[i].body)));
        cr_expect(answer->status == cases[i].status && strstr(answer->body, cases[i].text), "case %zu: %d %s",
                  i, answer->status, answer->body);
    }
    cr_assert(rig.task_count == 0);
}

Test(session, a_drop_is_told_with_its_stage)
{
    int call = rig_infer_json(&rig, "one", ONE_ROW);
    rig_send_drop(&rig, 5, task(0)->id, STATUS_UNAVAILABLE, CONTROL__STAGE__STAGE_ADMISSION, 1500);
    const rig_answer_t *answer = answer_of(call);
    cr_assert(answer->status == 503 && strcmp(answer->retry_after, "2") == 0 &&
                  strstr(answer->body, "admission"),
              "%d %s %s", answer->status, answer->retry_after, answer->body);
    call = rig_infer_json(&rig, "one", ONE_ROW);
    rig_send_drop(&rig, 5, task(1)->id, STATUS_DEADLINE_EXCEEDED, CONTROL__STAGE__STAGE_QUEUE, 0);
    answer = answer_of(call);
    cr_assert(answer->status == 504 && strstr(answer->body, "queue"), "%s", answer->body);
    rig_send_drop(&rig, 5, task(1)->id, STATUS_DEADLINE_EXCEEDED, CONTROL__STAGE__STAGE_QUEUE,
                  0); /* once more: nothing */
}

Test(session, a_dropped_row_fails_its_request_and_cancels_the_others)
{
    int call = rig_infer_json(
        &rig, "one",
        "{\"inputs\":[{\"name\":\"x\",\"shape\":[2,2],\"datatype\":\"INT32\",\"data\":[1,2,3,4]}]}");
    task(1);
    rig_send_drop(&rig, 5, task(0)->id, STATUS_UNAVAILABLE, CONTROL__STAGE__STAGE_QUEUE, 0);
    cr_assert(answer_of(call)->status == 503);
    rig_until(&rig, rig.cancel_count == 2);
    cr_assert(rig.cancelled[0] == task(0)->id || rig.cancelled[1] == task(1)->id);
}

/* ------------------------------------------------------------------ whose word is doubted */

Test(session, a_doubted_result_is_told_of_when_it_is_there)
{
    const int32_t row[2] = {1, 2};
    int call = rig_infer_json(&rig, "one", ONE_ROW);
    rig_send_doubt(&rig, 5, task(0)->id);
    rig_send_doubt(&rig, 5, 12345); /* which has ended long ago, or never was */
    rig_until(&rig, rig.arrived_count == 1);
    cr_expect_eq(rig.arrived, 12345);
    cr_assert(rig_push(&rig, task(0), STATUS_OK, NULL, row, sizeof row));
    cr_assert_eq(answer_of(call)->status, 200);
    rig_until(&rig, rig.arrived_count == 2);
    cr_expect_eq(rig.arrived, task(0)->id);
    rig_send_doubt(&rig, 5, task(0)->id);
    rig_until(&rig, rig.arrived_count == 3);
}

Test(session, a_doubted_result_that_never_comes_is_not_told_of)
{
    int call = rig_infer_json(&rig, "one", ONE_ROW);
    rig_send_doubt(&rig, 5, task(0)->id);
    rig_send_drop(&rig, 5, task(0)->id, STATUS_UNAVAILABLE, CONTROL__STAGE__STAGE_LOST, 0);
    cr_assert_eq(answer_of(call)->status, 503);
    int again = rig_infer_json(&rig, "one", ONE_ROW); /* in the same place */
    const int32_t row[2] = {1, 2};
    cr_assert(rig_push(&rig, task(1), STATUS_OK, NULL, row, sizeof row));
    cr_assert_eq(answer_of(again)->status, 200);
    cr_expect_eq(rig.arrived_count, 0);
}

/* ------------------------------------------------------------------ versions on trial */

enum { ON_TRIAL = 12, TRUSTED = 10, SHARE = 8 };

static void try_version_2(void)
{
    rig.tried = true;
    rig_send_catalogue(&rig, 5, TRUSTED, false);
    rig_until(&rig, catalogue_count(rig.gateway.catalogue) == 3);
}

/* The task of a request that the version on trial gets; the others before it are answered. */
static const rig_task_t *on_trial(int *call)
{
    const int32_t row[2] = {1, 2};
    for (int i = 0; i < SHARE; i++) {
        *call = rig_infer_json(&rig, "one", ONE_ROW);
        if (task(i)->model == ON_TRIAL)
            return task(i);
        cr_assert(rig_push(&rig, task(i), STATUS_OK, NULL, row, sizeof row));
        cr_assert_eq(answer_of(*call)->status, 200);
    }
    cr_assert_fail("none went to the version on trial");
    return NULL;
}

static void expect_answered_by_the_trusted(const rig_task_t *tried, int call)
{
    const int32_t row[2] = {3, 4};
    const rig_task_t *again = task((int)(tried - rig.tasks) + 1);
    cr_expect_eq(again->model, TRUSTED);
    cr_expect_neq(again->id, tried->id);
    cr_assert(rig_push(&rig, again, STATUS_OK, NULL, row, sizeof row));
    cr_expect_eq(answer_of(call)->status, 200);
    cr_expect(strstr(answer_of(call)->body, "\"model_version\":\"1\""), "%s", answer_of(call)->body);
}

Test(session, what_a_version_on_trial_loses_the_trusted_one_answers)
{
    int call = 0;
    try_version_2();
    const rig_task_t *tried = on_trial(&call);
    rig_send_drop(&rig, 5, tried->id, STATUS_UNAVAILABLE, CONTROL__STAGE__STAGE_LOST, 0);
    expect_answered_by_the_trusted(tried, call);
}

Test(session, what_a_version_on_trial_fails_the_trusted_one_answers)
{
    int call = 0;
    try_version_2();
    const rig_task_t *tried = on_trial(&call);
    (void)rig_push(&rig, tried, STATUS_INTERNAL, "the engine broke", NULL, 0);
    expect_answered_by_the_trusted(tried, call);
}

Test(session, who_asks_for_the_version_on_trial_hears_what_becomes_of_it)
{
    try_version_2();
    int call = rig_infer_json(&rig, "one/versions/2", ONE_ROW);
    rig_send_drop(&rig, 5, task(0)->id, STATUS_UNAVAILABLE, CONTROL__STAGE__STAGE_LOST, 0);
    cr_expect_eq(answer_of(call)->status, 503);
}

Test(session, a_failed_row_carries_the_workers_words)
{
    int call = rig_infer_json(&rig, "one", ONE_ROW);
    cr_assert(rig_push(&rig, task(0), STATUS_INTERNAL, "the engine broke", NULL, 0));
    const rig_answer_t *answer = answer_of(call);
    cr_assert(answer->status == 500 && strstr(answer->body, "the engine broke"), "%s", answer->body);
}

Test(session, a_result_of_the_wrong_size_is_a_failure)
{
    int call = rig_infer_json(&rig, "one", ONE_ROW);
    cr_assert(rig_push(&rig, task(0), STATUS_OK, NULL, "12345", 5));
    cr_assert(answer_of(call)->status == 500 && strstr(rig.answers[call].body, "expected"), "%s",
              rig.answers[call].body);
}

Test(session, a_result_with_a_foreign_handle_is_ignored)
{
    int call = rig_infer_json(&rig, "one", ONE_ROW);
    rig_task_t forged = *task(0);
    forged.handle.lo ^= 1;
    cr_assert(rig_push(&rig, &forged, STATUS_OK, NULL, "abcdefgh", 8));
    cr_assert(rig.answers[call].status == 0);
    forged = *task(0);
    forged.id += UINT64_C(1) << 32; /* another generation of the slot */
    cr_assert(rig_push(&rig, &forged, STATUS_OK, NULL, "abcdefgh", 8));
    cr_assert(rig.answers[call].status == 0);
    forged.id = UINT64_MAX;
    cr_assert(rig_push(&rig, &forged, STATUS_OK, NULL, "abcdefgh", 8));
    cr_assert(rig.answers[call].status == 0);
    cr_assert(rig_push(&rig, task(0), STATUS_OK, NULL, "\1\0\0\0\2\0\0\0", 8));
    cr_assert(answer_of(call)->status == 200 && strstr(rig.answers[call].body, "\"data\":[1,2]"));
    cr_assert(rig_push(&rig, task(0), STATUS_OK, NULL, "\1\0\0\0\2\0\0\0", 8)); /* twice: late */
    metric_t *late = metrics_series(rig.gateway.metrics, METRIC_GATEWAY_LATE_RESULTS);
    cr_assert(metrics_value(late) == 4);
}

/* ------------------------------------------------------------------ silence */

Test(session, a_silent_worker_is_answered_by_the_backstop)
{
    int call = rig_infer_json(&rig, "one", SHORT_ROW);
    int64_t budget_ns = task(0)->budget_ns;
    cr_assert(budget_ns > 30 * NS_PER_MS && budget_ns <= 60 * NS_PER_MS);
    const rig_answer_t *answer = answer_of(call);
    cr_assert(answer->status == 504, "%s", answer->body);
    cr_assert(answer->took_ns >= 80 * NS_PER_MS, "%.1f ms", (double)answer->took_ns / 1e6);
    rig_until(&rig, rig.missed_count == 1); /* the scheduler is told */
    cr_expect_eq(rig.cancel_count, 0);
    int32_t row[2];
    cr_assert(rig_fetch(&rig, task(0), row) == STATUS_NOT_FOUND);         /* and the handle is dead */
    cr_assert(rig_push(&rig, task(0), STATUS_OK, NULL, row, sizeof row)); /* too late: thrown away */
}

Test(session, a_client_that_leaves_cancels_its_tasks)
{
    rig_infer_json(&rig, "one", ONE_ROW);
    task(0);
    http_client_destroy(rig.client);
    rig_until(&rig, rig.cancel_count == 1 && rig.cancelled[0] == task(0)->id);
    rig_until(&rig, sessions_waiting(rig.gateway.sessions) == 0);
    const http_client_config_t client = {.server = rest_address(rig.rest)};
    cr_assert(http_client_create(loop_uv(rig.gateway.loop), &client, &rig.client, NULL) == STATUS_OK);
}

/* ------------------------------------------------------------------ schedulers that come and go */

Test(session, a_new_scheduler_gets_what_waits)
{
    int call =
        rig_infer_json(&rig, "one",
                       "{\"parameters\":{\"timeout\":8000000},\"inputs\":[{\"name\":\"x\",\"shape\":[1,2],"
                       "\"datatype\":\"INT32\",\"data\":[7,8]}]}");
    rig_task_t before = *task(0);
    fake_scheduler_unlisten(&rig.scheduler);
    rig_until(&rig, !gateway_control_is_up(rig.gateway.control));
    rig_scheduler_start(&rig, 6);
    rig_until(&rig, rig.scheduler.hellos == 2);
    rig_send_catalogue(&rig, 5, 90, false); /* of the old epoch: not obeyed */
    rig_send_catalogue(&rig, 6, 50, true);  /* no worker has reported yet: the task waits */
    rig_until(&rig, gateway_control_is_up(rig.gateway.control));
    cr_assert(rig.task_count == 1);
    rig_send_catalogue(&rig, 6, 50, false);
    const rig_task_t *again = task(1);
    cr_assert(again->id == before.id && again->model == 50 && again->budget_ns < before.budget_ns);
    rig_send_drop(&rig, 5, again->id, STATUS_UNAVAILABLE, CONTROL__STAGE__STAGE_QUEUE,
                  0); /* from the old one: stale */
    int32_t row[2];
    cr_assert(rig_fetch(&rig, again, row) == STATUS_OK && row[0] == 7);
    cr_assert(rig_push(&rig, again, STATUS_OK, NULL, row, sizeof row));
    cr_assert(answer_of(call)->status == 200);
    metric_t *resubmitted = metrics_series(rig.gateway.metrics, METRIC_GATEWAY_RESUBMITTED);
    cr_assert(metrics_value(resubmitted) == 1);
}

Test(session, without_a_scheduler_requests_wait_and_then_hear_who_is_missing)
{
    fake_scheduler_unlisten(&rig.scheduler);
    rig_until(&rig, !gateway_control_is_up(rig.gateway.control));
    const rig_answer_t *answer = answer_of(rig_infer_json(&rig, "one", SHORT_ROW));
    cr_assert(answer->status == 503 && strstr(answer->body, rig.scheduler.address), "%s", answer->body);
    cr_assert(answer->took_ns >= 60 * NS_PER_MS);
    answer = answer_of(rig_infer_json(&rig, "never_seen", SHORT_ROW));
    cr_assert(answer->status == 503 && strstr(answer->body, rig.scheduler.address), "%s", answer->body);
}

Test(session, a_request_that_waited_for_the_scheduler_is_served)
{
    fake_scheduler_unlisten(&rig.scheduler);
    rig_until(&rig, !gateway_control_is_up(rig.gateway.control));
    int call =
        rig_infer_json(&rig, "one",
                       "{\"parameters\":{\"timeout\":8000000},\"inputs\":[{\"name\":\"x\",\"shape\":[1,2],"
                       "\"datatype\":\"INT32\",\"data\":[7,8]}]}");
    rig_until(&rig, sessions_waiting(rig.gateway.sessions) == 1);
    rig_scheduler_start(&rig, 6);
    rig_until(&rig, rig.scheduler.hellos == 2);
    rig_send_catalogue(&rig, 6, 50, false);
    cr_assert(rig_push(&rig, task(0), STATUS_OK, NULL, "\1\0\0\0\2\0\0\0", 8));
    cr_assert(answer_of(call)->status == 200);
}

Test(session, a_result_counts_while_the_scheduler_is_away)
{
    int call = rig_infer_json(&rig, "one", ONE_ROW);
    rig_task_t granted = *task(0);
    fake_scheduler_unlisten(&rig.scheduler);
    rig_until(&rig, !gateway_control_is_up(rig.gateway.control));
    cr_assert(rig_push(&rig, &granted, STATUS_OK, NULL, "\1\0\0\0\2\0\0\0", 8));
    cr_assert(answer_of(call)->status == 200);
}

Test(session, a_scheduler_that_never_welcomes_is_left)
{
    fake_scheduler_unlisten(&rig.scheduler);
    rig_until(&rig, !gateway_control_is_up(rig.gateway.control));
    rig_scheduler_start(&rig, 0);
    rig_until(&rig, rig.scheduler.hellos == 2);
    rig.scheduler.welcomes = 6;
    rig_until(&rig, rig.scheduler.hellos == 3); /* on another stream */
    rig_send_catalogue(&rig, 6, 50, false);
    rig_until(&rig, gateway_control_is_up(rig.gateway.control));
}

/* ------------------------------------------------------------------ without a transport */

typedef struct {
    bool done;
    status_t status, written;
    err_t error;
    session_write_fn write;
} direct_t;

static void direct_done(session_t *session, void *arg)
{
    direct_t *direct = arg;
    direct->done = true;
    direct->status = session->error.code;
    direct->written = session_write(session, direct->write, &direct->error);
    session_close(session);
}

/* Parsed and not submitted. */
static session_t *parsed(const char *json, const char *version)
{
    err_t err = {0};
    session_t *session = session_open(&rig.gateway, PROTOCOL_REST, &err);
    cr_assert(session && session_set_model(session, "one", version, &err) == STATUS_OK, "%s", err.text);
    cr_assert(oip_rest_parse(&session->request, &session->model->spec, json, strlen(json), OIP_REST_ALL_JSON,
                             &session->allocator, &err) == STATUS_OK,
              "%s", err.text);
    return session;
}

static uint64_t answered(status_t status)
{
    return metrics_value(
        metrics_series(rig.gateway.metrics, METRIC_GATEWAY_REQUESTS, "rest", "one", status_name(status)));
}

/* Its body was on the way, or its picture was decoded, while the description changed and the ids with it. */
Test(session, a_request_goes_to_the_id_that_its_model_has_now)
{
    direct_t direct = {.write = oip_rest_write};
    model_entry_t *now;
    session_t *session = parsed(ONE_ROW, "1");
    rig.max_batch = 8;
    rig_send_catalogue(&rig, 5, 50, false);
    rig_until(&rig,
              catalogue_find(rig.gateway.catalogue, "one", NULL, &now, NULL) == STATUS_OK && now->id == 50);
    cr_assert(session->model != now && session->model->ready && !session->model->listed);
    session_submit(session, SESSION_NO_BUDGET, direct_done, &direct);
    cr_assert_eq(task(0)->model, 50);
    cr_assert(rig_push(&rig, task(0), STATUS_OK, NULL, "\1\0\0\0\2\0\0\0", 8));
    rig_until(&rig, direct.done);
    cr_assert_eq(direct.written, STATUS_OK, "%s", direct.error.text);
}

static status_t write_nothing(oip_reply_t *reply, const oip_response_t *response, err_t *err)
{
    (void)reply, (void)response;
    return err_set(err, STATUS_INTERNAL, "it cannot be written");
}

Test(session, an_answer_counts_as_what_the_client_gets)
{
    direct_t direct = {.write = write_nothing};
    session_submit(parsed(ONE_ROW, ""), SESSION_NO_BUDGET, direct_done, &direct);
    cr_assert(rig_push(&rig, task(0), STATUS_OK, NULL, "\1\0\0\0\2\0\0\0", 8));
    rig_until(&rig, direct.done);
    cr_assert(direct.status == STATUS_OK && direct.written == STATUS_INTERNAL);
    cr_expect(answered(STATUS_INTERNAL) == 1 && answered(STATUS_OK) == 0);
    direct = (direct_t){.write = oip_rest_write};
    session_submit(parsed(ONE_ROW, ""), SESSION_NO_BUDGET, direct_done, &direct);
    cr_assert(rig_push(&rig, task(1), STATUS_OK, NULL, "\1\0\0\0\2\0\0\0", 8));
    rig_until(&rig, direct.done);
    cr_expect(answered(STATUS_INTERNAL) == 1 && answered(STATUS_OK) == 1);
}

/* ------------------------------------------------------------------ lack of room */

/* The scheduler is of the same loop, which does not turn: it takes nothing. In the end neither does the
 * stream, one finds no room, and the deadlines of all that waits have passed. Where the kernel has taken some more of the stream
 * meanwhile, it is filled again. */
static void stall(uint64_t *taken, uint64_t *refused)
{
    gateway_control_task_t sent = {.model = 1};
    int64_t until_ns = clock_now_ns() + HANG_NS;
    *taken = *refused = 0;
    rig.counts = true;
    do {
        for (uint64_t before = *refused; *refused == before && clock_now_ns() < until_ns;) {
            sent.id++;
            sent.deadline_ns = clock_now_ns() + NS_PER_S;
            *(gateway_control_submit(rig.gateway.control, &sent) == STATUS_OK ? taken : refused) += 1;
        }
        while (clock_now_ns() < sent.deadline_ns + 2 * NS_PER_MS)
            ;
    } while (gateway_control_has_room(rig.gateway.control) && clock_now_ns() < until_ns);
}

Test(session, tasks_wait_for_a_scheduler_that_takes_none_until_they_are_too_late)
{
    gateway_control_task_t last = {
        .id = INT32_MAX, .model = 1, .deadline_ns = clock_now_ns() + 600 * NS_PER_S};
    uint64_t taken, refused;
    stall(&taken, &refused);
    cr_assert_gt(refused, 0, "%llu tasks were taken and none was refused", (unsigned long long)taken);
    cr_assert_eq(gateway_control_submit(rig.gateway.control, &last), STATUS_OK,
                 "those that are too late hold the room");
    rig_until(&rig, rig.last_id == last.id);
    cr_expect_lt(rig.counted, taken, "what is too late was sent all the same");
    cr_expect_eq(rig.scheduler.hellos, 1, "the stream was given up");
}

Test(session, the_rows_that_were_taken_are_cancelled_when_another_finds_no_room)
{
    direct_t direct = {.write = oip_rest_write};
    gateway_control_task_t sent = {.model = 1, .deadline_ns = clock_now_ns() + 600 * NS_PER_S};
    uint64_t taken, refused;
    session_t *session = parsed(
        "{\"inputs\":[{\"name\":\"x\",\"shape\":[3,2],\"datatype\":\"INT32\",\"data\":[1,2,3,4,5,6]}]}", "");
    stall(&taken, &refused);
    for (int i = 0; i < OUTBOX_TASKS_MAX - 1; i++) /* there is room for one row */
        cr_assert_eq(gateway_control_submit(rig.gateway.control, &sent), STATUS_OK);
    session_submit(session, SESSION_NO_BUDGET, direct_done, &direct);
    cr_assert(direct.done && direct.status == STATUS_UNAVAILABLE, "%s", direct.error.text);
    rig_until(&rig, rig.cancel_count > 0);
    cr_expect_eq(rig.cancel_count, 1);
    cr_expect_eq(rig.cancelled[0], rig.last_id, "the row that was taken is the last task of all");
}

Test(session_limits, a_full_arena_is_unavailable, .timeout = 120)
{
    rig_start(&rig, 64 << 10, 16);
    static char body[60000] = {0};
    const rig_answer_t *answer =
        answer_of(rig_infer(&rig, "one", "Inference-Header-Content-Length: 0\r\n", body, 40000));
    cr_assert(answer->status == 400, "%s", answer->body); /* 5,000 rows */
    void *rest = arena_alloc(rig.gateway.arena, 40000);
    answer = answer_of(rig_infer(&rig, "one", "Inference-Header-Content-Length: 0\r\n", body, 60000));
    cr_assert(answer->status == 503 && strstr(answer->body, "memory") && answer->retry_after[0], "%s",
              answer->body);
    arena_free(rig.gateway.arena, rest);
    rig_stop(&rig);
}

Test(session_limits, too_many_requests_are_unavailable, .timeout = 120)
{
    rig_start(&rig, 0, 1);
    int first = rig_infer_json(&rig, "one", ONE_ROW);
    task(0);
    const rig_answer_t *answer = answer_of(rig_infer_json(&rig, "one", ONE_ROW));
    cr_assert(answer->status == 503 && strstr(answer->body, "under way"), "%s", answer->body);
    cr_assert(rig_push(&rig, task(0), STATUS_OK, NULL, "\1\0\0\0\2\0\0\0", 8));
    cr_assert(answer_of(first)->status == 200);
    rig_stop(&rig);
}

/* Far more tasks than the outbox and the stream hold at once. */
Test(session_limits, a_new_scheduler_gets_all_that_waits_as_fast_as_it_takes_it, .timeout = 120)
{
    enum { REQUESTS = 16, ROWS = SESSION_ROWS_MAX };
    static int32_t body[ROWS][2];
    model_entry_t *entry;
    rig_start(&rig, 8 << 20, REQUESTS);
    rig.counts = true;
    rig.max_batch = ROWS;
    rig.slo_ns = 60 * NS_PER_S;
    rig_send_catalogue(&rig, 5, 10, false);
    rig_until(&rig, catalogue_find(rig.gateway.catalogue, "one", NULL, &entry, NULL) == STATUS_OK &&
                        entry->spec.max_batch == ROWS);
    fake_scheduler_unlisten(&rig.scheduler);
    rig_until(&rig, !gateway_control_is_up(rig.gateway.control));
    for (int i = 0; i < REQUESTS; i++)
        rig_infer(&rig, "one", "Inference-Header-Content-Length: 0\r\n", body, sizeof body);
    rig_until(&rig, sessions_tasks_waiting(rig.gateway.sessions) == REQUESTS * ROWS);
    rig_scheduler_start(&rig, 6);
    rig_until(&rig, rig.scheduler.hellos == 2);
    rig_send_catalogue(&rig, 6, 50, false);
    rig_until(&rig, rig.counted >= REQUESTS * ROWS || rig.answers[0].status != 0);
    cr_assert_eq(rig.counted, REQUESTS * ROWS);
    for (int i = 0; i < REQUESTS; i++)
        cr_assert_eq(rig.answers[i].status, 0, "%s", rig.answers[i].body);
    http_client_destroy(rig.client);
    rig_until(&rig, sessions_waiting(rig.gateway.sessions) == 0);
    const http_client_config_t client = {.server = rest_address(rig.rest)};
    cr_assert(http_client_create(loop_uv(rig.gateway.loop), &client, &rig.client, NULL) == STATUS_OK);
    rig_stop(&rig);
}
