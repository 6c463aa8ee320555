/*
 * What a model says of itself by its network, for graphs that libs/graph does not read: declared shapes, and whether its outputs
 * grow when its inputs are given two rows.
 */
#ifndef ENGINE_OPENVINO_SIGNATURE_H
#define ENGINE_OPENVINO_SIGNATURE_H

#include "engine/compile/describe.h"
#include "engine/openvino/network.h"

/* UNSUPPORTED names the input or output that is no dense tensor of numbers. Leaves other shapes in the network. */
status_t signature_read(description_t *d, network_t *network, const engine_load_t *what, err_t *err);

#endif
