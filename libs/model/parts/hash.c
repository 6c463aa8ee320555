/* Which model a kept profile is of: the model file, the external data beside it, the precision, and where else it runs. */
#include "base/hash.h"
#include "base/file.h"
#include "model/model.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* FNV-1a over words of eight bytes, as weights are gigabytes: tells models apart, resists nobody. */
static uint64_t mix(uint64_t hash, const unsigned char *data, size_t len)
{
    uint64_t word;

    for (; len >= sizeof(word); data += sizeof(word), len -= sizeof(word)) {
        memcpy(&word, data, sizeof(word));
        hash = hash_word(hash, word);
        hash ^= hash >> 32; /* the high bits of a word must reach the low ones */
    }
    return hash_bytes(hash, data, len);
}

static status_t hash_file(const char *path, uint64_t *out, err_t *err)
{
    FILE *file;
    uint64_t hash = HASH_BEGIN;
    unsigned char chunk[1 << 16];
    size_t got;
    status_t status = file_open_stream(path, SIZE_MAX, &file, err);

    if (status != STATUS_OK)
        return status;
    while ((got = fread(chunk, 1, sizeof(chunk), file)) > 0)
        hash = mix(hash, chunk, got);
    fclose(file);
    *out = hash;
    return STATUS_OK;
}

/* The version's folder belongs to the model but for what the worker writes there. The sum does not depend
 * on the order. */
static status_t hash_folder(const char *dir, uint64_t *out, err_t *err)
{
    DIR *folder = opendir(dir);
    char path[PATH_MAX + 320];
    struct dirent *entry;
    struct stat info;
    uint64_t sum = 0, hash;
    status_t status = STATUS_OK;

    if (!folder)
        return err_set(err, STATUS_IO, "%.200s: %m", dir);
    while (status == STATUS_OK && (entry = readdir(folder))) {
        snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
        if (!model_is_part(entry->d_name) || stat(path, &info) != 0 || !S_ISREG(info.st_mode))
            continue;
        status = hash_file(path, &hash, err);
        sum += mix(hash, (const unsigned char *)entry->d_name, strlen(entry->d_name));
    }
    closedir(folder);
    *out = sum;
    return status;
}

bool model_is_part(const char *name)
{
    return name[0] != '.' && strncmp(name, "profile.", 8) != 0;
}

status_t model_hash(const model_t *model, char text[PROFILE_CACHE_TEXT_BYTES], err_t *err)
{
    static const char *const precisions[] = {"", " tf32", " fp16", " bf16"};
    char dir[PATH_MAX + 32];
    uint64_t hash;

    snprintf(dir, sizeof(dir), "%s/%lld", model->dir, (long long)model->version);
    status_t status = model->file[0] ? hash_file(model->file, &hash, err) : hash_folder(dir, &hash, err);
    if (status == STATUS_OK)
        snprintf(text, PROFILE_CACHE_TEXT_BYTES, "fnv1a:%016llx%s%s%s", (unsigned long long)hash,
                 precisions[model->config.precision], model->config.providers[0] ? " " : "",
                 model->config.providers);
    return status;
}
