#include "base/mapped.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- Pages that are not there ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct sigaction before;   /* what a SIGBUS did */
static uintptr_t page_bytes;      /* read by the handler, as are those below */
static _Atomic(uint32_t) watches; /* files open here, and calls of libraries */
static _Atomic(uint64_t) lost;    /* pages */

/* mmap is no more than a system call, which a handler may make. */
static bool put_zeros(const void *at)
{
    void *page = (void *)((uintptr_t)at & ~(page_bytes - 1));

    return mmap(page, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
           page;
}

/* A plug-in has a copy of this file, and its handler in front of the program's. Others act when the access is made again. */
static void do_as_before(int signum, siginfo_t *info, void *context)
{
    if (before.sa_flags & (int)SA_SIGINFO)
        before.sa_sigaction(signum, info, context);
    else
        (void)sigaction(signum, &before, NULL);
}

/* Returned from, the access is made again: to the page of zeros, or to what ends the process. */
static void on_missing_page(int signum, siginfo_t *info, void *context)
{
    int kept = errno;

    if (info->si_code == BUS_ADRERR && atomic_load(&watches) > 0 && put_zeros(info->si_addr))
        atomic_fetch_add(&lost, 1);
    else
        do_as_before(signum, info, context);
    errno = kept;
}

static void install(void)
{
    struct sigaction action = {.sa_sigaction = on_missing_page, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGBUS, &action, &before);
}

static void watch_pages(void)
{
    (void)pthread_once(&once, install);
    atomic_fetch_add(&watches, 1);
}

static void unwatch_pages(void)
{
    atomic_fetch_sub(&watches, 1);
}

/* ---- A file ---- */

/* Shared, which tells it from what a library maps; some file systems have no such mapping of files that they do not keep in memory. */
static void *map_bytes(int fd, size_t len_bytes)
{
    void *at = mmap(NULL, len_bytes, PROT_READ, MAP_SHARED, fd, 0);

    return at != MAP_FAILED || errno != ENODEV ? at : mmap(NULL, len_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
}

static status_t map(int fd, const char *path, mapped_t *mapped, err_t *err)
{
    if (fstat(fd, &mapped->about) != 0)
        return err_set(err, STATUS_IO, "%.300s: %m", path);
    if (mapped->about.st_size == 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%.300s is empty", path);
    mapped->len_bytes = (size_t)mapped->about.st_size;
    void *at = map_bytes(fd, mapped->len_bytes);
    if (at == MAP_FAILED)
        return err_set(err, STATUS_IO, "%.300s: %m", path);
    mapped->bytes = at;
    return STATUS_OK;
}

status_t mapped_open(const char *path, mapped_t *mapped, err_t *err)
{
    int fd;
    status_t status = file_open(path, &fd, err);

    if (status != STATUS_OK)
        return status;
    status = map(fd, path, mapped, err);
    close(fd);
    if (status == STATUS_OK)
        watch_pages();
    return status;
}

void mapped_close(mapped_t *mapped)
{
    (void)munmap((void *)(uintptr_t)mapped->bytes, mapped->len_bytes);
    unwatch_pages();
    *mapped = (mapped_t){.bytes = NULL};
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* The time of its last change cannot be set by whoever changes it. */
status_t mapped_check(const struct stat *then, const char *path, err_t *err)
{
    struct stat now;

    if (stat(path, &now) != 0)
        return err_set(err, STATUS_IO, "%.300s: %m", path);
    if (now.st_dev == then->st_dev && now.st_ino == then->st_ino && now.st_size == then->st_size &&
        same_time(&now.st_mtim, &then->st_mtim) && same_time(&now.st_ctim, &then->st_ctim))
        return STATUS_OK;
    return err_set(err, STATUS_IO, "%.300s was changed while it was read", path);
}

/* ---- Mappings of a library ---- */

/* A line of /proc/self/maps. */
typedef struct {
    uintptr_t begin, end;
    uint64_t offset;
    char flags[8];
    const char *path; /* "": of no file */
} region_t;

static bool parse(char *line, region_t *region)
{
    int path = 0;

    line[strcspn(line, "\n")] = '\0';
    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %7s %" SCNx64 " %*s %*u %n", &region->begin, &region->end,
               region->flags, &region->offset, &path) < 4 ||
        !path)
        return false;
    region->path = line + path;
    return true;
}

/* Not programs, and not what is shared with whoever else has the file. */
static bool is_data_of(const region_t *region, const char *folder, size_t folder_len)
{
    return region->flags[0] == 'r' && region->flags[2] == '-' && region->flags[3] == 'p' &&
           strncmp(region->path, folder, folder_len) == 0 && region->path[folder_len] == '/';
}

/* A page that its file has no more is one of zeros by then. */
static status_t make_own(const region_t *region, err_t *err)
{
    size_t len = region->end - region->begin;
    void *there = (void *)region->begin;
    void *copy = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (copy == MAP_FAILED)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %zu bytes of %.200s", len, region->path);
    memcpy(copy, there, len);
    if (mprotect(copy, len, region->flags[1] == 'w' ? PROT_READ | PROT_WRITE : PROT_READ) == 0 &&
        mremap(copy, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, there) == there)
        return STATUS_OK;
    err_set(err, STATUS_IO, "%.200s: %m", region->path);
    (void)munmap(copy, len);
    return STATUS_IO;
}

/* While it is read on, what changes keeps its addresses. */
static status_t make_all_own(const char *folder, err_t *err)
{
    size_t folder_len = strlen(folder), room = 0;
    char *line = NULL;
    region_t region;
    FILE *maps;
    status_t status = file_open_stream("/proc/self/maps", SIZE_MAX, &maps, err);

    if (status != STATUS_OK)
        return status;
    while (status == STATUS_OK && getline(&line, &room, maps) >= 0)
        if (parse(line, &region) && is_data_of(&region, folder, folder_len))
            status = make_own(&region, err);
    free(line);
    fclose(maps);
    return status;
}

void mapped_begin(mapped_watch_t *watch)
{
    watch_pages();
    watch->lost = atomic_load(&lost);
}

status_t mapped_end(const mapped_watch_t *watch, const char *folder, err_t *err)
{
    status_t status = folder ? make_all_own(folder, err) : STATUS_OK;

    if (status == STATUS_OK && atomic_load(&lost) != watch->lost)
        status = err_set(err, STATUS_IO, "%.300s: a file was cut short while it was read",
                         folder ? folder : "the model");
    unwatch_pages();
    return status;
}
