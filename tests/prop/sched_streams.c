/*
 * Seeded random streams of everything that can happen to a scheduling core, against what must always hold: a
 * task is in one place and ends once, no batch is granted that would miss a deadline, no GPU runs two
 * batches, the core asks to be called in the future only, and every structure validates. The same on GPUs
 * that stretch batches and on GPUs with slots: rows that join a batch make neither miss, and what runs side
 * by side keeps at most the whole GPU busy.
 */
#include "base/prng.h"
#include "sched/sched.h"
#include "support/cases.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MODELS = 5, GPUS = 6, TASKS = 400, BATCHES = 64, STEPS = 3000 };

typedef enum { NEW, WAITING, RUNNING, ENDED } life_t;

typedef struct {
    life_t life;
    uint32_t model;
    uint64_t batch_id;
    sched_ref_t ref;
    int64_t deadline_ns;
} life_of_t;

typedef struct {
    bool used, moved; /* moved: the core knows better by now when it ends */
    uint64_t id;
    uint32_t gpu, model, rows;
    uint64_t together;
    int64_t start_ns, finish_ns;
    /* with slots, of the last of those together (leads) */
    uint32_t busy;
    bool leads, lost; /* lost: it was late before another came beside it */
    double left_ns;
    int64_t deadline_ns;
} flight_t;

typedef struct {
    sched_t *sched;
    prng_t prng;
    int64_t now_ns, wake_ns;
    life_of_t *tasks; /* by tag */
    size_t task_count;
    flight_t flights[BATCHES];
    int64_t promised_ns[GPUS];               /* end of what was granted last */
    int64_t shared_ns[GPUS];                 /* what its batches have left is of then */
    bool gpu_up[GPUS], model_up[MODELS + 1]; /* the last: of models that left */
    profile_t profiles[MODELS];
    const char *policy;
    sched_gpu_mode_t mode; /* of all GPUs */
    sched_inside_t inside;
    uint64_t seed;
    uint64_t grants, drops, preempts, stretches, beside;
} world_t;

#define must(world, condition, what)                                           \
    cr_assert(condition, "policy %s, seed %llu, at %lld: %s", (world)->policy, \
              (unsigned long long)(world)->seed, (long long)(world)->now_ns, what)

static bool chance(world_t *world, double p)
{
    return prng_uniform(&world->prng) < p;
}

static uint32_t below(world_t *world, uint32_t bound)
{
    return (uint32_t)prng_below(&world->prng, bound);
}

/* Both end together, by all their deadlines, and nothing was to run behind the batch. */
static void check_stretch(world_t *world, const sched_action_t *action)
{
    flight_t *joined = NULL;
    must(world, world->mode.stretches, "a stretch on a GPU that runs whole batches");
    for (flight_t *flight = world->flights; flight < world->flights + BATCHES; flight++) {
        if (!flight->used || flight->gpu != action->grant.gpu)
            continue;
        bool together = flight->together == action->grant.stretches;
        must(world, together, "rows join a batch with another behind or beside it");
        must(world, flight->model == action->model, "rows join another model's batch");
        joined = flight;
        flight->finish_ns = action->grant.finish_ns;
        flight->leads = false;
        for (size_t i = 0; i < world->task_count; i++) {
            life_of_t *task = &world->tasks[i];
            must(world,
                 task->life != RUNNING || task->batch_id != flight->id ||
                     task->deadline_ns >= flight->finish_ns,
                 "rows that join make the batch miss");
        }
    }
    must(world, joined != NULL, "rows join a batch that does not run");
    world->stretches++;
}

static uint32_t busy_of(const world_t *world, uint32_t rows)
{
    uint32_t busy = world->inside.busy_fixed + world->inside.busy_row * rows;
    return busy && busy < SCHED_WHOLE ? busy : SCHED_WHOLE;
}

static int64_t alone_ns(const world_t *world, const sched_action_t *action)
{
    return action->grant.start_ns - world->now_ns +
           profile_latency_ns(&world->profiles[action->model], action->grant.count);
}

