#include "profile/profile_cache.h"

#include "base/file.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FORMAT_VERSION = 2,
    LINE_BYTES = 512,
    FILE_BYTES_MAX = 1 << 20, /* one of all batch sizes has some 10 KB */
    FILE_MODE = 0644,
};

typedef struct {
    const char *path;
    unsigned line_number;
    uint32_t version;
    uint32_t max_batch;
    double spread, noise;
    profile_cache_key_t key;
    profile_point_t points[PROFILE_TABLE_MAX];
    uint32_t count;
    uint32_t measured; /* 0: a file from before that was kept */
    bool ended;
    profile_modes_t modes;
} cache_t;

static bool copy_text(char *into, const char *text)
{
    if (strlen(text) >= PROFILE_CACHE_TEXT_BYTES)
        return false;
    strcpy(into, text);
    return true;
}

static bool parse_batch(cache_t *cache, const char *text)
{
    profile_point_t point;
    int used = 0;
    if (cache->count == PROFILE_TABLE_MAX ||
        sscanf(text, "%" SCNu32 " %" SCNd64 "%n", &point.batch, &point.latency_ns, &used) != 2 ||
        text[used] != '\0')
        return false;
    cache->points[cache->count++] = point;
    return true;
}

/* "4 9 12": rising, of operators behind the first. */
static bool parse_cuts(const char *text, uint32_t *cuts, uint32_t *count)
{
    int used = 0;
    for (*count = 0; *text; text += used) {
        uint32_t op;
        if (*count == PROFILE_CACHE_CUTS_MAX || sscanf(text, "%" SCNu32 "%n", &op, &used) != 1 ||
            op <= (*count ? cuts[*count - 1] : 0))
            return false;
        cuts[(*count)++] = op;
    }
    return *count > 0;
}

static bool parse_wait(const char *text, int64_t *wait_ns)
{
    int used = 0;
    if (strcmp(text, "none") == 0) {
        *wait_ns = PROFILE_CACHE_NO_WAIT;
        return true;
    }
    return sscanf(text, "%" SCNd64 "%n", wait_ns, &used) == 1 && text[used] == '\0' && *wait_ns >= 0;
}

/* A name as programs have it, in room for `size` bytes; which there are is for others to know. */
static bool parse_letters(const char *text, const char *letters, char *word, size_t size)
{
    size_t len = strspn(text, letters);
    if (len == 0 || text[len] != '\0' || len >= size)
        return false;
    memcpy(word, text, len + 1);
    return true;
}

static bool parse_schedule(const char *text, char word[PROFILE_CACHE_WORD_BYTES])
{
    return parse_letters(text, "abcdefghijklmnopqrstuvwxyz_", word, PROFILE_CACHE_WORD_BYTES);
}

/* Also of two as one: "openvino:2+onednn". */
static bool parse_engine(const char *text, char engine[PROFILE_CACHE_ENGINE_BYTES])
{
    return parse_letters(text, "abcdefghijklmnopqrstuvwxyz_0123456789:+", engine, PROFILE_CACHE_ENGINE_BYTES);
}

static bool parse_yes(const char *text, bool *value)
{
    *value = strcmp(text, "yes") == 0;
    return *value || strcmp(text, "no") == 0;
}

static bool parse_uint(const char *text, uint32_t *value)
{
    int used = 0;
    return sscanf(text, "%" SCNu32 "%n", value, &used) == 1 && text[used] == '\0';
}

static bool parse_bytes(const char *text, uint64_t *value)
{
    int used = 0;
    return sscanf(text, "%" SCNu64 "%n", value, &used) == 1 && text[used] == '\0' && *value > 0;
}

/* A profile whose late runs take ten times as long is one of a broken machine. */
static bool parse_spread(const char *text, double *value)
{
    int used = 0;
    return sscanf(text, "%lf%n", value, &used) == 1 && text[used] == '\0' && *value >= 1 && *value <= 10;
}

