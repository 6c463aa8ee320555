#include "screen/log_folder.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const log_to_choices[] = {"auto", "stderr", "file", NULL};

bool log_folder_is_wanted(log_to_t to, const char *named)
{
    return to == LOG_TO_AUTO ? named || isatty(STDERR_FILENO) : to == LOG_TO_FILE;
}

status_t log_folder_find(const char *name, const char *named, char *path, size_t path_bytes, err_t *err)
{
    const char *set = getenv("TMPDIR"), *below = set && set[0] ? set : "/tmp";
    int len = named ? snprintf(path, path_bytes, "%s", named)
                    : snprintf(path, path_bytes, "%s/fermata-%s-XXXXXX", below, name);
    if (len < 0 || (size_t)len >= path_bytes)
        return err_set(err, STATUS_INVALID_ARGUMENT, "the path of the log folder is too long");
    if (!named && !mkdtemp(path))
        return err_set(err, STATUS_IO,
                       "cannot make a folder for logs in %s: %s (--log-to stderr does without)", below,
                       strerror(errno));
    return STATUS_OK;
}

status_t log_folder_enter(const char *folder, const char *name, int *kept, err_t *err)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.log", folder, name);
    int fd, before = -1;
    err_t why;
    if (file_append(path, 0644, &fd, &why) != STATUS_OK)
        return err_set(err, why.code, "cannot write %s", why.text);
    before = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (before < 0 || dup2(fd, STDERR_FILENO) < 0)
        goto failed;
    close(fd);
    *kept = before;
    return STATUS_OK;
failed:
    err_set(err, STATUS_IO, "cannot write %s: %s", path, strerror(errno));
    if (before >= 0)
        close(before);
    close(fd);
    return STATUS_IO;
}
