/* What `fermata profile` found out, as a table, as JSON and as a picture. */
#ifndef FERMATA_PROFILE_REPORT_H
#define FERMATA_PROFILE_REPORT_H

#include "model/measure/profiler.h"

#include <jansson.h>
#include <stdio.h>

typedef struct {
    const char *model, *engine, *device, *hash;
    const char *shape; /* sizes of what varies beside the batch, "16x128"; "" = nothing does */
    const profiler_sample_t *samples;
    uint32_t count;
    const profile_t *profile;
    const profiler_check_t *check; /* NULL: not checked */
    const char *written;           /* path of the profile; NULL: not written */
} profile_report_t;

/* What the fitted line says of a batch, and how far it is from the median, as a share of the median. */
int64_t profile_report_fit_ns(const profile_t *profile, uint32_t batch);
double profile_report_off(const profile_t *profile, const profiler_sample_t *sample);

/* One line for each size, with a bar for its median. */
void profile_report_table(const profile_report_t *report, FILE *out);

/* A header and a line that `profile_csv_read` takes; slo_ns 0: not known, and no column. */
void profile_report_csv(const profile_report_t *report, int64_t slo_ns, FILE *out);

json_t *profile_report_json(const profile_report_t *report);

void profile_report_print(json_t *document); /* to stdout; takes it */

/* Medians, 99th percentiles and the line, as SVG. IO: the file cannot be written. */
status_t profile_report_svg(const profile_report_t *report, const char *path, err_t *err);

/*
 * "1,2,4-8,16" as rising sizes. INVALID_ARGUMENT: something else than sizes within 1..ENGINE_MAX_BATCH, or
 * more than cap of them; the text names the part.
 */
status_t profile_batches_parse(const char *text, uint32_t *sizes, uint32_t cap, uint32_t *count, err_t *err);

#endif
