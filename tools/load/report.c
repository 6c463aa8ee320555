#include "load/report.h"

#include "base/clock.h"
#include "base/figures.h"
#include "load/answer.h"
#include "screen/table.h"

#include <stdlib.h>

static const struct {
    const char *name;
    double q;
} quantiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99_9", 0.999}};
enum { QUANTILES = sizeof quantiles / sizeof *quantiles };

static const char *protocol_name(protocol_t protocol)
{
    return protocol == PROTOCOL_REST ? "rest" : "grpc";
}

static double per_second(const report_t *report, uint64_t count)
{
    return (double)count * (double)NS_PER_S / (double)report->window_ns;
}

static double percent_bad(const tally_t *tally)
{
    return tally->offered ? 100.0 * (double)tally_bad(tally) / (double)tally->offered : 0;
}

static double quantile_us(const histogram_t *h, double q)
{
    return (double)histogram_quantile_ns(h, q) / (double)NS_PER_US;
}

/* --- text --- */

static void latency_cell(double ms, table_t *table)
{
    char text[FIGURES_BYTES];
    table_cell(table, "%s", figures_number(ms, text, sizeof text));
}

static void text_row(const report_t *report, const char *name, const tally_t *tally, table_t *table)
{
    table_cell(table, "%s", name);
    table_cell(table, "%.1f", per_second(report, tally->offered));
    table_cell(table, "%.1f", per_second(report, tally_served(tally)));
    table_cell(table, "%.1f", per_second(report, tally->outcomes[OUTCOME_OK]));
    table_cell(table, "%.2f", percent_bad(tally));
    for (int i = 0; i < QUANTILES; i++)
        latency_cell(quantile_us(&tally->latency, quantiles[i].q) / 1e3, table);
    latency_cell(tally->latency.count ? (double)tally->latency.max_ns / (double)NS_PER_MS : 0, table);
    table_cell(table, "%.2f", tally_mean_batch(tally));
    table_end_row(table, "");
}

static void text_table(const report_t *report, const tally_t *total, unsigned room, strbuf_t *out)
{
    static const table_column_t columns[] = {{"model", false}, {"offered/s", true}, {"served/s", true},
                                             {"good/s", true}, {"bad %", true},     {"p50 ms", true},
                                             {"p90", true},    {"p99", true},       {"p99.9", true},
                                             {"max", true},    {"batch", true}};
    table_t table;
    table_init(&table, columns, sizeof columns / sizeof *columns);
    for (uint32_t i = 0; i < report->flow_count; i++)
        text_row(report, report->flows[i].model.name, &report->flows[i].tally, &table);
    if (report->flow_count > 1)
        text_row(report, "all", total, &table);
    table_print(&table, room, out);
    table_dispose(&table);
}

static void text_reasons(const tally_t *tally, strbuf_t *out)
{
    if (tally_bad(tally) == 0)
        return;
    strbuf_puts(out, "bad by reason:");
    for (int i = OUTCOME_OK + 1; i < OUTCOME_COUNT; i++) {
        if (tally->outcomes[i])
            strbuf_printf(out, " %s %llu", outcome_name((outcome_t)i),
                          (unsigned long long)tally->outcomes[i]);
    }
    strbuf_putc(out, '\n');
}

static void text_batches(const tally_t *tally, strbuf_t *out)
{
    bool any = false;
    for (int i = 1; i <= TALLY_BATCH_MAX; i++) {
        if (!tally->batch_sizes[i])
            continue;
        strbuf_printf(out, "%s %d:%llu", any ? "" : "requests by batch size:", i,
                      (unsigned long long)tally->batch_sizes[i]);
        any = true;
    }
    if (any)
        strbuf_putc(out, '\n');
}

static void merge_flows(const report_t *report, tally_t *total)
{
    tally_init(total);
    for (uint32_t i = 0; i < report->flow_count; i++)
        tally_merge(total, &report->flows[i].tally);
}

static void text_mode(const report_t *report, strbuf_t *out)
{
    const load_options_t *o = report->options;
    strbuf_printf(out, "%s, ", protocol_name((protocol_t)o->protocol));
    if (o->concurrency > 0)
        strbuf_printf(out, "closed loop, %lld under way", (long long)o->concurrency);
    else
        strbuf_printf(out, "open loop, %s arrivals", o->arrivals == ARRIVALS_POISSON ? "poisson" : "uniform");
    if (o->deadline_ns > 0)
        strbuf_printf(out, ", deadline %g ms", (double)o->deadline_ns / (double)NS_PER_MS);
    strbuf_printf(out, ", %.2f s counted, seed %lld\n", (double)report->window_ns / (double)NS_PER_S,
                  (long long)o->seed);
}

void report_text(const report_t *report, unsigned room, strbuf_t *out)
{
    static tally_t total; /* 100 KB: too much for a stack frame, and one report is made */
    merge_flows(report, &total);
    text_mode(report, out);
    text_table(report, &total, room, out);
    text_reasons(&total, out);
    text_batches(&total, out);
    if (total.queue.count)
        strbuf_printf(out, "at the server: queue p50 %.3f p99 %.3f ms, compute p50 %.3f p99 %.3f ms\n",
                      quantile_us(&total.queue, 0.5) / 1e3, quantile_us(&total.queue, 0.99) / 1e3,
                      quantile_us(&total.compute, 0.5) / 1e3, quantile_us(&total.compute, 0.99) / 1e3);
    if (report->send_lag->count)
        strbuf_printf(out, "sent late by: p50 %.3f p99 %.3f max %.3f ms (counted as latency)\n",
                      quantile_us(report->send_lag, 0.5) / 1e3, quantile_us(report->send_lag, 0.99) / 1e3,
                      (double)report->send_lag->max_ns / (double)NS_PER_MS);
}

