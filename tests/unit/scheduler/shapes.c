/* Models whose dimensions vary: rows of one shape share batches, and shapes under way are bounded. */
#include "support.h"

enum { SHAPES_PER_MODEL = 64 };

/* policy NULL: the usual one. One device, and the model "net" with one axis: 10 elements take alpha_ns a
 * row and as much for the batch, 100 ten times as long. */
static duo_t *begin_of(const char *policy, bool staged, uint64_t mode_elements, int64_t alpha_ns,
                       int64_t beta_ns)
{
    duo_t *s = duo_new(1);
    if (policy)
        s->stage.options.control.policy = policy;
    s->worker.axis = true;
    s->worker.staged = staged;
    s->worker.mode_elements = mode_elements;
    duo_begin(s, alpha_ns, beta_ns);
    return s;
}

static duo_t *begin(void)
{
    return begin_of(NULL, false, 0, NS_PER_MS, NS_PER_MS);
}

static void submit_within(duo_t *s, const uint32_t *sizes, uint64_t first_id, uint32_t count,
                          int64_t budget_ns)
{
    s->gateway.sizes = sizes;
    gateway_send(&s->gateway, s->gateway.model_id, first_id, count, budget_ns);
}

static void submit(duo_t *s, const uint32_t *sizes, uint64_t first_id, uint32_t count)
{
    submit_within(s, sizes, first_id, count, 20 * NS_PER_S);
}

Test(shapes, only_rows_of_one_shape_share_a_batch)
{
    static const uint32_t sizes[] = {10, 55, 10, 55, 10, 55, 10, 55};
    duo_t *s = begin();
    s->worker.auto_done = true;
    submit(s, sizes, 1, 8);
    stage_until(&s->stage, s->worker.rows_total == 8);
    for (uint32_t i = 0; i < s->worker.grant_count; i++) {
        const grant_t *grant = &s->worker.grants[i];
        cr_expect_eq(grant->model, s->gateway.model_id, "workers hear of the model, not of its shapes");
        cr_assert_eq(grant->size_count, 1);
        for (uint32_t row = 0; row < grant->rows; row++)
            cr_expect_eq(grant->size, sizes[grant->row[row].task_id - 1]);
    }
    cr_expect_eq(s->worker.grant_count, 2, "four rows each");
    duo_free(s);
}

Test(shapes, a_latency_between_the_references_is_interpolated)
{
    static const uint32_t sizes[] = {10, 55};
    duo_t *s = begin();
    const int64_t *finish_ns = s->stage.plan_ns;
    stage_note_plans(&s->stage);
    s->worker.auto_done = true;
    for (uint32_t i = 0; i < 2; i++) {
        submit(s, &sizes[i], 1 + i, 1);
        stage_until(&s->stage, s->worker.grant_count == 1 + i);
    }
    /* The rest of both is the same delays: 2 ms against half the way from 2 to 20. */
    cr_expect(finish_ns[1] - finish_ns[0] > 7 * NS_PER_MS && finish_ns[1] - finish_ns[0] < 11 * NS_PER_MS,
              "%.3f and %.3f ms", (double)finish_ns[0] / 1e6, (double)finish_ns[1] / 1e6);
    duo_free(s);
}

/* A row of 10 takes 20 s alone, one of 100 takes 200; the first requests make the shapes known. One is granted and the others wait, so that
 * nothing is free to try them on. */
Test(shapes, what_a_shape_takes_alone_tells_whether_a_deadline_can_be_kept)
{
    static const uint32_t small = 10, large = 100;
    duo_t *s = begin_of(NULL, false, 0, 10 * NS_PER_S, 10 * NS_PER_S);
    submit_within(s, &small, 1, 1, 1000 * NS_PER_S);
    stage_until(&s->stage, s->worker.grant_count == 1);
    submit_within(s, &large, 2, 1, 1000 * NS_PER_S);
    submit_within(s, &large, 3, 1, 100 * NS_PER_S);
    stage_until(&s->stage, s->gateway.drop_count == 1);
    const drop_t *drop = gateway_dropped(&s->gateway, 3);
    cr_assert_not_null(drop);
    cr_expect_eq(drop->status, STATUS_DEADLINE_EXCEEDED);
    cr_expect_eq(drop->stage, CONTROL__STAGE__STAGE_ADMISSION);
    submit_within(s, &small, 4, 1, 100 * NS_PER_S);
    submit_within(s, &large, 5, 1, 280 * NS_PER_S);
    stage_barrier(&s->stage);
    cr_expect_eq(s->gateway.drop_count, 1);
    duo_free(s);
}

