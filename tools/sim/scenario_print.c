#include "scenario.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LOG_SPAN = 100 }; /* numbers that differ more than so many times are drawn on a logarithmic axis */

static const scenario_row_t *find_row(const scenario_t *scenario, const char *series, const char *place)
{
    for (size_t i = 0; i < scenario->row_count; i++) {
        const scenario_row_t *row = &scenario->rows[i];
        if (strcmp(row->series, series) == 0 && strcmp(row->place, place) == 0)
            return row;
    }
    return NULL;
}

static const scenario_paper_t *find_paper(const scenario_t *scenario, const char *series, const char *place)
{
    for (size_t i = 0; i < scenario->paper_count; i++) {
        const scenario_paper_t *paper = &scenario->papers[i];
        if (strcmp(paper->series, series) == 0 && strcmp(paper->place, place) == 0)
            return paper;
    }
    return NULL;
}

static bool is_first_of_series(const scenario_t *scenario, size_t i)
{
    for (size_t j = 0; j < i; j++) {
        if (strcmp(scenario->rows[j].series, scenario->rows[i].series) == 0)
            return false;
    }
    return true;
}

static bool is_first_of_place(const scenario_t *scenario, size_t i)
{
    for (size_t j = 0; j < i; j++) {
        if (strcmp(scenario->rows[j].place, scenario->rows[i].place) == 0)
            return false;
    }
    return true;
}

static void print_value(double value, FILE *out)
{
    if (fabs(value) >= 100)
        fprintf(out, "%.0f", value);
    else
        fprintf(out, "%.3g", value);
}

static void print_cell(const scenario_t *scenario, const char *series, const char *place, FILE *out)
{
    const scenario_row_t *row = find_row(scenario, series, place);
    const scenario_paper_t *paper = find_paper(scenario, series, place);
    fputs(" ", out);
    if (row)
        print_value(row->value, out);
    if (paper) {
        fprintf(out, " (%s: ", scenario->source[0] ? scenario->source : "paper");
        print_value(paper->value, out);
        fputs(")", out);
    }
    fputs(" |", out);
}

static void print_mean(const scenario_t *scenario, const char *series, FILE *out)
{
    double sum = 0;
    unsigned count = 0;
    for (size_t i = 0; i < scenario->row_count; i++) {
        if (strcmp(scenario->rows[i].series, series) != 0)
            continue;
        sum += scenario->rows[i].value;
        count++;
    }
    fprintf(out, " %.3f |", sum / count);
}

static void print_table(const scenario_t *scenario, FILE *out)
{
    fprintf(out, "| %s |", scenario->x_label[0] ? scenario->x_label : "workload");
    for (size_t i = 0; i < scenario->row_count; i++) {
        if (is_first_of_series(scenario, i))
            fprintf(out, " %s |", scenario->rows[i].series);
    }
    fputs("\n|---|", out);
    for (size_t i = 0; i < scenario->row_count; i++) {
        if (is_first_of_series(scenario, i))
            fputs("---|", out);
    }
    for (size_t i = 0; i < scenario->row_count; i++) {
        if (!is_first_of_place(scenario, i))
            continue;
        fprintf(out, "\n| %s |", scenario->rows[i].place);
        for (size_t j = 0; j < scenario->row_count; j++) {
            if (is_first_of_series(scenario, j))
                print_cell(scenario, scenario->rows[j].series, scenario->rows[i].place, out);
        }
    }
    if (strcmp(scenario->value, "ratio") == 0) {
        fputs("\n| **mean** |", out);
        for (size_t j = 0; j < scenario->row_count; j++) {
            if (is_first_of_series(scenario, j))
                print_mean(scenario, scenario->rows[j].series, out);
        }
    }
    fputs("\n", out);
}

void scenario_print(const scenario_t *scenario, const char *figure, FILE *out)
{
    fprintf(out, "## %s\n\n", scenario->title);
    for (unsigned i = 0; i < scenario->about_count; i++)
        fprintf(out, "%s\n\n", scenario->about[i]);
    fprintf(out, "`%s` (scenario `%s`):\n\n", scenario->value, scenario->name);
    if (scenario_has_tracks(scenario))
        scenario_track_table(scenario, out);
    else
        print_table(scenario, out);
    if (figure)
        fprintf(out, "\n![%s](%s)\n", scenario->title, figure);
    for (size_t i = 0; i < scenario->row_count; i++) {
        const scenario_row_t *row = &scenario->rows[i];
        if (row->figure[0])
            fprintf(out, "\n%s, %s:\n\n![%s, %s](%s)\n", row->series, row->place, row->series, row->place,
                    row->figure);
    }
    for (unsigned i = 0; i < scenario->note_count; i++)
        fprintf(out, "\n%s\n", scenario->notes[i]);
    fputs("\n", out);
}

typedef enum { AXIS_NAMES, AXIS_LINEAR, AXIS_LOG } axis_t;

/* What the places are: names, numbers, or numbers that span more than LOG_SPAN times. */
static axis_t find_axis(const scenario_t *scenario)
{
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < scenario->row_count; i++) {
        char *end;
        double place = strtod(scenario->rows[i].place, &end);
        if (end == scenario->rows[i].place || *end != '\0')
            return AXIS_NAMES;
        least = fmin(least, place);
        most = fmax(most, place);
    }
    return least > 0 && most > LOG_SPAN * least ? AXIS_LOG : AXIS_LINEAR;
}

/* One block of inline data per series. */
static void write_plot(const scenario_t *scenario, const char *path, FILE *out)
{
    axis_t axis = find_axis(scenario);
    bool numeric = axis != AXIS_NAMES;
    fprintf(out,
            "set terminal svg size 720,420 background 'white'\nset output '%s'\nset key outside right\n"
            "set xlabel '%s'\nset ylabel '%s'\nset grid\nset yrange [0:*]\n",
            path, scenario->x_label, scenario->y_label);
    if (!numeric)
        fputs("set style data histograms\nset style fill solid 0.7\nset xtics rotate by 20 right\n", out);
    if (axis == AXIS_LOG)
        fputs("set logscale x\nset autoscale xfix\n", out);
    fputs("plot ", out);
    bool first = true;
    for (size_t i = 0; i < scenario->row_count; i++) {
        if (!is_first_of_series(scenario, i))
            continue;
        fprintf(out, "%s'-' using %s title '%s'%s", first ? "" : ", ", numeric ? "1:2" : "2:xtic(1)",
                scenario->rows[i].series, numeric ? " with linespoints" : "");
        first = false;
    }
    fputs("\n", out);
    for (size_t i = 0; i < scenario->row_count; i++) {
        if (!is_first_of_series(scenario, i))
            continue;
        for (size_t j = 0; j < scenario->row_count; j++) {
            if (strcmp(scenario->rows[j].series, scenario->rows[i].series) == 0)
                fprintf(out, numeric ? "%s %.9g\n" : "\"%s\" %.9g\n", scenario->rows[j].place,
                        scenario->rows[j].value);
        }
        fputs("e\n", out);
    }
}

status_t scenario_plot(const scenario_t *scenario, const char *path, err_t *err)
{
    FILE *out = popen("gnuplot", "we");
    if (!out)
        return err_set(err, STATUS_IO, "gnuplot: %s", strerror(errno));
    if (scenario_has_tracks(scenario))
        scenario_track_plot(scenario, path, out);
    else
        write_plot(scenario, path, out);
    if (pclose(out) != 0)
        return err_set(err, STATUS_IO, "gnuplot failed on %s", path);
    return STATUS_OK;
}
