/*
 * One thread for all emulated GPUs of the process: calls back when an entry is due, to about the precision of
 * a futex wait (tens of µs). The thread lives while anyone holds the timer.
 */
#ifndef ENGINE_EMULATED_TIMER_H
#define ENGINE_EMULATED_TIMER_H

#include "base/status.h"

#include <stdint.h>

typedef struct emulated_entry emulated_entry_t;
struct emulated_entry {
    int64_t due_ns;
    void (*fire)(emulated_entry_t *entry); /* on the timer's thread, the entry no longer queued */
    uint32_t place;                        /* in the heap; the timer's */
};

status_t emulated_timer_acquire(err_t *err);
void emulated_timer_release(void);

/* Queues an entry that is not queued. It may be called from fire. Each holder may have one entry queued. */
void emulated_timer_add(emulated_entry_t *entry);

#endif
