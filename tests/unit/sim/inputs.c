#include "sim/arrivals.h"
#include "sim/net.h"
#include "sim/trace.h"
#include "sim/workload.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void mean_rate(const char *text, double tolerance)
{
    arrivals_spec_t spec;
    arrivals_t arrivals;
    err_t err;
    double at_s = 0;
    enum { COUNT = 200000 };
    cr_assert_eq(arrivals_parse(text, &spec, &err), STATUS_OK, "%s", err.text);
    arrivals_init(&arrivals, &spec, 3, 1);
    for (int i = 0; i < COUNT; i++) {
        double next_s = arrivals_next_s(&arrivals, 500);
        cr_assert_geq(next_s, at_s, "time runs backwards");
        at_s = next_s;
    }
    cr_assert_float_eq(COUNT / at_s, 500, 500 * tolerance, "%s: %.1f/s", text, COUNT / at_s);
}

Test(arrivals, every_kind_has_the_rate_asked_for)
{
    mean_rate("poisson", 0.01);
    mean_rate("uniform", 0.0001);
    mean_rate("uniform:0.5", 0.0001);
    mean_rate("gamma:0.1", 0.03);
    mean_rate("gamma:2", 0.01);
    mean_rate("mmpp:1.8,0.5", 0.05);
}

Test(arrivals, bad_ones_are_errors)
{
    static const char *const bad[] = {"",
                                      "poissonx",
                                      "gamma",
                                      "gamma:0",
                                      "gamma:-1",
                                      "gamma:nan",
                                      "mmpp:1,1",
                                      "mmpp:3,1",
                                      "mmpp:1.5,0",
                                      "mmpp:1.5",
                                      "closed:0,1",
                                      "closed:4",
                                      "closed:4,0",
                                      "uniform:2",
                                      "uniform:-1",
                                      "bursts:0,1,1",
                                      "bursts:2,0,1",
                                      "bursts:2,1",
                                      "bursts:2,9,1,-1",
                                      "bursts:2,9,1,5",
                                      "bursts:2,9,1,nan",
                                      "bursts:2,9,1,1x",
                                      "bursts:2,9,1,"};
    arrivals_spec_t spec;
    err_t err;
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_assert_eq(arrivals_parse(bad[i], &spec, &err), STATUS_INVALID_ARGUMENT, "'%s'", bad[i]);
}

