/*
 * Hash maps to pointers with a capacity that is fixed at init: open addressing, linear probing, removal by
 * shifting back (no tombstones), load at most 1/2. One owner, no locks, no libc call after init but
 * memcmp/strlen for strings.
 *
 *   idmap_t   uint64 -> void *; any key value is allowed
 *   strmap_t  string -> void *; the key is not copied: it lives at least as long as its entry (mostly
 *             inside the value)
 *
 * The hash is not keyed: fine for ids that we make and names from configuration, not for keys that a client
 * chooses freely.
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAP_CAPACITY_MAX (UINT32_C(1) << 27)

typedef struct {
    uint64_t key;
    void *value; /* NULL = free slot */
} idmap_slot_t;

typedef struct {
    idmap_slot_t *slots;
    uint32_t mask;
    uint32_t len;
    uint32_t capacity;
} idmap_t;

status_t idmap_init(idmap_t *map, uint32_t capacity, err_t *err);
void idmap_dispose(idmap_t *map);
void *idmap_get(const idmap_t *map, uint64_t key); /* NULL when it is not there */
bool idmap_put(idmap_t *map, uint64_t key,
               void *value);                    /* adds or replaces; false when full; value not NULL */
void *idmap_remove(idmap_t *map, uint64_t key); /* the value that was there, or NULL */
bool idmap_validate(const idmap_t *map, err_t *err);

typedef struct {
    const char *key;
    void *value; /* NULL = free slot */
    uint32_t key_len_bytes;
    uint32_t hash;
} strmap_slot_t;

typedef struct {
    strmap_slot_t *slots;
    uint32_t mask;
    uint32_t len;
    uint32_t capacity;
} strmap_t;

status_t strmap_init(strmap_t *map, uint32_t capacity, err_t *err);
void strmap_dispose(strmap_t *map);
void *strmap_get(const strmap_t *map, const char *key);
void *strmap_get_n(const strmap_t *map, const char *key, size_t key_len_bytes); /* key need not end in NUL */
bool strmap_put(strmap_t *map, const char *key,
                void *value); /* replaces key pointer and value; false when full */
void *strmap_remove(strmap_t *map, const char *key);
bool strmap_validate(const strmap_t *map, err_t *err);

#endif
