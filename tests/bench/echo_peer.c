/*
 * fermata-echo-peer [--stream | --short]
 *
 * The least that an HTTP server can do with a body, for benchmarks: one libuv loop that answers each POST with the body that came. It looks for the end of the
 * head and the Content-Length in it, and at nothing else; a client waits for its answer, and sends a head in one piece. A body is
 * collected and goes back in one write, as of a server that has to have all of it before it can answer; with --stream each piece goes
 * back when it was read; with --short only the first 4,000 bytes, as of a model with few outputs. Prints its address.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum { BODY_MAX = 4 << 20, PIECE_BYTES = 64 << 10, SHORT_BYTES = 4000 };

/* What is read, and with --stream written from there. */
typedef struct {
    uv_write_t write;
    char bytes[PIECE_BYTES];
} piece_t;

typedef struct {
    uv_tcp_t tcp;
    size_t length, came; /* of the body; no length: the next is a head */
    char reply[96];
    char body[BODY_MAX];
} client_t;

static bool streaming, brief;

static size_t answer_bytes(const client_t *client)
{
    return brief && client->length > SHORT_BYTES ? SHORT_BYTES : client->length;
}

static void die(const char *what)
{
    fprintf(stderr, "fermata-echo-peer: %s\n", what);
    exit(1);
}

static void *take_memory(size_t len)
{
    void *memory = malloc(len);
    if (!memory)
        die("out of memory");
    return memory;
}

/* A client that is gone is told of by reading. */
static void on_written(uv_write_t *write, int rc)
{
    (void)rc;
    free(write);
}

/* write: the beginning of memory that is freed then. */
static void send_parts(client_t *client, uv_write_t *write, const uv_buf_t *parts, unsigned count)
{
    if (uv_write(write, (uv_stream_t *)&client->tcp, parts, count, on_written) != 0)
        die("cannot write");
}

/* Returns the length of the head. */
static size_t take_head(client_t *client, const char *bytes, size_t len)
{
    static const char end[] = "\r\n\r\n", field[] = "\r\nContent-Length: ";
    const char *last = memmem(bytes, len, end, 4), *length = memmem(bytes, len, field, sizeof field - 1);
    client->length = last && length && length < last ? strtoul(length + sizeof field - 1, NULL, 10) : 0;
    if (client->length == 0 || client->length > BODY_MAX)
        die("no request that this program answers");
    snprintf(client->reply, sizeof client->reply, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n",
             answer_bytes(client));
    return (size_t)(last - bytes) + 4;
}

static void collected(client_t *client, size_t more)
{
    client->came += more;
    if (client->came < client->length)
        return;
    const uv_buf_t parts[] = {uv_buf_init(client->reply, (unsigned)strlen(client->reply)),
                              uv_buf_init(client->body, (unsigned)answer_bytes(client))};
    client->length = client->came = 0;
    send_parts(client, take_memory(sizeof(uv_write_t)), parts, 2);
}

static void pass_on(client_t *client, piece_t *piece, size_t at, size_t len)
{
    bool first = client->came == 0;
    const uv_buf_t parts[] = {uv_buf_init(client->reply, (unsigned)strlen(client->reply)),
                              uv_buf_init(piece->bytes + at, (unsigned)(len - at))};
    client->came += len - at;
    if (client->came >= client->length)
        client->length = client->came = 0;
    send_parts(client, &piece->write, first ? parts : parts + 1, first ? 2 : 1);
}

static void take_piece(client_t *client, piece_t *piece, size_t len)
{
    size_t at = client->length ? 0 : take_head(client, piece->bytes, len);
    if (streaming) {
        pass_on(client, piece, at, len);
        return;
    }
    memcpy(client->body, piece->bytes + at, len - at);
    free(piece);
    collected(client, len - at);
}

/* ---- libuv ---- */

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    client_t *client = handle->data;
    (void)suggested;
    if (client->length && !streaming) {
        *buf = uv_buf_init(client->body + client->came, (unsigned)(client->length - client->came));
        return;
    }
    piece_t *piece = take_memory(sizeof *piece);
    *buf = uv_buf_init(piece->bytes, PIECE_BYTES);
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    client_t *client = stream->data;
    bool in_body = buf->base >= client->body && buf->base < client->body + BODY_MAX;
    piece_t *piece = in_body || !buf->base ? NULL : (piece_t *)(void *)(buf->base - offsetof(piece_t, bytes));
    if (n > 0 && piece)
        take_piece(client, piece, (size_t)n);
    else if (n > 0)
        collected(client, (size_t)n);
    else
        free(piece);
    if (n < 0)
        uv_close((uv_handle_t *)stream, on_closed);
}

static void on_connection(uv_stream_t *listener, int rc)
{
    client_t *client = take_memory(sizeof *client);
    client->length = client->came = 0;
    client->tcp.data = client;
    uv_tcp_init(listener->loop, &client->tcp);
    if (rc != 0 || uv_accept(listener, (uv_stream_t *)&client->tcp) != 0)
        die("cannot accept");
    uv_tcp_nodelay(&client->tcp, 1);
    uv_read_start((uv_stream_t *)&client->tcp, on_alloc, on_read);
}

int main(int argc, char **argv)
{
    uv_tcp_t listener;
    struct sockaddr_in address;
    int len = sizeof address;
    streaming = argc == 2 && strcmp(argv[1], "--stream") == 0;
    brief = argc == 2 && strcmp(argv[1], "--short") == 0;
    if (argc > 1 && !streaming && !brief) {
        fprintf(stderr, "usage: fermata-echo-peer [--stream | --short]\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    uv_ip4_addr("127.0.0.1", 0, &address);
    uv_tcp_init(uv_default_loop(), &listener);
    if (uv_tcp_bind(&listener, (struct sockaddr *)&address, 0) != 0 ||
        uv_listen((uv_stream_t *)&listener, 128, on_connection) != 0 ||
        uv_tcp_getsockname(&listener, (struct sockaddr *)&address, &len) != 0)
        die("cannot listen");
    printf("127.0.0.1:%u\n", (unsigned)ntohs(address.sin_port));
    fflush(stdout);
    return uv_run(uv_default_loop(), UV_RUN_DEFAULT);
}
