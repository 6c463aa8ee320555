#include "http/url.h"

#include <string.h>

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static status_t decode(const char *text, size_t len, char *out, size_t cap, char plus)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++, n++) {
        if (n + 1 >= cap)
            return STATUS_TOO_LARGE;
        if (text[i] == '%') {
            int high = i + 2 < len ? hex_digit(text[i + 1]) : -1;
            int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
            if (low < 0 || (high == 0 && low == 0))
                return STATUS_INVALID_ARGUMENT;
            out[n] = (char)(high * 16 + low);
            i += 2;
        } else {
            out[n] = text[i] == '+' ? plus : text[i];
        }
    }
    if (cap == 0)
        return STATUS_TOO_LARGE;
    out[n] = '\0';
    return STATUS_OK;
}

status_t url_decode(const char *text, size_t len, char *out, size_t cap)
{
    return decode(text, len, out, cap, '+');
}

status_t url_query_get(const char *query, const char *key, char *out, size_t cap)
{
    size_t key_len = strlen(key);
    for (const char *at = query; *at;) {
        size_t len = strcspn(at, "&");
        if (len >= key_len && memcmp(at, key, key_len) == 0 && (len == key_len || at[key_len] == '=')) {
            size_t skip = len == key_len ? key_len : key_len + 1;
            return decode(at + skip, len - skip, out, cap, ' ');
        }
        at += len + (at[len] == '&');
    }
    return STATUS_NOT_FOUND;
}
