/* Files of certificates and keys: read whole, and told apart by when they changed. */
#include "base/clock.h"
#include "base/file.h"
#include "tls/internal.h"

#include <sys/stat.h>

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

status_t tls_read_file(const char *path, const char *what, char **text, err_t *err)
{
    size_t len;
    *text = NULL;
    if (!path)
        return STATUS_OK;
    err_t why;
    status_t status = file_read(path, FILE_BYTES_MAX, text, &len, &why);
    if (status == STATUS_OK || status == STATUS_NO_MEMORY)
        return status == STATUS_OK ? STATUS_OK : err_set(err, status, "%s", why.text);
    return err_set(err, STATUS_INVALID_ARGUMENT, "cannot read the %s %s", what, why.text);
}
