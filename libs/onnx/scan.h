/*
 * Walks a serialised message by its descriptor without building it, to bound what unpacking it will cost.
 */
#ifndef ONNX_SCAN_H
#define ONNX_SCAN_H

#include "base/status.h"
#include "onnx/outline.h"

#include <protobuf-c/protobuf-c.h>
#include <stdint.h>

/* INVALID_ARGUMENT when it is malformed, nested deeper than max_depth or has more than max_messages messages
 * in it. outline: NULL, or written on the way. */
status_t scan_message(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t len_bytes,
                      uint32_t max_depth, uint32_t max_messages, outline_t *outline, err_t *err);

#endif
