/*
 * Two-level segregated fit over units of 64 bytes.
 *
 *   mapping:  [H|payload …][H|payload …][H|payload …] … [H]      H = header of one unit; the last one is a sentinel
 *
 *   block size n units (header included) -> class (row, column):
 *     n < 32:  row 0, column n                   exact
 *     else:    row = log2(n) - 4, column = the 5 bits after the highest one
 *
 * A free block hangs in the list of the class that its size falls into. A region's size is rounded up to a class
 * border (by 1/32 at most), so that any block of any class from there on fits: two bit searches find one, no list is
 * walked, and the room of a region that came back is found by the next one of its size even when all else is full.
 */
#include "base/arena.h"

#include "base/log.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { UNIT_BYTES = ARENA_ALIGN_BYTES, COLUMN_BITS = 5, COLUMNS = 1 << COLUMN_BITS, ROWS = 40 };
#define ARENA_MAX_BYTES (SIZE_MAX / 2 < (size_t)1 << 46 ? SIZE_MAX / 2 : (size_t)1 << 46)
enum { BLOCK_FREE = 0x66726565, BLOCK_USED = 0x75736564, BLOCK_END = 0x656e6421 };

typedef struct block {
    uint64_t units;      /* header included; 0 for the sentinel */
    uint64_t prev_units; /* of the block before, 0 for the first */
    struct block *next;  /* in the free list */
    struct block *prev;
    uint32_t state;
    char padding[UNIT_BYTES - 36];
} block_t;
_Static_assert(sizeof(block_t) == UNIT_BYTES, "a header is one unit");

struct arena {
    pthread_mutex_t lock;
    char *base;
    size_t total_bytes;
    bool mapped;                 /* by arena_create */
    uint64_t rows_used;          /* bit r: row r has a block */
    uint32_t columns_used[ROWS]; /* bit c: list (r, c) has a block */
    block_t *lists[ROWS][COLUMNS];
    arena_stats_t stats;
};

static uint32_t high_bit(uint64_t n)
{
    return 63 - (uint32_t)__builtin_clzll(n);
}

static void class_of(uint64_t units, uint32_t *row, uint32_t *column)
{
    if (units < COLUMNS) {
        *row = 0;
        *column = (uint32_t)units;
        return;
    }
    uint32_t high = high_bit(units);
    *row = high - COLUMN_BITS + 1;
    *column = (uint32_t)(units >> (high - COLUMN_BITS)) & (COLUMNS - 1);
}

/* The least size of the class that follows the one units falls into, unless units is itself the least of its
 * class. */
static uint64_t round_up_to_class(uint64_t units)
{
    if (units < COLUMNS)
        return units;
    uint64_t step = UINT64_C(1) << (high_bit(units) - COLUMN_BITS);
    return (units + step - 1) & ~(step - 1);
}

static block_t *block_after(block_t *b)
{
    return (block_t *)(void *)((char *)b + b->units * UNIT_BYTES);
}

static block_t *block_before(block_t *b)
{
    return (block_t *)(void *)((char *)b - b->prev_units * UNIT_BYTES);
}

static void list_add(arena_t *arena, block_t *b)
{
    uint32_t row, column;
    class_of(b->units, &row, &column);
    block_t **list = &arena->lists[row][column];
    b->state = BLOCK_FREE;
    b->prev = NULL;
    b->next = *list;
    if (*list)
        (*list)->prev = b;
    *list = b;
    arena->columns_used[row] |= UINT32_C(1) << column;
    arena->rows_used |= UINT64_C(1) << row;
}

static void list_remove(arena_t *arena, block_t *b)
{
    uint32_t row, column;
    class_of(b->units, &row, &column);
    if (b->next)
        b->next->prev = b->prev;
    if (b->prev) {
        b->prev->next = b->next;
        return;
    }
    arena->lists[row][column] = b->next;
    if (b->next)
        return;
    arena->columns_used[row] &= ~(UINT32_C(1) << column);
    if (arena->columns_used[row] == 0)
        arena->rows_used &= ~(UINT64_C(1) << row);
}

/* Any free block of at least this many units; units is a class border. */
static block_t *find_block(const arena_t *arena, uint64_t units)
{
    uint32_t row, column;
    class_of(units, &row, &column);
    uint32_t columns = arena->columns_used[row] & (UINT32_MAX << column);
    if (columns == 0) {
        uint64_t rows = arena->rows_used & (UINT64_MAX << (row + 1));
        if (rows == 0)
            return NULL;
        row = (uint32_t)__builtin_ctzll(rows);
        columns = arena->columns_used[row];
    }
    return arena->lists[row][__builtin_ctz(columns)];
}

