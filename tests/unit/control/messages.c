/*
 * What every message comes to in every state of its peer, batch, device or model: the tables of messages.txt. Behind each cell the
 * honest peers are served as before, and nothing is kept of what is no more; else it says HARM or LEAK.
 */
#include "play.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define STATE(name) CONTROL__MODEL_STATE__MODEL_STATE_##name
#define DEVICE(name) CONTROL__DEVICE_STATUS__DEVICE_##name

#define EXPECTED "tests/unit/control/messages.txt"

enum { NOBODYS = 999 };

/* The end of every cell, whose outcome is in word. */
static void leave(play_t *play, char word[PLAY_CELL_BYTES])
{
    const char *fault = "";
    if (!play->control->turn.stopping && !play_honest_are_served(play))
        fault = "+HARM";
    play_ends(play);
    if (!play_dispose(play))
        fault = "+LEAK";
    (void)snprintf(word + strlen(word), PLAY_CELL_BYTES - strlen(word), "%s", fault);
}

static void leave_seen(play_t *play, char word[PLAY_CELL_BYTES])
{
    (void)snprintf(word, PLAY_CELL_BYTES, "%s", play_seen(play));
    leave(play, word);
}

/* ---- Peers ---- */

static const char *const peer_states[] = {"stranger", "ahead",     "joined",   "again",
                                          "stale",    "sent-away", "stopping", NULL};

/* A stranger that has seen no scheduler, or one of a later epoch; joined, with the epoch or an older one; joined, and its process
 * has a new stream; being ended; as a stranger while the scheduler stops. */
enum { STRANGER, AHEAD, JOINED, AGAIN, STALE, SENT_AWAY, STOPPING };

static void peer_state(actor_t *actor, uint32_t state)
{
    actor_open(actor);
    if (state == AHEAD)
        actor->epoch = 7 * (uint64_t)PLAY_EPOCH;
    if (state == JOINED || state == STALE || state == SENT_AWAY || state == AGAIN)
        say_hello(actor);
    if (state == STALE)
        actor->epoch = PLAY_EPOCH - 1;
    if (state == SENT_AWAY)
        say_garbage(actor);
    if (state == AGAIN) {
        actor_leave(actor);
        actor_open(actor);
        say_hello(actor);
    }
    if (state == STOPPING)
        control_stop(actor->play->control, actor->play->now_ns);
}

/* What gateways and workers begin their frames with. */
static void say_head(actor_t *actor, const Control__Ping *ping, const Control__Pong *pong,
                     const Control__Hello *hello)
{
    Control__GatewayToScheduler gateway = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    Control__WorkerToScheduler worker = CONTROL__WORKER_TO_SCHEDULER__INIT;
    gateway.ping = worker.ping = (Control__Ping *)(uintptr_t)ping;
    gateway.pong = worker.pong = (Control__Pong *)(uintptr_t)pong;
    gateway.hello = worker.hello = (Control__Hello *)(uintptr_t)hello;
    say(actor, actor->gateway ? &gateway.base : &worker.base);
}

enum { HELLO, HELLO_VERSION, HELLO_ID, HELLO_EMPTY, PING, PONG, NOTHING, GARBAGE, HEADS };
#define HEAD_NAMES                                                                                        \
    "hello", "hello: version 9", "hello: no instance", "hello: nothing in it", "ping", "pong of no ping", \
        "nothing", "garbage"

static void say_part(actor_t *actor, uint32_t message)
{
    Control__Ping ping = CONTROL__PING__INIT;
    Control__Pong pong = CONTROL__PONG__INIT;
    Control__Hello hello = CONTROL__HELLO__INIT;
    hello.min_version = hello.max_version = message == HELLO_VERSION ? 9 : 1;
    hello.instance_id = message == HELLO_ID ? 0 : 77;
    hello.data_address = (char *)(message == HELLO_EMPTY ? "" : "gateway:8003");
    pong.sent_ns = UINT64_MAX;
    if (message == HELLO)
        say_hello(actor);
    else if (message == GARBAGE)
        say_garbage(actor);
    else
        say_head(actor, message == PING ? &ping : NULL, message == PONG ? &pong : NULL,
                 message <= HELLO_EMPTY ? &hello : NULL);
}

