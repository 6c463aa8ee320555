#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- opening ---- */

static const char *kind_of(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFIFO:
        return "a FIFO";
    case S_IFSOCK:
        return "a socket";
    case S_IFDIR:
        return "a folder";
    default:
        return "a device";
    }
}

static status_t no_access(const char *path, err_t *err)
{
    return err_set(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "%.300s: %s", path, strerror(errno));
}

static status_t too_large(const char *path, size_t bytes_max, err_t *err)
{
    return err_set(err, STATUS_TOO_LARGE, "%.300s: over %zu bytes", path, bytes_max);
}

static status_t check_kind(const struct stat *about, const char *path, err_t *err)
{
    if (S_ISREG(about->st_mode))
        return STATUS_OK;
    return err_set(err, STATUS_INVALID_ARGUMENT, "%.300s: %s, not a regular file", path,
                   kind_of(about->st_mode));
}

/* By its name as given, not where a link leads: who writes into a repository cannot point a reader at our stdin. */
static bool is_handed_over(const char *path)
{
    return strcmp(path, "/dev/stdin") == 0 || strncmp(path, "/dev/fd/", strlen("/dev/fd/")) == 0;
}

/* Opened without waiting; from here on reads wait, as they do of any file. */
static status_t settle(int fd, const char *path, err_t *err)
{
    struct stat about;
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fstat(fd, &about) != 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0)
        return no_access(path, err);
    return check_kind(&about, path, err);
}

status_t file_open(const char *path, int *fd, err_t *err)
{
    bool handed = is_handed_over(path);
    struct stat about;

    /* Before it is opened, as some devices act on that, and a socket does not open at all. */
    if (stat(path, &about) != 0)
        return no_access(path, err);
    status_t status = handed ? STATUS_OK : check_kind(&about, path, err);
    if (status != STATUS_OK)
        return status;
    int opened = open(path, O_RDONLY | O_CLOEXEC | (handed ? 0 : O_NONBLOCK));
    if (opened < 0)
        return no_access(path, err);
    status = handed ? STATUS_OK : settle(opened, path, err); /* it may be another by now */
    if (status == STATUS_OK)
        *fd = opened;
    else
        close(opened);
    return status;
}

static status_t check_size(int fd, const char *path, size_t bytes_max, err_t *err)
{
    struct stat about;

    if (fstat(fd, &about) != 0)
        return no_access(path, err);
    return (uintmax_t)about.st_size > bytes_max ? too_large(path, bytes_max, err) : STATUS_OK;
}

status_t file_open_stream(const char *path, size_t bytes_max, FILE **file, err_t *err)
{
    int fd;
    status_t status = file_open(path, &fd, err);

    if (status != STATUS_OK)
        return status;
    status = check_size(fd, path, bytes_max, err);
    FILE *stream = status == STATUS_OK ? fdopen(fd, "r") : NULL;
    if (stream)
        *file = stream;
    else
        close(fd);
    if (status == STATUS_OK && !stream)
        status = err_set(err, STATUS_NO_MEMORY, "%.300s: no memory", path);
    return status;
}

status_t file_check(const char *path, err_t *err)
{
    int fd;
    status_t status = file_open(path, &fd, err);

    if (status == STATUS_OK)
        close(fd);
    return status;
}

/* ---- reading ---- */

/* To the end, or until all the room is full. */
static status_t fill(int fd, char *room, size_t room_bytes, size_t *len_bytes)
{
    for (*len_bytes = 0; *len_bytes < room_bytes;) {
        ssize_t got = read(fd, room + *len_bytes, room_bytes - *len_bytes);
        if (got < 0 && errno != EINTR)
            return STATUS_IO;
        if (got == 0)
            break;
        if (got > 0)
            *len_bytes += (size_t)got;
    }
    return STATUS_OK;
}

static status_t fit(const char *room, size_t len_bytes, const char *path, char **text, err_t *err)
{
    char *fitting = malloc(len_bytes + 1);

    if (!fitting)
        return err_set(err, STATUS_NO_MEMORY, "%.300s: no memory", path);
    memcpy(fitting, room, len_bytes);
    fitting[len_bytes] = '\0';
    *text = fitting;
    return STATUS_OK;
}

