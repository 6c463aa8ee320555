#include "sim/simulation.h"

#include "sim/events.h"
#include "sim/recorder.h"
#include "sim/scaler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    TASKS_PER_GPU =
        8192, /* waiting and running; with an SLO of seconds and 10,000 r/s per GPU still enough */
    TASKS_MIN = 1 << 16,
    TASKS_MAX = 1 << 22,
    BATCH_MAX = 4096,
    GPUS_MAX = 1 << 14,
    DRAIN_S = 60, /* after the last arrival all must have ended by then, whatever the policy */
    PROGRESS_EVERY = 1 << 17,
    FAULT_STREAM = 1 << 30, /* of the generator for delays and jitter, apart from the models' */
    GPU_INFLIGHT = 16,      /* batches under way to a GPU: more than delays or plans of tens of ms ask for */
};

#define SECOND_NS INT64_C(1000000000)

typedef enum { EV_ARRIVE, EV_SUBMIT, EV_END, EV_DONE, EV_CHANGE, EV_STEP, EV_SECOND, EV_SWITCH } event_kind_t;

/* A batch on a GPU, from its grant until the scheduler knows its end. */
typedef struct {
    bool used;
    uint32_t generation;
    uint64_t batch_id;
    uint32_t gpu, model, count, capacity;
    int64_t start_ns, end_ns;
    sched_task_t *tasks;
} running_t;

typedef struct {
    const simulation_config_t *config;
    const workload_t *workload;
    sched_t *sched;
    events_t events;
    recorder_t recorder;
    arrivals_t *arrivals;     /* per model */
    double *factor;           /* per model: of the rate now */
    int64_t *gpu_free_ns;     /* per GPU: what really is */
    int64_t *gpu_promised_ns; /* per GPU: end of what the core granted last */
    bool *gpu_up;
    running_t *running;
    uint32_t running_len, running_capacity;
    uint32_t *free_running;
    uint32_t free_len;
    prng_t prng;
    int64_t now_ns, end_ns, net_bound_ns;
    uint64_t open; /* requests that have no end yet */
    const char *broken;
    scaler_t scaler;
    simulation_second_t second; /* sums of the one that runs */
    uint64_t second_busy_ns;    /* all GPUs' predicted work until it began */
} simulation_t;

static bool has_net(const simulation_t *sim)
{
    return sim->config->net.count > 0;
}

static int64_t delay_ns(simulation_t *sim)
{
    return has_net(sim) ? net_delay_ns(&sim->config->net, &sim->prng) : 0;
}

/* Setting up */

static bool policy_is_known(const char *name)
{
    for (uint32_t i = 0; sched_policy_name(i); i++) {
        if (strcmp(sched_policy_name(i), name) == 0)
            return true;
    }
    return false;
}

static status_t check_config(const simulation_config_t *config, err_t *err)
{
    if (config->gpus == 0 || config->gpus > GPUS_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "gpus is %u, not within 1..%d", config->gpus, GPUS_MAX);
    if (!(config->workload->rate_rps > 0) || config->workload->rate_rps > 1e9)
        return err_set(err, STATUS_INVALID_ARGUMENT, "rate must be above 0 and at most 1e9 requests/s");
    if (!(config->seconds > 0) || config->seconds > 1e6 || !(config->warmup_s >= 0) || config->warmup_s > 1e6)
        return err_set(err, STATUS_INVALID_ARGUMENT, "seconds must be above 0 and at most 1e6");
    if (config->autoscale && (config->start_gpus == 0 || config->start_gpus > config->gpus))
        return err_set(err, STATUS_INVALID_ARGUMENT, "start_gpus is %u, not within 1..%u", config->start_gpus,
                       config->gpus);
    if (!(config->provision_s >= 0) || config->provision_s > 1e6)
        return err_set(err, STATUS_INVALID_ARGUMENT, "provision_s must be within 0..1e6");
    if (config->switch_policy && !policy_is_known(config->switch_policy))
        return err_set(err, STATUS_INVALID_ARGUMENT, "there is no policy '%s'", config->switch_policy);
    if (!(config->jitter >= 0) || config->jitter > 1)
        return err_set(err, STATUS_INVALID_ARGUMENT, "jitter must be within 0..1");
    return STATUS_OK;
}

