/* Keys while a service runs: found, read again, held beyond their end, limited. */
#include "auth/keyring.h"

#include "auth/key_file.h"
#include "base/clock.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char folder[] = "/tmp/fermata-keyring-XXXXXX", path[64];
static auth_usages_t *usages;
static keyring_t *ring;

static void make_folder(void)
{
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/keys", folder);
    cr_assert_eq(auth_usages_create(&usages, NULL), STATUS_OK);
}

static void remove_folder(void)
{
    char command[128];
    keyring_destroy(ring);
    auth_usages_destroy(usages);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_expect_eq(system(command), 0);
}

TestSuite(keyring, .init = make_folder, .fini = remove_folder);

/* A line for a key whose text is its name. */
static void put_line(FILE *file, const char *name, const char *limits)
{
    auth_key_t key = {.rights = AUTH_INFER};
    strbuf_t line;
    snprintf(key.name, sizeof key.name, "%s", name);
    auth_key_hash(name, strlen(name), key.hash);
    cr_assert_eq(auth_limits_parse(&key.limits, limits, NULL), STATUS_OK);
    strbuf_init(&line, AUTH_LINE_BYTES);
    auth_key_write(&key, &line);
    fputs(line.data, file);
    strbuf_dispose(&line);
}

/* Keys named by one letter each, all with those limits, in a file that is new. */
static void write_keys(const char *names, const char *limits)
{
    char made[80];
    snprintf(made, sizeof made, "%s.new", path);
    FILE *file = fopen(made, "w");
    cr_assert_not_null(file);
    for (; *names; names++)
        put_line(file, (char[]){*names, '\0'}, limits);
    cr_assert_eq(fclose(file), 0);
    cr_assert_eq(rename(made, path), 0);
}

static void open_ring(const char *names, const char *limits)
{
    err_t err;
    write_keys(names, limits);
    cr_assert_eq(keyring_create(path, usages, &ring, &err), STATUS_OK, "%s", err.text);
}

static void refresh(bool changes)
{
    bool changed;
    err_t err;
    cr_assert_eq(keyring_refresh(ring, &changed, &err), STATUS_OK, "%s", err.text);
    cr_expect_eq(changed, changes);
}

static const char *found(const char *text)
{
    keyring_holder_t *holder = keyring_find(ring, text, strlen(text));
    return holder ? keyring_key(holder)->name : "-";
}

Test(keyring, finds_each_of_many)
{
    err_t err;
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    for (int i = 0; i < 1000; i++) {
        char name[16];
        snprintf(name, sizeof name, "key%d", i);
        put_line(file, name, "-");
    }
    fclose(file);
    cr_assert_eq(keyring_create(path, usages, &ring, &err), STATUS_OK, "%s", err.text);
    for (int i = 0; i < 1000; i++) {
        char name[16];
        snprintf(name, sizeof name, "key%d", i);
        cr_expect_str_eq(found(name), name);
    }
    cr_expect_str_eq(found("key1000"), "-");
    cr_expect_str_eq(found(""), "-");
}

Test(keyring, follows_its_file)
{
    open_ring("ab", "-");
    refresh(false);
    write_keys("bc", "-");
    cr_expect_str_eq(found("a"), "a");
    refresh(true);
    cr_expect_str_eq(found("a"), "-");
    cr_expect_str_eq(found("b"), "b");
    cr_expect_str_eq(found("c"), "c");
}

Test(keyring, keeps_what_it_has_where_the_file_is_wrong_and_says_so_once)
{
    bool changed;
    err_t err;
    open_ring("ab", "-");
    FILE *file = fopen(path, "a");
    fputs("nonsense\n", file);
    fclose(file);
    cr_expect_eq(keyring_refresh(ring, &changed, &err), STATUS_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(err.text, "line 3"), "%s", err.text);
    refresh(false);
    cr_expect_str_eq(found("a"), "a");
    cr_assert_eq(remove(path), 0);
    cr_expect_eq(keyring_refresh(ring, &changed, &err), STATUS_NOT_FOUND);
    cr_expect_str_eq(found("b"), "b");
    write_keys("b", "-");
    refresh(true);
    cr_expect_str_eq(found("a"), "-");
}

Test(keyring, a_holder_lives_as_long_as_it_is_held)
{
    uint32_t retry_ms;
    open_ring("ab", "-");
    keyring_holder_t *a = keyring_find(ring, "a", 1), *b = keyring_find(ring, "b", 1);
    keyring_hold(a);
    cr_assert_eq(keyring_enter(a, 1, &retry_ms, NULL), STATUS_OK);
    cr_assert_eq(keyring_enter(b, 1, &retry_ms, NULL), STATUS_OK);
    write_keys("b", "-");
    refresh(true);
    cr_expect_not(keyring_is_good(a, 0));
    cr_expect(keyring_is_good(b, 0));
    cr_expect_eq(keyring_find(ring, "b", 1), b, "who holds a key goes on being its holder");
    keyring_leave(ring, a);
    cr_expect_str_eq(keyring_key(a)->name, "a");
    keyring_drop(ring, a);
    keyring_leave(ring, b);
}

