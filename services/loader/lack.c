#include "loader/lack.h"

#include "loader/blocks.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
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
void __libc_free(void *old);

static void *noted(void *got, size_t bytes)
{
    uint64_t none = 0;

    if (!got && bytes > 0)
        atomic_compare_exchange_strong(&lacked, &none, bytes);
    return got;
}

/* What the allocator has no memory for it may have without the blocks that are kept. */
#define WITH_BLOCKS_DROPPED(got, again, bytes) \
    noted((got) || (bytes) == 0 || !blocks_drop() ? (got) : (again), bytes)

void *malloc(size_t bytes)
{
    void *got = blocks_take(bytes);

    if (!got)
        got = __libc_malloc(bytes);
    return WITH_BLOCKS_DROPPED(got, __libc_malloc(bytes), bytes);
}

/* Zeros are what the kernel has: no block, which may have been used. */
void *calloc(size_t count, size_t bytes)
{
    size_t all;
    void *got = __libc_calloc(count, bytes);

    if (__builtin_mul_overflow(count, bytes, &all))
        all = SIZE_MAX;
    return WITH_BLOCKS_DROPPED(got, __libc_calloc(count, bytes), all);
}

static void *move(void *old, size_t room, size_t bytes)
{
    void *got = malloc(bytes);

    if (!got)
        return NULL;
    memcpy(got, old, room < bytes ? room : bytes);
    free(old);
    return got;
}

void *realloc(void *old, size_t bytes)
{
    size_t room = blocks_room(old);

    if (room)
        return bytes > 0 && bytes <= room && bytes >= room / 2 ? old : move(old, room, bytes ? bytes : 1);
    void *got = __libc_realloc(old, bytes);
    return WITH_BLOCKS_DROPPED(got, __libc_realloc(old, bytes), bytes);
}

void free(void *old)
{
    if (!blocks_give(old))
        __libc_free(old);
}

size_t malloc_usable_size(void *of)
{
    static size_t (*libc)(void *);
    size_t room = blocks_room(of);

    if (room)
        return room;
    if (!libc)
        libc = (size_t(*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
    return libc(of);
}

void *memalign(size_t align, size_t bytes)
{
    void *got = align <= BLOCKS_ALIGN_BYTES ? blocks_take(bytes) : NULL;

    if (!got)
        got = __libc_memalign(align, bytes);
    return WITH_BLOCKS_DROPPED(got, __libc_memalign(align, bytes), bytes);
}

void *aligned_alloc(size_t align, size_t bytes)
{
    return memalign(align, bytes);
}

int posix_memalign(void **to, size_t align, size_t bytes)
{
    void *got = memalign(align, bytes);

    if (!got && bytes > 0)
        return ENOMEM;
    *to = got;
    return 0;
}

/* Allocators of libraries ask the kernel themselves. */
void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    void *got = (void *)syscall(SYS_mmap, at, bytes, prot, flags, fd, offset);

    if (got == MAP_FAILED && errno == ENOMEM && blocks_drop())
        got = (void *)syscall(SYS_mmap, at, bytes, prot, flags, fd, offset);
    if (got == MAP_FAILED && errno == ENOMEM)
        noted(NULL, bytes);
    return got;
}

void *mmap64(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    return mmap(at, bytes, prot, flags, fd, offset);
}

#endif
