/* The tests of shapes.c on the CUDA engine over the CPU. */
#define SHAPES_ENGINE "cuda-host"
#include "shapes.c"
