/*
 * Writes small ONNX models for tests.
 *
 *   maker_t *m = maker_create(17);
 *   maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){-1, 4});          -1 = the symbol "n", -2 = "n2", …
 *   maker_floats(m, "w", 2, (int64_t[]){4, 3}, values);
 *   Onnx__NodeProto *node = maker_node(m, "MatMul", "x w", "y");    names separated by spaces, "" = absent
 *   maker_output(m, "y", DTYPE_F32, -1, NULL);                      rank -1 = not declared
 *   size_t len; uint8_t *bytes = maker_pack(m, &len);               the caller's to free; frees the maker
 *
 * maker_proto gives the message, to be damaged.
 */
#ifndef TESTS_UNIT_ONNX_MAKER_H
#define TESTS_UNIT_ONNX_MAKER_H

#include "onnx.pb-c.h"
#include "onnx/model.h"

typedef struct maker maker_t;

maker_t *maker_create(int64_t opset);
void maker_import(maker_t *m, const char *domain, int64_t version);
Onnx__ModelProto *maker_proto(maker_t *m);
void maker_input(maker_t *m, const char *name, dtype_t dtype, int rank, const int64_t *dims);
void maker_output(maker_t *m, const char *name, dtype_t dtype, int rank, const int64_t *dims);
Onnx__TensorProto *maker_floats(maker_t *m, const char *name, int rank, const int64_t *dims,
                                const float *values);
Onnx__TensorProto *maker_ints(maker_t *m, const char *name, int count, const int64_t *values);
Onnx__NodeProto *maker_node(maker_t *m, const char *op, const char *inputs, const char *outputs);
void maker_attr_int(Onnx__NodeProto *node, const char *name, int64_t value);
void maker_attr_float(Onnx__NodeProto *node, const char *name, float value);
void maker_attr_ints(Onnx__NodeProto *node, const char *name, int count, const int64_t *values);
void maker_attr_string(Onnx__NodeProto *node, const char *name, const char *value);
void maker_attr_strings(Onnx__NodeProto *node, const char *name,
                        const char *values); /* separated by spaces */
uint8_t *maker_pack(maker_t *m, size_t *len);

/* Packs and parses; the maker is gone. */
status_t maker_parse(maker_t *m, onnx_model_t **model, err_t *err);

#endif
