#include "model/trial/trial.h"

#include "base/beside.h"
#include "base/clock.h"
#include "base/companion.h"
#include "base/log.h"
#include "base/proc_memory.h"
#include "model/measure/kept_profile.h"
#include "model/trial/wire.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    ATTEMPTS_MAX =
        5, /* each without one more of the engines, of which there are three, or the first without choosing */
    TRIED_MAX = 16,
    BUSY_PART =
        10, /* of the time of a trial: more than that for others, and what it measured does not count */
    UNREAPED_MAX = 64, /* loaders in a sleep of the kernel's; beyond it nothing is tried until one wakes */
    EARLY_PART = 4, /* what takes more than that part of the memory that is left is not in it twice at once */
};

#define PROGRAM "fermata-loader"
/* A killed process is gone at once, unless it sleeps in the kernel, as one does that reads of a share that hangs. */
#define DEATH_PATIENCE_NS (200 * NS_PER_MS)
/* How often one that waits for its turn looks whether it is still wanted. */
#define TURN_LOOK_NS (100 * NS_PER_MS)

/* What stood its trial on all engines: a copy need not. */
typedef struct {
    char hash[PROFILE_CACHE_TEXT_BYTES]; /* "": none yet */
    char engine[MODEL_ENGINE_NAME_BYTES];
    uint32_t max_batch;
    uint64_t loading_bytes;
} tried_t;

struct trials {
    trials_options_t options;
    pthread_mutex_t lock;
    pthread_cond_t turn;
    bool taken; /* some model is being loaded on trial */
    pid_t unreaped[UNREAPED_MAX];
    uint32_t unreaped_count;
    bool told_unfiltered;
    tried_t tried[TRIED_MAX];
    uint32_t tried_next; /* takes the place of the oldest */
};

/* One model, one loader. */
typedef struct {
    trials_t *trials;
    model_t *model;
    const model_load_options_t *options;
    const trial_early_t *early;
    int64_t early_ns;          /* that it took */
    uint64_t early_bytes;      /* that were taken from the loader's for it */
    int64_t begin_ns, busy_ns; /* of loading there, and what the devices had run by then */
    bool chooses;
    companion_t loader;
    companion_patience_t patience;
    bool has_turn;
    uint64_t budget_bytes;
    trial_answer_t answer;           /* the last one */
    char engine[TRIAL_ENGINE_BYTES]; /* that is being tried; "": none yet */
} attempt_t;

/* ---- Memory ---- */

static unsigned long long mib(uint64_t bytes)
{
    return (unsigned long long)(bytes >> 20);
}

static unsigned long long mib_at_least(uint64_t bytes)
{
    return (unsigned long long)((bytes >> 20) + (bytes % (1 << 20) != 0));
}

/* What programs can have without swapping. UINT64_MAX: nobody knows. */
static uint64_t available_bytes(void)
{
    uint64_t available = proc_memory_bytes("/proc/meminfo", "MemAvailable");

    return available ? available : UINT64_MAX;
}

/* By others: what its files have been given is its own. */
static uint64_t used_bytes(const attempt_t *attempt)
{
    return atomic_load(&attempt->options->devices->list[0].used_bytes) - attempt->model->taken_bytes;
}

static uint64_t left_bytes(const model_devices_t *devices, uint64_t used)
{
    uint64_t available = available_bytes();
    uint64_t left = devices->memory_bytes == 0     ? UINT64_MAX
                    : devices->memory_bytes > used ? devices->memory_bytes - used
                                                   : 0;

    return !devices->ops->describe && left < available ? left : available;
}

/* ---- Turns ---- */

static bool is_stopped(void *arg)
{
    const attempt_t *attempt = arg;

    return attempt->options->stop && atomic_load(attempt->options->stop);
}

