#include "sim/trace.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MINUTES_MAX = 1440 * 14, /* the whole of the public trace */
    LINE_BYTES = 1 << 18,    /* 20,160 counts of up to a dozen digits */
    HEAD_FIELDS = 4,
};

typedef struct {
    const char *path;
    unsigned line_number;
    uint32_t models, minutes, rows;
    double *counts; /* minute · models + model */
    char *line;
    err_t *err;
} reader_t;

static status_t fail(const reader_t *reader, const char *what)
{
    return err_set(reader->err, STATUS_INVALID_ARGUMENT, "%s:%u: %s", reader->path, reader->line_number,
                   what);
}

static bool next_line(reader_t *reader, FILE *file)
{
    if (!fgets(reader->line, LINE_BYTES, file))
        return false;
    reader->line_number++;
    reader->line[strcspn(reader->line, "\r\n")] = '\0';
    return true;
}

static status_t read_header(reader_t *reader, FILE *file)
{
    static const char head[] = "HashOwner,HashApp,HashFunction,Trigger,";
    if (!next_line(reader, file) || strncmp(reader->line, head, strlen(head)) != 0)
        return fail(reader, "missing column: HashOwner,HashApp,HashFunction,Trigger,1,2,...");
    char *rest = reader->line + strlen(head);
    for (char *field; (field = strsep(&rest, ","));) {
        if (strtoul(field, NULL, 10) != ++reader->minutes || reader->minutes > MINUTES_MAX)
            return fail(reader, "columns after Trigger are the minutes 1,2,...");
    }
    reader->counts = calloc((size_t)reader->minutes * reader->models, sizeof(*reader->counts));
    if (!reader->counts)
        return err_set(reader->err, STATUS_NO_MEMORY, "%s: no memory for %u minutes", reader->path,
                       reader->minutes);
    return STATUS_OK;
}

static status_t add_row(reader_t *reader)
{
    uint32_t model = reader->rows++ % reader->models, minute = 0;
    char *rest = reader->line;
    for (int i = 0; i < HEAD_FIELDS; i++)
        strsep(&rest, ",");
    for (char *field; (field = strsep(&rest, ",")); minute++) {
        char *end;
        double value = strtod(field, &end);
        if (minute == reader->minutes)
            return fail(reader, "more counts than minutes");
        if (end == field || *end != '\0' || !(value >= 0 && value <= 1e12))
            return fail(reader, "a count is no number, or negative");
        reader->counts[(size_t)minute * reader->models + model] += value;
    }
    return minute == reader->minutes ? STATUS_OK : fail(reader, "fewer counts than minutes");
}

static status_t read_rows(reader_t *reader, FILE *file)
{
    status_t status = read_header(reader, file);
    while (status == STATUS_OK && next_line(reader, file)) {
        if (reader->line[0] != '\0')
            status = add_row(reader);
    }
    if (status == STATUS_OK && reader->rows == 0)
        return fail(reader, "no rows");
    return status;
}

/* Shares are those of the whole trace; a step says how far a minute is from the mean. */
static status_t make_steps(const reader_t *reader, double rate_rps, workload_t *workload, rate_step_t **steps,
                           uint32_t *count)
{
    double total = 0;
    rate_step_t *made = calloc((size_t)reader->minutes * reader->models, sizeof(*made));
    if (!made)
        return err_set(reader->err, STATUS_NO_MEMORY, "%s: no memory for its steps", reader->path);
    for (uint32_t m = 0; m < reader->models; m++) {
        double sum = 0;
        for (uint32_t t = 0; t < reader->minutes; t++)
            sum += reader->counts[(size_t)t * reader->models + m];
        workload->shares[m] = sum;
        total += sum;
        for (uint32_t t = 0; t < reader->minutes; t++) {
            size_t i = (size_t)t * reader->models + m;
            double mean = sum / reader->minutes;
            made[i] = (rate_step_t){
                .at_s = 60.0 * t, .model = m, .factor = mean > 0 ? reader->counts[i] / mean : 0};
        }
    }
    if (!(total > 0)) {
        free(made);
        return fail(reader, "nothing was ever invoked");
    }
    for (uint32_t m = 0; m < reader->models; m++)
        workload->shares[m] /= total;
    workload->rate_rps = rate_rps > 0 ? rate_rps : total / reader->minutes / 60;
    *steps = made;
    *count = reader->minutes * reader->models;
    return STATUS_OK;
}

status_t trace_read(const char *path, double rate_rps, workload_t *workload, rate_step_t **steps,
                    uint32_t *count, err_t *err)
{
    reader_t reader = {.path = path, .models = workload->count, .line = malloc(LINE_BYTES), .err = err};
    FILE *file = fopen(path, "re");
    status_t status = STATUS_OK;
    if (!file)
        status =
            err_set(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "%s: %s", path, strerror(errno));
    else if (!reader.line)
        status = err_set(err, STATUS_NO_MEMORY, "%s: no memory for a line", path);
    if (status == STATUS_OK)
        status = read_rows(&reader, file);
    if (status == STATUS_OK)
        status = make_steps(&reader, rate_rps, workload, steps, count);
    if (file)
        fclose(file);
    free(reader.line);
    free(reader.counts);
    return status;
}

/* The kinds of load that the public trace mixes. */
typedef struct {
    double mean; /* invocations per minute */
    double wave, phase;
    bool bursty, on;
} function_t;

static function_t make_function(prng_t *prng)
{
    function_t function = {.mean = exp(prng_normal(prng, 0, 2)), .phase = 2 * M_PI * prng_uniform(prng)};
    if (prng_uniform(prng) < 0.5)
        function.wave = 0.3 + 0.6 * prng_uniform(prng);
    function.bursty = prng_uniform(prng) < 1.0 / 3;
    return function;
}

/* Counts of a minute: exact for small means, the normal approximation for large ones. */
static uint64_t poisson(prng_t *prng, double mean)
{
    if (mean > 100)
        return (uint64_t)fmax(0, round(prng_normal(prng, mean, sqrt(mean))));
    uint64_t count = 0;
    for (double at = prng_exponential(prng, 1); at < mean; at += prng_exponential(prng, 1))
        count++;
    return count;
}

/* A burst lasts 5 minutes in the mean, a silence 45: ten times the mean rate, a tenth of the time. */
static uint64_t next_count(function_t *function, uint32_t minute, prng_t *prng)
{
    double rate = function->mean * (1 + function->wave * sin(2 * M_PI * minute / 1440 + function->phase));
    if (function->bursty) {
        function->on = prng_uniform(prng) < (function->on ? 0.8 : 1.0 / 45);
        rate *= function->on ? 10 : 0.02;
    }
    return poisson(prng, rate);
}

status_t trace_write_synthetic(const char *path, uint32_t functions, uint32_t minutes, uint64_t seed,
                               err_t *err)
{
    FILE *out = fopen(path, "we");
    if (!out)
        return err_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    fputs("HashOwner,HashApp,HashFunction,Trigger", out);
    for (uint32_t t = 1; t <= minutes; t++)
        fprintf(out, ",%u", t);
    fputc('\n', out);
    for (uint32_t f = 0; f < functions; f++) {
        prng_t prng;
        prng_init_stream(&prng, seed, f);
        function_t function = make_function(&prng);
        fprintf(out, "o%u,a%u,f%u,synthetic", f, f, f);
        for (uint32_t t = 0; t < minutes; t++)
            fprintf(out, ",%llu", (unsigned long long)next_count(&function, t, &prng));
        fputc('\n', out);
    }
    if (fclose(out) != 0)
        return err_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    return STATUS_OK;
}
