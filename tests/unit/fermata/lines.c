#include "fermata/up/lines.h"

#include <criterion/criterion.h>
#include <string.h>

static char got[32768];

static void collect(void *arg, const char *line)
{
    (void)arg;
    strcat(got, line);
    strcat(got, "|");
}

static lines_t lines;

static void feed(const char *text)
{
    lines_feed(&lines, text, strlen(text));
}

Test(lines, come_whole_however_the_bytes_come)
{
    lines_init(&lines, collect, NULL);
    feed("one\ntw");
    feed("o\r\n\nthr");
    cr_expect_str_eq(got, "one|two||");
    lines_end(&lines);
    lines_end(&lines);
    cr_expect_str_eq(got, "one|two||thr|");
}

Test(lines, too_long_ones_come_in_pieces)
{
    static char big[LINES_MAX_BYTES + 3];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 2] = '\n';
    lines_init(&lines, collect, NULL);
    feed(big);
    cr_expect_eq(strlen(got), LINES_MAX_BYTES + 1 + 2);
    cr_expect_str_eq(got + LINES_MAX_BYTES, "|x|");
}
