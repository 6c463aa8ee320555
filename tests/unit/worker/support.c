#include "support.h"

#include "base/log.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- the engine ---- */

static engine_tensor_t inputs[] = {
    {.name = "a", .dtype = DTYPE_F32, .rank = 1, .dims = {IN_A}, .row_bytes = IN_A * 4},
    {.name = "b", .dtype = DTYPE_F32, .rank = 1, .dims = {IN_B}, .row_bytes = IN_B * 4}};
static engine_tensor_t outputs[] = {
    {.name = "o", .dtype = DTYPE_F32, .rank = 1, .dims = {OUT}, .row_bytes = OUT * 4}};
static const engine_model_info_t info = {.inputs = inputs,
                                         .outputs = outputs,
                                         .input_count = 2,
                                         .output_count = 1,
                                         .batchable = true,
                                         .max_batch = MAX_BATCH,
                                         .memory_bytes = 1000};
static engine_tensor_t varying_inputs[] = {
    {.name = "a", .dtype = DTYPE_F32, .rank = 1, .dims = {-1}, .symbols = {"n"}},
    {.name = "b", .dtype = DTYPE_F32, .rank = 1, .dims = {IN_B}, .row_bytes = IN_B * 4}};
static const engine_model_info_t varying = {.inputs = varying_inputs,
                                            .outputs = outputs,
                                            .input_count = 2,
                                            .output_count = 1,
                                            .batchable = true,
                                            .max_batch = MAX_BATCH,
                                            .memory_bytes = 1000};
static engine_tensor_t varying_outputs[] = {
    {.name = "o", .dtype = DTYPE_F32, .rank = 1, .dims = {-1}, .symbols = {"n"}}};
static const engine_model_info_t padding = {.inputs = varying_inputs,
                                            .outputs = varying_outputs,
                                            .input_count = 2,
                                            .output_count = 1,
                                            .batchable = true,
                                            .max_batch = MAX_BATCH,
                                            .memory_bytes = 1000};
static engine_job_t *held_first;
static int stops;
static bool lost, doubles; /* rig_pad */

int engine_held(void)
{
    int count = 0;

    for (engine_job_t *job = held_first; job; job = job->next)
        count++;
    return count;
}

engine_job_t *engine_oldest(void)
{
    return held_first;
}

static void manual_submit(engine_t *engine, engine_job_t *job)
{
    engine_job_t **at = &held_first;

    (void)engine;
    while (*at)
        at = &(*at)->next;
    job->next = NULL;
    *at = job;
}

static bool manual_cancel(engine_t *engine, engine_job_t *job)
{
    (void)engine;
    for (engine_job_t **at = &held_first; *at; at = &(*at)->next) {
        if (*at == job && job != held_first) { /* the oldest has begun */
            *at = job->next;
            job->done(job, STATUS_CANCELLED, NULL);
            return true;
        }
    }
    return false;
}

int engine_stops(void)
{
    return stops;
}

static bool manual_stop(engine_t *engine, engine_job_t *job)
{
    stops++;
    return job == held_first || manual_cancel(engine, job);
}

typedef struct {
    engine_job_t *job;
    status_t status;
    err_t err;
} finish_t;

static void *finish_main(void *arg)
{
    finish_t *finish = arg;

    finish->job->done(finish->job, finish->status, finish->status == STATUS_OK ? NULL : &finish->err);
    return NULL;
}

/* What is alive at a cut: both inputs. */
struct engine_border {
    float a[MAX_BATCH * IN_A_MAX], b[MAX_BATCH * IN_B];
};

static status_t manual_border_create(engine_model_t *model, const uint32_t *cuts, uint32_t cut_count,
                                     uint32_t rows, const engine_shape_t *largest_shapes,
                                     engine_border_t **border, err_t *err)
{
    (void)model, (void)cuts, (void)cut_count, (void)rows, (void)largest_shapes, (void)err;
    *border = calloc(1, sizeof(**border));
    return STATUS_OK;
}

static void manual_border_destroy(engine_border_t *border)
{
    free(border);
}

static void double_row(const engine_job_t *job, const float *a, uint32_t row, size_t in_a)
{
    float *out = job->outputs[0];

    for (size_t j = 0; j < in_a; j++)
        out[row * in_a + j] = 2 * a[row * in_a + j];
}

