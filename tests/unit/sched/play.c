#include "play.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int64_t play_ns(double units)
{
    return llround(units * 1e6);
}

static void put(play_t *play, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(play->text + play->text_len, sizeof(play->text) - play->text_len, format, args);
    va_end(args);
    cr_assert(n >= 0 && play->text_len + (size_t)n < sizeof(play->text));
    play->text_len += (size_t)n;
}

static void put_time(play_t *play, int64_t ns)
{
    char number[32];
    snprintf(number, sizeof(number), "%.3f", (double)ns / 1e6);
    size_t len = strlen(number);
    while (number[len - 1] == '0')
        number[--len] = '\0';
    if (number[len - 1] == '.')
        number[--len] = '\0';
    put(play, "%s", number);
}

void play_start(play_t *play, const char *policy, const char *params, uint32_t gpus)
{
    play_start_inflight(play, policy, params, gpus, 0);
}

void play_start_inflight(play_t *play, const char *policy, const char *params, uint32_t gpus,
                         uint32_t inflight)
{
    err_t err;
    sched_limits_t limits = {.models_max = PLAY_MODELS_MAX,
                             .gpus_max = 16,
                             .tasks_max = 1024,
                             .batch_max = 256,
                             .gpu_inflight_max = inflight};
    memset(play, 0, sizeof(*play));
    play->sched = sched_create(&limits, &err);
    cr_assert_not_null(play->sched, "%s", err.text);
    cr_assert_eq(sched_set_policy(play->sched, 0, policy, params, &err), STATUS_OK, "%s", err.text);
    for (uint32_t g = 0; g < gpus; g++)
        cr_assert_eq(sched_add_gpu(play->sched, 0, g, 0), STATUS_OK);
}

void play_stop(play_t *play)
{
    sched_destroy(play->sched);
    play->sched = NULL;
}

void play_model_opts(play_t *play, uint32_t model, char letter, const profile_t *profile,
                     sched_model_opts_t opts)
{
    err_t err;
    play->letter[model] = letter;
    play->slo[model] = (double)opts.slo_ns / 1e6;
    play->next_tag[model] = 1;
    cr_assert_eq(sched_add_model(play->sched, play->now_ns, model, profile, &opts, &err), STATUS_OK, "%s",
                 err.text);
}

void play_model(play_t *play, uint32_t model, char letter, double alpha, double beta, double slo)
{
    profile_t profile;
    err_t err;
    cr_assert_eq(profile_from_line(&profile, play_ns(alpha), play_ns(beta), 256, &err), STATUS_OK, "%s",
                 err.text);
    play_model_opts(play, model, letter, &profile, (sched_model_opts_t){.slo_ns = play_ns(slo)});
}

void play_delays(play_t *play, double ctrl, double data)
{
    sched_set_delays(play->sched, play->now_ns,
                     &(sched_delays_t){.ctrl_ns = play_ns(ctrl), .data_ns = play_ns(data)});
}

/* Sorted by time; those of one moment keep the order in which they were added. */
static void add_event(play_t *play, play_event_t event)
{
    cr_assert_lt(play->count, PLAY_EVENTS_MAX);
    size_t i = play->count++;
    for (; i > 0 && play->events[i - 1].at_ns > event.at_ns; i--)
        play->events[i] = play->events[i - 1];
    play->events[i] = event;
}

void play_arrive_slo(play_t *play, uint32_t model, double at, double slo)
{
    add_event(play, (play_event_t){.at_ns = play_ns(at),
                                   .kind = PLAY_ARRIVAL,
                                   .model = model,
                                   .tag = play->next_tag[model]++,
                                   .deadline_ns = play_ns(at + slo)});
}

void play_arrive(play_t *play, uint32_t model, double start, double gap, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        play_arrive_slo(play, model, start + gap * i, play->slo[model]);
}

void play_skip(play_t *play, uint32_t model, unsigned count)
{
    play->next_tag[model] += count;
}

void play_set_policy(play_t *play, double at, const char *policy, const char *params)
{
    add_event(play,
              (play_event_t){.at_ns = play_ns(at), .kind = PLAY_POLICY, .policy = policy, .params = params});
}

