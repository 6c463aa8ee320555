/* Waiting for an event in a test whose loop is its own. */
#ifndef TEST_UNTIL_H
#define TEST_UNTIL_H

#include "base/clock.h"
#include "loop/loop.h"

#include <criterion/criterion.h>

/* What has not happened after so long never will, on a machine however slow and busy and with any sanitizer. */
#define HANG_NS (100 * NS_PER_S)

/* Turns the loop until the condition holds. */
#define loop_until(loop, condition)                                                      \
    do {                                                                                 \
        int64_t until_ns_ = clock_now_ns() + HANG_NS;                                    \
        while (!(condition) && clock_now_ns() < until_ns_)                               \
            loop_run_once((loop), 2 * NS_PER_MS);                                        \
        cr_assert(condition, "did not happen within a hundred seconds: %s", #condition); \
    } while (0)

#endif
