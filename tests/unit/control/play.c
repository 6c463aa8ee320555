#include "play.h"

#include "base/clock.h"
#include "base/strbuf.h"
#include "estimate_parts.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- What is seen ---- */

static void see(play_t *play, const char *word)
{
    size_t len = strlen(play->seen);
    if (strstr(play->seen, word))
        return;
    (void)snprintf(play->seen + len, sizeof play->seen - len, "%s%s", len > 0 ? "+" : "", word);
}

void play_watch(play_t *play)
{
    play->seen[0] = '\0';
    play->tasks = play->control->tasks.pool.lent;
    play->batches = play->control->tasks.batches.lent;
}

const char *play_seen(play_t *play)
{
    if (play->control->tasks.pool.lent < play->tasks)
        see(play, "ended");
    else if (play->control->tasks.batches.lent < play->batches)
        see(play, "queued");
    return play->seen[0] != '\0' ? play->seen : "-";
}

/* ---- The world ---- */

static void on_note(void *arg, log_level_t level, const char *event, const log_field_t *fields)
{
    (void)level;
    (void)fields;
    if (strcmp(event, "peer_nonsense") == 0)
        see(arg, "noted");
}

static void hear_estimate(actor_t *actor, const Control__Estimate *estimate)
{
    cr_assert(estimate_is_whole(estimate));
    const double *refuse = estimate->n_model > 0 ? estimate_refuse(estimate, 0) : NULL;
    actor->estimates++;
    actor->estimated = estimate->n_model;
    actor->least_ns = estimate->n_model > 0 ? estimate->least_ns[0] : 0;
    memset(actor->refuse, 0, sizeof actor->refuse);
    if (refuse)
        memcpy(actor->refuse, refuse, sizeof actor->refuse);
    bool waits = estimate->n_model > 0 && estimate_has_backlog(estimate, 0);
    actor->backlog_ns = waits ? estimate->backlog_ns[0] : -1;
    actor->row_ns = waits ? estimate->row_ns[0] : -1;
    actor->behind_ns = waits ? estimate->behind_ns[0] : -1;
    actor->backlog_priority = waits ? estimate->backlog_priority[0] : 0;
}

static void hear_gateway(actor_t *actor, const Control__SchedulerToGateway *frame)
{
    char word[40];
    const Control__Catalogue *catalogue = frame->catalogue;
    if (frame->welcome)
        see(actor->play, "welcome");
    if (frame->pong)
        see(actor->play, "pong");
    if (frame->n_model_answers > 0)
        see(actor->play, "answer");
    if (catalogue) {
        see(actor->play, "catalogue");
        actor->listed = "absent";
        actor->catalogue = catalogue->version;
    }
    for (size_t i = 0; catalogue && i < catalogue->n_models; i++)
        if (strcmp(catalogue->models[i]->description->name, "m") == 0)
            actor->listed = catalogue->models[i]->ready ? "ready" : "not-ready";
    if (frame->n_doubted > 0)
        see(actor->play, "doubted");
    if (frame->estimate)
        hear_estimate(actor, frame->estimate);
    for (size_t i = 0; frame->drops && i < frame->drops->n_id; i++) {
        actor->drop_count++;
        actor->dropped = (status_t)frame->drops->status[i];
        (void)snprintf(word, sizeof word, "dropped-%s", status_name(actor->dropped));
        see(actor->play, word);
    }
}

static void hear_worker(actor_t *actor, const Control__SchedulerToWorker *frame)
{
    if (frame->welcome)
        see(actor->play, "welcome");
    if (frame->pong)
        see(actor->play, "pong");
    if (frame->revoke)
        see(actor->play, "revoked");
    if (frame->drain)
        see(actor->play, "drain");
    if (frame->n_commands > 0) {
        see(actor->play, "command");
        actor->command = frame->commands[frame->n_commands - 1]->id;
    }
    for (size_t i = 0; i < frame->n_grants; i++) {
        cr_assert(actor->grant_count < PLAY_GRANTS);
        actor->grants[actor->grant_count++] = frame->grants[i]->batch_id;
        see(actor->play, "granted");
    }
}

