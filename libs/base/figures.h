/*
 * Numbers as people write them: three digits that count, no exponent, thousands set apart. Pure.
 */
#ifndef BASE_FIGURES_H
#define BASE_FIGURES_H

#include <stddef.h>

/* Room for any text of this file. */
enum { FIGURES_BYTES = 64 };

/* "0.0123", "3.4", "91", "12,346"; beyond 10^15 with an exponent. Returns text. */
const char *figures_number(double value, char *text, size_t text_bytes);

/* "512 B", "98 MB", "1.21 GB": powers of 1000. Returns text. */
const char *figures_bytes(double bytes, char *text, size_t text_bytes);

/* "350 µs", "12.3 ms", "4 s", "2 min 5 s", "1 h 3 min". Returns text. */
const char *figures_time(double seconds, char *text, size_t text_bytes);

/* The distance of ticks that people would put on an axis so long: 1, 2 or 5 times a power of ten, for at most so many
 * distances. length > 0. */
double figures_step(double length, int most);

#endif