static const char *const gateway_messages[] = {HEAD_NAMES,
                                               "task",
                                               "task: no such model",
                                               "tasks: unequal arrays",
                                               "cancel: no such task",
                                               "arrived: no such task",
                                               "load a model",
                                               "do what, to what?",
                                               "catalogue seen",
                                               "refused: not told",
                                               "refused: unequal",
                                               NULL};
enum {
    TASK = HEADS,
    TASK_NO_MODEL,
    TASK_UNEQUAL,
    CANCEL,
    ARRIVED,
    LOAD,
    STRANGE_REQUEST,
    CATALOGUE_SEEN,
    REFUSED,
    REFUSED_UNEQUAL
};

static void gateway_cell(uint32_t state, uint32_t message, char word[PLAY_CELL_BYTES])
{
    play_t play;
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    Control__TaskBatch tasks = CONTROL__TASK_BATCH__INIT;
    Control__Refused refused = CONTROL__REFUSED__INIT;
    uint32_t zero = 0;
    uint64_t id = 1;
    play_init(&play, "eager");
    actor_t *actor = &play.odd_gateway;
    peer_state(actor, state);
    play_watch(&play);
    tasks.n_id = 1;
    tasks.id = &id;
    refused.n_model = 1;
    refused.n_priority = refused.n_overload = refused.n_infeasible = message == REFUSED;
    refused.model = refused.priority = refused.overload = refused.infeasible = &zero;
    if (message < HEADS)
        say_part(actor, message);
    else if (message == TASK || message == TASK_NO_MODEL)
        say_task(actor, message == TASK ? 0 : NOBODYS, 1);
    else if (message == CANCEL)
        say_cancel(actor, NOBODYS);
    else if (message == ARRIVED)
        say_arrived(actor, NOBODYS);
    else if (message == LOAD)
        say_request(actor, CONTROL__MODEL_ACTION__MODEL_ACTION_LOAD, "other");
    else if (message == STRANGE_REQUEST)
        say_request(actor, (Control__ModelAction)99, "");
    frame.tasks = message == TASK_UNEQUAL ? &tasks : NULL;
    frame.catalogue_seen = message == CATALOGUE_SEEN ? UINT64_MAX : 0;
    frame.refused = message >= REFUSED ? &refused : NULL;
    if (message == TASK_UNEQUAL || message >= CATALOGUE_SEEN)
        say(actor, &frame.base);
    leave_seen(&play, word);
}

Test(messages, of_a_gateway)
{
    const table_t table = {peer_states, gateway_messages, gateway_cell};
    table_check(&table, EXPECTED, "what a gateway says");
}

static const char *const worker_messages[] = {HEAD_NAMES,
                                              "model ready",
                                              "model without name",
                                              "device: no such one",
                                              "done: no such batch",
                                              "command done: none",
                                              "links of data",
                                              NULL};
enum { MODEL_READY = HEADS, MODEL_NAMELESS, DEVICE_NONE, DONE_NONE, COMMAND_NONE, DATA_LINKS };

