/* A listener when the process has no descriptor left. */
#include "base/acceptor.h"
#include "base/log.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS = 3, DESCRIPTORS = 64, FILL = 128 };

static int listener, clients[CLIENTS], filler[FILL], fillers;
static struct sockaddr_storage from;

static void listen_here(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(listener, (struct sockaddr *)&address, len) | listen(listener, CLIENTS), 0);
    cr_assert_eq(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        cr_assert_eq(connect(clients[i], (struct sockaddr *)&address, len), 0);
    }
}

/* None is left. */
static void use_up(void)
{
    const struct rlimit limit = {.rlim_cur = DESCRIPTORS, .rlim_max = DESCRIPTORS};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while ((filler[fillers] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        fillers++;
}

static bool is_closed(int client)
{
    char byte;
    return recv(client, &byte, 1, MSG_DONTWAIT) == 0;
}

TestSuite(acceptor, .init = listen_here);

Test(acceptor, turns_one_away_and_goes_on)
{
    acceptor_t acceptor;
    acceptor_init(&acceptor, "here");
    use_up();
    cr_expect_eq(acceptor_take(&acceptor, listener, &from), ACCEPTOR_LOST);
    cr_expect(is_closed(clients[0]), "and its client hears");
    cr_expect_eq(acceptors_turned_away(), 1);
    cr_expect_eq(acceptor_take(&acceptor, listener, &from), ACCEPTOR_LOST, "the reserve is there again");
    cr_expect_eq(acceptors_turned_away(), 2);
    close(filler[0]);
    int fd = acceptor_take(&acceptor, listener, &from);
    cr_assert_geq(fd, 0);
    cr_expect(fcntl(fd, F_GETFL) & O_NONBLOCK);
    cr_expect_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
    cr_expect_eq(from.ss_family, AF_INET);
    cr_expect_not(is_closed(clients[2]));
    cr_expect_eq(acceptors_turned_away(), 2);
    cr_expect_eq(acceptor_take(&acceptor, listener, &from), ACCEPTOR_EMPTY,
                 "nobody waits, though there is none left");
    cr_expect_eq(acceptors_turned_away(), 2);
    acceptor_dispose(&acceptor);
}

Test(acceptor, without_a_reserve_is_stuck_until_there_is_a_descriptor)
{
    acceptor_t acceptor;
    acceptor_init(&acceptor, "here");
    acceptor_dispose(&acceptor); /* another has it */
    use_up();
    cr_expect_eq(acceptor_take(&acceptor, listener, &from), ACCEPTOR_STUCK);
    cr_expect_eq(acceptors_turned_away(), 0);
    cr_expect_not(is_closed(clients[0]));
    close(filler[0]);
    cr_expect_geq(acceptor_take(&acceptor, listener, &from), 0);
}

Test(acceptor, says_what_the_limit_is_and_how_to_raise_it)
{
    static char text[4096];
    int ends[2];
    acceptor_t acceptor;
    log_init("gateway", LOG_INFO, LOG_FORMAT_TEXT);
    acceptor_init(&acceptor, "127.0.0.1:8000");
    cr_assert_eq(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    use_up();
    acceptor_take(&acceptor, listener, &from);
    cr_assert_gt(read(ends[0], text, sizeof text - 1), 0);
    cr_expect_not_null(strstr(text, " ERROR gateway out_of_descriptors listen=127.0.0.1:8000 limit=64 "),
                       "%s", text);
    cr_expect_not_null(strstr(text, "ulimit -Hn"), "%s", text);
}
