#include "gateway/regions/regions.h"

#include "base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER "/dev/shm/"

struct region {
    char owner[REGION_NAME_BYTES], name[REGION_NAME_BYTES], key[REGION_KEY_BYTES];
    uint64_t offset_bytes, len_bytes; /* in the object */
    int fd;
    bool writable;
    uint32_t holders; /* requests, and the table while it is in it */
};

/* A list that is looked through: there are a few as a rule, and a name costs a comparison. */
struct regions {
    pthread_mutex_t lock;
    region_t *list[REGIONS_MAX];
    uint32_t count;
    metric_t *gauge;
};

static void tell_count(const regions_t *regions)
{
    metrics_set(regions->gauge, regions->count);
}

status_t regions_create(metrics_t *metrics, regions_t **regions, err_t *err)
{
    regions_t *made = calloc(1, sizeof *made);
    if (!made)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the regions of clients");
    pthread_mutex_init(&made->lock, NULL);
    made->gauge = metrics_series(metrics, METRIC_GATEWAY_REGIONS);
    *regions = made;
    return STATUS_OK;
}

/* The lock is held, or nobody else is there. */
static void drop(region_t *region)
{
    if (--region->holders > 0)
        return;
    close(region->fd);
    free(region);
}

void regions_destroy(regions_t *regions)
{
    if (!regions)
        return;
    for (uint32_t i = 0; i < regions->count; i++)
        drop(regions->list[i]);
    pthread_mutex_destroy(&regions->lock);
    free(regions);
}

/* ---- who may ---- */

/* As front ends write addresses (http/address.h): 127.0.0.0/8, ::1, and the first as a socket of IPv6 sees it. */
static bool is_loopback(const char *peer)
{
    static const char *const begins[] = {"127.", "[::1]:", "[::ffff:127."};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (strncmp(peer, begins[i], strlen(begins[i])) == 0)
            return true;
    return false;
}

status_t regions_check_peer(const regions_t *regions, const char *peer, err_t *err)
{
    if (!regions)
        return err_set(err, STATUS_UNSUPPORTED,
                       "shared memory of clients is not taken here: the gateway was not started with "
                       "--client-shared-memory");
    if (is_loopback(peer))
        return STATUS_OK;
    return err_set(err, STATUS_PERMISSION_DENIED,
                   "shared memory is for clients that reach the gateway by a loopback address, not for %s",
                   peer);
}

/* ---- objects ---- */

/* The one path component that the key names; NULL: it names none. */
static const char *object_of(const char *key)
{
    const char *object = key[0] == '/' ? key + 1 : key;
    size_t len = strlen(object);
    bool one = len > 0 && !strchr(object, '/') && strcmp(object, ".") != 0 && strcmp(object, "..") != 0;
    return one && strlen(key) < REGION_KEY_BYTES && utf8_valid(object, len) ? object : NULL;
}

static bool is_name(const char *name)
{
    size_t len = strlen(name);
    return len > 0 && len < REGION_NAME_BYTES && utf8_valid(name, len);
}

static bool may(const struct stat *object, mode_t others)
{
    return object->st_uid == geteuid() || (object->st_mode & others) != 0;
}

/* Beyond such a limit a write is a signal that ends the process. */
static bool is_within_limit(uint64_t end_bytes)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
           end_bytes <= limit.rlim_cur;
}

/* Without waiting: for the other end of a pipe, or for a lease that its owner has on the file. A link is not followed. */
static int open_object(const char *object, bool *writable)
{
    char path[sizeof FOLDER + REGION_KEY_BYTES];
    const int flags = O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    snprintf(path, sizeof path, FOLDER "%s", object);
    int fd = open(path, O_RDWR | flags);
    *writable = fd >= 0;
    return fd >= 0 || (errno != EACCES && errno != EROFS) ? fd : open(path, O_RDONLY | flags);
}

static status_t check_object(region_t *region, err_t *err)
{
    struct stat object;
    uint64_t end_bytes;
    if (fstat(region->fd, &object) != 0 || !S_ISREG(object.st_mode))
        return err_set(err, STATUS_INVALID_ARGUMENT, "key '%s' is no shared memory object", region->key);
    if (!may(&object, S_IROTH))
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "key '%s' is neither of the gateway's user nor readable by everybody", region->key);
    if (__builtin_add_overflow(region->offset_bytes, region->len_bytes, &end_bytes) ||
        end_bytes > (uint64_t)object.st_size)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "region '%s' of %llu bytes from %llu on goes beyond the %lld bytes of key '%s'",
                       region->name, (unsigned long long)region->len_bytes,
                       (unsigned long long)region->offset_bytes, (long long)object.st_size, region->key);
    region->writable = region->writable && may(&object, S_IWOTH) && is_within_limit(end_bytes);
    return STATUS_OK;
}

