#include "repository.h"

#include "profile/profile_csv.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

model_t *repository_find(const repository_t *repository, const char *name)
{
    for (uint32_t i = 0; i < repository->count; i++) {
        if (strcmp(repository->models[i]->name, name) == 0)
            return repository->models[i];
    }
    return NULL;
}

static status_t repository_add(repository_t *repository, model_t *model, err_t *err)
{
    if (repository->count == repository->capacity) {
        uint32_t capacity = repository->capacity ? repository->capacity * 2 : 16;
        model_t **models = realloc(repository->models, capacity * sizeof(*models));
        if (!models)
            return err_set(err, STATUS_NO_MEMORY, "out of memory");
        repository->models = models;
        repository->capacity = capacity;
    }
    repository->models[repository->count++] = model;
    return STATUS_OK;
}

static void model_fail(model_t *model, status_t status, const err_t *err)
{
    model->state = MODEL_FAILED;
    model->load_status = status;
    model->load_err = *err;
}

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

/* A version is a folder named by a number that has a model.onnx. 0: it is none. */
static int64_t version_of(const char *model_dir, const char *name)
{
    char path[PATH_MAX + 300], *end;
    struct stat info;

    if (!isdigit((unsigned char)name[0]))
        return 0;
    errno = 0;
    long long version = strtoll(name, &end, 10);
    if (*end || errno || version <= 0)
        return 0;
    snprintf(path, sizeof(path), "%s/%s/model.onnx", model_dir, name);
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) ? version : 0;
}

static status_t choose_version(const char *model_dir, int64_t wanted, int64_t *version, err_t *err)
{
    DIR *dir = opendir(model_dir);
    struct dirent *entry;
    int64_t best = 0;

    if (!dir)
        return err_set(err, STATUS_IO, "%.200s: %m", model_dir);
    while ((entry = readdir(dir))) {
        int64_t found = version_of(model_dir, entry->d_name);
        if (found > best && (wanted == 0 || found == wanted))
            best = found;
    }
    closedir(dir);
    if (best == 0 && wanted)
        return err_set(err, STATUS_NOT_FOUND, "version %lld is not there", (long long)wanted);
    if (best == 0)
        return err_set(err, STATUS_NOT_FOUND, "no version folder with a model.onnx");
    *version = best;
    return STATUS_OK;
}

/* Its config is read and its version chosen. */
static status_t identify(model_t *model, const char *name, err_t *err)
{
    status_t status = STATUS_OK;

    if (!name_is_good(name))
        status = err_set(err, STATUS_INVALID_ARGUMENT, "a model's name is letters, digits, '.', '_' and '-'");
    if (status == STATUS_OK)
        status = model_config_read(model->dir, &model->config, err);
    if (status == STATUS_OK)
        status = choose_version(model->dir, model->config.version, &model->version, err);
    return status;
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
    model_t *model;

    if (stat(path, &info) != 0)
        return err_set(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "%.200s: %m", path);
    if (S_ISREG(info.st_mode))
        return open_file(path, out, err);
    if (!S_ISDIR(info.st_mode))
        return err_set(err, STATUS_INVALID_ARGUMENT, "%.200s: neither a model file nor a folder", path);
    if (!realpath(path, dir)) /* "." has a name too */
        return err_set(err, STATUS_IO, "%.200s: %m", path);
    const char *name = strrchr(dir, '/') + 1;
    status_t status = model_create(name, 0, dir, &model, err);
    if (status != STATUS_OK)
        return status;
    status = identify(model, name, err);
    if (status != STATUS_OK) {
        model_destroy(model, NULL);
        return err_prefix(err, "%.200s", path);
    }
    *out = model;
    return STATUS_OK;
}

static status_t scan_model(repository_t *repository, const char *root, const char *name, err_t *err)
{
    char dir[PATH_MAX];
    model_t *model;
    err_t why = {0};

    if (snprintf(dir, sizeof(dir), "%s/%s", root, name) >= (int)sizeof(dir))
        return err_set(err, STATUS_INVALID_ARGUMENT, "path too long below %.100s", root);
    status_t status = model_create(name, 0, dir, &model, err);
    if (status != STATUS_OK)
        return status;
    status = repository_add(repository, model, err);
    if (status != STATUS_OK) {
        model_destroy(model, NULL);
        return status;
    }
    status = identify(model, name, &why);
    if (status != STATUS_OK)
        model_fail(model, status, &why);
    return STATUS_OK;
}

static int only_folders(const struct dirent *entry)
{
    return entry->d_name[0] != '.' &&
           (entry->d_type == DT_DIR || entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN);
}

static bool is_folder(const char *root, const char *name)
{
    char path[PATH_MAX];
    struct stat info;

    return snprintf(path, sizeof(path), "%s/%s", root, name) < (int)sizeof(path) && stat(path, &info) == 0 &&
           S_ISDIR(info.st_mode);
}

status_t repository_scan(repository_t *repository, const char *root, err_t *err)
{
    struct dirent **names;
    status_t status = STATUS_OK;
    int count = scandir(root, &names, only_folders, alphasort);

    if (count < 0)
        return err_set(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "model repository %.200s: %m",
                       root);
    for (int i = 0; i < count; i++) {
        if (status == STATUS_OK && is_folder(root, names[i]->d_name))
            status = scan_model(repository, root, names[i]->d_name, err);
        free(names[i]);
    }
    free(names);
    return status;
}

/* A line without a folder is a model of its own. */
static status_t add_profile(repository_t *repository, const profile_entry_t *entry, uint32_t elements,
                            uint32_t max_batch, err_t *err)
{
    model_t *model = repository_find(repository, entry->name);
    uint32_t limit = entry->profile.max_batch < max_batch ? entry->profile.max_batch : max_batch;

    if (!model) {
        status_t status = model_create(entry->name, 1, "", &model, err);
        if (status == STATUS_OK)
            status = repository_add(repository, model, err);
        if (status != STATUS_OK)
            return status;
        model->bare = true;
        model->emulated_elements = elements;
        model->config.max_batch = limit;
    }
    model->profile = entry->profile;
    model->profile.max_batch = limit;
    if (model->config.slo_ns == 0)
        model->config.slo_ns = entry->slo_ns;
    return STATUS_OK;
}

status_t repository_add_profiles(repository_t *repository, const char *csv, uint32_t elements,
                                 uint32_t max_batch, err_t *err)
{
    profile_entry_t *entries;
    uint32_t count;
    status_t status = profile_csv_read(csv, &entries, &count, err);

    if (status != STATUS_OK)
        return status;
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++)
        status = add_profile(repository, &entries[i], elements, max_batch, err);
    free(entries);
    return status;
}

void repository_dispose(repository_t *repository, const worker_devices_t *devices)
{
    for (uint32_t i = 0; i < repository->count; i++)
        model_destroy(repository->models[i], devices);
    free(repository->models);
    *repository = (repository_t){0};
}
