#include "loader/load.h"

#include "base/file.h"
#include "base/proc_memory.h"
#include "engine/auto/member.h"
#include "engine/compile/describe.h"
#include "loader/blocks.h"
#include "loader/lack.h"
#include "model/measure/choose_engine.h"
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

/* What takes more than that part of the memory that there is is not on two engines at once. */
enum { TWO_PART = 4 };

static const _Atomic(int) never_stop;

/* ---- Files ---- */

/* Opening a FIFO or a device waits for somebody else, or does worse. A link to nothing is not read. */
static status_t check_part(const char *path, err_t *err)
{
    struct stat info;

    return stat(path, &info) != 0 || S_ISDIR(info.st_mode) ? STATUS_OK : file_check(path, err);
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
            status = check_part(path, err);
    }
    closedir(folder);
    return status;
}

status_t load_files(const model_t *model, char hash[PROFILE_CACHE_TEXT_BYTES], err_t *err)
{
    char path[MODEL_PATH_BYTES], dir[PATH_MAX + 32];

    model_file_path(model, path);
    snprintf(dir, sizeof(dir), "%s/%lld", model->dir, (long long)model->version);
    status_t status = file_check(path, err);
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

static status_t run_both(const model_t *model, const model_load_options_t *options, err_t *err)
{
    status_t status = run(model, options, 1, err);

    return status == STATUS_OK && model->info->max_batch > 1
               ? run(model, options, model->info->max_batch, err)
               : status;
}

/* As a worker would, but for the turn in which it measures. What failed is off its engine. */
static status_t try_here(model_t *model, const model_load_options_t *options, err_t *err)
{
    status_t status = model_place(model, options, err);

    if (status != STATUS_OK)
        return status;
    status = run_both(model, options, err);
    if (status != STATUS_OK)
        model_unload(model, options->devices);
    return status;
}

/* ---- All of them ---- */

typedef struct {
    const trial_go_t *go;
    model_t *model;
    model_load_options_t options;
    const load_listener_t *listener;
    trial_answer_t *answer;
    uint64_t held_bytes; /* before the engine that is being tried: by this process, and the one that leads */
    struct {
        const char *engine;
        uint64_t bytes;
    } took[2 * AUTO_MEMBERS_MAX]; /* at most, the model on each of those that were tried */
    uint32_t took_count;
    char told[TRIAL_ENGINE_BYTES]; /* that has passed; "": none */
    bool heard;                    /* and the worker has done with it */
    bool passed, lacked;           /* any engine; memory, while another had the model */
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
static bool comes_behind(const tries_t *t, const char *engine)
{
    char path[MODEL_PATH_BYTES];
    const engine_load_t what = {.name = t->model->name, .path = path};
    fault_t faults[FAULTS_ENGINES + 1];

    model_file_path(t->model, path);
    faults_find(&what, faults);
    return faults_of(faults, engine);
}

/* Memory that others kept for it is its own. engine: valid until all are tried. */
static void count_engine(tries_t *t, const char *engine)
{
    if (t->took_count == 2 * AUTO_MEMBERS_MAX)
        return;
    t->took[t->took_count].engine = engine;
    t->took[t->took_count++].bytes = beyond(peak_bytes(), t->held_bytes);
}

/* engine: NULL is any. */
static uint64_t took_bytes(const tries_t *t, const char *engine)
{
    uint64_t most_bytes = 0;

    for (uint32_t i = 0; i < t->took_count; i++)
        if ((!engine || strcmp(t->took[i].engine, engine) == 0) && t->took[i].bytes > most_bytes)
            most_bytes = t->took[i].bytes;
    return most_bytes;
}

/* Of one or two: `running` of engine_choice_t. */
static uint64_t took_running(const tries_t *t, const char *running)
{
    uint64_t sum_bytes = 0;

    for (size_t i = 0; i < AUTO_MEMBERS_MAX; i++)
        if (strstr(running, members_names[i]))
            sum_bytes += took_bytes(t, members_names[i]);
    return sum_bytes;
}

static void tell_passed(tries_t *t, const char *engine)
{
    trial_answer_t answer = {.kind = TRIAL_PASSED, .peak_bytes = took_bytes(t, engine)};

    snprintf(answer.engine, sizeof(answer.engine), "%s", engine);
    memcpy(t->told, answer.engine, sizeof(t->told));
    t->listener->tell(t->listener->arg, &answer);
    t->heard = false;
}

/* What is measured now is not measured beside the worker's load. */
static void wait_for_worker(tries_t *t)
{
    if (t->told[0] && !t->heard)
        t->listener->wait(t->listener->arg);
    t->heard = true;
}

static void begin_engine(tries_t *t, const char *engine)
{
    trial_answer_t before = {.magic = TRIAL_MAGIC, .kind = TRIAL_ENGINE};

    (void)malloc_trim(0);
    t->held_bytes = beyond(proc_resident_bytes(), blocks_kept_bytes());
    snprintf(before.engine, sizeof(before.engine), "%s", engine);
    t->listener->tell(t->listener->arg, &before);
    lack_forget();
}

/* What an engine says no to in order, it will say again to who loads the model. OK: it is on that engine. */
static status_t try_engine(tries_t *t, const char *engine)
{
    err_t why = {0};

    if (describe_is_among(t->answer->without, engine))
        return STATUS_UNSUPPORTED;
    begin_engine(t, engine);
    status_t status = try_here(t->model, &t->options, &why);
    uint64_t lacked_bytes = status == STATUS_OK ? 0 : lack_bytes();
    if (status == STATUS_NO_MEMORY || lacked_bytes)
        leave_out(t->answer, engine, lacked_bytes, &why);
    count_engine(t, engine);
    t->passed |= status == STATUS_OK;
    return status;
}

/* ---- The fastest of them ---- */

static void on_begins(void *arg, const char *engine)
{
    tries_t *t = arg;

    t->lacked |= lack_bytes() > 0;
    begin_engine(t, engine);
}

static status_t on_loaded(void *arg, const char *engine, err_t *err)
{
    tries_t *t = arg;
    status_t status = run_both(t->model, &t->options, err);

    count_engine(t, engine);
    wait_for_worker(t);
    return status;
}

static void on_leads(void *arg, const char *engine)
{
    tries_t *t = arg;

    if (strcmp(t->told, engine) != 0)
        tell_passed(t, engine);
}

static bool has_lacked(const tries_t *t)
{
    for (uint32_t i = 0; i < t->model->engine_count; i++)
        if (t->model->engines[i].status == STATUS_NO_MEMORY)
            return true;
    return t->lacked || lack_bytes() > 0;
}

/* The model is on the first that passed, and then on none. False: one found no memory beside another, so that nothing is known of it. */
static bool choose(tries_t *t)
{
    const choice_watch_t watch = {.begins = on_begins, .loaded = on_loaded, .leads = on_leads, .arg = t};
    model_t *model = t->model;
    char fastest[MODEL_ENGINE_NAME_BYTES];

    model->config.engine[0] = model->only_engine[0] = '\0';
    status_t status = model_compare_engines(model, &t->options, &watch, fastest, NULL);
    bool lacked = has_lacked(t);
    if (status == STATUS_OK && !lacked) {
        trial_answer_t *answer = t->answer;
        memcpy(answer->fastest, fastest, sizeof(answer->fastest));
        memcpy(answer->engines, model->engines, sizeof(answer->engines));
        answer->engine_count = model->engine_count;
    }
    model_unload(model, t->options.devices);
    return !lacked;
}

/* ---- In turn ---- */

static bool may_choose(const tries_t *t)
{
    return t->go->profile_budget_ns > 0 && took_bytes(t, NULL) <= t->go->budget_bytes / TWO_PART;
}

/* True: no other is to be tried. */
static bool try_one_of_several(tries_t *t, const char *engine)
{
    bool any_before = t->passed;

    if (try_engine(t, engine) != STATUS_OK)
        return false;
    bool first = !any_before && !comes_behind(t, engine);
    if (first && may_choose(t) && choose(t))
        return true;
    model_unload(t->model, t->options.devices);
    if (first && !t->told[0])
        tell_passed(t, engine);
    return false;
}

/* The one that config.yaml or a kept profile names, or all that may be tried. */
static void try_engines(tries_t *t, const engine_ops_t *ops)
{
    char *named = t->model->config.engine;

    if (!ops->choice || named[0]) {
        (void)try_engine(t, named[0] ? named : ops->name);
        return;
    }
    for (size_t i = 0; i < AUTO_MEMBERS_MAX; i++) {
        snprintf(named, sizeof(t->model->config.engine), "%s", members_names[i]);
        if (try_one_of_several(t, members_names[i]))
            break;
    }
    named[0] = '\0';
}

static void answer_ok(trial_answer_t *answer)
{
    answer->status = STATUS_OK;
    answer->lacked_bytes = 0;
    answer->engine[0] = answer->text[0] = '\0';
}

void load_try(const trial_request_t *request, const trial_go_t *go, model_t *model, model_devices_t *devices,
              const load_listener_t *listener, trial_answer_t *answer)
{
    tries_t t = {
        .go = go,
        .model = model,
        .options = {.devices = devices, .stop = &never_stop, .profile_budget_ns = go->profile_budget_ns},
        .listener = listener,
        .answer = answer};

    memcpy(answer->without, request->without, sizeof(answer->without));
    memcpy(model->without, request->without, sizeof(model->without));
    try_engines(&t, devices->ops);
    answer->peak_bytes = answer->fastest[0] ? took_running(&t, answer->fastest) : took_bytes(&t, NULL);
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