/* The size that a file claims is none to rely on: those of /proc claim 0, and others grow. */
status_t file_read_open(int fd, const char *path, size_t bytes_max, char **text, size_t *len_bytes,
                        err_t *err)
{
    char *room = malloc(bytes_max + 1);
    size_t len = 0;

    if (!room)
        return err_set(err, STATUS_NO_MEMORY, "%.300s: no memory", path);
    status_t status = fill(fd, room, bytes_max + 1, &len);
    if (status != STATUS_OK)
        err_set(err, status, "%.300s: %s", path, strerror(errno));
    else if (len > bytes_max)
        status = too_large(path, bytes_max, err);
    else
        status = fit(room, len, path, text, err);
    if (status == STATUS_OK)
        *len_bytes = len;
    explicit_bzero(room, len);
    free(room);
    return status;
}

status_t file_read(const char *path, size_t bytes_max, char **text, size_t *len_bytes, err_t *err)
{
    int fd;
    status_t status = file_open(path, &fd, err);

    if (status != STATUS_OK)
        return status;
    status = file_read_open(fd, path, bytes_max, text, len_bytes, err);
    close(fd);
    return status;
}

/* ---- writing ---- */

static status_t cannot_write(const char *path, err_t *err)
{
    if (errno == EEXIST)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%.300s is there already, and is left as it is", path);
    return err_set(err, STATUS_IO, "%.300s: %s", path, strerror(errno));
}

static bool name_it(file_writer_t *writer, const char *path, file_how_t how)
{
    uint64_t guess = 0;
    int len = snprintf(writer->path, sizeof writer->path, "%s", path);
    int made = snprintf(writer->made, sizeof writer->made, "%s", path);

    if (how == FILE_REPLACE) {
        if (getrandom(&guess, sizeof guess, 0) != sizeof guess)
            return false;
        made = snprintf(writer->made, sizeof writer->made, "%s.%016" PRIx64 ".new", path, guess);
    }
    errno = ENAMETOOLONG;
    return len >= 0 && made >= 0 && (size_t)len < sizeof writer->path && (size_t)made < sizeof writer->made;
}

status_t file_write_begin(file_writer_t *writer, const char *path, file_how_t how, mode_t mode, err_t *err)
{
    if (!name_it(writer, path, how))
        return cannot_write(path, err);
    int fd = open(writer->made, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd < 0)
        return cannot_write(path, err);
    writer->file = fdopen(fd, "w");
    if (writer->file)
        return STATUS_OK;
    close(fd);
    unlink(writer->made);
    return err_set(err, STATUS_NO_MEMORY, "%.300s: no memory", path);
}

status_t file_write_end(file_writer_t *writer, bool written, err_t *err)
{
    written =
        written && !ferror(writer->file) && fflush(writer->file) == 0 && fsync(fileno(writer->file)) == 0;
    int why = errno;
    if (fclose(writer->file) != 0 && written) {
        written = false;
        why = errno;
    }
    writer->file = NULL;
    if (written && (strcmp(writer->made, writer->path) == 0 || rename(writer->made, writer->path) == 0))
        return STATUS_OK;
    errno = written ? errno : why;
    err_set(err, STATUS_IO, "%.300s: %s", writer->path, strerror(errno));
    unlink(writer->made);
    return STATUS_IO;
}

status_t file_write(const char *path, file_how_t how, mode_t mode, const void *bytes, size_t len_bytes,
                    err_t *err)
{
    file_writer_t writer;
    status_t status = file_write_begin(&writer, path, how, mode, err);

    if (status != STATUS_OK)
        return status;
    return file_write_end(&writer, fwrite(bytes, 1, len_bytes, writer.file) == len_bytes, err);
}

/* What is written to a device is in no file: the log of whoever wants none, or a terminal. */
static status_t open_device(const char *path, int *fd, err_t *err)
{
    struct stat about;
    int opened = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);

    if (opened >= 0 && fstat(opened, &about) == 0 && S_ISCHR(about.st_mode) &&
        fcntl(opened, F_SETFL, 0) == 0) {
        *fd = opened;
        return STATUS_OK;
    }
    if (opened >= 0)
        close(opened);
    return err_set(err, STATUS_IO, "%.300s: a symbolic link, which is not written through", path);
}

status_t file_append(const char *path, mode_t mode, int *fd, err_t *err)
{
    int opened = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, mode);

    if (opened < 0 && errno == ELOOP)
        return open_device(path, fd, err);
    if (opened < 0)
        return err_set(err, STATUS_IO, "%.300s: %s", path, strerror(errno));
    status_t status = settle(opened, path, err);
    if (status == STATUS_OK)
        *fd = opened;
    else
        close(opened);
    return status;
}
