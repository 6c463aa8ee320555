#include "virtual/worker.h"

#include "base/clock.h"
#include "grant_rows.h"
#include "pb_arena.h"

#include <stdlib.h>
#include <string.h>

enum { MODELS_MAX = 64, DEVICES_MAX = 64, ARENA_BYTES_MAX = 64 << 20 };
static const int64_t RECONNECT_NS = 30 * NS_PER_MS;
static const int64_t LOAD_NS = 40 * NS_PER_MS;
static const int64_t LEAVE_NS = 50 * NS_PER_MS; /* from a drain's end to the next process in its place */

typedef struct batch {
    struct batch *next; /* on its device, in the order of the grants */
    uint64_t id, epoch;
    uint32_t model, device, rows;
    int64_t granted_ns, start_ns, end_ns;
    bool started, stopped, fails;
    uint64_t *tasks, *instances; /* of each row, and of the gateway process that sent it */
    uint32_t *failed, *why;      /* rows whose result nobody takes, when it ends */
} batch_t;

typedef struct {
    virtual_worker_t *worker;
    batch_t *first, *last; /* the first runs, or waits for its inputs */
    uint32_t count;
    network_timer_t timer;
} queue_t;

typedef struct {
    virtual_worker_t *worker;
    Control__ModelState state;
    uint32_t id;      /* the scheduler's; 0: it has not said */
    uint64_t command; /* under way; 0: none */
    bool released;    /* UNLOADING: no grant comes any more */
    bool measured;    /* anew */
    network_timer_t loaded;
} held_t;

struct virtual_worker {
    virtual_worker_options_t options;
    uint64_t instance_id, epoch;
    link_t *link;
    bool welcome, draining, leaving;
    network_timer_t again;
    held_t models[MODELS_MAX];
    queue_t devices[DEVICES_MAX];
    uint64_t *peers; /* gateway instance by peer index */
    uint32_t peer_room;
    pb_arena_t arena;
};

static int64_t now_ns(const virtual_worker_t *w)
{
    return network_now_ns(w->options.network);
}

static prng_t *dice(const virtual_worker_t *w)
{
    return network_prng(w->options.network);
}

/* ---- Out ---- */

static void say(virtual_worker_t *w, Control__WorkerToScheduler *frame)
{
    frame->epoch = w->epoch;
    if (w->link)
        link_to_server(w->link, &frame->base);
}

static void fill_latency(Control__Latency *to, int64_t *table_ns, const profile_t *profile)
{
    control__latency__init(to);
    for (uint32_t b = 1; b <= profile->table_len; b++)
        table_ns[b - 1] = profile->table_ns[b];
    to->n_table_ns = profile->table_len;
    to->table_ns = table_ns;
    to->alpha_ns = (double)profile->alpha_ns;
    to->beta_ns = (double)profile->beta_ns;
}

/* By what it reports. */
static bool is_slow(const virtual_worker_t *w, uint32_t m)
{
    return w->options.vice == VICE_SLOW || (w->options.vice == VICE_SLEPT && !w->models[m].measured);
}

static void report(virtual_worker_t *w, uint32_t m)
{
    const virtual_model_t *model = &w->options.models[m];
    int64_t dims[] = {4}, table_ns[PROFILE_TABLE_MAX];
    Control__Tensor input = CONTROL__TENSOR__INIT, output = CONTROL__TENSOR__INIT;
    Control__Tensor *inputs[] = {&input}, *outputs[] = {&output};
    Control__Latency latency;
    Control__ModelReport about = CONTROL__MODEL_REPORT__INIT, *list = &about;
    Control__WorkerToScheduler frame = CONTROL__WORKER_TO_SCHEDULER__INIT;

    input.name = (char *)"x";
    output.name = (char *)"y";
    input.datatype = output.datatype = (char *)"FP32";
    input.dims = output.dims = dims;
    input.n_dims = output.n_dims = 1;
    fill_latency(&latency, table_ns, &model->profile);
    if (is_slow(w, m)) {
        latency.n_table_ns = 0;
        latency.beta_ns = 3600e9;
    }
    about.name = (char *)(uintptr_t)model->name;
    about.version = 1;
    about.state = w->models[m].state;
    about.max_batch = model->profile.max_batch;
    about.slo_ns = model->slo_ns;
    about.exit_points = model->exit_points;
    about.mode = (char *)(model->exit_points ? "preempt" : "whole");
    about.n_inputs = about.n_outputs = 1;
    about.inputs = inputs;
    about.outputs = outputs;
    about.latency = &latency;
    frame.n_models = 1;
    frame.models = &list;
    say(w, &frame);
}

