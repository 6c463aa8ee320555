#include "auth/keyring.h"

#include "auth/key_file.h"

#include <endian.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct keyring_holder {
    auth_key_t key;
    uint64_t head;  /* the first eight bytes of the hash, to bisect by */
    bool gone;      /* its key stands in the file no more */
    uint32_t holds; /* of connections and inferences */
    auth_usage_t *usage;
    keyring_holder_t *next_gone;
};

/* What tells one state of a file from another. */
typedef struct {
    struct timespec changed;
    ino_t inode;
    off_t len_bytes;
} look_t;

enum {
    REMEMBERED = 64,                         /* texts; those of the clients that ask most */
    REMEMBERED_LEAST = 8,                    /* shorter texts have no place: no key that was made is */
    REMEMBERED_BYTES = AUTH_TEXT_BYTES + 16, /* longer ones neither */
};

/* A text that was found to be a key. */
typedef struct {
    keyring_holder_t *holder; /* NULL: none */
    size_t len_bytes;
    char text[REMEMBERED_BYTES];
} remembered_t;

struct keyring {
    char *path;
    auth_usages_t *usages;
    look_t seen;
    keyring_holder_t **holders; /* by head */
    size_t count;
    keyring_holder_t *gone; /* keys that are gone and held */
    remembered_t remembered[REMEMBERED];
};

static uint64_t head_of(const uint8_t hash[AUTH_HASH_BYTES])
{
    uint64_t head;

    memcpy(&head, hash, sizeof head);
    return be64toh(head);
}

static look_t look_at(const char *path)
{
    struct stat about;

    if (stat(path, &about) != 0)
        return (look_t){.len_bytes = -1};
    return (look_t){.changed = about.st_mtim, .inode = about.st_ino, .len_bytes = about.st_size};
}

static bool is_same(const look_t *a, const look_t *b)
{
    return a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec &&
           a->inode == b->inode && a->len_bytes == b->len_bytes;
}

/* ---- life ---- */

static void free_holder(keyring_t *ring, keyring_holder_t *holder)
{
    if (holder->usage)
        auth_usages_put(ring->usages, holder->usage);
    free(holder);
}

static void free_holders(keyring_t *ring, keyring_holder_t **holders, size_t count)
{
    for (size_t i = 0; holders && i < count; i++)
        free_holder(ring, holders[i]);
    free(holders);
}

static keyring_holder_t *make_holder(keyring_t *ring, const auth_key_t *key)
{
    keyring_holder_t *made = calloc(1, sizeof *made);

    if (!made)
        return NULL;
    made->key = *key;
    made->head = head_of(key->hash);
    made->usage = auth_usages_get(ring->usages, key->hash);
    if (made->usage)
        return made;
    free(made);
    return NULL;
}

static int by_head(const void *a, const void *b)
{
    const keyring_holder_t *x = *(keyring_holder_t *const *)a, *y = *(keyring_holder_t *const *)b;

    return x->head < y->head ? -1 : x->head > y->head;
}

/* New holders for the keys, in the order of their heads. */
static keyring_holder_t **make_holders(keyring_t *ring, const auth_keys_t *keys, err_t *err)
{
    keyring_holder_t **made = calloc(keys->count + 1, sizeof(keyring_holder_t *));

    for (size_t i = 0; made && i < keys->count; i++) {
        made[i] = make_holder(ring, &keys->keys[i]);
        if (!made[i]) {
            free_holders(ring, made, i);
            made = NULL;
        }
    }
    if (made)
        qsort(made, keys->count, sizeof(keyring_holder_t *), by_head);
    else
        err_set(err, STATUS_NO_MEMORY, "no memory for %zu keys", keys->count);
    return made;
}

