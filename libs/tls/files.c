/* Files of certificates and keys: read whole, and told apart by when they changed. */
#include "base/clock.h"
#include "tls/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_BYTES_MAX = 1 << 20 }; /* all authorities of a Linux are 220 KB */

void tls_stamp_of(const char *path, tls_stamp_t *stamp)
{
    struct stat st;
    *stamp = (tls_stamp_t){0};
    if (!path || stat(path, &st) != 0)
        return;
    *stamp = (tls_stamp_t){.changed_ns = (int64_t)st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec,
                           .size = (uint64_t)st.st_size,
                           .inode = st.st_ino};
}

static status_t read_whole(int fd, char *text, size_t *len)
{
    for (*len = 0; *len <= FILE_BYTES_MAX;) {
        ssize_t got = read(fd, text + *len, FILE_BYTES_MAX + 1 - *len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return STATUS_IO;
        if (got == 0)
            return STATUS_OK;
        *len += (size_t)got;
    }
    return STATUS_TOO_LARGE;
}

status_t tls_read_file(const char *path, const char *what, char **text, err_t *err)
{
    size_t len;
    *text = NULL;
    if (!path)
        return STATUS_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "cannot read the %s %s: %s", what, path,
                       strerror(errno));
    char *room = malloc(FILE_BYTES_MAX + 2), *fitting = NULL;
    status_t status = room ? read_whole(fd, room, &len) : STATUS_NO_MEMORY;
    if (status == STATUS_IO)
        status =
            err_set(err, STATUS_INVALID_ARGUMENT, "cannot read the %s %s: %s", what, path, strerror(errno));
    else if (status == STATUS_TOO_LARGE)
        status = err_set(err, STATUS_INVALID_ARGUMENT, "the %s %s is larger than 1 MiB", what, path);
    else if (status == STATUS_OK)
        fitting = calloc(1, len + 1);
    if (status == STATUS_NO_MEMORY || (status == STATUS_OK && !fitting))
        status = err_set(err, STATUS_NO_MEMORY, "no memory for the %s %s", what, path);
    if (fitting)
        *text = memcpy(fitting, room, len);
    if (room)
        explicit_bzero(room, FILE_BYTES_MAX + 2);
    free(room);
    close(fd);
    return status;
}
