/* What a service manager is told, by a socket of the test's own. */
#include "loop/program.h"

#include "base/clock.h"
#include "base/notify.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int manager;
static loop_program_t program;
static int hangups;

static void listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    memcpy(address.sun_path, path, strlen(path));
    if (path[0] == '@')
        address.sun_path[0] = '\0';
    manager = socket(AF_UNIX, SOCK_DGRAM, 0);
    cr_assert_eq(bind(manager, (const struct sockaddr *)&address, len), 0);
    setenv("NOTIFY_SOCKET", path, 1);
}

/* The next word of the service, while its loop turns. */
static const char *heard(void)
{
    static char text[128];
    struct pollfd ready = {.fd = manager, .events = POLLIN};
    for (int i = 0; i < 10000 && poll(&ready, 1, 0) == 0; i++)
        loop_run_once(program.loop, NS_PER_MS);
    ssize_t n = recv(manager, text, sizeof text - 1, MSG_DONTWAIT);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static void on_stop(void *arg, int signum)
{
    cr_expect_eq(arg, &manager);
    cr_expect_eq(signum, SIGTERM);
}

static void on_hangup(void *arg, int signum)
{
    (void)arg, (void)signum;
    hangups++;
}

static void open_program(void)
{
    cr_assert_eq(loop_program_open(&program, on_stop, &manager, NULL), STATUS_OK);
    loop_program_on_hangup(&program, on_hangup);
}

Test(program, tells_the_manager_how_it_is, .timeout = 120)
{
    char path[64];
    snprintf(path, sizeof path, "@fermata-notify-%d", (int)getpid());
    listen_at(path);
    open_program();
    loop_program_ready(&program);
    cr_expect_str_eq(heard(), "READY=1");
    raise(SIGHUP);
    cr_expect_eq(strncmp(heard(), "RELOADING=1\nMONOTONIC_USEC=", 27), 0);
    cr_expect_str_eq(heard(), "READY=1");
    cr_expect_eq(hangups, 1);
    raise(SIGTERM);
    cr_expect_str_eq(heard(), "STOPPING=1");
    loop_program_close(&program);
    close(manager);
}

Test(program, feeds_the_watchdog_as_long_as_its_loop_turns, .timeout = 120)
{
    char path[] = "/tmp/fermata-notify-XXXXXX", socket_path[64];
    cr_assert_not_null(mkdtemp(path));
    snprintf(socket_path, sizeof socket_path, "%s/socket", path);
    listen_at(socket_path);
    setenv("WATCHDOG_USEC", "20000", 1);
    open_program();
    loop_program_ready(&program);
    cr_expect_str_eq(heard(), "READY=1");
    for (int i = 0; i < 3; i++)
        cr_expect_str_eq(heard(), "WATCHDOG=1");
    loop_program_close(&program);
    close(manager);
    unlink(socket_path);
    rmdir(path);
}

Test(program, a_manager_who_is_not_there_is_an_error_and_none_is_none)
{
    err_t err;
    unsetenv("NOTIFY_SOCKET");
    cr_expect_eq(notify_send("READY=1", &err), STATUS_OK);
    setenv("NOTIFY_SOCKET", "", 1);
    cr_expect_eq(notify_send("READY=1", &err), STATUS_OK);
    static const char *const wrong[] = {"relative", "/tmp/fermata-nobody-is-here", "@fermata-nobody-is-here"};
    for (int i = 0; i < 3; i++) {
        setenv("NOTIFY_SOCKET", wrong[i], 1);
        cr_expect_eq(notify_send("READY=1", &err), STATUS_IO, "%s", wrong[i]);
    }
    char longer[300];
    memset(longer, 'a', sizeof longer - 1);
    longer[0] = '/';
    longer[sizeof longer - 1] = '\0';
    setenv("NOTIFY_SOCKET", longer, 1);
    cr_expect_eq(notify_send("READY=1", &err), STATUS_IO);
}

Test(program, the_watchdog_is_of_this_process)
{
    char pid[16];
    setenv("WATCHDOG_USEC", "3000000", 1);
    cr_expect_eq(notify_watchdog_ns(), 3 * NS_PER_S);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    setenv("WATCHDOG_PID", pid, 1);
    cr_expect_eq(notify_watchdog_ns(), 3 * NS_PER_S);
    setenv("WATCHDOG_PID", "1", 1);
    cr_expect_eq(notify_watchdog_ns(), 0);
    unsetenv("WATCHDOG_PID");
    static const char *const wrong[] = {"0", "-5", "x", "3s", ""};
    for (int i = 0; i < 5; i++) {
        setenv("WATCHDOG_USEC", wrong[i], 1);
        cr_expect_eq(notify_watchdog_ns(), 0, "%s", wrong[i]);
    }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* which have heaps of their own */
enum { PIECES = 64, PIECE_BYTES = 16 << 10 };

/* A message in pieces, read and freed. */
static void message_passes(void)
{
    char *pieces[PIECES];
    for (int i = 0; i < PIECES; i++) {
        pieces[i] = malloc(PIECE_BYTES);
        cr_assert(pieces[i]);
        memset(pieces[i], i, PIECE_BYTES);
    }
    for (int i = PIECES; i-- > 0;)
        free(pieces[i]);
}

Test(program, the_heap_keeps_what_messages_have_left)
{
    struct rusage before, after;
    open_program();
    message_passes();
    getrusage(RUSAGE_THREAD, &before);
    for (int i = 0; i < 10; i++)
        message_passes();
    getrusage(RUSAGE_THREAD, &after);
    cr_expect_lt(after.ru_minflt - before.ru_minflt, 100, "%ld pages for ten messages of 256",
                 after.ru_minflt - before.ru_minflt);
    loop_program_close(&program);
}
#endif