static bool on_send(void *link, const ProtobufCMessage *frame)
{
    actor_t *actor = link;
    cr_assert_not(actor->ending, "sent to one whose stream is being ended");
    if (frame->descriptor == &control__scheduler_to_gateway__descriptor)
        hear_gateway(actor, (const Control__SchedulerToGateway *)frame);
    else
        hear_worker(actor, (const Control__SchedulerToWorker *)frame);
    return true;
}

static bool on_takes_large(void *link)
{
    (void)link;
    return true;
}

static bool is_honest(const actor_t *actor)
{
    return actor == &actor->play->gateway || actor == &actor->play->worker;
}

static void on_close(void *link, close_reason_t why, const char *text)
{
    static const char *const words[] = {[CLOSE_STOPPING] = "away",
                                        [CLOSE_VERSION] = "no-version",
                                        [CLOSE_INVALID] = "closed",
                                        [CLOSE_EXHAUSTED] = "full",
                                        [CLOSE_SILENT] = "silent"};
    actor_t *actor = link;
    cr_assert(!actor->ending && text[0] != '\0');
    actor->ending = true;
    const turn_t *now = &actor->play->control->turn;
    const char *word = words[why];
    if (is_honest(actor))
        word = now->stopping ? "away" : now->epoch > PLAY_EPOCH ? "others-away" : "HARM";
    see(actor->play, word);
}

static void on_cancel(void *link)
{
    actor_t *actor = link;
    actor->ending = true;
    see(actor->play, is_honest(actor) ? "HARM" : "cut");
}

static status_t on_solve(void *arg, plan_job_t *jobs, uint32_t count)
{
    (void)jobs;
    (void)count;
    see(arg, "solve");
    return STATUS_UNAVAILABLE;
}

/* ---- Streams ---- */

void actor_open(actor_t *actor)
{
    play_t *play = actor->play;
    actor->ending = false;
    if (actor->devices > 0)
        actor->worker = control_worker_opened(play->control, play->now_ns, actor,
                                              actor->address ? actor->address : "worker");
    else
        actor->gateway = control_gateway_opened(play->control, play->now_ns, actor,
                                                actor->address ? actor->address : "gateway");
}

static void turn(play_t *play)
{
    control_decide(play->control, play->now_ns);
    control_flush(play->control, play->now_ns);
}

void actor_leave(actor_t *actor)
{
    play_t *play = actor->play;
    if (actor->worker)
        control_worker_closed(play->control, play->now_ns, actor->worker, "OK", "as the test wants");
    if (actor->gateway)
        control_gateway_closed(play->control, play->now_ns, actor->gateway, "OK", "as the test wants");
    actor->worker = NULL;
    actor->gateway = NULL;
    turn(play);
}

void play_ends(play_t *play)
{
    actor_t *all[] = {&play->gateway, &play->worker, &play->odd_gateway, &play->odd_worker};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i]->ending)
            actor_leave(all[i]);
}

void play_pass(play_t *play, int64_t duration_ns)
{
    int64_t end_ns = play->now_ns + duration_ns;
    for (int turns = 0; control_due_ns(play->control) <= end_ns; turns++) {
        cr_assert(turns < 10000, "it wants to be called again and again");
        if (control_due_ns(play->control) > play->now_ns)
            play->now_ns = control_due_ns(play->control);
        turn(play);
    }
    play->now_ns = end_ns;
}

/* ---- Messages ---- */

void say(actor_t *actor, ProtobufCMessage *frame)
{
    play_t *play = actor->play;
    uint64_t epoch = actor->epoch > 0 ? actor->epoch : play->control->turn.epoch;
    if (actor->gateway) {
        ((Control__GatewayToScheduler *)frame)->epoch = epoch;
        control_gateway_said(play->control, play->now_ns, actor->gateway,
                             (Control__GatewayToScheduler *)frame);
    } else {
        cr_assert(actor->worker);
        ((Control__WorkerToScheduler *)frame)->epoch = epoch;
        control_worker_said(play->control, play->now_ns, actor->worker, (Control__WorkerToScheduler *)frame);
    }
    turn(play);
}

