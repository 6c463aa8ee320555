#include "model/repository.h"

#include "base/hash.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A name goes into URLs, metrics and logs. */
static bool name_is_good(const char *name)
{
    if (!isalnum((unsigned char)name[0]) || strlen(name) >= MODEL_NAME_BYTES)
        return false;
    for (; *name; name++) {
        if (!isalnum((unsigned char)*name) && !strchr("._-", *name))
            return false;
    }
    return true;
}

/* ---- versions ---- */

/* A folder's number, without zeros ahead. 0: it is none. */
static int64_t number_of(const char *name)
{
    char *end;

    if (!isdigit((unsigned char)name[0]) || name[0] == '0')
        return 0;
    errno = 0;
    long long version = strtoll(name, &end, 10);
    return *end || errno || version <= 0 ? 0 : version;
}

/* A version is a folder named by a number that has the model's file. 0: it is none. */
static int64_t version_of(const char *model_dir, const char *name, const char *file)
{
    char path[PATH_MAX + 600];
    int64_t version = number_of(name);
    struct stat info;

    snprintf(path, sizeof(path), "%s/%s/%s", model_dir, name, file);
    return version && stat(path, &info) == 0 && S_ISREG(info.st_mode) ? version : 0;
}

/* The versions to serve, highest first. */
typedef struct {
    int64_t list[MODEL_VERSIONS_MAX];
    uint32_t count;
} versions_t;

/* Keeps the highest `most`. */
static void versions_insert(versions_t *versions, uint32_t most, int64_t version)
{
    uint32_t at = versions->count < most ? versions->count++ : most;

    for (; at > 0 && versions->list[at - 1] < version; at--) {
        if (at < most)
            versions->list[at] = versions->list[at - 1];
    }
    if (at < most)
        versions->list[at] = version;
}

static bool is_listed(const version_policy_t *policy, int64_t version)
{
    for (uint32_t i = 0; i < policy->count; i++) {
        if (policy->list[i] == version)
            return true;
    }
    return false;
}

static status_t check_listed(const version_policy_t *policy, const versions_t *found, err_t *err)
{
    for (uint32_t i = 0; i < policy->count; i++) {
        bool here = false;
        for (uint32_t k = 0; k < found->count; k++)
            here |= found->list[k] == policy->list[i];
        if (!here)
            return err_set(err, STATUS_NOT_FOUND, "version %lld is not there", (long long)policy->list[i]);
    }
    return STATUS_OK;
}

static bool is_folder(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* A link to nothing, or to itself: whoever made it wanted a model there. errno says why. */
static bool is_broken_link(const char *path)
{
    struct stat info;
    if (stat(path, &info) == 0)
        return false;
    int why = errno;
    bool is_link = lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
    errno = why;
    return is_link;
}

/* What a folder of that name says about the lack of versions; NULL: nothing. */
static const char *why_no_version(const char *model_dir, const char *name, const char *file)
{
    char path[PATH_MAX + 600];

    snprintf(path, sizeof(path), "%s/%s", model_dir, name);
    if (name[0] == '.' || !is_folder(path))
        return NULL;
    if (!number_of(name))
        return "is no number from 1, without zeros ahead";
    snprintf(path, sizeof(path), "%s/%s/%s", model_dir, name, file);
    return is_folder(path) ? "has a folder of the file's name" : "has no such file";
}

/* "no version folder with a model.onnx; the folder 'v1' is no number …" */
static status_t no_version(const char *model_dir, const char *file, err_t *err)
{
    DIR *dir = opendir(model_dir);
    char found[256] = "";
    struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        const char *why = why_no_version(model_dir, entry->d_name, file);
        if (why && (!found[0] || number_of(entry->d_name))) /* a number tells more than any other name */
            snprintf(found, sizeof(found), "; the folder '%.80s' %s", entry->d_name, why);
    }
    if (dir)
        closedir(dir);
    return err_set(err, STATUS_NOT_FOUND, "no version folder with a %.100s%s", file, found);
}