/* What an engine says of outputs whose size varies, before it computes them. */
static bool has_room(const engine_job_t *job)
{
    size_t row_bytes = job->input_shapes ? (size_t)job->input_shapes[0].dims[1] * sizeof(float) : 0;

    return !doubles || !job->outputs || job->output_capacity_bytes[0] >= (job->row + job->batch) * row_bytes;
}

/* Output row: first of a, first of b, number of the row. */
static void compute_row(float *out, const float *a, const float *b, uint32_t row)
{
    out[0] = a[0];
    out[1] = b[0];
    out[2] = (float)row;
}

static void compute_apart(const engine_job_t *job)
{
    for (uint32_t row = 0; row < job->batch; row++)
        compute_row(job->row_outputs[row], job->row_inputs[2 * row], job->row_inputs[2 * row + 1], row);
}

static void manual_compute(const engine_job_t *job)
{
    if (job->row_inputs) {
        compute_apart(job);
        return;
    }
    const float *a = job->source ? job->source->a : job->inputs[0];
    const float *b = job->source ? job->source->b : job->inputs[1];
    size_t in_a = job->input_shapes ? (size_t)job->input_shapes[0].dims[1] : IN_A;

    if (job->input_shapes)
        cr_assert_eq(job->input_shapes[0].dims[0], job->batch);
    if (job->output_shapes)
        job->output_shapes[0] =
            (engine_shape_t){.rank = 2, .dims = {job->batch, doubles ? (int64_t)in_a : OUT}};
    if (!has_room(job))
        return;
    for (uint32_t row = job->row; row < job->row + job->batch; row++) {
        if (job->target) {
            memcpy(&job->target->a[row * in_a], &a[row * in_a], in_a * sizeof(*a));
            memcpy(&job->target->b[row * IN_B], &b[row * IN_B], IN_B * sizeof(*b));
            continue;
        }
        if (doubles) {
            double_row(job, a, row, in_a);
            continue;
        }
        compute_row((float *)job->outputs[0] + row * OUT, &a[row * in_a], &b[row * IN_B], row);
    }
}

void engine_finish(status_t status, const char *text)
{
    finish_t finish = {.job = held_first, .status = status, .err = {.code = status}};
    pthread_t thread;

    cr_assert_not_null(held_first);
    snprintf(finish.err.text, sizeof(finish.err.text), "%s", text ? text : "");
    held_first = held_first->next;
    if (status == STATUS_OK && !has_room(finish.job))
        finish.status = finish.err.code = STATUS_TOO_LARGE;
    finish.job->started_ns = clock_now_ns();
    manual_compute(finish.job);
    finish.job->finished_ns = finish.job->started_ns + 12345;
    pthread_create(&thread, NULL, finish_main, &finish);
    pthread_join(thread, NULL);
}

static void manual_flush(engine_t *engine)
{
    (void)engine;
    while (held_first)
        engine_finish(STATUS_OK, NULL);
}

void engine_lose(void)
{
    lost = true;
}

static bool manual_is_lost(const engine_t *engine)
{
    (void)engine;
    return lost;
}

static void *manual_alloc(engine_t *engine, size_t len_bytes)
{
    (void)engine;
    return malloc(len_bytes);
}

static void manual_free(engine_t *engine, void *buffer)
{
    (void)engine;
    free(buffer);
}

static void manual_unload(engine_model_t *model)
{
    (void)model;
}

const engine_ops_t *engine_manual(void)
{
    static const engine_ops_t ops = {.name = "manual",
                                     .unload = manual_unload,
                                     .submit = manual_submit,
                                     .cancel = manual_cancel,
                                     .stop = manual_stop,
                                     .border_create = manual_border_create,
                                     .border_destroy = manual_border_destroy,
                                     .flush = manual_flush,
                                     .is_lost = manual_is_lost,
                                     .buffer_alloc = manual_alloc,
                                     .buffer_free = manual_free};
    return &ops;
}

const engine_ops_t *engine_manual_apart(void)
{
    static engine_ops_t ops;

    ops = *engine_manual();
    ops.rows_apart = true;
    return &ops;
}