/* What each has left and when they end: all are slowed alike, by the sum of what they keep busy if that is too much. */
static void advance_slots(world_t *world, uint32_t gpu)
{
    uint32_t sum = 0;
    for (const flight_t *flight = world->flights; flight < world->flights + BATCHES; flight++)
        sum += flight->used && flight->gpu == gpu && flight->leads ? flight->busy : 0;
    double slow = sum > SCHED_WHOLE ? (double)sum / SCHED_WHOLE : 1;
    for (flight_t *flight = world->flights; flight < world->flights + BATCHES; flight++) {
        if (flight->used && flight->gpu == gpu)
            flight->left_ns =
                fmax(flight->left_ns - (double)(world->now_ns - world->shared_ns[gpu]) / slow, 0);
    }
    world->shared_ns[gpu] = world->now_ns;
}

static void predict_slots(world_t *world, uint32_t gpu)
{
    double at_ns = (double)world->now_ns, passed_ns = 0;
    bool ended[BATCHES] = {false};
    for (;;) {
        uint32_t sum = 0;
        int next = -1;
        for (int i = 0; i < BATCHES; i++) {
            const flight_t *flight = &world->flights[i];
            if (!flight->used || flight->gpu != gpu || !flight->leads || ended[i])
                continue;
            sum += flight->busy;
            next = next < 0 || flight->left_ns < world->flights[next].left_ns ? i : next;
        }
        if (next < 0)
            return;
        flight_t *flight = &world->flights[next];
        at_ns += (flight->left_ns - passed_ns) * (sum > SCHED_WHOLE ? (double)sum / SCHED_WHOLE : 1);
        passed_ns = flight->left_ns;
        ended[next] = true;
        flight->lost = flight->lost || flight->finish_ns > flight->deadline_ns;
        flight->finish_ns = (int64_t)at_ns;
    }
}

/* Rounding apart, a new batch makes none miss that was to make it before. */
static void check_slots(world_t *world, uint32_t gpu)
{
    uint32_t batches = 0;
    predict_slots(world, gpu);
    for (const flight_t *flight = world->flights; flight < world->flights + BATCHES; flight++) {
        if (!flight->used || flight->gpu != gpu || !flight->leads)
            continue;
        batches++;
        must(world, flight->lost || flight->finish_ns <= flight->deadline_ns + 1000,
             "a batch beside others makes one miss");
    }
    must(world, batches <= world->mode.slots, "more side by side than there are slots");
    world->beside += batches > 1;
}

/* With what it joined it is one from now on. */
static void take_slot(world_t *world, flight_t *flight, const sched_action_t *action)
{
    advance_slots(world, flight->gpu);
    flight->rows = action->grant.count;
    flight->deadline_ns = world->tasks[action->grant.tasks[0].tag].deadline_ns;
    for (const flight_t *other = world->flights; other < world->flights + BATCHES; other++) {
        uint32_t together = other->rows + action->grant.count;
        if (!other->used || other == flight || other->together != flight->together ||
            together <= flight->rows)
            continue;
        flight->rows = together;
        if (other->deadline_ns < flight->deadline_ns)
            flight->deadline_ns = other->deadline_ns;
    }
    flight->leads = true;
    flight->busy = busy_of(world, flight->rows);
    flight->left_ns =
        (double)(action->grant.stretches ? action->grant.finish_ns - world->now_ns : alone_ns(world, action));
    check_slots(world, flight->gpu);
}

static void on_grant(world_t *world, const sched_action_t *action)
{
    uint32_t gpu = action->grant.gpu;
    must(world, gpu < GPUS && world->gpu_up[gpu], "granted to a GPU that is not there");
    must(world, action->grant.count > 0, "an empty batch");
    must(world, action->grant.start_ns >= world->now_ns, "starts in the past");
    if (action->grant.stretches)
        check_stretch(world, action);
    else if (world->mode.slots <= 1)
        must(world, action->grant.start_ns >= world->promised_ns[gpu], "two batches on one GPU");
    world->promised_ns[gpu] = action->grant.finish_ns;
    for (uint32_t i = 0; i < action->grant.count; i++) {
        life_of_t *task = &world->tasks[action->grant.tasks[i].tag];
        must(world, task->life == WAITING, "a task in a batch did not wait");
        must(world, task->model == action->model, "a task in another model's batch");
        must(world, task->deadline_ns >= action->grant.finish_ns, "a batch misses a deadline");
        task->life = RUNNING;
        task->batch_id = action->grant.batch_id;
    }
    flight_t *flight = world->flights;
    while (flight < world->flights + BATCHES && flight->used)
        flight++;
    must(world, flight < world->flights + BATCHES, "more batches in flight than GPUs hold");
    *flight =
        (flight_t){.used = true,
                   .id = action->grant.batch_id,
                   .gpu = gpu,
                   .model = action->model,
                   .together = action->grant.stretches ? action->grant.stretches : action->grant.batch_id,
                   .start_ns = action->grant.start_ns,
                   .finish_ns = action->grant.finish_ns};
    world->grants++;
    if (world->mode.slots > 1)
        take_slot(world, flight, action);
}