static void send_done(virtual_worker_t *w, const batch_t *batch, status_t status, uint32_t failed_count)
{
    Control__BatchDone done = CONTROL__BATCH_DONE__INIT, *list = &done;
    Control__WorkerToScheduler frame = CONTROL__WORKER_TO_SCHEDULER__INIT;

    if (batch->epoch != w->epoch)
        return; /* granted by a scheduler that is no more */
    done.batch_id = batch->id;
    done.device = batch->device;
    done.status = (uint32_t)status;
    done.exec_ns = done.device_ns = batch->started ? now_ns(w) - batch->start_ns : 0;
    done.fetch_ns = w->options.fetch_ns;
    done.reason = (char *)(status == STATUS_OK ? "" : "as the dice fell");
    done.n_failed_row = done.n_failed_status = failed_count;
    done.failed_row = batch->failed;
    done.failed_status = batch->why;
    frame.n_done = 1;
    frame.done = &list;
    say(w, &frame);
}

static void send_command_done(virtual_worker_t *w, uint64_t id, status_t status)
{
    Control__CommandDone done = CONTROL__COMMAND_DONE__INIT, *list = &done;
    Control__WorkerToScheduler frame = CONTROL__WORKER_TO_SCHEDULER__INIT;

    done.id = id;
    done.status = (uint32_t)status;
    done.reason = (char *)(status == STATUS_OK ? "" : "not here");
    frame.n_commands_done = 1;
    frame.commands_done = &list;
    say(w, &frame);
}

/* ---- Batches ---- */

static void batch_free(batch_t *batch)
{
    free(batch->tasks);
    free(batch);
}

static virtual_gateway_t *gateway_of(const virtual_worker_t *w, uint64_t instance_id)
{
    for (uint32_t i = 0; i < w->options.gateway_count; i++)
        if (virtual_gateway_instance(w->options.gateways[i]) == instance_id)
            return w->options.gateways[i];
    return NULL;
}

/* Rows whose gateway is gone fail; results of the others arrive as the report leaves. */
static void push(virtual_worker_t *w, batch_t *batch)
{
    uint32_t failed_count = 0;

    for (uint32_t i = 0; i < batch->rows; i++) {
        virtual_gateway_t *gateway = gateway_of(w, batch->instances[i]);
        if (gateway) {
            virtual_gateway_result(gateway, batch->instances[i], batch->tasks[i], false);
            continue;
        }
        batch->failed[failed_count] = i;
        batch->why[failed_count++] = STATUS_NOT_FOUND;
    }
    send_done(w, batch, STATUS_OK, failed_count);
}

static void settle(virtual_worker_t *w); /* the end of a batch may end more */

static bool is_its_time(const virtual_worker_t *w)
{
    return now_ns(w) >= w->options.vice_from_ns && now_ns(w) < w->options.vice_until_ns;
}

static int64_t latency_ns(virtual_worker_t *w, const batch_t *batch)
{
    int64_t told_ns = profile_latency_ns(&w->options.models[batch->model].profile, batch->rows);
    double off = w->options.jitter > 0 ? w->options.jitter * (2 * prng_uniform(dice(w)) - 1) : 0;

    enum { DAWDLES = 30 };
    return (told_ns + (int64_t)(off * (double)told_ns)) *
           (w->options.vice == VICE_DAWDLES && is_its_time(w) ? DAWDLES : 1);
}

static void advance(queue_t *device)
{
    batch_t *batch = device->first;
    virtual_worker_t *w = device->worker;
    int64_t ready_ns = batch ? batch->granted_ns + w->options.fetch_ns : NETWORK_NEVER;

    if (batch && !batch->started && ready_ns <= now_ns(w)) {
        batch->started = true;
        batch->start_ns = now_ns(w);
        batch->end_ns = batch->start_ns + latency_ns(w, batch);
    }
    network_timer_start(w->options.network, &device->timer,
                        !batch           ? NETWORK_NEVER
                        : batch->started ? batch->end_ns
                                         : ready_ns);
}

static batch_t *shift(queue_t *device)
{
    batch_t *batch = device->first;

    device->first = batch->next;
    if (!device->first)
        device->last = NULL;
    device->count--;
    return batch;
}

