/* A model's queue and the pool of its tasks, against a plain search through what was put in. */
#include "base/prng.h"
#include "sched/model_queue.h"

#include <criterion/criterion.h>

enum { CAPACITY = 64, STEPS = 20000, MODEL = 3 };

typedef struct {
    task_slot_t slots[CAPACITY];
    task_pool_t pool;
    model_queue_t queue;
    prng_t prng;
    int64_t now_ns;
} world_t;

static void start(world_t *world, uint64_t seed)
{
    task_pool_init(&world->pool, world->slots, CAPACITY);
    model_queue_init(&world->queue);
    prng_init(&world->prng, seed);
    world->now_ns = 0;
}

static bool waits(const task_slot_t *slot)
{
    return slot->state == TASK_IN_ORDER || slot->state == TASK_IN_HEAP;
}

static uint32_t earliest(const world_t *world)
{
    uint32_t best = TASK_NONE;
    for (uint32_t i = 0; i < CAPACITY; i++) {
        if (waits(&world->slots[i]) &&
            (best == TASK_NONE || task_comes_before(&world->slots[i], &world->slots[best])))
            best = i;
    }
    return best;
}

/* Most deadlines come in order, one in `disorder` does not. */
static void push(world_t *world, uint64_t disorder)
{
    int64_t early_ns = prng_below(&world->prng, disorder) ? 0 : (int64_t)prng_below(&world->prng, 50);
    sched_task_t task = {.tag = 7, .deadline_ns = world->now_ns++ / 2 - early_ns};
    bool full = world->pool.used == CAPACITY;
    uint32_t index = task_pool_take(&world->pool, MODEL, &task);
    cr_assert_eq(index == TASK_NONE, full);
    if (index != TASK_NONE)
        model_queue_push(&world->queue, &world->pool, index);
}

/* What comes off as a chain is what would come off one by one, and goes back to the pool as a chain. */
static void pop(world_t *world)
{
    uint32_t expected[CAPACITY];
    world_t alone = *world;
    alone.pool.slots = alone.slots;
    uint32_t count = (uint32_t)prng_below(&world->prng, world->queue.len + 1);
    for (uint32_t i = 0; i < count; i++) {
        expected[i] = model_queue_pop(&alone.queue, &alone.pool);
        alone.slots[expected[i]].state = TASK_IN_FLIGHT;
    }
    uint32_t first = model_queue_pop_chain(&world->queue, &world->pool, count, TASK_IN_FLIGHT);
    uint32_t at = first, used = world->pool.used;
    for (uint32_t i = 0; i < count; i++, at = world->slots[at].next) {
        cr_assert_eq(at, expected[i]);
        cr_assert_eq(world->slots[at].state, TASK_IN_FLIGHT);
    }
    cr_assert_eq(at, TASK_NONE);
    if (count == 0)
        return;
    sched_ref_t ref = task_pool_ref(&world->pool, first);
    task_pool_give_chain(&world->pool, first, count);
    cr_assert_eq(world->pool.used, used - count);
    cr_assert_eq(task_pool_take(&world->pool, MODEL, &(sched_task_t){0}), first);
    world->slots[first].state = TASK_IN_FLIGHT;
    cr_assert_eq(task_pool_find(&world->pool, ref), TASK_NONE, "a ref outlives its task");
    task_pool_give(&world->pool, first);
}

static void cancel(world_t *world)
{
    uint32_t index = (uint32_t)prng_below(&world->prng, CAPACITY);
    if (!waits(&world->slots[index]))
        return;
    model_queue_remove(&world->queue, &world->pool, index);
    task_pool_give(&world->pool, index);
}

static void play(uint64_t seed, uint64_t disorder)
{
    world_t world;
    start(&world, seed);
    for (int i = 0; i < STEPS; i++) {
        uint64_t what = prng_below(&world.prng, 40);
        if (what == 0)
            pop(&world);
        else if (what < 4)
            cancel(&world);
        else
            push(&world, disorder);
        const char *broken = model_queue_validate(&world.queue, &world.pool, MODEL);
        cr_assert_null(broken, "step %d: %s", i, broken);
        cr_assert_eq(model_queue_head(&world.queue, &world.pool), earliest(&world));
        cr_assert_eq(world.pool.used, world.queue.len);
    }
}

Test(queue, deadlines_in_order)
{
    play(1, UINT64_MAX);
}

Test(queue, deadlines_in_disorder)
{
    play(2, 1);
    play(3, 3);
    play(4, 30);
}