/* The time that it waits is not its own. */
static status_t take_turn(attempt_t *attempt)
{
    trials_t *trials = attempt->trials;
    int64_t begin_ns = clock_now_ns();
    struct timespec until;

    pthread_mutex_lock(&trials->lock);
    while (trials->taken && !is_stopped(attempt)) {
        int64_t look_ns = clock_now_ns() + TURN_LOOK_NS;
        until = (struct timespec){.tv_sec = look_ns / NS_PER_S, .tv_nsec = look_ns % NS_PER_S};
        pthread_cond_clockwait(&trials->turn, &trials->lock, CLOCK_MONOTONIC, &until);
    }
    attempt->has_turn = !trials->taken;
    trials->taken = true;
    pthread_mutex_unlock(&trials->lock);
    attempt->patience.until_ns += clock_now_ns() - begin_ns;
    return attempt->has_turn ? STATUS_OK : STATUS_CANCELLED;
}

static void give_turn(attempt_t *attempt)
{
    trials_t *trials = attempt->trials;

    if (!attempt->has_turn)
        return;
    pthread_mutex_lock(&trials->lock);
    trials->taken = false;
    pthread_cond_signal(&trials->turn);
    pthread_mutex_unlock(&trials->lock);
    attempt->has_turn = false;
}

/* ---- Loaders that do not die ---- */

static status_t reap_old(trials_t *trials, err_t *err)
{
    uint32_t left = 0;

    pthread_mutex_lock(&trials->lock);
    for (uint32_t i = 0; i < trials->unreaped_count; i++)
        if (!companion_reap(trials->unreaped[i]))
            trials->unreaped[left++] = trials->unreaped[i];
    trials->unreaped_count = left;
    pthread_mutex_unlock(&trials->lock);
    return left < UNREAPED_MAX
               ? STATUS_OK
               : err_set(err, STATUS_UNAVAILABLE, "%u loaders hang in reads that do not end", left);
}

static void leave_for_later(trials_t *trials, pid_t pid)
{
    pthread_mutex_lock(&trials->lock);
    if (trials->unreaped_count < UNREAPED_MAX)
        trials->unreaped[trials->unreaped_count++] = pid;
    pthread_mutex_unlock(&trials->lock);
}

/* ---- Words ---- */

static void fill_request(const attempt_t *attempt, trial_request_t *request)
{
    const trials_options_t *options = &attempt->trials->options;
    const model_devices_t *devices = attempt->options->devices;
    const model_t *model = attempt->model;
    const char *providers = model->config.providers[0] ? model->config.providers : options->engine.providers;

    memset(request, 0, sizeof(*request)); /* padding too: it leaves the process */
    request->magic = TRIAL_MAGIC;
    request->version = model->version;
    request->timeout_ns = options->timeout_ns;
    request->memory_limit_bytes = options->engine.memory_limit_bytes;
    request->parent = (int32_t)getpid();
    request->threads = options->engine.threads;
    request->max_batch = model->config.max_batch;
    request->graph_only = devices->emulated || devices->ops->describe || (providers && providers[0]);
    request->use_cache = attempt->options->use_cache;
    snprintf(request->engine, sizeof(request->engine), "%s", devices->ops->name);
    snprintf(request->without, sizeof(request->without), "%s", model->without);
    snprintf(request->name, sizeof(request->name), "%s", model->name);
    snprintf(request->dir, sizeof(request->dir), "%s", model->dir);
    snprintf(request->file, sizeof(request->file), "%s", model->file);
}

/* Whatever wrote it. */
static bool is_sound(trial_answer_t *answer)
{
    answer->engine[sizeof(answer->engine) - 1] = answer->without[sizeof(answer->without) - 1] = '\0';
    answer->hash[sizeof(answer->hash) - 1] = answer->text[sizeof(answer->text) - 1] = '\0';
    answer->fastest[sizeof(answer->fastest) - 1] = '\0';
    for (uint32_t i = 0; i < MODEL_ENGINES_MAX; i++) {
        model_engine_t *engine = &answer->engines[i];
        engine->name[sizeof(engine->name) - 1] = engine->why[sizeof(engine->why) - 1] = '\0';
    }
    return answer->magic == TRIAL_MAGIC && answer->kind >= TRIAL_FILES && answer->kind <= TRIAL_DONE &&
           answer->status <= STATUS_LIMITED && answer->engine_count <= MODEL_ENGINES_MAX;
}

