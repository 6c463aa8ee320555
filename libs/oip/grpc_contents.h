/*
 * InferTensorContents: the typed form of tensor data in gRPC requests.
 */
#ifndef OIP_GRPC_CONTENTS_H
#define OIP_GRPC_CONTENTS_H

#include "oip/request.h"
#include "oip/wire.h"

/* Converts the message into the input's data, in memory of the allocator. */
status_t grpc_contents_read(oip_input_t *input, wire_reader_t contents, const oip_allocator_t *allocator,
                            err_t *err);

#endif
