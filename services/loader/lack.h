/*
 * Which allocation failed. Libraries that find no memory say many things (a status without the word, an exception that nobody catches, a pointer
 * that they do not look at): so the allocator itself is asked. Any thread.
 */
#ifndef LOADER_LACK_H
#define LOADER_LACK_H

#include <stdint.h>

/* Bytes of the first one that failed since lack_forget; 0: none did. */
uint64_t lack_bytes(void);
void lack_forget(void);

#endif
