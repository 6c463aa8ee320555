/* Requests of several priorities, more than can be served: whose are refused. */
#include "sched/shed.h"

#include <criterion/criterion.h>

enum { WINDOW = 1000, DEVICES = 4 };

typedef struct {
    uint32_t offered[SHED_LEVELS], admitted[SHED_LEVELS];
} sums_t;

/* A server that loses what is over its capacity, whoever it is of; its devices are busy for so many of WINDOW. Sums over
 * the second half of the windows. */
static sums_t play_busy(shed_t *shed, const uint32_t *offered, uint32_t capacity, int windows, uint32_t busy)
{
    static int64_t now_ns;
    static uint64_t busy_ns;
    sums_t sums = {0};
    for (int w = 0; w < windows; w++) {
        uint32_t admitted = 0;
        for (uint32_t level = 0; level < SHED_LEVELS; level++)
            for (uint32_t i = 0; i < offered[level]; i++) {
                bool in = shed_admits(shed, level);
                admitted += in;
                sums.offered[level] += w >= windows / 2;
                sums.admitted[level] += in && w >= windows / 2;
            }
        for (; admitted > capacity; admitted--)
            shed_note_bad(shed);
        now_ns += WINDOW;
        busy_ns += DEVICES * busy;
        shed_tick(shed, now_ns, DEVICES, busy_ns);
    }
    return sums;
}

static sums_t play(shed_t *shed, const uint32_t *offered, uint32_t capacity, int windows)
{
    return play_busy(shed, offered, capacity, windows, WINDOW);
}

static double part(const sums_t *sums, uint32_t level)
{
    return (double)sums->admitted[level] / sums->offered[level];
}

Test(shed, the_lowest_priority_makes_room)
{
    shed_t shed;
    shed_init(&shed, WINDOW);
    const uint32_t offered[SHED_LEVELS] = {[0] = 500, [3] = 500, [9] = 500};
    sums_t sums = play(&shed, offered, 1200, 60); /* 300 too many */
    cr_expect_eq(sums.admitted[9], sums.offered[9]);
    cr_expect_eq(sums.admitted[3], sums.offered[3]);
    cr_expect(part(&sums, 0) > 0.35 && part(&sums, 0) < 0.65, "%g", part(&sums, 0));
}

Test(shed, then_the_next)
{
    shed_t shed;
    shed_init(&shed, WINDOW);
    const uint32_t offered[SHED_LEVELS] = {[0] = 500, [3] = 500, [9] = 500};
    sums_t sums = play(&shed, offered, 700, 60);
    cr_expect_eq(sums.admitted[9], sums.offered[9]);
    cr_expect(part(&sums, 3) > 0.25 && part(&sums, 3) < 0.75, "%g", part(&sums, 3));
    cr_expect_lt(part(&sums, 0), 0.15, "%g", part(&sums, 0));
}

Test(shed, among_equals_the_policy_chooses)
{
    shed_t shed;
    shed_init(&shed, WINDOW);
    const uint32_t offered[SHED_LEVELS] = {[4] = 1000};
    sums_t sums = play(&shed, offered, 100, 20);
    cr_expect_eq(sums.admitted[4], sums.offered[4]);
}

/* Equals in overload for long, and then somebody who goes first: refused is what is too much, not nearly all. */
Test(shed, one_of_high_priority_does_not_put_out_the_others)
{
    shed_t shed;
    shed_init(&shed, WINDOW);
    const uint32_t equals[SHED_LEVELS] = {[0] = 1000}, first[SHED_LEVELS] = {[0] = 1000, [1] = 10};
    play(&shed, equals, 760, 60);
    cr_expect_float_eq(shed.part, 0.24, 0.001, "%g", shed.part);
    play(&shed, first, 760, 1);
    sums_t sums = play(&shed, first, 760, 2);
    cr_expect_gt(part(&sums, 0), 0.7, "%g", part(&sums, 0));
    cr_expect_eq(sums.admitted[1], sums.offered[1]);
}

Test(shed, the_highest_is_never_refused)
{
    shed_t shed;
    shed_init(&shed, WINDOW);
    const uint32_t offered[SHED_LEVELS] = {[0] = 10, [15] = 1000};
    sums_t sums = play(&shed, offered, 500, 40);
    cr_expect_eq(sums.admitted[15], sums.offered[15]);
    cr_expect_lt(part(&sums, 0), 0.1);
}

Test(shed, it_ends_with_the_overload)
{
    shed_t shed;
    shed_init(&shed, WINDOW);
    const uint32_t much[SHED_LEVELS] = {[0] = 500, [1] = 500}, little[SHED_LEVELS] = {[0] = 50, [1] = 50};
    play(&shed, much, 600, 20);
    cr_expect_gt(shed.part, 0.2);
    sums_t sums = play(&shed, little, 600, 60);
    cr_expect_eq(sums.admitted[0], sums.offered[0]);
    cr_expect_eq(shed.part, 0);
}

Test(shed, priorities_beyond_the_levels_are_the_highest)
{
    shed_t shed;
    shed_init(&shed, WINDOW);
    cr_expect(shed_admits(&shed, UINT32_MAX));
    cr_expect_eq(shed.seen[SHED_LEVELS - 1], 1);
}

Test(shed, nobody_is_refused_while_devices_idle)
{
    shed_t shed;
    shed_init(&shed, WINDOW);
    const uint32_t offered[SHED_LEVELS] = {[0] = 500, [1] = 500};
    sums_t sums = play_busy(&shed, offered, 600, 20, WINDOW / 4);
    cr_expect_eq(sums.admitted[0], sums.offered[0]);
    play(&shed, offered, 600, 20); /* an overload */
    cr_expect_gt(shed.part, 0.2);
    sums = play_busy(&shed, offered, 600, 60, WINDOW / 4); /* and then losses of another kind */
    cr_expect_eq(sums.admitted[0], sums.offered[0]);
}
