#include "base/figures.h"

#include <criterion/criterion.h>

typedef const char *(*write_fn)(double value, char *text, size_t text_bytes);

static void expect(write_fn write, double value, const char *want)
{
    char text[FIGURES_BYTES];
    cr_expect_str_eq(write(value, text, sizeof text), want, "%g: '%s' for '%s'", value, text, want);
}

Test(figures, numbers)
{
    expect(figures_number, 0, "0");
    expect(figures_number, 3.4, "3.4");
    expect(figures_number, 91.04, "91");
    expect(figures_number, -0.012345, "-0.0123");
    expect(figures_number, 0.00001, "0.00001");
    expect(figures_number, 9.996, "10");
    expect(figures_number, 99.96, "100");
    expect(figures_number, 999.7, "1,000");
    expect(figures_number, 12345.6, "12,346");
    expect(figures_number, -123456, "-123,456");
    expect(figures_number, 9.8e7, "98,000,000");
    expect(figures_number, 1e16, "1e+16");
}

Test(figures, bytes)
{
    expect(figures_bytes, 0, "0 B");
    expect(figures_bytes, 999, "999 B");
    expect(figures_bytes, 9.8e7, "98 MB");
    expect(figures_bytes, 1.2071e9, "1.21 GB");
    expect(figures_bytes, 999.7e6, "1 GB");
    expect(figures_bytes, 5e18, "5,000 PB");
}

Test(figures, times)
{
    expect(figures_time, 0, "0 µs");
    expect(figures_time, 350e-6, "350 µs");
    expect(figures_time, 0.0123, "12.3 ms");
    expect(figures_time, 0.9996, "1 s");
    expect(figures_time, 4, "4 s");
    expect(figures_time, 125, "2 min 5 s");
    expect(figures_time, 3800, "1 h 3 min");
}

/* A text that does not fit is cut, and ends. */
Test(figures, short_room)
{
    char text[4];
    cr_expect_str_eq(figures_bytes(9.8e7, text, sizeof text), "98 ");
}

Test(figures, ticks_are_round)
{
    cr_expect_float_eq(figures_step(1, 5), 0.2, 1e-12);
    cr_expect_float_eq(figures_step(31.4, 5), 10, 1e-12);
    cr_expect_float_eq(figures_step(0.9, 5), 0.2, 1e-12);
    cr_expect_float_eq(figures_step(480, 6), 100, 1e-9);
    cr_expect_float_eq(figures_step(1200, 5), 500, 1e-9);
}
