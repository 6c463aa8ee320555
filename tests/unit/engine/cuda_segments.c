/* The tests of segments.c on the CUDA engine over the CPU: same lowering, same streams, same borders as on a GPU. */
#define SEGMENTS_ENGINE "cuda-host"
#include "segments.c"

Test(segments, half_precision_at_any_cut)
{
    try_cuts(open_rig_in(networks[0].make(), ENGINE_FP16), networks[0].name);
    try_cuts(open_rig_in(network_random(3), ENGINE_BF16), "random");
}
