/* The tests of openvino.c on onnxruntime. */
#define PLUGIN_ENGINE "onnxruntime"
#define PLUGIN_LACKS "NoSuchOperator"
#include "openvino.c"
