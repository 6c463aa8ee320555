#include "model/measure/lost_time.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Stolen time comes in ticks of 10 ms: below so many of work it is not worth dividing. */
enum { TICKS_MIN = 5, LINE_BYTES = 256, PATH_BYTES = 320 };
/* Below so much it is of runs so short that what threads wait for is mostly each other. */
static const double TIME_MIN_NS = 100e6;
#define SHARE_MOST 0.99

bool lost_time_add_thread(lost_time_t *now, const char *text)
{
    int64_t ran_ns, waited_ns;

    if (sscanf(text, "%" SCNd64 " %" SCNd64, &ran_ns, &waited_ns) != 2)
        return false;
    now->ran_ns += ran_ns;
    now->waited_ns += waited_ns;
    return true;
}

bool lost_time_parse_stat(lost_time_t *now, const char *text)
{
    uint64_t user, nice, system, irq, softirq, stolen;

    if (sscanf(text, "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %*u %*u %" SCNu64 " %" SCNu64 " %" SCNu64,
               &user, &nice, &system, &irq, &softirq, &stolen) != 6)
        return false;
    now->busy_ticks = user + nice + system + irq + softirq;
    now->stolen_ticks = stolen;
    return true;
}

static bool first_line(const char *path, char line[LINE_BYTES])
{
    FILE *file = fopen(path, "re");
    bool read = file && fgets(line, LINE_BYTES, file);

    if (file)
        fclose(file);
    return read;
}

void lost_time_look(lost_time_t *now)
{
    char line[LINE_BYTES], path[PATH_BYTES];
    DIR *threads = opendir("/proc/self/task");
    struct dirent *entry;
    pid_t self = gettid();

    *now = (lost_time_t){0};
    while (threads && (entry = readdir(threads))) {
        snprintf(path, sizeof(path), "/proc/self/task/%s/schedstat", entry->d_name);
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != self && first_line(path, line))
            (void)lost_time_add_thread(now, line);
    }
    if (threads)
        closedir(threads);
    if (first_line("/proc/stat", line))
        (void)lost_time_parse_stat(now, line);
}

/* What was stolen falls on whoever ran. Ticks and nanoseconds: only the shares of each are compared. */
static double stolen_for_each_run(const lost_time_t *from, const lost_time_t *to)
{
    if (to->busy_ticks < from->busy_ticks + TICKS_MIN || to->stolen_ticks < from->stolen_ticks)
        return 0;
    return (double)(to->stolen_ticks - from->stolen_ticks) / (double)(to->busy_ticks - from->busy_ticks);
}

double lost_time_share(const lost_time_t *from, const lost_time_t *to)
{
    double ran = (double)(to->ran_ns - from->ran_ns), waited = (double)(to->waited_ns - from->waited_ns);

    if (ran + waited < TIME_MIN_NS || ran <= 0 ||
        waited < 0) /* threads have ended meanwhile, and what they had is gone */
        return 0;
    double lost = waited + ran * stolen_for_each_run(from, to), share = lost / (ran + lost);
    return share < SHARE_MOST ? share : SHARE_MOST;
}
