/* How bytes are cut into records. */
#include "tls/internal.h"

#include <string.h>

enum { OVERHEAD_BYTES = 64 }; /* of a record: 5 of its head, 17 of TLS 1.3; 24 and more of TLS 1.2 */

size_t tls_next_record(const struct iovec *pieces, size_t count, size_t skip, uint8_t room[TLS_RECORD_BYTES],
                       const uint8_t **from)
{
    size_t len = 0, left = pieces[0].iov_len - skip;
    if (left >= TLS_RECORD_BYTES / 2 || count == 1) {
        *from = (const uint8_t *)pieces[0].iov_base + skip;
        return left < TLS_RECORD_BYTES ? left : TLS_RECORD_BYTES;
    }
    for (size_t i = 0; i < count && len < TLS_RECORD_BYTES; i++, skip = 0) {
        left = pieces[i].iov_len - skip;
        size_t n = left < TLS_RECORD_BYTES - len ? left : TLS_RECORD_BYTES - len;
        if (n > 0)
            memcpy(room + len, (const uint8_t *)pieces[i].iov_base + skip, n);
        len += n;
    }
    *from = room;
    return len;
}

size_t tls_records_bytes(size_t len_bytes)
{
    return len_bytes + (len_bytes / TLS_RECORD_BYTES + 2) * OVERHEAD_BYTES;
}
