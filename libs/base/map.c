/* Hot path: no allocation after init. */
#include "base/map.h"

#include "base/hash.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Load at most 1/2: probes stay short even with linear probing. */
static uint32_t slots_for(uint32_t capacity)
{
    uint32_t n = 4;
    while (n < 2 * capacity)
        n <<= 1;
    return n;
}

static status_t alloc_slots(void **slots, size_t slot_bytes, uint32_t capacity, err_t *err)
{
    if (capacity == 0 || capacity > MAP_CAPACITY_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "map of %u entries", capacity);
    *slots = calloc(slots_for(capacity), slot_bytes);
    if (!*slots)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a map of %u entries", capacity);
    return STATUS_OK;
}

/*
 * Whether the entry in slot `at`, whose home is `home`, may move back to the hole: not when its home lies in
 * (hole, at], since a search that starts there would then miss it.
 */
static bool may_fill(uint32_t hole, uint32_t home, uint32_t at, uint32_t mask)
{
    return ((at - home) & mask) >= ((at - hole) & mask);
}

static uint32_t mix(uint64_t key)
{
    key ^= key >> 32;
    key *= UINT64_C(0xd6e8feb86659fd93);
    key ^= key >> 32;
    key *= UINT64_C(0xd6e8feb86659fd93);
    return (uint32_t)(key >> 32);
}

status_t idmap_init(idmap_t *map, uint32_t capacity, err_t *err)
{
    void *slots;
    status_t st = alloc_slots(&slots, sizeof(idmap_slot_t), capacity, err);
    if (st == STATUS_OK)
        *map = (idmap_t){slots, slots_for(capacity) - 1, 0, capacity};
    return st;
}

void idmap_dispose(idmap_t *map)
{
    free(map->slots);
    *map = (idmap_t){0};
}

/* The slot of key, or the free slot where it would go. */
static uint32_t id_find(const idmap_t *map, uint64_t key)
{
    uint32_t i = mix(key) & map->mask;
    while (map->slots[i].value && map->slots[i].key != key)
        i = (i + 1) & map->mask;
    return i;
}

void *idmap_get(const idmap_t *map, uint64_t key)
{
    return map->slots[id_find(map, key)].value;
}

bool idmap_put(idmap_t *map, uint64_t key, void *value)
{
    assert(value);
    idmap_slot_t *slot = &map->slots[id_find(map, key)];
    if (!slot->value && map->len == map->capacity)
        return false;
    map->len += !slot->value;
    *slot = (idmap_slot_t){key, value};
    return true;
}

void *idmap_remove(idmap_t *map, uint64_t key)
{
    uint32_t hole = id_find(map, key);
    void *value = map->slots[hole].value;
    if (!value)
        return NULL;
    for (uint32_t i = (hole + 1) & map->mask; map->slots[i].value; i = (i + 1) & map->mask) {
        if (may_fill(hole, mix(map->slots[i].key) & map->mask, i, map->mask)) {
            map->slots[hole] = map->slots[i];
            hole = i;
        }
    }
    map->slots[hole].value = NULL;
    map->len--;
    return value;
}

bool idmap_validate(const idmap_t *map, err_t *err)
{
    uint32_t len = 0;
    for (uint32_t i = 0; i <= map->mask; i++) {
        if (!map->slots[i].value)
            continue;
        len++;
        if (id_find(map, map->slots[i].key) != i) {
            err_set(err, STATUS_INTERNAL, "map: the key in slot %u is not found", i);
            return false;
        }
    }
    if (len != map->len) {
        err_set(err, STATUS_INTERNAL, "map: %u entries (counted %u)", map->len, len);
        return false;
    }
    return true;
}

/* FNV-1a, then mixed, as linear probing wants good low bits. */
static uint32_t hash_text(const char *key, size_t len_bytes)
{
    return mix(hash_bytes(HASH_BEGIN, key, len_bytes));
}

status_t strmap_init(strmap_t *map, uint32_t capacity, err_t *err)
{
    void *slots;
    status_t st = alloc_slots(&slots, sizeof(strmap_slot_t), capacity, err);
    if (st == STATUS_OK)
        *map = (strmap_t){slots, slots_for(capacity) - 1, 0, capacity};
    return st;
}

void strmap_dispose(strmap_t *map)
{
    free(map->slots);
    *map = (strmap_t){0};
}

static uint32_t str_find(const strmap_t *map, const char *key, size_t len_bytes, uint32_t hash)
{
    uint32_t i = hash & map->mask;
    for (;; i = (i + 1) & map->mask) {
        const strmap_slot_t *slot = &map->slots[i];
        if (!slot->value || (slot->hash == hash && slot->key_len_bytes == len_bytes &&
                             memcmp(slot->key, key, len_bytes) == 0))
            return i;
    }
}

void *strmap_get_n(const strmap_t *map, const char *key, size_t key_len_bytes)
{
    return map->slots[str_find(map, key, key_len_bytes, hash_text(key, key_len_bytes))].value;
}

void *strmap_get(const strmap_t *map, const char *key)
{
    return strmap_get_n(map, key, strlen(key));
}

bool strmap_put(strmap_t *map, const char *key, void *value)
{
    assert(value);
    size_t len = strlen(key);
    uint32_t hash = hash_text(key, len);
    strmap_slot_t *slot = &map->slots[str_find(map, key, len, hash)];
    if (len > UINT32_MAX || (!slot->value && map->len == map->capacity))
        return false;
    map->len += !slot->value;
    *slot = (strmap_slot_t){key, value, (uint32_t)len, hash};
    return true;
}

void *strmap_remove(strmap_t *map, const char *key)
{
    size_t len = strlen(key);
    uint32_t hole = str_find(map, key, len, hash_text(key, len));
    void *value = map->slots[hole].value;
    if (!value)
        return NULL;
    for (uint32_t i = (hole + 1) & map->mask; map->slots[i].value; i = (i + 1) & map->mask) {
        if (may_fill(hole, map->slots[i].hash & map->mask, i, map->mask)) {
            map->slots[hole] = map->slots[i];
            hole = i;
        }
    }
    map->slots[hole] = (strmap_slot_t){0};
    map->len--;
    return value;
}

bool strmap_validate(const strmap_t *map, err_t *err)
{
    uint32_t len = 0;
    for (uint32_t i = 0; i <= map->mask; i++) {
        const strmap_slot_t *slot = &map->slots[i];
        if (!slot->value)
            continue;
        len++;
        if (str_find(map, slot->key, slot->key_len_bytes, slot->hash) != i) {
            err_set(err, STATUS_INTERNAL, "map: the key in slot %u is not found", i);
            return false;
        }
    }
    if (len != map->len) {
        err_set(err, STATUS_INTERNAL, "map: %u entries (counted %u)", map->len, len);
        return false;
    }
    return true;
}
