#include "base/utf8.h"

#include <stdint.h>

size_t utf8_len(const char *p)
{
    return utf8_len_n(p, SIZE_MAX); /* a NUL is no continuation byte: nothing after it is read */
}

size_t utf8_len_n(const char *text, size_t left_bytes)
{
    const unsigned char *p = (const unsigned char *)text;
    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    size_t len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (len > left_bytes)
        return 0;
    /* The second byte alone decides about overlong forms, surrogates and the upper end. */
    unsigned char lo = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char hi = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
    if (p[1] < lo || p[1] > hi)
        return 0;
    for (size_t i = 2; i < len; i++)
        if (p[i] < 0x80 || p[i] > 0xbf)
            return 0;
    return len;
}

bool utf8_valid(const char *text, size_t len_bytes)
{
    while (len_bytes > 0) {
        size_t len = utf8_len_n(text, len_bytes);
        if (len == 0)
            return false;
        text += len;
        len_bytes -= len;
    }
    return true;
}
