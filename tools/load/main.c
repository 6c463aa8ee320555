/* fermata-load: options, metadata, requests, run, report. */
#include "base/clock.h"
#include "base/log.h"
#include "load/progress.h"
#include "load/report.h"
#include "load/runner.h"
#include "loop/signals.h"
#include "screen/screen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A result line holds the outputs of one answer as text. */
enum { REPORT_MAX_BYTES = 16 << 20 };

typedef struct {
    const load_options_t *options;
    protocol_t protocol;
    loop_t *loop;
    loop_signals_t *signals;
    tls_context_t *tls; /* NULL: plain */
    target_t *targets[RUNNER_TARGETS_MAX];
    uint32_t target_count;
    flow_t *flows;
    uint32_t flow_count;
    shapes_t shapes;
    rate_step_t *steps;
    uint32_t step_count;
    runner_t *runner;
    FILE *results;
    strbuf_t line;
    bool interrupted;
} load_t;

static void on_signal(void *arg, int signum)
{
    (void)signum;
    load_t *load = arg;
    load->interrupted = true;
    if (load->runner)
        runner_stop(load->runner);
    else
        loop_stop(load->loop);
}

static void on_run_done(void *arg)
{
    loop_stop(((load_t *)arg)->loop);
}

static void on_result(void *arg, const result_t *result)
{
    load_t *load = arg;
    strbuf_clear(&load->line);
    report_result(load->protocol, result, &load->line);
    if (!load->line.failed)
        fwrite(load->line.data, 1, load->line.len_bytes, load->results);
}

/* --- targets --- */

static const char grpcs[] = "grpcs://", https[] = "https://";

static bool has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* gRPC knows schemes of its own. */
static const char *bare_address(const char *address, protocol_t protocol)
{
    if (has_prefix(address, grpcs))
        return address + sizeof grpcs - 1;
    return protocol == PROTOCOL_GRPC && has_prefix(address, https) ? address + sizeof https - 1 : address;
}

/* With TLS are all of them or none. */
static status_t open_tls(load_t *load, const char *const *addresses, size_t count, err_t *err)
{
    size_t secure = 0;
    for (size_t i = 0; i < count; i++)
        secure += has_prefix(addresses[i], grpcs) || has_prefix(addresses[i], https);
    return tls_client_open(&load->options->tls, NULL, secure > 0, &load->tls, err);
}

static status_t open_targets(load_t *load, err_t *err)
{
    static const char *const defaults[] = {"127.0.0.1:8000", "127.0.0.1:8001"};
    const load_options_t *o = load->options;
    const char *const *addresses = o->addresses.len ? o->addresses.items : &defaults[load->protocol];
    const size_t count = o->addresses.len ? o->addresses.len : 1;

    if (count > RUNNER_TARGETS_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "more than %d addresses", RUNNER_TARGETS_MAX);
    status_t st = open_tls(load, addresses, count, err);
    if (st != STATUS_OK)
        return st;
    for (size_t i = 0; i < count; i++) {
        target_options_t options = {.address = bare_address(addresses[i], load->protocol),
                                    .tls = load->tls,
                                    .api_key = o->api_key,
                                    .connections = (unsigned)o->connections,
                                    .timeout_ns = o->timeout_ns};
        st = target_ops(load->protocol)->create(&load->targets[i], load->loop, &options, err);
        if (st != STATUS_OK)
            return err_prefix(err, "%s", addresses[i]);
        load->target_count++;
    }
    return STATUS_OK;
}

/* --- flows --- */

typedef struct {
    load_t *load;
    flow_t *flow;
    status_t st;
    err_t *err;
} describe_t;

static void on_metadata(void *arg, const answer_t *answer)
{
    describe_t *d = arg;
    if (answer->outcome == OUTCOME_OK)
        d->st =
            target_ops(d->load->protocol)->parse(&d->flow->model, answer->body, answer->len_bytes, d->err);
    else
        d->st = err_set(d->err, STATUS_UNAVAILABLE, "model %s: %s: %s", d->flow->model.name,
                        outcome_name(answer->outcome), answer->text ? answer->text : "no reason given");
    loop_stop(d->load->loop);
}