static void put_tasks(play_t *play, char letter, const sched_task_t *tasks, uint32_t count)
{
    for (uint32_t i = 0; i < count;) {
        uint32_t end = i;
        while (end + 1 < count && tasks[end + 1].tag == tasks[end].tag + 1)
            end++;
        put(play, "%s%c%llu", i ? "," : "", letter, (unsigned long long)tasks[i].tag);
        if (end > i)
            put(play, "-%c%llu", letter, (unsigned long long)tasks[end].tag);
        i = end + 1;
    }
}

/* Rows that join a batch move its end, and that of what joined before. */
static void put_done(play_t *play, const sched_action_t *action)
{
    uint64_t together = action->grant.stretches ? action->grant.stretches : action->grant.batch_id;
    play_event_t moved[PLAY_DONE_MAX];
    size_t count = 0;
    for (size_t i = 0; action->grant.stretches && i < play->count;) {
        if (play->events[i].kind != PLAY_DONE || play->events[i].together != together) {
            i++;
            continue;
        }
        cr_assert_lt(count, PLAY_DONE_MAX);
        moved[count++] = play->events[i];
        memmove(&play->events[i], &play->events[i + 1], (--play->count - i) * sizeof(play->events[0]));
    }
    cr_assert(!action->grant.stretches || count > 0, "rows join a batch that does not run");
    for (size_t i = 0; i < count; i++) {
        moved[i].at_ns = action->grant.finish_ns;
        add_event(play, moved[i]);
    }
    add_event(play, (play_event_t){.at_ns = action->grant.finish_ns,
                                   .kind = PLAY_DONE,
                                   .together = together,
                                   .batch_id = action->grant.batch_id});
}

static void on_action(void *ctx, const sched_action_t *action)
{
    static const char *const reasons[] = {"expired", "window", "gpu-lost", "model-removed"};
    play_t *play = ctx;
    char letter = play->letter[action->model];
    put_time(play, action->kind == SCHED_GRANT ? action->grant.start_ns : play->now_ns);
    switch (action->kind) {
    case SCHED_GRANT:
        play->grants++;
        put(play, " gpu%u ", action->grant.gpu + 1);
        put_tasks(play, letter, action->grant.tasks, action->grant.count);
        put(play, action->grant.stretches ? " join until " : " until ");
        put_time(play, action->grant.finish_ns);
        put(play, "\n");
        put_done(play, action);
        break;
    case SCHED_DROP:
        play->drops++;
        put(play, " drop %c%llu %s\n", letter, (unsigned long long)action->drop.task.tag,
            reasons[action->drop.reason]);
        break;
    case SCHED_PREEMPT:
        put(play, " preempt gpu%u\n", action->preempt.gpu + 1);
        break;
    }
}

static void apply(play_t *play, const play_event_t *event)
{
    err_t err;
    sched_task_t task = {.tag = event->tag, .arrival_ns = event->at_ns, .deadline_ns = event->deadline_ns};
    switch (event->kind) {
    case PLAY_ARRIVAL:
        cr_assert_eq(sched_submit(play->sched, play->now_ns, event->model, &task, NULL), STATUS_OK);
        break;
    case PLAY_DONE:
        sched_batch_done(play->sched, play->now_ns, event->batch_id, play->now_ns);
        break;
    case PLAY_POLICY:
        cr_assert_eq(sched_set_policy(play->sched, play->now_ns, event->policy, event->params, &err),
                     STATUS_OK, "%s", err.text);
        break;
    }
}

const char *play_until(play_t *play, double time)
{
    int64_t until_ns = play_ns(time);
    int64_t wake_ns = play->now_ns;
    for (;;) {
        int64_t next_ns = play->count ? play->events[0].at_ns : SCHED_NEVER;
        next_ns = wake_ns < next_ns ? wake_ns : next_ns;
        if (next_ns > until_ns)
            break;
        cr_assert(next_ns >= play->now_ns, "time runs backwards");
        play->now_ns = next_ns;
        while (play->count && play->events[0].at_ns == next_ns) {
            play_event_t event = play->events[0];
            memmove(play->events, play->events + 1, --play->count * sizeof(event));
            apply(play, &event);
        }
        wake_ns = sched_run(play->sched, next_ns, on_action, play);
        cr_assert(wake_ns > next_ns, "asks to be called again at once, at %lld", (long long)next_ns);
        const char *broken = sched_validate(play->sched);
        cr_assert_null(broken, "at %lld: %s", (long long)next_ns, broken);
    }
    play->now_ns = until_ns;
    return play->text;
}