/* What is nothing but noise is no measurement. */
static bool parse_noise(const char *text, double *value)
{
    int used = 0;
    return sscanf(text, "%lf%n", value, &used) == 1 && text[used] == '\0' && *value >= 0 && *value <= 0.99;
}

static bool parse_line(cache_t *cache, char *line)
{
    char *value = strchr(line, ' ');
    if (!value)
        return false;
    *value++ = '\0';
    if (strcmp(line, "fermata_profile") == 0)
        return parse_uint(value, &cache->version);
    if (strcmp(line, "device") == 0)
        return copy_text(cache->key.device, value);
    if (strcmp(line, "model") == 0)
        return copy_text(cache->key.model_hash, value);
    if (strcmp(line, "date") == 0)
        return copy_text(cache->key.date, value);
    if (strcmp(line, "max_batch") == 0)
        return parse_uint(value, &cache->max_batch);
    if (strcmp(line, "stages") == 0)
        return parse_cuts(value, cache->modes.stages, &cache->modes.stage_count);
    if (strcmp(line, "comp_wait_ns") == 0)
        return parse_wait(value, &cache->modes.comp_wait_ns);
    if (strcmp(line, "schedule") == 0)
        return parse_schedule(value, cache->modes.schedule);
    if (strcmp(line, "engine") == 0)
        return parse_engine(value, cache->modes.engine);
    if (strcmp(line, "loading_bytes") == 0)
        return parse_bytes(value, &cache->modes.loading_bytes);
    if (strcmp(line, "whole_is_faster") == 0)
        return parse_yes(value, &cache->modes.whole_is_faster);
    if (strcmp(line, "exits") == 0)
        return parse_cuts(value, cache->modes.exits, &cache->modes.exit_count);
    if (strcmp(line, "spread") == 0)
        return parse_spread(value, &cache->spread);
    if (strcmp(line, "noise") == 0)
        return parse_noise(value, &cache->noise);
    if (strcmp(line, "measured") == 0)
        return parse_uint(value, &cache->measured);
    if (strcmp(line, "end") == 0)
        return parse_yes(value, &cache->ended);
    return strcmp(line, "batch") == 0 && parse_batch(cache, value);
}

static status_t parse_file(cache_t *cache, FILE *file, err_t *err)
{
    char line[LINE_BYTES];
    while (fgets(line, sizeof(line), file)) {
        cache->line_number++;
        line[strcspn(line, "\r\n")] = '\0';
        if (line[0] == '\0' || line[0] == '#')
            continue;
        if (!parse_line(cache, line))
            return err_set(err, STATUS_INVALID_ARGUMENT, "%s:%u: not a line of a profile", cache->path,
                           cache->line_number);
        if (cache->version != FORMAT_VERSION)
            break;
    }
    if (cache->version != FORMAT_VERSION)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%s:1: not a profile of version %d", cache->path,
                       FORMAT_VERSION);
    if (cache->measured && !cache->ended)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%s:%u: the file has been cut short", cache->path,
                       cache->line_number);
    return STATUS_OK;
}

/* Dates in this form are in order as texts; "unknown" is none. */
static bool is_later(const char *date, const char *than)
{
    return than[0] && date[0] >= '0' && date[0] <= '9' && strcmp(date, than) > 0;
}

static status_t check_key(const char *path, const profile_cache_key_t *found,
                          const profile_cache_key_t *wanted, err_t *err)
{
    if (strcmp(found->device, wanted->device) != 0)
        return err_set(err, STATUS_NOT_FOUND, "%s was measured on '%.60s'", path, found->device);
    if (wanted->model_hash[0] && strcmp(found->model_hash, wanted->model_hash) != 0)
        return err_set(err, STATUS_NOT_FOUND, "%s was measured for another model file", path);
    if (is_later(found->date, wanted->date))
        return err_set(err, STATUS_NOT_FOUND, "%s is from the future: %.60s", path, found->date);
    return STATUS_OK;
}

