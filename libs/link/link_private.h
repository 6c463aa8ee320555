/* The three bodies of a link. */
#ifndef LINK_LINK_PRIVATE_H
#define LINK_LINK_PRIVATE_H

#include "link/link.h"
#include "rpc/client.h"

typedef struct {
    link_frame_t (*pack)(const link_t *link, const ProtobufCMessage *message);
    status_t (*put)(link_t *link, link_frame_t frame);
    size_t (*pending_bytes)(const link_t *link);
    void (*close)(link_t *link, rpc_code_t code, const char *text);
    void (*cancel)(link_t *link);
    const char *(*peer)(const link_t *link);
} link_body_t;

/* What each body's link begins with. */
struct link {
    const link_body_t *body;
    const link_kind_t *kind;
    void *ctx;
};

typedef struct {
    link_t *(*up)(const link_dial_t *dial);
    void (*close)(link_dial_t *dial, void (*on_closed)(void *arg), void *arg);
    void (*destroy)(link_dial_t *dial);
} dial_body_t;

struct link_dial {
    const dial_body_t *body;
    const link_kind_t *kind;
};

status_t dial_over_rpc(const link_via_t *via, const link_kind_t *kind, link_dial_t **dial, err_t *err);
status_t dial_within(link_hub_t *hub, const link_kind_t *kind, link_dial_t **dial, err_t *err);
status_t dial_between(const link_via_t *via, const link_kind_t *kind, link_dial_t **dial, err_t *err);

/* Unpacks, tells, empties the arena. */
void link_hear(link_t *link, rpc_bytes_t *bytes);

#endif