static status_t open_region(const char *owner, const oip_region_t *wanted, region_t *region, err_t *err)
{
    const char *object = object_of(wanted->key);
    if (!is_name(wanted->name))
        return err_set(err, STATUS_INVALID_ARGUMENT, "a region's name is 1 to %d bytes of UTF-8",
                       REGION_NAME_BYTES - 1);
    if (!object)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "key '%.100s' is no name of an object in " FOLDER
                       " ('/' and one name of up to %d bytes)",
                       wanted->key, REGION_KEY_BYTES - 2);
    if (wanted->len_bytes == 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "region '%s' has a byte_size of 0", wanted->name);
    snprintf(region->owner, sizeof region->owner, "%s", owner);
    snprintf(region->name, sizeof region->name, "%s", wanted->name);
    snprintf(region->key, sizeof region->key, "%s", wanted->key);
    region->offset_bytes = wanted->offset_bytes;
    region->len_bytes = wanted->len_bytes;
    region->holders = 1;
    region->fd = open_object(object, &region->writable);
    if (region->fd < 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "cannot open key '%s': %s", region->key,
                       strerror(errno));
    status_t status = check_object(region, err);
    if (status != STATUS_OK)
        close(region->fd);
    return status;
}

/* ---- the table ---- */

static bool is_of(const region_t *region, const char *owner)
{
    return strcmp(region->owner, owner) == 0;
}

/* NULL: there is none. */
static region_t *find(const regions_t *regions, const char *owner, const char *name)
{
    for (uint32_t i = 0; i < regions->count; i++)
        if (strcmp(regions->list[i]->name, name) == 0 && is_of(regions->list[i], owner))
            return regions->list[i];
    return NULL;
}

static uint32_t count_of(const regions_t *regions, const char *owner)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < regions->count; i++)
        count += is_of(regions->list[i], owner);
    return count;
}

/* The lock is held. */
static status_t enter(regions_t *regions, region_t *region, err_t *err)
{
    if (find(regions, region->owner, region->name))
        return err_set(err, STATUS_INVALID_ARGUMENT, "shared memory region '%s' already in manager",
                       region->name);
    if (region->owner[0] && count_of(regions, region->owner) >= REGIONS_OF_ONE_MAX)
        return err_set(err, STATUS_LIMITED,
                       "this key has %d regions of shared memory, as many as one may have",
                       REGIONS_OF_ONE_MAX);
    if (regions->count == REGIONS_MAX)
        return err_set(err, STATUS_UNAVAILABLE,
                       "there are %d regions of shared memory, as many as there may be", REGIONS_MAX);
    regions->list[regions->count++] = region;
    tell_count(regions);
    return STATUS_OK;
}

status_t regions_register(regions_t *regions, const char *owner, const oip_region_t *wanted, err_t *err)
{
    region_t *region = calloc(1, sizeof *region);
    if (!region)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a region");
    status_t status = open_region(owner, wanted, region, err);
    if (status != STATUS_OK) {
        free(region);
        return status;
    }
    pthread_mutex_lock(&regions->lock);
    status = enter(regions, region, err);
    if (status != STATUS_OK)
        drop(region);
    pthread_mutex_unlock(&regions->lock);
    return status;
}

void regions_unregister(regions_t *regions, const char *owner, const char *name)
{
    uint32_t kept = 0;
    pthread_mutex_lock(&regions->lock);
    for (uint32_t i = 0; i < regions->count; i++) {
        region_t *region = regions->list[i];
        if (is_of(region, owner) && (!name[0] || strcmp(region->name, name) == 0))
            drop(region);
        else
            regions->list[kept++] = region;
    }
    regions->count = kept;
    tell_count(regions);
    pthread_mutex_unlock(&regions->lock);
}

status_t regions_list(regions_t *regions, const char *owner, const char *name, regions_each_fn each,
                      void *arg, err_t *err)
{
    bool found = false;
    pthread_mutex_lock(&regions->lock);
    for (uint32_t i = 0; i < regions->count; i++) {
        const region_t *region = regions->list[i];
        if (!is_of(region, owner) || (name[0] && strcmp(region->name, name) != 0))
            continue;
        found = true;
        each(&(oip_region_t){region->name, region->key, region->offset_bytes, region->len_bytes}, arg);
    }
    pthread_mutex_unlock(&regions->lock);
    if (found || !name[0])
        return STATUS_OK;
    return err_set(err, STATUS_NOT_FOUND, "Unable to find system shared memory region: '%s'", name);
}

