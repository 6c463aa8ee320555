/*
 * Where a program's log goes when a person looks at its screen: to files in a folder, so that the screen stays calm. Who
 * collects a program's stderr, as a service manager does, gets the log there.
 */
#ifndef SCREEN_LOG_FOLDER_H
#define SCREEN_LOG_FOLDER_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* The choices of an option `log_to`: auto is file where stderr is a terminal or a folder is named, else stderr. */
typedef enum { LOG_TO_AUTO, LOG_TO_STDERR, LOG_TO_FILE } log_to_t;
extern const char *const log_to_choices[];

bool log_folder_is_wanted(log_to_t to, const char *named);

/* path: the named folder, or else (NULL) a new one of our own, "fermata-NAME-…" below $TMPDIR or /tmp. */
status_t log_folder_find(const char *name, const char *named, char *path, size_t path_bytes, err_t *err);

/* Lets stderr go to FOLDER/NAME.log, to whose end it is added. *kept: stderr as it was, to be closed by the caller. */
status_t log_folder_enter(const char *folder, const char *name, int *kept, err_t *err);

#endif
