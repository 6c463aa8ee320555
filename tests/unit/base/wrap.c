#include "base/wrap.h"

#include <criterion/criterion.h>
#include <string.h>

static const char *wrapped(const char *text, size_t indent, size_t column)
{
    static char kept[1000];
    strbuf_t out;
    strbuf_init(&out, sizeof kept - 1);
    wrap_words(&out, text, indent, &column);
    cr_assert_eq(strbuf_status(&out, NULL), STATUS_OK);
    strcpy(kept, out.data);
    const char *line = strrchr(kept, '\n');
    if (line)
        cr_expect_eq(column, strlen(line + 1), "it says where the cursor is");
    strbuf_dispose(&out);
    return kept;
}

#define TEN "123456789 "
#define SEVENTY TEN TEN TEN TEN TEN TEN TEN

Test(wrap, a_line_holds_eighty)
{
    cr_expect_str_eq(wrapped(SEVENTY "1234567890 x", 0, 0), SEVENTY "1234567890\nx");
    cr_expect_str_eq(wrapped(SEVENTY "12345678901", 0, 0),
                     "123456789 " TEN TEN TEN TEN TEN "123456789\n12345678901");
    cr_expect_str_eq(wrapped(TEN "x", 4, 70), " 123456789\n    x");
    cr_expect_str_eq(wrapped("1234567890 x", 4, 70), "\n    1234567890 x");
}

Test(wrap, blanks_are_one_and_nothing_is_nothing)
{
    cr_expect_str_eq(wrapped("a   b", 2, 2), "a b");
    cr_expect_str_eq(wrapped("", 2, 2), "");
    cr_expect_str_eq(wrapped("b", 2, 5), " b");
}

Test(wrap, a_word_longer_than_a_line_has_its_own)
{
    char text[203] = "a ";
    memset(text + 2, 'w', 198);
    strcpy(text + 200, " b");
    const char *found = wrapped(text, 0, 0);
    cr_expect_eq(strncmp(found, "a\nww", 4), 0, "%s", found);
    cr_expect_str_eq(strrchr(found, '\n'), "\nb");
}

static void expect_entry(const char *left, const char *lines)
{
    strbuf_t out;
    strbuf_init(&out, 1000);
    wrap_entry(&out, left, 12, "text", "(details)");
    cr_expect_str_eq(out.data, lines);
    strbuf_dispose(&out);
}

Test(wrap, what_is_too_long_for_its_column_has_a_line)
{
    expect_entry("--abcdef", "  --abcdef  text (details)\n");
    expect_entry("--abcdefg", "  --abcdefg\n            text (details)\n");
}
