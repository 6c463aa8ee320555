#include "base/map.h"

#include "base/prng.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static int values[4096];

Test(map, ids_put_get_replace_remove)
{
    idmap_t map;
    cr_assert_eq(idmap_init(&map, 2, NULL), STATUS_OK);
    cr_expect_null(idmap_get(&map, 0));
    cr_expect(idmap_put(&map, 0, &values[0]));
    cr_expect(idmap_put(&map, UINT64_MAX, &values[1]));
    cr_expect_not(idmap_put(&map, 5, &values[2]), "full");
    cr_expect(idmap_put(&map, 0, &values[3]), "replacing needs no room");
    cr_expect_eq(idmap_get(&map, 0), &values[3]);
    cr_expect_eq(idmap_remove(&map, 0), &values[3]);
    cr_expect_null(idmap_remove(&map, 0));
    cr_expect_eq(idmap_get(&map, UINT64_MAX), &values[1]);
    idmap_dispose(&map);
}

/* Against an array; few keys in a small table, so that runs of full slots wrap round its end. */
Test(map, ids_agree_with_an_array_under_random_use)
{
    enum { KEYS = 40 };
    static void *model[KEYS];
    idmap_t map;
    prng_t prng;
    err_t err = {0};
    prng_init(&prng, 3);
    idmap_init(&map, 20, NULL);
    for (int step = 0; step < 20000; step++) {
        uint64_t k = prng_below(&prng, KEYS);
        if (prng_below(&prng, 2) == 0 && map.len < 20) {
            model[k] = &values[prng_below(&prng, 4096)];
            cr_assert(idmap_put(&map, k, model[k]));
        } else {
            cr_assert_eq(idmap_remove(&map, k), model[k]);
            model[k] = NULL;
        }
        cr_assert(idmap_validate(&map, &err), "%s", err.text);
        for (uint64_t i = 0; i < KEYS; i++)
            cr_assert_eq(idmap_get(&map, i), model[i]);
    }
    idmap_dispose(&map);
}

Test(map, strings_put_get_replace_remove)
{
    strmap_t map;
    char key[] = "digits", same[] = "digits";
    cr_assert_eq(strmap_init(&map, 3, NULL), STATUS_OK);
    cr_expect(strmap_put(&map, key, &values[1]));
    cr_expect(strmap_put(&map, "", &values[2]));
    cr_expect_eq(strmap_get(&map, same), &values[1]);
    cr_expect_eq(strmap_get_n(&map, "digits/infer", 6), &values[1]);
    cr_expect_null(strmap_get(&map, "digit"));
    cr_expect_eq(strmap_get(&map, ""), &values[2]);
    cr_expect(strmap_put(&map, same, &values[3]));
    memset(key, 'x', sizeof key - 1);
    cr_expect_eq(strmap_get(&map, "digits"), &values[3], "the key pointer was replaced with the value");
    cr_expect_eq(strmap_remove(&map, "digits"), &values[3]);
    cr_expect_null(strmap_get(&map, "digits"));
    strmap_dispose(&map);
}

Test(map, strings_survive_random_use)
{
    enum { KEYS = 60 };
    static char names[KEYS][8];
    static void *model[KEYS];
    strmap_t map;
    prng_t prng;
    err_t err = {0};
    for (int i = 0; i < KEYS; i++)
        snprintf(names[i], sizeof names[i], "m%d", i);
    prng_init(&prng, 4);
    strmap_init(&map, 30, NULL);
    for (int step = 0; step < 20000; step++) {
        uint64_t k = prng_below(&prng, KEYS);
        if (prng_below(&prng, 2) == 0 && map.len < 30) {
            model[k] = &values[k];
            cr_assert(strmap_put(&map, names[k], model[k]));
        } else {
            cr_assert_eq(strmap_remove(&map, names[k]), model[k]);
            model[k] = NULL;
        }
        cr_assert(strmap_validate(&map, &err), "%s", err.text);
        cr_assert_eq(strmap_get(&map, names[(k + 1) % KEYS]), model[(k + 1) % KEYS]);
    }
    strmap_dispose(&map);
}
