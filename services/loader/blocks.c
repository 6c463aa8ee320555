#include "loader/blocks.h"

#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    BLOCKS_MAX = 256,
    FROM_BYTES = 8 << 20,
    WASTE = 2, /* how many times what is wanted a kept one may have */
};

typedef struct {
    void *at; /* NULL: no block */
    size_t room;
    bool taken;
} block_t;

static struct {
    pthread_mutex_t lock;
    block_t list[BLOCKS_MAX];
    size_t taken_bytes, kept_bytes, most_bytes; /* most: that were taken at once */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Behind the allocator, and so not through what stands in front of it. */
static void *map(size_t bytes)
{
    void *at =
        (void *)syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return at == MAP_FAILED ? NULL : at;
}

static void drop(block_t *block)
{
    munmap(block->at, block->room);
    all.kept_bytes -= block->room;
    *block = (block_t){.at = NULL};
}

static block_t *find(const void *at)
{
    for (size_t i = 0; i < BLOCKS_MAX; i++)
        if (all.list[i].at == at)
            return &all.list[i];
    return NULL;
}

static block_t *best_kept(size_t bytes)
{
    block_t *best = NULL;

    for (block_t *b = all.list; b < all.list + BLOCKS_MAX; b++)
        if (b->at && !b->taken && b->room >= bytes && b->room / WASTE <= bytes &&
            (!best || b->room < best->room))
            best = b;
    return best;
}

static block_t *any_kept(void)
{
    for (block_t *b = all.list; b < all.list + BLOCKS_MAX; b++)
        if (b->at && !b->taken)
            return b;
    return NULL;
}

static bool drop_all(void)
{
    bool any = all.kept_bytes > 0;

    while (all.kept_bytes > 0)
        drop(any_kept());
    return any;
}

static block_t *make(size_t bytes)
{
    block_t *block;
    void *at;

    while (all.kept_bytes > 0 && all.taken_bytes + all.kept_bytes + bytes > all.most_bytes)
        drop(any_kept());
    block = find(NULL);
    if (!block)
        return NULL;
    at = map(bytes);
    if (!at && drop_all())
        at = map(bytes);
    if (!at)
        return NULL;
    *block = (block_t){.at = at, .room = bytes};
    all.kept_bytes += bytes;
    return block;
}

static void *take(size_t bytes)
{
    block_t *block = best_kept(bytes);

    if (!block)
        block = make(bytes);
    if (!block)
        return NULL;
    block->taken = true;
    all.kept_bytes -= block->room;
    all.taken_bytes += block->room;
    if (all.taken_bytes > all.most_bytes)
        all.most_bytes = all.taken_bytes;
    return block->at;
}

void *blocks_take(size_t bytes)
{
    if (bytes < FROM_BYTES || bytes > SIZE_MAX / 2)
        return NULL;
    pthread_mutex_lock(&all.lock);
    void *at = take((bytes + BLOCKS_ALIGN_BYTES - 1) / BLOCKS_ALIGN_BYTES * BLOCKS_ALIGN_BYTES);
    pthread_mutex_unlock(&all.lock);
    return at;
}

/* All that the allocator itself gives out but for a few begins elsewhere in a page. */
static bool may_be(const void *at)
{
    return at && (uintptr_t)at % BLOCKS_ALIGN_BYTES == 0;
}

bool blocks_give(void *at)
{
    if (!may_be(at))
        return false;
    pthread_mutex_lock(&all.lock);
    block_t *block = find(at);
    if (block) {
        block->taken = false;
        all.taken_bytes -= block->room;
        all.kept_bytes += block->room;
    }
    pthread_mutex_unlock(&all.lock);
    return block;
}

size_t blocks_room(const void *at)
{
    if (!may_be(at))
        return 0;
    pthread_mutex_lock(&all.lock);
    block_t *block = find(at);
    size_t room = block ? block->room : 0;
    pthread_mutex_unlock(&all.lock);
    return room;
}

size_t blocks_kept_bytes(void)
{
    pthread_mutex_lock(&all.lock);
    size_t bytes = all.kept_bytes;
    pthread_mutex_unlock(&all.lock);
    return bytes;
}

bool blocks_drop(void)
{
    pthread_mutex_lock(&all.lock);
    bool any = drop_all();
    pthread_mutex_unlock(&all.lock);
    return any;
}
