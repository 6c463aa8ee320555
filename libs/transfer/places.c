#include "transfer/places.h"

#include <netinet/in.h>
#include <string.h>

void places_init(places_t *places, uint32_t most)
{
    *places = (places_t){.most = most};
    TAILQ_INIT(&places->staying);
    TAILQ_INIT(&places->leaving);
}

/* Of IPv6 the first 64 bits, which one host may choose its addresses in; an IPv4 address as that, however it is written. */
static bool same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    const struct sockaddr_in6 *a6 = (const struct sockaddr_in6 *)a, *b6 = (const struct sockaddr_in6 *)b;

    if (a->ss_family != b->ss_family)
        return false;
    if (a->ss_family != AF_INET6)
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)b)->sin_addr.s_addr;
    return memcmp(&a6->sin6_addr, &b6->sin6_addr, IN6_IS_ADDR_V4MAPPED(&a6->sin6_addr) ? 16 : 8) == 0;
}

static uint32_t count_of_host(const places_t *places, const struct sockaddr_storage *host)
{
    const place_t *place;
    uint32_t count = 0;

    TAILQ_FOREACH(place, &places->staying, link)
    count += same_host(place->host, host);
    return count;
}

/* host: NULL = of any. */
static place_t *least_needed(const places_t *places, const struct sockaddr_storage *host)
{
    place_t *place, *longest = NULL;

    TAILQ_FOREACH(place, &places->staying, link)
    {
        if (host && !same_host(place->host, host))
            continue;
        if (!place->worked)
            return place;
        if (!longest)
            longest = place;
    }
    return longest;
}

static void move_to_leaving(places_t *places, place_t *place, uint64_t now_ns)
{
    TAILQ_REMOVE(&places->staying, place, link);
    places->staying_count--;
    place->leaving = true;
    place->since_ns = now_ns;
    TAILQ_INSERT_TAIL(&places->leaving, place, link);
    places->leaving_count++;
}

/* One host leaves the others a quarter. */
static uint32_t most_of_host(const places_t *places)
{
    return places->most - places->most / 4;
}

static place_t *make_room(places_t *places, const struct sockaddr_storage *host, uint64_t now_ns)
{
    place_t *goes = NULL;

    if (places->staying_count < most_of_host(places))
        return NULL;
    if (count_of_host(places, host) >= most_of_host(places))
        goes = least_needed(places, host);
    else if (places->staying_count >= places->most)
        goes = least_needed(places, NULL);
    if (goes)
        move_to_leaving(places, goes, now_ns);
    return goes;
}

place_t *places_take(places_t *places, place_t *place, uint64_t now_ns)
{
    place_t *goes = make_room(places, place->host, now_ns);

    place->leaving = false;
    place->since_ns = now_ns;
    TAILQ_INSERT_TAIL(&places->staying, place, link);
    places->staying_count++;
    return goes;
}

place_t *places_worked(places_t *places, place_t *place, uint64_t now_ns)
{
    place->worked = true;
    if (place->leaving) {
        places_give_up(places, place);
        return places_take(places, place, now_ns);
    }
    place->since_ns = now_ns;
    TAILQ_REMOVE(&places->staying, place, link);
    TAILQ_INSERT_TAIL(&places->staying, place, link);
    return NULL;
}

void places_give_up(places_t *places, place_t *place)
{
    TAILQ_REMOVE(place->leaving ? &places->leaving : &places->staying, place, link);
    --*(place->leaving ? &places->leaving_count : &places->staying_count);
}

place_t *places_idle(places_t *places, uint64_t now_ns, uint64_t idle_ns)
{
    place_t *place = TAILQ_FIRST(&places->staying);

    if (!place || now_ns - place->since_ns < idle_ns)
        return NULL;
    move_to_leaving(places, place, now_ns);
    return place;
}

void places_put_off(places_t *places, place_t *place, uint64_t now_ns)
{
    TAILQ_REMOVE(&places->leaving, place, link);
    TAILQ_INSERT_TAIL(&places->leaving, place, link);
    place->since_ns = now_ns;
}

place_t *places_overdue(const places_t *places, uint64_t now_ns, uint64_t grace_ns)
{
    place_t *place = TAILQ_FIRST(&places->leaving);
    bool too_many = places->leaving_count > PLACES_LEAVING_MOST;

    return place && (too_many || now_ns - place->since_ns >= grace_ns) ? place : NULL;
}
