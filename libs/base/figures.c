#include "base/figures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DIGITS = 3 };
static const double written_out = 1e15; /* what a double still tells exactly */

static void strip(char *text)
{
    if (!strchr(text, '.'))
        return;
    char *end = text + strlen(text);
    while (end[-1] == '0')
        *--end = '\0';
    if (end[-1] == '.')
        end[-1] = '\0';
}

/* A comma before every third digit from the end. */
static void group(const char *digits, char *text, size_t text_bytes)
{
    size_t len = strlen(digits), at = 0;
    for (size_t i = 0; i < len && at + 2 < text_bytes; i++) {
        if (i > 0 && (len - i) % 3 == 0 && digits[i - 1] != '-')
            text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = '\0';
}

const char *figures_number(double value, char *text, size_t text_bytes)
{
    char plain[FIGURES_BYTES];
    double size = fabs(value);
    if (!isfinite(value) || size >= written_out) {
        snprintf(text, text_bytes, "%.3g", value);
    } else if (size >= 999.5) {
        snprintf(plain, sizeof plain, "%.0f", value);
        group(plain, text, text_bytes);
    } else {
        /* 9.995 is 10, with one digit less behind the point. */
        int before = size > 0 ? (int)floor(log10(size)) + 1 : 1;
        if (size > 0 && size >= pow(10, before) - 0.5 * pow(10, before - DIGITS))
            before++;
        int behind = DIGITS - before > 0 ? DIGITS - before : 0;
        snprintf(text, text_bytes, "%.*f", behind < 20 ? behind : 20, value);
        strip(text);
    }
    return text;
}

static const char *with_unit(double value, const char *unit, char *text, size_t text_bytes)
{
    char number[FIGURES_BYTES];
    snprintf(text, text_bytes, "%s %s", figures_number(value, number, sizeof number), unit);
    return text;
}

const char *figures_bytes(double bytes, char *text, size_t text_bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    size_t unit = 0;
    while (fabs(bytes) >= 999.5 && unit + 1 < sizeof units / sizeof *units) {
        bytes /= 1000;
        unit++;
    }
    return with_unit(bytes, units[unit], text, text_bytes);
}

const char *figures_time(double seconds, char *text, size_t text_bytes)
{
    if (!(fabs(seconds) >= 0.9995e-3))
        return with_unit(seconds * 1e6, "µs", text, text_bytes);
    if (fabs(seconds) < 0.9995)
        return with_unit(seconds * 1e3, "ms", text, text_bytes);
    if (fabs(seconds) < 119.5)
        return with_unit(seconds, "s", text, text_bytes);
    double whole = round(seconds);
    if (whole < 3600)
        snprintf(text, text_bytes, "%.0f min %.0f s", floor(whole / 60), fmod(whole, 60));
    else
        snprintf(text, text_bytes, "%.0f h %.0f min", floor(whole / 3600), floor(fmod(whole, 3600) / 60));
    return text;
}

double figures_step(double length, int most)
{
    static const double steps[] = {1, 2, 5};
    double least = length / most, power = pow(10, floor(log10(least)));
    for (int i = 0; i < 3; i++)
        if (steps[i] * power >= least * (1 - 1e-9))
            return steps[i] * power;
    return 10 * power;
}
