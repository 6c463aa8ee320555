/* The words of a command line, as they are put together for a child. */
#ifndef FERMATA_UP_WORDS_H
#define FERMATA_UP_WORDS_H

#include <stdbool.h>
#include <stddef.h>

enum { WORDS_MAX = 128 }; /* the flags that we pass, and room for the user's own */

typedef struct {
    char *items[WORDS_MAX + 1]; /* NULL-terminated */
    size_t len;
    bool failed; /* out of memory or of room */
} words_t;

void words_init(words_t *words);
void words_dispose(words_t *words);
void words_add(words_t *words, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
