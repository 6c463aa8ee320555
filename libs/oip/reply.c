#include "oip/reply.h"

void oip_reply_init(oip_reply_t *reply, size_t limit_bytes)
{
    strbuf_init(&reply->head, limit_bytes);
    reply_begin(reply);
}

void oip_reply_dispose(oip_reply_t *reply)
{
    strbuf_dispose(&reply->head);
}

void reply_begin(oip_reply_t *reply)
{
    strbuf_clear(&reply->head);
    reply->iov_count = 0;
    reply->run_end = 0;
    reply->len_bytes = reply->json_bytes = 0;
}

/*
 * The head is cut into runs between borrowed pieces. A run is entered as {NULL, end offset} and turned into
 * {pointer, length} at the end, when the head no longer moves.
 */
static void close_run(oip_reply_t *reply)
{
    if (reply->head.len_bytes == reply->run_end)
        return;
    reply->run_end = reply->head.len_bytes;
    reply->iov[reply->iov_count++] = (struct iovec){.iov_base = NULL, .iov_len = reply->run_end};
}

void reply_pieces(oip_reply_t *reply, const struct iovec *pieces, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        /* Room must be left for this run, this piece and the last run. */
        if (pieces[i].iov_len < OIP_REPLY_COPY_BYTES || reply->iov_count + 3 > OIP_REPLY_IOVECS) {
            strbuf_append(&reply->head, pieces[i].iov_base, pieces[i].iov_len);
            continue;
        }
        close_run(reply);
        reply->iov[reply->iov_count++] = pieces[i];
    }
}

status_t reply_finish(oip_reply_t *reply, err_t *err)
{
    if (reply->head.failed)
        return err_set(err, STATUS_TOO_LARGE, "the answer is larger than the limit of %zu bytes",
                       reply->head.max_bytes);
    close_run(reply);
    size_t start = 0;
    for (uint32_t i = 0; i < reply->iov_count; i++) {
        struct iovec *piece = &reply->iov[i];
        if (!piece->iov_base) {
            size_t end = piece->iov_len;
            *piece = (struct iovec){.iov_base = reply->head.data + start, .iov_len = end - start};
            start = end;
        }
        reply->len_bytes += piece->iov_len;
    }
    return STATUS_OK;
}

size_t reply_output_bytes(const oip_output_t *output)
{
    size_t len_bytes = 0;
    for (uint32_t i = 0; i < output->piece_count; i++)
        len_bytes += output->pieces[i].iov_len;
    return len_bytes;
}
