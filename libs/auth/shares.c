#include "auth/shares.h"

#include "base/clock.h"

#include <math.h>
#include <stdlib.h>

#define WINDOW_NS (NS_PER_S / 10)
#define MEMORY_S .2   /* of the rates: a flood is seen within its second window */
#define LOST_PART .01 /* of what ends, given up: beyond it there is too much */
#define TARGET .95    /* of what was served: room for what comes in bunches */
#define GROWTH .005   /* a window; twice that after three seconds without loss, and so on */
#define GROWTH_MOST .2
#define LEAST .5   /* of what was served before anybody was held */
#define PLENTY 4   /* times what is asked for */
#define SLACK 1.25 /* a rate is not known better */
#define FORGET_PER_S .05

typedef struct {
    uint64_t client;
    double weight;
    double asked, served, lost; /* in this window */
    double rate_per_s;
    double credit; /* inferences that it may begin while it is held */
    int64_t credit_ns;
    bool below; /* asks for no more than his share, of which somebody else asks for more */
    bool held;
} share_t;

struct shares {
    int64_t began_ns; /* the window */
    double served_per_s;
    double free_per_s;     /* served_per_s when nobody was held, the last time */
    bool measured;         /* served_per_s is of a whole window */
    double capacity_per_s; /* INFINITY: as much as anybody asks for */
    double growth;         /* of it, a window */
    double level_per_s;    /* for a weight of 1 */
    uint32_t count;
    share_t others; /* all who have no place */
    share_t clients[SHARES_CLIENTS];
};

shares_t *shares_create(int64_t now_ns)
{
    shares_t *made = calloc(1, sizeof *made);

    if (!made)
        return NULL;
    made->began_ns = now_ns;
    made->capacity_per_s = made->level_per_s = INFINITY;
    made->others.weight = 1;
    return made;
}

void shares_destroy(shares_t *shares)
{
    free(shares);
}

/* ---- the end of a window ---- */

static void follow(share_t *share, double part, double window_s)
{
    share->rate_per_s += part * (share->asked / window_s - share->rate_per_s);
    share->asked = share->served = share->lost = 0;
}

static void follow_clients(shares_t *s, double part, double window_s)
{
    follow(&s->others, part, window_s);
    for (uint32_t i = 0; i < s->count;) {
        follow(&s->clients[i], part, window_s);
        if (s->clients[i].rate_per_s < FORGET_PER_S)
            s->clients[i] = s->clients[--s->count];
        else
            i++;
    }
}

static void sum_window(const shares_t *s, double *served, double *below_served, double *below_lost)
{
    *served = s->others.served;
    *below_served = *below_lost = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        *served += s->clients[i].served;
        *below_served += s->clients[i].below ? s->clients[i].served : 0;
        *below_lost += s->clients[i].below ? s->clients[i].lost : 0;
    }
}

/* Before what was asked for in the window is forgotten. */
static void find_capacity(shares_t *s, double part, double window_s)
{
    double served, below_served, below_lost;

    sum_window(s, &served, &below_served, &below_lost);
    s->served_per_s += (s->measured ? part : 1) * (served / window_s - s->served_per_s);
    s->measured = true;
    if (isinf(s->capacity_per_s))
        s->free_per_s = s->served_per_s;
    if (below_lost > LOST_PART * (below_served + below_lost)) {
        s->capacity_per_s = fmax(fmax(TARGET * s->served_per_s, LEAST * s->free_per_s), 1);
        s->growth = GROWTH;
    } else {
        s->capacity_per_s *= 1 + s->growth * window_s * NS_PER_S / WINDOW_NS;
        s->growth = fmin(s->growth * exp2(window_s / 3), GROWTH_MOST);
    }
}

static double asked_per_s(const shares_t *s)
{
    double sum = s->others.rate_per_s;

    for (uint32_t i = 0; i < s->count; i++)
        sum += s->clients[i].rate_per_s;
    return sum;
}

