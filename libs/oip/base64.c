#include "oip/base64.h"

#include <stdbool.h>
#include <string.h>

enum { PREFIX_BYTES = 4 };

/* -1: no character of base64. */
static int value_of(uint8_t c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* What lies behind the text's last character: up to two '=' and line breaks. */
static bool is_padding(const uint8_t *text, size_t len, uint32_t characters)
{
    uint32_t signs = 0;

    for (size_t i = 0; i < len; i++) {
        if (text[i] == '=')
            signs++;
        else if (text[i] != '\n' && text[i] != '\r')
            return false;
    }
    return signs == 0 || (signs < 3 && (characters + signs) % 4 == 0);
}

/* `to` may be where `text` is or before it. Returns the bytes written, or -1 with *wrong = where. */
static int64_t decode(const uint8_t *text, size_t len, uint8_t *to, size_t *wrong)
{
    uint32_t bits = 0, characters = 0;
    int64_t written = 0;
    size_t i = 0;

    for (; i < len; i++) {
        int value = value_of(text[i]);
        if (value < 0 && text[i] != '\n' && text[i] != '\r')
            break;
        if (value < 0)
            continue;
        bits = bits << 6 | (uint32_t)value;
        if (characters++ % 4 > 0)
            to[written++] = (uint8_t)(bits >> (6 - 2 * ((characters - 1) % 4)));
    }
    *wrong = i;
    return characters % 4 != 1 && is_padding(text + i, len - i, characters % 4) ? written : -1;
}

status_t oip_base64_decode(const char *input, uint8_t *elements, size_t *len_bytes, err_t *err)
{
    uint8_t *to = elements;
    size_t element = 0;

    for (const uint8_t *at = elements, *end = elements + *len_bytes; at < end; element++) {
        uint32_t text_bytes;
        size_t wrong;
        memcpy(&text_bytes, at, PREFIX_BYTES);
        int64_t bytes = decode(at + PREFIX_BYTES, text_bytes, to + PREFIX_BYTES, &wrong);
        if (bytes < 0)
            return err_set(err, STATUS_INVALID_ARGUMENT,
                           "input '%s', element %zu: no base64 from character %zu on", input, element,
                           wrong + 1);
        at += PREFIX_BYTES + text_bytes;
        uint32_t prefix = (uint32_t)bytes;
        memcpy(to, &prefix, PREFIX_BYTES);
        to += PREFIX_BYTES + bytes;
    }
    *len_bytes = (size_t)(to - elements);
    return STATUS_OK;
}
