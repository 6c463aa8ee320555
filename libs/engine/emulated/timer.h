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
    void (*fire)(emulated_entry_t *entry); /* on the timer's thread, the entry no longer queued */
    int64_t due_ns;                        /* the timer's, like what follows */
    uint32_t place;                        /* in the heap, counted from 1; 0 = not queued */
};

status_t emulated_timer_acquire(err_t *err);
void emulated_timer_release(void);

/* Queues the entry, or moves it when it is queued. It may be called from fire. Each holder may have one
 * entry queued. */
void emulated_timer_set(emulated_entry_t *entry, int64_t due_ns);

/* Takes it out, and waits for its fire to return. Not from inside fire. */
void emulated_timer_remove(emulated_entry_t *entry);

#endif
