/* What a confined process can still do, and what ends it. */
#include "loader/confine.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Exit code of what a child does, or minus the signal that ended it. */
static int in_a_child(int (*does)(void))
{
    int how;
    pid_t child = fork();

    if (child == 0)
        _exit(does());
    cr_assert_eq(waitpid(child, &how, 0), child);
    return WIFSIGNALED(how) ? -WTERMSIG(how) : WEXITSTATUS(how);
}

static int reads_and_writes_pipes(void)
{
    int ends[2], fd;
    char got = 0;

    if (!confine_calls())
        return 77;
    fd = open("/proc/self/status", O_RDONLY);
    return fd >= 0 && read(fd, &got, 1) == 1 && pipe(ends) == 0 && write(ends[1], "x", 1) == 1 ? 0 : 1;
}

static void *nothing(void *arg)
{
    return arg;
}

static int starts_threads(void)
{
    pthread_t thread;

    (void)confine_calls();
    return pthread_create(&thread, NULL, nothing, NULL) || pthread_join(thread, NULL);
}

static int writes_a_file(void)
{
    (void)confine_calls();
    return open("/tmp/x", O_WRONLY | O_CREAT, 0600) < 0 ? errno : 0;
}

static int removes_a_file(void)
{
    (void)confine_calls();
    return unlink("/tmp/nothing-of-this-name") < 0 ? errno : 0;
}

static int opens_a_socket(void)
{
    (void)confine_calls();
    return socket(AF_UNIX, SOCK_STREAM, 0) < 0;
}

static int runs_a_program(void)
{
    (void)confine_calls();
    return execl("/bin/true", "true", (char *)NULL);
}

static int forks(void)
{
    (void)confine_calls();
    return fork() < 0;
}

static int signals_others(void)
{
    (void)confine_calls();
    return kill(getppid(), 0);
}

static int aborts(void)
{
    (void)confine_calls();
    abort();
}

Test(confine, what_a_load_needs_goes_on)
{
    cr_expect_eq(in_a_child(reads_and_writes_pipes), 0);
    cr_expect_eq(in_a_child(starts_threads), 0);
    cr_expect_eq(in_a_child(aborts), -SIGABRT, "it may still end as it likes");
}

Test(confine, files_are_as_on_a_read_only_file_system)
{
    cr_expect_eq(in_a_child(writes_a_file), EROFS);
    cr_expect_eq(in_a_child(removes_a_file), EROFS);
}

Test(confine, what_leads_out_of_the_process_ends_it)
{
    cr_expect_eq(in_a_child(opens_a_socket), -SIGSYS);
    cr_expect_eq(in_a_child(runs_a_program), -SIGSYS);
    cr_expect_eq(in_a_child(forks), -SIGSYS);
    cr_expect_eq(in_a_child(signals_others), -SIGSYS);
}

/* The filter is for threads that were there before it. */
static int go[2];

static void *opens_when_told(void *arg)
{
    char word;

    (void)arg;
    if (read(go[0], &word, 1) == 1)
        (void)socket(AF_UNIX, SOCK_STREAM, 0);
    return NULL;
}

static int an_older_thread_opens_a_socket(void)
{
    pthread_t thread;

    if (pipe(go) != 0 || pthread_create(&thread, NULL, opens_when_told, NULL) != 0 || !confine_calls())
        return 77;
    return write(go[1], "x", 1) == 1 ? pthread_join(thread, NULL) : 1;
}

Test(confine, threads_of_engines_are_confined_too)
{
    cr_expect_eq(in_a_child(an_older_thread_opens_a_socket), -SIGSYS);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

enum { BUDGET = 64 << 20 };

static int takes(size_t bytes)
{
    err_t err;

    if (confine_memory(BUDGET, &err) != STATUS_OK)
        return 77;
    void *got = malloc(bytes);
    int code = got ? 0 : 1;
    free(got);
    return code;
}

static int takes_half(void)
{
    return takes(BUDGET / 2);
}

static int takes_double(void)
{
    return takes((size_t)BUDGET * 2);
}

Test(confine, memory_is_what_it_was_given)
{
    cr_expect_eq(in_a_child(takes_half), 0);
    cr_expect_eq(in_a_child(takes_double), 1);
}

#endif

static int of_another_parent(void)
{
    err_t err;

    return confine_start(1, NS_PER_S, &err) == STATUS_CANCELLED ? 0 : 1;
}

static int burns(void)
{
    err_t err;

    if (confine_start(getppid(), 0, &err) != STATUS_OK)
        return 77;
    for (;;)
        ;
}

Test(confine, nobody_computes_for_a_parent_that_has_gone_or_for_ever)
{
    cr_expect_eq(in_a_child(of_another_parent), 0);
    cr_expect_eq(in_a_child(burns), -SIGXCPU);
}
