#include "trial_rig.h"

#include "base/clock.h"
#include "base/log.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define DIGITS "examples/models/digits/1/model.onnx"

/* ---- Loaders ---- */

const char *a_player(const trial_answer_t *answers, uint32_t count, const char *before, const char *after)
{
    static char words[PATH_MAX * 2];
    char played[] = "/tmp/answers-XXXXXX";
    int fd = mkstemp(played);

    cr_assert_eq(write(fd, answers, count * sizeof(*answers)), (ssize_t)(count * sizeof(*answers)));
    close(fd);
    snprintf(words, sizeof(words), "%s\nexec 3<%s\nrm %s\ncat <&3\n%s", before, played, played, after);
    return shell_program(words);
}

const char *a_player_once(const trial_answer_t *answers, uint32_t count)
{
    char first[PATH_MAX], crash[64];

    /* It has heard all that it is told before. */
    snprintf(crash, sizeof(crash), "head -c %zu > /dev/null\nkill -SEGV $$",
             sizeof(trial_request_t) + sizeof(trial_go_t));
    const char *program = a_player(answers, count, "rm $0.first 2>/dev/null || exec " LOADER, crash);
    snprintf(first, sizeof(first), "%s.first", program);
    fclose(fopen(first, "w"));
    return program;
}

/* ---- The model ---- */

void rig_start(rig_t *rig, const char *loader, int64_t timeout_ns, const char *engine)
{
    rig_start_threads(rig, loader, timeout_ns, engine, 1);
}

void rig_start_threads(rig_t *rig, const char *loader, int64_t timeout_ns, const char *engine,
                       uint32_t threads)
{
    const trials_options_t options = {
        .program = loader, .timeout_ns = timeout_ns, .engine = {.threads = threads}};

    *rig = (rig_t){.metrics = metrics_create("test", NULL)};
    log_init("test", LOG_OFF, LOG_FORMAT_TEXT);
    cr_assert_eq(
        model_devices_open(&rig->devices, engine, 1, &options.engine, false, rig->metrics, &rig->err),
        STATUS_OK, "%s", rig->err.text);
    cr_assert_eq(trials_create(&options, &rig->trials, NULL), STATUS_OK);
    cr_assert_eq(repository_open_model(DIGITS, &rig->model, NULL), STATUS_OK);
    rig->options =
        (model_load_options_t){.devices = &rig->devices, .stop = &rig->stop, .trials = rig->trials};
}

void rig_make_urgent(rig_t *rig)
{
    model_t *model = rig->model;
    char words[256];

    snprintf(rig->folder, sizeof(rig->folder), "/tmp/urgent-XXXXXX");
    cr_assert_not_null(mkdtemp(rig->folder));
    snprintf(words, sizeof(words), "mkdir %s/1 && cp " DIGITS " %s/1 && echo 'slo_ms: 1' > %s/config.yaml",
             rig->folder, rig->folder, rig->folder);
    cr_assert_eq(system(words), 0);
    snprintf(model->dir, sizeof(model->dir), "%s", rig->folder);
    model->file[0] = '\0';
    model->version = 1;
    cr_assert_eq(model_config_read(model->dir, &model->config, &rig->err), STATUS_OK, "%s", rig->err.text);
    rig->options.profile_budget_ns = 400 * NS_PER_MS;
}

static void remove_folder(const rig_t *rig)
{
    char words[64];

    snprintf(words, sizeof(words), "rm -r %s", rig->folder);
    cr_assert(!rig->folder[0] || system(words) == 0);
}

void rig_end(rig_t *rig)
{
    remove_folder(rig);
    model_destroy(rig->model, &rig->devices);
    trials_destroy(rig->trials);
    model_devices_close(&rig->devices);
    metrics_destroy(rig->metrics);
}

status_t rig_try(rig_t *rig)
{
    return trial_of(rig->trials, rig->model, &rig->options, NULL, &rig->err);
}

bool rig_says(const rig_t *rig, const char *words)
{
    return strstr(rig->err.text, words) != NULL;
}

/* ---- Loaded here while others are tried there ---- */

static pid_t child(void)
{
    char path[64];
    int pid = 0;

    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)gettid());
    FILE *file = fopen(path, "r");
    cr_assert(file && fscanf(file, "%d", &pid) == 1);
    fclose(file);
    return pid;
}

static void hear_passed(void *arg, const char *engine)
{
    heard_t *heard = arg;
    struct rlimit most;

    heard->times++;
    snprintf(heard->engine, sizeof(heard->engine), "%s", engine);
    heard->bytes = heard->model->loading_bytes;
    cr_assert_eq(prlimit(child(), RLIMIT_DATA, NULL, &most), 0);
    heard->limit_bytes = most.rlim_cur;
}

status_t rig_try_early(rig_t *rig, heard_t *heard)
{
    const trial_early_t early = {.passed = hear_passed, .arg = heard};

    *heard = (heard_t){.model = rig->model};
    return trial_of(rig->trials, rig->model, &rig->options, &early, &rig->err);
}