void say_garbage(actor_t *actor)
{
    play_t *play = actor->play;
    control_unreadable(play->control, play->now_ns,
                       actor->gateway ? &actor->gateway->peer : &actor->worker->peer);
    turn(play);
}

void say_hello(actor_t *actor)
{
    Control__Hello hello = CONTROL__HELLO__INIT;
    Control__Device device = CONTROL__DEVICE__INIT, *devices[] = {&device, &device, &device, &device};
    Control__GatewayToScheduler gateway = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    Control__WorkerToScheduler worker = CONTROL__WORKER_TO_SCHEDULER__INIT;
    hello.min_version = hello.max_version = 1;
    hello.instance_id = actor->instance_id;
    hello.instance_key = actor->instance_key;
    hello.data_address = (char *)"gateway:8003";
    device.kind = (char *)"cpu";
    device.name = (char *)"cpu0";
    device.memory_bytes = 1 << 30;
    device.device_class = (char *)(uintptr_t)(actor->device_class ? actor->device_class : "");
    hello.devices = devices;
    hello.n_devices = actor->devices;
    gateway.hello = worker.hello = &hello;
    say(actor, actor->gateway ? &gateway.base : &worker.base);
}

void say_task(actor_t *actor, uint32_t model, uint64_t id)
{
    int64_t budget_ns = 60 * NS_PER_S;
    uint64_t zero = 0;
    uint32_t len = 1;
    Control__TaskBatch tasks = CONTROL__TASK_BATCH__INIT;
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    tasks.n_id = tasks.n_model = tasks.n_budget_ns = 1;
    tasks.n_handle_hi = tasks.n_handle_lo = tasks.n_offset_bytes = tasks.n_len_bytes = 1;
    tasks.id = &id;
    tasks.model = &model;
    tasks.budget_ns = &budget_ns;
    tasks.handle_hi = tasks.handle_lo = tasks.offset_bytes = &zero;
    tasks.len_bytes = &len;
    frame.tasks = &tasks;
    say(actor, &frame.base);
}

void say_cancel(actor_t *actor, uint64_t id)
{
    Control__CancelBatch cancels = CONTROL__CANCEL_BATCH__INIT;
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    cancels.n_id = 1;
    cancels.id = &id;
    frame.cancels = &cancels;
    say(actor, &frame.base);
}

void say_arrived(actor_t *actor, uint64_t id)
{
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    frame.n_arrived = 1;
    frame.arrived = &id;
    say(actor, &frame.base);
}

void say_report(actor_t *actor, const char *name, Control__ModelState state, int64_t row_ns)
{
    int64_t dims[] = {4};
    Control__Tensor tensor = CONTROL__TENSOR__INIT, *tensors[] = {&tensor};
    Control__Latency latency = CONTROL__LATENCY__INIT;
    Control__ModelReport report = CONTROL__MODEL_REPORT__INIT, *reports[] = {&report};
    Control__WorkerToScheduler frame = CONTROL__WORKER_TO_SCHEDULER__INIT;
    tensor.name = (char *)"x";
    tensor.datatype = (char *)"FP32";
    tensor.dims = dims;
    tensor.n_dims = 1;
    latency.beta_ns = (double)row_ns;
    report.name = (char *)(uintptr_t)name;
    report.version = 1;
    report.state = state;
    report.max_batch = 8;
    report.exit_points = 100;
    report.slo_ns = actor->slo_ns;
    report.inputs = report.outputs = tensors;
    report.n_inputs = report.n_outputs = 1;
    report.latency = row_ns >= 0 ? &latency : NULL;
    frame.n_models = 1;
    frame.models = reports;
    say(actor, &frame.base);
}