static void worker_cell(uint32_t state, uint32_t message, char word[PLAY_CELL_BYTES])
{
    play_t play;
    Control__WorkerToScheduler frame = CONTROL__WORKER_TO_SCHEDULER__INIT;
    Control__CommandDone done = CONTROL__COMMAND_DONE__INIT, *list[] = {&done};
    Control__DataLinks links = CONTROL__DATA_LINKS__INIT;
    play_init(&play, "eager");
    actor_t *actor = &play.odd_worker;
    peer_state(actor, state);
    play_watch(&play);
    if (message < HEADS)
        say_part(actor, message);
    else if (message == MODEL_READY || message == MODEL_NAMELESS)
        say_report(actor, message == MODEL_READY ? "m" : "", STATE(READY), NS_PER_MS);
    else if (message == DEVICE_NONE)
        say_device(actor, NOBODYS, DEVICE(FAILED));
    else if (message == DONE_NONE)
        say_done(actor, NOBODYS, 0, STATUS_OK);
    frame.n_commands_done = message == COMMAND_NONE;
    frame.commands_done = list;
    frame.data_links = message == DATA_LINKS ? &links : NULL;
    if (message == COMMAND_NONE || message == DATA_LINKS)
        say(actor, &frame.base);
    leave_seen(&play, word);
}

Test(messages, of_a_worker)
{
    const table_t table = {peer_states, worker_messages, worker_cell};
    table_check(&table, EXPECTED, "what a worker says");
}

/* It was silent for too long, and nothing that it says while its stream ends is answered. */
Test(messages, of_one_that_was_cut)
{
    play_t play;
    play_init(&play, "eager");
    peer_state(&play.odd_gateway, JOINED);
    play_pass(&play, 5 * NS_PER_S);
    cr_assert(play.odd_gateway.ending);
    play_watch(&play);
    say_part(&play.odd_gateway, PING);
    say_task(&play.odd_gateway, 0, 1);
    cr_expect_str_eq(play_seen(&play), "-");
    play_ends(&play);
    cr_expect(play_dispose(&play));
}

/* ---- Batches ---- */

enum { NEVER, RUNNING, OVER, ANOTHERS, RETRIED, REVOKED, DEVICE_LOST, DRAINING, CANCELLED, GATEWAY_GONE };
static const char *const batch_states[] = {"never-granted", "running", "over",        "another's",
                                           "retried",       "revoked", "device-lost", "draining",
                                           "nobody-waits",  NULL};
static const char *const batch_messages[] = {"ok",
                                             "ok, other device",
                                             "ok, no such device",
                                             "too late",
                                             "cancelled",
                                             "failed",
                                             "no such status",
                                             "a row failed",
                                             "no such row failed",
                                             "unequal rows",
                                             "negative times",
                                             "its device fails",
                                             "its worker leaves",
                                             NULL};
enum {
    OK,
    OK_OTHER,
    OK_NO_DEVICE,
    LATE,
    STOPPED,
    FAILED,
    STRANGE_STATUS,
    ROW_FAILED,
    ROW_STRANGE,
    ROWS_UNEQUAL,
    TIMES,
    DEVICE_FAILS,
    WORKER_LEAVES
};

/* The id of a batch in that state, of a task of the honest gateway to a model that the odd worker has. */
static uint64_t batch_state(play_t *play, uint32_t state)
{
    enum { SLOW = 1, QUICK = 2, IT = 1 };
    actor_t *worker = &play->odd_worker;
    worker->devices = state == REVOKED ? 1 : 2;
    actor_open(worker);
    say_hello(worker);
    say_report(worker, "m", STATE(READY), 4 * NS_PER_S);
    say_report(worker, "quick", STATE(READY), NS_PER_MS);
    say_task(&play->gateway, state == ANOTHERS ? 0 : SLOW, IT);
    play_pass(play, 20 * NS_PER_MS); /* so that it has begun, as the core sees it */
    if (state == NEVER)
        return NOBODYS;
    if (state == ANOTHERS)
        return play->worker.grants[0];
    cr_assert_eq(worker->grant_count, 1);
    uint64_t batch = worker->grants[0];
    if (state == OVER)
        say_done(worker, batch, 0, STATUS_OK);
    if (state == RETRIED) {
        say_done(worker, batch, 0, STATUS_INTERNAL);
        play_pass(play, 20 * NS_PER_MS);
        cr_assert_eq(worker->grant_count, 2);
        batch = worker->grants[1];
    }
    if (state == REVOKED) {
        for (uint64_t id = 10; id < 18; id++)
            say_task(&play->gateway, QUICK, id);
        play_pass(play, 20 * NS_PER_MS);
        cr_assert(strstr(play->seen, "revoked"));
    }
    if (state == DEVICE_LOST)
        say_device(worker, 0, DEVICE(FAILED));
    if (state == DRAINING)
        control_drain(play->control, play->now_ns, worker->worker, true, false);
    if (state == CANCELLED)
        say_cancel(&play->gateway, IT);
    play_pass(play, NS_PER_MS);
    return batch;
}