/* Who has the key of that hash, in a list by heads. */
static size_t first_with(keyring_holder_t *const *holders, size_t count, uint64_t head)
{
    size_t low = 0;

    for (size_t high = count; low < high;) {
        size_t middle = low + (high - low) / 2;
        if (holders[middle]->head < head)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static keyring_holder_t **find_hash(const keyring_t *ring, const uint8_t hash[AUTH_HASH_BYTES])
{
    uint64_t head = head_of(hash);

    for (size_t i = first_with(ring->holders, ring->count, head); i < ring->count; i++) {
        if (ring->holders[i]->head != head)
            break;
        if (CRYPTO_memcmp(ring->holders[i]->key.hash, hash, AUTH_HASH_BYTES) == 0)
            return &ring->holders[i];
    }
    return NULL;
}

/* Whoever held a key before goes on being its holder. */
static void keep_old(keyring_t *ring, keyring_holder_t **made, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        keyring_holder_t **old = find_hash(ring, made[i]->key.hash);
        if (!old)
            continue;
        keyring_holder_t *kept = *old;
        kept->key = made[i]->key;
        *old = made[i];
        (*old)->gone = true; /* only to be thrown away */
        made[i] = kept;
    }
}

static void let_go(keyring_t *ring, keyring_holder_t *holder)
{
    holder->gone = true;
    if (holder->holds == 0) {
        free_holder(ring, holder);
        return;
    }
    holder->next_gone = ring->gone;
    ring->gone = holder;
}

static void forget_all(keyring_t *ring)
{
    explicit_bzero(ring->remembered, sizeof ring->remembered);
}

static status_t take_file(keyring_t *ring, err_t *err)
{
    auth_keys_t keys;
    status_t status = auth_keys_read(ring->path, &keys, err);

    if (status != STATUS_OK)
        return status;
    keyring_holder_t **made = make_holders(ring, &keys, err);
    if (made) {
        forget_all(ring);
        keep_old(ring, made, keys.count);
        for (size_t i = 0; i < ring->count; i++)
            let_go(ring, ring->holders[i]);
        free(ring->holders);
        ring->holders = made;
        ring->count = keys.count;
    }
    auth_keys_dispose(&keys);
    return made ? STATUS_OK : STATUS_NO_MEMORY;
}

status_t keyring_create(const char *path, auth_usages_t *usages, keyring_t **ring, err_t *err)
{
    keyring_t *made = calloc(1, sizeof *made);

    if (!made || !(made->path = strdup(path))) {
        free(made);
        return err_set(err, STATUS_NO_MEMORY, "no memory for keys");
    }
    made->usages = usages;
    made->seen = look_at(path);
    status_t status = take_file(made, err);
    if (status != STATUS_OK) {
        keyring_destroy(made);
        return status;
    }
    *ring = made;
    return STATUS_OK;
}

void keyring_destroy(keyring_t *ring)
{
    if (!ring)
        return;
    for (keyring_holder_t *next; ring->gone; ring->gone = next) {
        next = ring->gone->next_gone;
        free_holder(ring, ring->gone);
    }
    forget_all(ring);
    free_holders(ring, ring->holders, ring->count);
    free(ring->path);
    free(ring);
}

status_t keyring_refresh(keyring_t *ring, bool *changed, err_t *err)
{
    look_t now = look_at(ring->path);

    *changed = false;
    if (is_same(&now, &ring->seen))
        return STATUS_OK;
    ring->seen = now;
    status_t status = take_file(ring, err);
    *changed = status == STATUS_OK;
    return status;
}

size_t keyring_count(const keyring_t *ring)
{
    return ring->count;
}

/* ---- holders ---- */

/* Where a text would be remembered; NULL: nowhere. Keys are random to the end, and only keys are remembered. */
static remembered_t *place_of(keyring_t *ring, const char *text, size_t len_bytes)
{
    uint64_t tail;

    if (len_bytes < REMEMBERED_LEAST || len_bytes > REMEMBERED_BYTES)
        return NULL;
    memcpy(&tail, text + len_bytes - sizeof tail, sizeof tail);
    return &ring->remembered[tail * UINT64_C(0x9E3779B97F4A7C15) >> 58];
}
_Static_assert(REMEMBERED == 1 << (64 - 58), "the hash of a place has its bits");

/* In a time that does not tell where they differ: eight bytes at a time, and the last eight once more. CRYPTO_memcmp goes byte by byte. */
static bool is_same_text(const char *a, const char *b, size_t len_bytes)
{
    volatile uint64_t differ = 0; /* so that no compiler ends the loop early */
    uint64_t x, y;

    for (size_t at = 0; at < len_bytes; at += sizeof x) {
        size_t from = len_bytes - at < sizeof x ? len_bytes - sizeof x : at;
        memcpy(&x, a + from, sizeof x);
        memcpy(&y, b + from, sizeof y);
        differ |= x ^ y;
    }
    return differ == 0;
}
_Static_assert(REMEMBERED_LEAST >= sizeof(uint64_t), "the last eight bytes are there");

keyring_holder_t *keyring_find(keyring_t *ring, const char *text, size_t len_bytes)
{
    uint8_t hash[AUTH_HASH_BYTES];

    if (len_bytes == 0 || len_bytes >= AUTH_LINE_BYTES)
        return NULL;
    remembered_t *place = place_of(ring, text, len_bytes);
    if (place && place->holder && place->len_bytes == len_bytes && is_same_text(place->text, text, len_bytes))
        return place->holder;
    auth_key_hash(text, len_bytes, hash);
    keyring_holder_t **found = find_hash(ring, hash);
    if (!found)
        return NULL;
    if (place) {
        *place = (remembered_t){.holder = *found, .len_bytes = len_bytes};
        memcpy(place->text, text, len_bytes);
    }
    return *found;
}

const auth_key_t *keyring_key(const keyring_holder_t *holder)
{
    return &holder->key;
}

bool keyring_is_good(const keyring_holder_t *holder, int64_t now_s)
{
    return !holder->gone && !auth_key_is_over(&holder->key, now_s);
}

void keyring_hold(keyring_holder_t *holder)
{
    holder->holds++;
}

void keyring_drop(keyring_t *ring, keyring_holder_t *holder)
{
    if (--holder->holds > 0 || !holder->gone)
        return;
    for (keyring_holder_t **at = &ring->gone; *at; at = &(*at)->next_gone) {
        if (*at == holder) {
            *at = holder->next_gone;
            break;
        }
    }
    free_holder(ring, holder);
}

/* ---- limits ---- */

status_t keyring_enter(keyring_holder_t *holder, int64_t now_ns, uint32_t *retry_after_ms, err_t *err)
{
    status_t status =
        auth_usage_enter(holder->usage, &holder->key.limits, "this key", now_ns, retry_after_ms, err);

    if (status == STATUS_OK)
        holder->holds++;
    return status;
}

void keyring_leave(keyring_t *ring, keyring_holder_t *holder)
{
    auth_usage_leave(holder->usage);
    keyring_drop(ring, holder);
}