static uint64_t of_model(const trial_answer_t *answer)
{
    return answer->peak_bytes > TRIAL_OWN_BYTES ? answer->peak_bytes - TRIAL_OWN_BYTES : 1;
}

/* ---- Meanwhile ---- */

/* From now on the loader has so much less. False: it cannot be told. */
static bool take_from(pid_t loader, uint64_t bytes)
{
    struct rlimit most;

    if (prlimit(loader, RLIMIT_DATA, NULL, &most) != 0)
        return false;
    if (most.rlim_cur == RLIM_INFINITY)
        return true;
    most.rlim_cur = most.rlim_cur > bytes ? most.rlim_cur - bytes : 0;
    most.rlim_max = most.rlim_cur;
    return prlimit(loader, RLIMIT_DATA, &most, NULL) == 0;
}

static void load_early(attempt_t *attempt)
{
    model_t *model = attempt->model;
    uint64_t bytes = of_model(&attempt->answer), had = attempt->early_bytes;

    if (!attempt->early || bytes > attempt->budget_bytes / EARLY_PART ||
        (bytes > had && !take_from(attempt->loader.pid, bytes - had)))
        return;
    int64_t begin_ns = clock_now_ns();
    attempt->early_bytes = bytes > had ? bytes : had;
    model->loading_bytes = bytes;
    attempt->early->passed(attempt->early->arg, attempt->answer.engine);
    int64_t took_ns = clock_now_ns() - begin_ns;
    attempt->early_ns += took_ns;
    attempt->patience.until_ns += took_ns;
}

/* One that has gone is noticed where it is listened to. */
static void tell_loaded(const attempt_t *attempt)
{
    const trial_loaded_t loaded = {.magic = TRIAL_MAGIC};

    if (attempt->chooses)
        (void)companion_put(attempt->loader.in, &loaded, sizeof(loaded), &attempt->patience);
}

static void on_passed(attempt_t *attempt)
{
    load_early(attempt);
    tell_loaded(attempt);
}

/* IO: it has died; INTERNAL: it talks nonsense. */
static status_t hear(attempt_t *attempt, trial_kind_t wanted)
{
    trial_answer_t *answer = &attempt->answer;

    for (;;) {
        status_t status = companion_get(attempt->loader.out, answer, sizeof(*answer), &attempt->patience);
        if (status != STATUS_OK)
            return status;
        if (!is_sound(answer))
            return STATUS_INTERNAL;
        if (answer->kind == wanted || answer->status != STATUS_OK)
            return STATUS_OK;
        if (answer->kind == TRIAL_ENGINE)
            memcpy(attempt->engine, answer->engine, sizeof(attempt->engine));
        if (answer->kind == TRIAL_PASSED && wanted == TRIAL_DONE)
            on_passed(attempt);
    }
}

/* ---- What was tried before ---- */

static bool is_same(const tried_t *tried, const model_t *model)
{
    return strcmp(tried->hash, model->hash) == 0 && strcmp(tried->engine, model->config.engine) == 0 &&
           tried->max_batch == model->config.max_batch;
}

/* Here, since this program began. */
static bool was_tried(trials_t *trials, model_t *model)
{
    bool found = false;

    pthread_mutex_lock(&trials->lock);
    for (uint32_t i = 0; model->hash[0] && !found && i < TRIED_MAX; i++) {
        found = is_same(&trials->tried[i], model);
        if (found)
            model->loading_bytes = trials->tried[i].loading_bytes;
    }
    pthread_mutex_unlock(&trials->lock);
    return found;
}

/* What ran out of memory may find some another time, and is not kept. */
static void note_tried(trials_t *trials, const model_t *model)
{
    tried_t *tried = &trials->tried[trials->tried_next];

    if (model->without[0])
        return;
    memcpy(tried->hash, model->hash, sizeof(tried->hash));
    snprintf(tried->engine, sizeof(tried->engine), "%s", model->config.engine);
    tried->max_batch = model->config.max_batch;
    tried->loading_bytes = model->loading_bytes;
    trials->tried_next = (trials->tried_next + 1) % TRIED_MAX;
}