void rig_stage(rig_t *rig, uint32_t count)
{
    model_stages_t *stages = calloc(1, sizeof(*stages));

    *stages = (model_stages_t){.devices = &rig->devices, .count = count, .rows_max = MAX_BATCH};
    stages->cost_ns = calloc(count * (MAX_BATCH + 1), sizeof(int64_t));
    stages->borders = calloc(rig->devices.count * (count - 1) * STAGES_PAIRS, sizeof(engine_border_t *));
    for (uint32_t i = 0; i < rig->devices.count * (count - 1) * STAGES_PAIRS; i++)
        cr_assert_eq(manual_border_create(NULL, NULL, 0, 0, NULL, &stages->borders[i], NULL), STATUS_OK);
    for (uint32_t s = 0; s <= count; s++)
        stages->from[s] = s;
    for (uint32_t i = 0; i < count * (MAX_BATCH + 1); i++)
        stages->cost_ns[i] = NS_PER_MS;
    rig->model->choice = (mode_choice_t){.mode = MODE_STAGED, .stages = stages};
}

static mode_choice_t segment(rig_t *rig, uint32_t count, const overlap_plan_t *plan, uint32_t service)
{
    model_segments_t *segments = calloc(1, sizeof(*segments));
    uint32_t borders = rig->devices.count * SEGMENTS_QUERIES * SEGMENTS_SIDES;

    *segments = (model_segments_t){.devices = &rig->devices, .plan = plan, .service = service};
    segments->from = calloc(count + 1, sizeof(*segments->from));
    segments->borders = calloc(borders, sizeof(engine_border_t *));
    for (uint32_t i = 0; i <= count; i++)
        segments->from[i] = i;
    for (uint32_t i = 0; i < borders; i++)
        cr_assert_eq(manual_border_create(NULL, NULL, 0, 0, NULL, &segments->borders[i], NULL), STATUS_OK);
    return (mode_choice_t){.mode = MODE_OVERLAP, .segments = segments};
}

void rig_segment(rig_t *rig, uint32_t count, const overlap_plan_t *plan)
{
    rig->model->choice = segment(rig, count, plan, 0);
    if (rig->second)
        rig->second->choice = segment(rig, count, plan, 1);
}

void rig_vary(rig_t *rig)
{
    static const shape_config_t any;
    model_t *model = rig->model;
    model_shapes_t *shapes = calloc(1, sizeof(*shapes));

    model->info = &varying;
    model->row_in_bytes = 0;
    model->shapes = shapes;
    cr_assert_eq(axes_find(&shapes->axes, &varying, &any, NULL), STATUS_OK);
    for (uint32_t size = IN_A; size <= IN_A_MAX; size += IN_A) {
        uint32_t *reference = shapes->references[shapes->reference_count++];
        reference[0] = size;
        cr_assert_eq(
            family_add(&shapes->family, axes_elements(&shapes->axes, reference), &model->profile, NULL),
            STATUS_OK);
    }
    shapes_start(shapes);
    if (model->choice.stages)
        model->choice.stages->shapes = shapes;
    if (model->choice.segments)
        model->choice.segments->shapes = shapes;
}

void rig_pad(rig_t *rig)
{
    static shape_config_t config = {
        .dim_count = 1,
        .dims = {{.name = "n", .size_max = IN_A_MAX, .pad_to = {IN_A, IN_A_MAX}, .pad_to_count = 2}},
        .pad_value_count = 1,
        .pad_values = {{.input = "a", .value = PAD}}};
    model_t *model = rig->model;

    doubles = true;
    model->info = &padding;
    cr_assert_eq(axes_find(&model->shapes->axes, &padding, &config, NULL), STATUS_OK);
    model->choice.stages->pads[0] = model->choice.stages->pads[1] = true;
}

/* ---- the gateways ---- */

static transfer_dest_t gateway_begin(void *ctx, const transfer_incoming_t *result)
{
    gateway_t *gateway = ctx;
    pushed_t *pushed = &gateway->pushed[gateway->begun++];

    *pushed = (pushed_t){.task_id = result->task_id,
                         .status = result->status,
                         .timing = result->timing,
                         .len_bytes = result->len_bytes,
                         .handle = result->handle};
    if (doubles)
        cr_assert_leq(result->len_bytes, sizeof(pushed->values));
    else
        cr_assert_eq(result->len_bytes, OUT * sizeof(float));
    bool in_place =
        result->made_at >= (void *)gateway->place &&
        result->made_at < (void *)(gateway->place + sizeof(gateway->place) / sizeof(gateway->place[0]));
    return (transfer_dest_t){.buffer = in_place ? (void *)(uintptr_t)result->made_at : pushed->values};
}

