#include "auth/usages.h"

#include "base/container.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

enum { BUCKETS = 1024 }; /* for AUTH_KEYS_MAX keys some four in each */

typedef struct shared {
    auth_usage_t usage;
    LIST_ENTRY(shared) link;
    uint8_t hash[AUTH_HASH_BYTES];
    uint32_t holders;
} shared_t;

struct auth_usages {
    pthread_mutex_t lock;
    LIST_HEAD(, shared) buckets[BUCKETS];
};

status_t auth_usages_create(auth_usages_t **usages, err_t *err)
{
    auth_usages_t *made = calloc(1, sizeof *made);

    if (!made)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the limits of keys");
    pthread_mutex_init(&made->lock, NULL);
    *usages = made;
    return STATUS_OK;
}

void auth_usages_destroy(auth_usages_t *usages)
{
    if (!usages)
        return;
    pthread_mutex_destroy(&usages->lock);
    free(usages);
}

static shared_t *find(const auth_usages_t *usages, uint32_t bucket, const uint8_t hash[AUTH_HASH_BYTES])
{
    shared_t *shared;

    LIST_FOREACH(shared, &usages->buckets[bucket], link)
    {
        if (memcmp(shared->hash, hash, AUTH_HASH_BYTES) == 0)
            return shared;
    }
    return NULL;
}

static shared_t *make(auth_usages_t *usages, uint32_t bucket, const uint8_t hash[AUTH_HASH_BYTES])
{
    shared_t *made = aligned_alloc(_Alignof(shared_t), sizeof *made);

    if (!made)
        return NULL;
    memset(made, 0, sizeof *made);
    memcpy(made->hash, hash, AUTH_HASH_BYTES);
    LIST_INSERT_HEAD(&usages->buckets[bucket], made, link);
    return made;
}

auth_usage_t *auth_usages_get(auth_usages_t *usages, const uint8_t hash[AUTH_HASH_BYTES])
{
    uint32_t bucket;

    memcpy(&bucket, hash, sizeof bucket);
    bucket %= BUCKETS;
    pthread_mutex_lock(&usages->lock);
    shared_t *shared = find(usages, bucket, hash);
    if (!shared)
        shared = make(usages, bucket, hash);
    if (shared)
        shared->holders++;
    pthread_mutex_unlock(&usages->lock);
    return shared ? &shared->usage : NULL;
}

void auth_usages_put(auth_usages_t *usages, auth_usage_t *usage)
{
    shared_t *shared = CONTAINER_OF(usage, shared_t, usage);

    pthread_mutex_lock(&usages->lock);
    if (--shared->holders == 0) {
        LIST_REMOVE(shared, link);
        free(shared);
    }
    pthread_mutex_unlock(&usages->lock);
}
