/* Well-formed UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF). */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the sequence at p (1 to 4), or 0 when it is not well-formed. p ends in NUL, which is a sequence
 * of 1. */
size_t utf8_len(const char *p);

/* The same where text may end without NUL: never reads past left_bytes (at least 1). */
size_t utf8_len_n(const char *p, size_t left_bytes);

bool utf8_valid(const char *text, size_t len_bytes);

#endif
