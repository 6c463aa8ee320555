/* Peers that send what they should not: logged, isolated, and everybody else is served. */
#include "support.h"

#include "base/prng.h"
#include "rpc/bytes.h"
#include "scheduler/shell.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define READY CONTROL__MODEL_STATE__MODEL_STATE_READY

typedef struct {
    stage_t stage;
    fake_gateway_t gateway, bad_gateway;
    fake_worker_t worker, bad_worker;
    uint64_t next_id;
} crowd_t;

/* inflight_max: batches that a device has been granted and not done; 0: as by default */
static crowd_t *crowd_limited(uint32_t tasks_max, uint32_t models_max, uint32_t inflight_max)
{
    crowd_t *c = calloc(1, sizeof *c);
    stage_init(&c->stage);
    c->stage.options.control.tasks_max = tasks_max;
    c->stage.options.control.models_max = models_max;
    c->stage.options.control.device_inflight_max = inflight_max;
    stage_start(&c->stage);
    c->next_id = 1;
    worker_init(&c->worker, &c->stage.fakes, 1, 1);
    worker_init(&c->bad_worker, &c->stage.fakes, 2, 1);
    c->bad_worker.device[0].kind = (char *)"cuda"; /* of the same sub-cluster all the same */
    c->bad_worker.device[0].device_class = (char *)"emulated";
    gateway_init(&c->gateway, &c->stage.fakes, 3);
    gateway_init(&c->bad_gateway, &c->stage.fakes, 4);
    worker_connect(&c->worker);
    gateway_connect(&c->gateway);
    stage_until(&c->stage, c->worker.fake.welcomes == 1 && c->gateway.fake.welcomes == 1);
    c->worker.auto_done = true;
    worker_report(&c->worker, "net", READY, NS_PER_MS, 0);
    stage_until(&c->stage, c->gateway.ready);
    worker_connect(&c->bad_worker);
    gateway_connect(&c->bad_gateway);
    stage_until(&c->stage, c->bad_worker.fake.welcomes == 1 && c->bad_gateway.fake.welcomes == 1);
    return c;
}

static crowd_t *crowd_of(uint32_t tasks_max)
{
    return crowd_limited(tasks_max, 64, 0);
}

static crowd_t *crowd_new(void)
{
    return crowd_of(65536);
}

/* A task of the good gateway is still granted to the good worker. */
static void crowd_check(crowd_t *c)
{
    uint64_t id = c->next_id++;
    gateway_send(&c->gateway, c->gateway.model_id, id, 1, 10 * NS_PER_S);
    stage_until(&c->stage, worker_has_task(&c->worker, id));
    cr_expect_eq(c->gateway.fake.closes, 0);
    cr_expect_eq(c->worker.fake.closes, 0);
}

static void crowd_free(crowd_t *c)
{
    fake_kill(&c->bad_gateway.fake);
    fake_kill(&c->bad_worker.fake);
    fake_kill(&c->gateway.fake);
    fake_kill(&c->worker.fake);
    stage_dispose(&c->stage);
    free(c);
}

Test(nonsense, garbage_ends_only_its_own_stream)
{
    crowd_t *c = crowd_new();
    (void)rpc_stream_send(c->bad_gateway.fake.stream, rpc_bytes_copy("\xff\xff\xff\xff garbage", 12));
    (void)rpc_stream_send(c->bad_worker.fake.stream, rpc_bytes_copy("\x0a\xff\xff", 3));
    stage_until(&c->stage, c->bad_gateway.fake.closes >= 1 && c->bad_worker.fake.closes >= 1);
    cr_expect_eq(c->bad_gateway.fake.code, RPC_INVALID_ARGUMENT);
    crowd_check(c);
    crowd_free(c);
}

Test(nonsense, anything_before_hello)
{
    crowd_t *c = crowd_new();
    c->bad_gateway.fake.hello.instance_id = 0;
    c->bad_worker.fake.hello.n_devices = 0;
    rpc_stream_cancel(c->bad_gateway.fake.stream);
    rpc_stream_cancel(c->bad_worker.fake.stream);
    stage_until(&c->stage, c->bad_gateway.fake.closes >= 2 && c->bad_worker.fake.closes >= 2);
    cr_expect_eq(c->bad_gateway.fake.welcomes, 1);
    cr_expect_eq(c->bad_worker.fake.welcomes, 1);
    cr_expect_eq(c->bad_gateway.fake.code, RPC_INVALID_ARGUMENT);
    crowd_check(c);
    crowd_free(c);
}

