/*
 * fermata-loader: loads one model on trial for a worker, so that what its file does to an engine is done to this process
 * (model/trial/trial.h; what is said, model/trial/wire.h). Not for people.
 */
#include "base/clock.h"
#include "base/companion.h"
#include "base/log.h"
#include "loader/confine.h"
#include "loader/lack.h"
#include "loader/load.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIGNAL_STACK_BYTES = 64 << 10 };

static const companion_patience_t endless = {.until_ns = INT64_MAX};

static void tell(void *arg, trial_answer_t *answer)
{
    (void)arg;
    answer->magic = TRIAL_MAGIC;
    if (companion_put(STDOUT_FILENO, answer, sizeof(*answer), &endless) != STATUS_OK)
        _exit(1); /* nobody wants to know */
}

static void wait_for_worker(void *arg)
{
    trial_loaded_t loaded;

    (void)arg;
    if (companion_get(STDIN_FILENO, &loaded, sizeof(loaded), &endless) != STATUS_OK ||
        loaded.magic != TRIAL_MAGIC)
        _exit(1);
}

static const load_listener_t worker = {.tell = tell, .wait = wait_for_worker};

static void tell_error(trial_kind_t kind, const err_t *why)
{
    trial_answer_t answer = {.kind = kind, .status = why->code};

    snprintf(answer.text, sizeof(answer.text), "%s", why->text);
    tell(NULL, &answer);
}

/* An engine that found no memory may end the process: then that is the cause, and not the signal. */
static void on_crash(int signum)
{
    trial_answer_t answer = {.magic = TRIAL_MAGIC, .kind = TRIAL_ENGINE, .status = STATUS_NO_MEMORY};

    answer.lacked_bytes = lack_bytes();
    if (answer.lacked_bytes && write(STDOUT_FILENO, &answer, sizeof(answer)) < 0)
        _exit(1);
    (void)raise(signum); /* the default, by now */
}

static void watch_crashes(void)
{
    static char stack[SIGNAL_STACK_BYTES];
    const stack_t elsewhere = {.ss_sp = stack, .ss_size = sizeof(stack)};
    struct sigaction action = {.sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND | SA_ONSTACK};

    (void)sigaltstack(&elsewhere, NULL);
    (void)sigaction(SIGABRT, &action, NULL);
    (void)sigaction(SIGSEGV, &action, NULL);
    (void)sigaction(SIGBUS, &action, NULL);
}

/* Engines say to stderr what they say to the worker's log when the worker loads the model. */
static void be_silent(void)
{
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

    if (nowhere >= 0)
        (void)dup2(nowhere, STDERR_FILENO);
    log_init("loader", LOG_OFF, LOG_FORMAT_TEXT);
}

static status_t get_request(trial_request_t *request)
{
    status_t status = companion_get(STDIN_FILENO, request, sizeof(*request), &endless);

    return status == STATUS_OK && request->magic != TRIAL_MAGIC ? STATUS_INVALID_ARGUMENT : status;
}

static status_t describe_model(const trial_request_t *request, model_t **model, err_t *err)
{
    status_t status = model_create(request->name, request->version, request->dir, model, err);

    if (status != STATUS_OK)
        return status;
    snprintf((*model)->file, sizeof((*model)->file), "%s", request->file);
    if (request->dir[0])
        status = model_config_read(request->dir, &(*model)->config, err);
    if (request->max_batch)
        (*model)->config.max_batch = request->max_batch;
    return status;
}

static status_t read_files(const trial_request_t *request, model_t **model, err_t *err)
{
    trial_answer_t answer = {.kind = TRIAL_FILES};
    uint32_t threads = request->threads ? request->threads : 1;
    status_t status = confine_start(request->parent, request->timeout_ns * threads, err);

    if (status == STATUS_OK)
        status = describe_model(request, model, err);
    if (status == STATUS_OK)
        status = load_files(*model, answer.hash, err);
    if (status == STATUS_OK)
        tell(NULL, &answer);
    return status;
}

static status_t try(const trial_request_t *request, const trial_go_t *go, model_t *model, err_t *err)
{
    trial_answer_t answer = {.kind = TRIAL_DONE};
    uint64_t budget;
    model_devices_t devices;
    metrics_t *metrics;
    status_t status = request->graph_only ? STATUS_OK : load_open(request, go, &devices, &metrics, err);

    if (status == STATUS_OK && !__builtin_add_overflow(go->budget_bytes, TRIAL_OWN_BYTES, &budget))
        status = confine_memory(budget, err);
    if (status != STATUS_OK)
        return status;
    answer.unfiltered = !confine_calls();
    watch_crashes();
    if (request->graph_only)
        load_graph(model, &answer);
    else
        load_try(request, go, model, &devices, &worker, &answer);
    tell(NULL, &answer);
    return STATUS_OK;
}

int main(int argc, char **argv)
{
    static trial_request_t request;
    trial_go_t go;
    model_t *model;
    err_t err = {0};

    if (argc > 1 || isatty(STDIN_FILENO)) {
        fprintf(stderr, "%s: a worker starts this for each model that it loads; see docs/security.md\n",
                argv[0]);
        return 2;
    }
    if (get_request(&request) != STATUS_OK)
        return 1;
    be_silent();
    if (read_files(&request, &model, &err) != STATUS_OK)
        tell_error(TRIAL_FILES, &err);
    else if (companion_get(STDIN_FILENO, &go, sizeof(go), &endless) == STATUS_OK && go.magic == TRIAL_MAGIC &&
             try(&request, &go, model, &err) != STATUS_OK)
        tell_error(TRIAL_DONE, &err);
    _exit(
        0); /* engines that are still open have nothing to put in order, and it is all the kernel's to take back */
}
