/* What the files of this library share about a loop. */
#ifndef LOOP_INTERNAL_H
#define LOOP_INTERNAL_H

#include "base/heap.h"
#include "loop/loop.h"
#include "loop/spin.h"
#include "loop/timer.h"

#include <pthread.h>
#include <stdatomic.h>

/* All timers of a loop: see timer.c. */
typedef struct {
    heap_t heap;
    uint32_t reserved; /* timers that exist, started or not: the heap has room for all */
    uint64_t starts;   /* the tie among equal times: first started, first fired */
    int fd;
    uv_poll_t poll;
    int64_t armed_at_ns; /* what the timerfd is set to; INT64_MAX: not set */
    loop_timer_t *due;   /* list of this turn's */
} timers_t;

/* See spin.c. */
typedef struct {
    int64_t spin_ns; /* 0: never */
    int64_t news_ns; /* when something came last */
    int64_t gap_ns;  /* between two of those, in the mean */
    mailbox_t *boxes;
    uint64_t looks; /* at all of them */
    uv_prepare_t prepare;
    uv_idle_t idle;
    loop_spin_stats_t stats;
    char apart[64];       /* what follows is read by all who post */
    atomic_bool watching; /* nobody needs to wake the loop */
} spin_t;

struct loop {
    uv_loop_t uv;
    uv_async_t stop;          /* wakes the loop to see `stopping` */
    _Atomic pthread_t thread; /* of the last loop_run or, before it, of loop_create */
    atomic_bool stopping;
    mailbox_t jobs;
    timers_t timers;
    spin_t spin;
};

status_t timers_init(loop_t *loop, err_t *err);
void timers_dispose(loop_t *loop); /* begins to close */
void timers_free(loop_t *loop);    /* after the closing */

status_t spin_init(loop_t *loop, err_t *err);
void spin_dispose(loop_t *loop); /* begins to close */

/* news.c */
void spin_expect_none(spin_t *spin);                   /* as at first */
void spin_note_news(spin_t *spin);                     /* some have come */
bool spin_is_busy(const spin_t *spin, int64_t now_ns); /* it pays to watch for more */

void mailbox_deliver(mailbox_t *box); /* what is there, to its owner */

#endif
