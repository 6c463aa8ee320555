#include "base/cpus.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FILE_BYTES = 64, /* two numbers */
    LINE_BYTES = 4352,
    MILLIS = 1000,
    PERIOD_MIN_US = 1000, /* Linux refuses others */
    PERIOD_MAX_US = 1000000,
    CPUS_MAX = 4096, /* more than any host has */
};

/* ---- what the files say ---- */

/* Digits up to `end`, which follows at once; the text goes on behind it. */
static bool take_number(const char **text, char end, uint64_t *value)
{
    const char *at = *text;
    uint64_t number = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (number > UINT64_MAX / MILLIS / 100)
            return false;
        number = number * 10 + (uint64_t)(*at - '0');
    }
    if (at == *text || *at != end)
        return false;
    *text = at + 1;
    *value = number;
    return true;
}

static bool take_period(const char *text, uint64_t *period_us)
{
    return take_number(&text, '\n', period_us) && !*text && *period_us >= PERIOD_MIN_US &&
           *period_us <= PERIOD_MAX_US;
}

static bool in_millis(uint64_t quota_us, uint64_t period_us, uint32_t *millis)
{
    uint64_t part = (quota_us * MILLIS + period_us - 1) / period_us;
    if (part == 0)
        return false;
    *millis = part < CPUS_NO_QUOTA ? (uint32_t)part : CPUS_NO_QUOTA;
    return true;
}

bool cpus_parse_max(const char *text, uint32_t *millis)
{
    uint64_t quota_us, period_us;
    if (strncmp(text, "max ", 4) == 0) {
        if (!take_period(text + 4, &period_us))
            return false;
        *millis = CPUS_NO_QUOTA;
        return true;
    }
    return take_number(&text, ' ', &quota_us) && take_period(text, &period_us) &&
           in_millis(quota_us, period_us, millis);
}

bool cpus_parse_cfs(const char *quota, const char *period, uint32_t *millis)
{
    uint64_t quota_us, period_us;
    if (!take_period(period, &period_us))
        return false;
    if (strcmp(quota, "-1\n") == 0) {
        *millis = CPUS_NO_QUOTA;
        return true;
    }
    return take_number(&quota, '\n', &quota_us) && !*quota && in_millis(quota_us, period_us, millis);
}

/* ---- where they lie ---- */

/* False: there is none. */
static bool read_file(const char *folder, const char *name, char path[CPUS_PATH_BYTES], char text[FILE_BYTES])
{
    if (snprintf(path, CPUS_PATH_BYTES, "%s/%s", folder, name) >= CPUS_PATH_BYTES)
        return false;
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    text[fread(text, 1, FILE_BYTES - 1, file)] = '\0';
    fclose(file);
    return true;
}

static void read_group(const char *folder, cpus_quota_t *quota)
{
    char path[CPUS_PATH_BYTES], text[FILE_BYTES], period[FILE_BYTES], beside[CPUS_PATH_BYTES];
    uint32_t millis = CPUS_NO_QUOTA;
    bool good = true;
    if (read_file(folder, "cpu.max", path, text))
        good = cpus_parse_max(text, &millis);
    else if (read_file(folder, "cpu.cfs_quota_us", path, text))
        good =
            read_file(folder, "cpu.cfs_period_us", beside, period) && cpus_parse_cfs(text, period, &millis);
    if (!good)
        memcpy(quota->unread, path, sizeof quota->unread);
    else if (millis < quota->millis)
        quota->millis = millis;
}

/* The group and all above it. In a container the mount may begin below the root that the path is told from: then only what is
 * there counts, at last the mount's own folder. */
static void read_groups(const char *root, const char *mount, const char *group, cpus_quota_t *quota)
{
    char folder[CPUS_PATH_BYTES];
    size_t top = strlen(root) + (*mount ? 1 + strlen(mount) : 0);
    if (strstr(group, "/.."))
        group = "";
    if (snprintf(folder, sizeof folder, "%s%s%s%s", root, *mount ? "/" : "", mount, group) >=
        (int)sizeof folder)
        return;
    for (size_t len = strlen(folder); len >= top; len--) {
        if (len > top && folder[len] != '/' && folder[len] != '\0')
            continue;
        folder[len] = '\0';
        if (len == top || folder[len - 1] != '/')
            read_group(folder, quota);
    }
}

static bool names_cpu(const char *controllers)
{
    for (const char *at = controllers; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == 3 && strncmp(at, "cpu", 3) == 0)
            return true;
    return false;
}

void cpus_read_quota(const char *groups, const char *root, cpus_quota_t *quota)
{
    char line[LINE_BYTES];
    FILE *file = fopen(groups, "re");
    *quota = (cpus_quota_t){.millis = CPUS_NO_QUOTA};
    while (file && fgets(line, sizeof line, file)) {
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group || group[1] != '/')
            continue;
        *controllers++ = *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        if (!*controllers) {
            read_groups(root, "", group, quota);
            read_groups(root, "unified", group, quota);
        } else if (names_cpu(controllers)) {
            read_groups(root, controllers, group, quota);
            if (strcmp(controllers, "cpu") != 0)
                read_groups(root, "cpu", group, quota);
        }
    }
    if (file)
        fclose(file);
}

/* ---- all together ---- */

uint32_t cpus_allowed(int *list, uint32_t max)
{
    cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
    size_t len = CPU_ALLOC_SIZE(CPUS_MAX);
    uint32_t count = 0;
    if (set && sched_getaffinity(0, len, set) == 0)
        for (int cpu = 0; cpu < CPUS_MAX && count < max; cpu++)
            if (CPU_ISSET_S((size_t)cpu, len, set))
                list[count++] = cpu;
    CPU_FREE(set);
    return count;
}

void cpus_look(cpus_t *cpus)
{
    static const char groups[] = "/proc/self/cgroup", root[] = "/sys/fs/cgroup";
    int list[CPUS_MAX];
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    cpus->online = online > 0 ? (uint32_t)online : 1;
    cpus->allowed = cpus_allowed(list, CPUS_MAX);
    if (!cpus->allowed)
        cpus->allowed = cpus->online;
    cpus_read_quota(groups, root, &cpus->quota);
    uint64_t whole = ((uint64_t)cpus->quota.millis + MILLIS - 1) / MILLIS;
    cpus->usable = whole < cpus->allowed ? (uint32_t)whole : cpus->allowed;
}
