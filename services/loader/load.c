#include "loader/load.h"

#include "base/proc_memory.h"
#include "engine/auto/member.h"
#include "engine/compile/describe.h"
#include "loader/lack.h"
#include "model/measure/profiler_bench.h"

#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const _Atomic(int) never_stop;

/* ---- Files ---- */

/* Opening a FIFO or a device waits for somebody else, or does worse. */
static status_t check_file(const char *path, bool is_part, err_t *err)
{
    struct stat info;

    if (stat(path, &info) != 0)
        return is_part ? STATUS_OK
                       : err_set(err, STATUS_IO, "%.300s: %m", path); /* a link to nothing is not read */
    if (S_ISREG(info.st_mode) || (is_part && S_ISDIR(info.st_mode)))
        return STATUS_OK;
    return err_set(err, STATUS_INVALID_ARGUMENT, "%.300s is not a regular file", path);
}

static status_t check_folder(const char *dir, err_t *err)
{
    char path[PATH_MAX + 320];
    DIR *folder = opendir(dir);
    struct dirent *entry;
    status_t status = STATUS_OK;

    if (!folder)
        return err_set(err, STATUS_IO, "%.300s: %m", dir);
    while (status == STATUS_OK && (entry = readdir(folder))) {
        snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
        if (model_is_part(entry->d_name))
            status = check_file(path, true, err);
    }
    closedir(folder);
    return status;
}

status_t load_files(const model_t *model, char hash[PROFILE_CACHE_TEXT_BYTES], err_t *err)
{
    char path[MODEL_PATH_BYTES], dir[PATH_MAX + 32];

    model_file_path(model, path);
    snprintf(dir, sizeof(dir), "%s/%lld", model->dir, (long long)model->version);
    status_t status = check_file(path, false, err);
    if (status == STATUS_OK && !model->file[0])
        status = check_folder(dir, err);
    return status == STATUS_OK ? model_hash(model, hash, err) : status;
}

/* ---- Memory ---- */

static uint64_t peak_bytes(void)
{
    struct rusage usage = {0};

    (void)getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_maxrss << 10;
}

static uint64_t beyond(uint64_t bytes, uint64_t before)
{
    return bytes > before ? bytes - before : 0;
}

/* ---- One engine ---- */

status_t load_open(const trial_request_t *request, const trial_go_t *go, model_devices_t *devices,
                   metrics_t **metrics, err_t *err)
{
    const engine_config_t config = {.threads = request->threads,
                                    .memory_limit_bytes = request->memory_limit_bytes};

    *metrics = metrics_create("loader", err);
    if (!*metrics)
        return err->code;
    status_t status = model_devices_open(devices, request->engine, 1, &config, false, *metrics, err);
    if (status != STATUS_OK)
        return status;
    devices->memory_bytes = go->memory_bytes;
    atomic_store(&devices->list[0].used_bytes, go->used_bytes);
    return STATUS_OK;
}

static status_t run(const model_t *model, const model_load_options_t *options, uint32_t batch, err_t *err)
{
    profiler_t profiler = model_profiler_of_largest(model, options);
    int64_t took_ns;
    bench_t bench;
    status_t status = bench_init(&profiler, model->info, &bench, err);

    bench.job.batch = batch;
    if (status == STATUS_OK)
        status = bench_run(&profiler, &bench.job, &took_ns, err);
    bench_dispose(&profiler, &bench);
    return status;
}

/* As a worker would, but for the turn in which it measures. */
static status_t try_here(model_t *model, const model_load_options_t *options, err_t *err)
{
    status_t status = model_place(model, options, err);

    if (status != STATUS_OK)
        return status;
    status = run(model, options, 1, err);
    if (status == STATUS_OK && model->info->max_batch > 1)
        status = run(model, options, model->info->max_batch, err);
    model_unload(model, options->devices);
    return status;
}

/* ---- All of them ---- */

typedef struct {
    const trial_request_t *request;
    model_t *model;
    model_load_options_t options;
    load_tell_fn tell;
    void *arg;
    trial_answer_t *answer;
    uint64_t before_bytes;
    bool passed;
} tries_t;

