/* Which of the bodies is asked. */
#include "link/hub.h"

link_frame_t link_pack(const link_t *link, const ProtobufCMessage *message)
{
    return link->body->pack(link, message);
}

status_t link_put(link_t *link, link_frame_t frame)
{
    return link->body->put(link, frame);
}

void link_drop(link_frame_t frame)
{
    rpc_bytes_free(frame.bytes);
}

size_t link_pending_bytes(const link_t *link)
{
    return link->body->pending_bytes(link);
}

void link_close(link_t *link, rpc_code_t code, const char *text)
{
    link->body->close(link, code, text);
}

void link_cancel(link_t *link)
{
    link->body->cancel(link);
}

void link_set_ctx(link_t *link, void *ctx)
{
    link->ctx = ctx;
}

const char *link_peer(const link_t *link)
{
    return link->body->peer(link);
}

status_t link_dial(const link_via_t *via, const link_kind_t *kind, link_dial_t **dial, err_t *err)
{
    if (!via->hub)
        return dial_over_rpc(via, kind, dial, err);
    return via->loop && via->loop != via->hub->loop ? dial_between(via, kind, dial, err)
                                                    : dial_within(via->hub, kind, dial, err);
}

link_t *link_dial_up(const link_dial_t *dial)
{
    return dial->body->up(dial);
}

void link_dial_close(link_dial_t *dial, void (*on_closed)(void *arg), void *arg)
{
    dial->body->close(dial, on_closed, arg);
}

void link_dial_destroy(link_dial_t *dial)
{
    if (dial)
        dial->body->destroy(dial);
}
