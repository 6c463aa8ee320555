#include "auth/key_file.h"

#include "base/file.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char header[] =
    "# API keys of Fermata: NAME SHA256 SCOPES LIMITS EXPIRES. Written by `fermata key`.\n";

void auth_keys_dispose(auth_keys_t *keys)
{
    free(keys->keys);
    *keys = (auth_keys_t){0};
}

static const auth_key_t *find_name(const auth_keys_t *keys, const char *name)
{
    for (size_t i = 0; i < keys->count; i++) {
        if (strcmp(keys->keys[i].name, name) == 0)
            return &keys->keys[i];
    }
    return NULL;
}

static bool has_hash(const auth_keys_t *keys, const uint8_t *hash)
{
    for (size_t i = 0; i < keys->count; i++) {
        if (memcmp(keys->keys[i].hash, hash, AUTH_HASH_BYTES) == 0)
            return true;
    }
    return false;
}

status_t auth_keys_add(auth_keys_t *keys, const auth_key_t *key, err_t *err)
{
    if (find_name(keys, key->name))
        return err_set(err, STATUS_INVALID_ARGUMENT, "there is a key named '%s' already", key->name);
    if (has_hash(keys, key->hash))
        return err_set(err, STATUS_INVALID_ARGUMENT, "key '%s' is another's, too", key->name);
    if (keys->count == AUTH_KEYS_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "there are %d keys already", AUTH_KEYS_MAX);
    if ((keys->count & (keys->count - 1)) == 0) { /* full at powers of two */
        size_t room = keys->count ? 2 * keys->count : 1;
        auth_key_t *grown = realloc(keys->keys, room * sizeof *grown);
        if (!grown)
            return err_set(err, STATUS_NO_MEMORY, "no memory for %zu keys", room);
        keys->keys = grown;
    }
    keys->keys[keys->count++] = *key;
    return STATUS_OK;
}

status_t auth_keys_remove(auth_keys_t *keys, const char *name, err_t *err)
{
    const auth_key_t *key = find_name(keys, name);

    if (!key)
        return err_set(err, STATUS_NOT_FOUND, "there is no key named '%.64s'", name);
    size_t at = (size_t)(key - keys->keys);
    memmove(keys->keys + at, keys->keys + at + 1, (keys->count - at - 1) * sizeof *keys->keys);
    keys->count--;
    return STATUS_OK;
}

/* ---- reading ---- */

static status_t add_line(auth_keys_t *keys, const char *line, err_t *err)
{
    auth_key_t key;

    line += strspn(line, " \t\r");
    if (*line == '\0' || *line == '#')
        return STATUS_OK;
    status_t status = auth_key_parse(line, &key, err);
    return status == STATUS_OK ? auth_keys_add(keys, &key, err) : status;
}

status_t auth_keys_parse(const char *text, size_t len_bytes, auth_keys_t *keys, err_t *err)
{
    auth_keys_t read = {0};
    char line[AUTH_LINE_BYTES];
    size_t number = 0, len;

    for (const char *at = text, *end = text + len_bytes; at < end; at += len + (at + len < end)) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        len = newline ? (size_t)(newline - at) : (size_t)(end - at);
        number++;
        status_t status = len < sizeof line && !memchr(at, '\0', len)
                              ? STATUS_OK
                              : err_set(err, STATUS_INVALID_ARGUMENT, "no line of text of at most %zu bytes",
                                        sizeof line - 1);
        if (status == STATUS_OK) {
            memcpy(line, at, len);
            line[len] = '\0';
            status = add_line(&read, line, err);
        }
        if (status != STATUS_OK) {
            auth_keys_dispose(&read);
            err_prefix(err, "line %zu", number);
            return status;
        }
    }
    *keys = read;
    return STATUS_OK;
}

status_t auth_keys_read(const char *path, auth_keys_t *keys, err_t *err)
{
    char *text;
    size_t len_bytes;
    status_t status = file_read(path, AUTH_FILE_BYTES_MAX, &text, &len_bytes, err);

    if (status != STATUS_OK)
        return status;
    status = auth_keys_parse(text, len_bytes, keys, err);
    if (status != STATUS_OK)
        err_prefix(err, "%.300s", path);
    free(text);
    return status;
}

/* ---- writing ---- */

static status_t write_keys(const char *path, const auth_keys_t *keys, err_t *err)
{
    strbuf_t text;

    strbuf_init(&text, AUTH_FILE_BYTES_MAX);
    strbuf_puts(&text, header);
    for (size_t i = 0; i < keys->count; i++)
        auth_key_write(&keys->keys[i], &text);
    status_t status = strbuf_status(&text, err);
    if (status == STATUS_OK)
        status = file_write(path, FILE_REPLACE, 0600, text.data, text.len_bytes, err);
    strbuf_dispose(&text);
    return status;
}

/* Of writers; the file itself is replaced, so the lock has a file of its own. */
static status_t lock(const char *path, int *fd, err_t *err)
{
    char name[PATH_MAX];

    if ((size_t)snprintf(name, sizeof name, "%s.lock", path) >= sizeof name)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%.300s is too long a path", path);
    *fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (*fd < 0 || flock(*fd, LOCK_EX) != 0) {
        err_set(err, STATUS_IO, "%.300s: %m", name);
        if (*fd >= 0)
            close(*fd);
        return STATUS_IO;
    }
    return STATUS_OK;
}

status_t auth_keys_change(const char *path, auth_change_fn change, void *arg, err_t *err)
{
    auth_keys_t keys = {0};
    int fd;
    status_t status = lock(path, &fd, err);

    if (status != STATUS_OK)
        return status;
    status = auth_keys_read(path, &keys, err);
    if (status == STATUS_NOT_FOUND)
        status = STATUS_OK;
    if (status == STATUS_OK)
        status = change(&keys, arg, err);
    if (status == STATUS_OK)
        status = write_keys(path, &keys, err);
    auth_keys_dispose(&keys);
    close(fd);
    return status;
}
