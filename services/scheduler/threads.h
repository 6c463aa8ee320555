/* Scheduling cores on threads of their own (--shards), for the control plane's world. */
#ifndef SCHEDULER_THREADS_H
#define SCHEDULER_THREADS_H

#include "control/cluster/world.h"

status_t threads_make(void *scheduler, const thread_core_t *wish, core_t **core, void **threads, err_t *err);
void threads_release(void *threads);

#endif
