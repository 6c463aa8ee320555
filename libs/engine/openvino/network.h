/*
 * A model as OpenVINO has read it, before it is compiled. Its inputs can be given other shapes; nothing else in it changes.
 * One thread at a time.
 */
#ifndef ENGINE_OPENVINO_NETWORK_H
#define ENGINE_OPENVINO_NETWORK_H

#include "engine/engine.h"
#include "engine/openvino/library.h"
#include "graph/ir/tensor.h"

/* An input or output as it is declared. */
typedef struct {
    char name[256]; /* one of those that it has */
    dtype_t dtype;
    uint32_t rank;
    int64_t dims[ENGINE_MAX_RANK]; /* -1: open */
} declared_t;

typedef struct {
    ov_model_t *model;
    uint32_t input_count, output_count;
} network_t;

enum { NETWORK_UNUSED = -1 };

/* Where each input and output of a description is in a network, which need not have the same order or names. */
typedef struct {
    int inputs[ENGINE_MAX_IO], outputs[ENGINE_MAX_IO]; /* NETWORK_UNUSED: an input that OpenVINO left out */
} network_map_t;

/* From the file, or the bytes, of `what`; UNSUPPORTED when OpenVINO lacks something for it. */
status_t network_read(network_t *network, const engine_load_t *what, err_t *err);
void network_dispose(network_t *network); /* one of all zeros is fine */

/* UNSUPPORTED names what is no dense tensor of numbers, or has no rank. */
status_t network_declared(const network_t *network, bool input, uint32_t i, declared_t *declared, err_t *err);

/* UNSUPPORTED names an input or output that is not there. */
status_t network_match(const network_t *network, const engine_model_info_t *info, network_map_t *map,
                       err_t *err);

/* Gives the inputs other shapes, -1 for open dims; inputs[i] is that of input which[i]. Scalars stay what they are. After a
 * failure all must be given anew. */
status_t network_reshape(network_t *network, const int *which, const tensor_t *inputs, uint32_t count,
                         err_t *err);

#endif
