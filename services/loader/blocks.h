/*
 * Large blocks of memory, kept for the next when they are given back. Each engine takes, writes and gives back the weights several times over;
 * most of what that costs is pages, which the kernel has to find and to clear.
 *
 *   taken + kept  <=  what was taken at most so far, or what a block needs that none of those kept is for
 *
 * Not by large pages: a host that has its guests report free memory takes those back, and it costs more to have them again. Any thread.
 */
#ifndef LOADER_BLOCKS_H
#define LOADER_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>

enum { BLOCKS_ALIGN_BYTES = 4 << 10 };

/* Its contents are anything. NULL: it is too small for one, or there is none. */
void *blocks_take(size_t bytes);

/* False: it is none. */
bool blocks_give(void *block);

/* 0: it is none. */
size_t blocks_room(const void *block);

/* Given back and not taken since. */
size_t blocks_kept_bytes(void);

/* Those kept go back to the kernel. False: there was none. */
bool blocks_drop(void);

#endif
