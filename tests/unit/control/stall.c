/* A host that stands still is one event, and not believed of each path: of the rule by itself, and of the machine. */
#include "control/control.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <string.h>

static const int64_t START_NS = 1000 * NS_PER_S;

/* ---- The rule ---- */

Test(stall, what_is_rare_is_excused)
{
    stall_t stall;
    stall_init(&stall, 0);
    cr_expect_not(stall_excuses(&stall, 0));
    cr_expect(stall_was(&stall, NS_PER_S, NS_PER_S + 300 * NS_PER_MS));
    cr_expect(stall_excuses(&stall, NS_PER_S + 299 * NS_PER_MS));
    cr_expect_not(stall_excuses(&stall, NS_PER_S + 300 * NS_PER_MS), "what begins at its end counts again");
    cr_expect_not(stall_was(&stall, NS_PER_S + 400 * NS_PER_MS, NS_PER_S + 600 * NS_PER_MS), "so soon again");
    cr_expect_not(stall_excuses(&stall, NS_PER_S + 500 * NS_PER_MS));
    cr_expect(stall_was(&stall, 3 * NS_PER_S, 3 * NS_PER_S + 200 * NS_PER_MS));
    cr_expect_not(stall_was(&stall, 5 * NS_PER_S, 9 * NS_PER_S), "it stood still for longer than it ran");
}

Test(stall, short_ones_are_what_bounds_are_for)
{
    stall_t stall;
    stall_init(&stall, 0);
    cr_expect_not(stall_was(&stall, NS_PER_S, NS_PER_S + STALL_LEAST_NS));
    cr_expect_not(stall_excuses(&stall, NS_PER_S));
    cr_expect(stall_was(&stall, 2 * NS_PER_S, 2 * NS_PER_S + STALL_LEAST_NS + 1));
}

Test(stall, seen_from_two_sides_it_is_one)
{
    stall_t stall;
    stall_init(&stall, 0);
    stall_asked(&stall, NS_PER_S - NS_PER_MS);
    cr_expect(stall_was(&stall, NS_PER_S, NS_PER_S + 300 * NS_PER_MS));
    stall_asked(&stall, NS_PER_S + 300 * NS_PER_MS); /* they have not answered yet */
    cr_expect_not(stall_heard(&stall, NS_PER_S + 320 * NS_PER_MS), "nothing new");
    cr_expect(stall_excuses(&stall, NS_PER_S + 319 * NS_PER_MS), "it lasted for longer");
    cr_expect_not(stall_heard(&stall, NS_PER_S + 900 * NS_PER_MS), "nobody was asked");
}

/* ---- The machine: two gateways that answer each ping after WAY_NS ---- */

enum { PEERS = 2 };
static const int64_t WAY_NS = 200 * NS_PER_US;

typedef struct {
    control_t *control;
    metrics_t *metrics;
    gateway_t *gateway[PEERS];
    uint64_t ping_ns[PEERS][32]; /* not answered yet */
    uint32_t pings[PEERS];
    worker_t *worker; /* NULL: none; it answers no ping, and runs what it is granted */
    uint64_t granted; /* the last batch */
    uint32_t stalls;  /* told */
    int64_t now_ns;
} play_t;

enum { WORKER = PEERS };

typedef struct {
    play_t *play;
    uint32_t index;
} link_t;

static void on_note(void *arg, log_level_t level, const char *event, const log_field_t *fields)
{
    (void)level;
    (void)fields;
    play_t *play = arg;
    play->stalls += strcmp(event, "host_stood_still") == 0;
}

static bool on_send(void *link, const ProtobufCMessage *frame)
{
    const link_t *to = link;
    if (to->index == WORKER) {
        const Control__SchedulerToWorker *told = (const void *)frame;
        to->play->granted = told->n_grants > 0 ? told->grants[0]->batch_id : to->play->granted;
        return true;
    }
    const Control__SchedulerToGateway *said = (const void *)frame;
    if (said->ping)
        to->play->ping_ns[to->index][to->play->pings[to->index]++] = said->ping->sent_ns;
    return true;
}

static bool takes_large(void *link)
{
    (void)link;
    return true;
}

static void on_close(void *link, close_reason_t why, const char *text)
{
    (void)link;
    (void)why;
    cr_assert_fail("closed: %s", text);
}

static void on_cancel(void *link)
{
    (void)link;
    cr_assert_fail("cancelled");
}

static void flush(play_t *play)
{
    control_decide(play->control, play->now_ns);
    control_flush(play->control, play->now_ns);
}

