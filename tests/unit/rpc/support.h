/*
 * What the rpc tests share: one loop that is turned until something is true, a runtime, a server on a free port and
 * a client to it.
 */
#ifndef TEST_RPC_SUPPORT_H
#define TEST_RPC_SUPPORT_H

#include "rpc/client.h"
#include "rpc/server.h"
#include "until.h"

#include <stdatomic.h>
#include <string.h>

typedef struct {
    loop_t *loop;
    rpc_runtime_t *runtime;
    rpc_server_t *server;
    rpc_client_t *client;
    bool stopped;
} rig_t;

#define rig_until(rig, condition) loop_until((rig)->loop, condition)

/* Time passes. */
void rig_turn(rig_t *rig, int64_t duration_ns);

/* address NULL = 127.0.0.1:0. Add methods between rig_server and rig_serve. */
void rig_init(rig_t *rig);
void rig_server(rig_t *rig, const char *address, const rpc_limits_t *limits);
void rig_serve(rig_t *rig);
void rig_client(rig_t *rig, const rpc_limits_t *limits);
void rig_stop_server(rig_t *rig, int64_t drain_ns);
void rig_dispose(rig_t *rig);
void rig_flag(void *flag); /* sets a bool */

/* One unary call and its answer. */
typedef struct {
    bool done;
    rpc_code_t code;
    char text[128];
    size_t len_bytes;
    unsigned char first;
} answer_t;
void answer_take(void *arg, rpc_code_t code, const char *text, rpc_bytes_t *response, bool *keep);
rpc_unary_t *rig_call(rig_t *rig, const char *method, int64_t timeout_ns, rpc_bytes_t *request,
                      answer_t *answer);

/* Answers with the request's own bytes. */
void echo_handler(rpc_call_t *call, void *arg);
rpc_bytes_t *bytes_of(const char *text);

#endif
