#include "oip/json_reader.h"

#include <string.h>

static bool read_hex4(json_reader_t *reader, uint32_t *unit)
{
    uint32_t value = 0;
    if (reader->end - reader->at < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        char c = reader->at[i];
        uint32_t digit;
        if (c >= '0' && c <= '9')
            digit = (uint32_t)(c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            digit = (uint32_t)((c | 0x20) - 'a') + 10;
        else
            return false;
        value = value << 4 | digit;
    }
    reader->at += 4;
    *unit = value;
    return true;
}

static size_t put_utf8(char *out, uint32_t code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3f));
        out[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3f));
    out[2] = (char)(0x80 | (code >> 6 & 0x3f));
    out[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

/* Behind "\u". Two halves of a surrogate pair are one character; a lone half is an error. */
static status_t read_unicode(json_reader_t *reader, uint32_t *code)
{
    uint32_t low;
    if (!read_hex4(reader, code))
        return json_read_fail(reader, "expected four hexadecimal digits");
    if (*code >= 0xdc00 && *code <= 0xdfff)
        return json_read_fail(reader, "lone surrogate");
    if (*code < 0xd800 || *code > 0xdbff)
        return STATUS_OK;
    if (reader->end - reader->at < 6 || reader->at[0] != '\\' || reader->at[1] != 'u')
        return json_read_fail(reader, "lone surrogate");
    reader->at += 2;
    if (!read_hex4(reader, &low) || low < 0xdc00 || low > 0xdfff)
        return json_read_fail(reader, "lone surrogate");
    *code = 0x10000 + ((*code - 0xd800) << 10) + (low - 0xdc00);
    return STATUS_OK;
}

/* Behind the backslash. Writes at most 4 bytes. */
static status_t read_escape(json_reader_t *reader, char *out, size_t *len)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (reader->at == reader->end)
        return json_read_fail(reader, "unterminated string");
    char c = *reader->at++;
    if (c == 'u') {
        uint32_t code = 0;
        status_t status = read_unicode(reader, &code);
        *len = status ? 0 : put_utf8(out, code);
        return status;
    }
    const char *found = c ? strchr(from, c) : NULL;
    if (!found)
        return json_read_fail(reader, "unknown escape");
    out[0] = to[found - from];
    *len = 1;
    return STATUS_OK;
}

static const char *plain_end(const char *at, const char *end)
{
    while (at < end && *at != '"' && *at != '\\' && (uint8_t)*at >= 0x20)
        at++;
    return at;
}

status_t json_read_string(json_reader_t *reader, char *out, size_t cap, size_t *len)
{
    size_t used = 0;
    if (json_read_peek(reader) != '"')
        return json_read_fail(reader, "expected a string");
    reader->at++;
    for (;;) {
        const char *stop = plain_end(reader->at, reader->end);
        char piece[4];
        const char *from = reader->at;
        size_t count = (size_t)(stop - reader->at);
        reader->at = stop;
        if (count == 0) {
            if (stop == reader->end)
                return json_read_fail(reader, "unterminated string");
            if ((uint8_t)*stop < 0x20)
                return json_read_fail(reader, "control character in a string");
            reader->at++;
            if (*stop == '"')
                break;
            status_t status = read_escape(reader, piece, &count);
            if (status)
                return status;
            from = piece;
        }
        if (count > cap - used)
            return json_read_fail(reader, "string longer than %zu bytes", cap);
        memcpy(out + used, from, count);
        used += count;
    }
    *len = used;
    return STATUS_OK;
}

status_t json_read_text(json_reader_t *reader, char *out, size_t cap)
{
    size_t len = 0;
    status_t status = json_read_string(reader, out, cap - 1, &len);
    if (status)
        return status;
    if (memchr(out, '\0', len))
        return json_read_fail(reader, "NUL character in a name");
    out[len] = '\0';
    return STATUS_OK;
}
