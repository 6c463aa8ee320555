/* The plug-in on whatever machine this is: it loads, and says clearly when there is no GPU. */
#include "engine/engine.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <string.h>

static const engine_ops_t *find(void)
{
    const engine_ops_t *ops = NULL;
    err_t err;
    engine_set_plugin_dir(PLUGIN_DIR);
    cr_assert_eq(engine_find("cuda", &ops, &err), STATUS_OK, "%s", err.text);
    return ops;
}

Test(cuda_plugin, the_table_is_whole)
{
    const engine_ops_t *ops = find();
    cr_assert_str_eq(ops->name, "cuda");
    cr_assert_eq(ops->abi, ENGINE_ABI);
    cr_assert(ops->device_count && ops->open && ops->close && ops->load && ops->unload && ops->info &&
              ops->prepare && ops->submit && ops->cancel && ops->flush && ops->buffer_alloc &&
              ops->buffer_free);
    cr_assert(ops->prepare_shapes && ops->cuts && ops->border_create && ops->border_destroy &&
              ops->border_bytes && ops->prepare_range && ops->stop && ops->describe);
}

Test(cuda_plugin, another_abi_gets_nothing)
{
    void *library = dlopen(PLUGIN_DIR "/engine-cuda.so", RTLD_NOW | RTLD_LOCAL);
    cr_assert_not_null(library, "%s", dlerror());
    const engine_ops_t *(*entry)(uint32_t) = NULL;
    *(void **)&entry = dlsym(library, "fermata_engine");
    cr_assert_not_null(entry);
    cr_assert_null(entry(ENGINE_ABI + 1));
    cr_assert_null(dlsym(library, "graph_import"), "only fermata_engine is shown");
    dlclose(library);
}

Test(cuda_plugin, without_a_device_open_says_why)
{
    const engine_ops_t *ops = find();
    uint32_t count = ops->device_count();
    engine_t *engine = NULL;
    err_t err = {.text = ""};
    status_t status = ops->open(&(engine_config_t){.index = count}, &engine, &err);
    cr_assert_eq(status, STATUS_UNAVAILABLE);
    cr_assert_null(engine);
    if (count)
        cr_assert(strstr(err.text, "there is no GPU"), "%s", err.text);
    else
        cr_assert(strstr(err.text, "no GPU can be used: the driver"), "%s", err.text);
}
