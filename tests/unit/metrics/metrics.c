#include "metrics/metrics.h"
#include "metrics/internal.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static metrics_t *reg;
static strbuf_t text;

static void set_up(void)
{
    reg = metrics_create("test", NULL);
    strbuf_init(&text, METRICS_TEXT_MAX_BYTES);
}

static void tear_down(void)
{
    metrics_destroy(reg);
    strbuf_dispose(&text);
}

TestSuite(metrics, .init = set_up, .fini = tear_down);

static const char *exposed(void)
{
    strbuf_clear(&text);
    metrics_write(reg, &text);
    return text.data;
}

Test(metrics, counters_and_gauges_are_exposed)
{
    metrics_add(metrics_series(reg, METRIC_SCHED_TASKS, "digits", "granted"), 3);
    metrics_add(metrics_series(reg, METRIC_SCHED_TASKS, "digits", "granted"), 4);
    metrics_add(metrics_series(reg, METRIC_SCHED_TASKS, "digits", "dropped"), 1);
    metrics_set(metrics_series(reg, METRIC_SCHED_WORKERS), 2);
    metrics_gauge_add(metrics_series(reg, METRIC_SCHED_WORKERS), -0.5);
    cr_expect_not_null(
        strstr(exposed(),
               "# HELP fermata_scheduler_tasks_total Tasks that left the queue: granted, dropped, "
               "cancelled, retried; or never came into it: infeasible, with a deadline that cannot be met on "
               "an idle device.\n"
               "# TYPE fermata_scheduler_tasks_total counter\n"
               "fermata_scheduler_tasks_total{model=\"digits\",outcome=\"granted\"} 7\n"
               "fermata_scheduler_tasks_total{model=\"digits\",outcome=\"dropped\"} 1\n"));
    cr_expect_not_null(strstr(text.data, "fermata_scheduler_workers 1.5\n"));
    cr_expect_not_null(
        strstr(text.data, "fermata_build_info{service=\"test\",version=\"" FERMATA_VERSION "\"} 1\n"));
    cr_expect_null(strstr(text.data, "fermata_scheduler_gateways"), "nothing is shown of what nobody uses");
}

Test(metrics, histograms_are_cumulative_and_in_seconds)
{
    metric_t *h = metrics_series(reg, METRIC_WORKER_EXEC_SECONDS, "m");
    metrics_observe(h, 50000);
    metrics_observe(h, 50001);
    metrics_observe(h, 1500000000);
    metrics_observe(h, INT64_C(20000000000));
    metrics_observe(h, -1);
    const char *got = exposed();
    cr_expect_not_null(strstr(got, "# TYPE fermata_worker_exec_seconds histogram\n"
                                   "fermata_worker_exec_seconds_bucket{model=\"m\",le=\"5e-05\"} 2\n"
                                   "fermata_worker_exec_seconds_bucket{model=\"m\",le=\"0.0001\"} 3\n"));
    cr_expect_not_null(strstr(got, "fermata_worker_exec_seconds_bucket{model=\"m\",le=\"2.5\"} 4\n"
                                   "fermata_worker_exec_seconds_bucket{model=\"m\",le=\"10\"} 4\n"
                                   "fermata_worker_exec_seconds_bucket{model=\"m\",le=\"+Inf\"} 5\n"
                                   "fermata_worker_exec_seconds_sum{model=\"m\"} 21.500100001\n"
                                   "fermata_worker_exec_seconds_count{model=\"m\"} 5\n"));
    cr_expect_eq(metrics_value(h), 5);
}

Test(metrics, sizes_have_power_of_two_buckets_and_units_are_converted)
{
    metrics_observe(metrics_series(reg, METRIC_SCHED_BATCH_SIZE, "m"), 5);
    metrics_add(metrics_series(reg, METRIC_NV_QUEUE_US, "m", "1"), 1999);
    metrics_add(metrics_series(reg, METRIC_WORKER_BUSY_SECONDS, "0"), 1500000000);
    metrics_observe(metrics_series(reg, METRIC_SCHED_DECISION_SECONDS), 1);
    const char *got = exposed();
    cr_expect_not_null(strstr(got, "fermata_scheduler_batch_size_bucket{model=\"m\",le=\"4\"} 0\n"
                                   "fermata_scheduler_batch_size_bucket{model=\"m\",le=\"8\"} 1\n"));
    cr_expect_not_null(strstr(got, "nv_inference_queue_duration_us{model=\"m\",version=\"1\"} 1\n"));
    cr_expect_not_null(strstr(got, "fermata_worker_device_busy_seconds_total{device=\"0\"} 1.5\n"));
    cr_expect_not_null(strstr(got, "fermata_scheduler_decision_seconds_bucket{le=\"5e-05\"} 1\n"));
    cr_expect_not_null(strstr(got, "fermata_scheduler_decision_seconds_sum 0.000000001\n"));
}