static void set_lives(world_t *world, uint64_t batch_id, life_t life)
{
    for (size_t i = 0; i < world->task_count; i++) {
        life_of_t *task = &world->tasks[i];
        if (task->life == RUNNING && task->batch_id == batch_id)
            task->life = life;
    }
}

static void on_preempt(world_t *world, const sched_action_t *action)
{
    for (flight_t *flight = world->flights; flight < world->flights + BATCHES; flight++) {
        if (!flight->used || flight->id != action->preempt.batch_id)
            continue;
        must(world, flight->gpu == action->preempt.gpu, "preempted on another GPU");
        must(world, flight->moved || flight->finish_ns > world->now_ns, "preempted after its end");
        flight->used = false;
        world->promised_ns[flight->gpu] = world->now_ns;
        set_lives(world, flight->id, WAITING);
        world->preempts++;
        return;
    }
    must(world, false, "preempted what does not run");
}

static void on_action(void *ctx, const sched_action_t *action)
{
    world_t *world = ctx;
    switch (action->kind) {
    case SCHED_GRANT:
        on_grant(world, action);
        break;
    case SCHED_DROP:
        must(world, world->tasks[action->drop.task.tag].life == WAITING, "dropped what did not wait");
        world->tasks[action->drop.task.tag].life = ENDED;
        world->drops++;
        break;
    case SCHED_PREEMPT:
        on_preempt(world, action);
        break;
    }
}

static void submit(world_t *world)
{
    uint32_t model = below(world, MODELS);
    life_of_t *task = &world->tasks[world->task_count];
    int64_t budget_ns =
        (int64_t)(prng_uniform(&world->prng) < 0.7 ? 30e6 : 60e6 * prng_uniform(&world->prng));
    sched_task_t asked = {
        .tag = world->task_count, .arrival_ns = world->now_ns, .deadline_ns = world->now_ns + budget_ns};
    status_t status = sched_submit(world->sched, world->now_ns, model, &asked, &task->ref);
    if (status == STATUS_OK) {
        *task =
            (life_of_t){.life = WAITING, .model = model, .ref = task->ref, .deadline_ns = asked.deadline_ns};
        world->task_count++;
    } else {
        must(world, status == (world->model_up[model] ? STATUS_UNAVAILABLE : STATUS_NOT_FOUND),
             "submit fails");
    }
}

static void cancel(world_t *world)
{
    if (world->task_count == 0)
        return;
    life_of_t *task = &world->tasks[below(world, (uint32_t)world->task_count)];
    bool waited = sched_cancel(world->sched, world->now_ns, task->ref);
    must(world, !waited || task->life == WAITING, "cancelled what did not wait");
    if (waited)
        task->life = ENDED;
    else /* a model that left keeps its tasks until the next run tells of them */
        must(world, task->life != WAITING || !world->model_up[task->model], "could not cancel what waits");
}

/* What it was one with goes on as that. */
static void leave_slot(world_t *world, const flight_t *ended)
{
    flight_t *rest = NULL;
    advance_slots(world, ended->gpu);
    for (flight_t *flight = world->flights; flight < world->flights + BATCHES; flight++) {
        if (flight->used && flight != ended && flight->together == ended->together &&
            (!rest || flight->rows > rest->rows))
            rest = flight;
    }
    if (!rest || !ended->leads)
        return;
    rest->leads = true;
    rest->left_ns = ended->left_ns;
    rest->finish_ns = ended->finish_ns;
    rest->lost = ended->lost;
}

static void end_batch(world_t *world, flight_t *flight, int64_t free_ns)
{
    must(world, sched_batch_done(world->sched, world->now_ns, flight->id, free_ns),
         "a running batch is unknown");
    must(world, !sched_batch_done(world->sched, world->now_ns, flight->id, free_ns), "a batch ends twice");
    uint64_t id = flight->id;
    leave_slot(world, flight);
    flight->used = false;
    predict_slots(world, flight->gpu);
    set_lives(world, id, ENDED);
    /* the core may now know better when the GPU's other batches run */
    world->promised_ns[flight->gpu] = INT64_MIN;
    for (flight_t *other = world->flights; other < world->flights + BATCHES; other++) {
        if (!other->used || other->gpu != flight->gpu)
            continue;
        world->promised_ns[flight->gpu] = world->now_ns;
        other->moved = true;
    }
}

