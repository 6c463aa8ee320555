#include "fermata/profile/report.h"

#include "base/clock.h"
#include "base/figures.h"
#include "screen/screen.h"
#include "screen/table.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BAR_CELLS = 30,
    SVG_WIDTH = 720,
    SVG_HEIGHT = 420,
    SVG_LEFT = 80,
    SVG_TOP = 50,
    SVG_MARGIN = 30,
    TICKS = 8,
    TABLE_MAX_BYTES = 1 << 20
};

static double ms(int64_t ns)
{
    return (double)ns / 1e6;
}

int64_t profile_report_fit_ns(const profile_t *profile, uint32_t batch)
{
    return profile->alpha_ns * (int64_t)batch + profile->beta_ns;
}

double profile_report_off(const profile_t *profile, const profiler_sample_t *sample)
{
    if (sample->median_ns <= 0)
        return 0;
    return (double)(profile_report_fit_ns(profile, sample->batch) - sample->median_ns) /
           (double)sample->median_ns;
}

/* ---- sizes ---- */

static bool parse_size(const char **text, uint32_t *size)
{
    char *end;

    if (**text < '0' || **text > '9')
        return false;
    errno = 0;
    unsigned long value = strtoul(*text, &end, 10);
    if (errno || value < 1 || value > ENGINE_MAX_BATCH)
        return false;
    *text = end;
    *size = (uint32_t)value;
    return true;
}

static status_t bad_part(const char *part, err_t *err)
{
    return err_set(err, STATUS_INVALID_ARGUMENT,
                   "batches: '%.40s' is not a list like 1,2,4-8 of sizes within 1..%d", part,
                   ENGINE_MAX_BATCH);
}

static int compare_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static uint32_t without_doubles(uint32_t *sizes, uint32_t count)
{
    uint32_t kept = 0;

    qsort(sizes, count, sizeof(*sizes), compare_u32);
    for (uint32_t i = 0; i < count; i++) {
        if (kept == 0 || sizes[kept - 1] != sizes[i])
            sizes[kept++] = sizes[i];
    }
    return kept;
}

status_t profile_batches_parse(const char *text, uint32_t *sizes, uint32_t cap, uint32_t *count, err_t *err)
{
    uint32_t found = 0;

    for (;; text++) {
        const char *part = text;
        uint32_t first, last;
        if (!parse_size(&text, &first))
            return bad_part(part, err);
        last = first;
        if (*text == '-' && (text++, !parse_size(&text, &last) || last < first))
            return bad_part(part, err);
        if (last - first >= cap - found)
            return err_set(err, STATUS_INVALID_ARGUMENT, "batches: more than %u sizes", cap);
        while (first <= last)
            sizes[found++] = first++;
        if (*text == '\0')
            break;
        if (*text != ',')
            return bad_part(part, err);
    }
    *count = without_doubles(sizes, found);
    return STATUS_OK;
}

/* ---- CSV ---- */

void profile_report_csv(const profile_report_t *report, int64_t slo_ns, FILE *out)
{
    const profile_t *p = report->profile;

    fprintf(out, "name,alpha_ms,beta_ms,max_batch%s\n", slo_ns > 0 ? ",slo_ms" : "");
    fprintf(out, "%s,%.6f,%.6f,%u", report->model, ms(p->alpha_ns), ms(p->beta_ns), p->max_batch);
    if (slo_ns > 0)
        fprintf(out, ",%.6g", ms(slo_ns));
    fputc('\n', out);
}

/* ---- table ---- */

/* Some room above the longest median: one hiccup of the machine must not press everything to the ground. */
static int64_t scale_ns(const profile_report_t *report)
{
    int64_t longest = 4;

    for (uint32_t i = 0; i < report->count; i++) {
        if (report->samples[i].median_ns > longest)
            longest = report->samples[i].median_ns;
    }
    return longest + longest / 4;
}

/* A bar up to the median, then dashes up to the 99th percentile. */
static void add_bar(const profiler_sample_t *sample, int64_t scale, table_t *table)
{
    double median = BAR_CELLS * (double)sample->median_ns / (double)scale;
    double late = BAR_CELLS * (double)sample->p99_ns / (double)scale;
    char bar[BAR_CELLS + 2];
    int cell = 0;

    for (; cell < BAR_CELLS && cell + 0.5 < late; cell++)
        bar[cell] = cell + 0.5 < median ? '#' : '-';
    if (late > BAR_CELLS + 1)
        bar[cell++] = '>';
    bar[cell] = '\0';
    table_cell(table, "%s", bar);
}