static bool is_known(attempt_t *attempt)
{
    model_t *model = attempt->model;

    memcpy(model->hash, attempt->answer.hash, sizeof(model->hash));
    model->loading_bytes = 0;
    return (attempt->options->use_cache &&
            kept_profile_tried(model, attempt->options->devices, &model->loading_bytes)) ||
           was_tried(attempt->trials, model);
}

/* ---- The trial ---- */

/* What is measured there meanwhile has CPUs of its own. */
static bool has_cpus(const attempt_t *attempt)
{
    uint32_t beside = attempt->options->beside_cpus, threads = attempt->trials->options.engine.threads;

    return beside == 0 || beside >= (threads ? threads : 1);
}

/* The engine is to be chosen, and nothing but latency is asked of it. */
static bool shall_choose(const attempt_t *attempt)
{
    const model_load_options_t *options = attempt->options;
    char engine[PROFILE_CACHE_ENGINE_BYTES] = "";

    if (options->use_cache)
        kept_profile_engine(attempt->model, options->devices, engine);
    return attempt->chooses && options->devices->ops->choice && !attempt->model->config.engine[0] &&
           !engine[0] && model_asked_mode(attempt->model, options) == MODE_WHOLE && has_cpus(attempt);
}

/* That batches have been run on any device. */
static int64_t busy_ns(const model_devices_t *devices)
{
    int64_t sum_ns = 0;

    for (uint32_t i = 0; i < devices->count; i++)
        sum_ns += (int64_t)metrics_value(devices->list[i].busy);
    return sum_ns;
}

/* What was measured there was measured beside these batches: the worker does so between them. */
static bool was_busy(const attempt_t *attempt)
{
    const model_devices_t *devices = attempt->options->devices;

    return busy_ns(devices) - attempt->busy_ns >
           (clock_now_ns() - attempt->begin_ns) / BUSY_PART * devices->count;
}

static status_t let_load(attempt_t *attempt)
{
    const model_devices_t *devices = attempt->options->devices;
    trial_go_t go = {.magic = TRIAL_MAGIC};
    status_t status = take_turn(attempt);

    if (status != STATUS_OK)
        return status;
    go.profile_budget_ns = shall_choose(attempt) ? attempt->options->profile_budget_ns : 0;
    attempt->chooses = go.profile_budget_ns > 0;
    attempt->patience.until_ns += go.profile_budget_ns;
    attempt->begin_ns = clock_now_ns();
    attempt->busy_ns = busy_ns(devices);
    go.used_bytes = used_bytes(attempt);
    attempt->budget_bytes = go.budget_bytes = left_bytes(devices, go.used_bytes);
    go.memory_bytes = devices->ops->describe ? 0 : devices->memory_bytes;
    return companion_put(attempt->loader.in, &go, sizeof(go), &attempt->patience);
}

static status_t talk(attempt_t *attempt, bool *known)
{
    trial_request_t request;

    fill_request(attempt, &request);
    status_t status = companion_put(attempt->loader.in, &request, sizeof(request), &attempt->patience);
    if (status == STATUS_OK || status == STATUS_IO) /* it may have said why before it went */
        status = hear(attempt, TRIAL_FILES);
    if (status != STATUS_OK || attempt->answer.status != STATUS_OK)
        return status;
    *known = is_known(attempt);
    if (*known)
        return STATUS_OK;
    status = let_load(attempt);
    return status == STATUS_OK || status == STATUS_IO ? hear(attempt, TRIAL_DONE) : status; /* likewise */
}

/* ---- What came of it ---- */

static status_t ran_out(const attempt_t *attempt, uint64_t lacked_bytes, err_t *err)
{
    return err_set(err, STATUS_NO_MEMORY,
                   "the loader ran out of the %llu MiB that %s has left: %llu MiB more were wanted%s%s",
                   mib(attempt->budget_bytes), attempt->options->devices->list[0].name,
                   mib_at_least(lacked_bytes), attempt->engine[0] ? ", on engine " : "", attempt->engine);
}