/* In the order of their starts on each GPU, at their predicted ends or a little later. */
static void end_due(world_t *world)
{
    for (flight_t *flight = world->flights; flight < world->flights + BATCHES; flight++) {
        bool first = true;
        for (flight_t *other = world->flights; other < world->flights + BATCHES; other++)
            first =
                first && (!other->used || other->gpu != flight->gpu || other->start_ns >= flight->start_ns);
        if (flight->used && first && flight->finish_ns <= world->now_ns && chance(world, 0.8))
            end_batch(world, flight, world->now_ns);
    }
}

static void set_gpu(world_t *world, uint32_t gpu, bool up)
{
    if (world->gpu_up[gpu] == up)
        return;
    world->gpu_up[gpu] = up;
    if (up) {
        cr_assert_eq(sched_add_gpu(world->sched, world->now_ns, gpu, world->now_ns), STATUS_OK);
        cr_assert_eq(sched_set_gpu_mode(world->sched, world->now_ns, gpu, &world->mode), STATUS_OK);
        world->promised_ns[gpu] = world->shared_ns[gpu] = world->now_ns;
        return;
    }
    cr_assert_eq(sched_remove_gpu(world->sched, world->now_ns, gpu), STATUS_OK);
    for (flight_t *flight = world->flights; flight < world->flights + BATCHES; flight++) {
        if (!flight->used || flight->gpu != gpu)
            continue;
        flight->used = false;
        for (size_t i = 0; i < world->task_count; i++) {
            life_of_t *task = &world->tasks[i];
            if (task->life == RUNNING && task->batch_id == flight->id)
                task->life = world->model_up[task->model] ? WAITING : ENDED;
        }
    }
}

static void set_model(world_t *world, uint32_t model, bool up)
{
    profile_t profile;
    err_t err;
    if (world->model_up[model] == up)
        return;
    world->model_up[model] = up;
    if (!up) {
        cr_assert_eq(sched_remove_model(world->sched, world->now_ns, model), STATUS_OK);
        for (size_t i = 0; i < world->task_count; i++) { /* its batches are no more the core's */
            life_of_t *task = &world->tasks[i];
            if (task->life == RUNNING && task->model == model)
                task->model = MODELS;
        }
        return;
    }
    int64_t alpha_ns = prng_range(&world->prng, 0, 4000000), beta_ns = prng_range(&world->prng, 0, 9000000);
    cr_assert_eq(profile_from_line(&profile, alpha_ns, beta_ns, 32, &err), STATUS_OK);
    world->profiles[model] = profile;
    sched_model_opts_t opts = {.slo_ns = 30000000, .exit_points = below(world, 40)};
    cr_assert_eq(sched_add_model(world->sched, world->now_ns, model, &profile, &opts, &err), STATUS_OK, "%s",
                 err.text);
    cr_assert_eq(sched_set_inside(world->sched, world->now_ns, model, &world->inside, &err), STATUS_OK, "%s",
                 err.text);
}

static void disturb(world_t *world)
{
    uint32_t gpu = below(world, GPUS), model = below(world, MODELS);
    sched_delays_t delays = {.ctrl_ns = prng_range(&world->prng, 0, 300000),
                             .data_ns = below(world, 2) * 20000};
    switch (below(world, 7)) {
    case 0:
        set_gpu(world, gpu, !world->gpu_up[gpu]);
        break;
    case 1:
        set_model(world, model, !world->model_up[model]);
        break;
    case 2:
        sched_set_delays(world->sched, world->now_ns, &delays);
        break;
    case 3:
        if (world->gpu_up[gpu] && world->model_up[model])
            sched_allow(world->sched, world->now_ns, model, gpu, chance(world, 0.7));
        break;
    case 4:
        if (chance(world, 0.2))
            sched_drain_gpu(world->sched, world->now_ns, gpu);
        break;
    case 5:
        if (world->model_up[model])
            sched_set_exit_points(world->sched, model, chance(world, 0.5) ? below(world, 40) : 0);
        break;
    default:
        cancel(world);
    }
}