static status_t add_members(simulation_t *sim, err_t *err)
{
    const simulation_config_t *config = sim->config;
    status_t status = STATUS_OK;
    if (config->policy || config->params)
        status = sched_set_policy(sim->sched, 0, config->policy ? config->policy : sched_policy_name(0),
                                  config->params, err);
    for (uint32_t m = 0; status == STATUS_OK && m < sim->workload->count; m++) {
        const profile_entry_t *model = &sim->workload->models[m];
        double rate = config->measured ? 0 : sim->workload->rate_rps * sim->workload->shares[m];
        sched_model_opts_t opts = {.slo_ns = model->slo_ns,
                                   .timeout_ns = model->timeout_ns,
                                   .exit_points = model->exit_points,
                                   .rate_hint = rate};
        status = sched_add_model(sim->sched, 0, m, &model->profile, &opts, err);
    }
    uint32_t gpus = config->autoscale ? config->start_gpus : config->gpus;
    for (uint32_t g = 0; status == STATUS_OK && g < gpus; g++) {
        status = sched_add_gpu(sim->sched, 0, g, 0);
        sim->gpu_up[g] = true;
    }
    sched_delays_t delays = {.ctrl_ns = sim->net_bound_ns,
                             .fixed_ns = has_net(sim) ? sim->net_bound_ns : 0,
                             .data_ns = config->net.data_ns};
    sched_set_delays(sim->sched, 0, config->measured ? config->measured : &delays);
    return status;
}

static status_t create_core(simulation_t *sim, err_t *err)
{
    uint64_t tasks = (uint64_t)sim->config->gpus * TASKS_PER_GPU;
    tasks = tasks < TASKS_MIN ? TASKS_MIN : tasks > TASKS_MAX ? TASKS_MAX : tasks;
    sched_limits_t limits = {.models_max = sim->workload->count,
                             .gpus_max = sim->config->gpus,
                             .tasks_max = (uint32_t)tasks,
                             .batch_max = BATCH_MAX,
                             .gpu_inflight_max = GPU_INFLIGHT};
    sim->sched = sched_create(&limits, err);
    return sim->sched ? add_members(sim, err) : err->code;
}

static double rate_of(const simulation_t *sim, uint32_t model)
{
    return sim->workload->rate_rps * sim->workload->shares[model] * sim->factor[model];
}

static bool is_closed(const simulation_t *sim)
{
    return sim->workload->arrivals.kind == ARRIVALS_CLOSED;
}

/* The client that has its answer comes again. */
static void come_again(simulation_t *sim, uint32_t model, uint32_t clients)
{
    int64_t at_ns = sim->now_ns + (int64_t)(sim->workload->arrivals.think_s * 1e9);
    for (uint32_t c = 0; is_closed(sim) && at_ns < sim->end_ns && c < clients; c++)
        events_add(&sim->events, at_ns, EV_ARRIVE, model, 0);
}

static void schedule_arrival(simulation_t *sim, uint32_t model)
{
    double rate = rate_of(sim, model);
    if (!(rate > 0))
        return; /* a later step starts it again */
    double at_s = arrivals_next_s(&sim->arrivals[model], rate);
    if (at_s * 1e9 < (double)sim->end_ns)
        events_add(&sim->events, (int64_t)(at_s * 1e9), EV_ARRIVE, model, 0);
}

static void schedule_all(simulation_t *sim)
{
    const simulation_config_t *config = sim->config;
    for (uint32_t i = 0; i < sim->workload->step_count; i++)
        events_add(&sim->events, (int64_t)(sim->workload->steps[i].at_s * 1e9), EV_STEP, i, 0);
    for (uint32_t i = 0; i < config->change_count; i++)
        events_add(&sim->events, (int64_t)(config->changes[i].at_s * 1e9), EV_CHANGE, i, 0);
    if (config->switch_policy)
        events_add(&sim->events, (int64_t)(config->switch_s * 1e9), EV_SWITCH, 0, 0);
    if (config->on_second || config->autoscale)
        events_add(&sim->events, SECOND_NS, EV_SECOND, 0, 0);
    for (uint32_t m = 0; m < sim->workload->count; m++) {
        const arrivals_spec_t *spec =
            sim->workload->each ? &sim->workload->each[m] : &sim->workload->arrivals;
        arrivals_init(&sim->arrivals[m], spec, config->seed, m);
        sim->factor[m] = 1;
        if (is_closed(sim))
            come_again(sim, m, sim->workload->arrivals.clients);
        else
            schedule_arrival(sim, m);
    }
}

