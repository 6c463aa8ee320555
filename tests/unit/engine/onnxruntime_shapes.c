/* The tests of shapes.c on onnxruntime. */
#define SHAPES_ENGINE "onnxruntime"
#include "shapes.c"