Test(keyring, holds_a_key_to_its_rate)
{
    uint32_t retry_ms;
    err_t err;
    int64_t now_ns = NS_PER_S;
    open_ring("a", "rate=10,burst=3");
    keyring_holder_t *a = keyring_find(ring, "a", 1);
    for (int i = 0; i < 3; i++)
        cr_expect_eq(keyring_enter(a, now_ns, &retry_ms, &err), STATUS_OK);
    cr_expect_eq(keyring_enter(a, now_ns, &retry_ms, &err), STATUS_LIMITED);
    cr_expect_eq(retry_ms, 100);
    cr_expect_eq(keyring_enter(a, now_ns + 99 * NS_PER_MS, &retry_ms, &err), STATUS_LIMITED);
    cr_expect_eq(retry_ms, 1);
    cr_expect_eq(keyring_enter(a, now_ns + 100 * NS_PER_MS, &retry_ms, &err), STATUS_OK);
    now_ns += 3600 * NS_PER_S; /* a rest brings a burst, no more */
    for (int i = 0; i < 4; i++)
        cr_expect_eq(keyring_enter(a, now_ns, &retry_ms, &err), i < 3 ? STATUS_OK : STATUS_LIMITED);
    for (int i = 0; i < 7; i++)
        keyring_leave(ring, a);
}

Test(keyring, a_change_of_the_file_forgives_nothing)
{
    uint32_t retry_ms;
    open_ring("a", "rate=1,burst=5");
    keyring_holder_t *a = keyring_find(ring, "a", 1);
    for (int i = 0; i < 5; i++)
        cr_expect_eq(keyring_enter(a, NS_PER_S, &retry_ms, NULL), STATUS_OK);
    write_keys("ab", "rate=1,burst=9");
    refresh(true);
    for (int i = 0; i < 5; i++)
        cr_expect_eq(keyring_enter(a, NS_PER_S, &retry_ms, NULL), i < 4 ? STATUS_OK : STATUS_LIMITED);
    write_keys("ab", "rate=10,burst=1");
    refresh(true);
    cr_expect_eq(keyring_enter(a, NS_PER_S, &retry_ms, NULL), STATUS_LIMITED);
    cr_expect_eq(retry_ms, 100, "no bucket is emptier than empty, not %u ms", retry_ms);
    for (int i = 0; i < 9; i++)
        keyring_leave(ring, a);
}

Test(keyring, remembers_texts_only_as_long_as_they_are_keys)
{
    const char *names[] = {"first_of_the_keys",
                           "other_of_the_keys"}; /* their last bytes have the same place */
    FILE *file = fopen(path, "w");
    err_t err;
    for (int i = 0; i < 2; i++)
        put_line(file, names[i], "-");
    fclose(file);
    cr_assert_eq(keyring_create(path, usages, &ring, &err), STATUS_OK, "%s", err.text);
    for (int i = 0; i < 6; i++)
        cr_expect_str_eq(found(names[i / 2 % 2]), names[i / 2 % 2]);
    cr_expect_str_eq(found("third_of_the_keys"), "-");
    cr_expect_str_eq(found("of_the_keys"), "-");
    write_keys("a", "-");
    refresh(true);
    cr_expect_str_eq(found(names[0]), "-");
    cr_expect_str_eq(found(names[1]), "-");
}

/* Also one that is remembered. */
Test(keyring, knows_a_text_by_every_byte_of_it)
{
    char name[] = "a_key_of_21_letters_a";
    FILE *file = fopen(path, "w");
    err_t err;
    put_line(file, name, "-");
    fclose(file);
    cr_assert_eq(keyring_create(path, usages, &ring, &err), STATUS_OK, "%s", err.text);
    for (size_t i = 0; i < strlen(name); i++) {
        cr_expect_str_eq(found(name), name);
        name[i]++;
        cr_expect_str_eq(found(name), "-", "byte %zu", i);
        name[i]--;
    }
}

Test(keyring, loops_share_the_limits_of_a_key)
{
    keyring_t *other;
    uint32_t retry_ms;
    err_t err;
    open_ring("a", "rate=1,burst=4,concurrent=3");
    cr_assert_eq(keyring_create(path, usages, &other, &err), STATUS_OK, "%s", err.text);
    keyring_holder_t *here = keyring_find(ring, "a", 1), *there = keyring_find(other, "a", 1);
    cr_expect_eq(keyring_enter(here, 1, &retry_ms, &err), STATUS_OK);
    cr_expect_eq(keyring_enter(there, 1, &retry_ms, &err), STATUS_OK);
    cr_expect_eq(keyring_enter(here, 1, &retry_ms, &err), STATUS_OK);
    cr_expect_eq(keyring_enter(there, 1, &retry_ms, &err), STATUS_LIMITED);
    keyring_leave(ring, here);
    cr_expect_eq(keyring_enter(there, 1, &retry_ms, &err), STATUS_OK, "another loop's inference has ended");
    keyring_leave(ring, here);
    cr_expect_eq(keyring_enter(there, 1, &retry_ms, &err), STATUS_LIMITED);
    cr_expect_eq(retry_ms, 1000, "the burst is one for both");
    for (int i = 0; i < 2; i++)
        keyring_leave(other, there);
    keyring_destroy(other);
}

Test(keyring, holds_a_key_to_what_may_be_under_way)
{
    uint32_t retry_ms;
    err_t err;
    open_ring("ab", "concurrent=2");
    keyring_holder_t *a = keyring_find(ring, "a", 1), *b = keyring_find(ring, "b", 1);
    cr_expect_eq(keyring_enter(a, 1, &retry_ms, &err), STATUS_OK);
    cr_expect_eq(keyring_enter(a, 1, &retry_ms, &err), STATUS_OK);
    cr_expect_eq(keyring_enter(a, 1, &retry_ms, &err), STATUS_LIMITED);
    cr_expect_eq(keyring_enter(b, 1, &retry_ms, &err), STATUS_OK, "one key's limit is not another's");
    keyring_leave(ring, a);
    cr_expect_eq(keyring_enter(a, 1, &retry_ms, &err), STATUS_OK);
    for (int i = 0; i < 2; i++)
        keyring_leave(ring, a);
    keyring_leave(ring, b);
}