static status_t choose_versions(const char *model_dir, const version_policy_t *policy, const char *file,
                                versions_t *versions, err_t *err)
{
    DIR *dir = opendir(model_dir);
    uint32_t most = policy->kind == VERSIONS_LATEST ? policy->count : MODEL_VERSIONS_MAX;
    struct dirent *entry;

    if (!dir)
        return err_set(err, STATUS_IO, "%.200s: %m", model_dir);
    versions->count = 0;
    while ((entry = readdir(dir))) {
        int64_t found = version_of(model_dir, entry->d_name, file);
        if (found && (policy->kind != VERSIONS_SPECIFIC || is_listed(policy, found)))
            versions_insert(versions, most, found);
    }
    closedir(dir);
    if (policy->kind == VERSIONS_SPECIFIC)
        return check_listed(policy, versions, err);
    return versions->count ? STATUS_OK : no_version(model_dir, file, err);
}

/* ---- fingerprints ---- */

/* Of the files in a folder: names, sizes and times, in whatever order they are listed. */
static uint64_t mix_folder(const char *path)
{
    DIR *dir = opendir(path);
    char file[PATH_MAX + 300];
    struct dirent *entry;
    struct stat info;
    uint64_t sum = 0;

    while (dir && (entry = readdir(dir))) {
        snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);
        if (!model_is_part(entry->d_name) || stat(file, &info) != 0 || !S_ISREG(info.st_mode))
            continue;
        uint64_t hash = hash_bytes(HASH_BEGIN, entry->d_name, strlen(entry->d_name));
        hash = hash_bytes(hash, &info.st_size, sizeof(info.st_size));
        sum += hash_bytes(hash, &info.st_mtim, sizeof(info.st_mtim));
    }
    if (dir)
        closedir(dir);
    return sum;
}

static uint64_t fingerprint_of(const model_t *model)
{
    char path[PATH_MAX + 300];

    snprintf(path, sizeof(path), "%s/%lld", model->dir, (long long)model->version);
    return mix_folder(model->dir) * 31 + mix_folder(path);
}

/* ---- one model ---- */

static status_t make_version(const char *dir, const char *name, int64_t version, model_t **out, err_t *err)
{
    model_t *model;
    status_t status = model_create(name, version, dir, &model, err);

    if (status != STATUS_OK)
        return status;
    model->fingerprint =
        fingerprint_of(model); /* before its files are read: what changes from here on is news */
    status = model_config_read(dir, &model->config, err);
    if (status != STATUS_OK) {
        model_destroy(model, NULL);
        return status;
    }
    *out = model;
    return STATUS_OK;
}

/* Triton insists on it, so that a folder that was copied and forgotten is found. */
static status_t check_name(const char *dir, const char *name, const triton_config_t *triton, err_t *err)
{
    if (!triton || !triton->name[0] || strcmp(triton->name, name) == 0)
        return STATUS_OK;
    return err_set(err, STATUS_INVALID_ARGUMENT,
                   "%.160s/config.pbtxt:%d: the name '%.100s' is not that of its folder, '%.100s'", dir,
                   triton->name_line, triton->name, name);
}

static status_t wanted_versions(const char *dir, const char *name, int64_t version, versions_t *versions,
                                err_t *err)
{
    version_policy_t one = {.kind = VERSIONS_SPECIFIC, .count = 1, .list = {version}};
    model_config_t config;
    status_t status = model_config_read(dir, &config, err);

    if (status != STATUS_OK)
        return status;
    status = check_name(dir, name, config.triton, err);
    if (status == STATUS_OK)
        status = choose_versions(dir, version ? &one : &config.versions, model_config_file(&config), versions,
                                 err);
    model_config_dispose(&config);
    return status;
}

static status_t read_folder(const char *dir, const char *name, int64_t version, repository_reading_t *reading)
{
    versions_t versions;
    err_t *err = &reading->err;

    if (!name_is_good(name))
        return err_set(err, STATUS_INVALID_ARGUMENT, "a model's name is letters, digits, '.', '_' and '-'");
    status_t status = wanted_versions(dir, name, version, &versions, err);
    for (uint32_t i = 0; status == STATUS_OK && i < versions.count; i++) {
        status = make_version(dir, name, versions.list[i], &reading->versions[reading->count], err);
        reading->count += status == STATUS_OK;
    }
    return status;
}

