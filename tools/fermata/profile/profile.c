/* fermata profile MODEL: measures how long batches take and keeps that where a worker finds it. */
#include "base/log.h"
#include "fermata/command.h"
#include "fermata/profile/report.h"
#include "fermata/profile/session.h"

#include <stdio.h>

static status_t check_usage(profile_session_t *session, size_t models, err_t *err)
{
    const profile_options_t *o = session->options;
    status_t status = profile_options_check(o, models, err);

    if (status != STATUS_OK || !o->batches)
        return status;
    status = profile_batches_parse(o->batches, session->sizes, PROFILER_SIZES_MAX, &session->size_count, err);
    if (status == STATUS_OK && o->loads && !o->lengths && session->sizes[0] != 1) /* rising */
        status = err_set(err, STATUS_INVALID_ARGUMENT,
                         "--loads needs what a batch of 1 takes: --batches must have 1 in it");
    return status;
}

static int run(const profile_options_t *o, const char *const *paths, size_t count)
{
    profile_session_t session = {.options = o};
    err_t err = {0};

    if (check_usage(&session, count, &err) != STATUS_OK) {
        fprintf(stderr, "fermata profile: %s\n", err.text);
        return EXIT_CODE_USAGE;
    }
    status_t status = o->overlap ? profile_plan(&session, paths, (uint32_t)count, &err)
                                 : profile_latency(&session, paths[0], &err);
    profile_session_close(&session);
    return config_exit(&profile_schema, status, &err);
}

static int profile(int argc, char **argv)
{
    profile_options_t o;
    config_t *config;
    int exit_code;
    size_t words;

    if (!config_start(&profile_schema, argc, argv, &o, &config, &exit_code))
        return exit_code;
    const char *const *paths = config_positionals(config, &words);
    log_init("profile", LOG_WARN, LOG_FORMAT_TEXT);
    exit_code = run(&o, paths, words);
    config_destroy(config);
    return exit_code;
}

const command_t command_profile = {"profile", "measure how long batches of a model take", profile};
