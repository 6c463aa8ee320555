/*
 * What the server's files share. A connection owns a queue of requests:
 *
 *   socket ─▶ parser ─▶ current ──(headers in)──▶ first ─ … ─ last      oldest … newest, answers leave from the front
 *                                                             └── still receiving its body: current is last
 *
 * A request that its connection no longer waits for, but that a handler has yet to answer, is an orphan
 * (connection == NULL). Invariants: requests of the queue up to, but not including, last are complete;
 * pending is the length of the queue; nothing behind a request with `close` is parsed.
 */
#ifndef HTTP_INTERNAL_H
#define HTTP_INTERNAL_H

#include "base/acceptor.h"
#include "http/head.h"
#include "http/router.h"
#include "http/server.h"
#include "tls/session.h"

#include <llhttp.h>

enum {
    READ_BUFFER_BYTES = 64 << 10,  /* one for all connections: a read is parsed before the next one starts */
    BODY_STEP_BYTES = 64 << 10,    /* a body buffer grows from here, and so must the client's progress */
    DISCARD_MAX_BYTES = 256 << 10, /* an unwanted body up to here is read to keep the connection alive */
    ACCEPTS_PER_EVENT = 64,        /* more wait for the next turn of the loop */
    ACCEPT_PAUSE_MS = 50,          /* when none can be taken */
    LINGER_MS = 2000,  /* how long a closing connection is drained, so that its answer is not reset away */
    REFUSED_MAX = 128, /* connections over the limit that are told so before the rest is just closed */
    SPARE_REQUESTS_MAX = 1024,     /* recycled request objects, about 4 KiB each */
    SPARE_BUFFER_BYTES = 16 << 10, /* a recycled request keeps buffers up to here */
    WRITE_IOVS_MAX = 64,           /* pieces per writev */
    SECURE_STEP_BYTES = 64 << 10,  /* of an answer that are encrypted before they are sent */
    INLINE_IOVS = 8,               /* head + outputs of nearly every model */
    PEER_BYTES = 56,
};

typedef struct http_connection http_connection_t;

/* A growing text; offsets into it stay valid, pointers do not. */
typedef struct {
    char *data;
    size_t len, cap;
} textbuf_t;

bool textbuf_reserve(textbuf_t *buf, size_t more);
bool textbuf_add(textbuf_t *buf, const void *data, size_t len);

typedef enum {
    BODY_NONE,
    BODY_IN_READ_BUFFER, /* gone after on_request */
    BODY_OF_HANDLER,
    BODY_OWNED,
} body_place_t;

struct http_request {
    http_server_t *server;
    http_connection_t *connection; /* NULL: orphan */
    http_request_t *next;          /* in the queue or the spare list */

    /* the message */
    textbuf_t text; /* url \0 name \0 value \0 … and decoded route parameters */
    struct {
        uint32_t name, value;
    } headers[HTTP_HEADERS_MAX];
    unsigned header_count;
    http_method_t method;
    uint32_t path, query;
    int64_t content_length; /* -1 chunked */
    const compiled_route_t *route;
    uint32_t params[HTTP_PARAMS_MAX];

    body_place_t body_place;
    uint8_t *body;
    size_t body_len, body_cap;
    uint8_t *owned; /* kept over recycling */
    size_t owned_cap;

    bool headers_done, complete; /* received */
    size_t trailer_bytes;
    bool handed; /* a handler has heard of it and owes an answer */
    bool keep_alive, http10;
    bool continue_wanted; /* Expect: 100-continue, and we have not said so yet */
    void *context;
    void *caller;

    /* the answer */
    bool answered, sent, close;
    int status;
    textbuf_t head;
    struct iovec iov_inline[INLINE_IOVS];
    struct iovec *iov; /* [0] is the head; moves on as bytes leave */
    size_t iov_next, iov_count;
    void (*release)(void *arg);
    void *release_arg;
};

typedef enum {
    CONNECTION_OPEN,
    CONNECTION_LINGERING, /* the last answer is out; input is thrown away until the client closes */
    CONNECTION_CLOSED,    /* uv_close called */
} connection_state_t;

struct http_connection {
    uv_tcp_t tcp;
    uv_timer_t timer; /* fires at timer_at_ms, which may be earlier than the deadline: it is then set again */
    uv_write_t write;
    uv_shutdown_t shutdown;
    http_server_t *server;
    http_connection_t *prev, *next;   /* all connections */
    http_connection_t *deferred_next; /* server->deferred */
    llhttp_t parser;
    connection_state_t state;
    http_request_t *current; /* being received */
    http_request_t *first, *last;
    unsigned pending;
    unsigned refs;      /* two handles, and one while put off; 0 frees it */
    bool refused;       /* over the connection limit */
    bool corked;        /* answers wait for the end of the parsing */
    bool parser_paused; /* the pipeline is full */
    bool no_more;       /* nothing is parsed any more: the last request is in */
    bool broken;        /* a write failed, or requests are left that nobody may answer */
    bool drain_input;   /* the client may still be sending: linger before closing */
    bool writing;       /* uv_write under way */
    bool ending;        /* with TLS: the last answer is encrypted, and not quite out */
    bool deferred;
    uint8_t *stash; /* read, but not parsed yet: what lies from stash_at on */
    size_t stash_at, stash_len;
    uint64_t active_ms;  /* start of the idle time */
    uint64_t receive_ms; /* start of the headers, or the last step of the body */
    size_t receive_step; /* body_len at that time */
    uint64_t write_ms;   /* last progress of a blocked write */
    size_t write_left;   /* bytes handed to uv_write */
    size_t write_seen;   /* of them not taken at the last look */
    uint64_t linger_ms;
    uint64_t opened_ms;
    uint64_t timer_at_ms; /* 0: not running */
    head_state_t head;    /* of the message, or the trailers, being received */
    bool stopped;         /* by a parser callback */
    int fail_status;      /* why it stopped the parser; 0: it has been answered */
    const char *fail_text;
    char peer[PEER_BYTES];
    tls_session_t *tls; /* NULL: plain */
    uint8_t *flight;    /* with TLS: what uv_write is writing */
};