static status_t describe_flow(load_t *load, flow_t *flow, err_t *err)
{
    describe_t d = {.load = load, .flow = flow, .st = STATUS_CANCELLED, .err = err};
    err_set(err, STATUS_CANCELLED, "interrupted");
    status_t st = target_ops(load->protocol)->describe(load->targets[0], flow->model.name, on_metadata, &d);
    if (st != STATUS_OK)
        return err_set(err, st, "model %s: cannot ask for its metadata", flow->model.name);
    loop_run(load->loop);
    return d.st;
}

static status_t fill_flow(load_t *load, flow_t *flow, uint64_t stream, err_t *err)
{
    const load_options_t *o = load->options;
    payload_options_t options = {.protocol = load->protocol,
                                 .rows = (uint32_t)o->rows,
                                 .timeout_us = flow->deadline_ns / NS_PER_US,
                                 .classes = (uint32_t)o->classes,
                                 .text_output = o->results,
                                 .shapes = load->shapes.count > 0 ? &load->shapes : NULL,
                                 .picture_input = o->picture_input,
                                 .region = o->input_region};
    prng_t prng;
    /* Streams of tensors and of arrivals must not meet. */
    prng_init_stream(&prng, (uint64_t)o->seed, RUNNER_FLOWS_MAX + stream);
    status_t st = shapes_check(&load->shapes, &flow->model, err);
    if (st != STATUS_OK)
        return st;
    if (o->pictures)
        return payloads_add_pictures(&flow->payloads, &flow->model, &options, o->pictures, err);
    return payloads_add_tensors(&flow->payloads, &flow->model, &options, (uint32_t)o->variants, &prng, err);
}

static status_t open_flows(load_t *load, err_t *err)
{
    const load_options_t *o = load->options;
    if (o->models.len > RUNNER_FLOWS_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "more than %d models", RUNNER_FLOWS_MAX);
    for (size_t i = 0; i < o->shapes.len; i++)
        if (shapes_add(&load->shapes, o->shapes.items[i], err) != STATUS_OK)
            return err->code;
    load->flows = calloc(o->models.len, sizeof *load->flows);
    if (!load->flows)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the models");
    for (size_t i = 0; i < o->models.len; i++) {
        flow_t *flow = &load->flows[load->flow_count++];
        tally_init(&flow->tally);
        model_load_t own = {.rate_per_s = o->rate, .deadline_ns = o->deadline_ns};
        status_t st = load_parse_model(o->models.items[i], &own, err);
        memcpy(flow->model.name, own.name, sizeof flow->model.name);
        flow->rate_per_s = own.rate_per_s;
        flow->deadline_ns = own.deadline_ns;
        if (st == STATUS_OK)
            st = describe_flow(load, flow, err);
        if (st == STATUS_OK)
            st = fill_flow(load, flow, i, err);
        if (st != STATUS_OK)
            return st;
        arrivals_init(&flow->arrivals, (arrivals_kind_t)o->arrivals, flow->rate_per_s, (uint64_t)o->seed, i);
    }
    if (o->steps && rate_steps_read(o->steps, load->flows[0].model.name, sizeof load->flows[0],
                                    load->flow_count, &load->steps, &load->step_count, err) != STATUS_OK)
        return err->code;
    return shapes_check_used(&load->shapes, err);
}

/* --- the run --- */

static status_t run_load(load_t *load, err_t *err)
{
    const load_options_t *o = load->options;
    runner_options_t options = {.loop = load->loop,
                                .protocol = load->protocol,
                                .ops = target_ops(load->protocol),
                                .targets = load->targets,
                                .target_count = load->target_count,
                                .flows = load->flows,
                                .flow_count = load->flow_count,
                                .steps = load->steps,
                                .step_count = load->step_count,
                                .concurrency = (uint32_t)o->concurrency,
                                .duration_ns = o->duration_ns,
                                .warmup_ns = o->warmup_ns,
                                .requests_max = (uint64_t)o->requests,
                                .on_result = load->results ? on_result : NULL,
                                .on_done = on_run_done,
                                .arg = load};
    status_t st = runner_create(&load->runner, &options, err);
    if (st != STATUS_OK)
        return st;
    progress_t *progress = NULL;
    if (!o->json)
        st = progress_create(&progress, &options, load->runner, err);
    if (st != STATUS_OK)
        return st;
    runner_start(load->runner);
    loop_run(load->loop);
    progress_destroy(progress);
    return STATUS_OK;
}