status_t profile_cache_read(const char *path, const profile_cache_key_t *wanted, profile_t *profile,
                            profile_modes_t *modes, err_t *err)
{
    FILE *file;
    status_t status = file_open_stream(path, FILE_BYTES_MAX, &file, err);
    if (status != STATUS_OK)
        return status;
    cache_t cache = {.path = path, .spread = 1};
    status = parse_file(&cache, file, err);
    fclose(file);
    if (status != STATUS_OK)
        return status;
    if ((status = check_key(path, &cache.key, wanted, err)) != STATUS_OK)
        return status;
    err_t why;
    if (profile_from_points(profile, cache.points, cache.count, cache.max_batch, &why) != STATUS_OK)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%s:%u: %.160s", path, cache.line_number, why.text);
    *modes = cache.modes;
    profile->spread = cache.spread;
    profile->noise = cache.noise;
    if (cache.measured)
        profile->points = cache.measured;
    return STATUS_OK;
}

static bool is_one_line(const char *text)
{
    return text[0] != '\0' && !strpbrk(text, "\r\n");
}

static void write_cuts(FILE *file, const char *word, const uint32_t *cuts, uint32_t count)
{
    if (count)
        fputs(word, file);
    for (uint32_t i = 0; i < count; i++)
        fprintf(file, " %u%s", cuts[i], i + 1 == count ? "\n" : "");
}

static void write_wait(FILE *file, int64_t wait_ns)
{
    if (wait_ns == PROFILE_CACHE_NO_WAIT)
        fputs("comp_wait_ns none\n", file);
    else
        fprintf(file, "comp_wait_ns %" PRId64 "\n", wait_ns);
}

static void write_lines(FILE *file, const profile_cache_key_t *key, const profile_t *profile,
                        const profile_modes_t *modes)
{
    fprintf(file, "fermata_profile %d\ndevice %s\nmodel %s\ndate %s\nmax_batch %u\nspread %.4f\n",
            FORMAT_VERSION, key->device, key->model_hash, key->date[0] ? key->date : "unknown",
            profile->max_batch, profile->spread > 1 ? profile->spread : 1.0);
    if (profile->points)
        fprintf(file, "measured %u\n", profile->points);
    if (profile->noise > 0)
        fprintf(file, "noise %.4f\n", fmin(profile->noise, 0.99));
    uint32_t last = profile->table_len ? profile->table_len : 2; /* two points are a line */
    for (uint32_t b = 1; b <= last; b++)
        fprintf(file, "batch %u %" PRId64 "\n", b, profile_latency_ns(profile, b));
    write_cuts(file, "stages", modes->stages, modes->stage_count);
    if (modes->stage_count)
        write_wait(file, modes->comp_wait_ns);
    if (modes->stage_count)
        fprintf(file, "whole_is_faster %s\n", modes->whole_is_faster ? "yes" : "no");
    if (modes->stage_count && modes->schedule[0])
        fprintf(file, "schedule %s\n", modes->schedule);
    write_cuts(file, "exits", modes->exits, modes->exit_count);
    if (modes->engine[0])
        fprintf(file, "engine %s\n", modes->engine);
    if (modes->loading_bytes)
        fprintf(file, "loading_bytes %" PRIu64 "\n", modes->loading_bytes);
    fputs("end yes\n", file);
}

status_t profile_cache_write(const char *path, const profile_cache_key_t *key, const profile_t *profile,
                             const profile_modes_t *modes, err_t *err)
{
    if (!is_one_line(key->device) || !is_one_line(key->model_hash) || strpbrk(key->date, "\r\n"))
        return err_set(err, STATUS_INVALID_ARGUMENT, "device and model hash of a profile are one line each");
    file_writer_t writer;
    status_t status = file_write_begin(&writer, path, FILE_REPLACE, FILE_MODE, err);
    if (status != STATUS_OK)
        return status;
    write_lines(writer.file, key, profile, modes);
    return file_write_end(&writer, true, err);
}
