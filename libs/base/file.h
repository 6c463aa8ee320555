/*
 * Files that somebody else may have put there: in a repository that is shared, beside a configuration, in a folder for all.
 *
 * Read is a regular file and nothing else, those of /proc and /sys included, through symbolic links. A FIFO, a socket, a device or
 * a folder is INVALID_ARGUMENT with its path and what it is, at once: nobody waits for its writer. Only a descriptor that the
 * program was started with and that is named as one ("/dev/stdin", "/dev/fd/63") is taken as it is, so that a shell's <(command)
 * goes on working; a file cannot lead there by a link of its own.
 *
 * Written is a file under a name that nobody can have guessed and nothing that was there before is written through; it takes its
 * place when it is whole.
 *
 * Every error begins with the path. NOT_FOUND: there is none; IO: the operating system said no. Any thread; blocking.
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/status.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

/* ---- reading; what is opened is the caller's to close ---- */

status_t file_open(const char *path, int *fd, err_t *err);
/* TOO_LARGE: it says that it has more than bytes_max. */
status_t file_open_stream(const char *path, size_t bytes_max, FILE **file, err_t *err);

/* Whether file_open takes it: for a path that a foreign library is to open. */
status_t file_check(const char *path, err_t *err);

/*
 * The whole of a file of at most bytes_max, with a NUL behind it, for the caller to free; TOO_LARGE otherwise. No other copy of it
 * is left in memory, so a caller who wipes it has wiped a secret. The second reads on from where an open one stands.
 */
status_t file_read(const char *path, size_t bytes_max, char **text, size_t *len_bytes, err_t *err);
status_t file_read_open(int fd, const char *path, size_t bytes_max, char **text, size_t *len_bytes,
                        err_t *err);

/* ---- writing ---- */

typedef enum {
    FILE_REPLACE, /* whatever has the name by then goes, but a folder */
    FILE_CREATE,  /* INVALID_ARGUMENT where something has the name already */
} file_how_t;

typedef struct {
    FILE *file; /* to be written to between begin and end */
    char path[PATH_MAX];
    char made[PATH_MAX]; /* its name until it is whole; created under its own: the same */
} file_writer_t;

/* mode: as open(2) has it, less the umask. */
status_t file_write_begin(file_writer_t *writer, const char *path, file_how_t how, mode_t mode, err_t *err);

/*
 * Once after a good begin. written: the caller has all of it in; what the stream has swallowed is found here. Forces it to disk
 * and puts it in place, or else removes it.
 */
status_t file_write_end(file_writer_t *writer, bool written, err_t *err);

/* All at once. */
status_t file_write(const char *path, file_how_t how, mode_t mode, const void *bytes, size_t len_bytes,
                    err_t *err);

/*
 * A regular file to add to, created where there is none. A symbolic link may lead to a device (a log at /dev/null) and to nothing
 * else: IO, where it does.
 */
status_t file_append(const char *path, mode_t mode, int *fd, err_t *err);

#endif