static status_t map_privately(size_t total_bytes, void **base, err_t *err)
{
    *base =
        mmap(NULL, total_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (*base == MAP_FAILED)
        return err_set(err, STATUS_NO_MEMORY, "no address space for an arena of %zu bytes", total_bytes);
    return STATUS_OK;
}

static status_t check_size(size_t total_bytes, err_t *err)
{
    if (total_bytes == 0 || total_bytes > ARENA_MAX_BYTES)
        return err_set(err, STATUS_INVALID_ARGUMENT, "an arena of %zu bytes", total_bytes);
    return STATUS_OK;
}

status_t arena_create_on(arena_t **out, void *base, size_t total_bytes, err_t *err)
{
    status_t status = check_size(total_bytes, err);
    if (status != STATUS_OK)
        return status;
    if (((uintptr_t)base | total_bytes) % (size_t)sysconf(_SC_PAGESIZE) != 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "an arena that is not of whole pages");
    arena_t *arena = calloc(1, sizeof *arena);
    if (!arena)
        return err_set(err, STATUS_NO_MEMORY, "no memory for an arena");
    pthread_mutex_init(&arena->lock, NULL);
    arena->base = base;
    arena->total_bytes = total_bytes;
    block_t *first = base;
    first->units = total_bytes / UNIT_BYTES - 1;
    first->prev_units = 0;
    list_add(arena, first);
    block_t *end = block_after(first);
    *end = (block_t){.prev_units = first->units, .state = BLOCK_END};
    *out = arena;
    return STATUS_OK;
}

status_t arena_create(arena_t **out, size_t total_bytes, err_t *err)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *base;
    status_t status = check_size(total_bytes, err);
    total_bytes = (total_bytes + page - 1) & ~(page - 1);
    if (status == STATUS_OK)
        status = map_privately(total_bytes, &base, err);
    if (status != STATUS_OK)
        return status;
    status = arena_create_on(out, base, total_bytes, err);
    if (status == STATUS_OK)
        (*out)->mapped = true;
    else
        munmap(base, total_bytes);
    return status;
}

void arena_destroy(arena_t *arena)
{
    if (!arena)
        return;
    if (arena->stats.regions != 0)
        log_warn("arena_destroyed_in_use", LOG_U64("regions", arena->stats.regions),
                 LOG_U64("bytes", arena->stats.used_bytes));
    if (arena->mapped)
        munmap(arena->base, arena->total_bytes);
    pthread_mutex_destroy(&arena->lock);
    free(arena);
}

/* Gives back what is over; a rest of one unit would be a header without payload and stays inside. */
static void split(arena_t *arena, block_t *b, uint64_t units)
{
    uint64_t rest_units = b->units - units;
    if (rest_units < 2)
        return;
    b->units = units;
    block_t *rest = block_after(b);
    rest->units = rest_units;
    rest->prev_units = units;
    block_after(rest)->prev_units = rest_units;
    list_add(arena, rest);
}

static void count_alloc(arena_t *arena, uint64_t units)
{
    arena_stats_t *s = &arena->stats;
    s->allocs++;
    s->regions++;
    s->used_bytes += units * UNIT_BYTES;
    if (s->used_bytes > s->peak_bytes)
        s->peak_bytes = s->used_bytes;
}

void *arena_alloc(arena_t *arena, size_t len_bytes)
{
    uint64_t units = len_bytes <= UNIT_BYTES ? 2 : 1 + (len_bytes - 1) / UNIT_BYTES + 1;
    units = round_up_to_class(units);
    pthread_mutex_lock(&arena->lock);
    block_t *b = len_bytes > arena->total_bytes ? NULL : find_block(arena, units);
    if (!b) {
        arena->stats.refusals++;
        pthread_mutex_unlock(&arena->lock);
        return NULL;
    }
    list_remove(arena, b);
    split(arena, b, units);
    b->state = BLOCK_USED;
    count_alloc(arena, b->units);
    pthread_mutex_unlock(&arena->lock);
    return (char *)b + UNIT_BYTES;
}

static block_t *merge_neighbours(arena_t *arena, block_t *b)
{
    block_t *after = block_after(b);
    if (after->state == BLOCK_FREE) {
        list_remove(arena, after);
        b->units += after->units;
    }
    block_t *before = b->prev_units > 0 ? block_before(b) : NULL;
    if (before && before->state == BLOCK_FREE) {
        list_remove(arena, before);
        before->units += b->units;
        b = before;
    }
    block_after(b)->prev_units = b->units;
    return b;
}

