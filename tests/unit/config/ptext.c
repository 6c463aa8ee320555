#include "config/ptext.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static err_t err;

static ptext_t *read_text(const char *text)
{
    ptext_t *doc = NULL;

    err = (err_t){0};
    cr_assert_eq(ptext_parse("m.pbtxt", text, strlen(text), &doc, &err), STATUS_OK, "%s", err.text);
    return doc;
}

/* "a:1 b{c:'x'}" of whatever way of writing it. */
static char *flat(const ptext_field_t *message, char *at)
{
    for (const ptext_field_t *f = ptext_first(message); f; f = ptext_next(f)) {
        if (f != ptext_first(message))
            *at++ = ' ';
        switch (ptext_kind(f)) {
        case PTEXT_WORD:
            at += sprintf(at, "%s:%s", ptext_name(f), ptext_text(f));
            break;
        case PTEXT_STRING:
            at += sprintf(at, "%s:'%s'", ptext_name(f), ptext_text(f));
            break;
        case PTEXT_MESSAGE:
            at = flat(f, at + sprintf(at, "%s{", ptext_name(f)));
            at += sprintf(at, "}");
        }
    }
    *at = '\0';
    return at;
}

Test(ptext, reads_every_way_of_writing_a_field)
{
    static const struct {
        const char *text, *flat;
    } cases[] = {
        {"", ""},
        {"# nothing\n", ""},
        {"a: 1", "a:1"},
        {"a:1,b:2;c:-3.5e+3f", "a:1 b:2 c:-3.5e+3f"},
        {"name: \"x\" # why\nname2: 'y\"'", "name:'x' name2:'y\"'"},
        {"s: \"one \" 'two'\n  \" three\"", "s:'one two three'"},
        {"s: \"\"", "s:''"},
        {"s: '\\t\\x41\\102\\\\\\''", "s:'\tAB\\''"},
        {"m { a: 1 } n: { } o < p: TYPE_FP32 >", "m{a:1} n{} o{p:TYPE_FP32}"},
        {"dims: [ 3, 224, -1 ]", "dims:3 dims:224 dims:-1"},
        {"dims: [ ] x: 1", "x:1"},
        {"input [ { name: 'a' }, { name: 'b' dims: [1] } ]", "input{name:'a'} input{name:'b' dims:1}"},
    };
    char text[256];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ptext_t *doc = read_text(cases[i].text);
        flat(ptext_root(doc), text);
        cr_expect_str_eq(text, cases[i].flat, "%s: %s", cases[i].text, text);
        ptext_destroy(doc);
    }
}

Test(ptext, says_where_a_mistake_is)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"a", "m.pbtxt:1:2: expected ':' or '{' behind the name of a field"},
        {"a 1", "m.pbtxt:1:3: expected ':' or '{' behind the name of a field"},
        {"a:", "m.pbtxt:1:3: the file ends where a value should be"},
        {"a: }", "m.pbtxt:1:4: expected a value"},
        {"\n\n  : 1", "m.pbtxt:3:3: expected the name of a field"},
        {"7: 1", "m.pbtxt:1:1: expected the name of a field"},
        {"}", "m.pbtxt:1:1: expected the name of a field"},
        {"b: 1\nm {\n a: 1", "m.pbtxt:2:1: 'm' is never closed"},
        {"m { a: 1 >", "m.pbtxt:1:10: expected the name of a field"},
        {"[a.b] { }", "m.pbtxt:1:1: extensions are not known here"},
        {"a: \"x", "m.pbtxt:1:6: a string does not end"},
        {"a: \"x\n\"", "m.pbtxt:1:6: a string ends on the line on which it begins"},
        {"a: '\\q'", "m.pbtxt:1:7: no such escape in a string"},
        {"a: '\\", "m.pbtxt:1:6: no such escape in a string"},
        {"a: '\\x", "m.pbtxt:1:7: no such escape in a string"},
        {"a: '\\000'", "m.pbtxt:1:9: a string must not contain a zero byte"},
        {"a: '\\377'", "m.pbtxt:1:1: a string is no UTF-8"},
        {"a: [1 2]", "m.pbtxt:1:7: expected ',' or ']' in a list"},
        {"a: [1", "m.pbtxt:1:6: expected ',' or ']' in a list"},
    };
    ptext_t *doc;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err = (err_t){0};
        status_t status = ptext_parse("m.pbtxt", cases[i].text, strlen(cases[i].text), &doc, &err);
        cr_expect_eq(status, STATUS_INVALID_ARGUMENT, "%s", cases[i].text);
        cr_expect_str_eq(err.text, cases[i].error, "%s: %s", cases[i].text, err.text);
    }
}