static void decide(world_t *world)
{
    world->wake_ns = sched_run(world->sched, world->now_ns, on_action, world);
    must(world, world->wake_ns > world->now_ns, "asks to be called at once");
    const char *broken = sched_validate(world->sched);
    must(world, broken == NULL, broken);
}

static void step(world_t *world)
{
    int64_t next_ns = world->now_ns + (int64_t)prng_exponential(&world->prng, 1.5e6);
    world->now_ns = next_ns < world->wake_ns ? next_ns : world->wake_ns;
    end_due(world);
    for (uint32_t n = below(world, 4); n > 0 && next_ns == world->now_ns; n--)
        submit(world);
    if (chance(world, 0.02))
        disturb(world);
    if (chance(world, 0.03))
        cancel(world);
    decide(world);
}

static void drain(world_t *world)
{
    for (int i = 0; i < 10000; i++) {
        bool open = false;
        for (size_t t = 0; t < world->task_count; t++)
            open = open || world->tasks[t].life == WAITING || world->tasks[t].life == RUNNING;
        if (!open)
            return;
        world->now_ns = world->wake_ns < world->now_ns + 1000000 ? world->wake_ns : world->now_ns + 1000000;
        end_due(world);
        decide(world);
    }
    must(world, false, "a task has no end");
}

static world_t live(const char *policy, uint64_t seed, sched_gpu_mode_t mode)
{
    world_t world = {.policy = policy, .seed = seed, .mode = mode};
    sched_limits_t limits = {.models_max = MODELS, .gpus_max = GPUS, .tasks_max = TASKS, .batch_max = 24};
    limits.gpu_inflight_max = mode.stretches || mode.slots ? BATCHES / GPUS : 0;
    if (mode.stretches || mode.slots)
        world.inside = (sched_inside_t){.stages = 5,
                                        .until = {100, 150, 400, 900, 1000},
                                        .comp_wait_ns = (int64_t)(seed % 2) * 4000000,
                                        .busy_fixed = 100,
                                        .busy_row = 60};
    err_t err;
    world.tasks = calloc(STEPS * 4, sizeof(*world.tasks));
    world.sched = sched_create(&limits, &err);
    cr_assert_not_null(world.sched, "%s", err.text);
    prng_init(&world.prng, seed);
    cr_assert_eq(sched_set_policy(world.sched, 0, policy, NULL, &err), STATUS_OK, "%s", err.text);
    for (uint32_t m = 0; m < MODELS; m++)
        set_model(&world, m, true);
    for (uint32_t g = 0; g < GPUS - 2; g++)
        set_gpu(&world, g, true);
    decide(&world);
    for (int i = 0; i < STEPS; i++)
        step(&world);
    drain(&world);
    cr_assert_gt(world.grants, 20, "policy %s grants nothing", policy);
    sched_destroy(world.sched);
    free(world.tasks);
    return world;
}

Test(streams, every_policy_keeps_every_promise, .timeout = 300)
{
    for (uint32_t p = 0; sched_policy_name(p); p++) {
        for (uint64_t seed = 1; seed <= CASES(12); seed++)
            live(sched_policy_name(p), seed, (sched_gpu_mode_t){0});
    }
}

/* Not every policy leaves a batch slack in which rows could join: deferral does not. */
static void live_in_mode(sched_gpu_mode_t mode)
{
    uint64_t stretches = 0;
    for (uint32_t p = 0; sched_policy_name(p); p++) {
        uint64_t beside = 0;
        for (uint64_t seed = 1; seed <= CASES(8); seed++) {
            world_t world = live(sched_policy_name(p), seed, mode);
            stretches += world.stretches;
            beside += world.beside;
        }
        cr_expect(mode.slots < 2 || beside > 0, "policy %s never runs two side by side",
                  sched_policy_name(p));
    }
    cr_expect(!mode.stretches || stretches > 100, "nothing is stretched");
}

Test(streams, every_policy_where_batches_are_stretched, .timeout = 300)
{
    live_in_mode((sched_gpu_mode_t){.stretches = true});
}

Test(streams, every_policy_where_gpus_have_slots, .timeout = 300)
{
    live_in_mode((sched_gpu_mode_t){.slots = 3});
}

Test(streams, every_policy_where_both_is_so, .timeout = 300)
{
    live_in_mode((sched_gpu_mode_t){.stretches = true, .slots = 3});
}