static void *gateway_place(void *ctx, const transfer_wanted_t *wanted, void **token)
{
    gateway_t *gateway = ctx;
    float *at = gateway->place[gateway->placed];

    (void)token;
    if (gateway->placed + wanted->count > gateway->places)
        return NULL;
    cr_assert_eq(wanted->len_bytes, sizeof(gateway->place[0]));
    gateway->placed += wanted->count;
    return at;
}

static void gateway_vacate(void *ctx, void *token, void *memory)
{
    (void)token, (void)memory;
    ((gateway_t *)ctx)->vacated++;
}

static void gateway_done(void *ctx, void *token, uint64_t task_id, status_t status)
{
    gateway_t *gateway = ctx;

    (void)token;
    (void)task_id;
    gateway->done += status == STATUS_OK;
}

static void gateway_init(rig_t *rig, uint32_t index)
{
    gateway_t *gateway = &rig->gateways[index];
    transfer_owner_options_t options = {.loop = loop_uv(rig->loop),
                                        .address = "127.0.0.1:0",
                                        .instance_id = 1000 + index,
                                        .receiver = {.begin = gateway_begin,
                                                     .done = gateway_done,
                                                     .place = gateway_place,
                                                     .vacate = gateway_vacate},
                                        .ctx = gateway};

    /* Element j of row r of gateway g holds 1000 g + 10 r + j. */
    for (uint32_t r = 0; r < ARENA_BYTES / ROW_BYTES; r++) {
        for (uint32_t j = 0; j < IN_A + IN_B; j++)
            gateway->arena[r * (IN_A + IN_B) + j] = (float)(1000 * index + 10 * r + j);
    }
    cr_assert_eq(transfer_owner_create(&options, &gateway->owner, NULL), STATUS_OK);
    cr_assert_eq(
        transfer_memory_register(gateway->owner, gateway->arena, ARENA_BYTES, NULL, &gateway->memory, NULL),
        STATUS_OK);
    cr_assert_eq(transfer_publish(gateway->memory, gateway->arena, ARENA_BYTES, NULL, NULL, &gateway->handle),
                 STATUS_OK);
}

/* The worker hears of them; those in its own process it asks at once. */
static void peers_init(rig_t *rig, bool within)
{
    rig->owners[0] = rig->gateways[0].owner;
    rig->owners[1] = rig->gateways[1].owner;
    const peers_here_t here = {.loop = rig->loop, .owners = rig->owners, .count = GATEWAYS};

    cr_assert_eq(peers_create(rig->pool, within ? &here : NULL, &rig->peers, NULL), STATUS_OK);
    for (uint32_t i = 0; i < GATEWAYS; i++)
        cr_assert_eq(peers_set(rig->peers, 10 + i, 1000 + i, transfer_owner_address(rig->owners[i]), NULL),
                     STATUS_OK);
}

/* ---- the rig ---- */

static void rig_report(void *ctx, const run_report_t *report)
{
    rig_t *rig = ctx;
    reported_t *reported = &rig->reports[rig->report_count++];

    reported->report = *report;
    snprintf(reported->reason, sizeof(reported->reason), "%s", report->reason);
    for (uint32_t i = 0; i < report->failed_count; i++) {
        reported->failed_row[i] = report->failed_row[i];
        reported->failed_status[i] = report->failed_status[i];
    }
}

static void rig_device_lost(void *ctx, uint32_t device)
{
    rig_t *rig = ctx;

    rig->lost[rig->lost_count++] = device;
}

static model_t *make_model(rig_t *rig, const char *name)
{
    model_t *model;

    cr_assert_eq(model_create(name, 1, "", &model, NULL), STATUS_OK);
    cr_assert_eq(serving_begin(model, NULL), STATUS_OK);
    cr_assert_eq(profile_from_line(&model->profile, NS_PER_MS, NS_PER_MS, MAX_BATCH, NULL), STATUS_OK);
    model->info = &info;
    model->on_device = calloc(2, sizeof(*model->on_device));
    model->on_device_count = 2;
    model->row_in_bytes = ROW_BYTES;
    model->buffer_groups = 1;
    model->free_buffers = calloc(1, sizeof(*model->free_buffers));
    model->serving->state = MODEL_READY;
    serving_name_metrics(model, rig->metrics);
    return model;
}