Test(nonsense, tasks_for_models_that_do_not_exist)
{
    crowd_t *c = crowd_new();
    gateway_send(&c->bad_gateway, 4711, 1, 3, NS_PER_S);
    gateway_send(&c->bad_gateway, UINT32_MAX, 4, 1, NS_PER_S);
    stage_until(&c->stage, c->bad_gateway.drop_count == 4);
    cr_expect_eq(c->bad_gateway.drops[0].status, STATUS_NOT_FOUND);
    crowd_check(c);
    crowd_free(c);
}

Test(nonsense, unequal_arrays_and_duplicates_are_ignored)
{
    crowd_t *c = crowd_new();
    uint64_t ids[] = {1, 2, 3};
    Control__TaskBatch tasks = CONTROL__TASK_BATCH__INIT;
    tasks.n_id = 3;
    tasks.id = ids;
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    frame.epoch = c->bad_gateway.fake.epoch;
    frame.tasks = &tasks;
    (void)rpc_stream_send(c->bad_gateway.fake.stream, rpc_pack(&frame.base));
    c->worker.auto_done = false;
    uint32_t rows = c->worker.rows_total;
    gateway_send(&c->bad_gateway, c->bad_gateway.model_id, 50, 1, NS_PER_S);
    gateway_send(&c->bad_gateway, c->bad_gateway.model_id, 50, 1, NS_PER_S);
    stage_until(&c->stage, c->worker.rows_total == rows + 1);
    stage_barrier(&c->stage);
    cr_expect_eq(c->worker.rows_total, rows + 1);
    cr_expect_eq(c->bad_gateway.drop_count, 0);
    crowd_check(c);
    crowd_free(c);
}

Test(nonsense, frames_of_an_old_epoch_are_ignored)
{
    crowd_t *c = crowd_new();
    uint64_t epoch = c->bad_gateway.fake.epoch;
    uint32_t rows = c->worker.rows_total;
    c->bad_gateway.fake.epoch = epoch - 1;
    gateway_send(&c->bad_gateway, c->bad_gateway.model_id, 60, 1, NS_PER_S);
    c->bad_gateway.fake.epoch = epoch;
    stage_barrier(&c->stage);
    cr_expect_eq(c->worker.rows_total, rows);
    cr_expect_eq(c->bad_gateway.fake.closes, 0);
    gateway_send(&c->bad_gateway, c->bad_gateway.model_id, 61, 1, NS_PER_S);
    stage_until(&c->stage, worker_has_task(&c->worker, 61));
    cr_expect_not(worker_has_task(&c->worker, 60));
    crowd_free(c);
}

Test(nonsense, batches_that_were_never_granted)
{
    crowd_t *c = crowd_new();
    c->worker.auto_done = false;
    gateway_send(&c->gateway, c->gateway.model_id, 70, 1, 5 * NS_PER_S);
    stage_until(&c->stage, worker_has_task(&c->worker, 70));
    uint64_t theirs = c->worker.grants[c->worker.grant_count - 1].batch_id;
    worker_done(&c->bad_worker, 999, 0, STATUS_OK);
    worker_done(&c->bad_worker, theirs, 0, STATUS_INTERNAL); /* of another worker */
    worker_done(&c->bad_worker, theirs, 4711, STATUS_OK);
    stage_barrier(&c->stage);
    cr_expect_eq(c->gateway.drop_count, 0);
    cr_expect_eq(c->worker.grants[c->worker.grant_count - 1].batch_id, theirs, "not granted again");
    worker_done(&c->worker, theirs, 3, (status_t)77); /* a device and a status that do not exist */
    stage_until(&c->stage, c->worker.grants[c->worker.grant_count - 1].batch_id != theirs);
    c->worker.auto_done = true;
    worker_done(&c->worker, c->worker.grants[c->worker.grant_count - 1].batch_id, 0, STATUS_OK);
    crowd_check(c);
    crowd_free(c);
}

