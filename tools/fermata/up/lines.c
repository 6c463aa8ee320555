#include "fermata/up/lines.h"

#include <string.h>

void lines_init(lines_t *lines, lines_fn_t fn, void *arg)
{
    lines->len = 0;
    lines->fn = fn;
    lines->arg = arg;
}

static void give(lines_t *lines)
{
    if (lines->len > 0 && lines->text[lines->len - 1] == '\r')
        lines->len--;
    lines->text[lines->len] = '\0';
    lines->len = 0;
    lines->fn(lines->arg, lines->text);
}

void lines_feed(lines_t *lines, const char *data, size_t len_bytes)
{
    for (size_t i = 0; i < len_bytes; i++) {
        if (data[i] == '\n') {
            give(lines);
            continue;
        }
        if (lines->len == LINES_MAX_BYTES)
            give(lines);
        lines->text[lines->len++] = data[i];
    }
}

void lines_end(lines_t *lines)
{
    if (lines->len > 0)
        give(lines);
}