static const profile_entry_t *find_entry(const repository_source_t *source, const char *name)
{
    for (uint32_t i = 0; i < source->entry_count; i++) {
        if (strcmp(source->entries[i].name, name) == 0)
            return &source->entries[i];
    }
    return NULL;
}

/* An entry without a folder is a model of its own. */
static status_t read_bare(const repository_source_t *source, const profile_entry_t *entry, int64_t version,
                          repository_reading_t *reading)
{
    err_t *err = &reading->err;

    if (version > 1)
        return err_set(err, STATUS_NOT_FOUND, "version %lld is not there", (long long)version);
    if (model_create(entry->name, 1, "", &reading->versions[0], err) != STATUS_OK)
        return err->code;
    reading->count = 1;
    reading->versions[0]->bare = true;
    reading->versions[0]->emulated_elements = source->elements;
    return STATUS_OK;
}

static void give_profile(const repository_source_t *source, const profile_entry_t *entry, model_t *model)
{
    uint32_t own = entry->profile.max_batch;

    model->profile = entry->profile;
    model->profile.max_batch = own < source->max_batch ? own : source->max_batch;
    if (model->bare)
        model->config.max_batch = model->profile.max_batch;
    if (model->config.slo_ns == 0)
        model->config.slo_ns = entry->slo_ns;
}

static status_t read_either(const repository_source_t *source, const char *name, int64_t version,
                            const profile_entry_t *entry, repository_reading_t *reading)
{
    char dir[PATH_MAX];
    err_t *err = &reading->err;

    if (!name[0] || name[0] == '.' || strchr(name, '/'))
        return err_set(err, STATUS_INVALID_ARGUMENT, "a model's name is letters, digits, '.', '_' and '-'");
    if (snprintf(dir, sizeof(dir), "%s/%s", source->root, name) >= (int)sizeof(dir))
        return err_set(err, STATUS_INVALID_ARGUMENT, "path too long below %.100s", source->root);
    if (source->root[0] && is_folder(dir))
        return read_folder(dir, name, version, reading);
    if (source->root[0] && is_broken_link(dir))
        return err_set(err, STATUS_NOT_FOUND, "%.200s is a link that leads nowhere: %m", dir);
    if (entry)
        return read_bare(source, entry, version, reading);
    return err_set(err, STATUS_NOT_FOUND, "there is no model '%.100s' in the repository", name);
}

void repository_read(const repository_source_t *source, const char *name, int64_t version,
                     repository_reading_t *reading)
{
    const profile_entry_t *entry = find_entry(source, name);

    *reading = (repository_reading_t){0};
    snprintf(reading->name, sizeof(reading->name), "%s", name);
    reading->status = read_either(source, name, version, entry, reading);
    for (uint32_t i = 0; i < reading->count && entry; i++)
        give_profile(source, entry, reading->versions[i]);
    if (reading->status != STATUS_OK)
        repository_reading_dispose(reading);
}

void repository_reading_dispose(repository_reading_t *reading)
{
    for (uint32_t i = 0; i < reading->count; i++) {
        if (reading->versions[i])
            model_destroy(reading->versions[i], NULL);
    }
    reading->count = 0;
}

static status_t open_file(const char *path, model_t **out, err_t *err)
{
    model_t *model;
    const char *slash = strrchr(path, '/');
    status_t status = model_create(slash ? slash + 1 : path, 1, "", &model, err);

    if (status != STATUS_OK)
        return status;
    if (snprintf(model->file, sizeof(model->file), "%s", path) >= (int)sizeof(model->file)) {
        model_destroy(model, NULL);
        return err_set(err, STATUS_INVALID_ARGUMENT, "path too long");
    }
    *out = model;
    return STATUS_OK;
}

