#include "base/turns.h"

#include "base/container.h"
#include "base/prng.h"

#include <criterion/criterion.h>
#include <string.h>

typedef struct {
    turns_item_t turn;
    char client;
    uint64_t cost;
} item_t;

enum { CAPACITY = 64 };

static turns_t *turns;
static item_t items[CAPACITY];
static uint32_t used;
static err_t err;

static void setup(void)
{
    used = 0;
    memset(items, 0, sizeof items);
    cr_assert_eq(turns_create(CAPACITY, &turns, &err), STATUS_OK, "%s", err.text);
}

static void teardown(void)
{
    turns_destroy(turns);
}

TestSuite(turns, .init = setup, .fini = teardown);

static item_t *bring(char client, turns_lane_t lane, uint64_t cost)
{
    item_t *item = &items[used++];
    *item = (item_t){.client = client, .cost = cost};
    cr_assert(turns_push(turns, (uint64_t)client, lane, &item->turn, false));
    cr_assert(turns_validate(turns, &err), "%s", err.text);
    return item;
}

static void bring_each(const char *clients, turns_lane_t lane, uint64_t cost)
{
    for (; *clients; clients++)
        bring(*clients, lane, cost);
}

/* Who comes, one after the other, each charged when it is his turn. */
static const char *run(turns_lane_t lane, size_t most)
{
    static char order[CAPACITY + 1];
    size_t count = 0;
    turns_item_t *turn;
    while (count < most && (turn = turns_pop(turns, lane))) {
        const item_t *item = CONTAINER_OF(turn, item_t, turn);
        order[count++] = item->client;
        turns_charge(turns, (uint64_t)item->client, item->cost);
        cr_assert(turns_validate(turns, &err), "%s", err.text);
    }
    order[count] = '\0';
    return order;
}

Test(turns, one_client_is_served_in_order)
{
    for (uint64_t i = 0; i < 5; i++)
        bring('A', TURNS_SHORT, i);
    for (uint32_t i = 0; i < 5; i++)
        cr_assert_eq(turns_pop(turns, TURNS_LANES), &items[i].turn);
    cr_assert_null(turns_pop(turns, TURNS_LANES));
}

Test(turns, clients_come_in_turns_whoever_came_first)
{
    bring_each("AAAAAABBC", TURNS_SHORT, 1);
    cr_expect_str_eq(run(TURNS_LANES, CAPACITY), "ABCABAAAA");
}

Test(turns, what_costs_more_comes_more_rarely)
{
    bring_each("AAA", TURNS_SHORT, 3);
    bring_each("BBBBBBBBB", TURNS_SHORT, 1);
    cr_expect_str_eq(run(TURNS_LANES, CAPACITY), "ABBBABBBABBB");
}

Test(turns, who_comes_later_starts_where_the_others_are)
{
    bring_each("AAAAAAAA", TURNS_SHORT, 10);
    cr_expect_str_eq(run(TURNS_LANES, 4), "AAAA");
    bring_each("BBBB", TURNS_SHORT, 10);
    cr_expect_str_eq(run(TURNS_LANES, CAPACITY), "BABABABA");
}

Test(turns, who_goes_away_keeps_what_he_was_charged)
{
    bring_each("A", TURNS_SHORT, 4);
    bring_each("BBBBBBBB", TURNS_SHORT, 1);
    cr_expect_str_eq(run(TURNS_LANES, 3), "ABB");
    bring_each("A", TURNS_SHORT, 4); /* one at a time is no way round it */
    cr_expect_str_eq(run(TURNS_LANES, CAPACITY), "BBABBBB");
}

Test(turns, short_items_pass_long_ones_of_the_same_client)
{
    bring_each("AAB", TURNS_LONG, 100);
    bring_each("ACC", TURNS_SHORT, 1);
    cr_expect_str_eq(run(TURNS_SHORT, CAPACITY), "ACC");
    cr_expect_str_eq(run(TURNS_LONG, CAPACITY), "BAA");
}

Test(turns, both_lanes_are_one_account)
{
    bring_each("AA", TURNS_LONG, 4);
    bring_each("BB", TURNS_SHORT, 4);
    bring_each("AA", TURNS_SHORT, 4);
    cr_expect_str_eq(run(TURNS_LANES, CAPACITY), "BABAAA");
}

Test(turns, an_item_goes_back_before_the_others)
{
    item_t *a = bring('A', TURNS_SHORT, 1);
    bring('A', TURNS_SHORT, 1);
    cr_assert_eq(turns_pop(turns, TURNS_SHORT), &a->turn);
    cr_assert_not(turns_waits(&a->turn));
    cr_assert(turns_push(turns, 'A', TURNS_SHORT, &a->turn, true));
    cr_assert_eq(turns_pop(turns, TURNS_SHORT), &a->turn);
}

Test(turns, what_is_removed_does_not_come)
{
    bring_each("ABA", TURNS_SHORT, 1);
    turns_remove(turns, &items[1].turn);
    turns_remove(turns, &items[1].turn);
    turns_remove(turns, &items[0].turn);
    cr_assert_eq(turns_waiting(turns), 1);
    cr_assert_eq(turns_waiting_of(turns, 'A'), 1);
    cr_assert_eq(turns_waiting_of(turns, 'B'), 0);
    cr_expect_str_eq(run(TURNS_LANES, CAPACITY), "A");
}

Test(turns, more_than_there_is_room_for_is_refused)
{
    turns_item_t extra = {0};
    for (uint32_t i = 0; i < CAPACITY; i++)
        bring((char)i, TURNS_SHORT, 1);
    cr_assert_not(turns_push(turns, 200, TURNS_SHORT, &extra, false));
    cr_assert_not(turns_waits(&extra));
}

/* Clients without number, each charged and gone: their accounts must not outlast the room for them. */
Test(turns, accounts_of_those_who_went_are_given_up)
{
    bring_each("AA", TURNS_SHORT, 0);
    for (uint64_t client = 1000; client < 1000 + 4 * CAPACITY; client++)
        turns_charge(turns, client, client);
    cr_assert(turns_validate(turns, &err), "%s", err.text);
    cr_expect_str_eq(run(TURNS_LANES, CAPACITY), "AA");
}

/* What A and B bring is random; what each has had done differs by no more than two items, all the while both wait. */
Test(turns, random_costs_are_shared_evenly)
{
    prng_t random;
    uint64_t done[2] = {0, 0};
    prng_init(&random, 7);
    bring_each("AB", TURNS_SHORT, 50);
    for (int i = 0; i < 20000; i++) {
        item_t *item = CONTAINER_OF(turns_pop(turns, TURNS_LANES), item_t, turn);
        int who = item->client - 'A';
        turns_charge(turns, (uint64_t)item->client, item->cost);
        done[who] += item->cost;
        cr_assert_lt(done[who], done[!who] + 200, "after %d: %llu and %llu", i, (unsigned long long)done[0],
                     (unsigned long long)done[1]);
        item->cost = 1 + prng_below(&random, who ? 100 : 10);
        turns_push(turns, (uint64_t)item->client, TURNS_SHORT, &item->turn, false);
    }
}
