#include "engine/backends.h"
#include "engine/plugin/plugin.h"

#include <string.h>

static const engine_ops_t *const backends[] = {
    &engine_onednn,
    &engine_auto,
    &engine_emulated,
    &engine_reference,
};

void engine_set_plugin_dir(const char *dir)
{
    plugin_set_dir(dir);
}

status_t engine_find(const char *name, const engine_ops_t **ops, err_t *err)
{
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++) {
        if (!strcmp(backends[i]->name, name)) {
            *ops = backends[i];
            return STATUS_OK;
        }
    }
    if (!*name || strchr(name, '/'))
        return err_set(err, STATUS_INVALID_ARGUMENT, "'%s' is no name of an engine", name);
    return plugin_load(name, ops, err);
}
