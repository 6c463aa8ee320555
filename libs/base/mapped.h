/*
 * Files that are mapped to be read, while somebody else may cut them short or write over them.
 *
 * To touch a page that its file has no more is a SIGBUS. From the first mapped_open or mapped_begin on this process has a handler for
 * it: while a file is open here, or between begin and end, such a page becomes one of zeros and is counted, and whoever asks is told
 * that the file is another one by now. At any other time the signal does what it did before.
 *
 * Any thread; blocking. IO: the operating system said no, or the file was written to meanwhile.
 */
#ifndef BASE_MAPPED_H
#define BASE_MAPPED_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

typedef struct {
    const uint8_t *bytes;
    size_t len_bytes;
    struct stat about; /* when it was opened */
} mapped_t;

/* As file_open takes it; INVALID_ARGUMENT, too: it is empty. */
status_t mapped_open(const char *path, mapped_t *mapped, err_t *err);
void mapped_close(mapped_t *mapped);

/* IO: the path names another file than then (mapped_t.about), or it was written to: what was read of it is not to be relied on. */
status_t mapped_check(const struct stat *then, const char *path, err_t *err);

/* ---- by a library ---- */

/*
 * Around a call that maps files of a folder by itself, and keeps them mapped. What it keeps is then memory of this process's own, at
 * the same addresses: nobody who writes to a file changes a model that is served, or ends the process. NULL: there is no such folder.
 * NO_MEMORY, or IO: a page was missing; what the library made is to be thrown away.
 */
typedef struct {
    uint64_t lost; /* pages, before */
} mapped_watch_t;

void mapped_begin(mapped_watch_t *watch);
status_t mapped_end(const mapped_watch_t *watch, const char *folder, err_t *err);

#endif