void arena_free(arena_t *arena, void *region)
{
    if (!region)
        return;
    block_t *b = (block_t *)(void *)((char *)region - UNIT_BYTES);
    pthread_mutex_lock(&arena->lock);
    if (b->state != BLOCK_USED) {
        pthread_mutex_unlock(&arena->lock);
        log_error("arena_bad_free",
                  LOG_STR("reason", b->state == BLOCK_FREE ? "freed twice" : "not a region, or overrun"));
        return;
    }
    arena->stats.regions--;
    arena->stats.used_bytes -= b->units * UNIT_BYTES;
    list_add(arena, merge_neighbours(arena, b));
    pthread_mutex_unlock(&arena->lock);
}

bool arena_contains(const arena_t *arena, const void *p)
{
    return (const char *)p >= arena->base && (const char *)p < arena->base + arena->total_bytes;
}

void *arena_base(const arena_t *arena)
{
    return arena->base;
}

size_t arena_total_bytes(const arena_t *arena)
{
    return arena->total_bytes;
}

static size_t largest_now(const arena_t *arena)
{
    if (arena->rows_used == 0)
        return 0;
    uint32_t row = high_bit(arena->rows_used);
    uint32_t column = 31 - (uint32_t)__builtin_clz(arena->columns_used[row]);
    uint64_t units = row == 0 ? column : (uint64_t)(COLUMNS + column) << (row - 1);
    return (size_t)(units - 1) * UNIT_BYTES;
}

void arena_stats(arena_t *arena, arena_stats_t *stats)
{
    pthread_mutex_lock(&arena->lock);
    *stats = arena->stats;
    stats->total_bytes = arena->total_bytes;
    stats->largest_bytes = largest_now(arena);
    pthread_mutex_unlock(&arena->lock);
}

typedef struct {
    uint64_t used_units, free_blocks, regions;
} census_t;

/* Walks the blocks in address order. */
static const char *check_blocks(const arena_t *arena, census_t *census)
{
    const char *limit = arena->base + arena->total_bytes;
    uint64_t prev_units = 0;
    bool prev_free = false;
    block_t *b = (block_t *)(void *)arena->base;
    while (b->state != BLOCK_END) {
        if (b->state != BLOCK_FREE && b->state != BLOCK_USED)
            return "a header is overwritten";
        if (b->units < 2 || b->prev_units != prev_units || (const char *)block_after(b) >= limit)
            return "sizes of neighbours disagree";
        if (prev_free && b->state == BLOCK_FREE)
            return "two free neighbours were not merged";
        prev_free = b->state == BLOCK_FREE;
        census->free_blocks += prev_free;
        census->regions += !prev_free;
        census->used_units += prev_free ? 0 : b->units;
        prev_units = b->units;
        b = block_after(b);
    }
    return b->prev_units == prev_units && (const char *)b + UNIT_BYTES == limit ? NULL
                                                                                : "the end is not at the end";
}

/* Walks the free lists. */
static const char *check_lists(const arena_t *arena, uint64_t free_blocks)
{
    uint64_t listed = 0;
    for (uint32_t row = 0; row < ROWS; row++) {
        if (((arena->rows_used >> row) & 1) != (arena->columns_used[row] != 0))
            return "row bits are wrong";
        for (uint32_t column = 0; column < COLUMNS; column++) {
            if ((arena->columns_used[row] >> column & 1) != (arena->lists[row][column] ? 1 : 0))
                return "column bits are wrong";
            for (const block_t *b = arena->lists[row][column]; b; b = b->next) {
                uint32_t r, c;
                class_of(b->units, &r, &c);
                if (b->state != BLOCK_FREE || r != row || c != column || ++listed > free_blocks)
                    return "a list holds what does not belong there";
            }
        }
    }
    return listed == free_blocks ? NULL : "a free block is in no list";
}

bool arena_validate(arena_t *arena, err_t *err)
{
    census_t census = {0};
    pthread_mutex_lock(&arena->lock);
    const char *wrong = check_blocks(arena, &census);
    if (!wrong)
        wrong = check_lists(arena, census.free_blocks);
    if (!wrong &&
        (census.regions != arena->stats.regions || census.used_units * UNIT_BYTES != arena->stats.used_bytes))
        wrong = "the accounts do not match the blocks";
    pthread_mutex_unlock(&arena->lock);
    if (wrong)
        err_set(err, STATUS_INTERNAL, "arena: %s", wrong);
    return !wrong;
}
