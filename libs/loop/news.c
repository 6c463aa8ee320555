/* How often news come to a loop's mailboxes, by which spin.c decides whether to watch them. */
#include "base/clock.h"
#include "loop/internal.h"

/* News that come four times as far apart as the loop would watch are worth no watch. */
enum { RARE_FACTOR = 4, GAP_WEIGHT = 8 };

void spin_expect_none(spin_t *spin)
{
    spin->gap_ns = LOOP_SPIN_MAX_NS * RARE_FACTOR;
}

void spin_note_news(spin_t *spin)
{
    spin->stats.all++;
    if (spin->spin_ns == 0)
        return;
    int64_t now_ns = clock_now_ns(), gap_ns = now_ns - spin->news_ns;
    gap_ns = gap_ns < LOOP_SPIN_MAX_NS * RARE_FACTOR ? gap_ns : LOOP_SPIN_MAX_NS * RARE_FACTOR;
    spin->gap_ns += (gap_ns - spin->gap_ns) / GAP_WEIGHT;
    spin->news_ns = now_ns;
}

bool spin_is_busy(const spin_t *spin, int64_t now_ns)
{
    return now_ns < spin->news_ns + spin->spin_ns && spin->gap_ns < RARE_FACTOR * spin->spin_ns;
}
