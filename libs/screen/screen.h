/*
 * A few lines at the end of a terminal that are drawn anew as something goes on, and taken away when it ends. A stream
 * that is no terminal (or TERM=dumb) gets none of it: a log or a pipe holds only what is said for good. One owner.
 */
#ifndef SCREEN_SCREEN_H
#define SCREEN_SCREEN_H

#include <stdbool.h>
#include <stdio.h>

typedef struct {
    FILE *stream;
    bool live;      /* it is a terminal, and could be written to so far */
    unsigned drawn; /* lines that stand there */
} screen_t;

void screen_init(screen_t *screen, FILE *stream);

/* How wide it is now; 80 where that is not known. */
unsigned screen_columns(const screen_t *screen);

/* How wide a stream's terminal is, 0 where it is none: there lines have no end. */
unsigned screen_room(FILE *stream);

/* Puts these lines (apart by '\n', none behind the last) in the place of those that stand there, each cut at the width.
 * Colours are not counted as width; what is cut ends uncoloured. */
void screen_draw(screen_t *screen, const char *text);

/* Takes them away: what is printed next begins where they stood. */
void screen_clear(screen_t *screen);

/* Whether colours are wanted there: a terminal, and no NO_COLOR (no-color.org) in the environment. */
bool screen_has_colours(FILE *stream);

/* The bytes of text that take at most so many columns, colours not counted; *used: those they take. Pure. */
size_t screen_fit(const char *text, unsigned columns, unsigned *used);

#endif