static void send_times(fake_worker_t *w, uint64_t batch_id, int64_t value_ns)
{
    Control__BatchDone done = CONTROL__BATCH_DONE__INIT;
    Control__BatchDone *list[] = {&done};
    Control__Pong pong = CONTROL__PONG__INIT;
    Control__WorkerToScheduler frame = CONTROL__WORKER_TO_SCHEDULER__INIT;
    done.batch_id = batch_id;
    done.exec_ns = done.device_ns = done.fetch_ns = done.push_ns = done.free_in_ns = value_ns;
    pong.sent_ns = (uint64_t)value_ns;
    pong.held_ns = value_ns;
    frame.n_done = 1;
    frame.done = list;
    frame.pong = &pong;
    worker_send(w, &frame);
}

Test(nonsense, impossible_times)
{
    crowd_t *c = crowd_new();
    const int64_t times[] = {-1, INT64_MIN, -NS_PER_S};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        c->worker.auto_done = false;
        uint32_t rows = c->worker.rows_total;
        gateway_send(&c->gateway, c->gateway.model_id, 200 + i, 1, 5 * NS_PER_S);
        stage_until(&c->stage, c->worker.rows_total == rows + 1);
        send_times(&c->worker, c->worker.grants[c->worker.grant_count - 1].batch_id, times[i]);
        c->worker.auto_done = true;
        crowd_check(c);
    }
    send_times(&c->bad_worker, 1, INT64_MAX);
    crowd_check(c);
    crowd_free(c);
}

Test(nonsense, models_and_devices_that_make_no_sense)
{
    crowd_t *c = crowd_new();
    worker_report(&c->bad_worker, "", READY, 0, 0);
    worker_report(&c->bad_worker, "negative", READY, -5, 0);
    worker_report(&c->bad_worker, "endless", READY, INT64_MAX, INT64_MAX);
    worker_report(&c->bad_worker, "never-seen", CONTROL__MODEL_STATE__MODEL_STATE_GONE, 0, 0);
    worker_report(&c->bad_worker, "strange", (Control__ModelState)99, 0, 0);
    worker_tell_device(&c->bad_worker, 63, CONTROL__DEVICE_STATUS__DEVICE_UNKNOWN, "");
    stage_until(&c->stage, c->gateway.models == 4);
    cr_expect_eq(c->bad_worker.fake.closes, 0);
    crowd_check(c);
    crowd_free(c);
}

/* A device for which everything takes no time would draw all requests to itself. */
Test(nonsense, a_profile_of_zeros)
{
    crowd_t *c = crowd_new();
    worker_report(&c->bad_worker, "net", READY, 0, 0);
    worker_report(&c->bad_worker, "free", READY, 0, 0);
    stage_until(&c->stage, c->gateway.models == 2);
    cr_expect_eq(c->gateway.ready_workers, 1);
    gateway_send(&c->gateway, c->gateway.model_id, 500, 40, 10 * NS_PER_S);
    stage_until(&c->stage, c->worker.rows_total == 40);
    cr_expect_eq(c->bad_worker.grant_count, 0);
    gateway_send(&c->gateway, c->gateway.model_id + 1, 600, 1, 10 * NS_PER_S);
    stage_until(&c->stage, c->gateway.drop_count == 1);
    cr_expect_eq(c->gateway.drops[0].status, STATUS_UNAVAILABLE);
    crowd_check(c);
    crowd_free(c);
}

/* Ids that were made up: one that nobody was told of, and one of a model that another worker has. */
Test(nonsense, batches_of_models_that_a_worker_does_not_have)
{
    crowd_t *c = crowd_new();
    for (uint64_t id = 0; id < 50; id++)
        worker_done(&c->bad_worker, id, 0, (status_t)(id % 3));
    crowd_check(c);
    cr_expect_eq(c->gateway.drop_count, 0);
    cr_expect_eq(c->bad_worker.fake.closes, 0);
    crowd_free(c);
}

/* How often an event is in the log while fd 2 leads to this file. */
static int count_logged(FILE *log, const char *event)
{
    char line[4096];
    int count = 0;
    rewind(log);
    while (fgets(line, sizeof line, log) != NULL)
        count += strstr(line, event) != NULL;
    return count;
}

/* It answers loads that nobody gave, and reports models beyond all bounds. What fits is served from it and
 * nobody else is the worse for it; the rest is refused, and said once. */
