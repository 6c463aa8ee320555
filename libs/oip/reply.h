/*
 * Builds an oip_reply_t: own bytes and borrowed pieces in order. While it grows, the head buffer may move, so what
 * points into it is kept as offsets (in iov_base) until reply_finish.
 */
#ifndef OIP_REPLY_H
#define OIP_REPLY_H

#include "oip/request.h"

void reply_begin(oip_reply_t *reply);
/* Adds the pieces: copied into the head when small or when the iovecs are used up, borrowed otherwise. */
void reply_pieces(oip_reply_t *reply, const struct iovec *pieces, uint32_t count);
/* Resolves the offsets; TOO_LARGE when the head hit its limit. */
status_t reply_finish(oip_reply_t *reply, err_t *err);

/* Bytes of all pieces of an output. */
size_t reply_output_bytes(const oip_output_t *output);

#endif