static void on_device(void *arg)
{
    queue_t *device = arg;
    virtual_worker_t *w = device->worker;
    batch_t *batch = device->first;

    if (batch && batch->started && batch->end_ns <= now_ns(w)) {
        (void)shift(device);
        const virtual_batch_t told = {w->options.index,  batch->device,   batch->model,  batch->rows,
                                      batch->granted_ns, batch->start_ns, batch->end_ns, batch->tasks};
        if (batch->stopped || batch->fails) {
            send_done(w, batch, batch->stopped ? STATUS_CANCELLED : STATUS_INTERNAL, 0);
        } else {
            if (w->options.ran)
                w->options.ran(w->options.ctx, &told);
            push(w, batch);
        }
        batch_free(batch);
        settle(w);
    }
    advance(device);
}

/* In place of its work. */
static bool is_vicious(const virtual_worker_t *w, uint32_t device)
{
    return w->options.vice != VICE_NONE && w->options.vice < VICE_SLOW && is_its_time(w) &&
           (w->options.vice != VICE_HALF || device == 0);
}

static void fool(virtual_worker_t *w, batch_t *batch)
{
    static const status_t statuses[] = {[VICE_MUTE] = STATUS_OK,
                                        [VICE_ROWS] = STATUS_OK,
                                        [VICE_GIVES_UP] = STATUS_CANCELLED,
                                        [VICE_FAILS] = STATUS_INTERNAL,
                                        [VICE_HALF] = STATUS_INTERNAL};
    uint32_t failed = w->options.vice == VICE_ROWS ? batch->rows : 0;

    for (uint32_t i = 0; i < failed; i++) {
        batch->failed[i] = i;
        batch->why[i] = STATUS_TOO_LARGE;
    }
    send_done(w, batch, statuses[w->options.vice], failed);
    batch_free(batch);
}

static uint32_t model_of(const virtual_worker_t *w, uint32_t id)
{
    uint32_t m = 0;

    while (m < w->options.model_count && w->models[m].id != id + 1)
        m++;
    return m;
}

static batch_t *make_batch(virtual_worker_t *w, const Control__Grant *grant, uint32_t model)
{
    batch_t *batch = calloc(1, sizeof(*batch));
    uint64_t *words = malloc((size_t)grant->rows * 3 * sizeof(uint64_t));

    if (!batch || !words)
        abort();
    *batch = (batch_t){.id = grant->batch_id,
                       .epoch = w->epoch,
                       .model = model,
                       .device = grant->device,
                       .rows = grant->rows,
                       .granted_ns = now_ns(w),
                       .fails = w->options.failures > 0 && prng_uniform(dice(w)) < w->options.failures,
                       .tasks = words,
                       .instances = words + grant->rows,
                       .failed = (uint32_t *)(words + 2 * (size_t)grant->rows),
                       .why = (uint32_t *)(words + 2 * (size_t)grant->rows) + grant->rows};
    for (uint32_t i = 0; i < grant->rows; i++) {
        grant_row_t row = grant_rows_at(grant, i);
        batch->tasks[i] = row.task_id;
        batch->instances[i] = row.gateway < w->peer_room ? w->peers[row.gateway] : 0;
        if (batch->instances[i] && batch->instances[i] != row.handle_hi && gateway_of(w, row.handle_hi))
            w->options.violated(w->options.ctx,
                                "a row names another gateway than the one that has its input");
    }
    return batch;
}

/* Those that a grant must find room beside: one that was stopped is leaving, and its place has been given away. */
static uint32_t under_way(const queue_t *device)
{
    bool leaves = device->first && device->first->stopped;

    return device->count - leaves;
}

static const char *objection(virtual_worker_t *w, const Control__Grant *grant, uint32_t model)
{
    if (grant_rows_objection(grant))
        return grant_rows_objection(grant);
    if (grant->device >= w->options.devices)
        return "a device was granted a batch that is not there";
    if (model == w->options.model_count)
        return "a model was granted before its number was told";
    if (grant->rows > w->options.models[model].profile.max_batch)
        return "a batch is larger than the model takes";
    if (under_way(&w->devices[grant->device]) >= w->options.inflight_max)
        return "a device was granted more than it may have under way";
    if (w->draining && w->leaving)
        return NULL; /* a grant may meet the drain half-way */
    return w->options.batch_is_new(w->options.ctx, w->epoch, grant->batch_id) ? NULL
                                                                              : "a batch was granted twice";
}

