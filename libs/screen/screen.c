#include "screen/screen.h"

#include "base/strbuf.h"
#include "base/utf8.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* More than any screen holds. */
enum { TEXT_MAX_BYTES = 64 << 10, COLUMNS_USUAL = 80 };

#define ESCAPE "\x1b["

static bool is_terminal(FILE *stream)
{
    const char *term = getenv("TERM");
    return isatty(fileno(stream)) && term && strcmp(term, "dumb") != 0;
}

void screen_init(screen_t *screen, FILE *stream)
{
    *screen = (screen_t){.stream = stream, .live = is_terminal(stream)};
}

bool screen_has_colours(FILE *stream)
{
    const char *unwanted = getenv("NO_COLOR");
    return is_terminal(stream) && (!unwanted || unwanted[0] == '\0');
}

static struct winsize size_of(const screen_t *screen)
{
    struct winsize size = {0};
    if (ioctl(fileno(screen->stream), TIOCGWINSZ, &size) != 0)
        size = (struct winsize){0};
    return size;
}

unsigned screen_columns(const screen_t *screen)
{
    unsigned columns = size_of(screen).ws_col;
    return columns > 0 ? columns : COLUMNS_USUAL;
}

unsigned screen_room(FILE *stream)
{
    const screen_t screen = {.stream = stream};
    return isatty(fileno(stream)) ? screen_columns(&screen) : 0;
}

/* "ESC[31m": its bytes, or 0. */
static size_t escape_len(const char *text)
{
    if (strncmp(text, ESCAPE, 2) != 0)
        return 0;
    size_t len = 2 + strspn(text + 2, "0123456789;");
    return text[len] != '\0' ? len + 1 : len;
}

size_t screen_fit(const char *text, unsigned columns, unsigned *used)
{
    size_t at = 0;
    *used = 0;
    while (text[at] != '\0' && text[at] != '\n') {
        size_t escape = escape_len(text + at), len = escape ? escape : utf8_len(text + at);
        if (!escape && *used == columns)
            break;
        *used += !escape;
        at += len ? len : 1;
    }
    return at;
}

static void add_line(strbuf_t *out, const char *text, unsigned columns)
{
    unsigned used;
    size_t len = screen_fit(text, columns, &used);
    strbuf_append(out, text, len);
    if (memchr(text, '\x1b', len))
        strbuf_puts(out, ESCAPE "0m");
    strbuf_puts(out, ESCAPE "K");
}

/* To the first column of the first line that stands there. */
static void go_back(const screen_t *screen, strbuf_t *out)
{
    strbuf_putc(out, '\r');
    if (screen->drawn > 1)
        strbuf_printf(out, ESCAPE "%uA", screen->drawn - 1);
}

/* A terminal that is gone is not written to again; what goes on does so unseen. */
static void put(screen_t *screen, strbuf_t *out, unsigned lines)
{
    strbuf_puts(out, ESCAPE "J");
    screen->drawn = lines;
    if (strbuf_status(out, NULL) == STATUS_OK &&
        (fwrite(out->data, 1, out->len_bytes, screen->stream) != out->len_bytes || fflush(screen->stream)))
        screen->live = false;
    strbuf_dispose(out);
}

void screen_draw(screen_t *screen, const char *text)
{
    if (!screen->live)
        return;
    struct winsize size = size_of(screen);
    /* One column stays free: a full line would move the cursor on. */
    unsigned columns = screen_columns(screen) - (screen_columns(screen) > 1), lines = 0;
    unsigned most = size.ws_row > 1 ? size.ws_row - 1U : UINT32_MAX;
    strbuf_t out;
    strbuf_init(&out, TEXT_MAX_BYTES);
    go_back(screen, &out);
    for (const char *line = text; line && lines < most; lines++) {
        const char *end = strchr(line, '\n');
        if (lines > 0)
            strbuf_putc(&out, '\n');
        add_line(&out, line, columns);
        line = end ? end + 1 : NULL;
    }
    put(screen, &out, lines);
}

void screen_clear(screen_t *screen)
{
    if (!screen->live || screen->drawn == 0)
        return;
    strbuf_t out;
    strbuf_init(&out, TEXT_MAX_BYTES);
    go_back(screen, &out);
    put(screen, &out, 0);
}