struct http_server {
    uv_loop_t *loop;
    http_server_config_t config;
    router_t *router;
    uv_poll_t listener;
    int listen_fd;
    acceptor_t acceptor;
    uv_timer_t stop_timer, accept_timer;
    uv_idle_t deferring; /* runs while `deferred` is not empty */
    /* What the loop calls for it, and for the timer of a connection: those who set them stand below those who answer. */
    uv_idle_cb on_deferring;
    uv_timer_cb on_timer;
    llhttp_settings_t parser_settings;
    http_connection_t *connections;
    unsigned connection_count, refused_count;
    http_connection_t *deferred;
    http_request_t *spare;
    unsigned spare_count;
    unsigned owed; /* requests handed and not answered */
    bool parting;  /* answers end their connections */
    bool stopping, stopped, finishing, abandoned;
    unsigned open_handles;
    http_server_stopped_fn stop_done;
    void *stop_user;
    char address[PEER_BYTES];
    uint16_t port;
    uint64_t date_s; /* of date_text */
    char date_text[40];
    http_server_counters_t counters;
    uint8_t read_buffer[READ_BUFFER_BYTES];
    uint8_t *cipher_buffer; /* with TLS: as large, for what comes from the network */
};

/* Each of these files calls only those that stand behind it here; server.c stands above all. */

/* connection.c */
void connection_accept(http_server_t *server, int fd); /* its own from here on */
void connection_resume(http_connection_t *connection);
void connection_on_timer(uv_timer_t *timer);

/* receive.c: parser callbacks; connection_parse ends with the answers sent */
void receive_settings(llhttp_settings_t *settings);
void connection_parse(http_connection_t *connection, const uint8_t *data, size_t len);
uv_buf_t receive_buffer(http_connection_t *connection);
/* Answers the message being received with an error and ends the input of the connection. */
void receive_fail(http_connection_t *connection, int status, const char *text);

/* send.c */
void connection_flush(http_connection_t *connection);

/* closing.c */
typedef enum {
    WAIT_NOTHING,
    WAIT_HANDSHAKE,
    WAIT_IDLE,
    WAIT_HEADERS,
    WAIT_BODY,
    WAIT_WRITE,
    WAIT_LINGER
} wait_t;
/* What the client owes us most urgently, and until when (ms of the loop). */
wait_t connection_next_deadline(const http_connection_t *connection, uint64_t *deadline_ms);
void connection_arm_timer(http_connection_t *connection);
void connection_unref(http_connection_t *connection);
void connection_close(http_connection_t *connection);
/* A close with unread input would reset the connection and could take the answer with it: waits for the client's. */
void connection_linger(http_connection_t *connection);
bool connection_is_idle(const http_connection_t *connection);

/* secure.c */
/* Where the server has TLS, the connection gets a session; false: it cannot be served. */
bool secure_open(http_connection_t *connection);
bool secure_shaking_hands(const http_connection_t *connection);
/* Sends what the session has to send; true: nothing is left. Where the socket is broken, so is the connection. */
bool secure_push(http_connection_t *connection);
/* Tells the client that no more will come, if there is TLS; as far as the socket takes it now. */
void secure_end(http_connection_t *connection);
/* The session has failed: counted, and logged once a second. */
void secure_refused(http_connection_t *connection);

/* server_end.c */
/* Has the connection looked at in the next turn of the loop: resumed, or closed if it is broken. */
void server_defer(http_server_t *server, http_connection_t *connection);
/* Ends a stop when nothing is left that it waits for. */
void server_check_stopped(http_server_t *server);
void server_close_listener(http_server_t *server, uv_close_cb closed);
void server_on_closed(uv_handle_t *handle); /* of a server that stops */
void server_free(http_server_t *server);

/* request.c */
http_request_t *request_create(http_server_t *server, http_connection_t *connection);
void request_recycle(http_request_t *request);
void request_dispose_all(http_server_t *server);
void request_release(http_request_t *request); /* tells whose the body is */
void request_orphan(http_request_t *request);
void queue_push(http_connection_t *connection, http_request_t *request);
http_request_t *queue_pop(http_connection_t *connection);

#endif
