#include "base/wrap.h"

#include <stdbool.h>
#include <string.h>

void wrap_indent(strbuf_t *out, size_t from, size_t to)
{
    for (; from < to; from++)
        strbuf_putc(out, ' ');
}

void wrap_words(strbuf_t *out, const char *text, size_t indent, size_t *column)
{
    while (*text != '\0') {
        size_t word = strcspn(text, " ");
        bool first = *column == indent;
        if (!first && *column + 1 + word > WRAP_COLUMNS) {
            strbuf_putc(out, '\n');
            wrap_indent(out, 0, indent);
            *column = indent;
            first = true;
        }
        if (!first)
            strbuf_putc(out, ' ');
        strbuf_append(out, text, word);
        *column += word + !first;
        text += word;
        text += strspn(text, " ");
    }
}

void wrap_entry(strbuf_t *out, const char *left, size_t indent, const char *text, const char *details)
{
    strbuf_printf(out, "  %s", left);
    size_t column = strlen(left) + 2;
    if (column + 2 > indent) {
        strbuf_putc(out, '\n');
        column = 0;
    }
    wrap_indent(out, column, indent);
    column = indent;
    wrap_words(out, text, indent, &column);
    wrap_words(out, details, indent, &column);
    strbuf_putc(out, '\n');
}
