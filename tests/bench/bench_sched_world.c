#include "bench_sched_world.h"

#include "base/clock.h"
#include "base/prng.h"

#include <math.h>
#include <stdlib.h>

enum { BATCHES_PER_GPU = 3 }; /* two in flight, and one that has ended but was not yet told */

static void draw(world_t *world)
{
    prng_t prng;
    prng_init(&prng, world->params.seed);
    double mean_q8 = 256e9 / world->params.rate;
    for (uint32_t i = 0; i < WORLD_DRAWS; i++) {
        world->gap_q8[i] = (uint32_t)fmin(prng_exponential(&prng, mean_q8), 4e9);
        world->model[i] = (uint16_t)(world->params.first_model +
                                     world->params.stride * prng_below(&prng, world->params.models));
    }
}

status_t world_init(world_t *world, const world_params_t *params, int64_t begin_ns, int64_t counted_from_ns,
                    err_t *err)
{
    uint32_t batches = params->gpus * BATCHES_PER_GPU;
    *world = (world_t){.params = *params, .begin_ns = begin_ns, .counted_from_ns = counted_from_ns};
    world->gap_q8 = malloc(WORLD_DRAWS * sizeof *world->gap_q8);
    world->model = malloc(WORLD_DRAWS * sizeof *world->model);
    world->gpu_free_ns = calloc(params->gpus, sizeof *world->gpu_free_ns);
    world->batches = calloc(batches, sizeof *world->batches);
    if (!world->gap_q8 || !world->model || !world->gpu_free_ns || !world->batches ||
        heap_init(&world->ends, batches, err) != STATUS_OK) {
        world_dispose(world);
        return err_set(err, STATUS_NO_MEMORY, "no memory for the emulated cluster");
    }
    for (uint32_t b = 0; b < batches; b++)
        world->batches[b].next = b + 1;
    draw(world);
    return STATUS_OK;
}

void world_dispose(world_t *world)
{
    heap_dispose(&world->ends);
    free(world->batches);
    free(world->gpu_free_ns);
    free(world->model);
    free(world->gap_q8);
    *world = (world_t){0};
}

bool world_next_request(world_t *world, int64_t now_ns, uint32_t *model, sched_task_t *task)
{
    int64_t at_ns = world->begin_ns + (int64_t)(world->next_q8 >> 8);
    if (at_ns > now_ns)
        return false;
    uint32_t i = world->draw++ % WORLD_DRAWS;
    world->next_q8 += world->gap_q8[i];
    *model = world->model[i];
    *task =
        (sched_task_t){.tag = world->sent, .arrival_ns = at_ns, .deadline_ns = at_ns + world->params.slo_ns};
    world->sent++;
    world->counted += at_ns >= world->counted_from_ns;
    return true;
}

int64_t world_lag_ns(const world_t *world, int64_t now_ns)
{
    int64_t at_ns = world->begin_ns + (int64_t)(world->next_q8 >> 8);
    return at_ns < now_ns ? now_ns - at_ns : 0;
}

static uint32_t count_late(const world_t *world, const sched_action_t *action, int64_t end_ns)
{
    uint32_t late = 0;
    const sched_task_t *tasks = action->grant.tasks; /* earliest deadline first */
    while (late < action->grant.count && tasks[late].deadline_ns < end_ns &&
           tasks[late].arrival_ns >= world->counted_from_ns)
        late++;
    return late;
}

static void run_batch(world_t *world, int64_t now_ns, const sched_action_t *action)
{
    int64_t *free_ns = &world->gpu_free_ns[action->grant.gpu];
    int64_t start_ns = action->grant.start_ns;
    start_ns = start_ns < now_ns ? now_ns : start_ns;
    start_ns = start_ns < *free_ns ? *free_ns : start_ns;
    *free_ns = start_ns + action->grant.finish_ns - action->grant.start_ns;
    world_batch_t *batch = &world->batches[world->free_batch];
    world->free_batch = batch->next;
    batch->batch_id = action->grant.batch_id;
    heap_insert(&world->ends, &batch->node, *free_ns, action->grant.gpu);
    world->bad += count_late(world, action, *free_ns);
    world->granted += action->grant.count;
    world->batch_count++;
}

void world_on_action(world_t *world, int64_t now_ns, const sched_action_t *action)
{
    if (action->kind == SCHED_GRANT)
        run_batch(world, now_ns, action);
    else if (action->kind == SCHED_DROP)
        world->bad += action->drop.task.arrival_ns >= world->counted_from_ns;
}

void world_on_refused(world_t *world, const sched_task_t *task)
{
    world->refused++;
    world->bad += task->arrival_ns >= world->counted_from_ns;
}

bool world_next_end(world_t *world, int64_t now_ns, uint64_t *batch_id, int64_t *free_ns)
{
    if (heap_min_key(&world->ends) > now_ns)
        return false;
    *free_ns = heap_min_key(&world->ends);
    world_batch_t *batch = CONTAINER_OF(heap_pop(&world->ends), world_batch_t, node);
    *batch_id = batch->batch_id;
    batch->next = world->free_batch;
    world->free_batch = (uint32_t)(batch - world->batches);
    return true;
}
