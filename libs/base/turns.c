#include "base/turns.h"

#include "base/container.h"
#include "base/heap.h"
#include "base/map.h"
#include "base/pool.h"

#include <stdlib.h>

typedef TAILQ_HEAD(, turns_item) lane_t;

typedef struct turns_client {
    uint64_t id;
    int64_t charged;
    uint32_t waiting;
    lane_t lanes[TURNS_LANES];
    heap_node_t nodes[TURNS_LANES]; /* in turns->ready while something waits in the lane */
    heap_node_t node;               /* in turns->resting while nothing waits: charged beyond the others */
} turns_client_t;

/*
 * A client is in `ready` of each lane in which it has items, by what it was charged, or in `resting`, or is forgotten. There is one more of
 * them than items, so that there is always one for whoever comes: if all are taken, one rests.
 */
struct turns {
    pool_t clients;
    idmap_t by_id;
    heap_t ready[TURNS_LANES], resting;
    int64_t now; /* what the client had been charged whose turn it was last */
    uint64_t sequence;
    uint32_t waiting, capacity;
};

status_t turns_create(uint32_t capacity, turns_t **turns, err_t *err)
{
    turns_t *made = calloc(1, sizeof *made);
    if (!made)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a queue");
    made->capacity = capacity;
    status_t status = pool_init(&made->clients, sizeof(turns_client_t), capacity + 1, err);
    if (status == STATUS_OK)
        status = idmap_init(&made->by_id, capacity + 1, err);
    for (int lane = 0; lane < TURNS_LANES && status == STATUS_OK; lane++)
        status = heap_init(&made->ready[lane], capacity + 1, err);
    if (status == STATUS_OK)
        status = heap_init(&made->resting, capacity + 1, err);
    if (status != STATUS_OK) {
        turns_destroy(made);
        return status;
    }
    *turns = made;
    return STATUS_OK;
}

void turns_destroy(turns_t *turns)
{
    if (!turns)
        return;
    for (int lane = 0; lane < TURNS_LANES; lane++)
        heap_dispose(&turns->ready[lane]);
    heap_dispose(&turns->resting);
    idmap_dispose(&turns->by_id);
    pool_dispose(&turns->clients);
    free(turns);
}

/* ------------------------------------------------------------------ clients */

static void forget(turns_t *turns, turns_client_t *client)
{
    heap_remove(&turns->resting, &client->node);
    idmap_remove(&turns->by_id, client->id);
    pool_put(&turns->clients, client);
}

static turns_client_t *resting_first(const turns_t *turns)
{
    return CONTAINER_OF(heap_min(&turns->resting), turns_client_t, node);
}

static turns_client_t *find(turns_t *turns, uint64_t id)
{
    turns_client_t *client = idmap_get(&turns->by_id, id);
    if (client)
        return client;
    if (turns->clients.lent == turns->clients.capacity)
        forget(turns, resting_first(turns));
    client = pool_get(&turns->clients);
    *client = (turns_client_t){.id = id, .charged = turns->now};
    for (int lane = 0; lane < TURNS_LANES; lane++)
        TAILQ_INIT(&client->lanes[lane]);
    idmap_put(&turns->by_id, id, client);
    return client;
}

/* After any change of what waits or was charged: it takes its place. The newest goes last among those charged alike. */
static void settle(turns_t *turns, turns_client_t *client)
{
    uint64_t tie = turns->sequence++;
    for (int lane = 0; lane < TURNS_LANES; lane++) {
        heap_remove(&turns->ready[lane], &client->nodes[lane]);
        if (!TAILQ_EMPTY(&client->lanes[lane]))
            heap_insert(&turns->ready[lane], &client->nodes[lane], client->charged, tie);
    }
    heap_remove(&turns->resting, &client->node);
    if (client->waiting > 0)
        return;
    if (client->charged > turns->now)
        heap_insert(&turns->resting, &client->node, client->charged, tie);
    else
        forget(turns, client);
}

/* The others have caught up with them. */
static void advance(turns_t *turns, int64_t now)
{
    if (now > turns->now)
        turns->now = now;
    while (heap_min_key(&turns->resting) <= turns->now)
        forget(turns, resting_first(turns));
}

/* ------------------------------------------------------------------ items */

