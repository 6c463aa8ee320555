#include "worker/state/breaker.h"

#include "base/clock.h"

/* Fewer may be bad luck: a lost packet on its way again costs 200 ms. */
enum { SILENCES = 3 };
static const int64_t SILENCE_NS = 100 * NS_PER_MS;
/* A gateway that is well again waits at most the longer for its first row; a probe costs one batch the wait for it. */
static const int64_t PAUSE_FIRST_NS = 100 * NS_PER_MS, PAUSE_MOST_NS = 2 * NS_PER_S;

bool breaker_asks(breaker_t *breaker, int64_t now_ns)
{
    if (breaker->state == BREAKER_OPEN && now_ns >= breaker->probe_at_ns) {
        breaker->state = BREAKER_PROBING;
        return true;
    }
    return breaker->state == BREAKER_CLOSED;
}

bool breaker_answered(breaker_t *breaker)
{
    bool closes = breaker->state != BREAKER_CLOSED;

    *breaker = (breaker_t){.state = BREAKER_CLOSED};
    return closes;
}

static void open(breaker_t *breaker, int64_t pause_ns, int64_t now_ns)
{
    breaker->state = BREAKER_OPEN;
    breaker->pause_ns = pause_ns < PAUSE_MOST_NS ? pause_ns : PAUSE_MOST_NS;
    breaker->probe_at_ns = now_ns + breaker->pause_ns;
}

bool breaker_silent(breaker_t *breaker, int64_t asked_ns, int64_t now_ns)
{
    if (breaker->silences++ == 0)
        breaker->silent_since_ns = asked_ns;
    if (breaker->state == BREAKER_PROBING)
        open(breaker, 2 * breaker->pause_ns, now_ns);
    if (breaker->state != BREAKER_CLOSED || breaker->silences < SILENCES ||
        now_ns - breaker->silent_since_ns < SILENCE_NS)
        return false;
    open(breaker, PAUSE_FIRST_NS, now_ns);
    return true;
}

void breaker_nothing(breaker_t *breaker, int64_t now_ns)
{
    if (breaker->state == BREAKER_PROBING)
        open(breaker, breaker->pause_ns, now_ns);
}
