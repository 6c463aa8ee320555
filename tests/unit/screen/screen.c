#include "screen/screen.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static void expect_fit(const char *text, unsigned columns, size_t bytes, unsigned used)
{
    unsigned got;
    cr_expect_eq(screen_fit(text, columns, &got), bytes, "'%s' in %u", text, columns);
    cr_expect_eq(got, used, "'%s' in %u: %u for %u", text, columns, got, used);
}

Test(screen, fits_text_into_columns)
{
    expect_fit("four", 10, 4, 4);
    expect_fit("four", 3, 3, 3);
    expect_fit("two\nlines", 10, 3, 3);
    expect_fit("12 µs on", 5, 6, 5);
    expect_fit("\x1b[31mred\x1b[0m", 3, 12, 3);
    expect_fit("\x1b[31mred\x1b[0m", 2, 7, 2);
    expect_fit("\xff\xff", 1, 1, 1);
}

/* A terminal of our own: what is drawn there comes out of master. */
static FILE *open_terminal(int *master, unsigned short columns, unsigned short rows)
{
    struct winsize size = {.ws_col = columns, .ws_row = rows};
    *master = posix_openpt(O_RDWR | O_NOCTTY);
    cr_assert(*master >= 0 && grantpt(*master) == 0 && unlockpt(*master) == 0);
    ioctl(*master, TIOCSWINSZ, &size);
    setenv("TERM", "xterm", 1);
    return fopen(ptsname(*master), "w");
}

/* A terminal hands on what it has, which may be half of what was written. */
static void expect_seen(int master, const char *want)
{
    char text[256] = "";
    for (size_t len = 0; len < strlen(want);) {
        ssize_t more = read(master, text + len, sizeof text - 1 - len);
        cr_assert(more > 0);
        len += (size_t)more;
    }
    cr_expect_str_eq(text, want);
}

Test(screen, lines_are_drawn_over_and_taken_away)
{
    int master;
    screen_t screen;
    screen_init(&screen, open_terminal(&master, 8, 24));
    cr_assert(screen.live);
    screen_draw(&screen, "one\ntwo that is long");
    expect_seen(master, "\rone\x1b[K\r\ntwo tha\x1b[K\x1b[J");
    screen_draw(&screen, "three");
    expect_seen(master, "\r\x1b[1Athree\x1b[K\x1b[J");
    screen_clear(&screen);
    expect_seen(master, "\r\x1b[J");
    fclose(screen.stream);
    close(master);
}

/* What would scroll away could not be drawn over. */
Test(screen, no_more_lines_than_there_is_room)
{
    int master;
    screen_t screen;
    screen_init(&screen, open_terminal(&master, 80, 3));
    screen_draw(&screen, "1\n2\n3\n4");
    expect_seen(master, "\r1\x1b[K\r\n2\x1b[K\x1b[J");
    cr_expect_eq(screen.drawn, 2);
    fclose(screen.stream);
    close(master);
}

Test(screen, colours_are_asked_for_by_nobody_or_refused)
{
    int master;
    FILE *terminal = open_terminal(&master, 80, 24);
    unsetenv("NO_COLOR");
    cr_expect(screen_has_colours(terminal));
    setenv("NO_COLOR", "", 1);
    cr_expect(screen_has_colours(terminal));
    setenv("NO_COLOR", "1", 1);
    cr_expect_not(screen_has_colours(terminal));
    fclose(terminal);
    close(master);
}

Test(screen, nothing_where_there_is_no_terminal)
{
    FILE *file = tmpfile();
    screen_t screen;
    screen_init(&screen, file);
    screen_draw(&screen, "one");
    screen_clear(&screen);
    cr_expect_eq(ftell(file), 0);
    cr_expect_not(screen_has_colours(file));
    fclose(file);
}

/* As when the window is closed while something goes on. */
Test(screen, a_terminal_that_is_gone_is_borne)
{
    int master;
    screen_t screen;
    screen_init(&screen, open_terminal(&master, 80, 24));
    close(master);
    screen_draw(&screen, "one");
    cr_expect_not(screen.live);
    fclose(screen.stream);
}