status_t repository_open_model(const char *path, model_t **out, err_t *err)
{
    char dir[PATH_MAX];
    struct stat info;
    repository_reading_t reading = {0};

    if (stat(path, &info) != 0)
        return err_set(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "%.200s: %m", path);
    if (S_ISREG(info.st_mode))
        return open_file(path, out, err);
    if (!S_ISDIR(info.st_mode))
        return err_set(err, STATUS_INVALID_ARGUMENT, "%.200s: neither a model file nor a folder", path);
    if (!realpath(path, dir)) /* "." has a name too */
        return err_set(err, STATUS_IO, "%.200s: %m", path);
    status_t status = read_folder(dir, strrchr(dir, '/') + 1, 0, &reading);
    if (status == STATUS_OK) {
        *out = reading.versions[0]; /* the highest */
        reading.versions[0] = NULL;
    } else if (err) {
        *err = reading.err;
        err_prefix(err, "%.200s", path);
    }
    repository_reading_dispose(&reading);
    return status;
}

/* ---- all models ---- */

typedef struct {
    const repository_source_t *source;
    repository_reading_t *list;
    uint32_t count, capacity;
} readings_t;

static status_t readings_add(readings_t *readings, const char *name, err_t *err)
{
    if (readings->count == readings->capacity) {
        uint32_t capacity = readings->capacity ? readings->capacity * 2 : 16;
        repository_reading_t *list = realloc(readings->list, capacity * sizeof(*list));
        if (!list)
            return err_set(err, STATUS_NO_MEMORY, "out of memory");
        readings->list = list;
        readings->capacity = capacity;
    }
    repository_read(readings->source, name, 0, &readings->list[readings->count++]);
    return STATUS_OK;
}

static int only_folders(const struct dirent *entry)
{
    return entry->d_name[0] != '.' &&
           (entry->d_type == DT_DIR || entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN);
}

static status_t read_folders(readings_t *readings, err_t *err)
{
    const char *root = readings->source->root;
    char path[PATH_MAX + 300];
    struct dirent **names;
    status_t status = STATUS_OK;
    int count = scandir(root, &names, only_folders, alphasort);

    if (count < 0)
        return err_set(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "model repository %.200s: %m",
                       root);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof(path), "%s/%s", root, names[i]->d_name);
        if (status == STATUS_OK && (is_folder(path) || is_broken_link(path)))
            status = readings_add(readings, names[i]->d_name, err);
        free(names[i]);
    }
    free(names);
    return status;
}

static bool is_read(const readings_t *readings, const char *name)
{
    for (uint32_t i = 0; i < readings->count; i++) {
        if (strcmp(readings->list[i].name, name) == 0)
            return true;
    }
    return false;
}

status_t repository_read_all(const repository_source_t *source, repository_reading_t **list, uint32_t *count,
                             err_t *err)
{
    readings_t readings = {.source = source};
    status_t status = source->root[0] ? read_folders(&readings, err) : STATUS_OK;

    for (uint32_t i = 0; i < source->entry_count && status == STATUS_OK; i++) {
        if (!is_read(&readings, source->entries[i].name))
            status = readings_add(&readings, source->entries[i].name, err);
    }
    if (status != STATUS_OK) {
        for (uint32_t i = 0; i < readings.count; i++)
            repository_reading_dispose(&readings.list[i]);
        free(readings.list);
        return status;
    }
    *list = readings.list;
    *count = readings.count;
    return STATUS_OK;
}

status_t repository_source_open(repository_source_t *source, const char *root, const char *csv,
                                uint32_t elements, uint32_t max_batch, err_t *err)
{
    *source = (repository_source_t){.elements = elements, .max_batch = max_batch};
    if (root && snprintf(source->root, sizeof(source->root), "%s", root) >= (int)sizeof(source->root))
        return err_set(err, STATUS_INVALID_ARGUMENT, "path too long");
    return csv ? profile_csv_read(csv, &source->entries, &source->entry_count, err) : STATUS_OK;
}

void repository_source_close(repository_source_t *source)
{
    free(source->entries);
    source->entries = NULL;
    source->entry_count = 0;
}
