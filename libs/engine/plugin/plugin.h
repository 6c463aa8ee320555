/* Engines in shared objects: "engine-NAME.so" in the folder of plug-ins, which is "../lib" beside the program unless it is set. */
#ifndef ENGINE_PLUGIN_PLUGIN_H
#define ENGINE_PLUGIN_PLUGIN_H

#include "engine/engine.h"

/* As engine_set_plugin_dir. */
void plugin_set_dir(const char *dir);

/* NOT_FOUND: there is none of that name, which is no path. UNAVAILABLE: it, or a library that it needs, cannot be loaded, or it
 * was built for another ABI. */
status_t plugin_load(const char *name, const engine_ops_t **ops, err_t *err);

#endif
