/*
 * Runs over time: load, GPUs and losses second by second, as a table of sums and a figure of panels one below
 * the other.
 */
#include "scenario.h"

#include <math.h>
#include <stdlib.h>

enum {
    SECONDS_MAX = 1 << 20,
    POINTS = 200, /* of a line in the figure: each the mean of some seconds */
};

bool scenario_has_tracks(const scenario_t *scenario)
{
    return scenario->row_count && scenario->rows[0].track.wanted;
}

void scenario_track_on_second(void *ctx, const simulation_second_t *second)
{
    scenario_track_t *track = ctx;
    if (track->count == track->capacity) {
        uint32_t capacity = track->capacity ? track->capacity * 2 : 256;
        simulation_second_t *seconds =
            capacity <= SECONDS_MAX ? realloc(track->seconds, capacity * sizeof(*seconds)) : NULL;
        if (!seconds) {
            track->exhausted = true;
            return;
        }
        track->seconds = seconds;
        track->capacity = capacity;
    }
    track->seconds[track->count++] = *second;
}

typedef struct {
    double arrived, bad, gpus, busy; /* gpus, busy: GPU seconds */
    uint32_t most, added, released;
} sums_t;

static sums_t sum(const scenario_track_t *track)
{
    sums_t sums = {0};
    for (uint32_t i = 0; i < track->count; i++) {
        const simulation_second_t *second = &track->seconds[i];
        sums.arrived += (double)second->arrived;
        sums.bad += (double)second->bad;
        sums.gpus += second->gpus;
        sums.busy += second->busy_fraction * second->gpus;
        sums.most = second->gpus > sums.most ? second->gpus : sums.most;
        if (i > 0) {
            uint32_t before = track->seconds[i - 1].gpus;
            sums.added += second->gpus > before ? second->gpus - before : 0;
            sums.released += second->gpus < before ? before - second->gpus : 0;
        }
    }
    return sums;
}

void scenario_track_table(const scenario_t *scenario, FILE *out)
{
    fputs("| run | lost | GPUs in the mean | at most | of them busy | added | released |\n"
          "|---|---|---|---|---|---|---|\n",
          out);
    for (size_t i = 0; i < scenario->row_count; i++) {
        const scenario_row_t *row = &scenario->rows[i];
        sums_t sums = sum(&row->track);
        fprintf(out, "| %s, %s | %.2f %% | %.0f | %u | %.2f | %u | %u |\n", row->series, row->place,
                100 * sums.bad / fmax(sums.arrived, 1), sums.gpus / fmax(row->track.count, 1), sums.most,
                sums.busy / fmax(sums.gpus, 1), sums.added, sums.released);
    }
}

/* The panels, from above. */
typedef struct {
    const char *label;
    double (*value)(const sums_t *sums, double seconds);
} panel_t;

static double offered_rate(const sums_t *sums, double seconds)
{
    return sums->arrived / seconds / 1e3;
}

static double gpus_on(const sums_t *sums, double seconds)
{
    return sums->gpus / seconds;
}

static double gpus_busy(const sums_t *sums, double seconds)
{
    return sums->busy / seconds;
}

static double bad_percent(const sums_t *sums, double seconds)
{
    (void)seconds;
    return 100 * sums->bad / fmax(sums->arrived, 1);
}

static const panel_t panels[] = {{"offered (1,000 r/s)", offered_rate},
                                 {"GPUs that are on", gpus_on},
                                 {"GPUs that are busy", gpus_busy},
                                 {"lost (%)", bad_percent}};
enum { PANELS = sizeof(panels) / sizeof(panels[0]) };

static void write_points(const scenario_track_t *track, const panel_t *panel, FILE *out)
{
    uint32_t step = track->count / POINTS + 1;
    for (uint32_t i = 0; i < track->count; i += step) {
        uint32_t count = i + step <= track->count ? step : track->count - i;
        scenario_track_t part = {.seconds = track->seconds + i, .count = count};
        sums_t sums = sum(&part);
        fprintf(out, "%.9g %.6g\n", part.seconds[count - 1].at_s, panel->value(&sums, count));
    }
    fputs("e\n", out);
}

/* The offered load is that of the first: it is the same for all. */
static void write_panel(const scenario_t *scenario, const panel_t *panel, FILE *out)
{
    size_t lines = panel->value == offered_rate ? 1 : scenario->row_count;
    fprintf(out, "set ylabel '%s'\nplot ", panel->label);
    for (size_t i = 0; i < lines; i++)
        fprintf(out, "%s'-' using 1:2 with lines lt %zu lw 1.5 title '%s, %s'", i ? ", " : "", i + 1,
                scenario->rows[i].series, scenario->rows[i].place);
    fputs("\n", out);
    for (size_t i = 0; i < lines; i++)
        write_points(&scenario->rows[i].track, panel, out);
}

void scenario_track_plot(const scenario_t *scenario, const char *path, FILE *out)
{
    fprintf(out,
            "set terminal svg size 760,900 background 'white'\nset output '%s'\nset grid\nset yrange [0:*]\n"
            "set lmargin 9\nset multiplot layout %d,1\nunset key\n",
            path, PANELS);
    for (int p = 0; p < PANELS; p++) {
        if (p == 1)
            fputs("set key top left\n", out);
        if (p == 2)
            fputs("unset key\n", out);
        if (p == PANELS - 1)
            fprintf(out, "set xlabel '%s'\n", scenario->x_label);
        write_panel(scenario, &panels[p], out);
    }
    fputs("unset multiplot\n", out);
}
