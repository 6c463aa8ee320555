/*
 * Tensor elements as JSON text.
 */
#ifndef OIP_JSON_WRITE_H
#define OIP_JSON_WRITE_H

#include "base/strbuf.h"
#include "oip/tensor.h"

/* Longest text of one element: "-2.2250738585072014e-308". */
enum { JSON_NUMBER_BYTES = 32 };

/* Each writes the text of one number without a NUL and returns its length. Floats: the shortest text that reads back
 * equal (for doubles: at 15, 16 or 17 digits); NaN, Infinity and -Infinity for what has no digits. */
size_t json_write_fp32(char *out, float value);
size_t json_write_fp64(char *out, double value);
size_t json_write_int64(char *out, int64_t value);
size_t json_write_uint64(char *out, uint64_t value);

/* Elements of a tensor, separated by commas; first: no comma before the first one. FP16 and BF16 write nothing. */
void json_write_elements(strbuf_t *out, oip_datatype_t type, const void *data, size_t len_bytes, bool first);

#endif