/* A metric is in the unit that its name says, whatever its kind. */
Test(metrics, gauges_are_converted_too)
{
    metrics_set(metrics_series(reg, METRIC_SCHED_DELAY_SECONDS, "main", "ctrl"), 1815081);
    const char *line =
        "fermata_scheduler_delay_bound_seconds{subcluster=\"main\",path=\"ctrl\"} 0.001815081\n";
    cr_assert(strstr(exposed(), line), "%s", text.data);
}

/* Nothing called seconds is recorded and shown in nanoseconds; times of day are in seconds by themselves. */
Test(metrics, seconds_are_seconds)
{
    static const char *const names[] = {
#define NAME_IF_RAW(id, name, kind, unit, labels, help) strcmp(#unit, "NONE") == 0 ? name : "",
        METRICS_NAMES(NAME_IF_RAW)
#undef NAME_IF_RAW
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        cr_expect(!strstr(names[i], "_seconds") || strcmp(names[i], "fermata_start_time_seconds") == 0, "%s",
                  names[i]);
}

Test(metrics, labels_are_escaped_and_cut)
{
    char longer[300];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    metrics_set(metrics_series(reg, METRIC_SCHED_QUEUE, "a\"b\\c\nd"), NAN);
    metrics_set(metrics_series(reg, METRIC_WORKER_MODELS, longer), -INFINITY);
    cr_expect_not_null(strstr(exposed(), "fermata_scheduler_queue_tasks{model=\"a\\\"b\\\\c\\nd\"} NaN\n"));
    cr_expect_not_null(strstr(text.data, "x\"} -Inf\n"));
    cr_expect_eq(metrics_series(reg, METRIC_WORKER_MODELS, longer),
                 metrics_series(reg, METRIC_WORKER_MODELS, longer));
}

Test(metrics, hidden_series_come_back_when_asked_for)
{
    metric_t *s = metrics_series(reg, METRIC_SCHED_QUEUE, "gone");
    metrics_hide(s);
    cr_expect_null(strstr(exposed(), "fermata_scheduler_queue_tasks"));
    cr_expect_eq(metrics_series(reg, METRIC_SCHED_QUEUE, "gone"), s);
    cr_expect_not_null(strstr(exposed(), "{model=\"gone\"}"));
}

Test(metrics, tells_how_much_memory_the_process_has)
{
    const char *line = strstr(exposed(), "\nfermata_resident_memory_bytes ");
    cr_assert_not_null(line);
    cr_expect_gt(strtod(strchr(line, ' '), NULL), 1e6);
}

/* What two have is there until both have released it; then its place is free, and what comes again counts from nothing. */
Test(metrics, what_is_released_is_forgotten)
{
    metric_t *one = metrics_series(reg, METRIC_SCHED_BATCHES, "one"),
             *two = metrics_series(reg, METRIC_SCHED_BATCHES, "two");
    cr_assert_eq(metrics_series(reg, METRIC_SCHED_BATCHES, "one"), one);
    metrics_add(one, 5);
    metrics_add(two, 7);
    metric_t *in_its_place = metrics_release(reg, one);
    cr_expect_not_null(strstr(exposed(), "{model=\"one\"} 5"));
    (void)metrics_release(reg, one);
    metrics_add(in_its_place, 1);
    (void)metrics_release(reg, in_its_place);
    cr_expect_null(strstr(exposed(), "model=\"one\""));
    cr_expect_null(strstr(text.data, "other"));
    cr_expect_not_null(strstr(text.data, "{model=\"two\"} 7"));
    cr_expect_eq(metrics_value(metrics_series(reg, METRIC_SCHED_BATCHES, "one")), 0);
}

/* Versions come and go for days. */
Test(metrics, released_series_make_room)
{
    char name[16];
    for (int i = 0; i < 3 * METRICS_SERIES_MAX; i++) {
        snprintf(name, sizeof name, "m%d", i);
        (void)metrics_release(reg, metrics_series(reg, METRIC_SCHED_BATCHES, name));
    }
    (void)metrics_series(reg, METRIC_SCHED_BATCHES, "last");
    cr_expect_not_null(strstr(exposed(), "{model=\"last\"}"));
}

/* A thousand strangers' models: what is looked up by is as small afterwards as it was, and finds what stayed. */
Test(metrics, what_is_looked_up_by_becomes_small_again)
{
    enum { MANY = 1000, EVERY = 100 };
    metric_t *series[MANY];
    char name[16];
    uint32_t before = reg->index.capacity;
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "m%d", i);
        series[i] = metrics_series(reg, METRIC_SCHED_BATCHES, name);
    }
    cr_assert_gt(reg->index.capacity, before);
    for (int i = 0; i < MANY; i++)
        if (i % EVERY != 0)
            (void)metrics_release(reg, series[i]);
    cr_expect_eq(reg->index.capacity, before);
    for (int i = 0; i < MANY; i += EVERY) {
        snprintf(name, sizeof name, "m%d", i);
        cr_expect_eq(metrics_series(reg, METRIC_SCHED_BATCHES, name), series[i]);
    }
}