static void answer(play_t *play, uint32_t index)
{
    for (uint32_t i = 0; i < play->pings[index]; i++) {
        Control__Pong pong = CONTROL__PONG__INIT;
        Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
        pong.sent_ns = play->ping_ns[index][i];
        frame.pong = &pong;
        frame.epoch = play->control->turn.epoch;
        control_gateway_said(play->control, play->now_ns, play->gateway[index], &frame);
    }
    play->pings[index] = 0;
}

/* All is well, but the peers in `silent` (bits) do not answer. */
static void pass(play_t *play, int64_t duration_ns, uint32_t silent)
{
    for (int64_t end_ns = play->now_ns + duration_ns; control_due_ns(play->control) <= end_ns;) {
        int64_t due_ns = control_due_ns(play->control);
        play->now_ns = due_ns > play->now_ns ? due_ns : play->now_ns;
        flush(play);
        play->now_ns += WAY_NS;
        for (uint32_t i = 0; i < PEERS; i++)
            if (!(silent >> i & 1))
                answer(play, i);
    }
}

static void join(play_t *play, uint32_t index, link_t *link)
{
    Control__Hello hello = CONTROL__HELLO__INIT;
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    *link = (link_t){play, index};
    hello.min_version = hello.max_version = 1;
    hello.instance_id = index + 1;
    hello.name = (char *)"gateway";
    hello.data_address = (char *)"127.0.0.1:8003";
    frame.hello = &hello;
    play->gateway[index] = control_gateway_opened(play->control, play->now_ns, link, "here");
    control_gateway_said(play->control, play->now_ns, play->gateway[index], &frame);
}

static void play_start(play_t *play, link_t links[PEERS])
{
    static const world_t world = {
        .note = on_note, .send = on_send, .takes_large = takes_large, .close = on_close, .cancel = on_cancel};
    err_t err = {0};
    control_options_t options;
    control_options_init(&options);
    options.epoch = options.scheduler_id = 1;
    options.plan_interval_ns = 0;
    *play = (play_t){.now_ns = START_NS, .metrics = metrics_create("scheduler", &err)};
    cr_assert_eq(control_create(&options, &world, play, play->metrics, START_NS, &play->control, &err),
                 STATUS_OK, "%s", err.text);
    for (uint32_t i = 0; i < PEERS; i++)
        join(play, i, &links[i]);
    pass(play, 3 * NS_PER_S, 0);
    cr_assert_eq(play->stalls, 0);
}

static void play_stop(play_t *play)
{
    for (uint32_t i = 0; i < PEERS; i++)
        control_gateway_closed(play->control, play->now_ns, play->gateway[i], "OK", "");
    control_destroy(play->control);
    metrics_destroy(play->metrics);
}

static void join_worker(play_t *play, link_t *link)
{
    Control__Device device = CONTROL__DEVICE__INIT, *devices[] = {&device};
    Control__Hello hello = CONTROL__HELLO__INIT;
    Control__Latency latency = CONTROL__LATENCY__INIT;
    Control__ModelReport report = CONTROL__MODEL_REPORT__INIT, *reports[] = {&report};
    Control__WorkerToScheduler frame = CONTROL__WORKER_TO_SCHEDULER__INIT;
    *link = (link_t){play, WORKER};
    device.name = device.kind = (char *)"emulated";
    hello.min_version = hello.max_version = 1;
    hello.instance_id = WORKER + 1;
    hello.name = (char *)"worker";
    hello.n_devices = 1;
    hello.devices = devices;
    latency.alpha_ns = latency.beta_ns = (double)NS_PER_MS;
    report.name = (char *)"model";
    report.version = 1;
    report.state = CONTROL__MODEL_STATE__MODEL_STATE_READY;
    report.max_batch = 8;
    report.slo_ns = NS_PER_S;
    report.latency = &latency;
    frame.hello = &hello;
    play->worker = control_worker_opened(play->control, play->now_ns, link, "here");
    control_worker_said(play->control, play->now_ns, play->worker, &frame);
    frame.hello = NULL;
    frame.epoch = play->control->turn.epoch;
    frame.n_models = 1;
    frame.models = reports;
    control_worker_said(play->control, play->now_ns, play->worker, &frame);
}

static void ask(play_t *play)
{
    uint64_t id = 1, handle_hi = 1, handle_lo = 3, offset_bytes = 0;
    uint32_t model = play->control->models.all[0]->id, len_bytes = 100;
    int64_t budget_ns = NS_PER_S;
    Control__TaskBatch tasks = CONTROL__TASK_BATCH__INIT;
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    tasks.n_id = tasks.n_model = tasks.n_budget_ns = tasks.n_handle_hi = tasks.n_handle_lo =
        tasks.n_offset_bytes = tasks.n_len_bytes = 1;
    tasks.id = &id;
    tasks.model = &model;
    tasks.budget_ns = &budget_ns;
    tasks.handle_hi = &handle_hi;
    tasks.handle_lo = &handle_lo;
    tasks.offset_bytes = &offset_bytes;
    tasks.len_bytes = &len_bytes;
    frame.epoch = play->control->turn.epoch;
    frame.tasks = &tasks;
    control_gateway_said(play->control, play->now_ns, play->gateway[0], &frame);
}