Test(nonsense, models_that_a_worker_was_not_asked_to_load)
{
    enum { MODELS = 4, REPORTS = 50 };
    crowd_t *c = crowd_limited(65536, MODELS, 0);
    FILE *log = tmpfile();
    int kept = dup(2);
    cr_assert(log != NULL && dup2(fileno(log), 2) == 2);
    for (uint64_t i = 0; i < REPORTS; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "unasked-%u", (unsigned)i);
        worker_answer(&c->bad_worker, 4711 + i, STATUS_OK, "");
        worker_report(&c->bad_worker, name, READY, NS_PER_MS, NS_PER_MS);
    }
    stage_until(&c->stage, c->gateway.models == MODELS);
    gateway_send(&c->gateway, c->gateway.model_id + 1, 900, 1, 10 * NS_PER_S);
    stage_until(&c->stage, worker_has_task(&c->bad_worker, 900));
    crowd_check(c);
    (void)dup2(kept, 2);
    (void)close(kept);
    cr_expect_eq(count_logged(log, "peer_nonsense"), 1);
    (void)fclose(log);
    cr_expect_eq(c->worker.told_count, 0);
    cr_expect_eq(c->bad_worker.fake.closes, 0);
    cr_expect_eq(c->gateway.drop_count, 0);
    crowd_free(c);
}

/* Valid frames with a few bytes changed: whatever they mean, the others are served. */
Test(nonsense, mutated_frames)
{
    crowd_t *c = crowd_new();
    prng_t prng;
    prng_init(&prng, 5);
    for (int round = 0; round < 200; round++) {
        Control__BatchDone done = CONTROL__BATCH_DONE__INIT;
        Control__BatchDone *list[] = {&done};
        Control__WorkerToScheduler frame = CONTROL__WORKER_TO_SCHEDULER__INIT;
        done.batch_id = prng_below(&prng, 300);
        frame.epoch = c->bad_worker.fake.epoch;
        frame.n_done = 1;
        frame.done = list;
        rpc_bytes_t *bytes = rpc_pack(&frame.base);
        uint8_t *data;
        rpc_bytes_t *mutated = rpc_bytes_reserve(rpc_bytes_len(bytes), &data);
        memcpy(data, rpc_bytes_flat(bytes), rpc_bytes_len(bytes));
        data[prng_below(&prng, rpc_bytes_len(bytes))] = (uint8_t)prng_u64(&prng);
        rpc_bytes_free(bytes);
        stage_until(&c->stage, c->bad_worker.fake.stream != NULL);
        (void)rpc_stream_send(c->bad_worker.fake.stream, mutated);
        if (round % 20 == 0)
            crowd_check(c);
    }
    crowd_check(c);
    crowd_free(c);
}

static void count_close(rpc_stream_t *stream, void *arg, rpc_code_t code, const char *text)
{
    (void)stream;
    (void)text;
    *(rpc_code_t *)arg = code;
}

Test(nonsense, a_stranger_that_says_nothing_is_shown_the_door)
{
    static const rpc_stream_ops_t ops = {.on_close = count_close};
    stage_t stage;
    err_t err = {0};
    rpc_client_t *client;
    rpc_link_t *link;
    rpc_code_t code = RPC_OK;
    bool closed = false;
    stage_init(&stage);
    stage.options.control.ping_interval_ns = 5 * NS_PER_MS;
    stage.options.control.peer_timeout_ns = 30 * NS_PER_MS;
    stage_start(&stage);
    rpc_client_options_t to = {.address = stage.fakes.address};
    rpc_link_options_t mute = {.method = "/fermata.control.v1.Control/Worker", .ops = ops, .arg = &code};
    cr_assert_eq(rpc_client_create(stage.fakes.runtime, &to, &client, &err), STATUS_OK);
    cr_assert_eq(rpc_link_create(client, &mute, &link, &err), STATUS_OK);
    stage_until(&stage, code != RPC_OK);
    cr_expect_eq(code, RPC_DEADLINE_EXCEEDED);
    rpc_link_close(link, stage_flag, &closed);
    stage_until(&stage, closed);
    rpc_client_destroy(client);
    stage_dispose(&stage);
}

static size_t resident_bytes(void)
{
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    cr_assert(file != NULL && fscanf(file, "%*u %zu", &pages) == 1);
    (void)fclose(file);
    return pages * 4096;
}