static status_t print_report(load_t *load, err_t *err)
{
    report_t report = {.options = load->options,
                       .flows = load->flows,
                       .flow_count = load->flow_count,
                       .window_ns = runner_window_ns(load->runner),
                       .send_lag = runner_send_lag(load->runner)};
    strbuf_t out;
    strbuf_init(&out, REPORT_MAX_BYTES);
    if (load->options->json)
        report_json(&report, &out);
    else
        report_text(&report, screen_room(stdout), &out);
    status_t st = strbuf_status(&out, err);
    if (st == STATUS_OK && (fwrite(out.data, 1, out.len_bytes, stdout) != out.len_bytes || fflush(stdout)) &&
        errno != EPIPE) /* who closed it, as `head` does, has read enough */
        st = err_set(err, STATUS_IO, "cannot write the report: %s", strerror(errno));
    strbuf_dispose(&out);
    return st;
}

static status_t open_results(load_t *load, err_t *err)
{
    if (!load->options->results)
        return STATUS_OK;
    load->results = fopen(load->options->results, "w");
    if (!load->results)
        return err_set(err, STATUS_IO, "cannot write %s: %s", load->options->results, strerror(errno));
    return STATUS_OK;
}

static status_t close_results(load_t *load, status_t st, err_t *err)
{
    if (load->results && fclose(load->results) != 0 && st == STATUS_OK)
        st = err_set(err, STATUS_IO, "cannot write %s: %s", load->options->results, strerror(errno));
    return st;
}

static void load_dispose(load_t *load)
{
    if (load->runner)
        runner_destroy(load->runner);
    for (uint32_t i = 0; i < load->target_count; i++)
        target_ops(load->protocol)->destroy(load->targets[i]);
    for (uint32_t i = 0; i < load->flow_count; i++)
        payloads_dispose(&load->flows[i].payloads);
    free(load->flows);
    free(load->steps);
    shapes_dispose(&load->shapes);
    strbuf_dispose(&load->line);
    if (load->signals)
        loop_signals_destroy(load->signals);
    if (load->loop)
        loop_destroy(load->loop);
    tls_context_destroy(load->tls);
}

static status_t load_main(const load_options_t *options, err_t *err)
{
    load_t load = {.options = options, .protocol = (protocol_t)options->protocol};
    strbuf_init(&load.line, REPORT_MAX_BYTES);
    status_t st = load_options_check(options, err);
    if (st == STATUS_OK)
        st = loop_create(&load.loop, err);
    if (st == STATUS_OK)
        st = loop_signals_create(&load.signals, load.loop, on_signal, &load, err);
    if (st == STATUS_OK)
        st = open_targets(&load, err);
    if (st == STATUS_OK)
        st = open_results(&load, err);
    if (st == STATUS_OK)
        st = open_flows(&load, err);
    if (st == STATUS_OK)
        st = run_load(&load, err);
    if (st == STATUS_OK)
        st = print_report(&load, err);
    st = close_results(&load, st, err);
    load_dispose(&load);
    return st;
}

int main(int argc, char **argv)
{
    load_options_t options;
    config_t *config;
    int exit_code;
    err_t err = {0};
    if (!config_start(&load_schema, argc, argv, &options, &config, &exit_code))
        return exit_code;
    log_init("load", (log_level_t)options.log_level, LOG_FORMAT_TEXT);
    status_t st = load_main(&options, &err);
    exit_code = config_exit(&load_schema, st, &err);
    config_destroy(config);
    return exit_code;
}
