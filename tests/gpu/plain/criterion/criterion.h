/*
 * As much of criterion as the tests that are carried to a GPU machine need, without its libraries: each test
 * runs in a process of its own, one line says how it went, and the exit code is 1 when one failed.
 */
#ifndef PLAIN_CRITERION_H
#define PLAIN_CRITERION_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PLAIN_TESTS_MAX = 64 };

typedef struct {
    void (*init)(void);
    void (*fini)(void);
} plain_suite_t;

typedef struct {
    const char *name;
    void (*run)(void);
} plain_test_t;

static const char *plain_engine = "cuda"; /* what the tests run on */
static plain_test_t plain_tests[PLAIN_TESTS_MAX];
static int plain_count;
static plain_suite_t plain_suite;

#define Test(suite, test)                                                               \
    static void suite##_##test(void);                                                   \
    __attribute__((constructor)) static void suite##_##test##_add(void)                 \
    {                                                                                   \
        plain_tests[plain_count++] = (plain_test_t){#suite "::" #test, suite##_##test}; \
    }                                                                                   \
    static void suite##_##test(void)

#define TestSuite(suite, ...)                                    \
    __attribute__((constructor)) static void suite##_begin(void) \
    {                                                            \
        plain_suite = (plain_suite_t){__VA_ARGS__};              \
    }                                                            \
    typedef int suite##_suite_t

#define cr_assert(condition, ...)                                           \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
            fprintf(stderr, " " __VA_ARGS__);                               \
            fprintf(stderr, "\n");                                          \
            exit(1);                                                        \
        }                                                                   \
    } while (0)
#define cr_assert_eq(a, b, ...) cr_assert((a) == (b), __VA_ARGS__)
#define cr_assert_neq(a, b, ...) cr_assert((a) != (b), __VA_ARGS__)
#define cr_assert_gt(a, b, ...) cr_assert((a) > (b), __VA_ARGS__)
#define cr_assert_lt(a, b, ...) cr_assert((a) < (b), __VA_ARGS__)
#define cr_assert_geq(a, b, ...) cr_assert((a) >= (b), __VA_ARGS__)
#define cr_assert_leq(a, b, ...) cr_assert((a) <= (b), __VA_ARGS__)
#define cr_assert_null(a, ...) cr_assert(!(a), __VA_ARGS__)
#define cr_assert_str_eq(a, b, ...) cr_assert(!strcmp(a, b), __VA_ARGS__)
#define cr_assert_float_eq(a, b, by, ...) \
    cr_assert(fabs((double)(a) - (double)(b)) <= (double)(by), __VA_ARGS__)

static int plain_run(const plain_test_t *test)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (plain_suite.init)
            plain_suite.init();
        test->run();
        if (plain_suite.fini)
            plain_suite.fini();
        exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 0;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* [ENGINE [NAME]]: the tests whose names hold NAME; all without it. */
int main(int argc, char **argv)
{
    int failed = 0;
    if (argc > 1)
        plain_engine = argv[1];
    for (int i = 0; i < plain_count; i++) {
        if (argc > 2 && !strstr(plain_tests[i].name, argv[2]))
            continue;
        int good = plain_run(&plain_tests[i]);
        failed += !good;
        printf("%s %s\n", good ? "ok" : "FAILED", plain_tests[i].name);
        fflush(stdout);
    }
    return failed > 0;
}

#endif
