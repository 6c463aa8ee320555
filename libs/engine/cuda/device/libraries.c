#include "engine/cuda/device/libraries.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

static libraries_t table;
static bool opened;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* By the version that the headers are of first: another major version has other structures. */
static status_t open_one(const char *const *names, void **handle, err_t *err)
{
    for (const char *const *n = names; *n; n++)
        if ((*handle = dlopen(*n, RTLD_NOW | RTLD_LOCAL)))
            return STATUS_OK;
    return err_set(err, STATUS_UNAVAILABLE, "%s cannot be loaded: %s", names[0], dlerror());
}

static status_t find(void *handle, const char *name, void *to, err_t *err)
{
    void *found = dlsym(handle, name);
    if (!found)
        return err_set(err, STATUS_UNAVAILABLE, "the library that was found has no %s", name);
    *(void **)to = found;
    return STATUS_OK;
}

#define FIND_CUDNN(name)     \
    if (status == STATUS_OK) \
        status = find(table.cudnn, #name, &table.name, err);
#define FIND_CUBLASLT(name)  \
    if (status == STATUS_OK) \
        status = find(table.cublaslt, #name, &table.name, err);

static status_t open_all(err_t *err)
{
    static const char *const cudnn[] = {"libcudnn.so.9", NULL};
    static const char *const cublaslt[] = {"libcublasLt.so.13", NULL};
    status_t status = table.cublaslt ? STATUS_OK : open_one(cublaslt, &table.cublaslt, err);
    if (status == STATUS_OK && !table.cudnn)
        status = open_one(cudnn, &table.cudnn, err);
    CUDNN_FUNCTIONS(FIND_CUDNN)
    CUBLASLT_FUNCTIONS(FIND_CUBLASLT)
    return status;
}

status_t libraries_open(const libraries_t **libraries, err_t *err)
{
    pthread_mutex_lock(&mutex);
    status_t status = opened ? STATUS_OK : open_all(err);
    opened = status == STATUS_OK;
    pthread_mutex_unlock(&mutex);
    if (status == STATUS_OK)
        *libraries = &table;
    return status;
}
