#include "loader/lack.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic(uint64_t) lacked;

uint64_t lack_bytes(void)
{
    return atomic_load(&lacked);
}

void lack_forget(void)
{
    atomic_store(&lacked, 0);
}

/* Sanitizers have allocators of their own, and no limit (confine.h). */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

/* What glibc calls its own, which those below stand in front of. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);

static void *noted(void *got, size_t bytes)
{
    uint64_t none = 0;

    if (!got && bytes > 0)
        atomic_compare_exchange_strong(&lacked, &none, bytes);
    return got;
}

void *malloc(size_t bytes)
{
    return noted(__libc_malloc(bytes), bytes);
}

void *calloc(size_t count, size_t bytes)
{
    size_t all;

    return noted(__libc_calloc(count, bytes), __builtin_mul_overflow(count, bytes, &all) ? SIZE_MAX : all);
}

void *realloc(void *old, size_t bytes)
{
    return noted(__libc_realloc(old, bytes), bytes);
}

void *memalign(size_t align, size_t bytes)
{
    return noted(__libc_memalign(align, bytes), bytes);
}

void *aligned_alloc(size_t align, size_t bytes)
{
    return noted(__libc_memalign(align, bytes), bytes);
}

int posix_memalign(void **to, size_t align, size_t bytes)
{
    void *got = noted(__libc_memalign(align, bytes), bytes);

    if (!got && bytes > 0)
        return ENOMEM;
    *to = got;
    return 0;
}

/* Allocators of libraries ask the kernel themselves. */
void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    void *got = (void *)syscall(SYS_mmap, at, bytes, prot, flags, fd, offset);

    if (got == MAP_FAILED && errno == ENOMEM)
        noted(NULL, bytes);
    return got;
}

void *mmap64(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    return mmap(at, bytes, prot, flags, fd, offset);
}

#endif