/* It ended without its last word. */
static status_t how_it_died(const attempt_t *attempt, int how, err_t *err)
{
    const char *on = attempt->engine[0] ? " on engine " : "", *engine = attempt->engine;

    if (!WIFSIGNALED(how))
        return err_set(err, STATUS_INTERNAL, "the loader ended without an answer%s%s (exit code %d)", on,
                       engine, WIFEXITED(how) ? WEXITSTATUS(how) : -1);
    switch (WTERMSIG(how)) {
    case SIGKILL:
        return err_set(err, STATUS_NO_MEMORY,
                       "the loader was killed%s%s, as the kernel does when the host's memory runs out", on,
                       engine);
    case SIGXCPU:
        return err_set(err, STATUS_DEADLINE_EXCEEDED, "the loader used up its CPU time%s%s", on, engine);
    case SIGSYS:
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "the loader made a system call that loading a model does not need%s%s", on, engine);
    default:
        return err_set(err, STATUS_INTERNAL, "the loader crashed%s%s (%s)", on, engine,
                       strsignal(WTERMSIG(how)));
    }
}

static status_t in_words(const attempt_t *attempt, status_t talked, const int *how, err_t *err)
{
    const trial_answer_t *answer = &attempt->answer;

    switch (talked) {
    case STATUS_OK:
        return answer->lacked_bytes ? ran_out(attempt, answer->lacked_bytes, err)
                                    : err_set(err, (status_t)answer->status, "%s", answer->text);
    case STATUS_CANCELLED:
        return err_set(err, talked, "stopped");
    case STATUS_DEADLINE_EXCEEDED:
        return err_set(err, talked,
                       "the loader was not done with its files%s%s after %.3g s (--load-timeout)",
                       attempt->engine[0] ? " on engine " : "", attempt->engine,
                       (double)attempt->trials->options.timeout_ns / (double)NS_PER_S);
    case STATUS_IO:
        return how ? how_it_died(attempt, *how, err) : err_set(err, talked, "the loader does not answer");
    default:
        return err_set(err, talked, "the loader talks nonsense");
    }
}

static void take_answer(attempt_t *attempt)
{
    const trial_answer_t *answer = &attempt->answer;
    trials_t *trials = attempt->trials;
    model_t *model = attempt->model;

    memcpy(model->without, answer->without, sizeof(model->without));
    model->loading_bytes = of_model(answer);
    if (answer->fastest[0] && !was_busy(attempt)) {
        memcpy(model->fastest, answer->fastest, sizeof(model->fastest));
        memcpy(model->engines, answer->engines, sizeof(model->engines));
        model->engine_count = answer->engine_count;
    }
    pthread_mutex_lock(&trials->lock);
    note_tried(trials, model);
    bool tell = answer->unfiltered && !trials->told_unfiltered;
    trials->told_unfiltered |= answer->unfiltered;
    pthread_mutex_unlock(&trials->lock);
    if (tell)
        log_warn("loader_calls_not_filtered", LOG_STR("reason", "this kernel has no seccomp filters"));
}

typedef enum {
    END_SAID,           /* it answered, or nothing else could come of another one */
    END_DIED,           /* on an engine, which another loader can do without */
    END_LACKED_FOR_TWO, /* two engines had the model, and one alone may find enough */
} end_t;

/* What an engine does that finds no memory is said before it dies of it, but for what the kernel kills. */
static end_t end_of(const attempt_t *attempt, status_t talked, const int *how)
{
    const trial_answer_t *answer = &attempt->answer;
    bool crashed = talked == STATUS_OK && answer->kind == TRIAL_ENGINE;

    if (!attempt->engine[0] || (talked != STATUS_IO && !crashed))
        return END_SAID;
    bool lacked = crashed || (how && WIFSIGNALED(*how) && WTERMSIG(*how) == SIGKILL);
    return attempt->chooses && lacked ? END_LACKED_FOR_TWO : END_DIED;
}

