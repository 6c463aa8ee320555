#include "shards/waiter.h"

#include "base/clock.h"

#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SLEEPS = 1, WAKE_UP = 2 };

/* Going to sleep and being woken costs both sides some 10 µs, so spinning longer than that never pays twice over. */
#define SPIN_NS (20 * NS_PER_US)

/* A sleep ends up to this late in a virtual machine, so the last bit before a time that is known is spun away. */
#define EARLY_NS (60 * NS_PER_US)

void waiter_use_exact_timers(void)
{
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
}

void waiter_wake(waiter_t *waiter)
{
    uint32_t old = atomic_fetch_add_explicit(&waiter->word, WAKE_UP, memory_order_acq_rel);
    if (old & SLEEPS)
        (void)syscall(SYS_futex, (uint32_t *)&waiter->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void waiter_note_work(waiter_t *waiter, int64_t now_ns)
{
    waiter->busy_ns = now_ns;
}

bool waiter_may_sleep(const waiter_t *waiter, int64_t now_ns)
{
    return now_ns - waiter->busy_ns >= SPIN_NS;
}

void waiter_prepare(waiter_t *waiter)
{
    waiter->seen = atomic_fetch_or_explicit(&waiter->word, SLEEPS, memory_order_acq_rel) | SLEEPS;
}

void waiter_cancel(waiter_t *waiter)
{
    atomic_fetch_and_explicit(&waiter->word, ~(uint32_t)SLEEPS, memory_order_acq_rel);
}

void waiter_sleep(waiter_t *waiter, int64_t until_ns)
{
    int64_t early_ns = until_ns == INT64_MAX ? INT64_MAX : until_ns - EARLY_NS;
    struct timespec until = {.tv_sec = early_ns / NS_PER_S, .tv_nsec = early_ns % NS_PER_S};
    if (early_ns > clock_now_ns())
        (void)syscall(SYS_futex, (uint32_t *)&waiter->word, FUTEX_WAIT_BITSET_PRIVATE, waiter->seen,
                      until_ns == INT64_MAX ? NULL : &until, NULL, FUTEX_BITSET_MATCH_ANY);
    waiter_cancel(waiter);
}
