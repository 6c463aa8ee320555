#include "worker/state/landing.h"

landing_t landing_choose(const transfer_reach_t *reach, bool has_device, const char **why)
{
    *why = !has_device        ? "the engine reads memory of the host"
           : !reach->rdma     ? "inputs do not come by RDMA"
           : !reach->hardware ? "there is no hardware for RDMA"
           : !reach->device   ? "UCX takes no memory of CUDA"
                              : "UCX takes memory of CUDA";
    if (!has_device)
        return LANDS_IN_HOST;
    return reach->rdma && reach->hardware && reach->device ? LANDS_IN_DEVICE : LANDS_IN_PINNED;
}
