/*
 * Memory that clients of this host share with the gateway (Triton's system shared memory): parts of objects in /dev/shm, which they name. Any thread; one
 * table for all loops of a process.
 *
 * Nothing of them is ever mapped: who has made an object can cut it off under a reader, which then dies of it. Inputs are read and outputs written by
 * calls that fail instead, at the same cost as one copy.
 *
 * The gateway opens nothing for others that they could not open themselves, whoever it runs as: an object is its own user's, or one that everybody
 * may read, and where outputs go write.
 *
 * A region is its owner's: the name of a key, or "" where no keys are wanted. Others do not see it.
 */
#ifndef GATEWAY_REGIONS_H
#define GATEWAY_REGIONS_H

#include "auth/keyring.h"
#include "base/status.h"
#include "metrics/metrics.h"
#include "oip/region.h"

#include <stdbool.h>
#include <sys/uio.h>

typedef struct regions regions_t;
typedef struct region region_t;

enum {
    /* Each has a descriptor. A client needs one or two for each request that it has under way at once. */
    REGIONS_MAX = 256,
    REGIONS_OF_ONE_MAX = 64, /* of one key */
    REGION_NAME_BYTES = 128, /* with its end */
    REGION_KEY_BYTES = 256,
};

status_t regions_create(metrics_t *metrics, regions_t **regions, err_t *err);
void regions_destroy(regions_t *regions); /* no region is held; NULL is fine */

/* Whether whoever calls from there ("127.0.0.1:43210") may use them: UNSUPPORTED where they are not wanted (regions NULL), PERMISSION_DENIED for
 * another host. */
status_t regions_check_peer(const regions_t *regions, const char *peer, err_t *err);

/* Whose regions a client's are; holder NULL: no keys are wanted. */
static inline const char *regions_owner(const keyring_holder_t *holder)
{
    return holder ? keyring_key(holder)->name : "";
}

/*
 * Opens the object at key, "/NAME" or "NAME" in /dev/shm. INVALID_ARGUMENT: the name or the key cannot be one, the object is not there, may not be
 * opened, is no plain file or is shorter than offset and length say; the owner has a region of that name. LIMITED: it has as many as one may have;
 * UNAVAILABLE: as many as there may be are there.
 */
status_t regions_register(regions_t *regions, const char *owner, const oip_region_t *wanted, err_t *err);
/* name "": all of the owner. One that is not there is none, as in Triton. Requests under way keep theirs. */
void regions_unregister(regions_t *regions, const char *owner, const char *name);

/* The owner's region of that name, or all of them for ""; NOT_FOUND. each is called with a lock held. */
typedef void (*regions_each_fn)(const oip_region_t *region, void *arg);
status_t regions_list(regions_t *regions, const char *owner, const char *name, regions_each_fn each,
                      void *arg, err_t *err);

/* That part of the owner's region, which stays until region_put. INVALID_ARGUMENT: no such region, or beyond its end; to_write: it cannot be written to. */
status_t regions_hold(regions_t *regions, const char *owner, const oip_memory_t *part, bool to_write,
                      region_t **region, err_t *err);
void region_put(regions_t *regions, region_t *region);

/* A part that was held. INVALID_ARGUMENT: the object has become shorter meanwhile. */
status_t region_read(const region_t *region, const oip_memory_t *part, void *to, err_t *err);
/* All pieces one behind the other, from the part's beginning; INVALID_ARGUMENT also where they are longer than it. */
status_t region_write(const region_t *region, const oip_memory_t *part, const struct iovec *pieces,
                      uint32_t count, err_t *err);

#endif
