/*
 * Reads JSON from memory value by value, without a tree: the caller decides what becomes of each value. The text
 * need not end in NUL. Every function leaves the reader behind what it read, or fails with
 * INVALID_ARGUMENT and the position.
 */
#ifndef OIP_JSON_READER_H
#define OIP_JSON_READER_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *begin, *at, *end;
    uint32_t depth; /* of open arrays and objects; bounded by OIP_JSON_MAX_DEPTH */
    err_t *err;
} json_reader_t;

/* More members of one object than any known client sends; bounds the search for duplicates. */
enum { JSON_MAX_MEMBERS = 64, JSON_KEY_BYTES = 256 };

static inline void json_read_space(json_reader_t *reader)
{
    while (reader->at < reader->end &&
           (*reader->at == ' ' || *reader->at == '\n' || *reader->at == '\t' || *reader->at == '\r'))
        reader->at++;
}

/* The next character that is no space, not taken; NUL at the end. */
static inline char json_read_peek(json_reader_t *reader)
{
    json_read_space(reader);
    return reader->at < reader->end ? *reader->at : '\0';
}

/* "JSON at byte 17: …". */
status_t json_read_fail(json_reader_t *reader, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Calls member for each key with the reader at its value, which it must read. Duplicate keys fail. */
typedef status_t (*json_member_fn)(json_reader_t *reader, const char *key, void *user);
status_t json_read_object(json_reader_t *reader, json_member_fn member, void *user);

/* Calls element with the reader at each element, which it must read. */
typedef status_t (*json_element_fn)(json_reader_t *reader, void *user);
status_t json_read_array(json_reader_t *reader, json_element_fn element, void *user);

/* Decodes a string into out, which must hold its text length (decoding never grows); -1 in a NUL-terminated
 * context is the caller's business: the result may contain NULs and gets none at the end. */
status_t json_read_string(json_reader_t *reader, char *out, size_t cap, size_t *len);
/* A string that becomes a C string: fails when it holds a NUL or does not fit. */
status_t json_read_text(json_reader_t *reader, char *out, size_t cap);
status_t json_read_bool(json_reader_t *reader, bool *value);

/* A number as written: ±mantissa * 10^exponent. NaN, Infinity and -Infinity are read too, as Python writes them. */
typedef struct {
    uint64_t mantissa;
    int32_t exponent;
    bool negative;
    bool integral; /* written without fraction and exponent */
    bool inexact;  /* more digits than the mantissa holds */
    char special;  /* 'N' NaN, 'I' infinity, 0 a number */
    const char *text;
} json_number_t;

status_t json_read_number(json_reader_t *reader, json_number_t *number);
/* Correctly rounded; huge numbers become infinities. */
double json_read_double(const json_number_t *number);
/* False when it is no integer or does not fit. */
bool json_read_int64(const json_number_t *number, int64_t *value);
bool json_read_uint64(const json_number_t *number, uint64_t *value);

/* Reads any value and forgets it. */
status_t json_read_skip(json_reader_t *reader);

#endif
