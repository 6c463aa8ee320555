/* Files of keys: read, changed, and what is refused of them. */
#include "auth/key_file.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/fermata-keys-XXXXXX", path[64];

static void make_folder(void)
{
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/keys", folder);
}

static void remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_expect_eq(system(command), 0);
}

TestSuite(key_file, .init = make_folder, .fini = remove_folder);

static status_t add(auth_keys_t *keys, void *arg, err_t *err)
{
    return auth_keys_add(keys, arg, err);
}

static status_t take_away(auth_keys_t *keys, void *arg, err_t *err)
{
    return auth_keys_remove(keys, arg, err);
}

static status_t add_named(const char *name, err_t *err)
{
    auth_key_t key = {.rights = AUTH_INFER};
    char text[AUTH_TEXT_BYTES];
    snprintf(key.name, sizeof key.name, "%s", name);
    cr_assert_eq(auth_key_make(text, key.hash, NULL), STATUS_OK);
    return auth_keys_change(path, add, &key, err);
}

static void expect_names(const char *expected)
{
    auth_keys_t keys;
    err_t err;
    char names[256] = "";
    cr_assert_eq(auth_keys_read(path, &keys, &err), STATUS_OK, "%s", err.text);
    for (size_t i = 0; i < keys.count; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s ", keys.keys[i].name);
    cr_expect_str_eq(names, expected);
    auth_keys_dispose(&keys);
}

Test(key_file, keeps_what_was_added_and_not_taken_away)
{
    err_t err;
    char b[] = "b", nobody[] = "nobody";
    struct stat about;
    for (const char *name = "abcde"; *name; name++)
        cr_assert_eq(add_named((char[]){*name, '\0'}, &err), STATUS_OK, "%s", err.text);
    expect_names("a b c d e ");
    cr_expect_eq(add_named("b", &err), STATUS_INVALID_ARGUMENT);
    cr_expect_str_eq(err.text, "there is a key named 'b' already");
    cr_assert_eq(auth_keys_change(path, take_away, b, &err), STATUS_OK);
    cr_expect_eq(auth_keys_change(path, take_away, nobody, &err), STATUS_NOT_FOUND);
    expect_names("a c d e ");
    cr_assert_eq(stat(path, &about), 0);
    cr_expect_eq(about.st_mode & 0777, 0600);
}

static void write_text(const char *text)
{
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    cr_assert_eq(fclose(file), 0);
}

#define HASH_A "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define HASH_B "0a7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

Test(key_file, names_the_line_that_is_wrong)
{
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"# c\n\n  a " HASH_A " infer - -\nb x\n", "keys: line 4: 2 fields"},
        {"a " HASH_A " infer - -\na " HASH_B " infer - -", "line 2: there is a key named 'a' already"},
        {"a " HASH_A " infer - -\nb " HASH_A " infer - -\n", "line 2: key 'b' is another's, too"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        auth_keys_t keys;
        err_t err;
        write_text(cases[i].text);
        cr_expect_eq(auth_keys_read(path, &keys, &err), STATUS_INVALID_ARGUMENT);
        cr_expect_not_null(strstr(err.text, cases[i].reason), "%s", err.text);
        cr_expect_eq(add_named("c", &err), STATUS_INVALID_ARGUMENT, "nobody's mistake is written over");
    }
    write_text("# nothing\r\n \t\r\na " HASH_A "\tinfer  - -\r\nb " HASH_B " read - -");
    expect_names("a b ");
}

Test(key_file, is_a_file)
{
    auth_keys_t keys;
    err_t err;
    cr_expect_eq(auth_keys_read(path, &keys, &err), STATUS_NOT_FOUND);
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_expect_eq(auth_keys_read(path, &keys, &err), STATUS_INVALID_ARGUMENT,
                 "and nobody waits for its writer");
    cr_expect_eq(auth_keys_read(folder, &keys, &err), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(auth_keys_parse("a\0b\n", 4, &keys, &err), STATUS_INVALID_ARGUMENT);
}