Test(metrics, series_are_bounded)
{
    char name[16];
    metric_t *last = NULL;
    for (int i = 0; i < METRICS_SERIES_MAX + 2; i++) {
        snprintf(name, sizeof name, "m%d", i);
        metric_t *s = metrics_series(reg, METRIC_SCHED_BATCHES, name);
        cr_assert_not_null(s);
        if (i == METRICS_SERIES_MAX)
            last = s;
        else if (i > METRICS_SERIES_MAX)
            cr_expect_eq(s, last);
        metrics_add(s, 1);
    }
    cr_expect_not_null(strstr(exposed(), "fermata_scheduler_batches_total{model=\"other\"} 2\n"));
}

static void collect(void *arg)
{
    metrics_set(metrics_series(reg, METRIC_SCHED_GATEWAYS), *(double *)arg);
}

Test(metrics, collectors_run_before_each_exposition)
{
    double gateways = 3;
    cr_assert_eq(metrics_on_collect(reg, collect, &gateways), STATUS_OK);
    cr_expect_not_null(strstr(exposed(), "fermata_scheduler_gateways 3\n"));
    for (int i = 1; i < 16; i++)
        metrics_on_collect(reg, collect, &gateways);
    cr_expect_eq(metrics_on_collect(reg, collect, &gateways), STATUS_NO_MEMORY);
}

enum { UPDATES = 20000, THREADS = 3 };

static void *update(void *arg)
{
    (void)arg;
    metric_t *c = metrics_series(reg, METRIC_NV_SUCCESS, "m", "1"),
             *g = metrics_series(reg, METRIC_NV_PENDING, "m", "1");
    metric_t *h = metrics_series(reg, METRIC_SCHED_QUEUE_SECONDS, "m");
    for (int i = 0; i < UPDATES; i++) {
        metrics_add(c, 1);
        metrics_gauge_add(g, 1);
        metrics_observe(h, i * 1000);
    }
    return NULL;
}

Test(metrics, threads_lose_no_update)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, update, NULL);
    exposed();
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    cr_expect_eq(metrics_value(metrics_series(reg, METRIC_NV_SUCCESS, "m", "1")), THREADS * UPDATES);
    cr_expect_eq(metrics_gauge_value(metrics_series(reg, METRIC_NV_PENDING, "m", "1")), THREADS * UPDATES);
    cr_expect_eq(metrics_value(metrics_series(reg, METRIC_SCHED_QUEUE_SECONDS, "m")), THREADS * UPDATES);
}

/* More than the index begins with; each is found again, whatever lies in its values. */
Test(metrics, each_list_of_values_is_a_series_of_its_own)
{
    enum { MANY = 1000 };
    static metric_t *made[MANY];
    char name[16];
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "model_%d", i);
        made[i] = metrics_series(reg, METRIC_NV_COUNT, name, "1");
        metrics_add(made[i], (uint64_t)i);
    }
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "model_%d", i);
        cr_assert_eq(metrics_series(reg, METRIC_NV_COUNT, name, "1"), made[i]);
        cr_assert_eq(metrics_value(made[i]), (uint64_t)i);
    }
    cr_expect_neq(metrics_series(reg, METRIC_NV_EXEC_COUNT, "model_1", "1"), made[1], "another metric");
    metric_t *split = metrics_series(reg, METRIC_NV_COUNT, "a", "bc");
    cr_expect_neq(metrics_series(reg, METRIC_NV_COUNT, "ab", "c"), split);
    cr_expect_neq(metrics_series(reg, METRIC_NV_COUNT, "", "abc"), split);
    cr_expect_neq(metrics_series(reg, METRIC_NV_COUNT, "a\3bc", ""), split);
    cr_expect_eq(metrics_series(reg, METRIC_NV_COUNT, "a", "bc"), split);
}
