/*
 * Memory that runs out where a test wants it. Link a test with `failing_alloc`: the allocations of the libraries under
 * test, not those of shared ones, then come here first. Of one thread only.
 */
#ifndef TEST_FAILING_ALLOC_H
#define TEST_FAILING_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

typedef enum { ALLOC_MALLOC, ALLOC_CALLOC, ALLOC_REALLOC, ALLOC_STRDUP } alloc_kind_t;

/* The next call of this kind by this thread fails, once. bytes: only one for so many; 0: any. */
void alloc_fail_next(alloc_kind_t kind, size_t bytes);

/* Whether it has come; false: disarms it, for there was no such call. */
bool alloc_has_failed(void);

#endif
