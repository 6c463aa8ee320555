#include "engine/plugin/plugin.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *plugin_dir;

void plugin_set_dir(const char *dir)
{
    plugin_dir = dir;
}

static status_t plugin_path(const char *name, char *path, size_t size, err_t *err)
{
    int len;
    if (plugin_dir) {
        len = snprintf(path, size, "%s/engine-%s.so", plugin_dir, name);
    } else {
        char exe[PATH_MAX];
        ssize_t got = readlink("/proc/self/exe", exe, sizeof exe - 1);
        if (got < 0)
            return err_set(err, STATUS_IO, "cannot find where the program lies, to look for engine '%s'",
                           name);
        exe[got] = '\0';
        len = snprintf(path, size, "%s/../lib/engine-%s.so", dirname(exe), name);
    }
    if (len < 0 || (size_t)len >= size)
        return err_set(err, STATUS_INVALID_ARGUMENT, "the path of engine '%s' is too long", name);
    return STATUS_OK;
}

/* A plug-in stays loaded until the process ends: its threads and caches may outlive any engine. */
status_t plugin_load(const char *name, const engine_ops_t **ops, err_t *err)
{
    char path[PATH_MAX];
    status_t status = plugin_path(name, path, sizeof path, err);
    if (status != STATUS_OK)
        return status;
    if (access(path, R_OK))
        return err_set(err, STATUS_NOT_FOUND, "there is no engine '%s' (no built-in, and no plug-in at %s)",
                       name, path);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return err_set(err, STATUS_UNAVAILABLE, "engine '%s' cannot be loaded: %s", name, dlerror());
    const engine_ops_t *(*entry)(uint32_t) = NULL;
    *(void **)&entry = dlsym(library, "fermata_engine");
    const engine_ops_t *found = entry ? entry(ENGINE_ABI) : NULL;
    if (!found || found->abi != ENGINE_ABI || found->size_bytes != sizeof *found) {
        dlclose(library);
        return err_set(err, STATUS_UNAVAILABLE,
                       "engine '%s' at %s was built for another version of this program", name, path);
    }
    *ops = found;
    return STATUS_OK;
}
