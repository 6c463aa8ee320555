#include "base/utf8.h"

#include <criterion/criterion.h>
#include <string.h>

static bool valid(const char *text)
{
    return utf8_valid(text, strlen(text));
}

Test(utf8, accepts_what_is_well_formed)
{
    cr_expect(valid(""));
    cr_expect(valid("plain, µs, €, 𝄐"));
    cr_expect(valid("\xf4\x8f\xbf\xbf"), "U+10FFFF");
    cr_expect(utf8_valid("a\0b", 3));
}

Test(utf8, refuses_what_is_not)
{
    static const char *const bad[] = {
        "\x80",
        "\xc0\x80" /* overlong NUL */,
        "\xc1\xbf",
        "\xe0\x80\x80",
        "\xed\xa0\x80" /* surrogate */,
        "\xf0\x80\x80\x80",
        "\xf4\x90\x80\x80" /* above U+10FFFF */,
        "\xf5\x80\x80\x80",
        "\xff",
        "\xe2\x82",
        "\xc3(",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect_not(valid(bad[i]), "case %zu", i);
    cr_expect_not(utf8_valid("\xc3\xa4", 1), "cut in the middle");
    cr_expect_eq(utf8_len("\xe2\x82"), 0, "ends in NUL before its time");
}
