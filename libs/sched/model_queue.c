#include "sched/model_queue.h"

void model_queue_init(model_queue_t *queue)
{
    *queue = (model_queue_t){.head = TASK_NONE, .tail = TASK_NONE, .root = TASK_NONE};
}

/* Pairing heap. In it, child is the first child, next the following sibling, and prev the preceding sibling
 * or, for a first child, the parent. A root has neither next nor prev. */

static uint32_t meld(task_pool_t *pool, uint32_t a, uint32_t b)
{
    if (a == TASK_NONE || b == TASK_NONE)
        return a == TASK_NONE ? b : a;
    if (task_comes_before(&pool->slots[b], &pool->slots[a])) {
        uint32_t swap = a;
        a = b;
        b = swap;
    }
    task_slot_t *parent = &pool->slots[a], *child = &pool->slots[b];
    child->next = parent->child;
    child->prev = a;
    if (parent->child != TASK_NONE)
        pool->slots[parent->child].prev = b;
    parent->child = b;
    return a;
}

/* Melds a chain of siblings: in pairs from the left, then the pairs from the right. The pairs wait in a chain
 * through prev, so no recursion and no memory. */
static uint32_t meld_siblings(task_pool_t *pool, uint32_t first)
{
    uint32_t pairs = TASK_NONE;
    while (first != TASK_NONE) {
        uint32_t second = pool->slots[first].next;
        uint32_t rest = second == TASK_NONE ? TASK_NONE : pool->slots[second].next;
        pool->slots[first].next = TASK_NONE;
        if (second != TASK_NONE)
            pool->slots[second].next = TASK_NONE;
        uint32_t pair = meld(pool, first, second);
        pool->slots[pair].prev = pairs;
        pairs = pair;
        first = rest;
    }
    uint32_t root = TASK_NONE;
    while (pairs != TASK_NONE) {
        uint32_t before = pool->slots[pairs].prev;
        root = meld(pool, pairs, root);
        pairs = before;
    }
    if (root != TASK_NONE)
        pool->slots[root].prev = TASK_NONE;
    return root;
}

static void heap_detach(model_queue_t *queue, task_pool_t *pool, uint32_t index)
{
    task_slot_t *slot = &pool->slots[index];
    uint32_t children = meld_siblings(pool, slot->child);
    if (queue->root == index) {
        queue->root = children;
    } else {
        task_slot_t *before = &pool->slots[slot->prev];
        if (before->child == index)
            before->child = slot->next;
        else
            before->next = slot->next;
        if (slot->next != TASK_NONE)
            pool->slots[slot->next].prev = slot->prev;
        queue->root = meld(pool, queue->root, children);
    }
    slot->next = slot->prev = slot->child = TASK_NONE;
}

static void list_detach(model_queue_t *queue, task_pool_t *pool, uint32_t index)
{
    task_slot_t *slot = &pool->slots[index];
    if (slot->prev != TASK_NONE)
        pool->slots[slot->prev].next = slot->next;
    else
        queue->head = slot->next;
    if (slot->next != TASK_NONE)
        pool->slots[slot->next].prev = slot->prev;
    else
        queue->tail = slot->prev;
    slot->next = slot->prev = TASK_NONE;
}

void model_queue_push_heap(model_queue_t *queue, task_pool_t *pool, uint32_t index)
{
    pool->slots[index].state = TASK_IN_HEAP;
    queue->root = meld(pool, queue->root, index);
    queue->len++;
}

void model_queue_remove(model_queue_t *queue, task_pool_t *pool, uint32_t index)
{
    queue->len--;
    if (pool->slots[index].state == TASK_IN_HEAP)
        heap_detach(queue, pool, index);
    else
        list_detach(queue, pool, index);
}

uint32_t model_queue_pop(model_queue_t *queue, task_pool_t *pool)
{
    uint32_t head = model_queue_head(queue, pool);
    if (head != TASK_NONE)
        model_queue_remove(queue, pool, head);
    return head;
}

/* The first `count` of the list, which are cut off it as they hang together. */
static uint32_t list_cut(model_queue_t *queue, task_pool_t *pool, uint32_t count, task_state_t state)
{
    uint32_t first = queue->head, *link = &queue->head;
    for (uint32_t i = 0; i < count; i++) {
        task_slot_t *slot = &pool->slots[*link];
        slot->state = (uint8_t)state;
        link = &slot->next;
    }
    uint32_t rest = *link;
    *link = TASK_NONE;
    queue->head = rest;
    if (rest == TASK_NONE)
        queue->tail = TASK_NONE;
    else
        pool->slots[rest].prev = TASK_NONE;
    queue->len -= count;
    return first;
}