void say_device(actor_t *actor, uint32_t device, Control__DeviceStatus status)
{
    Control__DeviceState state = CONTROL__DEVICE_STATE__INIT, *states[] = {&state};
    Control__WorkerToScheduler frame = CONTROL__WORKER_TO_SCHEDULER__INIT;
    state.device = device;
    state.status = status;
    frame.n_devices = 1;
    frame.devices = states;
    say(actor, &frame.base);
}

void say_done(actor_t *actor, uint64_t batch, uint32_t device, uint32_t status)
{
    Control__BatchDone done = CONTROL__BATCH_DONE__INIT, *list[] = {&done};
    Control__WorkerToScheduler frame = CONTROL__WORKER_TO_SCHEDULER__INIT;
    done.batch_id = batch;
    done.device = device;
    done.status = status;
    done.exec_ns = done.device_ns = NS_PER_MS;
    frame.n_done = 1;
    frame.done = list;
    say(actor, &frame.base);
}

void say_request(actor_t *actor, Control__ModelAction action, const char *name)
{
    Control__ModelRequest request = CONTROL__MODEL_REQUEST__INIT, *requests[] = {&request};
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    request.id = 1;
    request.action = action;
    request.name = (char *)(uintptr_t)name;
    frame.n_model_requests = 1;
    frame.model_requests = requests;
    say(actor, &frame.base);
}

void say_seen(actor_t *actor, uint64_t catalogue)
{
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    frame.catalogue_seen = catalogue;
    say(actor, &frame.base);
}

void say_command_done(actor_t *actor, status_t status)
{
    Control__CommandDone done = CONTROL__COMMAND_DONE__INIT, *list[] = {&done};
    Control__WorkerToScheduler frame = CONTROL__WORKER_TO_SCHEDULER__INIT;
    done.id = actor->command;
    done.status = (uint32_t)status;
    frame.n_commands_done = 1;
    frame.commands_done = list;
    say(actor, &frame.base);
}

/* ---- Plays ---- */

static void join_honest(play_t *play)
{
    actor_open(&play->worker);
    say_hello(&play->worker);
    actor_open(&play->gateway);
    say_hello(&play->gateway);
    say_report(&play->worker, "good", CONTROL__MODEL_STATE__MODEL_STATE_READY, NS_PER_MS);
}

void play_init(play_t *play, const char *policy)
{
    static const world_t world = {.note = on_note,
                                  .send = on_send,
                                  .takes_large = on_takes_large,
                                  .close = on_close,
                                  .cancel = on_cancel,
                                  .solve = on_solve};
    err_t err = {0};
    control_options_t options;
    *play = (play_t){.now_ns = NS_PER_S};
    play->gateway = (actor_t){.play = play, .instance_id = 1, .instance_key = 11, .listed = "absent"};
    play->worker = (actor_t){.play = play, .instance_id = 2, .instance_key = 12, .devices = 1};
    play->odd_gateway = (actor_t){.play = play, .instance_id = 3, .instance_key = 13, .listed = "absent"};
    play->odd_worker = (actor_t){.play = play, .instance_id = 4, .instance_key = 14, .devices = 2};
    control_options_init(&options);
    options.policy = policy;
    options.epoch = PLAY_EPOCH;
    options.tasks_max = 64;
    options.models_max = 8;
    options.devices_max = 8;
    options.batch_max = 8;
    play->metrics = metrics_create("scheduler", &err);
    cr_assert(play->metrics && control_create(&options, &world, play, play->metrics, play->now_ns,
                                              &play->control, &err) == STATUS_OK,
              "%s", err.text);
    join_honest(play);
}

bool play_dispose(play_t *play)
{
    actor_leave(&play->gateway);
    actor_leave(&play->worker);
    actor_leave(&play->odd_gateway);
    actor_leave(&play->odd_worker);
    const tasks_t *tasks = &play->control->tasks;
    bool nothing_left =
        tasks->pool.lent == 0 && tasks->batches.lent == 0 && play->control->peers.streams == 0;
    control_destroy(play->control);
    metrics_destroy(play->metrics);
    return nothing_left;
}

