#include "base/strbuf.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

Test(strbuf, grows_and_ends_in_nul)
{
    strbuf_t buf;
    strbuf_init(&buf, 1 << 20);
    cr_expect_str_eq(buf.data, "");
    for (int i = 0; i < 1000; i++)
        strbuf_printf(&buf, "%d,", i);
    cr_expect_eq(strlen(buf.data), buf.len_bytes);
    cr_expect_eq(buf.len_bytes, 3890);
    cr_expect_eq(strncmp(buf.data, "0,1,2,", 6), 0);
    char *text = strbuf_take(&buf);
    cr_expect_eq(strlen(text), 3890);
    cr_expect_str_eq(buf.data, "");
    free(text);
    strbuf_dispose(&buf);
}

Test(strbuf, a_refused_append_is_remembered)
{
    strbuf_t buf;
    err_t err = {0};
    strbuf_init(&buf, 5);
    strbuf_puts(&buf, "12345");
    cr_expect_eq(strbuf_status(&buf, &err), STATUS_OK);
    strbuf_putc(&buf, '6');
    cr_expect_eq(strbuf_status(&buf, &err), STATUS_TOO_LARGE);
    cr_expect_str_eq(buf.data, "12345");
    cr_expect_null(strbuf_reserve(&buf, 1));
    cr_expect_null(strbuf_take(&buf));
    strbuf_clear(&buf);
    strbuf_printf(&buf, "%s", "abcdef");
    cr_expect_eq(buf.len_bytes, 0);
    strbuf_clear(&buf);
    strbuf_append(&buf, "a", 1);
    cr_expect_str_eq(buf.data, "a");
    strbuf_dispose(&buf);
}

Test(strbuf, reserve_and_commit)
{
    strbuf_t buf;
    strbuf_init(&buf, 100);
    char *room = strbuf_reserve(&buf, 50);
    memcpy(room, "hello", 5);
    strbuf_commit(&buf, 5);
    cr_expect_str_eq(buf.data, "hello");
    strbuf_dispose(&buf);
}

Test(strbuf, json_strings_are_escaped)
{
    strbuf_t buf;
    strbuf_init(&buf, 1000);
    strbuf_json_string(&buf, "a\"b\\c\n\x01µ\xff"
                             "d");
    cr_expect_str_eq(buf.data, "\"a\\\"b\\\\c\\u000a\\u0001µ\\ufffdd\"");
    strbuf_dispose(&buf);
}
