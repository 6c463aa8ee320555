/*
 * Percent-decoding and query strings. Pure; any thread.
 */
#ifndef HTTP_URL_H
#define HTTP_URL_H

#include "base/status.h"

/*
 * Decodes %XX of text[0..len) into out (capacity cap, NUL included) and terminates it.
 * STATUS_INVALID_ARGUMENT on a broken escape or an encoded NUL, STATUS_TOO_LARGE when it does not fit. A '+'
 * stays a '+'.
 */
status_t url_decode(const char *text, size_t len, char *out, size_t cap);

/*
 * Finds key in a raw query string ("a=1&b=x%20y") and decodes its value like url_decode, with '+' as a space.
 * STATUS_NOT_FOUND when it is absent.
 */
status_t url_query_get(const char *query, const char *key, char *out, size_t cap);

#endif
