/* Asking for awake CPUs and giving it back, with a plain file in the kernel's place. */
#include "gateway/sessions/awake.h"

#include "base/clock.h"
#include "loop/timer.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct {
    loop_t *loop;
    awake_t *awake;
    char path[32];
    int fd;
} scene_t;

static int32_t asked(const scene_t *scene)
{
    int32_t latency_us = -2;
    cr_assert_eq(pread(scene->fd, &latency_us, sizeof latency_us, 0), sizeof latency_us);
    return latency_us;
}

static scene_t scene_new(void)
{
    scene_t scene = {.path = "/tmp/awake-XXXXXX"};
    err_t err;
    scene.fd = mkstemp(scene.path);
    cr_assert_geq(scene.fd, 0);
    cr_assert_eq(loop_create(&scene.loop, &err), STATUS_OK);
    cr_assert_eq(awake_create(scene.loop, scene.path, &scene.awake, &err), STATUS_OK, "%s", err.text);
    return scene;
}

static void scene_dispose(scene_t *scene)
{
    awake_destroy(scene->awake);
    loop_destroy(scene->loop);
    close(scene->fd);
    unlink(scene->path);
}

static void stop(loop_timer_t *timer, void *arg)
{
    (void)timer;
    loop_stop(arg);
}

/* The pause is what is tested: how long it is asked for. */
static void run_for(scene_t *scene, int64_t duration_ns)
{
    loop_timer_t timer;
    cr_assert_eq(loop_timer_init(&timer, scene->loop, stop, scene->loop, NULL), STATUS_OK);
    loop_timer_start_in(&timer, duration_ns);
    loop_run(scene->loop);
    loop_timer_dispose(&timer);
}

Test(awake, nothing_is_asked_before_a_request)
{
    scene_t scene = scene_new();
    cr_expect_eq(asked(&scene), INT32_MAX);
    scene_dispose(&scene);
}

Test(awake, a_request_asks_and_silence_gives_back)
{
    scene_t scene = scene_new();
    awake_touch(scene.awake);
    cr_expect_eq(asked(&scene), 0);
    awake_touch(scene.awake);
    cr_expect_eq(asked(&scene), 0);
    run_for(&scene, 3 * AWAKE_HOLD_NS);
    cr_expect_eq(asked(&scene), INT32_MAX);
    awake_touch(scene.awake);
    cr_expect_eq(asked(&scene), 0, "asked again with the next one");
    scene_dispose(&scene);
}

Test(awake, without_the_kernels_file_serving_goes_on)
{
    loop_t *loop;
    awake_t *awake = NULL;
    err_t err = {0};
    cr_assert_eq(loop_create(&loop, &err), STATUS_OK);
    cr_expect_eq(awake_create(loop, "/nowhere/latency", &awake, &err), STATUS_UNAVAILABLE);
    cr_expect_neq(err.text[0], '\0');
    awake_touch(NULL);
    awake_destroy(NULL);
    loop_destroy(loop);
}
