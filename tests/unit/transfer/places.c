/* Who goes when there is no room: a table of what comes and works, and who is told to leave for it. */
#include "transfer/places.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <string.h>

enum { MOST = 4 }; /* three of them one host's */

static places_t places;
static place_t all[128];
static struct sockaddr_storage hosts[128];
static uint64_t now_ns;

static void at(struct sockaddr_storage *host, const char *address)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)host;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)host;

    *host = (struct sockaddr_storage){.ss_family = strchr(address, ':') ? AF_INET6 : AF_INET};
    void *to = host->ss_family == AF_INET6 ? (void *)&v6->sin6_addr : (void *)&v4->sin_addr;
    cr_assert_eq(inet_pton(host->ss_family, address, to), 1);
}

/* The index of who goes; -1: nobody. */
static int index_of(const place_t *place)
{
    return place ? (int)(place - all) : -1;
}

static int comes(int i, const char *address)
{
    at(&hosts[i], address);
    all[i] = (place_t){.host = &hosts[i]};
    return index_of(places_take(&places, &all[i], ++now_ns));
}

static int works(int i)
{
    return index_of(places_worked(&places, &all[i], ++now_ns));
}

static void fill(void)
{
    static const char *const from[MOST] = {"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"};

    places_init(&places, MOST);
    for (int i = 0; i < MOST; i++)
        cr_assert_eq(comes(i, from[i]), -1);
}

Test(places, those_that_never_worked_go_first_the_oldest_of_them)
{
    fill();
    works(0);
    works(2);
    cr_assert_eq(comes(4, "10.0.0.5"), 1);
    cr_assert_eq(comes(5, "10.0.0.6"), 3);
    cr_assert_eq(comes(6, "10.0.0.7"), 4);
}

Test(places, then_the_one_that_has_not_worked_for_the_longest)
{
    fill();
    for (int i = 0; i < MOST; i++)
        works(i);
    works(0);
    cr_assert_eq(comes(4, "10.0.0.5"), 1);
    works(4);
    cr_assert_eq(comes(5, "10.0.0.6"), 2);
}

Test(places, a_host_that_has_its_part_loses_its_own)
{
    places_init(&places, MOST);
    cr_assert_eq(comes(0, "10.0.0.1"), -1);
    for (int i = 1; i < 4; i++)
        cr_assert_eq(comes(i, "10.0.0.9"), -1);
    for (int i = 1; i < 4; i++)
        works(i);
    cr_assert_eq(comes(4, "10.0.0.9"), 1, "and not the other host's, which never worked");
    cr_assert_eq(comes(5, "10.0.0.2"), 0);
}

Test(places, an_address_of_the_same_first_half_is_the_same_host)
{
    places_init(&places, MOST);
    cr_assert_eq(comes(0, "2001:db8::1"), -1);
    cr_assert_eq(comes(1, "2001:db8::2"), -1);
    cr_assert_eq(comes(2, "2001:db8::3"), -1);
    cr_assert_eq(comes(3, "2001:db8::4"), 0);
    places_init(&places, MOST);
    cr_assert_eq(comes(0, "::ffff:10.0.0.1"), -1);
    cr_assert_eq(comes(1, "::ffff:10.0.0.2"), -1);
    cr_assert_eq(comes(2, "::ffff:10.0.0.3"), -1);
    cr_assert_eq(comes(3, "::ffff:10.0.0.4"), -1);
}

Test(places, one_that_works_again_gets_its_place_back_and_another_leaves)
{
    fill();
    cr_assert_eq(comes(4, "10.0.0.5"), 0);
    cr_assert_eq(works(0), 1);
    cr_assert_not(all[0].leaving);
    cr_assert_eq(places.staying_count, MOST);
    cr_assert_eq(places.leaving_count, 1);
    places_give_up(&places, &all[1]);
    places_give_up(&places, &all[2]);
    cr_assert_eq(comes(5, "10.0.0.6"), -1);
}

Test(places, idle_ones_are_found_in_the_order_of_their_last_work)
{
    fill();
    works(0);
    cr_assert_eq(index_of(places_idle(&places, now_ns + 9, 11)), 1);
    cr_assert_eq(index_of(places_idle(&places, now_ns + 9, 11)), 2);
    cr_assert_eq(index_of(places_idle(&places, now_ns + 9, 11)), -1);
}

Test(places, who_leaves_has_a_grace_unless_too_many_do)
{
    fill();
    cr_assert_eq(comes(4, "10.0.0.5"), 0);
    cr_assert_eq(index_of(places_overdue(&places, now_ns + 9, 10)), -1);
    cr_assert_eq(index_of(places_overdue(&places, now_ns + 10, 10)), 0);
    places_put_off(&places, &all[0], now_ns + 10);
    cr_assert_eq(index_of(places_overdue(&places, now_ns + 19, 10)), -1);
    places_give_up(&places, &all[0]);
    for (int i = 5; i < 5 + PLACES_LEAVING_MOST; i++)
        comes(i, "10.0.0.6");
    cr_assert_eq(index_of(places_overdue(&places, now_ns, UINT64_MAX)), -1);
    comes(5 + PLACES_LEAVING_MOST, "10.0.0.6");
    cr_assert_eq(index_of(places_overdue(&places, now_ns, UINT64_MAX)), 1);
}