/* What those ask for who are below the level, and the weight of the others. */
static void sum_below(const share_t *share, double level, double *below, double *weight)
{
    if (share->rate_per_s <= share->weight * level)
        *below += share->rate_per_s;
    else
        *weight += share->weight;
}

/* The level rises from what all would have by weight alone, by what those leave who ask for less. INFINITY: nobody asks for more than
 * his share, or nobody for less. */
static double find_level(const shares_t *s, double capacity_per_s)
{
    double level = 0, left = 0;

    for (uint32_t rounds = 0; rounds <= s->count + 1; rounds++) {
        double below = 0, weight = 0;
        sum_below(&s->others, level, &below, &weight);
        for (uint32_t i = 0; i < s->count; i++)
            sum_below(&s->clients[i], level, &below, &weight);
        if (weight == 0)
            return INFINITY;
        double next = (capacity_per_s - below) / weight;
        left = below;
        if (next <= level)
            break;
        level = next;
    }
    return left > 0 ? level : INFINITY;
}

static void judge(share_t *share, double level, bool overloaded)
{
    share->below = !isinf(level) && share->rate_per_s <= share->weight * level;
    share->held = overloaded && share->rate_per_s > SLACK * share->weight * level;
}

static void judge_all(shares_t *s)
{
    bool overloaded = !isinf(s->capacity_per_s);
    double level = find_level(s, overloaded ? s->capacity_per_s : s->served_per_s);

    judge(&s->others, level, overloaded);
    for (uint32_t i = 0; i < s->count; i++)
        judge(&s->clients[i], level, overloaded);
    if (isinf(level))
        s->capacity_per_s = INFINITY;
    s->level_per_s = level;
}

static void end_window(shares_t *s, int64_t now_ns)
{
    double window_s = (double)(now_ns - s->began_ns) / NS_PER_S;

    if (now_ns - s->began_ns < WINDOW_NS)
        return;
    double part = 1 - exp(-window_s / MEMORY_S);
    s->began_ns = now_ns;
    find_capacity(s, part, window_s);
    follow_clients(s, part, window_s);
    if (s->capacity_per_s > PLENTY * asked_per_s(s))
        s->capacity_per_s = INFINITY;
    judge_all(s);
}

/* ---- asking ---- */

static share_t *find(shares_t *s, uint64_t client, int64_t now_ns)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->clients[i].client == client)
            return &s->clients[i];
    if (s->count == SHARES_CLIENTS)
        return &s->others;
    s->clients[s->count] = (share_t){.client = client, .weight = 1, .credit_ns = now_ns};
    return &s->clients[s->count++];
}

static bool take(share_t *share, double rate_per_s, int64_t now_ns)
{
    double passed_s = (double)(now_ns - share->credit_ns) / NS_PER_S;
    double most = fmax(1, rate_per_s * WINDOW_NS / NS_PER_S);

    share->credit_ns = now_ns;
    share->credit = fmin(most, share->credit + passed_s * rate_per_s);
    if (share->credit < 1)
        return false;
    share->credit -= 1;
    return true;
}

bool shares_ask(shares_t *s, uint64_t client, uint32_t weight, int64_t now_ns, uint32_t *retry_after_ms)
{
    end_window(s, now_ns);
    share_t *share = find(s, client, now_ns);
    if (share != &s->others)
        share->weight = weight;
    share->asked += 1;
    double rate_per_s = share->weight * s->level_per_s;
    *retry_after_ms = 0;
    if (!share->held || take(share, rate_per_s, now_ns))
        return true;
    *retry_after_ms = (uint32_t)fmin(fmax(1, ceil((1 - share->credit) / rate_per_s * 1e3)), 60e3);
    return false;
}

void shares_ended(shares_t *s, uint64_t client, bool served, int64_t now_ns)
{
    end_window(s, now_ns);
    share_t *share = find(s, client, now_ns);
    if (served)
        share->served += 1;
    else
        share->lost += 1;
}
