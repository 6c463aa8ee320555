/* The queue of an engine that has no thread of its own: one driver at a time. */
#include "engine/queue/fifo.h"

#include <criterion/criterion.h>

static int done;

static void on_done(engine_job_t *job, status_t status, const err_t *err)
{
    (void)job, (void)status, (void)err;
    done++;
}

Test(fifo, a_queue_that_was_emptied_before_its_driver_came_has_no_second_one)
{
    fifo_t fifo;
    engine_job_t a = {.done = on_done}, b = {.done = on_done};

    fifo_init(&fifo);
    cr_assert(fifo_push(&fifo, &a), "whoever pushed is the driver");
    cr_assert(fifo_cancel(&fifo, &a));
    cr_assert_not(fifo_push(&fifo, &b), "the driver has not come yet");
    cr_assert_eq(fifo_next(&fifo), &b);
    cr_assert_not(fifo_push(&fifo, &a), "it runs");
    cr_assert_eq(fifo_next(&fifo), &a);
    cr_assert_null(fifo_next(&fifo));
    cr_assert(fifo_push(&fifo, &b), "the driver has gone");
    cr_assert_eq(fifo_next(&fifo), &b);
    cr_assert_null(fifo_next(&fifo));
    cr_assert_eq(done, 1);
    fifo_dispose(&fifo);
}