static status_t simulation_init(simulation_t *sim, const simulation_config_t *config, err_t *err)
{
    uint32_t models = config->workload->count;
    *sim = (simulation_t){.config = config, .workload = config->workload};
    sim->end_ns = (int64_t)((config->warmup_s + config->seconds) * 1e9);
    sim->net_bound_ns = net_bound_ns(&config->net);
    prng_init_stream(&sim->prng, config->seed, FAULT_STREAM);
    status_t status = recorder_init(&sim->recorder, config, err);
    if (status == STATUS_OK)
        status = events_init(&sim->events, err);
    if (status != STATUS_OK)
        return status;
    sim->arrivals = calloc(models, sizeof(*sim->arrivals));
    sim->factor = calloc(models, sizeof(*sim->factor));
    sim->gpu_free_ns = calloc(config->gpus, sizeof(*sim->gpu_free_ns));
    sim->gpu_promised_ns = calloc(config->gpus, sizeof(*sim->gpu_promised_ns));
    sim->gpu_up = calloc(config->gpus, sizeof(*sim->gpu_up));
    if (!sim->arrivals || !sim->factor || !sim->gpu_free_ns || !sim->gpu_promised_ns || !sim->gpu_up)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a simulation");
    if (config->autoscale)
        scaler_init(&sim->scaler, config->autoscale, config->start_gpus, config->gpus,
                    (int64_t)(config->provision_s * 1e9));
    status = create_core(sim, err);
    if (status == STATUS_OK)
        schedule_all(sim);
    return status;
}

static void simulation_dispose(simulation_t *sim, bool keep_result)
{
    for (uint32_t i = 0; i < sim->running_len; i++)
        free(sim->running[i].tasks);
    free(sim->running);
    free(sim->free_running);
    free(sim->gpu_up);
    free(sim->gpu_promised_ns);
    free(sim->gpu_free_ns);
    free(sim->factor);
    free(sim->arrivals);
    sched_destroy(sim->sched);
    events_dispose(&sim->events);
    recorder_dispose(&sim->recorder, keep_result);
}

/* Batches */

static running_t *take_running(simulation_t *sim)
{
    if (sim->free_len)
        return &sim->running[sim->free_running[--sim->free_len]];
    if (sim->running_len == sim->running_capacity) {
        uint32_t capacity = sim->running_capacity ? sim->running_capacity * 2 : 64;
        running_t *running = realloc(sim->running, capacity * sizeof(*running));
        uint32_t *free_running =
            running ? realloc(sim->free_running, capacity * sizeof(*free_running)) : NULL;
        if (running)
            sim->running = running;
        if (!free_running)
            return NULL;
        sim->free_running = free_running;
        sim->running_capacity = capacity;
    }
    running_t *entry = &sim->running[sim->running_len++];
    *entry = (running_t){0};
    return entry;
}

static void give_running(simulation_t *sim, running_t *entry)
{
    entry->used = false;
    entry->generation++;
    sim->free_running[sim->free_len++] = (uint32_t)(entry - sim->running);
}

static bool copy_tasks(running_t *entry, const sched_task_t *tasks, uint32_t count)
{
    if (count > entry->capacity) {
        sched_task_t *larger = realloc(entry->tasks, count * sizeof(*larger));
        if (!larger)
            return false;
        entry->tasks = larger;
        entry->capacity = count;
    }
    memcpy(entry->tasks, tasks, count * sizeof(*tasks));
    entry->count = count;
    return true;
}

static void tell_batch(simulation_t *sim, const running_t *entry, int64_t end_ns, uint32_t late,
                       bool preempted)
{
    simulation_batch_t batch = {.gpu = entry->gpu,
                                .model = entry->model,
                                .count = entry->count,
                                .late = late,
                                .start_ns = entry->start_ns,
                                .end_ns = end_ns,
                                .preempted = preempted};
    recorder_batch(&sim->recorder, &batch);
    if (sim->config->on_batch)
        sim->config->on_batch(sim->config->ctx, &batch);
}

/* How long it really takes: the profile's time, spread by the jitter. */
static int64_t real_latency_ns(simulation_t *sim, int64_t latency_ns)
{
    if (sim->config->jitter <= 0)
        return latency_ns;
    double factor = 1 + sim->config->jitter * prng_normal(&sim->prng, 0, 1);
    return llround((double)latency_ns * (factor < 0.5 ? 0.5 : factor));
}