static void say_of_batch(actor_t *worker, uint32_t message, uint64_t batch)
{
    static const uint32_t statuses[] = {[LATE] = STATUS_DEADLINE_EXCEEDED,
                                        [STOPPED] = STATUS_CANCELLED,
                                        [FAILED] = STATUS_INTERNAL,
                                        [STRANGE_STATUS] = 77,
                                        [TIMES] = STATUS_OK};
    Control__BatchDone done = CONTROL__BATCH_DONE__INIT, *list[] = {&done};
    Control__WorkerToScheduler frame = CONTROL__WORKER_TO_SCHEDULER__INIT;
    uint32_t row = message == ROW_STRANGE ? 5 : 0, status = STATUS_IO;
    bool rows = message == ROW_FAILED || message == ROW_STRANGE || message == ROWS_UNEQUAL;
    done.batch_id = batch;
    done.device = message == OK_OTHER ? 1 : message == OK_NO_DEVICE ? NOBODYS : 0;
    done.status = statuses[message];
    done.exec_ns = done.fetch_ns = done.push_ns = done.free_in_ns = done.device_ns =
        message == TIMES ? INT64_MIN : 1;
    done.n_failed_row = rows;
    done.n_failed_status = message == ROWS_UNEQUAL ? 0 : rows;
    done.failed_row = &row;
    done.failed_status = &status;
    frame.n_done = 1;
    frame.done = list;
    say(worker, &frame.base);
}

static void batch_cell(uint32_t state, uint32_t message, char word[PLAY_CELL_BYTES])
{
    play_t play;
    play_init(&play, state == REVOKED ? "shepherd" : "eager");
    uint64_t batch = batch_state(&play, state);
    play_watch(&play);
    if (message == DEVICE_FAILS)
        say_device(&play.odd_worker, 0, DEVICE(FAILED));
    else if (message == WORKER_LEAVES)
        actor_leave(&play.odd_worker);
    else
        say_of_batch(&play.odd_worker, message, batch);
    play_pass(&play, 20 * NS_PER_MS);
    leave_seen(&play, word);
}

Test(messages, about_a_batch)
{
    const table_t table = {batch_states, batch_messages, batch_cell};
    table_check(&table, EXPECTED, "of a batch");
}

/* ---- Devices ---- */

static const char *const device_states[] = {"ready", "busy", "draining", "busy-draining", "failed", NULL};
static const char *const device_messages[] = {"ready",   "draining",       "failed",
                                              "unknown", "no such status", NULL};

/* Whether it takes a task after the message. */
static void device_cell(uint32_t state, uint32_t message, char word[PLAY_CELL_BYTES])
{
    static const Control__DeviceStatus said[] = {DEVICE(READY), DEVICE(DRAINING), DEVICE(FAILED),
                                                 DEVICE(UNKNOWN), (Control__DeviceStatus)99};
    static const Control__DeviceStatus before[] = {DEVICE(READY), DEVICE(READY), DEVICE(DRAINING),
                                                   DEVICE(DRAINING), DEVICE(FAILED)};
    play_t play;
    play_init(&play, "eager");
    actor_t *worker = &play.odd_worker;
    worker->devices = 1;
    actor_open(worker);
    say_hello(worker);
    say_report(worker, "m", STATE(READY), NS_PER_MS);
    bool busy = state == 1 || state == 3;
    if (busy)
        say_task(&play.gateway, 1, 1);
    say_device(worker, 0, before[state]);
    play_watch(&play);
    say_device(worker, 0, said[message]);
    bool noted = strcmp(play_seen(&play), "noted") == 0;
    uint32_t granted = worker->grant_count;
    if (busy)
        say_done(worker, worker->grants[0], 0, STATUS_OK);
    say_task(&play.gateway, 1, 2);
    play_pass(&play, 20 * NS_PER_MS);
    (void)snprintf(word, PLAY_CELL_BYTES, "%s%s", worker->grant_count > granted ? "serves" : "rests",
                   noted ? "+noted" : "");
    leave(&play, word);
}