static void add_sample(const profiler_sample_t *s, const profile_t *profile, int64_t scale, table_t *table)
{
    table_cell(table, "%u", s->batch);
    table_cell(table, "%u", s->runs);
    table_cell(table, "%.4f", ms(s->min_ns));
    table_cell(table, "%.4f", ms(s->median_ns));
    table_cell(table, "%.4f", ms(s->p95_ns));
    table_cell(table, "%.4f", ms(s->p99_ns));
    table_cell(table, "%.4f", ms(profile_report_fit_ns(profile, s->batch)));
    table_cell(table, "%+.1f", 100 * profile_report_off(profile, s));
    table_cell(table, "%.1f", s->median_ns > 0 ? s->batch / ((double)s->median_ns / 1e9) : 0.0);
    add_bar(s, scale, table);
    table_end_row(table, "");
}

static void print_samples(const profile_report_t *report, FILE *out)
{
    static const table_column_t columns[] = {
        {"batch", true},  {"runs", true},   {"min ms", true}, {"median ms", true}, {"p95 ms", true},
        {"p99 ms", true}, {"fit ms", true}, {"off %", true},  {"rows/s", true},    {"", false}};
    table_t table;
    strbuf_t text;

    table_init(&table, columns, sizeof columns / sizeof *columns);
    for (uint32_t i = 0; i < report->count; i++)
        add_sample(&report->samples[i], report->profile, scale_ns(report), &table);
    strbuf_init(&text, TABLE_MAX_BYTES);
    table_print(&table, screen_room(out), &text);
    fputs(text.data, out);
    strbuf_dispose(&text);
    table_dispose(&table);
}

static void print_check(const profiler_check_t *check, FILE *out)
{
    fprintf(out,
            "check: %u runs of random sizes; predicted is off by %.1f %% (p50), %.1f %% (p90); "
            "%.1f %% of the runs took over 5 %% longer\n",
            check->runs, 100 * check->off_p50, 100 * check->off_p90, 100 * check->late);
    fprintf(out, "  the machine: runs are off the median of their own size by %.1f %% (p50), %.1f %% (p90)\n",
            100 * check->jitter_p50, 100 * check->jitter_p90);
    fprintf(
        out,
        "  the profile: predicted is off those medians by %.1f %% (p50), %.1f %% (p90), most at batch %u: "
        "%+.1f %%\n",
        100 * check->fit_p50, 100 * check->fit_p90, check->worst_batch, 100 * check->worst);
}

void profile_report_table(const profile_report_t *report, FILE *out)
{
    const profile_t *profile = report->profile;

    fprintf(out, "%s%s%s on %s\n", report->model, report->shape[0] ? " at " : "", report->shape,
            report->device);
    print_samples(report, out);
    fprintf(out, "alpha %.4f ms a row, beta %.4f ms a batch; the line is off by %.1f %% (RMS)\n",
            ms(profile->alpha_ns), ms(profile->beta_ns), 100 * profile->residual);
    fprintf(out, "planned with: %.3f x the median (p95 / median, the median over the sizes)\n",
            profile->spread);
    if (profile->repaired)
        fprintf(out, "some size was faster than a smaller one: it counts as long as that one\n");
    if (report->check)
        print_check(report->check, out);
    if (report->written)
        fprintf(out, "written: %s\n", report->written);
}

/* ---- JSON ---- */

static json_t *sizes_json(const profile_report_t *report)
{
    json_t *sizes = json_array();

    for (uint32_t i = 0; i < report->count; i++) {
        const profiler_sample_t *s = &report->samples[i];
        json_array_append_new(sizes,
                              json_pack("{s:i, s:i, s:f, s:f, s:f, s:f, s:f}", "batch", (int)s->batch, "runs",
                                        (int)s->runs, "min_ms", ms(s->min_ns), "median_ms", ms(s->median_ns),
                                        "p95_ms", ms(s->p95_ns), "p99_ms", ms(s->p99_ns), "fit_ms",
                                        ms(profile_report_fit_ns(report->profile, s->batch))));
    }
    return sizes;
}

static json_t *check_json(const profiler_check_t *check)
{
    return json_pack("{s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:i, s:f, s:f}", "runs", (int)check->runs,
                     "off_p50", check->off_p50, "off_p90", check->off_p90, "jitter_p50", check->jitter_p50,
                     "jitter_p90", check->jitter_p90, "fit_p50", check->fit_p50, "fit_p90", check->fit_p90,
                     "fit_worst_batch", (int)check->worst_batch, "fit_worst", check->worst, "late",
                     check->late);
}

json_t *profile_report_json(const profile_report_t *report)
{
    const profile_t *profile = report->profile;
    json_t *document =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:f, s:f, s:f, s:f, s:b, s:o}", "model", report->model,
                  "shape", report->shape, "engine", report->engine, "device", report->device, "model_hash",
                  report->hash, "max_batch", (int)profile->max_batch, "alpha_ms", ms(profile->alpha_ns),
                  "beta_ms", ms(profile->beta_ns), "residual", profile->residual, "spread", profile->spread,
                  "repaired", (int)profile->repaired, "sizes", sizes_json(report));

    if (report->check)
        json_object_set_new(document, "check", check_json(report->check));
    if (report->written)
        json_object_set_new(document, "profile", json_string(report->written));
    return document;
}