void rig_add_model(rig_t *rig)
{
    rig->second = make_model(rig, "second");
}

static void init(rig_t *rig, bool within)
{
    err_t err;

    memset(rig, 0, sizeof(*rig));
    held_first = NULL;
    stops = 0;
    lost = doubles = false;
    log_init("test", LOG_OFF, LOG_FORMAT_TEXT);
    cr_assert_eq(loop_create(&rig->loop, &err), STATUS_OK);
    rig->metrics = metrics_create("worker", &err);
    rig->devices = (model_devices_t){.ops = engine_manual(), .kind = "manual", .count = 2, .streams = 2};
    rig->devices.list = calloc(2, sizeof(*rig->devices.list));
    for (int i = 0; i < 2; i++)
        rig->devices.list[i].busy = metrics_series(rig->metrics, METRIC_WORKER_BUSY_SECONDS, i ? "1" : "0");
    cr_assert_eq(
        transfer_pool_create(&(transfer_pool_options_t){.loop = loop_uv(rig->loop)}, &rig->pool, &err),
        STATUS_OK);
    for (uint32_t i = 0; i < GATEWAYS; i++)
        gateway_init(rig, i);
    peers_init(rig, within);
    rig->model = make_model(rig, "m");
    run_options_t options = {.loop = rig->loop,
                             .devices = &rig->devices,
                             .peers = rig->peers,
                             .pool = rig->pool,
                             .metrics = rig->metrics,
                             .report = rig_report,
                             .device_lost = rig_device_lost,
                             .ctx = rig};
    cr_assert_eq(run_create(&options, &rig->run, &err), STATUS_OK);
}

void rig_init(rig_t *rig)
{
    init(rig, false);
}

void rig_init_within(rig_t *rig)
{
    init(rig, true);
}

const pushed_t *pushed_of(const gateway_t *gateway, uint64_t task_id)
{
    for (int i = 0; i < gateway->begun; i++) {
        if (gateway->pushed[i].task_id == task_id)
            return &gateway->pushed[i];
    }
    return NULL;
}

void rig_dispose(rig_t *rig)
{
    run_destroy(rig->run);
    serving_destroy(rig->model, &rig->devices);
    if (rig->second)
        serving_destroy(rig->second, &rig->devices);
    peers_destroy(rig->peers);
    transfer_pool_destroy(rig->pool);
    for (uint32_t i = 0; i < GATEWAYS; i++) {
        transfer_owner_destroy(rig->gateways[i].owner);
        transfer_memory_unregister(rig->gateways[i].memory);
    }
    loop_destroy(rig->loop);
    metrics_destroy(rig->metrics);
    free(rig->devices.list);
}

void grant_init(grant_t *grant, uint64_t batch_id, uint32_t device)
{
    memset(grant, 0, sizeof(*grant));
    control__grant__init(&grant->grant);
    grant->grant.batch_id = batch_id;
    grant->grant.device = device;
    grant_rows_begin(&grant->grant, grant->words);
}

void grant_add(rig_t *rig, grant_t *grant, uint32_t gateway, uint64_t task_id, uint32_t row)
{
    transfer_handle_t handle = rig->gateways[gateway == 11].handle;
    const grant_row_t from = {.task_id = task_id,
                              .handle_hi = handle.hi,
                              .handle_lo = handle.lo,
                              .offset_bytes = row * ROW_BYTES,
                              .budget_ns = INT64_MAX,
                              .len_bytes = grant->size ? (grant->size + IN_B) * 4 : ROW_BYTES,
                              .gateway = gateway};

    grant_rows_append(&grant->grant, &from);
}

void grant_send(rig_t *rig, grant_t *grant)
{
    grant_send_to(rig, rig->model, grant);
}

void grant_send_to(rig_t *rig, model_t *model, grant_t *grant)
{
    Control__Grant *to = &grant->grant;

    to->n_size = grant->size > 0;
    to->size = &grant->size;
    run_grant(rig->run, 7, model, to);
}

void rig_grant_sized(rig_t *rig, uint64_t batch_id, uint32_t rows, uint32_t size, uint64_t stretches)
{
    grant_t grant;

    grant_init(&grant, batch_id, 0);
    grant.size = size;
    grant.grant.stretches = stretches;
    for (uint32_t i = 0; i < rows; i++)
        grant_add(rig, &grant, 10, 10 * batch_id + i, (uint32_t)(10 * batch_id + i));
    grant_send(rig, &grant);
}

