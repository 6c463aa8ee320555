/* What each client of a gateway may have: limits of addresses and models, shares of requests and memory. */
#include "gateway/access/clients.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static metrics_t *metrics;
static auth_usages_t *usages;
static clients_t *clients;
static model_entry_t model = {.spec.name = "one"};

static void open_clients(const char *address_limits, const char *model_limits)
{
    const char *const list[] = {model_limits};
    err_t err;
    metrics = metrics_create("gateway", &err);
    cr_assert_eq(auth_usages_create(&usages, &err), STATUS_OK);
    const clients_options_t options = {.metrics = metrics,
                                       .usages = usages,
                                       .address_limits = address_limits,
                                       .model_limits = list,
                                       .model_limits_len = model_limits ? 1 : 0,
                                       .requests_max = 100,
                                       .memory_bytes = 1000};
    cr_assert_eq(clients_create(&options, &clients, &err), STATUS_OK, "%s", err.text);
}

static void close_clients(void)
{
    clients_destroy(clients);
    auth_usages_destroy(usages);
    metrics_destroy(metrics);
}

static status_t enter(const char *peer, client_hold_t *hold)
{
    uint32_t retry_ms;
    err_t err = {0};
    *hold = (client_hold_t){0};
    return clients_enter(clients, NULL, peer, hold, &retry_ms, &err);
}

Test(clients, an_address_has_limits_whatever_its_port)
{
    client_hold_t holds[5];
    open_clients("concurrent=2", NULL);
    cr_expect_eq(enter("1.2.3.4:1", &holds[0]), STATUS_OK);
    cr_expect_eq(enter("1.2.3.4:2", &holds[1]), STATUS_OK);
    cr_expect_eq(enter("1.2.3.4:3", &holds[2]), STATUS_LIMITED);
    cr_expect_eq(enter("1.2.3.5:3", &holds[3]), STATUS_OK);
    clients_leave(clients, &holds[2]);
    clients_answered(&holds[0]);
    cr_expect_eq(enter("1.2.3.4:4", &holds[2]), STATUS_OK, "an answer ends it, before its memory goes");
    for (int i = 0; i < 4; i++)
        clients_leave(clients, &holds[i]);
    close_clients();
}

Test(clients, of_ipv6_the_network_counts)
{
    client_hold_t holds[3];
    open_clients("concurrent=1", NULL);
    cr_expect_eq(enter("[2001:db8:0:1::7]:1", &holds[0]), STATUS_OK);
    cr_expect_eq(enter("[2001:db8:0:1:9:9:9:9]:1", &holds[1]), STATUS_LIMITED);
    cr_expect_eq(enter("[2001:db8:0:2::7]:1", &holds[2]), STATUS_OK);
    for (int i = 0; i < 3; i++)
        clients_leave(clients, &holds[i]);
    close_clients();
}

Test(clients, an_address_is_remembered_while_it_is_away)
{
    client_hold_t hold;
    open_clients("rate=0.001,burst=2", NULL);
    for (int i = 0; i < 3; i++) {
        cr_expect_eq(enter("1.2.3.4:1", &hold), i < 2 ? STATUS_OK : STATUS_LIMITED);
        clients_leave(clients, &hold);
    }
    close_clients();
}

Test(clients, a_model_over_its_limit_is_nobodys_fault)
{
    client_hold_t holds[2];
    uint32_t retry_ms;
    err_t err;
    open_clients(NULL, "one:rate=0.001,burst=1");
    for (int i = 0; i < 2; i++)
        cr_expect_eq(enter("1.2.3.4:1", &holds[i]), STATUS_OK);
    cr_expect_eq(clients_enter_model(clients, &model, &holds[0], &retry_ms, &err), STATUS_OK);
    cr_expect_eq(clients_enter_model(clients, &model, &holds[1], &retry_ms, &err), STATUS_UNAVAILABLE);
    cr_expect(retry_ms > 0 && strstr(err.text, "this model"), "%s", err.text);
    for (int i = 0; i < 2; i++)
        clients_leave(clients, &holds[i]);
    close_clients();
}

/* Enters until it is refused; how many it got. */
static int fill(const char *peer, client_hold_t *holds)
{
    int n = 0;
    while (enter(peer, &holds[n]) == STATUS_OK)
        n++;
    clients_leave(clients, &holds[n]);
    return n;
}

Test(clients, a_full_gateway_is_shared)
{
    client_hold_t flood[128], late[128], one;
    open_clients(NULL, NULL);
    cr_expect_eq(enter("1.1.1.1:1", &one), STATUS_OK);
    int n = fill("2.2.2.2:1", flood);
    cr_expect_eq(n, 74, "while there is another, three quarters: %d", n);
    int m = fill("3.3.3.3:1", late);
    cr_expect(m >= 25 && m <= 33, "what is left, and up to a third of all: %d", m);
    for (int i = 0; i < n; i++)
        clients_leave(clients, &flood[i]);
    for (int i = 0; i < m; i++)
        clients_leave(clients, &late[i]);
    clients_leave(clients, &one);
    n = fill("2.2.2.2:1", flood);
    cr_expect_eq(n, 100, "who is alone has all of it: %d", n);
    for (int i = 0; i < n; i++)
        clients_leave(clients, &flood[i]);
    close_clients();
}

Test(clients, full_memory_is_shared)
{
    client_hold_t flood, other;
    open_clients(NULL, NULL);
    cr_expect_eq(enter("1.1.1.1:1", &flood), STATUS_OK);
    cr_expect_eq(enter("2.2.2.2:1", &other), STATUS_OK);
    cr_expect(clients_take_memory(clients, &flood, 700));
    cr_expect(clients_take_memory(clients, &other, 200), "whoever has nothing gets something");
    cr_expect_not(clients_take_memory(clients, &flood, 50));
    cr_expect(clients_take_memory(clients, &other, 100), "he has less than half of all");
    clients_leave(clients, &flood);
    cr_expect(clients_take_memory(clients, &other, 400), "he is alone");
    clients_leave(clients, &other);
    close_clients();
}

Test(clients, more_than_there_is_room_for_come_and_go)
{
    client_hold_t hold;
    char peer[32];
    open_clients("rate=1000000", NULL);
    for (int i = 0; i < 3 * CLIENTS_MAX; i++) {
        snprintf(peer, sizeof peer, "10.%d.%d.%d:1", i >> 16, i >> 8 & 255, i & 255);
        cr_expect_eq(enter(peer, &hold), STATUS_OK);
        clients_leave(clients, &hold);
    }
    close_clients();
}

Test(clients, wrong_limits_are_told)
{
    err_t err;
    static const char *const wrong[] = {"one", ":rate=1", "one:rate=x", "one:nothing=1"};
    metrics = metrics_create("gateway", &err);
    cr_assert_eq(auth_usages_create(&usages, &err), STATUS_OK);
    for (int i = 0; i < 4; i++) {
        const clients_options_t options = {
            .metrics = metrics, .usages = usages, .model_limits = &wrong[i], .model_limits_len = 1};
        cr_expect_eq(clients_create(&options, &clients, &err), STATUS_INVALID_ARGUMENT, "%s", wrong[i]);
    }
    const clients_options_t options = {.metrics = metrics, .usages = usages, .address_limits = "burst=3"};
    cr_expect_eq(clients_create(&options, &clients, &err), STATUS_INVALID_ARGUMENT);
    auth_usages_destroy(usages);
    metrics_destroy(metrics);
}
