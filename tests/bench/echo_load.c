/*
 * fermata-echo-load PORT PATH JSON_BYTES FILE CONNECTIONS SECONDS
 *
 * Sends the bytes of FILE to a server on 127.0.0.1 again and again, over each connection when it has answered the last, and throws the answers away: a client
 * that costs little, so that the server is what is measured. JSON_BYTES is sent as Inference-Header-Content-Length; what lies behind them in the
 * file has to be the end of the first answer of each connection, of others status and length are looked at. Prints answers, seconds,
 * and the CPU time of this program, as JSON.
 */
#include "bench_net.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 256, REQUEST_MAX = 4 << 20, HEAD_MAX = 1 << 10 };

typedef struct {
    int fd;
    size_t sent, left; /* of the request; of the answer's body */
    size_t head_bytes;
    char head[HEAD_MAX + 1];
} peer_t;

static char request[REQUEST_MAX];
static size_t request_bytes, tail_bytes;

static void make_request(const char *path, size_t json_bytes, const char *file)
{
    FILE *in = fopen(file, "rb");
    must(in && fseek(in, 0, SEEK_END) == 0, file);
    long size = ftell(in);
    must(size > 0 && (size_t)size + HEAD_MAX < sizeof request && (size_t)size >= json_bytes,
         "size of the file");
    rewind(in);
    int head = snprintf(request, HEAD_MAX,
                        "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\n"
                        "Inference-Header-Content-Length: %zu\r\nContent-Length: %ld\r\n\r\n",
                        path, json_bytes, size);
    must(head < HEAD_MAX && fread(request + head, (size_t)size, 1, in) == 1, "request");
    request_bytes = (size_t)head + (size_t)size;
    tail_bytes = (size_t)size - json_bytes;
    fclose(in);
}

/* Length of an answer's body; 0: its head is not whole yet. */
static size_t read_head(char *head, size_t *head_bytes)
{
    static const char field[] = "\r\nContent-Length: ";
    const char *end = strstr(head, "\r\n\r\n"), *length = strstr(head, field);
    if (!end)
        return 0;
    must(strncmp(head, "HTTP/1.1 200 ", 13) == 0 && length && length < end, head);
    *head_bytes = (size_t)(end - head) + 4;
    return strtoul(length + sizeof field - 1, NULL, 10);
}

static void check_first_answer(int fd)
{
    static char answer[REQUEST_MAX + HEAD_MAX + 1];
    size_t len = 0, head_bytes, body = 0;
    must(send_all(fd, request, request_bytes), "send");
    for (; body == 0 || len < head_bytes + body; answer[len] = '\0') {
        ssize_t n = recv(fd, answer + len, sizeof answer - 1 - len, 0);
        must(n > 0, "the first answer");
        len += (size_t)n;
        answer[len] = '\0';
        body = body ? body : read_head(answer, &head_bytes);
    }
    must(body >= tail_bytes &&
             memcmp(answer + len - tail_bytes, request + request_bytes - tail_bytes, tail_bytes) == 0,
         "the answer has what was sent");
}

static void push(peer_t *peer)
{
    while (peer->sent < request_bytes) {
        ssize_t n =
            send(peer->fd, request + peer->sent, request_bytes - peer->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0)
            return;
        peer->sent += (size_t)n;
    }
}

/* False: nothing is there. */
static bool pull_some(peer_t *peer)
{
    static char nowhere[REQUEST_MAX];
    bool in_head = peer->left == 0;
    ssize_t n = in_head
                    ? recv(peer->fd, peer->head + peer->head_bytes, HEAD_MAX - peer->head_bytes, MSG_DONTWAIT)
                    : recv(peer->fd, nowhere, peer->left, MSG_DONTWAIT | MSG_TRUNC); /* copies nothing */
    if (n < 0 && errno == EAGAIN)
        return false;
    must(n > 0, "the server closed");
    if (!in_head) {
        peer->left -= (size_t)n;
        return true;
    }
    size_t head_bytes;
    peer->head_bytes += (size_t)n;
    peer->head[peer->head_bytes] = '\0';
    peer->left = read_head(peer->head, &head_bytes);
    if (peer->left > 0) {
        peer->left -= peer->head_bytes - head_bytes;
        peer->head_bytes = 0;
    }
    return true;
}

/* How many answers came to an end. */
static unsigned pull(peer_t *peer)
{
    unsigned answers = 0;
    while (pull_some(peer)) {
        if (peer->left > 0 || peer->head_bytes > 0)
            continue;
        answers++;
        peer->sent = 0;
        push(peer);
    }
    return answers;
}

static uint64_t run(uint16_t port, unsigned connections, int64_t until_ns)
{
    static peer_t peers[CONNECTIONS_MAX];
    struct epoll_event events[CONNECTIONS_MAX];
    int epoll = epoll_create1(0);
    uint64_t answers = 0;
    for (unsigned i = 0; i < connections; i++) {
        peers[i].fd = connect_to("127.0.0.1", port);
        check_first_answer(peers[i].fd);
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = &peers[i]};
        must(epoll_ctl(epoll, EPOLL_CTL_ADD, peers[i].fd, &event) == 0, "epoll");
    }
    while (clock_now_ns() < until_ns) {
        int count = epoll_wait(epoll, events, CONNECTIONS_MAX, 100);
        for (int i = 0; i < count; i++) {
            push(events[i].data.ptr);
            answers += pull(events[i].data.ptr);
        }
    }
    return answers;
}

int main(int argc, char **argv)
{
    unsigned connections = argc == 7 ? (unsigned)atoi(argv[5]) : 0;
    if (connections < 1 || connections > CONNECTIONS_MAX) {
        fprintf(stderr, "usage: fermata-echo-load PORT PATH JSON_BYTES FILE CONNECTIONS SECONDS\n");
        return 2;
    }
    make_request(argv[2], strtoul(argv[3], NULL, 10), argv[4]);
    int64_t begin_ns = clock_now_ns();
    uint64_t answers = run((uint16_t)atoi(argv[1]), connections, begin_ns + (int64_t)(atof(argv[6]) * 1e9));
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    printf("{\"answers\": %llu, \"seconds\": %.6f, \"cpu_s\": %.6f}\n", (unsigned long long)answers,
           (double)(clock_now_ns() - begin_ns) / 1e9,
           (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
               (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
    return 0;
}