void rig_check_sized(rig_t *rig, uint64_t task, uint32_t size)
{
    const gateway_t *gateway = &rig->gateways[0];
    uint32_t row = IN_A + IN_B;

    for (int i = 0; i < gateway->done; i++) {
        const pushed_t *pushed = &gateway->pushed[i];
        if (pushed->task_id != task)
            continue;
        cr_assert_float_eq(pushed->values[0], (double)(10 * task), 0);
        cr_assert_float_eq(pushed->values[1], (double)(10 * (task + size / row) + size % row), 0);
        return;
    }
    cr_assert_fail("task %llu has no answer", (unsigned long long)task);
}

void rig_check_padded(rig_t *rig, uint64_t task, uint32_t size)
{
    const gateway_t *gateway = &rig->gateways[0];
    const float *input = &gateway->arena[task * (IN_A + IN_B)];
    uint32_t told;

    for (int i = 0; i < gateway->done; i++) {
        const pushed_t *pushed = &gateway->pushed[i];
        if (pushed->task_id != task)
            continue;
        cr_assert_eq(pushed->len_bytes, (size + 1) * sizeof(float));
        for (uint32_t j = 0; j < size; j++)
            cr_assert_float_eq(pushed->values[j], 2 * input[j], 0);
        memcpy(&told, &pushed->values[size], sizeof(told));
        cr_assert_eq(told, size);
        return;
    }
    cr_assert_fail("task %llu has no answer", (unsigned long long)task);
}

static void count_end(void *ended, status_t status)
{
    cr_assert_eq(status, STATUS_OK);
    ++*(int *)ended;
}

/* A fetch from each gateway comes behind what the worker asked of it or sent to it before, on the same connection; and the
 * loop has slept meanwhile, so that it has seen what threads told it before. */
static void fetch_round(rig_t *rig)
{
    float value[GATEWAYS];
    struct iovec piece[GATEWAYS];
    transfer_item_t item[GATEWAYS];
    int ended = 0;

    for (uint32_t i = 0; i < GATEWAYS; i++) {
        peer_t *peer = peers_hold(rig->peers, 10 + i);
        piece[i] = (struct iovec){&value[i], sizeof(value[i])};
        item[i] = (transfer_item_t){.handle = rig->gateways[i].handle,
                                    .len_bytes = sizeof(value[i]),
                                    .iov = &piece[i],
                                    .iov_count = 1};
        cr_assert_eq(transfer_fetch(peer->transfer, &item[i], 1, 0, count_end, &ended, NULL), STATUS_OK);
        peer_release(rig->peers, peer);
    }
    rig_until(rig, ended == GATEWAYS);
}

void rig_barrier(rig_t *rig)
{
    fetch_round(rig); /* behind the inputs */
    fetch_round(rig); /* behind the results */
}

void rig_finish(rig_t *rig, status_t status)
{
    rig_until(rig, engine_held() > 0);
    engine_finish(status, status == STATUS_OK ? NULL : "as the test wants");
    rig_barrier(rig);
}

void rig_finish_all(rig_t *rig, int reports)
{
    while (rig->report_count < reports)
        rig_finish(rig, STATUS_OK);
}

void rig_finish_unfit(rig_t *rig, uint32_t size)
{
    rig_until(rig, engine_held() == 1);
    cr_assert_eq(rig->report_count, 0);
    cr_assert_eq(engine_oldest()->range.to, 0, "whole");
    cr_assert_eq(engine_oldest()->batch, 2);
    rig_finish(rig, STATUS_OK);
    rig_until(rig, rig->gateways[0].done == 2);
    cr_assert_eq(rig->reports[0].report.status, STATUS_OK);
    cr_assert_eq(rig->reports[0].report.failed_count, 0);
    rig_check_sized(rig, 10, size);
    rig_check_sized(rig, 11, size);
    cr_assert_eq(metrics_value(rig->model->serving->unfit), 1);
}

void rig_end(rig_t *rig)
{
    rig_until(rig, run_under_way(rig->run) == 0);
    run_forget(rig->run, rig->model);
    rig_dispose(rig);
}
