/*
 * The core on a thread of its own, fed through a bounded mailbox as the service does, decides what it decides
 * when it is called directly: only the times that it is told count, not when or in what portions the messages
 * come.
 */
#include "base/prng.h"
#include "sched/sched.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODELS = 6, GPUS = 4, EVENTS = 4000, MAILBOX = 16, LOG_BYTES = 1 << 20 };

typedef struct {
    int64_t at_ns;
    uint32_t model;
    bool last;
} message_t;

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    message_t slots[MAILBOX];
    size_t head, count;
} mailbox_t;

static void mailbox_put(mailbox_t *mailbox, message_t message)
{
    pthread_mutex_lock(&mailbox->lock);
    while (mailbox->count == MAILBOX)
        pthread_cond_wait(&mailbox->changed, &mailbox->lock);
    mailbox->slots[(mailbox->head + mailbox->count++) % MAILBOX] = message;
    pthread_cond_broadcast(&mailbox->changed);
    pthread_mutex_unlock(&mailbox->lock);
}

static message_t mailbox_take(mailbox_t *mailbox)
{
    pthread_mutex_lock(&mailbox->lock);
    while (mailbox->count == 0)
        pthread_cond_wait(&mailbox->changed, &mailbox->lock);
    message_t message = mailbox->slots[mailbox->head++ % MAILBOX];
    mailbox->count--;
    pthread_cond_broadcast(&mailbox->changed);
    pthread_mutex_unlock(&mailbox->lock);
    return message;
}

typedef struct {
    sched_t *sched;
    int64_t wake_ns;
    struct {
        int64_t at_ns;
        uint64_t id;
    } ends[GPUS];
    uint64_t tag;
    char *log;
    size_t len;
    mailbox_t *mailbox;
} driver_t;

static void on_action(void *ctx, const sched_action_t *action)
{
    driver_t *driver = ctx;
    size_t room = LOG_BYTES - driver->len;
    int n;
    if (action->kind == SCHED_GRANT) {
        n = snprintf(driver->log + driver->len, room, "%lld g%u m%u n%u; ", (long long)action->grant.start_ns,
                     action->grant.gpu, action->model, action->grant.count);
        driver->ends[action->grant.gpu].at_ns = action->grant.finish_ns;
        driver->ends[action->grant.gpu].id = action->grant.batch_id;
    } else {
        n = snprintf(driver->log + driver->len, room, "drop %llu; ",
                     (unsigned long long)action->drop.task.tag);
    }
    cr_assert(n > 0 && (size_t)n < room);
    driver->len += (size_t)n;
}

static void decide(driver_t *driver, int64_t now_ns)
{
    for (int g = 0; g < GPUS; g++) {
        if (driver->ends[g].id && driver->ends[g].at_ns <= now_ns) {
            sched_batch_done(driver->sched, now_ns, driver->ends[g].id, driver->ends[g].at_ns);
            driver->ends[g].id = 0;
        }
    }
    driver->wake_ns = sched_run(driver->sched, now_ns, on_action, driver);
}

static int64_t next_ns(const driver_t *driver)
{
    int64_t next = driver->wake_ns;
    for (int g = 0; g < GPUS; g++) {
        if (driver->ends[g].id && driver->ends[g].at_ns < next)
            next = driver->ends[g].at_ns;
    }
    return next;
}

/* Everything that is due before the message, then the message. */
static void handle(driver_t *driver, message_t message)
{
    for (int64_t at; (at = next_ns(driver)) < message.at_ns;)
        decide(driver, at);
    sched_task_t task = {
        .tag = driver->tag++, .arrival_ns = message.at_ns, .deadline_ns = message.at_ns + 30000000};
    cr_assert_eq(sched_submit(driver->sched, message.at_ns, message.model, &task, NULL), STATUS_OK);
    decide(driver, message.at_ns);
}

static void *drive(void *arg)
{
    driver_t *driver = arg;
    for (message_t message; !(message = mailbox_take(driver->mailbox)).last;)
        handle(driver, message);
    return NULL;
}

static void driver_start(driver_t *driver, const char *policy)
{
    sched_limits_t limits = {.models_max = MODELS, .gpus_max = GPUS, .tasks_max = 4096, .batch_max = 64};
    sched_model_opts_t opts = {.slo_ns = 30000000};
    err_t err;
    *driver = (driver_t){.sched = sched_create(&limits, &err), .wake_ns = SCHED_NEVER};
    driver->log = calloc(1, LOG_BYTES);
    cr_assert(driver->sched && driver->log);
    cr_assert_eq(sched_set_policy(driver->sched, 0, policy, NULL, &err), STATUS_OK);
    for (uint32_t m = 0; m < MODELS; m++) {
        profile_t profile;
        cr_assert_eq(profile_from_line(&profile, 300000 + 200000 * m, 4000000, 64, &err), STATUS_OK);
        cr_assert_eq(sched_add_model(driver->sched, 0, m, &profile, &opts, &err), STATUS_OK);
    }
    for (uint32_t g = 0; g < GPUS; g++)
        cr_assert_eq(sched_add_gpu(driver->sched, 0, g, 0), STATUS_OK);
}

static void driver_stop(driver_t *driver)
{
    sched_destroy(driver->sched);
    free(driver->log);
}

static void compare(const char *policy)
{
    mailbox_t mailbox = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    driver_t direct, threaded;
    pthread_t thread;
    prng_t prng;
    int64_t at_ns = 0;
    prng_init(&prng, 42);
    driver_start(&direct, policy);
    driver_start(&threaded, policy);
    threaded.mailbox = &mailbox;
    cr_assert_eq(pthread_create(&thread, NULL, drive, &threaded), 0);
    for (int i = 0; i < EVENTS; i++) {
        at_ns += 1 + (int64_t)prng_exponential(&prng, 800000);
        message_t message = {.at_ns = at_ns, .model = (uint32_t)prng_below(&prng, MODELS)};
        mailbox_put(&mailbox, message);
        handle(&direct, message);
    }
    mailbox_put(&mailbox, (message_t){.last = true});
    pthread_join(thread, NULL);
    cr_assert_gt(direct.len, 1000);
    cr_assert_str_eq(threaded.log, direct.log, "policy %s", policy);
    driver_stop(&direct);
    driver_stop(&threaded);
}

Test(threaded, decides_what_it_decides_when_called_directly)
{
    static const char *const policies[] = {"fermata", "deferred", "eager", "timeout", "clockwork", "nexus"};
    for (unsigned p = 0; p < sizeof(policies) / sizeof(policies[0]); p++)
        compare(policies[p]);
}
