/*
 * `fermata profile` at work: the device it opened, and where what it finds is to be kept. Two kinds of work are done in
 * it: the latencies of one model, with what its modes want to know (latency.c), and the overlap plan of several
 * (plan.c).
 */
#ifndef FERMATA_PROFILE_SESSION_H
#define FERMATA_PROFILE_SESSION_H

#include "fermata/profile/options.h"
#include "model/measure/kept_profile.h"
#include "model/measure/profiler.h"
#include "model/trial/trial.h"

#include <stdatomic.h>

typedef struct {
    const profile_options_t *options;
    model_devices_t devices;
    char loader[TRIALS_PROGRAM_BYTES];
    trials_t *trials;
    metrics_t *metrics;                             /* that the devices want */
    uint32_t sizes[PROFILER_SIZES_MAX], size_count; /* 0: the usual ones */
    char path[KEPT_PROFILE_PATH_BYTES];             /* of what is found; "" = it is not kept */
} profile_session_t;

extern const _Atomic(int) profile_never_stop;

/* Each fills the session's path. The caller closes the session. */
status_t profile_latency(profile_session_t *session, const char *path, err_t *err);
status_t profile_plan(profile_session_t *session, const char *const *paths, uint32_t count, err_t *err);

/* For these two. */
status_t profile_open_device(profile_session_t *session, uint32_t streams, err_t *err);
/* Loads a model that was opened, and says its hash. */
status_t profile_load(profile_session_t *session, model_t *model, char hash[PROFILE_CACHE_TEXT_BYTES],
                      err_t *err);
/* Whether a file can be made there, before minutes are spent on measuring. */
status_t profile_check_folder(const char *path, err_t *err);

void profile_session_close(profile_session_t *session); /* after its models have left the devices */

#endif
