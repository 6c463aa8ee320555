/*
 * One unary call to the scheduler's admin service, from the command line: asks, waits, keeps the answer.
 *
 *   admin_call_t call = {.err = &err, .type = &admin__…__descriptor};
 *   if (admin_call(&call, "GetState", &request.base) == STATUS_OK) … call.answer …
 *   pb_arena_dispose(&call.arena);
 */
#ifndef FERMATA_CLIENT_ADMIN_CALL_H
#define FERMATA_CLIENT_ADMIN_CALL_H

#include "base/status.h"
#include "config/value.h"
#include "loop/loop.h"
#include "rpc/pb.h"
#include "tls/options.h"

typedef struct {
    char scheduler[CONFIG_ADDRESS_TEXT_BYTES];
    const char *api_key; /* NULL: none */
    tls_client_options_t tls;
    loop_t *loop;
    pb_arena_t arena;
    const ProtobufCMessageDescriptor *type; /* of the answer */
    ProtobufCMessage *answer;               /* in the arena */
    status_t status;
    err_t *err;
} admin_call_t;

/* On success the answer lives until pb_arena_dispose(&call->arena), which is due in any case. */
status_t admin_call(admin_call_t *call, const char *method, const ProtobufCMessage *request);

#endif