static void done(play_t *play)
{
    Control__BatchDone batch = CONTROL__BATCH_DONE__INIT, *batches[] = {&batch};
    Control__WorkerToScheduler frame = CONTROL__WORKER_TO_SCHEDULER__INIT;
    batch.batch_id = play->granted;
    batch.exec_ns = batch.device_ns = 2 * NS_PER_MS;
    batch.fetch_ns = batch.push_ns = NS_PER_MS;
    batch.reason = (char *)"";
    frame.epoch = play->control->turn.epoch;
    frame.n_done = 1;
    frame.done = batches;
    control_worker_said(play->control, play->now_ns, play->worker, &frame);
    flush(play);
}

/* One request, until its batch is granted. */
static void grant(play_t *play)
{
    play->granted = 0;
    ask(play);
    while (play->granted == 0) {
        int64_t due_ns = control_due_ns(play->control);
        play->now_ns = due_ns > play->now_ns ? due_ns : play->now_ns;
        flush(play);
    }
}

/* Of the first gateway's way, as believed once its answers were looked at. */
static int64_t believed_ns(play_t *play)
{
    pass(play, 250 * NS_PER_MS, 0);
    return play->gateway[0]->peer.delay.most_ns;
}

Test(stall, of_all_peers_it_is_told_once_and_not_believed)
{
    play_t play;
    link_t links[PEERS];
    play_start(&play, links);
    for (uint32_t i = 1; i <= 6; i++) {
        pass(&play, 250 * NS_PER_MS, 3);
        cr_expect_eq(believed_ns(&play), WAY_NS / 2);
        cr_expect_eq(play.stalls, i);
        pass(&play, NS_PER_S, 0);
    }
    play_stop(&play);
}

Test(stall, of_the_machine_itself_likewise)
{
    play_t play;
    link_t links[PEERS];
    play_start(&play, links);
    for (uint32_t i = 1; i <= 6; i++) {
        play.now_ns = control_due_ns(play.control);
        flush(&play); /* pings are on their way */
        play.now_ns += 400 * NS_PER_MS;
        answer(&play, 0); /* it reads them before anything else */
        answer(&play, 1);
        cr_expect_eq(believed_ns(&play), WAY_NS / 2);
        cr_expect_eq(play.stalls, i);
        pass(&play, NS_PER_S, 0);
    }
    play_stop(&play);
}

Test(stall, batches_under_way_meanwhile_say_nothing)
{
    play_t play;
    link_t links[PEERS + 1];
    play_start(&play, links);
    join_worker(&play, &links[WORKER]);
    flush(&play);
    const subcluster_delays_t *delays = &play.control->models.all[0]->home->delays;
    grant(&play);
    play.now_ns += 4 * NS_PER_MS;
    done(&play);
    cr_assert_eq(delays->push.count, 1);
    cr_assert_eq(delays->fetch.classes[0].count, 1);
    grant(&play);
    play.now_ns += 400 * NS_PER_MS;
    done(&play);
    cr_expect_eq(play.stalls, 1);
    cr_expect_eq(delays->push.count, 1);
    cr_expect_eq(delays->fetch.classes[0].count, 1);
    grant(&play);
    play.now_ns += 4 * NS_PER_MS;
    done(&play);
    cr_expect_eq(delays->push.count, 2, "and then again");
    control_worker_closed(play.control, play.now_ns, play.worker, "OK", "");
    play_stop(&play);
}

Test(stall, of_one_path_it_is_believed)
{
    play_t play;
    link_t links[PEERS];
    play_start(&play, links);
    pass(&play, 250 * NS_PER_MS, 1);
    int64_t way_ns = believed_ns(&play);
    cr_expect_gt(way_ns, 10 * NS_PER_MS, "%ld", (long)way_ns);
    cr_expect_eq(play.stalls, 0);
    play_stop(&play);
}

Test(stall, that_comes_again_and_again_is_believed)
{
    play_t play;
    link_t links[PEERS];
    play_start(&play, links);
    for (uint32_t i = 0; i < 4; i++) {
        pass(&play, 250 * NS_PER_MS, 3);
        pass(&play, 100 * NS_PER_MS, 0);
    }
    int64_t way_ns = believed_ns(&play);
    cr_expect_gt(way_ns, 10 * NS_PER_MS, "%ld", (long)way_ns);
    cr_expect_eq(play.stalls, 1);
    play_stop(&play);
}