static void on_grant(virtual_worker_t *w, const Control__Grant *grant)
{
    uint32_t model = model_of(w, grant->model);
    const char *wrong = objection(w, grant, model);

    if (wrong) {
        w->options.violated(w->options.ctx, wrong);
        return;
    }
    batch_t *batch = make_batch(w, grant, model);
    Control__ModelState state = w->models[model].state;
    if (state != CONTROL__MODEL_STATE__MODEL_STATE_READY &&
        state != CONTROL__MODEL_STATE__MODEL_STATE_UNLOADING) {
        send_done(w, batch, STATUS_UNAVAILABLE, 0);
        batch_free(batch);
        return;
    }
    if (is_vicious(w, grant->device)) {
        fool(w, batch);
        return;
    }
    queue_t *device = &w->devices[grant->device];
    if (device->last)
        device->last->next = batch;
    else
        device->first = batch;
    device->last = batch;
    device->count++;
    advance(device);
}

/* A batch that waits is gone at once; one that runs ends at its next exit, or not before its end. */
static void revoke(virtual_worker_t *w, uint64_t id)
{
    for (uint32_t d = 0; d < w->options.devices; d++) {
        queue_t *device = &w->devices[d];
        for (batch_t **at = &device->first, *before = NULL; *at; before = *at, at = &(*at)->next) {
            batch_t *batch = *at;
            if (batch->id != id || batch->epoch != w->epoch)
                continue;
            if (batch->started) {
                if (w->options.models[batch->model].exit_points > 0) {
                    batch->stopped = true;
                    batch->end_ns = now_ns(w);
                    advance(device);
                }
                return;
            }
            *at = batch->next;
            if (device->last == batch)
                device->last = before;
            device->count--;
            send_done(w, batch, STATUS_CANCELLED, 0);
            batch_free(batch);
            advance(device);
            return;
        }
    }
}

/* ---- Models ---- */

static bool is_under_way(const virtual_worker_t *w, uint32_t model)
{
    for (uint32_t d = 0; d < w->options.devices; d++)
        for (const batch_t *batch = w->devices[d].first; batch; batch = batch->next)
            if (batch->model == model)
                return true;
    return false;
}

static void set_state(virtual_worker_t *w, uint32_t m, Control__ModelState state)
{
    w->models[m].state = state;
    report(w, m);
}

static void answer(virtual_worker_t *w, held_t *held, status_t status)
{
    if (held->command)
        send_command_done(w, held->command, status);
    held->command = 0;
}

static void on_loaded(void *arg)
{
    held_t *held = arg;
    virtual_worker_t *w = held->worker;

    set_state(w, (uint32_t)(held - w->models), CONTROL__MODEL_STATE__MODEL_STATE_READY);
    answer(w, held, STATUS_OK);
}

static void load(virtual_worker_t *w, uint32_t m, uint64_t command)
{
    held_t *held = &w->models[m];

    answer(w, held, STATUS_CANCELLED);
    if (held->state == CONTROL__MODEL_STATE__MODEL_STATE_READY) {
        send_command_done(w, command, STATUS_OK);
        return;
    }
    held->command = command;
    if (held->state == CONTROL__MODEL_STATE__MODEL_STATE_UNLOADING && !held->released) {
        on_loaded(held);
        return;
    }
    held->released = false;
    set_state(w, m, CONTROL__MODEL_STATE__MODEL_STATE_LOADING);
    network_timer_start(w->options.network, &held->loaded, now_ns(w) + LOAD_NS);
}

static void release(virtual_worker_t *w, uint32_t m)
{
    held_t *held = &w->models[m];

    held->released = held->state == CONTROL__MODEL_STATE__MODEL_STATE_UNLOADING;
    if (!held->released || is_under_way(w, m))
        return;
    held->released = false;
    set_state(w, m, CONTROL__MODEL_STATE__MODEL_STATE_UNLOADED);
    answer(w, held, STATUS_OK);
}