/* Not before the core's estimate: the way takes its bound at least, though a worker begins as soon as it can. So what
 * is simulated is the case that the core has planned for, and no figure is better than the plan. */
static int64_t real_start_ns(simulation_t *sim, uint32_t gpu, uint32_t count, int64_t granted_ns)
{
    int64_t arrived_ns = sim->now_ns + delay_ns(sim);
    if (has_net(sim))
        arrived_ns += delay_ns(sim) + sim->config->net.data_ns * (int64_t)count;
    int64_t planned_ns = sim->config->measured ? 0 : granted_ns;
    int64_t start_ns = planned_ns > sim->gpu_free_ns[gpu] ? planned_ns : sim->gpu_free_ns[gpu];
    return start_ns > arrived_ns ? start_ns : arrived_ns;
}

static void check_grant(simulation_t *sim, const sched_action_t *action)
{
    uint32_t gpu = action->grant.gpu;
    if (gpu >= sim->config->gpus || !sim->gpu_up[gpu])
        sim->broken = "a batch was granted to a GPU that is not there";
    else if (action->grant.count == 0 || action->grant.start_ns < sim->now_ns)
        sim->broken = "an empty batch, or one that starts in the past";
    else if (sim->config->jitter <= 0 && !has_net(sim) && !sim->config->measured &&
             action->grant.start_ns < sim->gpu_promised_ns[gpu])
        sim->broken = "two batches on one GPU";
    for (uint32_t i = 0; !sim->broken && i < action->grant.count; i++) {
        if (action->grant.finish_ns > action->grant.tasks[i].deadline_ns)
            sim->broken = "a batch was granted that ends after the deadline of one in it";
    }
}

static void on_grant(simulation_t *sim, const sched_action_t *action)
{
    check_grant(sim, action);
    if (sim->broken)
        return;
    uint32_t gpu = action->grant.gpu;
    running_t *entry = take_running(sim);
    if (!entry || !copy_tasks(entry, action->grant.tasks, action->grant.count)) {
        sim->broken = "no memory for a batch";
        return;
    }
    entry->used = true;
    entry->batch_id = action->grant.batch_id;
    entry->gpu = gpu;
    entry->model = action->model;
    entry->start_ns = real_start_ns(sim, gpu, entry->count, action->grant.start_ns);
    const profile_t *profile = &sim->workload->models[action->model].profile;
    entry->end_ns = entry->start_ns + real_latency_ns(sim, profile_latency_ns(profile, entry->count));
    sim->gpu_free_ns[gpu] = entry->end_ns;
    sim->gpu_promised_ns[gpu] = action->grant.finish_ns;
    events_add(&sim->events, entry->end_ns, EV_END, (uint32_t)(entry - sim->running), entry->generation);
}

static running_t *find_running(simulation_t *sim, uint64_t batch_id)
{
    for (uint32_t i = 0; i < sim->running_len; i++) {
        if (sim->running[i].used && sim->running[i].batch_id == batch_id)
            return &sim->running[i];
    }
    return NULL;
}

/* Its tasks are in the core's queue again; here only the time is lost. */
static void break_off(simulation_t *sim, running_t *entry)
{
    if (entry->start_ns < sim->now_ns)
        tell_batch(sim, entry, sim->now_ns, 0, true);
    if (sim->gpu_free_ns[entry->gpu] == entry->end_ns)
        sim->gpu_free_ns[entry->gpu] = sim->now_ns;
    sim->gpu_promised_ns[entry->gpu] = sim->now_ns;
    give_running(sim, entry);
}

static void on_action(void *ctx, const sched_action_t *action)
{
    simulation_t *sim = ctx;
    running_t *entry;
    switch (action->kind) {
    case SCHED_GRANT:
        on_grant(sim, action);
        break;
    case SCHED_DROP:
        sim->open--;
        come_again(sim, action->model, 1);
        sim->second.bad++;
        recorder_drop(&sim->recorder, action->model, action->drop.task.arrival_ns, action->drop.reason);
        if (sim->config->on_drop)
            sim->config->on_drop(sim->config->ctx, action->model, action->drop.task.arrival_ns, sim->now_ns);
        break;
    case SCHED_PREEMPT:
        entry = find_running(sim, action->preempt.batch_id);
        if (entry)
            break_off(sim, entry);
        else
            sim->broken = "a batch was preempted that does not run";
        break;
    }
}

