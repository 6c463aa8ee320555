#include "pb_arena.h"

#include <stdint.h>
#include <stdlib.h>

enum { ARENA_ALIGN = 16 };

struct pb_arena_block {
    pb_arena_block_t *older;
    size_t size_bytes;
    size_t used_bytes;
    _Alignas(ARENA_ALIGN) unsigned char data[];
};

static void *arena_alloc(void *arena, size_t size_bytes)
{
    return pb_arena_alloc(arena, size_bytes);
}

static void arena_free(void *arena, void *pointer)
{
    (void)arena;
    (void)pointer;
}

void pb_arena_init(pb_arena_t *arena, size_t limit_bytes)
{
    *arena = (pb_arena_t){
        .allocator = {.alloc = arena_alloc, .free = arena_free, .allocator_data = arena},
        .limit_bytes = limit_bytes != 0 ? limit_bytes : 16 * (size_t)PB_ARENA_BLOCK_BYTES,
    };
}

static pb_arena_block_t *arena_grow(pb_arena_t *arena, size_t size_bytes)
{
    if (size_bytes < PB_ARENA_BLOCK_BYTES)
        size_bytes = PB_ARENA_BLOCK_BYTES;
    if (arena->total_bytes > arena->limit_bytes || size_bytes > arena->limit_bytes - arena->total_bytes)
        return NULL;
    pb_arena_block_t *block = malloc(sizeof *block + size_bytes);
    if (block == NULL)
        return NULL;
    *block = (pb_arena_block_t){.older = arena->head, .size_bytes = size_bytes};
    arena->head = block;
    arena->total_bytes += size_bytes;
    return block;
}

void *pb_arena_alloc(pb_arena_t *arena, size_t size_bytes)
{
    if (size_bytes > SIZE_MAX - ARENA_ALIGN)
        return NULL;
    size_bytes = (size_bytes + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    pb_arena_block_t *block = arena->head;
    if (block == NULL || size_bytes > block->size_bytes - block->used_bytes)
        block = arena_grow(arena, size_bytes);
    if (block == NULL)
        return NULL;
    void *out = block->data + block->used_bytes;
    block->used_bytes += size_bytes;
    return out;
}

static void arena_pop(pb_arena_t *arena)
{
    pb_arena_block_t *block = arena->head;
    arena->head = block->older;
    arena->total_bytes -= block->size_bytes;
    free(block);
}

void pb_arena_reset(pb_arena_t *arena)
{
    while (arena->head != NULL && arena->head->older != NULL)
        arena_pop(arena);
    if (arena->head != NULL)
        arena->head->used_bytes = 0;
}

void pb_arena_dispose(pb_arena_t *arena)
{
    while (arena->head != NULL)
        arena_pop(arena);
}
