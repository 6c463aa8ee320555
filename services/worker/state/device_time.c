#include "worker/state/device_time.h"

/* What does not divide evenly is the first one's. */
static int64_t charge_until(device_time_t *time, int64_t now_ns)
{
    int64_t passed_ns = now_ns - time->at_ns;

    if (passed_ns <= 0)
        return 0;
    time->at_ns = now_ns;
    if (time->running == 0)
        return 0;
    int64_t each_ns = passed_ns / time->running, rest_ns = passed_ns % time->running;
    for (uint32_t s = 0; s < time->used; s++) {
        if (!time->streams[s])
            continue;
        time->streams[s]->charged_ns += each_ns + rest_ns;
        rest_ns = 0;
    }
    return passed_ns;
}

int64_t device_time_begin(device_time_t *time, device_time_job_t *job, uint32_t stream, int64_t now_ns)
{
    int64_t busy_ns = charge_until(time, now_ns);
    device_time_job_t **at = &time->streams[stream];

    *job = (device_time_job_t){.stream = stream};
    time->running += !*at;
    time->used = stream < time->used ? time->used : stream + 1;
    while (*at)
        at = &(*at)->next;
    *at = job;
    return busy_ns;
}

int64_t device_time_end(device_time_t *time, device_time_job_t *job, int64_t now_ns)
{
    int64_t busy_ns = charge_until(time, now_ns);
    device_time_job_t **at = &time->streams[job->stream];

    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    time->running -= !time->streams[job->stream];
    return busy_ns;
}
