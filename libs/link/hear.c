/* What all bodies do with a message that was packed. */
#include "link/link_private.h"

#include "rpc/pb.h"

void link_hear(link_t *link, rpc_bytes_t *bytes)
{
    const link_kind_t *kind = link->kind;

    kind->ops.said(link, link->ctx, rpc_unpack(kind->hears, bytes, kind->arena));
    pb_arena_reset(kind->arena);
}