/* It would do the same to a worker, which has no such limit. */
static void leave_out(trial_answer_t *answer, const char *engine, uint64_t lacked_bytes, const err_t *why)
{
    size_t len = strlen(answer->without);

    snprintf(answer->without + len, sizeof(answer->without) - len, "%s%s", len ? "," : "", engine);
    if (answer->status != STATUS_OK)
        return;
    answer->status = STATUS_NO_MEMORY;
    answer->lacked_bytes = lacked_bytes;
    snprintf(answer->engine, sizeof(answer->engine), "%s", engine);
    snprintf(answer->text, sizeof(answer->text), "%s", why->text);
}

/* What something wrong is known of comes behind the others. */
static bool comes_first(const tries_t *t, const char *engine)
{
    char path[MODEL_PATH_BYTES];
    const engine_load_t what = {.name = t->model->name, .path = path};
    fault_t faults[FAULTS_ENGINES + 1];

    if (t->passed)
        return false;
    model_file_path(t->model, path);
    faults_find(&what, faults);
    return !faults_of(faults, engine);
}

static void tell_passed(const tries_t *t, const char *engine)
{
    trial_answer_t answer = {.kind = TRIAL_PASSED, .peak_bytes = beyond(peak_bytes(), t->before_bytes)};

    snprintf(answer.engine, sizeof(answer.engine), "%s", engine);
    t->tell(t->arg, &answer);
}

/* What an engine says no to in order, it will say again to who loads the model. */
static status_t try_engine(tries_t *t, const char *engine)
{
    trial_answer_t before = {.magic = TRIAL_MAGIC, .kind = TRIAL_ENGINE};
    err_t why = {0};

    if (describe_is_among(t->request->without, engine))
        return STATUS_UNSUPPORTED;
    snprintf(before.engine, sizeof(before.engine), "%s", engine);
    t->tell(t->arg, &before);
    lack_forget();
    status_t status = try_here(t->model, &t->options, &why);
    uint64_t lacked_bytes = status == STATUS_OK ? 0 : lack_bytes();
    if (status == STATUS_NO_MEMORY || lacked_bytes)
        leave_out(t->answer, engine, lacked_bytes, &why);
    (void)malloc_trim(0);
    return status;
}

static void try_one_of_several(tries_t *t, const char *engine)
{
    if (try_engine(t, engine) != STATUS_OK)
        return;
    if (comes_first(t, engine))
        tell_passed(t, engine);
    t->passed = true;
}

/* The one that config.yaml or a kept profile names, or all that may be tried. */
static void try_engines(tries_t *t, const engine_ops_t *ops)
{
    char *named = t->model->config.engine;

    if (!ops->choice || named[0]) {
        t->passed = try_engine(t, named[0] ? named : ops->name) == STATUS_OK;
        return;
    }
    for (size_t i = 0; i < AUTO_MEMBERS_MAX; i++) {
        snprintf(named, sizeof(t->model->config.engine), "%s", members_names[i]);
        try_one_of_several(t, named);
    }
    named[0] = '\0';
}

static void answer_ok(trial_answer_t *answer)
{
    answer->status = STATUS_OK;
    answer->lacked_bytes = 0;
    answer->engine[0] = answer->text[0] = '\0';
}

void load_try(const trial_request_t *request, model_t *model, model_devices_t *devices, load_tell_fn tell,
              void *arg, trial_answer_t *answer)
{
    tries_t t = {.request = request,
                 .model = model,
                 .options = {.devices = devices, .stop = &never_stop},
                 .tell = tell,
                 .arg = arg,
                 .answer = answer,
                 .before_bytes = proc_resident_bytes()};

    memcpy(answer->without, request->without, sizeof(answer->without));
    try_engines(&t, devices->ops);
    answer->peak_bytes = beyond(peak_bytes(), t.before_bytes);
    if (t.passed)
        answer_ok(answer);
}

void load_graph(const model_t *model, trial_answer_t *answer)
{
    char path[MODEL_PATH_BYTES];
    const engine_load_t what = {.name = model->name, .path = path};
    uint64_t before = proc_resident_bytes();
    graph_t *graph;
    err_t why;

    model_file_path(model, path);
    lack_forget();
    status_t status = describe_open(&what, &graph, &why);
    if (status == STATUS_OK)
        graph_destroy(graph);
    answer->peak_bytes = beyond(peak_bytes(), before);
    answer->lacked_bytes = status == STATUS_OK ? 0 : lack_bytes();
    if (answer->lacked_bytes)
        answer->status = STATUS_NO_MEMORY;
}
