#include "screen/table.h"

#include "screen/screen.h"

#include <limits.h>
#include <string.h>

enum { GAP = 2, NOTE_INDENT = 2, TEXTS_MAX_BYTES = 16 << 20 };

void table_init(table_t *table, const table_column_t *columns, unsigned count)
{
    *table = (table_t){.columns = columns, .count = count};
    strbuf_init(&table->texts, TEXTS_MAX_BYTES);
}

void table_dispose(table_t *table)
{
    strbuf_dispose(&table->texts);
}

void table_cell(table_t *table, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    strbuf_vprintf(&table->texts, format, args);
    va_end(args);
    strbuf_putc(&table->texts, '\0');
}

void table_end_row(table_t *table, const char *note)
{
    strbuf_puts(&table->texts, note);
    strbuf_putc(&table->texts, '\0');
}

static unsigned width_of(const char *text)
{
    unsigned used;
    screen_fit(text, UINT_MAX, &used);
    return used;
}

static const char *after(const char *text)
{
    return text + strlen(text) + 1;
}

/* How wide each column is; 0 where there are rows and it holds nothing of them. */
static void measure(const table_t *table, unsigned width[TABLE_COLUMNS_MAX])
{
    const char *end = table->texts.data + table->texts.len_bytes;
    for (unsigned c = 0; c < table->count; c++)
        width[c] = 0;
    for (const char *text = table->texts.data; text < end; text = after(text))
        for (unsigned c = 0; c < table->count; c++, text = after(text))
            if (width_of(text) > width[c])
                width[c] = width_of(text);
    for (unsigned c = 0; c < table->count; c++)
        if ((width[c] > 0 || table->texts.len_bytes == 0) && width_of(table->columns[c].heading) > width[c])
            width[c] = width_of(table->columns[c].heading);
}

/* How many of the columns have room; the first always. */
static unsigned count_shown(const table_t *table, const unsigned width[TABLE_COLUMNS_MAX], unsigned room)
{
    unsigned shown = 0, used = 0;
    for (; shown < table->count; shown++) {
        used += width[shown] > 0 ? width[shown] + (used > 0 ? GAP : 0) : 0;
        if (shown > 0 && room != TABLE_ALL && used > room)
            break;
    }
    return shown;
}

static void add_spaces(unsigned count, strbuf_t *out)
{
    strbuf_printf(out, "%*s", (int)count, "");
}

/* *due: blanks that are owed before the next text, so that no line ends with any. */
static void add_cell(const char *text, const table_column_t *column, unsigned width, unsigned *due,
                     strbuf_t *out)
{
    unsigned rest = width - width_of(text);
    if (text[0] != '\0') {
        add_spaces(*due + (column->number ? rest : 0), out);
        strbuf_puts(out, text);
        *due = 0;
    }
    *due += GAP + (text[0] == '\0' ? width : column->number ? 0 : rest);
}

static void add_headings(const table_t *table, const unsigned width[TABLE_COLUMNS_MAX], unsigned shown,
                         strbuf_t *out)
{
    unsigned due = 0;
    for (unsigned c = 0; c < shown; c++)
        if (width[c] > 0)
            add_cell(table->columns[c].heading, &table->columns[c], width[c], &due, out);
    strbuf_putc(out, '\n');
}

void table_print(const table_t *table, unsigned room, strbuf_t *out)
{
    unsigned width[TABLE_COLUMNS_MAX];
    const char *end = table->texts.data + table->texts.len_bytes;
    measure(table, width);
    unsigned shown = count_shown(table, width, room);
    add_headings(table, width, shown, out);
    for (const char *text = table->texts.data; text < end; text = after(text)) {
        unsigned due = 0;
        for (unsigned c = 0; c < table->count; c++, text = after(text))
            if (c < shown && width[c] > 0)
                add_cell(text, &table->columns[c], width[c], &due, out);
        strbuf_putc(out, '\n');
        if (text[0] != '\0')
            strbuf_printf(out, "%*s%s\n", NOTE_INDENT, "", text);
    }
}
