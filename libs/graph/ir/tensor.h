/*
 * A dense row-major tensor: type, shape and, once known, data that someone else owns.
 */
#ifndef GRAPH_IR_TENSOR_H
#define GRAPH_IR_TENSOR_H

#include "base/status.h"
#include "onnx/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TENSOR_MAX_RANK = 8 };

/* No single value may be larger: beyond this a shape is a mistake or an attack. */
#define TENSOR_MAX_BYTES ((size_t)1 << 34)

typedef struct {
    dtype_t dtype;
    uint32_t rank;
    int64_t dims[TENSOR_MAX_RANK];
    void *data; /* NULL = only the shape is known */
} tensor_t;

/* Elements, and elements of the dims [from, to); dims are known and within bounds. */
size_t tensor_count(const tensor_t *t);
size_t tensor_count_range(const tensor_t *t, uint32_t from, uint32_t to);
size_t tensor_bytes(const tensor_t *t);

/* TOO_LARGE or INVALID_ARGUMENT unless every dim is >= 0 and the whole fits TENSOR_MAX_BYTES. */
status_t tensor_check(const tensor_t *t, err_t *err);

bool tensor_same_shape(const tensor_t *a, const tensor_t *b);

/* Row-major strides in elements. */
void tensor_strides(const tensor_t *t, int64_t *strides);

/* "f32[1,3,224,224]" */
enum { TENSOR_TEXT_BYTES = 128 };
const char *tensor_text(const tensor_t *t, char text[TENSOR_TEXT_BYTES]);

/* Numbers of any type but strings, converted. */
double tensor_get_f64(const tensor_t *t, size_t index);
int64_t tensor_get_i64(const tensor_t *t, size_t index);

/* IEEE half and bfloat16, round to nearest even. */
float half_to_float(uint16_t half);
uint16_t float_to_half(float value);
float bf16_to_float(uint16_t bits);
uint16_t float_to_bf16(float value);

/*
 * Reference-counted memory of constants, shared by all instances of a graph; the counter is atomic. Aligned
 * to 64.
 */
typedef struct blob blob_t;
blob_t *blob_create(size_t len_bytes);
void *blob_data(blob_t *blob);
blob_t *blob_ref(blob_t *blob);
void blob_unref(blob_t *blob); /* NULL is fine */

/*
 * Who alone reads a large blob, and can make its contents again, may drop them: the pages go back to the host, and the addresses stay
 * what they are. To touch them then is a fault, where zeros would be computed with without a word. One thread at a time.
 */
enum {
    BLOB_DROP_LEAST_BYTES = 128 << 10,
    BLOB_DROPS_MOST = 8192, /* of the process: each takes two of the kernel's 65,530 mappings */
};
size_t blob_drop(blob_t *blob); /* as many bytes; 0: it is as it was */
size_t
blob_restore(blob_t *blob); /* as many bytes are there again, all to be written anew; 0: it is as it was */

#endif