/* ---- use ---- */

static status_t check_part(const region_t *region, const oip_memory_t *part, bool to_write, err_t *err)
{
    uint64_t end_bytes;
    if (__builtin_add_overflow(part->offset_bytes, part->len_bytes, &end_bytes) ||
        end_bytes > region->len_bytes)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "%llu bytes from %llu on go beyond the %llu of shared memory region '%s'",
                       (unsigned long long)part->len_bytes, (unsigned long long)part->offset_bytes,
                       (unsigned long long)region->len_bytes, region->name);
    if (to_write && !region->writable)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "shared memory region '%s' cannot be written to by the gateway", region->name);
    return STATUS_OK;
}

status_t regions_hold(regions_t *regions, const char *owner, const oip_memory_t *part, bool to_write,
                      region_t **region, err_t *err)
{
    pthread_mutex_lock(&regions->lock);
    region_t *found = find(regions, owner, part->region);
    status_t status = found ? check_part(found, part, to_write, err)
                            : err_set(err, STATUS_INVALID_ARGUMENT,
                                      "Unable to find shared memory region: '%s'", part->region);
    if (status == STATUS_OK) {
        found->holders++;
        *region = found;
    }
    pthread_mutex_unlock(&regions->lock);
    return status;
}

void region_put(regions_t *regions, region_t *region)
{
    pthread_mutex_lock(&regions->lock);
    drop(region);
    pthread_mutex_unlock(&regions->lock);
}

static off_t place_of(const region_t *region, const oip_memory_t *part)
{
    return (off_t)(region->offset_bytes + part->offset_bytes);
}

static status_t cut_off(const region_t *region, err_t *err)
{
    return err_set(err, STATUS_INVALID_ARGUMENT,
                   "the object of shared memory region '%s' has become shorter since it was registered",
                   region->name);
}

status_t region_read(const region_t *region, const oip_memory_t *part, void *to, err_t *err)
{
    uint64_t done = 0;
    while (done < part->len_bytes) {
        ssize_t got = pread(region->fd, (uint8_t *)to + done, part->len_bytes - done,
                            place_of(region, part) + (off_t)done);
        if (got == 0)
            return cut_off(region, err);
        if (got < 0 && errno != EINTR)
            return err_set(err, STATUS_IO, "cannot read shared memory region '%s': %s", region->name,
                           strerror(errno));
        done += got > 0 ? (uint64_t)got : 0;
    }
    return STATUS_OK;
}

/* A write beyond the end would make the object longer again, with memory of ours. */
static status_t check_length(const region_t *region, const oip_memory_t *part, uint64_t len_bytes, err_t *err)
{
    struct stat object;
    if (len_bytes > part->len_bytes)
        return err_set(
            err, STATUS_INVALID_ARGUMENT,
            "the output has %llu bytes, more than the %llu of its place in shared memory region '%s'",
            (unsigned long long)len_bytes, (unsigned long long)part->len_bytes, region->name);
    if (fstat(region->fd, &object) != 0 || object.st_size < place_of(region, part) + (off_t)len_bytes)
        return cut_off(region, err);
    return STATUS_OK;
}

static uint64_t length_of(const struct iovec *pieces, uint32_t count)
{
    uint64_t len_bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        len_bytes += pieces[i].iov_len;
    return len_bytes;
}

status_t region_write(const region_t *region, const oip_memory_t *part, const struct iovec *pieces,
                      uint32_t count, err_t *err)
{
    off_t at = place_of(region, part);
    status_t status = check_length(region, part, length_of(pieces, count), err);
    while (status == STATUS_OK && count > 0) {
        uint32_t some = count < IOV_MAX ? count : IOV_MAX;
        uint64_t wanted = length_of(pieces, some);
        ssize_t put = pwritev(region->fd, pieces, (int)some, at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 || (uint64_t)put < wanted) /* part of it: there was no memory for the rest */
            return err_set(err, STATUS_NO_MEMORY, "cannot write to shared memory region '%s': %s",
                           region->name, strerror(put < 0 ? errno : ENOSPC));
        at += put;
        pieces += some;
        count -= some;
    }
    return status;
}