/* Events */

static void submit(simulation_t *sim, uint32_t model, int64_t arrival_ns)
{
    int64_t slo_ns = sim->workload->models[model].slo_ns;
    int64_t answer_ns = sim->config->measured ? sim->config->answer_ns : sim->net_bound_ns;
    sched_task_t task = {
        .tag = sim->open, .arrival_ns = arrival_ns, .deadline_ns = arrival_ns + slo_ns - answer_ns};
    if (sched_submit(sim->sched, sim->now_ns, model, &task, NULL) != STATUS_OK) {
        sim->open--;
        recorder_drop(&sim->recorder, model, arrival_ns, SCHED_DROP_WINDOW);
    }
}

static void on_arrive(simulation_t *sim, uint32_t model)
{
    sim->open++;
    sim->second.arrived++;
    recorder_arrival(&sim->recorder, model, sim->now_ns);
    if (has_net(sim))
        events_add(&sim->events, sim->now_ns + delay_ns(sim), EV_SUBMIT, model, sim->now_ns);
    else
        submit(sim, model, sim->now_ns);
    if (!is_closed(sim))
        schedule_arrival(sim, model);
}

static void on_done(simulation_t *sim, running_t *entry)
{
    (void)sched_batch_ran(sim->sched, sim->now_ns, entry->batch_id, entry->start_ns, entry->end_ns);
    sched_batch_done(sim->sched, sim->now_ns, entry->batch_id, entry->end_ns);
    give_running(sim, entry);
}

static void on_end(simulation_t *sim, uint32_t index, uint32_t generation)
{
    running_t *entry = &sim->running[index];
    if (!entry->used || entry->generation != generation)
        return; /* it was broken off */
    int64_t answered_ns = sim->now_ns + delay_ns(sim);
    int64_t slo_ns = sim->workload->models[entry->model].slo_ns;
    uint32_t late = 0;
    for (uint32_t i = 0; i < entry->count; i++) {
        int64_t arrival_ns = entry->tasks[i].arrival_ns;
        late += answered_ns - arrival_ns > slo_ns;
        recorder_answer(&sim->recorder, entry->model, arrival_ns, entry->start_ns, answered_ns, slo_ns);
    }
    sim->open -= entry->count;
    come_again(sim, entry->model, entry->count);
    sim->second.bad += late;
    sim->second.good += entry->count - late;
    tell_batch(sim, entry, sim->now_ns, late, false);
    if (has_net(sim))
        events_add(&sim->events, sim->now_ns + delay_ns(sim), EV_DONE, index, generation);
    else
        on_done(sim, entry);
}

static void on_change(simulation_t *sim, const simulation_change_t *change)
{
    if (sim->gpu_up[change->gpu] == change->up)
        return;
    sim->gpu_up[change->gpu] = change->up;
    if (change->up) {
        sim->gpu_free_ns[change->gpu] = sim->gpu_promised_ns[change->gpu] = sim->now_ns;
        sched_add_gpu(sim->sched, sim->now_ns, change->gpu, sim->now_ns);
        return;
    }
    sched_remove_gpu(sim->sched, sim->now_ns, change->gpu);
    for (uint32_t i = 0; i < sim->running_len; i++) {
        if (sim->running[i].used && sim->running[i].gpu == change->gpu &&
            sim->running[i].end_ns > sim->now_ns)
            break_off(sim, &sim->running[i]);
    }
}

static void on_step(simulation_t *sim, const rate_step_t *step)
{
    for (uint32_t m = 0; m < sim->workload->count; m++) {
        if (step->model != RATE_STEP_ALL && step->model != m)
            continue;
        bool was_silent = !(rate_of(sim, m) > 0);
        sim->factor[m] = step->factor;
        if (was_silent && !is_closed(sim)) {
            sim->arrivals[m].at_s = (double)sim->now_ns / 1e9;
            schedule_arrival(sim, m);
        }
    }
}