static void unload(virtual_worker_t *w, uint32_t m, uint64_t command)
{
    held_t *held = &w->models[m];

    answer(w, held, STATUS_CANCELLED);
    network_timer_start(w->options.network, &held->loaded, NETWORK_NEVER);
    if (held->state == CONTROL__MODEL_STATE__MODEL_STATE_LOADING)
        set_state(w, m, CONTROL__MODEL_STATE__MODEL_STATE_UNLOADED);
    if (held->state == CONTROL__MODEL_STATE__MODEL_STATE_UNLOADED) {
        send_command_done(w, command, STATUS_OK);
        return;
    }
    held->command = command;
    if (held->state == CONTROL__MODEL_STATE__MODEL_STATE_READY)
        set_state(w, m, CONTROL__MODEL_STATE__MODEL_STATE_UNLOADING);
}

static void measure(virtual_worker_t *w, uint32_t m, uint64_t id)
{
    w->options.asked_to_measure(w->options.ctx);
    send_command_done(w, id, STATUS_OK);
    w->models[m].measured = true;
    report(w, m);
}

static void on_command(virtual_worker_t *w, const Control__ModelCommand *command)
{
    uint32_t m = 0;

    while (m < w->options.model_count && strcmp(w->options.models[m].name, command->name) != 0)
        m++;
    if (m == w->options.model_count)
        send_command_done(w, command->id, STATUS_NOT_FOUND);
    else if (command->action == CONTROL__MODEL_ACTION__MODEL_ACTION_LOAD)
        load(w, m, command->id);
    else if (command->action == CONTROL__MODEL_ACTION__MODEL_ACTION_UNLOAD)
        unload(w, m, command->id);
    else if (command->action == CONTROL__MODEL_ACTION__MODEL_ACTION_MEASURE)
        measure(w, m, command->id);
    else
        release(w, m);
}

/* ---- In ---- */

static void on_peers(virtual_worker_t *w, const Control__PeerTable *table)
{
    for (size_t i = 0; i < table->n_gone; i++)
        if (table->gone[i] < w->peer_room)
            w->peers[table->gone[i]] = 0;
    for (size_t i = 0; i < table->n_peers; i++) {
        uint32_t index = table->peers[i]->index;
        if (index >= w->peer_room) {
            w->peers = realloc(w->peers, (index + 16) * sizeof(*w->peers));
            if (!w->peers)
                abort();
            memset(w->peers + w->peer_room, 0, (index + 16 - w->peer_room) * sizeof(*w->peers));
            w->peer_room = index + 16;
        }
        w->peers[index] = table->peers[i]->instance_id;
    }
}

static void on_welcome(virtual_worker_t *w)
{
    w->welcome = true;
    for (uint32_t m = 0; m < w->options.model_count; m++)
        report(w, m);
}

static void on_frame(virtual_worker_t *w, const Control__SchedulerToWorker *frame)
{
    Control__Pong pong = CONTROL__PONG__INIT;
    Control__WorkerToScheduler back = CONTROL__WORKER_TO_SCHEDULER__INIT;

    w->epoch = frame->epoch;
    if (frame->welcome)
        on_welcome(w);
    if (frame->ping) {
        pong.sent_ns = frame->ping->sent_ns;
        back.pong = &pong;
        say(w, &back);
    }
    for (size_t i = 0; i < frame->n_model_ids; i++)
        for (uint32_t m = 0; m < w->options.model_count; m++)
            if (strcmp(w->options.models[m].name, frame->model_ids[i]->name) == 0)
                w->models[m].id = frame->model_ids[i]->id + 1;
    if (frame->peers)
        on_peers(w, frame->peers);
    for (size_t i = 0; i < frame->n_grants; i++)
        on_grant(w, frame->grants[i]);
    for (size_t i = 0; frame->revoke && i < frame->revoke->n_batch_id; i++)
        revoke(w, frame->revoke->batch_id[i]);
    if (frame->drain) {
        w->draining = frame->drain->drain;
        w->leaving = frame->drain->drain && frame->drain->exit;
    }
    for (size_t i = 0; i < frame->n_commands; i++)
        on_command(w, frame->commands[i]);
    settle(w);
}

static void on_message(void *arg, link_t *link, const uint8_t *bytes, size_t len_bytes)
{
    virtual_worker_t *w = arg;
    const Control__SchedulerToWorker *frame = (void *)protobuf_c_message_unpack(
        &control__scheduler_to_worker__descriptor, &w->arena.allocator, len_bytes, bytes);

    (void)link;
    if (frame && frame->epoch >= w->epoch)
        on_frame(w, frame);
    pb_arena_reset(&w->arena);
}

/* ---- The stream, and the process ---- */

