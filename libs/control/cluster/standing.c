#include "control/cluster/standing.h"

#include "base/clock.h"

/* One that is struck again soon costs at most one batch in each such time. */
static const int64_t SHUN_FIRST_NS = 2 * NS_PER_S, STANDING_MOST_NS = 60 * NS_PER_S;
/* So long after the last strike it is as good as new. */
static const int64_t FORGET_NS = 120 * NS_PER_S;
/* A trial of which nothing was heard (its rows were cancelled, or preempted) is followed by another one. */
static const int64_t TRIAL_MOST_NS = 10 * NS_PER_S;
/* Of less nothing follows, but in a trial. */
static const double SUSPECT_ROWS = 3;

/* What went well fades quickly, so that one who turns is found out in a fraction of a second; what went ill more slowly, so
 * that it is seen of one who has little to do. */
static const int64_t FADE_NS = NS_PER_S / 4;
static const double WELL_FADES = 0.6,
                    ILL_FADES = 0.93; /* half in 2.4 s: one row a second is enough in the end */
enum { FADES_MOST = 256 };            /* then nothing is left */

static void fade(standing_t *s, int64_t now_ns)
{
    if (now_ns - s->faded_ns < FADE_NS) /* as for all but the first row of a quarter of a second */
        return;
    int64_t times = (now_ns - s->faded_ns) / FADE_NS;
    s->faded_ns += times * FADE_NS;
    for (int64_t i = 0; i < times && i < FADES_MOST; i++) {
        s->well *= WELL_FADES;
        s->ill *= ILL_FADES;
    }
}

void standing_well(standing_t *s, int64_t now_ns, uint32_t rows)
{
    fade(s, now_ns);
    s->well += rows;
}

void standing_prove(standing_t *s, int64_t now_ns)
{
    standing_well(s, now_ns, 1);
    s->proven += s->proven < STANDING_PROVEN;
}

void standing_ill(standing_t *s, int64_t now_ns, ill_t kind, uint32_t rows)
{
    fade(s, now_ns);
    if (kind == ILL_LATE) {
        if (now_ns - s->late_ns < FADE_NS)
            return;
        s->late_ns = now_ns;
        rows = 1;
    }
    s->ill += rows;
    if (kind != ILL_FAILED && kind != ILL_LATE) /* what it says cannot be relied on */
        s->proven = 0;
    if (kind == ILL_MISSED)
        s->well = s->well > rows ? s->well - rows : 0;
    if (s->state != STANDING_SHUNNED)
        s->worst = kind;
}

double standing_ill_part(const standing_t *s)
{
    return s->ill > 0 ? s->ill / (s->ill + s->well) : 0;
}

bool standing_is_suspect(const standing_t *s)
{
    double least = s->state == STANDING_TRIED ? 0 : SUSPECT_ROWS;
    return s->state != STANDING_SHUNNED && s->ill > 0 && s->ill >= least && s->ill >= s->well;
}

bool standing_is_outdone(const standing_t *s, double ill_parts, uint32_t others)
{
    return others > 0 && ill_parts / others <= standing_ill_part(s) / 2;
}

int64_t standing_strike(standing_t *s, int64_t now_ns)
{
    if (now_ns - s->struck_ns > FORGET_NS)
        s->strikes = 0;
    int64_t for_ns = SHUN_FIRST_NS;
    for (uint32_t i = 0; i < s->strikes && for_ns < STANDING_MOST_NS; i++)
        for_ns *= 4;
    for_ns = for_ns < STANDING_MOST_NS ? for_ns : STANDING_MOST_NS;
    s->state = STANDING_SHUNNED;
    s->strikes++;
    s->trials = 0;
    s->well = s->ill = 0;
    s->struck_ns = now_ns;
    s->until_ns = now_ns + for_ns;
    return for_ns;
}

void standing_pardon(standing_t *s)
{
    *s = (standing_t){.strikes = s->strikes, .struck_ns = s->struck_ns, .faded_ns = s->faded_ns};
}

void standing_granted(standing_t *s, int64_t now_ns, int64_t judged_ns)
{
    if (s->state != STANDING_TRIED)
        return;
    if (s->until_ns == 0)
        s->trial_ns = now_ns;
    s->until_ns = judged_ns > s->until_ns ? judged_ns : s->until_ns;
}

/* What it did ill would have struck it meanwhile. */
static bool judge(standing_t *s, int64_t now_ns)
{
    bool heard = s->well > 0;
    if (!heard && now_ns - s->trial_ns < TRIAL_MOST_NS)
        return false;
    s->until_ns = 0;
    s->trials += heard;
    s->well = s->ill = 0;
    if (s->trials == STANDING_TRIALS)
        s->state = STANDING_TRUSTED;
    return true;
}

bool standing_tick(standing_t *s, int64_t now_ns)
{
    if (s->state == STANDING_TRUSTED || s->until_ns == 0 || s->until_ns > now_ns)
        return false;
    if (s->state == STANDING_TRIED)
        return judge(s, now_ns);
    s->state = STANDING_TRIED;
    s->until_ns = 0;
    return true;
}

const char *standing_state_name(standing_state_t state)
{
    static const char *const names[] = {
        [STANDING_TRUSTED] = "trusted", [STANDING_SHUNNED] = "shunned", [STANDING_TRIED] = "tried"};
    return names[state];
}

const char *ill_label(ill_t kind)
{
    static const char *const labels[ILL_KINDS] = {
        [ILL_NOTHING] = "",      [ILL_FAILED] = "failed",   [ILL_ROWS] = "rows",
        [ILL_MISSED] = "missed", [ILL_UNSHOWN] = "unshown", [ILL_LATE] = "late"};
    return labels[kind];
}

const char *ill_text(ill_t kind)
{
    static const char *const names[ILL_KINDS] = {
        [ILL_NOTHING] = "",
        [ILL_FAILED] = "batches failed",
        [ILL_ROWS] = "rows that it failed or gave up ran well elsewhere",
        [ILL_MISSED] = "results that it reported never arrived",
        [ILL_UNSHOWN] = "results that it reported did not arrive, and others' did",
        [ILL_LATE] = "what it ran was late, and others' was not"};
    return names[kind];
}