Test(shapes, too_many_at_once_are_refused_and_idle_ones_make_room)
{
    static uint32_t sizes[SHAPES_PER_MODEL + 6];
    duo_t *s = begin();
    for (uint32_t i = 0; i < SHAPES_PER_MODEL + 6; i++)
        sizes[i] = 1 + i;
    submit(s, sizes, 1, SHAPES_PER_MODEL + 6);
    stage_until(&s->stage, s->gateway.drop_count == 6);
    for (uint32_t i = 0; i < 6; i++) {
        cr_expect_eq(s->gateway.drops[i].stage, CONTROL__STAGE__STAGE_SHAPES);
        cr_expect_eq(s->gateway.drops[i].status, STATUS_UNAVAILABLE);
        cr_expect_gt(s->gateway.drops[i].id, SHAPES_PER_MODEL);
    }
    s->worker.auto_done = true;
    for (uint32_t i = 0; i < s->worker.grant_count; i++)
        worker_done(&s->worker, s->worker.grants[i].batch_id, 0, STATUS_OK);
    stage_until(&s->stage, s->worker.rows_total == SHAPES_PER_MODEL);
    stage_barrier(&s->stage);
    static const uint32_t others[] = {900, 901, 902};
    submit(s, others, 1000, 3);
    stage_until(&s->stage, s->worker.rows_total == SHAPES_PER_MODEL + 3);
    cr_expect_eq(s->gateway.drop_count, 6);
    duo_free(s);
}

Test(shapes, a_task_without_its_sizes_is_refused_alone)
{
    static const uint32_t sizes[] = {10};
    duo_t *s = begin();
    submit(s, NULL, 1, 2);
    stage_until(&s->stage, s->gateway.drop_count == 2);
    cr_expect_eq(s->gateway.drops[0].status, STATUS_INVALID_ARGUMENT);
    submit(s, sizes, 3, 1);
    stage_until(&s->stage, worker_has_task(&s->worker, 3));
    duo_free(s);
}

Test(shapes, sizes_that_do_not_add_up_are_ignored)
{
    static uint32_t counts[] = {2}, sizes[] = {10}, ok[] = {10}, one[] = {0};
    static uint64_t word[] = {1};
    static int64_t budget[] = {NS_PER_S};
    duo_t *s = begin();
    Control__TaskBatch tasks = CONTROL__TASK_BATCH__INIT;
    one[0] = s->gateway.model_id;
    tasks.n_id = tasks.n_model = tasks.n_budget_ns = tasks.n_handle_hi = tasks.n_handle_lo =
        tasks.n_offset_bytes = tasks.n_len_bytes = tasks.n_size_count = tasks.n_size = 1;
    tasks.id = tasks.handle_hi = tasks.handle_lo = tasks.offset_bytes = word;
    tasks.model = tasks.len_bytes = one;
    tasks.budget_ns = budget;
    tasks.size_count = counts;
    tasks.size = sizes;
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    frame.epoch = s->gateway.fake.epoch;
    frame.tasks = &tasks;
    (void)rpc_stream_send(s->gateway.fake.stream, rpc_pack(&frame.base));
    submit(s, ok, 2, 1);
    stage_until(&s->stage, worker_has_task(&s->worker, 2));
    cr_expect_not(worker_has_task(&s->worker, 1));
    cr_expect_eq(s->gateway.drop_count, 0);
    duo_free(s);
}

/* A batch of one takes 220 ms at size 10 and 2.2 s at size 100, and hardly less than one of four. mode_elements: as the worker reports it. */
static void grant_while_one_runs(uint32_t first, uint32_t second, uint64_t mode_elements, uint64_t *stretches)
{
    const uint32_t sizes[] = {first, second, second, second}; /* three gain more than the first loses */
    duo_t *s = begin_of("eager", true, mode_elements, 20 * NS_PER_MS, 200 * NS_PER_MS);
    submit(s, &sizes[0], 1, 1);
    stage_until(&s->stage, s->worker.grant_count == 1);
    stage_pass(&s->stage, 5 * NS_PER_MS); /* so that it has begun, as the core sees it */
    submit(s, &sizes[1], 2, 3);
    stage_until(&s->stage, s->worker.grant_count == 2);
    cr_expect_eq(s->worker.grants[0].stretches, 0);
    *stretches = s->worker.grants[1].stretches == s->worker.grants[0].batch_id;
    cr_expect(*stretches || s->worker.grants[1].stretches == 0);
    duo_free(s);
}

Test(shapes, rows_of_the_same_shape_alone_join_a_running_batch)
{
    uint64_t joined;
    grant_while_one_runs(10, 10, 0, &joined);
    cr_expect(joined);
    grant_while_one_runs(10, 20, 0, &joined);
    cr_expect(!joined);
}

/* The stages of the worker are made for size 100, its largest reference. */
Test(shapes, what_runs_whole_on_a_staged_worker_is_not_stretched)
{
    uint64_t joined;
    grant_while_one_runs(100, 100, 0, &joined);
    cr_expect(joined);
    grant_while_one_runs(101, 101, 0, &joined);
    cr_expect(!joined);
}

/* It was measured for its mode at another largest size. */
Test(shapes, a_worker_says_what_runs_whole_there)
{
    uint64_t joined;
    grant_while_one_runs(50, 50, 50, &joined);
    cr_expect(joined);
    grant_while_one_runs(51, 51, 50, &joined);
    cr_expect(!joined);
    grant_while_one_runs(150, 150, 150, &joined);
    cr_expect(joined);
}
