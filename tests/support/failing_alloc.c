#include "failing_alloc.h"

#include <stdlib.h>
#include <string.h>

static _Thread_local struct {
    bool armed, failed;
    alloc_kind_t kind;
    size_t bytes;
} next;

void alloc_fail_next(alloc_kind_t kind, size_t bytes)
{
    next.armed = true;
    next.failed = false;
    next.kind = kind;
    next.bytes = bytes;
}

bool alloc_has_failed(void)
{
    next.armed = false;
    return next.failed;
}

static bool fails(alloc_kind_t kind, size_t bytes)
{
    if (!next.armed || next.kind != kind || (next.bytes != 0 && next.bytes != bytes))
        return false;
    next.armed = false;
    next.failed = true;
    return true;
}

/* What the linker calls them (--wrap). */
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t bytes)
{
    return fails(ALLOC_MALLOC, bytes) ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return fails(ALLOC_CALLOC, count * bytes) ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    return fails(ALLOC_REALLOC, bytes) ? NULL : __real_realloc(old, bytes);
}

char *__wrap_strdup(const char *text)
{
    return fails(ALLOC_STRDUP, strlen(text) + 1) ? NULL : __real_strdup(text);
}
