#include "model/measure/kept_profile.h"

#include "exec/staged.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void kept_profile_path(const model_t *model, const model_devices_t *devices, const uint32_t *sizes,
                       char path[KEPT_PROFILE_PATH_BYTES])
{
    char text[SHAPES_TEXT_BYTES] = "";

    model_file_path(model, path);
    char *slash = strrchr(path, '/');
    char *name = slash ? slash + 1 : path;
    if (sizes && model->shapes->axes.count)
        shapes_text(&model->shapes->axes, sizes, text);
    snprintf(name, (size_t)(path + KEPT_PROFILE_PATH_BYTES - name), "profile.%s%s%s.txt", devices->ops->name,
             text[0] ? "." : "", text);
}

static void put_date(char date[PROFILE_CACHE_TEXT_BYTES], time_t time)
{
    struct tm tm;

    gmtime_r(&time, &tm);
    strftime(date, PROFILE_CACHE_TEXT_BYTES, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

status_t kept_profile_read(const model_devices_t *devices, const char *path, const char *hash,
                           uint32_t max_batch, profile_t *profile, profile_modes_t *modes, err_t *err)
{
    enum { CLOCKS_APART_S = 24 * 3600 }; /* of the hosts that share a repository */
    profile_cache_key_t wanted = {0};
    profile_modes_t found;
    profile_t kept;

    snprintf(wanted.device, sizeof(wanted.device), "%s", devices->identity);
    snprintf(wanted.model_hash, sizeof(wanted.model_hash), "%s", hash ? hash : "");
    put_date(wanted.date, time(NULL) + CLOCKS_APART_S);
    status_t status = profile_cache_read(path, &wanted, &kept, &found, err);

    if (status != STATUS_OK)
        return status;
    if (found.schedule[0] && !staged_schedule_find(found.schedule))
        return err_set(err, STATUS_INVALID_ARGUMENT, "%.200s: no schedule is named '%s'", path,
                       found.schedule);
    if (max_batch && kept.max_batch != max_batch)
        return err_set(err, STATUS_NOT_FOUND, "%.200s is for batches up to %u", path, kept.max_batch);
    *profile = kept;
    *modes = found;
    return STATUS_OK;
}

status_t kept_profile_write(const model_devices_t *devices, const char *path, const char *hash,
                            const profile_t *profile, const profile_modes_t *modes, err_t *err)
{
    profile_cache_key_t key = {0};

    snprintf(key.device, sizeof(key.device), "%s", devices->identity);
    snprintf(key.model_hash, sizeof(key.model_hash), "%s", hash);
    put_date(key.date, time(NULL));
    return profile_cache_write(path, &key, profile, modes, err);
}

typedef bool (*wanted_fn)(const profile_modes_t *modes);

static status_t hash_of(const model_t *model, char hash[PROFILE_CACHE_TEXT_BYTES], err_t *err)
{
    if (!model->hash[0])
        return model_hash(model, hash, err);
    memcpy(hash, model->hash, sizeof(model->hash));
    return STATUS_OK;
}

/* The files are read for their hash, which takes a while, only where there is something to find. */
static bool has(const model_t *model, const model_devices_t *devices, const char *path, wanted_fn wanted,
                profile_modes_t *modes)
{
    uint32_t max_batch = model->config.max_batch ? model->config.max_batch : ENGINE_DEFAULT_MAX_BATCH;
    char hash[PROFILE_CACHE_TEXT_BYTES];
    profile_t profile;
    err_t ignored; /* it is told when the model is loaded */

    return kept_profile_read(devices, path, NULL, max_batch, &profile, modes, &ignored) == STATUS_OK &&
           wanted(modes) && hash_of(model, hash, &ignored) == STATUS_OK &&
           kept_profile_read(devices, path, hash, max_batch, &profile, modes, &ignored) == STATUS_OK;
}

/* profile.ENGINE.txt or profile.ENGINE.SIZES.txt */
static bool is_of_engine(const char *name, const char *engine)
{
    size_t len = strlen(engine);

    return strncmp(name, "profile.", 8) == 0 && strncmp(name + 8, engine, len) == 0 && name[8 + len] == '.' &&
           strlen(name) > 12 && strcmp(name + strlen(name) - 4, ".txt") == 0;
}

/* Of any of its profiles. */
static bool find(const model_t *model, const model_devices_t *devices, wanted_fn wanted,
                 profile_modes_t *modes)
{
    char path[KEPT_PROFILE_PATH_BYTES];
    struct dirent *entry;
    bool found = false;

    if (!model->dir[0] || devices->emulated) /* which measures nothing and keeps nothing */
        return false;
    model_file_path(model, path);
    char *name = strrchr(path, '/') + 1;
    *name = '\0';
    DIR *folder = opendir(path);
    while (folder && !found && (entry = readdir(folder))) {
        snprintf(name, (size_t)(path + sizeof(path) - name), "%s", entry->d_name);
        found = is_of_engine(entry->d_name, devices->ops->name) && has(model, devices, path, wanted, modes);
    }
    if (folder)
        closedir(folder);
    return found;
}

static bool has_schedule(const profile_modes_t *modes)
{
    return modes->schedule[0] != '\0';
}

static bool has_engine(const profile_modes_t *modes)
{
    return modes->engine[0] != '\0';
}

bool kept_profile_has_schedule(const model_t *model, const model_devices_t *devices)
{
    profile_modes_t modes;

    return find(model, devices, has_schedule, &modes);
}

static bool has_loading(const profile_modes_t *modes)
{
    return modes->loading_bytes > 0;
}

bool kept_profile_tried(const model_t *model, const model_devices_t *devices, uint64_t *loading_bytes)
{
    profile_modes_t modes;

    if (!find(model, devices, has_loading, &modes))
        return false;
    *loading_bytes = modes.loading_bytes;
    return true;
}

void kept_profile_engine(const model_t *model, const model_devices_t *devices,
                         char word[PROFILE_CACHE_ENGINE_BYTES])
{
    profile_modes_t modes;

    if (find(model, devices, has_engine, &modes))
        memcpy(word, modes.engine, sizeof(modes.engine));
}
