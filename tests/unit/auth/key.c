/* Of a key: its text, its line, what it may do. */
#include "auth/key.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define HASH \
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" /* of "abc", FIPS 180-2, B.1 */

Test(key, is_hashed_by_sha_256)
{
    auth_key_t key;
    uint8_t hash[AUTH_HASH_BYTES];
    err_t err;
    cr_assert_eq(auth_key_parse("k " HASH " infer - -", &key, &err), STATUS_OK, "%s", err.text);
    auth_key_hash("abc", 3, hash);
    cr_expect_arr_eq(hash, key.hash, sizeof hash);
}

Test(key, is_made_anew_each_time)
{
    char a[AUTH_TEXT_BYTES], b[AUTH_TEXT_BYTES];
    uint8_t hash[AUTH_HASH_BYTES], again[AUTH_HASH_BYTES];
    cr_assert_eq(auth_key_make(a, hash, NULL), STATUS_OK);
    cr_assert_eq(auth_key_make(b, again, NULL), STATUS_OK);
    cr_expect_eq(strlen(a), AUTH_TEXT_BYTES - 1);
    cr_expect_eq(strncmp(a, "fmk_", 4), 0);
    cr_expect_eq(strspn(a + 4, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
                 strlen(a) - 4);
    cr_expect_str_neq(a, b);
    auth_key_hash(a, strlen(a), again);
    cr_expect_arr_eq(hash, again, sizeof hash);
}

Test(key, is_written_as_it_is_read)
{
    static const char *const lines[] = {
        "ci " HASH " infer:digits,infer:resnet50,read rate=2.5,burst=9,concurrent=4 2027-01-31T00:00:00Z\n",
        "boss " HASH " infer,read,admin - -\n",
        "a.b_c-d " HASH " admin concurrent=1 -\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        auth_key_t key;
        err_t err;
        strbuf_t text;
        char line[AUTH_LINE_BYTES];
        snprintf(line, sizeof line, "%s", lines[i]);
        line[strlen(line) - 1] = '\0';
        cr_assert_eq(auth_key_parse(line, &key, &err), STATUS_OK, "%s: %s", line, err.text);
        strbuf_init(&text, AUTH_LINE_BYTES);
        auth_key_write(&key, &text);
        cr_expect_str_eq(text.data, lines[i]);
        strbuf_dispose(&text);
    }
}

Test(key, says_what_is_wrong_with_a_line)
{
    static const struct {
        const char *line, *reason;
    } cases[] = {
        {"k " HASH " infer -", "4 fields"},
        {"k " HASH " infer - - -", "6 fields"},
        {"k/ " HASH " infer - -", "'k/' is no name"},
        {"- " HASH " infer - -", "'-' is no name"},
        {"k 12 infer - -", "64 digits"},
        {"k BA7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad infer - -", "64 digits"},
        {"k " HASH " write - -", "unknown scope 'write'"},
        {"k " HASH " , - -", "unknown scope ''"},
        {"k " HASH " infer: - -", "'' is no name of a model"},
        {"k " HASH " infer rate=0 -", "'rate=0' is no limit"},
        {"k " HASH " infer rate=nan -", "'rate=nan' is no limit"},
        {"k " HASH " infer rate=5x -", "'rate=5x' is no limit"},
        {"k " HASH " infer concurrent=0 -", "'concurrent=0' is no limit"},
        {"k " HASH " infer burst=3 -", "a burst without a rate"},
        {"k " HASH " infer wide=1 -", "'wide=1' is no limit"},
        {"k " HASH " infer - tomorrow", "'tomorrow' is no time"},
        {"k " HASH " infer - 2027-01-31T00:00:00", "is no time"},
        {"k " HASH " infer - 1960-01-31T00:00:00Z", "is no time"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        auth_key_t key = {.name = "untouched"};
        err_t err = {.text = ""};
        cr_expect_eq(auth_key_parse(cases[i].line, &key, &err), STATUS_INVALID_ARGUMENT, "%s", cases[i].line);
        cr_expect_not_null(strstr(err.text, cases[i].reason), "%s: %s", cases[i].line, err.text);
        cr_expect_str_eq(key.name, "untouched");
    }
}

/* Columns: infer any, infer a, infer b, read any, read a, read b, admin. */
Test(key, may_do_what_its_scopes_say)
{
    static const struct {
        const char *scopes, *may;
    } cases[] = {
        {"infer", "yyy nyy n"},
        {"infer:a", "yyn nyn n"},
        {"read", "nnn yyy n"},
        {"admin", "nnn yyy y"},
        {"infer:a,read", "yyn yyy n"},
        {"infer:a,infer", "yyy nyy n"},
        {"infer:aa,infer:ba", "ynn nnn n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        auth_key_t key = {0};
        char may[16], *at = may;
        cr_assert_eq(auth_key_set_scopes(&key, cases[i].scopes, NULL), STATUS_OK);
        for (int right = 0; right < 2; right++) {
            for (const char *const *model = (const char *const[]){NULL, "a", "b", "end"};
                 !*model || **model != 'e'; model++)
                *at++ = auth_key_may(&key, right ? AUTH_READ : AUTH_INFER, *model) ? 'y' : 'n';
            *at++ = ' ';
        }
        *at++ = auth_key_may(&key, AUTH_ADMIN, NULL) ? 'y' : 'n';
        *at = '\0';
        cr_expect_str_eq(may, cases[i].may, "%s: %s", cases[i].scopes, may);
    }
}

Test(key, is_over_from_its_last_second_on)
{
    auth_key_t key = {.expires_s = 1000};
    cr_expect_not(auth_key_is_over(&key, 999));
    cr_expect(auth_key_is_over(&key, 1000));
    key.expires_s = 0;
    cr_expect_not(auth_key_is_over(&key, INT64_MAX));
}
