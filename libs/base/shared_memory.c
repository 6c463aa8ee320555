#include "base/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

status_t shared_memory_create(const char *name, size_t len_bytes, void **base, int *fd, err_t *err)
{
    int made = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (made < 0 || ftruncate(made, (off_t)len_bytes) != 0 ||
        fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        goto failed;
    void *at = mmap(NULL, len_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, made, 0);
    if (at == MAP_FAILED)
        goto failed;
    *base = at;
    *fd = made;
    return STATUS_OK;

failed:
    err_set(err, STATUS_NO_MEMORY, "no shared memory of %zu bytes: %s", len_bytes, strerror(errno));
    if (made >= 0)
        close(made);
    return STATUS_NO_MEMORY;
}

int shared_memory_reader(int fd)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_RDONLY | O_CLOEXEC);
}

status_t shared_memory_map(int fd, size_t len_bytes, bool writable, void **base, err_t *err)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK))
        return err_set(err, STATUS_INVALID_ARGUMENT, "what was handed over is not sealed shared memory");
    if (len_bytes == 0 || fstat(fd, &st) != 0 || (uint64_t)st.st_size < len_bytes)
        return err_set(err, STATUS_INVALID_ARGUMENT, "the shared memory is shorter than %zu bytes",
                       len_bytes);
    void *at = mmap(NULL, len_bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return err_set(err, STATUS_NO_MEMORY, "cannot map %zu bytes of shared memory: %s", len_bytes,
                       strerror(errno));
    *base = at;
    return STATUS_OK;
}
