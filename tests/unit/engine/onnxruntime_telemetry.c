/* The library tells nobody what runs it: what it is about to send it keeps in the user's cache folder first. */
#include "engine/engine.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

static uint32_t entries(const char *dir)
{
    DIR *folder = opendir(dir);
    uint32_t count = 0;

    cr_assert_not_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count - 2; /* it and the one above */
}

Test(onnxruntime_telemetry, nothing_is_kept_to_be_sent)
{
    char home[] = "/tmp/home-XXXXXX";
    const engine_config_t config = {.threads = 1};
    const engine_ops_t *ops;
    engine_t *engine;
    err_t err;

    cr_assert_not_null(mkdtemp(home));
    setenv("HOME", home, 1);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("ORT_DISABLE_TELEMETRY");
    cr_assert_eq(engine_find("onnxruntime", &ops, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(ops->open(&config, &engine, &err), STATUS_OK, "%s", err.text);
    cr_expect_eq(entries(home), 0);
    ops->close(engine);
    rmdir(home);
}