void profile_report_print(json_t *document)
{
    json_dumpf(document, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(document);
}

/* ---- SVG ---- */

typedef struct {
    FILE *out;
    double batch_max, ns_max;
} chart_t;

static double chart_x(const chart_t *chart, double batch)
{
    return SVG_LEFT + batch / chart->batch_max * (SVG_WIDTH - SVG_LEFT - SVG_MARGIN);
}

static double chart_y(const chart_t *chart, double ns)
{
    ns = ns < chart->ns_max ? ns : chart->ns_max;
    return SVG_HEIGHT - SVG_TOP - ns / chart->ns_max * (SVG_HEIGHT - 2 * SVG_TOP);
}

/* A model's name may hold what XML gives a meaning. */
static void put_text(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (strchr("<>&\"", *text))
            fprintf(out, "&#%d;", *text);
        else
            fputc(*text, out);
    }
}

static void chart_axes(const chart_t *chart)
{
    double right = SVG_WIDTH - SVG_MARGIN, bottom = SVG_HEIGHT - SVG_TOP;

    double ns_step = figures_step(chart->ns_max, TICKS);
    double batch_step = fmax(figures_step(chart->batch_max, TICKS), 1);
    char text[FIGURES_BYTES];

    for (double ns = 0; ns <= chart->ns_max; ns += ns_step)
        fprintf(chart->out,
                "<line x1=\"%d\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n"
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                SVG_LEFT, right, chart_y(chart, ns), chart_y(chart, ns), SVG_LEFT - 8, chart_y(chart, ns) + 4,
                figures_number(ns / 1e6, text, sizeof(text)));
    for (double batch = 0; batch <= chart->batch_max; batch += batch_step)
        fprintf(chart->out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.0f</text>\n",
                chart_x(chart, batch), bottom + 18, batch);
    fprintf(chart->out,
            "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">batch</text>\n"
            "<text x=\"16\" y=\"%.1f\" transform=\"rotate(-90 16 %.1f)\" text-anchor=\"middle\">ms</text>\n",
            (SVG_LEFT + right) / 2, bottom + 38, (SVG_TOP + bottom) / 2, (SVG_TOP + bottom) / 2);
}

static void chart_samples(const chart_t *chart, const profile_report_t *report)
{
    for (uint32_t i = 0; i < report->count; i++) {
        const profiler_sample_t *s = &report->samples[i];
        double x = chart_x(chart, s->batch);
        fprintf(chart->out,
                "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#999\"/>\n"
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"#05a\"/>\n",
                x, x, chart_y(chart, (double)s->min_ns), chart_y(chart, (double)s->p99_ns), x,
                chart_y(chart, (double)s->median_ns));
    }
}

static void chart_write(const chart_t *chart, const profile_report_t *report)
{
    const profile_t *profile = report->profile;

    fprintf(
        chart->out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
        "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text x=\"%d\" y=\"22\">",
        SVG_WIDTH, SVG_HEIGHT, SVG_LEFT);
    put_text(chart->out, report->model);
    fputs(" on ", chart->out);
    put_text(chart->out, report->device);
    fprintf(chart->out,
            "</text>\n<text x=\"%d\" y=\"40\">%.4f ms · batch + %.4f ms; points: median, bars: min to p99"
            "</text>\n",
            SVG_LEFT, ms(profile->alpha_ns), ms(profile->beta_ns));
    chart_axes(chart);
    fprintf(chart->out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#c40\"/>\n",
            chart_x(chart, 0), chart_y(chart, (double)profile->beta_ns), chart_x(chart, chart->batch_max),
            chart_y(chart, (double)profile_report_fit_ns(profile, (uint32_t)chart->batch_max)));
    chart_samples(chart, report);
    fputs("</svg>\n", chart->out);
}

status_t profile_report_svg(const profile_report_t *report, const char *path, err_t *err)
{
    uint32_t last = report->samples[report->count - 1].batch;
    int64_t scale = scale_ns(report), line = profile_report_fit_ns(report->profile, last);
    chart_t chart = {
        .out = fopen(path, "we"), .batch_max = last, .ns_max = (double)(scale > line ? scale : line)};

    if (!chart.out)
        return err_set(err, STATUS_IO, "%.200s: %m", path);
    chart_write(&chart, report);
    bool bad = ferror(chart.out) != 0;
    if (fclose(chart.out) != 0 || bad)
        return err_set(err, STATUS_IO, "%.200s: %m", path);
    return STATUS_OK;
}