static status_t try_once(attempt_t *attempt, bool *known, end_t *end, err_t *err)
{
    trials_t *trials = attempt->trials;
    int how = 0;
    status_t status = companion_start(trials->options.program, &attempt->loader, err);

    if (status != STATUS_OK)
        return status;
    attempt->patience.until_ns = clock_now_ns() + trials->options.timeout_ns;
    status_t talked = talk(attempt, known);
    bool dead = companion_end(&attempt->loader, clock_now_ns() + DEATH_PATIENCE_NS, &how);
    give_turn(attempt);
    if (!dead)
        leave_for_later(trials, attempt->loader.pid);
    *end = end_of(attempt, talked, dead ? &how : NULL);
    if (talked != STATUS_OK || attempt->answer.status != STATUS_OK)
        return in_words(attempt, talked, dead ? &how : NULL, err);
    if (!*known)
        take_answer(attempt);
    return STATUS_OK;
}

/* ---- Engines that kill ---- */

/* Whether another could take its place. */
static bool leave_out(model_t *model, const model_load_options_t *options, const char *engine,
                      const err_t *why)
{
    size_t len = strlen(model->without);

    if (!options->devices->ops->choice || model->config.engine[0] ||
        len + strlen(engine) + 2 > sizeof(model->without))
        return false;
    snprintf(model->without + len, sizeof(model->without) - len, "%s%s", len ? "," : "", engine);
    log_warn("engine_left_out", LOG_STR("model", model->name), LOG_STR("engine", engine), LOG_ERR(why));
    return true;
}

status_t trial_of(trials_t *trials, model_t *model, const model_load_options_t *options,
                  const trial_early_t *early, err_t *err)
{
    bool known = false, chooses = true;
    int64_t begin_ns = clock_now_ns(), early_ns = 0;
    err_t why = {0};
    status_t status = reap_old(trials, err);

    if (status != STATUS_OK)
        return status;
    model->without[0] = model->fastest[0] = '\0';
    model->engine_count = 0;
    for (uint32_t i = 0; i < ATTEMPTS_MAX; i++) {
        attempt_t attempt = {
            .trials = trials, .model = model, .options = options, .early = early, .chooses = chooses};
        end_t end = END_SAID;
        attempt.patience = (companion_patience_t){.stopped = is_stopped, .arg = &attempt};
        status = try_once(&attempt, &known, &end, &why);
        early_ns += attempt.early_ns;
        chooses = chooses && end != END_LACKED_FOR_TWO;
        if (end == END_SAID || (end == END_DIED && !leave_out(model, options, attempt.engine, &why)))
            break;
    }
    if (status != STATUS_OK) {
        if (err)
            *err = why;
        return status;
    }
    log_info("model_tried", LOG_STR("model", model->name), LOG_STR("before", known ? "yes" : "no"),
             LOG_STR("without", model->without), LOG_STR("fastest", model->fastest),
             LOG_U64("loading_mib", model->loading_bytes >> 20),
             LOG_MS("took_ms", clock_now_ns() - begin_ns - early_ns), LOG_MS("meanwhile_ms", early_ns));
    return STATUS_OK;
}

/* ---- Life ---- */

status_t trials_program(const char *named, char path[TRIALS_PROGRAM_BYTES], const char **program, err_t *err)
{
    *program = NULL;
    if (strcmp(named, "none") == 0)
        return STATUS_OK;
    if (strcmp(named, "beside") != 0)
        snprintf(path, TRIALS_PROGRAM_BYTES, "%s", named);
    else if (!beside_program(PROGRAM, path, TRIALS_PROGRAM_BYTES))
        return err_set(err, STATUS_NOT_FOUND,
                       "nobody knows where this program lies, and " PROGRAM " beside it");
    if (access(path, X_OK) != 0)
        return err_set(
            err, STATUS_NOT_FOUND,
            "%.200s: %m; models are loaded by it first (--loader names another, none does without)", path);
    *program = path;
    return STATUS_OK;
}

status_t trials_create(const trials_options_t *options, trials_t **out, err_t *err)
{
    trials_t *trials = calloc(1, sizeof(*trials));

    if (!trials)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    trials->options = *options;
    pthread_mutex_init(&trials->lock, NULL);
    pthread_cond_init(&trials->turn, NULL);
    *out = trials;
    return STATUS_OK;
}

void trials_destroy(trials_t *trials)
{
    if (!trials)
        return;
    pthread_cond_destroy(&trials->turn);
    pthread_mutex_destroy(&trials->lock);
    free(trials);
}
