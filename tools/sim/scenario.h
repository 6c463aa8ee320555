/*
 * Named experiments: a text file per scenario that says which commands to run and what a paper says of them.
 *
 *     title  Symphony Table 2: goodput on 8 GPUs          one line
 *     about  One paragraph of text.                       any number
 *     value  goodput_rate_rps                             which number of the results (job_value)
 *     plot   SLO (ms) | goodput (r/s)                     labels of a figure; without it there is only the table
 *     foreach policy fermata deferred eager               for the rows below, until `clear`
 *     row    {policy} ; ResNet50 ; goodput --models {zoo}/resnet50.csv --gpus 8 --policy {policy}
 *     track  {policy} ; 512 GPUs ; run --steps ...        as row, and what came of it over time is drawn and told
 *     drawn  {policy} ; as asked ; run --seconds 0.03 ...  as row, and what each GPU did is drawn
 *     paper  deferred ; ResNet50 ; 5264                   what the paper says of that series and place
 *     source study                                        whose figures those are, instead of "paper"
 *     note   What came out, and why it differs.           after the table
 *
 * {zoo} is the folder of model files beside the scenarios' folder, {mixes} that of changing rates, {nets} that of measured delays. Errors
 * name file and line.
 */
#ifndef SIM_SCENARIO_H
#define SIM_SCENARIO_H

#include "job.h"

#include <stdio.h>

enum { SCENARIO_TEXT_BYTES = 512, SCENARIO_LABEL_BYTES = 64, SCENARIO_LINES_MAX = 16 };

typedef struct {
    simulation_second_t *seconds;
    uint32_t count, capacity;
    bool wanted, exhausted; /* exhausted: no memory for more */
} scenario_track_t;

typedef struct {
    char series[SCENARIO_LABEL_BYTES], place[SCENARIO_LABEL_BYTES];
    char command[SCENARIO_TEXT_BYTES];
    char *words; /* the command, cut up; the options point into it */
    options_t options;
    unsigned line_number;
    double value;
    scenario_track_t track;
    bool drawn;
    char figure[2 * SCENARIO_LABEL_BYTES]; /* of a drawn row, below the document's folder */
    char figure_path[SCENARIO_TEXT_BYTES];
} scenario_row_t;

typedef struct {
    char series[SCENARIO_LABEL_BYTES], place[SCENARIO_LABEL_BYTES];
    double value;
} scenario_paper_t;

typedef struct {
    char name[SCENARIO_LABEL_BYTES], path[SCENARIO_TEXT_BYTES];
    char title[SCENARIO_TEXT_BYTES], value[SCENARIO_LABEL_BYTES], source[SCENARIO_LABEL_BYTES];
    char x_label[SCENARIO_LABEL_BYTES], y_label[SCENARIO_LABEL_BYTES]; /* "": no figure */
    char about[SCENARIO_LINES_MAX][SCENARIO_TEXT_BYTES], notes[SCENARIO_LINES_MAX][SCENARIO_TEXT_BYTES];
    unsigned about_count, note_count;
    scenario_row_t *rows;
    size_t row_count;
    scenario_paper_t *papers;
    size_t paper_count;
} scenario_t;

/* drawn_below: the folder of the document, where figures of drawn rows go to images/; NULL: they are not drawn. */
status_t scenario_read(scenario_t *scenario, const char *directory, const char *name, const char *drawn_below,
                       err_t *err);
void scenario_dispose(scenario_t *scenario);

/* Runs all rows, on `threads` threads. resume_path (or NULL): a file of results by command; what is there is not run
 * again, what is run is added. Progress goes to stderr when that is a terminal. */
status_t scenario_run(scenario_t *scenario, unsigned threads, const char *resume_path, err_t *err);

/* As Markdown; figure (or NULL) is the path to show. */
void scenario_print(const scenario_t *scenario, const char *figure, FILE *out);

/* Draws the figure as SVG with gnuplot. */
status_t scenario_plot(const scenario_t *scenario, const char *path, err_t *err);

/* Tracks (scenario_track.c). */
bool scenario_has_tracks(const scenario_t *scenario);
/* Give this to simulation_config_t, with the track as ctx. */
void scenario_track_on_second(void *track, const simulation_second_t *second);
void scenario_track_table(const scenario_t *scenario, FILE *out);
/* What gnuplot is to draw. */
void scenario_track_plot(const scenario_t *scenario, const char *path, FILE *out);

#endif
