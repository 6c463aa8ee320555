/*
 * The CPUs that this process may use: those on which it is allowed (affinity, cpusets), and how much of their time its
 * control groups leave it: `cpu.max`, or `cpu.cfs_quota_us` of version 1, of its own group and of all above it, the least of
 * which holds. Threads beyond a quota use it up sooner in each period, and then all stand still for the rest of it.
 */
#ifndef BASE_CPUS_H
#define BASE_CPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CPUS_NO_QUOTA UINT32_MAX

enum { CPUS_PATH_BYTES = 512 };

/* In thousandths of a CPU, rounded up, or CPUS_NO_QUOTA. */
typedef struct {
    uint32_t millis;
    char unread
        [CPUS_PATH_BYTES]; /* a file that is there and says neither a quota nor that there is none; "": none */
} cpus_quota_t;

typedef struct {
    uint32_t online;  /* of the host */
    uint32_t allowed; /* of those, by affinity */
    uint32_t usable;  /* the least of `allowed` and the quota rounded up; at least 1 */
    cpus_quota_t quota;
} cpus_t;

/* As things are now; what cannot be read limits nothing. Any thread. */
void cpus_look(cpus_t *cpus);

/* The first `max` of the CPUs on which the calling thread is allowed, in ascending order; returns how many, 0: unknown. */
uint32_t cpus_allowed(int *list, uint32_t max);

/* groups: as /proc/self/cgroup; root: where they are mounted, as /sys/fs/cgroup. */
void cpus_read_quota(const char *groups, const char *root, cpus_quota_t *quota);

/* The content of `cpu.max`: "max 100000\n", "50000 100000\n". False: it is not that, or not all of it. */
bool cpus_parse_max(const char *text, uint32_t *millis);

/* Those of `cpu.cfs_quota_us`, "-1\n": none, and `cpu.cfs_period_us`. */
bool cpus_parse_cfs(const char *quota, const char *period, uint32_t *millis);

#endif
