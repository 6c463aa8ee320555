/* The tests of segment_shapes.c on the CUDA engine over the CPU. */
#define SEGMENTS_ENGINE "cuda-host"
#include "segment_shapes.c"
