#include "auth/keyring.h"

#include "auth/key_file.h"
#include "base/clock.h"

#include <endian.h>
#include <math.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct keyring_holder {
    auth_key_t key;
    uint64_t head;    /* the first eight bytes of the hash, to bisect by */
    bool gone;        /* its key stands in the file no more */
    uint32_t holds;   /* of connections and inferences */
    uint32_t running; /* inferences */
    double tokens;    /* of its rate, at tokens_ns */
    int64_t tokens_ns;
    keyring_holder_t *next_gone;
};

/* What tells one state of a file from another. */
typedef struct {
    struct timespec changed;
    ino_t inode;
    off_t len_bytes;
} look_t;

struct keyring {
    char *path;
    look_t seen;
    keyring_holder_t **holders; /* by head */
    size_t count;
    keyring_holder_t *gone; /* keys that are gone and held */
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

static void free_holders(keyring_holder_t **holders, size_t count)
{
    for (size_t i = 0; holders && i < count; i++)
        free(holders[i]);
    free(holders);
}

static int by_head(const void *a, const void *b)
{
    const keyring_holder_t *x = *(keyring_holder_t *const *)a, *y = *(keyring_holder_t *const *)b;

    return x->head < y->head ? -1 : x->head > y->head;
}

/* New holders for the keys, in the order of their heads. */
static keyring_holder_t **make_holders(const auth_keys_t *keys, err_t *err)
{
    keyring_holder_t **made = calloc(keys->count + 1, sizeof(keyring_holder_t *));

    for (size_t i = 0; made && i < keys->count; i++) {
        made[i] = calloc(1, sizeof *made[i]);
        if (!made[i]) {
            free_holders(made, i);
            made = NULL;
            break;
        }
        made[i]->key = keys->keys[i];
        made[i]->head = head_of(keys->keys[i].hash);
        made[i]->tokens = keys->keys[i].burst;
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

/* Whoever held a key before goes on being its holder, with what is left of its limits. */
static void keep_old(keyring_t *ring, keyring_holder_t **made, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        keyring_holder_t **old = find_hash(ring, made[i]->key.hash);
        if (!old)
            continue;
        keyring_holder_t *kept = *old;
        kept->key = made[i]->key;
        kept->tokens = fmin(kept->tokens, kept->key.burst);
        *old = made[i];
        (*old)->gone = true; /* only to be thrown away */
        made[i] = kept;
    }
}

static void let_go(keyring_t *ring, keyring_holder_t *holder)
{
    holder->gone = true;
    if (holder->holds == 0) {
        free(holder);
        return;
    }
    holder->next_gone = ring->gone;
    ring->gone = holder;
}

static status_t take_file(keyring_t *ring, err_t *err)
{
    auth_keys_t keys;
    status_t status = auth_keys_read(ring->path, &keys, err);

    if (status != STATUS_OK)
        return status;
    keyring_holder_t **made = make_holders(&keys, err);
    if (made) {
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

status_t keyring_create(const char *path, keyring_t **ring, err_t *err)
{
    keyring_t *made = calloc(1, sizeof *made);

    if (!made || !(made->path = strdup(path))) {
        free(made);
        return err_set(err, STATUS_NO_MEMORY, "no memory for keys");
    }
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
        free(ring->gone);
    }
    free_holders(ring->holders, ring->count);
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

keyring_holder_t *keyring_find(keyring_t *ring, const char *text, size_t len_bytes)
{
    uint8_t hash[AUTH_HASH_BYTES];

    if (len_bytes == 0 || len_bytes >= AUTH_LINE_BYTES)
        return NULL;
    auth_key_hash(text, len_bytes, hash);
    keyring_holder_t **found = find_hash(ring, hash);
    return found ? *found : NULL;
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
    free(holder);
}

/* ---- limits ---- */

static void fill_tokens(keyring_holder_t *holder, int64_t now_ns)
{
    double passed_s = holder->tokens_ns ? (double)(now_ns - holder->tokens_ns) / NS_PER_S : 0;

    if (passed_s > 0)
        holder->tokens = fmin(holder->key.burst, holder->tokens + passed_s * holder->key.rate_per_s);
    holder->tokens_ns = now_ns;
}

status_t keyring_enter(keyring_holder_t *holder, int64_t now_ns, uint32_t *retry_after_ms, err_t *err)
{
    const auth_key_t *key = &holder->key;

    *retry_after_ms = 0;
    if (key->concurrent > 0 && holder->running >= key->concurrent)
        return err_set(err, STATUS_LIMITED, "this key may have %u requests under way", key->concurrent);
    if (key->rate_per_s > 0) {
        fill_tokens(holder, now_ns);
        if (holder->tokens < 1) {
            double wait_ms = (1 - holder->tokens) / key->rate_per_s * 1e3;
            *retry_after_ms = (uint32_t)fmin(ceil(wait_ms - 1e-6), 3.6e6); /* sums of tokens are not exact */
            return err_set(err, STATUS_LIMITED, "this key may begin %g requests a second", key->rate_per_s);
        }
        holder->tokens -= 1;
    }
    holder->running++;
    holder->holds++;
    return STATUS_OK;
}

void keyring_leave(keyring_t *ring, keyring_holder_t *holder)
{
    holder->running--;
    keyring_drop(ring, holder);
}
