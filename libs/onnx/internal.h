/* Shared by the files of libs/onnx. */
#ifndef ONNX_INTERNAL_H
#define ONNX_INTERNAL_H

#include "onnx.pb-c.h"

#include <stdbool.h>

struct onnx_model {
    Onnx__ModelProto *proto;
    char *folder; /* resolved; NULL = no external data */
};

#endif