/* What memory may come and go by: malloc's slack; with a sanitizer what that keeps of what was freed
 * (address: 256 MiB) and its shadow (thread: four times what it watches). */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { GROWTH_BYTES = 264 << 20 };
#else
enum { GROWTH_BYTES = 8 << 20 };
#endif

/* A gateway that sends fifty times what there is room for takes its share, and costs no more memory
 * however long it goes on. */
Test(nonsense, a_gateway_that_floods_leaves_room_for_the_others)
{
    enum { ROOM = 1024, FRAME = 512, FRAMES = 100, MORE = 900 };
    crowd_t *c = crowd_of(ROOM);
    c->worker.auto_done = false; /* what is granted stays, and the rest waits */
    uint64_t id = 1000;
    size_t before = 0;
    for (int i = 0; i < FRAMES + MORE; i++, id += FRAME) {
        gateway_send(&c->bad_gateway, c->gateway.model_id, id, FRAME, 60 * NS_PER_S);
        stage_until(&c->stage, c->bad_gateway.drop_total >= (uint64_t)(i + 1) * FRAME - ROOM / 2);
        before = i == FRAMES ? resident_bytes() : before;
    }
    size_t after = resident_bytes();
    cr_expect_lt(after, before + GROWTH_BYTES, "%zu MiB grew by %zu MiB", before >> 20,
                 (after - before) >> 20);
    cr_expect_eq(c->bad_gateway.drop_total, (uint64_t)(FRAMES + MORE) * FRAME - ROOM / 2);
    cr_expect_eq(c->bad_gateway.drops[FAKE_DROPS - 1].status, STATUS_UNAVAILABLE);
    cr_expect_eq(c->bad_gateway.drops[FAKE_DROPS - 1].stage, CONTROL__STAGE__STAGE_ADMISSION);
    const autoscale_sums_t *sums = &c->stage.scheduler->control->subclusters.all[0]->sums;
    cr_expect_eq(sums->requests, (uint64_t)(FRAMES + MORE) * FRAME);
    cr_expect_eq(sums->bad, c->bad_gateway.drop_total, "the advice on devices does not hear of the flood");
    gateway_send(&c->gateway, c->gateway.model_id, 1, ROOM / 2, 60 * NS_PER_S);
    stage_barrier(&c->stage);
    cr_expect_eq(c->gateway.drop_count, 0, "the other one found no room");
    crowd_free(c);
}

/* What fills the table and can make its deadline no more goes first, and is told so; what comes then finds room. */
Test(nonsense, hopeless_tasks_make_room_for_new_ones)
{
    enum { ROOM = 1024, SHARE = ROOM / 2, SHORT_MS = 300 };
    crowd_t *c = crowd_limited(ROOM, 64, 1);
    c->worker.auto_done = false; /* one batch is granted and stays, and the rest waits */
    gateway_send(&c->bad_gateway, c->gateway.model_id, 1000, SHARE, SHORT_MS * NS_PER_MS);
    stage_until(&c->stage, c->worker.rows_total > 0);
    stage_barrier(&c->stage);
    uint64_t granted = c->worker.rows_total;
    gateway_send(&c->bad_gateway, c->gateway.model_id, 5000, SHARE - (uint32_t)granted, 60 * NS_PER_S);
    /* The scheduler stands still until the first are hopeless; then it finds the second message, and its
     * timer, in one turn. */
    struct timespec stand = {.tv_nsec = SHORT_MS * NS_PER_MS};
    (void)nanosleep(&stand, NULL);
    stage_until(&c->stage, c->bad_gateway.drop_total >= SHARE - granted);
    stage_barrier(&c->stage);
    cr_expect_eq(c->bad_gateway.drop_total, SHARE - granted, "%" PRIu64 " dropped of %d, %" PRIu64 " granted",
                 c->bad_gateway.drop_total, SHARE, granted);
    for (uint32_t i = 0; i < c->bad_gateway.drop_count; i++) {
        cr_assert_lt(c->bad_gateway.drops[i].id, 5000, "a new one was refused");
        cr_assert_eq(c->bad_gateway.drops[i].status, STATUS_DEADLINE_EXCEEDED);
        cr_assert_eq(c->bad_gateway.drops[i].stage, CONTROL__STAGE__STAGE_QUEUE);
    }
    crowd_free(c);
}

