/* Waiting for an event in a test whose loop is its own. */
#ifndef TEST_UNTIL_H
#define TEST_UNTIL_H

#include "base/clock.h"
#include "loop/loop.h"

#include <criterion/criterion.h>

/* Turns the loop until the condition holds; twenty seconds are a hang. */
#define loop_until(loop, condition)                                                   \
    do {                                                                              \
        int64_t until_ns_ = clock_now_ns() + 20 * NS_PER_S;                           \
        while (!(condition) && clock_now_ns() < until_ns_)                            \
            loop_run_once((loop), 2 * NS_PER_MS);                                     \
        cr_assert(condition, "did not happen within twenty seconds: %s", #condition); \
    } while (0)

#endif
