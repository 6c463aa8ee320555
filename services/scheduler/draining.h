/*
 * Models that workers want to unload. A worker that reports UNLOADING still takes grants until it is told
 * that nothing is left for it: at once where another worker has the model, else when no gateway can send more
 * and the queue is empty.
 */
#ifndef SCHEDULER_DRAINING_H
#define SCHEDULER_DRAINING_H

typedef struct scheduler scheduler_t;

void draining_tick(scheduler_t *s); /* releases what is UNLOADING and has no task left */

#endif