bool turns_push(turns_t *turns, uint64_t id, turns_lane_t lane, turns_item_t *turn, bool first)
{
    if (turns->waiting == turns->capacity)
        return false;
    turns_client_t *client = find(turns, id);
    bool joins = TAILQ_EMPTY(&client->lanes[lane]);
    turn->of = client;
    turn->lane = lane;
    if (first)
        TAILQ_INSERT_HEAD(&client->lanes[lane], turn, link);
    else
        TAILQ_INSERT_TAIL(&client->lanes[lane], turn, link);
    turns->waiting++;
    client->waiting++;
    if (joins)
        settle(turns, client);
    return true;
}

static void unlink_turn(turns_t *turns, turns_item_t *turn)
{
    TAILQ_REMOVE(&turn->of->lanes[turn->lane], turn, link);
    turn->of->waiting--;
    turn->of = NULL;
    turns->waiting--;
}

static turns_lane_t lane_of_next(const turns_t *turns)
{
    const heap_t *a = &turns->ready[TURNS_SHORT], *b = &turns->ready[TURNS_LONG];
    if (a->len == 0 || b->len == 0)
        return a->len == 0 ? TURNS_LONG : TURNS_SHORT;
    if (a->slots[0].key != b->slots[0].key)
        return a->slots[0].key < b->slots[0].key ? TURNS_SHORT : TURNS_LONG;
    return a->slots[0].tie <= b->slots[0].tie ? TURNS_SHORT : TURNS_LONG;
}

turns_item_t *turns_pop(turns_t *turns, turns_lane_t lane)
{
    if (lane == TURNS_LANES)
        lane = lane_of_next(turns);
    heap_node_t *node = heap_min(&turns->ready[lane]);
    if (!node)
        return NULL;
    turns_client_t *client = CONTAINER_OF(node - lane, turns_client_t, nodes[0]);
    turns_item_t *turn = TAILQ_FIRST(&client->lanes[lane]);
    unlink_turn(turns, turn);
    advance(turns, client->charged);
    settle(turns, client);
    return turn;
}

void turns_remove(turns_t *turns, turns_item_t *turn)
{
    turns_client_t *client = turn->of;
    if (!client)
        return;
    unlink_turn(turns, turn);
    if (TAILQ_EMPTY(&client->lanes[turn->lane]))
        settle(turns, client);
}

void turns_charge(turns_t *turns, uint64_t id, uint64_t cost)
{
    turns_client_t *client = find(turns, id);
    if (__builtin_add_overflow(client->charged, cost, &client->charged))
        client->charged = INT64_MAX;
    settle(turns, client);
}

uint32_t turns_waiting(const turns_t *turns)
{
    return turns->waiting;
}

uint32_t turns_waiting_of(const turns_t *turns, uint64_t id)
{
    const turns_client_t *client = idmap_get(&turns->by_id, id);
    return client ? client->waiting : 0;
}

/* ------------------------------------------------------------------ */

static bool client_validate(const turns_client_t *client, uint32_t *waiting)
{
    uint32_t count = 0;
    const turns_item_t *turn;
    for (int lane = 0; lane < TURNS_LANES; lane++) {
        if (heap_contains(&client->nodes[lane]) == TAILQ_EMPTY(&client->lanes[lane]))
            return false;
        TAILQ_FOREACH(turn, &client->lanes[lane], link)
        {
            if (turn->of != client || turn->lane != (turns_lane_t)lane)
                return false;
            count++;
        }
    }
    *waiting += count;
    return count == client->waiting && heap_contains(&client->node) == (count == 0);
}

bool turns_validate(const turns_t *turns, err_t *err)
{
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < turns->clients.capacity; i++)
        if (pool_is_lent(&turns->clients, i) && !client_validate(pool_at(&turns->clients, i), &waiting)) {
            err_set(err, STATUS_INTERNAL, "client %u stands in the wrong places", i);
            return false;
        }
    if (waiting != turns->waiting || turns->by_id.len != turns->clients.lent) {
        err_set(err, STATUS_INTERNAL, "%u items wait, %u are counted", waiting, turns->waiting);
        return false;
    }
    return heap_validate(&turns->ready[TURNS_SHORT], err) && heap_validate(&turns->ready[TURNS_LONG], err) &&
           heap_validate(&turns->resting, err) && idmap_validate(&turns->by_id, err);
}
