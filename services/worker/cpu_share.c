#include "worker/cpu_share.h"

#include "base/log.h"

#include <stdio.h>

uint32_t cpu_share_threads(const cpus_t *cpus, uint32_t asked, uint32_t devices)
{
    uint32_t each = devices ? cpus->usable / devices : cpus->usable;

    if (asked)
        return asked;
    return each ? each : 1;
}

uint32_t cpu_share_left(const cpus_t *cpus, uint64_t threads)
{
    return threads < cpus->usable ? cpus->usable - (uint32_t)threads : 0;
}

void cpu_share_tell(const cpus_t *cpus, uint32_t devices, uint32_t streams, uint32_t threads)
{
    uint64_t all = (uint64_t)devices * streams * threads;
    char quota[32] = "none";

    if (cpus->quota.millis != CPUS_NO_QUOTA)
        snprintf(quota, sizeof(quota), "%.3g", cpus->quota.millis / 1e3);
    log_info("cpus", LOG_U64("online", cpus->online), LOG_U64("allowed", cpus->allowed),
             LOG_STR("quota", quota), LOG_U64("usable", cpus->usable), LOG_U64("threads", all),
             LOG_U64("left", cpu_share_left(cpus, all)));
    if (*cpus->quota.unread)
        log_warn("cpu_quota_not_read", LOG_STR("file", cpus->quota.unread));
    if (all > cpus->usable)
        log_warn("more_threads_than_cpus", LOG_U64("threads", all), LOG_U64("usable", cpus->usable),
                 LOG_STR("quota", quota));
}
