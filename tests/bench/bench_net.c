#include "bench_net.h"

#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

void must(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "bench: %s failed\n", what);
    exit(1);
}

bool recv_all(int fd, void *to, size_t len_bytes)
{
    for (size_t have = 0; have < len_bytes;) {
        ssize_t got = recv(fd, (uint8_t *)to + have, len_bytes - have, 0);
        if (got <= 0)
            return false;
        have += (size_t)got;
    }
    return true;
}

bool send_all(int fd, const void *from, size_t len_bytes)
{
    for (size_t done = 0; done < len_bytes;) {
        ssize_t sent = send(fd, (const uint8_t *)from + done, len_bytes - done, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        done += (size_t)sent;
    }
    return true;
}

static int no_delay(int fd)
{
    int on = 1;

    must(fd >= 0, "a socket");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

static struct sockaddr_in name_of(const char *host, uint16_t port)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(port)};

    must(inet_pton(AF_INET, host, &name.sin_addr) == 1, "an address");
    return name;
}

int listen_at(const char *host, uint16_t port, uint16_t *real_port)
{
    struct sockaddr_in name = name_of(host, port);
    socklen_t len = sizeof(name);
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    must(bind(fd, (struct sockaddr *)&name, len) == 0 && listen(fd, 64) == 0, "listening");
    getsockname(fd, (struct sockaddr *)&name, &len);
    if (real_port)
        *real_port = ntohs(name.sin_port);
    return fd;
}

int connect_to(const char *host, uint16_t port)
{
    struct sockaddr_in name = name_of(host, port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    must(connect(fd, (struct sockaddr *)&name, sizeof(name)) == 0, "connecting");
    return no_delay(fd);
}

int accept_one(int listener)
{
    return no_delay(accept(listener, NULL, NULL));
}

static int compare_i64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

double percentile_us(int64_t *samples, int count, double p)
{
    qsort(samples, (size_t)count, sizeof(*samples), compare_i64);
    return (double)samples[(int)((double)(count - 1) * p)] / 1e3;
}

uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

double random_exp(uint64_t *state)
{
    return -log(((double)(random_next(state) >> 11) + 1) / 9007199254740993.0);
}
