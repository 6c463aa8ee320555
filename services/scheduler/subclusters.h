/*
 * Which sub-clusters there are. Those that the configuration declares exist from the start; a class of
 * devices that none of them is of gets one, named after the class, with its first device.
 */
#ifndef SCHEDULER_SUBCLUSTERS_H
#define SCHEDULER_SUBCLUSTERS_H

#include "base/status.h"

#include <stdint.h>

typedef struct scheduler scheduler_t;
typedef struct subcluster subcluster_t;

status_t subclusters_init(scheduler_t *s, err_t *err); /* those that are declared */
void subclusters_dispose(scheduler_t *s);
subcluster_t *subclusters_find(const scheduler_t *s, const char *name);
/* Where so many devices of a class join: the least full of its share, or one that is made for them. NULL
 * and *err: none. */
subcluster_t *subclusters_for(scheduler_t *s, const char *device_class, uint32_t devices, err_t *err);
const char *subclusters_policy(const scheduler_t *s); /* "various" where they differ */
/* subcluster "": of all, and of those to come. NOT_FOUND: no such; INVALID_ARGUMENT: nothing has changed. UNSUPPORTED: one whose
 * threads cannot run it goes on as it was, and so do those to come; others have taken it. */
status_t subclusters_set_policy(scheduler_t *s, const char *subcluster, const char *policy,
                                const char *params, err_t *err);

#endif
