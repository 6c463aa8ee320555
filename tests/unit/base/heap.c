#include "base/heap.h"

#include "base/prng.h"

#include <criterion/criterion.h>
#include <stdlib.h>

typedef struct {
    int64_t key;
    heap_node_t node;
    char name;
} item_t;

static const char *pop_names(heap_t *heap, char *out)
{
    char *p = out;
    for (heap_node_t *n; (n = heap_pop(heap)) != NULL;)
        *p++ = CONTAINER_OF(n, item_t, node)->name;
    *p = '\0';
    return out;
}

Test(heap, pops_by_key_then_by_tie)
{
    heap_t heap;
    char names[8];
    item_t a = {.name = 'a'}, b = {.name = 'b'}, c = {.name = 'c'}, d = {.name = 'd'};
    cr_assert_eq(heap_init(&heap, 4, NULL), STATUS_OK);
    cr_expect_eq(heap_min_key(&heap), INT64_MAX);
    heap_insert(&heap, &a.node, 5, 2);
    heap_insert(&heap, &b.node, 5, 1);
    heap_insert(&heap, &c.node, -7, 9);
    heap_insert(&heap, &d.node, INT64_MAX, 0);
    cr_expect_not(heap_insert(&heap, &(heap_node_t){0}, 0, 0), "the heap is full");
    cr_expect_str_eq(pop_names(&heap, names), "cbad");
    cr_expect_null(heap_pop(&heap));
    heap_dispose(&heap);
}

Test(heap, moves_and_removes_in_the_middle)
{
    heap_t heap;
    char names[8];
    item_t a = {.name = 'a'}, b = {.name = 'b'}, c = {.name = 'c'};
    heap_init(&heap, 0, NULL);
    cr_expect_not(heap_insert(&heap, &a.node, 1, 0), "no room is reserved");
    cr_assert_eq(heap_reserve(&heap, 3, NULL), STATUS_OK);
    heap_insert(&heap, &a.node, 1, 0);
    heap_insert(&heap, &b.node, 2, 0);
    heap_insert(&heap, &c.node, 3, 0);
    heap_update(&heap, &c.node, 0, 0);
    heap_remove(&heap, &b.node);
    heap_remove(&heap, &b.node);
    cr_expect_not(heap_contains(&b.node));
    cr_expect_str_eq(pop_names(&heap, names), "ca");
    heap_dispose(&heap);
}

static void random_step(heap_t *heap, item_t *items, uint32_t n, prng_t *prng)
{
    item_t *item = &items[prng_below(prng, n)];
    item->key = prng_range(prng, -20, 20);
    uint64_t tie = (uint64_t)(item - items);
    if (!heap_contains(&item->node))
        heap_insert(heap, &item->node, item->key, tie);
    else if (prng_below(prng, 2) == 0)
        heap_update(heap, &item->node, item->key, tie);
    else
        heap_remove(heap, &item->node);
}

Test(heap, keeps_its_order_under_random_use)
{
    enum { ITEMS = 200 };
    static item_t items[ITEMS];
    heap_t heap;
    prng_t prng;
    err_t err = {0};
    prng_init(&prng, 1);
    heap_init(&heap, ITEMS, NULL);
    for (int step = 0; step < 5000; step++) {
        random_step(&heap, items, ITEMS, &prng);
        cr_assert(heap_validate(&heap, &err), "%s", err.text);
    }
    item_t *last = NULL;
    for (heap_node_t *n; (n = heap_pop(&heap)) != NULL;) {
        item_t *item = CONTAINER_OF(n, item_t, node);
        cr_expect(last == NULL || item->key > last->key || (item->key == last->key && item > last),
                  "ties are the places in the array");
        last = item;
    }
    heap_dispose(&heap);
}

Test(heap, validate_sees_a_broken_order)
{
    heap_t heap;
    item_t a = {.name = 'a'}, b = {.name = 'b'};
    err_t err = {0};
    heap_init(&heap, 2, NULL);
    heap_insert(&heap, &a.node, 1, 0);
    heap_insert(&heap, &b.node, 2, 0);
    heap.slots[0].key = 3;
    cr_expect_not(heap_validate(&heap, &err));
    heap_dispose(&heap);
}
