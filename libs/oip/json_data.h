/*
 * JSON `data` arrays, nested or flat, straight into typed tensor memory.
 */
#ifndef OIP_JSON_DATA_H
#define OIP_JSON_DATA_H

#include "oip/json_reader.h"
#include "oip/tensor.h"

/* Fewest characters that one element takes in an array: a digit and a comma; quotes and a comma. */
enum { JSON_MIN_NUMBER_CHARS = 2, JSON_MIN_STRING_CHARS = 3 };

/*
 * Reads an array of exactly `count` elements at any nesting into out[0..cap_bytes). Integers must be written as
 * integers and fit; booleans are true, false, 1 or 0; BYTES elements are strings, written with their length prefix.
 * *len_bytes is what was written. name is the input's, for the error text.
 */
status_t json_data_read(json_reader_t *reader, const char *name, oip_datatype_t type, uint64_t count,
                        uint8_t *out, size_t cap_bytes, size_t *len_bytes);

#endif