uint32_t model_queue_pop_chain(model_queue_t *queue, task_pool_t *pool, uint32_t count, task_state_t state)
{
    uint32_t first = TASK_NONE, *link = &first;
    for (; count && queue->root != TASK_NONE; count--) {
        *link = model_queue_pop(queue, pool);
        pool->slots[*link].state = (uint8_t)state;
        link = &pool->slots[*link].next;
    }
    if (count)
        *link = list_cut(queue, pool, count, state);
    return first;
}

/* Before `at`, or at the end when that is TASK_NONE. */
static void list_insert(model_queue_t *queue, task_pool_t *pool, uint32_t index, uint32_t at)
{
    task_slot_t *slot = &pool->slots[index];
    slot->state = TASK_IN_ORDER;
    slot->next = at;
    slot->prev = at == TASK_NONE ? queue->tail : pool->slots[at].prev;
    if (slot->prev == TASK_NONE)
        queue->head = index;
    else
        pool->slots[slot->prev].next = index;
    if (at == TASK_NONE)
        queue->tail = index;
    else
        pool->slots[at].prev = index;
}

void model_queue_line_up(model_queue_t *queue, task_pool_t *pool)
{
    uint32_t at = queue->head;
    for (uint32_t root; (root = queue->root) != TASK_NONE;) {
        heap_detach(queue, pool, root);
        while (at != TASK_NONE && task_comes_before(&pool->slots[at], &pool->slots[root]))
            at = pool->slots[at].next;
        list_insert(queue, pool, root, at);
    }
}

/* The heap is walked without recursion: down by child, else right by next, else up by prev. */
static uint32_t heap_another(const task_pool_t *pool, uint32_t at)
{
    if (pool->slots[at].child != TASK_NONE)
        return pool->slots[at].child;
    while (at != TASK_NONE && pool->slots[at].next == TASK_NONE) {
        uint32_t up = pool->slots[at].prev; /* back to the first sibling, then to the parent */
        while (up != TASK_NONE && pool->slots[up].child != at) {
            at = up;
            up = pool->slots[at].prev;
        }
        at = up;
    }
    return at == TASK_NONE ? TASK_NONE : pool->slots[at].next;
}

uint32_t model_queue_another(const model_queue_t *queue, const task_pool_t *pool, uint32_t index)
{
    const task_slot_t *slot = &pool->slots[index];
    if (slot->state == TASK_IN_HEAP)
        return heap_another(pool, index);
    return slot->next != TASK_NONE ? slot->next : queue->root;
}

static const char *validate_heap(const model_queue_t *queue, const task_pool_t *pool, uint32_t model,
                                 uint32_t *count)
{
    for (uint32_t at = queue->root; at != TASK_NONE; at = heap_another(pool, at)) {
        const task_slot_t *slot = &pool->slots[at];
        if (slot->state != TASK_IN_HEAP || slot->model != model)
            return "a slot in the heap of a queue is not of it";
        if (++*count > queue->len)
            return "a queue holds more than its length";
        if (slot->child != TASK_NONE && task_comes_before(&pool->slots[slot->child], slot))
            return "a child in a queue's heap comes before its parent";
    }
    return NULL;
}

const char *model_queue_validate(const model_queue_t *queue, const task_pool_t *pool, uint32_t model)
{
    uint32_t count = 0, before = TASK_NONE;
    for (uint32_t at = queue->head; at != TASK_NONE; before = at, at = pool->slots[at].next) {
        const task_slot_t *slot = &pool->slots[at];
        if (slot->state != TASK_IN_ORDER || slot->model != model || slot->prev != before)
            return "a slot in the list of a queue is not of it";
        if (++count > queue->len)
            return "a queue holds more than its length";
        if (before != TASK_NONE && task_comes_before(slot, &pool->slots[before]))
            return "the list of a queue is out of order";
    }
    if (before != queue->tail)
        return "the tail of a queue is not its last";
    const char *broken = validate_heap(queue, pool, model, &count);
    if (broken)
        return broken;
    return count == queue->len ? NULL : "the length of a queue is not what it holds";
}
