#include "config/suggest.h"

#include <stdio.h>
#include <string.h>

enum { NAME_MAX_BYTES = 64 };

static size_t least(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;
    return m < c ? m : c;
}

/* Levenshtein's distance, one row at a time. Long names count as far away. */
static size_t distance(const char *a, const char *b)
{
    size_t row[NAME_MAX_BYTES + 1], b_len = strlen(b);
    if (b_len > NAME_MAX_BYTES || strlen(a) > NAME_MAX_BYTES)
        return NAME_MAX_BYTES;
    for (size_t j = 0; j <= b_len; j++)
        row[j] = j;
    for (size_t i = 0; a[i] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < b_len; j++) {
            size_t above = row[j + 1];
            row[j + 1] = least(above + 1, row[j] + 1, diagonal + (a[i] != b[j]));
            diagonal = above;
        }
    }
    return row[b_len];
}

const char *suggest_name(const char *text, const char *const *names)
{
    const char *best = NULL;
    size_t best_distance = 3;
    for (; *names; names++) {
        size_t d = distance(text, *names);
        if (d < best_distance && d < strlen(*names)) {
            best_distance = d;
            best = *names;
        }
    }
    return best;
}

char *suggest_list(const char *const *names, char *buf, size_t buf_bytes)
{
    static const char more[] = ", …";
    size_t len = 0;
    buf[0] = '\0';
    for (size_t i = 0; names[i]; i++) {
        size_t need = strlen(names[i]) + (i > 0 ? 2 : 0);
        if (len + need + sizeof more > buf_bytes) {
            if (len + sizeof more <= buf_bytes)
                memcpy(buf + len, i > 0 ? more : more + 2, sizeof more - (i > 0 ? 0 : 2));
            break;
        }
        len += (size_t)snprintf(buf + len, buf_bytes - len, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    return buf;
}