static void on_closed(void *arg, link_t *link)
{
    virtual_worker_t *w = arg;

    (void)link;
    w->link = NULL;
    w->welcome = w->draining = w->leaving = false;
    for (uint32_t m = 0; m < w->options.model_count; m++) {
        w->models[m].id = 0;
        w->models[m].command = 0; /* nobody waits for the answer any more */
        release(w, m);
    }
    if (w->peers)
        memset(w->peers, 0, w->peer_room * sizeof(*w->peers));
    network_timer_start(w->options.network, &w->again, now_ns(w) + RECONNECT_NS);
}

static const link_ops_t ops = {NULL, on_message, on_closed};

static void join(void *arg)
{
    virtual_worker_t *w = arg;
    Control__Device devices[DEVICES_MAX], *list[DEVICES_MAX];
    Control__Hello hello = CONTROL__HELLO__INIT;
    Control__WorkerToScheduler frame = CONTROL__WORKER_TO_SCHEDULER__INIT;

    for (uint32_t d = 0; d < w->options.devices; d++) {
        control__device__init(&devices[d]);
        devices[d].name = devices[d].kind = (char *)"emulated";
        devices[d].device_class = (char *)(uintptr_t)(w->options.device_class ? w->options.device_class : "");
        list[d] = &devices[d];
    }
    w->link = network_connect(w->options.network, &ops, w, virtual_scheduler_workers(), w->options.scheduler);
    hello.min_version = hello.max_version = 1;
    hello.instance_id = w->instance_id;
    hello.name = (char *)"worker";
    hello.n_devices = w->options.devices;
    hello.devices = list;
    frame.hello = &hello;
    say(w, &frame);
}

static void begin(virtual_worker_t *w)
{
    w->instance_id = prng_u64(dice(w)) | 1;
    w->epoch = 0;
    w->draining = w->leaving = false;
    for (uint32_t m = 0; m < w->options.model_count; m++)
        w->models[m] = (held_t){.worker = w,
                                .state = CONTROL__MODEL_STATE__MODEL_STATE_READY,
                                .loaded = {on_loaded, &w->models[m], NETWORK_NEVER}};
}

static void lose_batches(virtual_worker_t *w)
{
    for (uint32_t d = 0; d < w->options.devices; d++) {
        while (w->devices[d].first)
            batch_free(shift(&w->devices[d]));
        network_timer_start(w->options.network, &w->devices[d].timer, NETWORK_NEVER);
    }
}

/* What may follow from a batch's end: a model that was released leaves, and so does a drained process. */
static void settle(virtual_worker_t *w)
{
    for (uint32_t m = 0; m < w->options.model_count; m++)
        if (w->models[m].released)
            release(w, m);
    if (!w->leaving || !virtual_worker_is_idle(w) || !w->link)
        return;
    link_abandon(w->link);
    begin(w);
    on_closed(w, NULL);
    network_timer_start(w->options.network, &w->again, now_ns(w) + LEAVE_NS);
}

virtual_worker_t *virtual_worker_create(const virtual_worker_options_t *options)
{
    virtual_worker_t *w = calloc(1, sizeof(*w));

    if (!w || options->model_count > MODELS_MAX || options->devices > DEVICES_MAX)
        abort();
    w->options = *options;
    w->again = (network_timer_t){join, w, NETWORK_NEVER};
    for (uint32_t d = 0; d < options->devices; d++)
        w->devices[d] = (queue_t){.worker = w, .timer = {on_device, &w->devices[d], NETWORK_NEVER}};
    pb_arena_init(&w->arena, ARENA_BYTES_MAX);
    begin(w);
    join(w);
    return w;
}

void virtual_worker_destroy(virtual_worker_t *w)
{
    if (!w)
        return;
    lose_batches(w);
    pb_arena_dispose(&w->arena);
    free(w->peers);
    free(w);
}

uint64_t virtual_worker_instance(const virtual_worker_t *w)
{
    return w->instance_id;
}

bool virtual_worker_is_idle(const virtual_worker_t *w)
{
    for (uint32_t d = 0; d < w->options.devices; d++)
        if (w->devices[d].count > 0)
            return false;
    return true;
}

void virtual_worker_break(virtual_worker_t *w)
{
    if (w->link)
        link_break(w->link);
}

void virtual_worker_crash(virtual_worker_t *w)
{
    lose_batches(w);
    if (w->link)
        link_abandon(w->link);
    begin(w);
    on_closed(w, NULL);
}
