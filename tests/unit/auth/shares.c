/* Shares of a model that has too much to do, played in virtual time against a server with one queue that gives up what is late. */
#include "auth/shares.h"

#include "base/clock.h"
#include "base/prng.h"

#include <criterion/criterion.h>

#define STEP_NS (NS_PER_MS / 10)

enum { CLIENTS = 10, QUEUE = 1 << 17 };

typedef struct {
    uint32_t client;
    int64_t at_ns;
} waiting_t;

/* What each asks for a second, and what it was served in the whole of the time. */
typedef struct {
    double rate_per_s[CLIENTS];
    uint32_t weight[CLIENTS];
    uint32_t served[CLIENTS], refused[CLIENTS];
} clients_t;

static waiting_t queue[QUEUE];

/* Serves one each ms, in the order of arrival; who would be late after deadline_ns is given up. */
static void play(clients_t *clients, int64_t seconds, int64_t deadline_ns, bool shared)
{
    shares_t *shares = shares_create(1);
    prng_t prng;
    uint32_t head = 0, tail = 0, retry_ms;
    int64_t free_ns = 0;

    prng_init(&prng, 7);
    for (int64_t now_ns = 1; now_ns < seconds * NS_PER_S; now_ns += STEP_NS) {
        for (uint32_t i = 0; i < CLIENTS; i++) {
            if (prng_uniform(&prng) >= clients->rate_per_s[i] * STEP_NS / NS_PER_S)
                continue;
            if (shared && !shares_ask(shares, i + 1, clients->weight[i], now_ns, &retry_ms))
                clients->refused[i]++;
            else
                queue[tail++ % QUEUE] = (waiting_t){i, now_ns};
        }
        for (; head != tail && free_ns <= now_ns; head++) {
            const waiting_t *first = &queue[head % QUEUE];
            bool served = now_ns + NS_PER_MS - first->at_ns <= deadline_ns;
            clients->served[first->client] += served;
            free_ns = served ? now_ns + NS_PER_MS : free_ns;
            shares_ended(shares, first->client + 1, served, now_ns);
        }
    }
    shares_destroy(shares);
}

static clients_t nine_and(double flood_per_s, double each_per_s)
{
    clients_t clients = {0};
    for (uint32_t i = 0; i < CLIENTS; i++) {
        clients.weight[i] = 1;
        clients.rate_per_s[i] = i == 0 ? flood_per_s : each_per_s;
    }
    return clients;
}

static uint32_t of_nine(const clients_t *clients)
{
    uint32_t sum = 0;
    for (uint32_t i = 1; i < CLIENTS; i++)
        sum += clients->served[i];
    return sum;
}

Test(shares, nine_keep_what_they_have_while_one_floods)
{
    /* What is too much shows only when something is given up: with the longer deadline later, so more is lost at first. */
    static const int64_t deadlines_ms[] = {20, 100, 500}, seconds[] = {20, 20, 60};
    for (int i = 0; i < 3; i++) {
        clients_t quiet = nine_and(0, 80), unheld = nine_and(4000, 80), flooded = unheld;
        play(&quiet, seconds[i], deadlines_ms[i] * NS_PER_MS, true);
        play(&unheld, seconds[i], deadlines_ms[i] * NS_PER_MS, false);
        play(&flooded, seconds[i], deadlines_ms[i] * NS_PER_MS, true);
        cr_expect_lt(of_nine(&unheld), .4 * of_nine(&quiet), "without shares the flood has most of it");
        cr_expect_geq(of_nine(&flooded), .95 * of_nine(&quiet), "deadline %d ms: %u of %u",
                      (int)deadlines_ms[i], of_nine(&flooded), of_nine(&quiet));
        cr_expect_geq(flooded.served[0], seconds[i] * 120, "what the nine leave is the flood's, not %u",
                      flooded.served[0]);
    }
}

Test(shares, nobody_is_held_where_there_is_enough)
{
    clients_t clients = nine_and(300, 50);
    play(&clients, 20, 100 * NS_PER_MS, true);
    for (uint32_t i = 0; i < CLIENTS; i++)
        cr_expect_eq(clients.refused[i], 0);
}

Test(shares, shares_are_by_weight)
{
    clients_t clients = {.rate_per_s = {3000, 3000, 100}, .weight = {1, 3, 1, 1, 1, 1, 1, 1, 1, 1}};
    play(&clients, 30, 50 * NS_PER_MS, true);
    double ratio = (double)clients.served[1] / clients.served[0];
    cr_expect(ratio > 2.4 && ratio < 3.4, "%.2f", ratio);
    cr_expect_geq(clients.served[2], .93 * 30 * 100, "%u", clients.served[2]);
}

Test(shares, who_is_alone_is_the_schedulers)
{
    clients_t clients = {.rate_per_s = {3000}, .weight = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}};
    play(&clients, 20, 50 * NS_PER_MS, true);
    cr_expect_eq(clients.refused[0], 0);
    cr_expect_geq(clients.served[0], .99 * 20 * 1000, "%u", clients.served[0]);
}

Test(shares, equal_floods_are_the_schedulers)
{
    clients_t clients = {.rate_per_s = {1500, 1500, 1500}, .weight = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}};
    play(&clients, 20, 50 * NS_PER_MS, true);
    cr_expect_eq(clients.refused[0] + clients.refused[1] + clients.refused[2], 0);
}

Test(shares, a_flood_beside_who_asks_for_little_is_served_nearly_all_there_is)
{
    clients_t clients = {.rate_per_s = {3000, 5}, .weight = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}};
    play(&clients, 30, 100 * NS_PER_MS, true);
    cr_expect_geq(clients.served[0] + clients.served[1], .93 * 30 * 1000, "%u", clients.served[0]);
    cr_expect_geq(clients.served[1], .8 * 30 * 5, "%u", clients.served[1]);
}

Test(shares, a_flood_that_ends_leaves_nobody_held)
{
    shares_t *shares = shares_create(1);
    uint32_t retry_ms, refused = 0;
    int64_t now_ns = 1;
    for (int i = 0; i < 20000;
         i++, now_ns += NS_PER_MS / 10) { /* 10,000 a second, of which each tenth is served, and 100 */
        uint64_t client = i % 100 == 0 ? 2 : 1;
        if (shares_ask(shares, client, 1, now_ns, &retry_ms))
            shares_ended(shares, client, i % 10 == 0 && i % 200 != 0, now_ns);
        else
            cr_expect(++refused && retry_ms > 0 && client == 1);
    }
    cr_expect_gt(refused, 5000);
    for (int i = 0; i < 1000; i++, now_ns += 50 * NS_PER_MS) {
        bool taken = shares_ask(shares, 1, 1, now_ns, &retry_ms);
        cr_expect(taken || i < 400, "20 s later");
        if (taken)
            shares_ended(shares, 1, true, now_ns);
    }
    shares_destroy(shares);
}

Test(shares, more_clients_than_places_have_one_together)
{
    shares_t *shares = shares_create(1);
    uint32_t retry_ms;
    for (uint64_t i = 0; i < 4 * SHARES_CLIENTS; i++)
        cr_expect(shares_ask(shares, i + 1, 1, 2, &retry_ms));
    shares_destroy(shares);
}
