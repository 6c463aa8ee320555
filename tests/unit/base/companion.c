#include "base/companion.h"

#include "base/clock.h"
#include "shell_program.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static companion_t start(const char *words)
{
    companion_t companion;
    err_t err = {0};
    cr_assert_eq(companion_start(shell_program(words), &companion, &err), STATUS_OK, "%s", err.text);
    return companion;
}

TestSuite(companion, .fini = shell_program_remove);

Test(companion, it_hears_and_answers_and_has_nothing_else_of_ours)
{
    const companion_patience_t endless = {.until_ns = INT64_MAX};
    int other = dup(STDERR_FILENO), how;
    char answer[8] = "";
    companion_t companion =
        start("read word; echo $word; test -e /proc/self/fd/$word && echo open || echo shut");
    dprintf(companion.in, "%d\n", other);
    cr_assert_eq(companion_get(companion.out, answer, 7, &endless), STATUS_OK);
    cr_assert_not_null(strstr(answer, "shut"), "%s", answer);
    cr_assert(companion_end(&companion, INT64_MAX, &how));
}

Test(companion, one_that_says_nothing_is_waited_for_until_the_time_is_up_and_then_killed)
{
    companion_t companion = start("exec sleep 1000");
    const companion_patience_t patience = {.until_ns = clock_now_ns() + 10 * NS_PER_MS};
    char answer;
    int how = 0;
    cr_assert_eq(companion_get(companion.out, &answer, 1, &patience), STATUS_DEADLINE_EXCEEDED);
    cr_assert(companion_end(&companion, INT64_MAX, &how));
    cr_assert(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
}

static bool at_once(void *arg)
{
    return *(bool *)arg;
}

Test(companion, who_stops_does_not_wait_for_it)
{
    bool stopped = true;
    companion_t companion = start("exec sleep 1000");
    const companion_patience_t patience = {.until_ns = INT64_MAX, .stopped = at_once, .arg = &stopped};
    char answer;
    int how;
    cr_assert_eq(companion_get(companion.out, &answer, 1, &patience), STATUS_CANCELLED);
    cr_assert(companion_end(&companion, INT64_MAX, &how));
}

Test(companion, its_own_death_is_told_and_not_ours)
{
    const companion_patience_t endless = {.until_ns = INT64_MAX};
    companion_t companion = start("kill -SEGV $$");
    char answer;
    int how = 0;
    cr_assert_eq(companion_get(companion.out, &answer, 1, &endless), STATUS_IO);
    siginfo_t dead;
    cr_assert_eq(waitid(P_PID, (id_t)companion.pid, &dead, WEXITED | WNOWAIT), 0,
                 "all of its pipes are closed");
    cr_assert_eq(companion_put(companion.in, "x", 1, &endless), STATUS_IO, "and no signal");
    cr_assert(companion_end(&companion, INT64_MAX, &how));
    cr_assert(WIFSIGNALED(how) && WTERMSIG(how) == SIGSEGV);
}

Test(companion, a_program_that_is_not_there_is_told)
{
    companion_t companion;
    err_t err = {0};
    cr_assert_eq(companion_start("/nowhere/at-all", &companion, &err), STATUS_NOT_FOUND);
    cr_assert_not_null(strstr(err.text, "/nowhere/at-all"));
}