/* --- JSON --- */

static void json_histogram(const char *name, const histogram_t *h, strbuf_t *out)
{
    strbuf_printf(out, "\"%s\":{\"count\":%llu,\"mean\":%.3f", name, (unsigned long long)h->count,
                  h->count ? histogram_mean_ns(h) / (double)NS_PER_US : 0);
    for (int i = 0; i < QUANTILES; i++)
        strbuf_printf(out, ",\"%s\":%.3f", quantiles[i].name, quantile_us(h, quantiles[i].q));
    strbuf_printf(out, ",\"max\":%.3f}", h->count ? (double)h->max_ns / (double)NS_PER_US : 0);
}

static void json_counts(const tally_t *tally, strbuf_t *out)
{
    const char *comma = "";
    strbuf_puts(out, "\"outcomes\":{");
    for (int i = 0; i < OUTCOME_COUNT; i++) {
        if (!tally->outcomes[i])
            continue;
        strbuf_printf(out, "%s\"%s\":%llu", comma, outcome_name((outcome_t)i),
                      (unsigned long long)tally->outcomes[i]);
        comma = ",";
    }
    strbuf_puts(out, "},\"batch_sizes\":{");
    comma = "";
    for (int i = 1; i <= TALLY_BATCH_MAX; i++) {
        if (!tally->batch_sizes[i])
            continue;
        strbuf_printf(out, "%s\"%d\":%llu", comma, i, (unsigned long long)tally->batch_sizes[i]);
        comma = ",";
    }
    strbuf_puts(out, "}");
}

static void json_tally(const report_t *report, const tally_t *tally, strbuf_t *out)
{
    strbuf_printf(out,
                  "\"offered\":%llu,\"offered_per_s\":%.3f,\"served_per_s\":%.3f,\"goodput_per_s\":%.3f,"
                  "\"bad_rate\":%.6f,\"mean_batch\":%.3f,",
                  (unsigned long long)tally->offered, per_second(report, tally->offered),
                  per_second(report, tally_served(tally)), per_second(report, tally->outcomes[OUTCOME_OK]),
                  percent_bad(tally) / 100, tally_mean_batch(tally));
    json_counts(tally, out);
    strbuf_putc(out, ',');
    json_histogram("latency_us", &tally->latency, out);
    strbuf_putc(out, ',');
    json_histogram("queue_us", &tally->queue, out);
    strbuf_putc(out, ',');
    json_histogram("compute_us", &tally->compute, out);
}

void report_json(const report_t *report, strbuf_t *out)
{
    const load_options_t *o = report->options;
    static tally_t total;
    merge_flows(report, &total);
    strbuf_printf(
        out,
        "{\"protocol\":\"%s\",\"loop\":\"%s\",\"arrivals\":\"%s\",\"concurrency\":%lld,\"rows\":%lld,"
        "\"deadline_us\":%lld,\"seed\":%lld,\"window_s\":%.6f,\"models\":[",
        protocol_name((protocol_t)o->protocol), o->concurrency > 0 ? "closed" : "open",
        o->arrivals == ARRIVALS_POISSON ? "poisson" : "uniform", (long long)o->concurrency,
        (long long)o->rows, (long long)(o->deadline_ns / NS_PER_US), (long long)o->seed,
        (double)report->window_ns / (double)NS_PER_S);
    for (uint32_t i = 0; i < report->flow_count; i++) {
        strbuf_puts(out, i ? ",{\"name\":" : "{\"name\":");
        strbuf_json_string(out, report->flows[i].model.name);
        strbuf_putc(out, ',');
        json_tally(report, &report->flows[i].tally, out);
        strbuf_putc(out, '}');
    }
    strbuf_puts(out, "],\"total\":{");
    json_tally(report, &total, out);
    strbuf_puts(out, "},");
    json_histogram("send_lag_us", report->send_lag, out);
    strbuf_puts(out, "}\n");
}

void report_result(protocol_t protocol, const result_t *result, strbuf_t *out)
{
    strbuf_printf(out, "{\"protocol\":\"%s\",\"model\":", protocol_name(protocol));
    strbuf_json_string(out, result->flow->model.name);
    strbuf_puts(out, ",\"request\":");
    strbuf_json_string(out, result->payload->label);
    strbuf_printf(out, ",\"outcome\":\"%s\",\"latency_us\":%.3f", outcome_name(result->outcome),
                  (double)result->latency_ns / (double)NS_PER_US);
    if (result->timing.known)
        strbuf_printf(out, ",\"batch_size\":%u,\"queue_us\":%llu,\"compute_us\":%llu",
                      result->timing.batch_size, (unsigned long long)result->timing.queue_us,
                      (unsigned long long)result->timing.compute_us);
    if (result->outcome != OUTCOME_OK) {
        strbuf_puts(out, ",\"error\":");
        strbuf_json_string(out, result->answer->text ? result->answer->text : "");
    } else {
        strbuf_puts(out, ",\"outputs\":");
        if (answer_outputs(protocol, result->answer->body, result->answer->len_bytes, out, NULL) != STATUS_OK)
            strbuf_puts(out, "null");
    }
    strbuf_puts(out, "}\n");
}