Test(messages, about_a_device)
{
    const table_t table = {device_states, device_messages, device_cell};
    table_check(&table, EXPECTED, "of a device");
}

/* ---- Models ---- */

static const char *const model_states[] = {"never-seen", "loading",  "ready", "running", "failed",
                                           "unloading",  "unloaded", "gone",  NULL};
static const Control__ModelState states_before[] = {STATE(UNKNOWN),  STATE(LOADING), STATE(READY),
                                                    STATE(READY),    STATE(FAILED),  STATE(UNLOADING),
                                                    STATE(UNLOADED), STATE(GONE)};
enum { NEVER_SEEN = 0, MODEL_RUNNING = 3, MODEL_GONE = 7 };
static const char *const model_messages[] = {
    "loading",  "ready", "ready, no latency", "failed",        "unloading",
    "unloaded", "gone",  "unknown",           "no such state", NULL};
static const Control__ModelState states_said[] = {STATE(LOADING), STATE(READY),     STATE(READY),
                                                  STATE(FAILED),  STATE(UNLOADING), STATE(UNLOADED),
                                                  STATE(GONE),    STATE(UNKNOWN),   (Control__ModelState)99};
enum { READY_NO_LATENCY = 2 };

/* Of what the catalogue says, and of what becomes of a task. */
static const char *model_word(const char *listed, const char *outcome)
{
    static const char *const words[][3] = {{"ready", "granted", "serves"},
                                           {"not-ready", "granted", "lasts"},
                                           {"not-ready", "unavailable", "refuses"},
                                           {"absent", "not_found", "absent"}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(listed, words[i][0]) == 0 && strcmp(outcome, words[i][1]) == 0)
            return words[i][2];
    return "HARM";
}

static void model_cell(uint32_t state, uint32_t message, char word[PLAY_CELL_BYTES])
{
    enum { MODEL = 1 };
    play_t play;
    play_init(&play, "eager");
    actor_t *worker = &play.odd_worker;
    actor_open(worker);
    say_hello(worker);
    if (state == MODEL_GONE)
        say_report(worker, "m", STATE(READY), NS_PER_MS);
    if (state != NEVER_SEEN)
        say_report(worker, "m", states_before[state], NS_PER_MS);
    if (state == MODEL_RUNNING)
        say_task(&play.gateway, MODEL, 1);
    play_pass(&play, NS_PER_S);
    play_watch(&play);
    say_report(worker, "m", states_said[message], message == READY_NO_LATENCY ? -1 : NS_PER_MS);
    const char *noted = strstr(play_seen(&play), "noted") ? "+noted" : "";
    uint32_t granted = worker->grant_count, dropped = play.gateway.drop_count;
    say_task(&play.gateway, MODEL, 2);
    play_pass(&play, NS_PER_S);
    const char *outcome = worker->grant_count > granted       ? "granted"
                          : play.gateway.drop_count > dropped ? status_name(play.gateway.dropped)
                                                              : "waits";
    (void)snprintf(word, PLAY_CELL_BYTES, "%s%s", model_word(play.gateway.listed, outcome), noted);
    leave(&play, word);
}

Test(messages, about_a_model)
{
    const table_t table = {model_states, model_messages, model_cell};
    table_check(&table, EXPECTED, "of a model");
}
