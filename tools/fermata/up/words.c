#include "fermata/up/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void words_init(words_t *words)
{
    *words = (words_t){.len = 0};
}

void words_dispose(words_t *words)
{
    for (size_t i = 0; i < words->len; i++)
        free(words->items[i]);
    words_init(words);
}

void words_add(words_t *words, const char *fmt, ...)
{
    char *word;
    va_list args;
    va_start(args, fmt);
    int n = words->len < WORDS_MAX ? vasprintf(&word, fmt, args) : -1;
    va_end(args);
    if (n < 0) {
        words->failed = true;
        return;
    }
    words->items[words->len++] = word;
}
