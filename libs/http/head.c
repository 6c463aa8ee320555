#include "http/head.h"

#include <string.h>

static const char *const bare_lf = "a line ends in LF without CR", *const bare_cr =
                                                                       "a line ends in CR without LF";

/* What a byte that follows a CR means. */
static const char *take_lf(head_state_t *state, uint8_t byte, head_state_t then)
{
    if (byte != '\n')
        return bare_cr;
    *state = then;
    return NULL;
}

static const char *start_line(head_state_t *state, uint8_t byte)
{
    if (byte == ' ' || byte == '\t')
        return "a header line is folded";
    if (byte == ':')
        return "a header line has no name";
    if (byte == '\n')
        return bare_lf;
    *state = byte == '\r' ? HEAD_END_LF : HEAD_LINE;
    return NULL;
}

static const char *take_byte(head_state_t *state, uint8_t byte)
{
    switch (*state) {
    case HEAD_BEFORE:
        *state = byte == '\r' ? HEAD_BEFORE_LF : HEAD_LINE;
        return byte == '\n' ? bare_lf : NULL;
    case HEAD_BEFORE_LF:
        return take_lf(state, byte, HEAD_BEFORE);
    case HEAD_LINE:
        if (byte == '\r')
            *state = HEAD_LINE_LF;
        return byte == '\n' ? bare_lf : NULL;
    case HEAD_LINE_LF:
        return take_lf(state, byte, HEAD_START);
    case HEAD_START:
        return start_line(state, byte);
    case HEAD_END_LF:
        return take_lf(state, byte, HEAD_BODY);
    case HEAD_BODY:
        break;
    }
    return NULL;
}

/* Bytes of a line before its end; all of them where none is in sight. */
static size_t plain_bytes(const uint8_t *data, size_t len)
{
    const uint8_t *lf = memchr(data, '\n', len);
    size_t until = lf ? (size_t)(lf - data) : len;
    const uint8_t *cr = memchr(data, '\r', until);
    return cr ? (size_t)(cr - data) : until;
}

const char *head_scan(head_state_t *state, const uint8_t *data, size_t len)
{
    const char *wrong = NULL;
    for (size_t i = 0; i < len && *state != HEAD_BODY && !wrong; i++) {
        if (*state == HEAD_LINE)
            i += plain_bytes(data + i, len - i);
        if (i < len)
            wrong = take_byte(state, data[i]);
    }
    return wrong;
}