bool play_honest_are_served(play_t *play)
{
    enum { TASK = 9000 };
    play_ends(play);
    if (play->control->turn.epoch > PLAY_EPOCH && !play->gateway.gateway && !play->worker.worker)
        join_honest(play);
    if (!play->gateway.gateway || !play->worker.worker)
        return false;
    for (uint32_t i = 0; i < play->worker.grant_count; i++)
        if (idmap_get(&play->control->tasks.batches_by_id, play->worker.grants[i]))
            say_done(&play->worker, play->worker.grants[i], 0, STATUS_OK);
    uint32_t before = play->worker.grant_count, dropped = play->gateway.drop_count;
    say_task(&play->gateway, 0, TASK);
    play_pass(play, NS_PER_MS);
    if (play->worker.grant_count != before + 1)
        return false;
    say_done(&play->worker, play->worker.grants[before], 0, STATUS_OK);
    return play->gateway.drop_count == dropped && !play->gateway.ending && !play->worker.ending;
}

/* ---- Tables ---- */

enum { NAME_WIDTH = 22, STATES_MAX = 16, MESSAGES_MAX = 24, TABLE_BYTES_MAX = 1 << 16 };

static uint32_t count_of(const char *const *names)
{
    uint32_t count = 0;
    while (names[count])
        count++;
    return count;
}

typedef struct {
    const table_t *table;
    uint32_t states, messages;
    char word[STATES_MAX][MESSAGES_MAX][PLAY_CELL_BYTES];
    size_t width[STATES_MAX];
} cells_t;

static cells_t *fill(const table_t *table)
{
    cells_t *cells = calloc(1, sizeof *cells);
    cr_assert(cells);
    cells->table = table;
    cells->states = count_of(table->states);
    cells->messages = count_of(table->messages);
    cr_assert(cells->states <= STATES_MAX && cells->messages <= MESSAGES_MAX);
    for (uint32_t s = 0; s < cells->states; s++) {
        cells->width[s] = strlen(table->states[s]);
        for (uint32_t m = 0; m < cells->messages; m++) {
            table->cell(s, m, cells->word[s][m]);
            if (strlen(cells->word[s][m]) > cells->width[s])
                cells->width[s] = strlen(cells->word[s][m]);
        }
    }
    return cells;
}

/* message: UINT32_MAX for the line of the states. */
static void print_line(const cells_t *cells, uint32_t message, strbuf_t *out)
{
    bool head = message == UINT32_MAX;
    strbuf_printf(out, "%-*s", NAME_WIDTH, head ? "" : cells->table->messages[message]);
    for (uint32_t s = 0; s < cells->states; s++) {
        const char *word = head ? cells->table->states[s] : cells->word[s][message];
        bool last = s + 1 == cells->states;
        strbuf_printf(out, "%-*s%s", last ? 0 : (int)cells->width[s], word, last ? "\n" : "  ");
    }
}

/* What stands in the file between the title and the next empty line. */
static void read_expected(const char *path, const char *title, strbuf_t *out)
{
    char line[1024], head[128];
    FILE *file = fopen(path, "r");
    bool inside = false;
    cr_assert(file, "%s cannot be read", path);
    (void)snprintf(head, sizeof head, "## %s\n", title);
    while (fgets(line, sizeof line, file)) {
        inside = inside ? line[0] != '\n' : strcmp(line, head) == 0;
        if (inside && line[0] != '#')
            strbuf_puts(out, line);
    }
    (void)fclose(file);
}

void table_check(const table_t *table, const char *path, const char *title)
{
    cells_t *cells = fill(table);
    strbuf_t is, should;
    strbuf_init(&is, TABLE_BYTES_MAX);
    strbuf_init(&should, TABLE_BYTES_MAX);
    print_line(cells, UINT32_MAX, &is);
    for (uint32_t m = 0; m < cells->messages; m++)
        print_line(cells, m, &is);
    read_expected(path, title, &should);
    cr_assert_str_eq(is.data, should.data, "%s is\n%s\nand by %s should be\n%s", title, is.data, path,
                     should.data);
    strbuf_dispose(&is);
    strbuf_dispose(&should);
    free(cells);
}
