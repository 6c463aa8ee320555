/* Cuts a stream of bytes into lines. A line longer than the buffer is given out in pieces. */
#ifndef FERMATA_UP_LINES_H
#define FERMATA_UP_LINES_H

#include <stddef.h>

enum { LINES_MAX_BYTES = 8192 }; /* twice our own longest log line */

typedef void (*lines_fn_t)(void *arg, const char *line); /* without the newline */

typedef struct {
    char text[LINES_MAX_BYTES + 1];
    size_t len;
    lines_fn_t fn;
    void *arg;
} lines_t;

void lines_init(lines_t *lines, lines_fn_t fn, void *arg);
void lines_feed(lines_t *lines, const char *data, size_t len_bytes);
void lines_end(lines_t *lines); /* gives out a last line that has no newline */

#endif
