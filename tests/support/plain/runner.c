/* Runs the registered tests one after the other, each in a process of its own, and sums up as Criterion does. */
#include <criterion/criterion.h>

#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

static plain_test_t *tests;
static bool failed;

void plain_register(plain_test_t *test)
{
    test->next = tests;
    tests = test;
}

void plain_failed(bool fatal, const char *file, int line, const char *what, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    fprintf(stderr, "[----] %s:%d: failed: %s:%s\n", file, line, what, text);
    failed = true;
    if (fatal)
        exit(1);
}

static const plain_options_t *suite_of(const plain_test_t *test)
{
    static const plain_options_t none;
    for (const plain_test_t *t = tests; t != NULL; t = t->next)
        if (t->name == NULL && strcmp(t->suite, test->suite) == 0)
            return &t->options;
    return &none;
}

static void call(void (*own)(void), void (*suites)(void))
{
    if (own != NULL)
        own();
    else if (suites != NULL)
        suites();
}

/* In the child. exit, not _exit: the sanitizer says its word on the way out. */
static void run_child(const plain_test_t *test, const plain_options_t *suite)
{
    double timeout_s = test->options.timeout > 0 ? test->options.timeout : suite->timeout;
    alarm(timeout_s > 0 ? (unsigned)ceil(timeout_s * 10) : 300); /* a sanitizer slows ten times down */
    call(test->options.init, suite->init);
    test->run();
    call(test->options.fini, suite->fini);
    exit(failed ? 1 : 0);
}

static bool run(const plain_test_t *test)
{
    const plain_options_t *suite = suite_of(test);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        run_child(test, suite);
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return false;
    bool ok = test->options.signal != 0 ? WIFSIGNALED(status) && WTERMSIG(status) == test->options.signal
                                        : WIFEXITED(status) && WEXITSTATUS(status) == test->options.exit_code;
    if (!ok)
        fprintf(stderr, "[FAIL] %s::%s (status %#x)\n", test->suite, test->name, (unsigned)status);
    return ok;
}

int main(void)
{
    int tested = 0, failing = 0;
    for (const plain_test_t *t = tests; t != NULL; t = t->next) {
        if (t->name == NULL || t->options.disabled)
            continue;
        tested++;
        failing += !run(t);
    }
    fprintf(stderr, "[====] Synthesis: Tested: %d | Passing: %d | Failing: %d | Crashing: 0 \n", tested,
            tested - failing, failing);
    return failing == 0 ? 0 : 1;
}
