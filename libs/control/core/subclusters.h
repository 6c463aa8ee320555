/*
 * Which sub-clusters there are. Those that the configuration declares exist from the start; a class of
 * devices that none of them is of gets one, named after the class, with its first device; those that have
 * neither devices nor models any more go after a minute, and at once where there is no room for one more.
 */
#ifndef CONTROL_CORE_SUBCLUSTERS_H
#define CONTROL_CORE_SUBCLUSTERS_H

#include "control/core/subcluster.h"

/* Shapes of all models whose dimensions vary (models/shapes.h); each is a model of its own to a core. */
enum { SHAPES_MAX = 256 };

typedef struct {
    turn_t *turn;
    subcluster_t *all[SUBCLUSTERS_MAX]; /* the first count of them */
    uint32_t count, device_count;
    /* Of those that are still to come. */
    char policy[SUBCLUSTER_NAME_BYTES], policy_params[POLICY_PARAMS_BYTES];
} subclusters_t;

status_t subclusters_init(subclusters_t *subs, turn_t *turn, err_t *err); /* those that are declared */
void subclusters_dispose(subclusters_t *subs);
/* One that nothing refers to any more. */
void subclusters_remove(subclusters_t *subs, uint32_t index);
subcluster_t *subclusters_find(const subclusters_t *subs, const char *name);
/* Where so many devices of a class join: the least full of its share, or one that is made for them. NULL
 * and *err: none. */
subcluster_t *subclusters_for(subclusters_t *subs, const char *device_class, uint32_t devices, err_t *err);
const char *subclusters_policy(const subclusters_t *subs); /* "various" where they differ */
/* subcluster "": of all, and of those to come. NOT_FOUND: no such; INVALID_ARGUMENT: nothing has changed. UNSUPPORTED:
 * one whose threads cannot run it goes on as it was, and so do those to come; others have taken it. */
status_t subclusters_set_policy(subclusters_t *subs, const char *subcluster, const char *policy,
                                const char *params, err_t *err);

#endif
