/*
 * Criterion's interface, as far as our tests use it, on a runner without shared memory: Criterion's own arena cannot
 * be placed in the address space that ThreadSanitizer leaves, so the tsan preset builds the tests against this one.
 * Each test runs in a forked process of its own; a report of the sanitizer there fails the test.
 */
#ifndef PLAIN_CRITERION_H
#define PLAIN_CRITERION_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    void (*init)(void);
    void (*fini)(void);
    double timeout;
    int signal;
    int exit_code;
    bool disabled;
    const char *description;
} plain_options_t;

typedef struct plain_test {
    const char *suite, *name; /* name NULL: the options of the suite */
    void (*run)(void);
    plain_options_t options;
    struct plain_test *next;
} plain_test_t;

void plain_register(plain_test_t *test);
void plain_failed(bool fatal, const char *file, int line, const char *what, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

#define PLAIN_ENTRY(id, suite_, name_, run_, ...)                                \
    static plain_test_t id##_entry = {suite_, name_, run_, {__VA_ARGS__}, NULL}; \
    __attribute__((constructor)) static void id##_register(void)                 \
    {                                                                            \
        plain_register(&id##_entry);                                             \
    }

#define Test(suite, name, ...)                                                                   \
    static void suite##_##name##_impl(void);                                                     \
    PLAIN_ENTRY(suite##_##name, #suite, #name, suite##_##name##_impl __VA_OPT__(, ) __VA_ARGS__) \
    static void suite##_##name##_impl(void)
#define TestSuite(suite, ...) PLAIN_ENTRY(suite##_suite, #suite, NULL, NULL __VA_OPT__(, ) __VA_ARGS__)

#define PLAIN_CHECK(fatal, ok, what, ...)                                   \
    do {                                                                    \
        if (!(ok))                                                          \
            plain_failed(fatal, __FILE__, __LINE__, what, " " __VA_ARGS__); \
    } while (0)

#define cr_assert(c, ...) PLAIN_CHECK(true, c, #c, __VA_ARGS__)
#define cr_expect(c, ...) PLAIN_CHECK(false, c, #c, __VA_ARGS__)
#define cr_assert_not(c, ...) PLAIN_CHECK(true, !(c), "not " #c, __VA_ARGS__)
#define cr_expect_not(c, ...) PLAIN_CHECK(false, !(c), "not " #c, __VA_ARGS__)
#define cr_assert_fail(...) PLAIN_CHECK(true, false, "reached", __VA_ARGS__)
#define cr_expect_fail(...) PLAIN_CHECK(false, false, "reached", __VA_ARGS__)

#define cr_assert_eq(a, b, ...) PLAIN_CHECK(true, (a) == (b), #a " == " #b, __VA_ARGS__)
#define cr_expect_eq(a, b, ...) PLAIN_CHECK(false, (a) == (b), #a " == " #b, __VA_ARGS__)
#define cr_assert_neq(a, b, ...) PLAIN_CHECK(true, (a) != (b), #a " != " #b, __VA_ARGS__)
#define cr_expect_neq(a, b, ...) PLAIN_CHECK(false, (a) != (b), #a " != " #b, __VA_ARGS__)
#define cr_assert_lt(a, b, ...) PLAIN_CHECK(true, (a) < (b), #a " < " #b, __VA_ARGS__)
#define cr_expect_lt(a, b, ...) PLAIN_CHECK(false, (a) < (b), #a " < " #b, __VA_ARGS__)
#define cr_assert_leq(a, b, ...) PLAIN_CHECK(true, (a) <= (b), #a " <= " #b, __VA_ARGS__)
#define cr_expect_leq(a, b, ...) PLAIN_CHECK(false, (a) <= (b), #a " <= " #b, __VA_ARGS__)
#define cr_assert_gt(a, b, ...) PLAIN_CHECK(true, (a) > (b), #a " > " #b, __VA_ARGS__)
#define cr_expect_gt(a, b, ...) PLAIN_CHECK(false, (a) > (b), #a " > " #b, __VA_ARGS__)
#define cr_assert_geq(a, b, ...) PLAIN_CHECK(true, (a) >= (b), #a " >= " #b, __VA_ARGS__)
#define cr_expect_geq(a, b, ...) PLAIN_CHECK(false, (a) >= (b), #a " >= " #b, __VA_ARGS__)

#define cr_assert_null(p, ...) PLAIN_CHECK(true, (p) == NULL, #p " is NULL", __VA_ARGS__)
#define cr_expect_null(p, ...) PLAIN_CHECK(false, (p) == NULL, #p " is NULL", __VA_ARGS__)
#define cr_assert_not_null(p, ...) PLAIN_CHECK(true, (p) != NULL, #p " is not NULL", __VA_ARGS__)
#define cr_expect_not_null(p, ...) PLAIN_CHECK(false, (p) != NULL, #p " is not NULL", __VA_ARGS__)

#define cr_assert_str_eq(a, b, ...) PLAIN_CHECK(true, strcmp(a, b) == 0, #a " equals " #b, __VA_ARGS__)
#define cr_expect_str_eq(a, b, ...) PLAIN_CHECK(false, strcmp(a, b) == 0, #a " equals " #b, __VA_ARGS__)
#define cr_assert_str_neq(a, b, ...) PLAIN_CHECK(true, strcmp(a, b) != 0, #a " differs from " #b, __VA_ARGS__)
#define cr_expect_str_neq(a, b, ...) \
    PLAIN_CHECK(false, strcmp(a, b) != 0, #a " differs from " #b, __VA_ARGS__)
#define cr_assert_arr_eq(a, b, n, ...) PLAIN_CHECK(true, memcmp(a, b, n) == 0, #a " equals " #b, __VA_ARGS__)
#define cr_expect_arr_eq(a, b, n, ...) PLAIN_CHECK(false, memcmp(a, b, n) == 0, #a " equals " #b, __VA_ARGS__)
#define cr_assert_float_eq(a, b, e, ...) \
    PLAIN_CHECK(true, fabs((double)(a) - (double)(b)) <= (e), #a " is near " #b, __VA_ARGS__)
#define cr_expect_float_eq(a, b, e, ...) \
    PLAIN_CHECK(false, fabs((double)(a) - (double)(b)) <= (e), #a " is near " #b, __VA_ARGS__)

#endif
