/* The tests of shapes.c on the engine of OpenVINO. */
#define SHAPES_ENGINE "openvino"
#include "shapes.c"