Test(arrivals, bursts_come_at_their_times)
{
    arrivals_spec_t specs[2];
    arrivals_t arrivals;
    err_t err;
    cr_assert_eq(arrivals_parse_each("uniform/bursts:2,10,5", specs, 2, &err), STATUS_OK, "%s", err.text);
    arrivals_init(&arrivals, &specs[1], 1, 1);
    for (int i = 0; i < 6; i++) {
        double at_s = arrivals_next_s(&arrivals, 1);
        cr_assert_float_eq(at_s, 0.005 + 0.01 * (i / 2), 1e-12, "%d at %f", i, at_s);
    }
    cr_assert_eq(arrivals_parse("bursts:3,10,5,2", &specs[0], &err), STATUS_OK, "%s", err.text);
    arrivals_init(&arrivals, &specs[0], 1, 1);
    for (int i = 0; i < 6; i++) {
        double at_s = arrivals_next_s(&arrivals, 1);
        cr_assert_float_eq(at_s, 0.005 + 0.01 * (i / 3) + 0.002 * (i % 3), 1e-12, "%d at %f", i, at_s);
    }
    cr_assert_eq(arrivals_parse_each("uniform", specs, 2, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(arrivals_parse_each("uniform/poisson/poisson", specs, 2, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(arrivals_parse_each("uniform/closed:1,1", specs, 2, &err), STATUS_INVALID_ARGUMENT);
}

static char path[64];

static void write_file(const char *text)
{
    strcpy(path, "/tmp/fermata-net-XXXXXX");
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void net_fails(const char *text, const char *reason)
{
    net_t net;
    err_t err;
    char expected[160];
    write_file(text);
    snprintf(expected, sizeof(expected), "%s:%s", path, reason);
    cr_assert_eq(net_parse(path, &net, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(err.text, expected);
    unlink(path);
}

Test(net, a_file_of_quantiles)
{
    net_t net;
    err_t err;
    write_file("quantile,delay_us\n0,10\n0.5,20\n1,40\n");
    cr_assert_eq(net_parse(path, &net, &err), STATUS_OK, "%s", err.text);
    unlink(path);
    prng_t prng;
    prng_init(&prng, 5);
    int below = 0;
    for (int i = 0; i < 10000; i++) {
        int64_t delay_ns = net_delay_ns(&net, &prng);
        cr_assert(delay_ns >= 10000 && delay_ns <= 40000);
        below += delay_ns <= 20000;
    }
    cr_assert_float_eq(below, 5000, 200);
}

Test(net, errors_name_file_and_line)
{
    net_fails("delay\n", "1: missing column: quantile,delay_us");
    net_fails("quantile,delay_us\n0,1\n0.5,x\n", "3: not quantile,delay_us");
    net_fails("quantile,delay_us\n0,-1\n", "2: value out of range");
    net_fails("quantile,delay_us\n0,5\n1,4\n", "3: rows must rise");
    net_fails("quantile,delay_us\n0,5\n0.5,6\n", "3: rows must go from quantile 0 to 1");
    net_fails("quantile,delay_us\nnan,5\n", "2: value out of range");
}

Test(net, unknown_names_are_errors)
{
    net_t net;
    err_t err;
    cr_assert_eq(net_parse("carrier-pigeon", &net, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(net_parse("fixed:-5", &net, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(net_parse("fixed:100,50", &net, &err), STATUS_OK);
    cr_assert_eq(net.data_ns, 50000);
    cr_assert_eq(net_bound_ns(&net), 100000);
}

Test(workload, popularity)
{
    profile_entry_t models[3] = {0};
    workload_t workload;
    err_t err;
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(profile_from_line(&models[i].profile, 1000000, 1000000, 8, &err), STATUS_OK);
        models[i].slo_ns = 5000000;
        models[i].weight = i;
        snprintf(models[i].name, sizeof(models[i].name), "M%d", i);
    }
    cr_assert_eq(workload_init(&workload, models, 3, NULL, &err), STATUS_OK);
    cr_assert_float_eq(workload.shares[2], 2.0 / 3, 1e-12);
    workload_dispose(&workload);
    cr_assert_eq(workload_init(&workload, models, 3, "zipf:1", &err), STATUS_OK);
    cr_assert_float_eq(workload.shares[0] / workload.shares[2], 3, 1e-9);
    workload_dispose(&workload);
    cr_assert_eq(workload_init(&workload, models, 3, "zipf:-1", &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(workload_init(&workload, models, 3, "fame", &err), STATUS_INVALID_ARGUMENT);
    models[1].slo_ns = 1999999;
    cr_assert_eq(workload_init(&workload, models, 3, NULL, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(err.text, "model M1: SLO below the latency of a batch of one");
    models[1].slo_ns = 0;
    cr_assert_eq(workload_init(&workload, models, 3, NULL, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(err.text, "model M1 has no slo_ms");
}

static void trace_fails(workload_t *workload, const char *text, const char *reason)
{
    rate_step_t *steps = NULL;
    uint32_t count;
    err_t err;
    char expected[160];
    write_file(text);
    snprintf(expected, sizeof(expected), "%s:%s", path, reason);
    cr_assert_eq(trace_read(path, 0, workload, &steps, &count, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(err.text, expected);
    cr_assert_null(steps);
    unlink(path);
}

/* Three functions dealt to two models: the first gets 60 + 60 and 0 + 120 of the minutes, the second 30 and 90. */
Test(trace, minutes_become_steps)
{
    static const char head[] = "HashOwner,HashApp,HashFunction,Trigger,1,2\n";
    char text[256];
    double shares[2] = {0.5, 0.5};
    profile_entry_t models[2] = {{.name = "A"}, {.name = "B"}};
    workload_t workload = {.models = models, .count = 2, .shares = shares};
    rate_step_t *steps;
    uint32_t count;
    err_t err;
    snprintf(text, sizeof(text), "%so,a,f,http,60,60\no,a,g,http,30,90\no,a,h,timer,0,120\n", head);
    write_file(text);
    cr_assert_eq(trace_read(path, 0, &workload, &steps, &count, &err), STATUS_OK, "%s", err.text);
    unlink(path);
    cr_assert_eq(count, 4);
    cr_assert_float_eq(workload.rate_rps, 3, 1e-9, "360 in two minutes");
    cr_assert_float_eq(shares[0], 2.0 / 3, 1e-9);
    cr_assert_float_eq(steps[0].factor, 0.5, 1e-9);
    cr_assert_float_eq(steps[2].factor, 1.5, 1e-9);
    cr_assert_float_eq(steps[3].at_s, 60, 0);
    free(steps);
    trace_fails(&workload, "Owner,1,2\n",
                "1: missing column: HashOwner,HashApp,HashFunction,Trigger,1,2,...");
    trace_fails(&workload, "HashOwner,HashApp,HashFunction,Trigger,1,3\n",
                "1: columns after Trigger are the minutes 1,2,...");
    trace_fails(&workload, head, "1: no rows");
    snprintf(text, sizeof(text), "%so,a,f,http,1\n", head);
    trace_fails(&workload, text, "2: fewer counts than minutes");
    snprintf(text, sizeof(text), "%so,a,f,http,1,2,3\n", head);
    trace_fails(&workload, text, "2: more counts than minutes");
    snprintf(text, sizeof(text), "%so,a,f,http,1,-2\n", head);
    trace_fails(&workload, text, "2: a count is no number, or negative");
    snprintf(text, sizeof(text), "%so,a,f,http,0,0\n", head);
    trace_fails(&workload, text, "2: nothing was ever invoked");
}

Test(trace, a_synthetic_one_can_be_read_and_is_the_same_for_the_same_seed)
{
    double shares[3];
    profile_entry_t models[3] = {{.name = "A"}, {.name = "B"}, {.name = "C"}};
    workload_t workload = {.models = models, .count = 3, .shares = shares};
    rate_step_t *steps[2];
    uint32_t count;
    err_t err;
    for (int i = 0; i < 2; i++) {
        write_file("");
        cr_assert_eq(trace_write_synthetic(path, 40, 120, 9, &err), STATUS_OK, "%s", err.text);
        cr_assert_eq(trace_read(path, 100, &workload, &steps[i], &count, &err), STATUS_OK, "%s", err.text);
        unlink(path);
    }
    cr_assert_eq(count, 360);
    cr_assert_float_eq(workload.rate_rps, 100, 0);
    for (uint32_t i = 0; i < count; i++)
        cr_assert_eq(steps[0][i].factor, steps[1][i].factor);
    free(steps[0]);
    free(steps[1]);
}