/* ---- A gateway that sends and never reads ---- */

/* It has a loop of its own, which stands from its welcome on. */
static fake_gateway_t *stalled_new(crowd_t *c, stage_t *aside)
{
    fake_gateway_t *stalled = malloc(sizeof *stalled);
    stage_init(aside);
    memcpy(aside->fakes.address, c->stage.fakes.address, sizeof aside->fakes.address);
    gateway_init(stalled, &aside->fakes, 5);
    gateway_connect(stalled);
    for (int64_t until_ns = clock_now_ns() + HANG_NS; !stalled->ready && clock_now_ns() < until_ns;) {
        loop_run_once(aside->fakes.loop, NS_PER_MS);
        loop_run_once(c->stage.fakes.loop, NS_PER_MS);
    }
    cr_assert(stalled->ready);
    return stalled;
}

static void stalled_free(fake_gateway_t *stalled, stage_t *aside)
{
    fake_kill(&stalled->fake);
    stage_dispose(aside);
    free(stalled);
}

/* A catalogue of tens of megabytes is on its way when the next is due, and pings go on behind them. */
Test(nonsense, a_slow_gateway_gets_a_large_catalogue)
{
    stage_t aside;
    crowd_t *c = crowd_new();
    fake_gateway_t *slow = stalled_new(c, &aside);
    c->worker.label_bytes = 10 << 20;
    worker_report(&c->worker, "one", READY, NS_PER_MS, 0);
    worker_report(&c->worker, "two", READY, NS_PER_MS, 0);
    worker_report(&c->worker, "three", READY, NS_PER_MS, 0);
    stage_until(&c->stage, c->gateway.models_ready == 4);
    int pings = c->gateway.fake.pings;
    stage_until(&c->stage, c->gateway.fake.pings > pings + 2);
    for (int64_t until_ns = clock_now_ns() + HANG_NS; slow->models_ready < 4 && clock_now_ns() < until_ns;) {
        loop_run_once(aside.fakes.loop, NS_PER_MS);
        loop_run_once(c->stage.fakes.loop, NS_PER_MS);
    }
    cr_expect_eq(slow->models_ready, 4);
    cr_expect_eq(slow->fake.closes, 0, "%s", slow->fake.text);
    stalled_free(slow, &aside);
    crowd_free(c);
}

/* What is to be told to it waits in its stream up to that one's bound, then it is cut off. */
Test(nonsense, a_gateway_that_stalls_is_cut_off_at_its_bound)
{
    enum { ROOM = 2048, FRAME = 1024, STREAM_BYTES = 8 << 20 };
    stage_t aside;
    crowd_t *c = crowd_of(ROOM);
    c->worker.auto_done = false; /* what is granted stays, and the rest waits */
    fake_gateway_t *stalled = stalled_new(c, &aside);
    stage_until(&c->stage, c->worker.peer_count == 3);
    FILE *log = tmpfile();
    int kept = dup(2);
    cr_assert(log != NULL && dup2(fileno(log), 2) == 2);
    size_t before = resident_bytes(), most = before;
    bool left = false;
    uint64_t id = 1000;
    for (int64_t until_ns = clock_now_ns() + HANG_NS; !left && clock_now_ns() < until_ns; id += FRAME) {
        gateway_send(stalled, stalled->model_id, id, FRAME, 60 * NS_PER_S);
        loop_run_once(c->stage.fakes.loop, NS_PER_MS);
        size_t now = resident_bytes();
        most = now > most ? now : most;
        left = c->worker.peer_count < 3;
    }
    stage_barrier(&c->stage);
    (void)dup2(kept, 2);
    (void)close(kept);
    cr_expect(left);
    cr_expect_lt(most, before + GROWTH_BYTES + STREAM_BYTES + STREAM_BYTES, "%zu MiB grew to %zu MiB",
                 before >> 20, most >> 20);
    cr_expect_eq(count_logged(log, "peer_stuck"), 1);
    (void)fclose(log);
    for (uint32_t i = 0; i < c->worker.grant_count; i++)
        worker_done(&c->worker, c->worker.grants[i].batch_id, 0, STATUS_OK);
    c->worker.auto_done = true;
    crowd_check(c);
    stalled_free(stalled, &aside);
    crowd_free(c);
}