Test(ptext, is_bounded)
{
    size_t len = PTEXT_MAX_BYTES + 1;
    char *text = malloc(len);
    ptext_t *doc;

    memset(text, ' ', len);
    cr_expect_eq(ptext_parse("m", text, len, &doc, &err), STATUS_TOO_LARGE);
    for (size_t i = 0; i < len - 1; i++)
        text[i] = "a{"[i % 2];
    cr_expect_eq(ptext_parse("m", text, len - 1, &doc, &err), STATUS_INVALID_ARGUMENT);
    cr_expect(strstr(err.text, "nested too deep"), "%s", err.text);
    for (size_t i = 0; i < len - 1; i++)
        text[i] = "a:1,"[i % 4];
    cr_expect_eq(ptext_parse("m", text, len - 1, &doc, &err), STATUS_INVALID_ARGUMENT);
    cr_expect(strstr(err.text, "too many fields"), "%s", err.text);
    cr_assert_eq(ptext_parse("m", text, 4 * PTEXT_MAX_FIELDS, &doc, &err), STATUS_OK, "%s", err.text);
    ptext_destroy(doc);
    free(text);
}

Test(ptext, values_are_what_they_are_asked_to_be)
{
    ptext_t *doc = read_text("n: 12 h: 0x10 w: TYPE s: '7' t: true\n  f: False m { }");
    const ptext_field_t *root = ptext_root(doc);
    int64_t number;
    bool truth;
    const char *text;

    cr_expect(ptext_int64(ptext_get(root, "n"), 0, 12, &number, &err) == STATUS_OK && number == 12);
    cr_expect(ptext_int64(ptext_get(root, "h"), 0, 99, &number, &err) == STATUS_OK && number == 16);
    cr_expect_neq(ptext_int64(ptext_get(root, "n"), 0, 11, &number, &err), STATUS_OK);
    cr_expect_str_eq(err.text, "m.pbtxt:1:1: 'n' is 0 to 11");
    cr_expect_neq(ptext_int64(ptext_get(root, "w"), 0, 99, &number, &err), STATUS_OK);
    cr_expect_neq(ptext_int64(ptext_get(root, "s"), 0, 99, &number, &err), STATUS_OK);
    cr_expect(ptext_bool(ptext_get(root, "t"), &truth, &err) == STATUS_OK && truth);
    cr_expect(ptext_bool(ptext_get(root, "f"), &truth, &err) == STATUS_OK && !truth);
    cr_expect_neq(ptext_bool(ptext_get(root, "n"), &truth, &err), STATUS_OK);
    cr_expect(ptext_string(ptext_get(root, "s"), &text, &err) == STATUS_OK && strcmp(text, "7") == 0);
    cr_expect_neq(ptext_string(ptext_get(root, "m"), &text, &err), STATUS_OK);
    cr_expect_str_eq(err.text, "m.pbtxt:2:12: 'm' is a string in quotes");
    cr_expect_eq(ptext_line(ptext_get(root, "m")), 2);
    cr_expect_null(ptext_get(root, "none"));
    ptext_destroy(doc);
}
