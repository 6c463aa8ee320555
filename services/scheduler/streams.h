/* The control streams: messages of gateways and workers, decoded for the control plane, and its messages, packed for them. */
#ifndef SCHEDULER_STREAMS_H
#define SCHEDULER_STREAMS_H

#include "base/status.h"
#include "control/cluster/world.h"

typedef struct scheduler scheduler_t;

enum {
    STREAM_MESSAGE_BYTES_MAX =
        16 << 20, /* the largest report of a model is its labels: 21,000 classes are 1 MB */
    STREAMS_UNFINISHED_BYTES_MAX =
        16 * STREAM_MESSAGE_BYTES_MAX, /* of messages that have come in part, all streams together */
    STREAM_FRAMES_BYTES_MAX = 8 << 20, /* that wait to be sent, beside one that is large by itself */
};

status_t streams_add(scheduler_t *s); /* before its gRPC server, if it has one, starts */

/* For the world; a link is one of these streams. */
bool stream_send(void *link, const ProtobufCMessage *frame);
bool stream_takes_large(void *link);
void stream_close(void *link, close_reason_t why, const char *text);
void stream_cancel(void *link);

#endif
