/* The tests of overlap_service.c on the CUDA engine over the CPU. */
#define SERVICE_ENGINE "cuda-host"
#include "overlap_service.c"