/* The GPU set is the scaler's; here is what it does to the books. */
static void on_second(simulation_t *sim)
{
    const simulation_config_t *config = sim->config;
    autoscale_sums_t sums = scaler_sums(sim->sched, sim->workload->count);
    simulation_second_t *second = &sim->second;
    uint32_t gpus = config->autoscale ? sim->scaler.gpus : config->gpus;
    second->at_s = (double)sim->now_ns / 1e9;
    second->gpus = gpus;
    second->busy_fraction = (double)(int64_t)(sums.busy_ns - sim->second_busy_ns) / 1e9 / gpus;
    second->advice =
        config->autoscale ? scaler_follow(&sim->scaler, sim->sched, sim->now_ns, &sums, sim->gpu_up) : 0;
    if (config->on_second)
        config->on_second(config->ctx, second);
    sim->second = (simulation_second_t){0};
    sim->second_busy_ns = sums.busy_ns;
    if (sim->now_ns < sim->end_ns)
        events_add(&sim->events, sim->now_ns + SECOND_NS, EV_SECOND, 0, 0);
}

static void dispatch(simulation_t *sim, const event_t *event)
{
    switch ((event_kind_t)event->kind) {
    case EV_ARRIVE:
        on_arrive(sim, event->index);
        break;
    case EV_SUBMIT:
        submit(sim, event->index, event->payload);
        break;
    case EV_END:
        on_end(sim, event->index, (uint32_t)event->payload);
        break;
    case EV_DONE:
        if (sim->running[event->index].used &&
            sim->running[event->index].generation == (uint32_t)event->payload)
            on_done(sim, &sim->running[event->index]);
        break;
    case EV_CHANGE:
        on_change(sim, &sim->config->changes[event->index]);
        break;
    case EV_STEP:
        on_step(sim, &sim->workload->steps[event->index]);
        break;
    case EV_SECOND:
        on_second(sim);
        break;
    case EV_SWITCH:
        sched_set_policy(sim->sched, sim->now_ns, sim->config->switch_policy, NULL, NULL);
        break;
    }
}

/* One moment: all its events, then one decision. */
static int64_t step(simulation_t *sim, int64_t wake_ns)
{
    int64_t next_ns = events_next_ns(&sim->events);
    sim->now_ns = wake_ns < next_ns ? wake_ns : next_ns;
    while (events_next_ns(&sim->events) == sim->now_ns) {
        event_t event = events_pop(&sim->events);
        dispatch(sim, &event);
    }
    int64_t again_ns = sched_run(sim->sched, sim->now_ns, on_action, sim);
    if (again_ns <= sim->now_ns)
        sim->broken = "the core asks to be called again at once";
    return again_ns;
}

/* Whatever is in no batch at the end was never answered. */
static void count_unanswered(simulation_t *sim)
{
    for (uint32_t m = 0; m < sim->workload->count; m++) {
        const simulation_model_t *entry = &sim->recorder.result->models[m];
        uint64_t ended = entry->good + entry->late;
        for (unsigned r = 0; r < SCHED_DROP_REASONS; r++)
            ended += entry->dropped[r];
        for (; ended < entry->arrived; ended++)
            recorder_unanswered(&sim->recorder, m, sim->recorder.from_ns);
    }
}

static void play(simulation_t *sim)
{
    int64_t wake_ns = 0, give_up_ns = sim->end_ns + (int64_t)DRAIN_S * 1000000000;
    uint64_t steps = 0;
    while (!sim->broken && !sim->recorder.result->gave_up) {
        int64_t next_ns = events_next_ns(&sim->events);
        if (next_ns == INT64_MAX && sim->open == 0)
            break;
        if ((next_ns < wake_ns ? next_ns : wake_ns) > give_up_ns)
            break;
        wake_ns = step(sim, wake_ns);
        if (sim->events.exhausted)
            sim->broken = "no memory for events";
        if (++steps % PROGRESS_EVERY == 0 && sim->config->on_progress)
            sim->config->on_progress(sim->config->ctx, (double)sim->now_ns / (double)sim->end_ns);
    }
}

status_t simulation_run(const simulation_config_t *config, simulation_result_t **result, err_t *err)
{
    simulation_t sim;
    err_t own;
    err = err ? err : &own;
    status_t status = check_config(config, err);
    if (status != STATUS_OK)
        return status;
    status = simulation_init(&sim, config, err);
    if (status == STATUS_OK) {
        play(&sim);
        if (sim.broken)
            status = err_set(err, STATUS_INTERNAL, "at %.6f s: %s", (double)sim.now_ns / 1e9, sim.broken);
    }
    if (status == STATUS_OK) {
        count_unanswered(&sim);
        recorder_finish(&sim.recorder);
        *result = sim.recorder.result;
    }
    simulation_dispose(&sim, status == STATUS_OK);
    return status;
}
