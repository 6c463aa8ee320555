/* Several sub-clusters in one service: where devices and models go, and what moves with them. */
#include "support.h"

#include "control/core/subcluster.h"
#include "control/core/subclusters.h"
#include "scheduler/shell.h"

#include <string.h>

#define READY CONTROL__MODEL_STATE__MODEL_STATE_READY

/* A gateway, and two workers with one device each; class NULL: none is said. */
typedef struct {
    stage_t stage;
    fake_gateway_t gateway;
    fake_worker_t first, second;
} scene_t;

static void connect_worker(scene_t *s, fake_worker_t *worker, uint64_t id, const char *device_class)
{
    worker_init(worker, &s->stage.fakes, id, 1);
    if (device_class != NULL)
        worker->device[0].device_class = (char *)(uintptr_t)device_class;
    worker_connect(worker);
    stage_until(&s->stage, worker->fake.welcomes == 1);
}

static scene_t *scene_new(const char *const *subclusters, const char *const *placements,
                          const char *first_class, const char *second_class)
{
    scene_t *s = calloc(1, sizeof *s);
    stage_init(&s->stage);
    s->stage.options.control.subclusters = subclusters;
    for (; subclusters != NULL && subclusters[s->stage.options.control.subcluster_count] != NULL;)
        s->stage.options.control.subcluster_count++;
    s->stage.options.control.placements = placements;
    s->stage.options.control.placement_count = placements != NULL;
    stage_start(&s->stage);
    gateway_init(&s->gateway, &s->stage.fakes, 9);
    gateway_connect(&s->gateway);
    connect_worker(s, &s->first, 7, first_class);
    connect_worker(s, &s->second, 8, second_class);
    return s;
}

static void scene_free(scene_t *s)
{
    if (s->first.fake.link != NULL)
        fake_kill(&s->first.fake);
    if (s->second.fake.link != NULL)
        fake_kill(&s->second.fake);
    fake_kill(&s->gateway.fake);
    stage_dispose(&s->stage);
    free(s);
}

/* "net" on both workers: alpha per row on each. */
static void both_have_net(scene_t *s, int64_t first_ns, int64_t second_ns)
{
    worker_report(&s->first, "net", READY, first_ns, 0);
    stage_until(&s->stage, s->gateway.ready_workers == 1);
    worker_report(&s->second, "net", READY, second_ns, 0);
    stage_until(&s->stage, s->gateway.ready_workers == 2);
}

Test(clusters, a_class_too_slow_for_the_slo_is_passed_over)
{
    scene_t *s = scene_new(NULL, NULL, "old", "new");
    both_have_net(s, 150 * NS_PER_MS, NS_PER_MS); /* the SLO is 100 ms */
    gateway_send(&s->gateway, s->gateway.model_id, 1, 4, 10 * NS_PER_S);
    stage_until(&s->stage, s->second.rows_total == 4);
    cr_expect_eq(s->first.grant_count, 0);
    cr_expect_eq(s->gateway.drop_count, 0);
    scene_free(s);
}

/* With the slower profile for all, a budget of 2 s could not be met. */
Test(clusters, each_class_has_its_own_profile)
{
    scene_t *s = scene_new(NULL, NULL, "new", "old");
    both_have_net(s, NS_PER_MS, 3 * NS_PER_S);
    gateway_send(&s->gateway, s->gateway.model_id, 1, 4, 2 * NS_PER_S);
    stage_until(&s->stage, s->first.rows_total + s->gateway.drop_count == 4);
    cr_expect_eq(s->gateway.drop_count, 0);
    cr_expect_eq(s->second.grant_count, 0);
    scene_free(s);
}

Test(clusters, a_model_is_served_where_the_configuration_says)
{
    static const char *const placements[] = {"net=new", NULL};
    scene_t *s = scene_new(NULL, placements, "old", "new");
    both_have_net(s, NS_PER_MS, NS_PER_MS);
    gateway_send(&s->gateway, s->gateway.model_id, 1, 4, NS_PER_S);
    stage_until(&s->stage, s->second.rows_total == 4);
    cr_expect_eq(s->first.grant_count, 0);
    scene_free(s);
}

Test(clusters, models_go_where_there_is_room)
{
    scene_t *s = scene_new(NULL, NULL, "a", "b");
    both_have_net(s, NS_PER_MS, NS_PER_MS);
    uint32_t net = s->gateway.model_id;
    worker_report(&s->first, "other", READY, NS_PER_MS, 0);
    worker_report(&s->second, "other", READY, NS_PER_MS, 0);
    stage_until(&s->stage, s->gateway.models == 2 && s->first.model_ids > 0 && s->second.model_ids > 0);
    stage_barrier(&s->stage);
    gateway_send(&s->gateway, net, 1, 1, NS_PER_S);
    gateway_send(&s->gateway, 1 - net, 2, 1, NS_PER_S);
    stage_until(&s->stage, s->first.rows_total + s->second.rows_total == 2);
    cr_expect_eq(s->first.rows_total, 1, "the second model should have gone to the empty sub-cluster");
    scene_free(s);
}

/* What waits and what runs goes along when the last worker of a sub-cluster dies. */
Test(clusters, a_model_moves_with_its_queue)
{
    enum { MANY = 40 };
    scene_t *s = scene_new(NULL, NULL, "a", "b");
    both_have_net(s, NS_PER_MS, NS_PER_MS);
    gateway_send(&s->gateway, s->gateway.model_id, 1, MANY, 20 * NS_PER_S);
    stage_until(&s->stage, s->first.rows_total == 16); /* two batches: the rest waits */
    s->second.auto_done = true;
    fake_kill(&s->first.fake);
    stage_until(&s->stage, s->second.rows_total + s->gateway.drop_count >= MANY);
    cr_expect_eq(s->gateway.drop_count, 0);
    for (uint64_t id = 1; id <= MANY; id++)
        cr_expect(worker_has_task(&s->second, id), "task %lu", (unsigned long)id);
    scene_free(s);
}

Test(clusters, a_draining_sub_cluster_hands_its_queue_on_and_ends_its_batches)
{
    enum { MANY = 40 };
    scene_t *s = scene_new(NULL, NULL, "a", "b");
    both_have_net(s, NS_PER_MS, NS_PER_MS);
    gateway_send(&s->gateway, s->gateway.model_id, 1, MANY, 20 * NS_PER_S);
    stage_until(&s->stage, s->first.rows_total == 16);
    s->second.auto_done = true;
    worker_tell_device(&s->first, 0, CONTROL__DEVICE_STATUS__DEVICE_DRAINING, "");
    stage_until(&s->stage, s->second.rows_total == MANY - 16);
    for (uint32_t i = 0; i < s->first.grant_count; i++)
        worker_done(&s->first, s->first.grants[i].batch_id, 0, STATUS_OK);
    stage_barrier(&s->stage);
    cr_expect_eq(s->gateway.drop_count, 0);
    cr_expect_eq(s->first.rows_total, 16);
    scene_free(s);
}

/* Batches of two cores at once: an id on the wire means one of them. */
Test(clusters, batch_ids_are_of_the_whole_service)
{
    scene_t *s = scene_new(NULL, NULL, "a", "b");
    both_have_net(s, NS_PER_MS, NS_PER_MS);
    worker_report(&s->second, "other", READY, NS_PER_MS, 0);
    stage_until(&s->stage, s->gateway.models == 2 && s->second.model_ids >= 2);
    gateway_send(&s->gateway, 0, 1, 1, NS_PER_S);
    gateway_send(&s->gateway, 1, 2, 1, NS_PER_S);
    stage_until(&s->stage, s->first.grant_count == 1 && s->second.grant_count == 1);
    cr_expect_neq(s->first.grants[0].batch_id, s->second.grants[0].batch_id);
    scene_free(s);
}

/* Both are of one class: the shares say who gets the second worker. */
Test(clusters, devices_come_in_proportion_to_the_shares)
{
    static const char *const subclusters[] = {"small=emulated", "big=emulated:3:eager", NULL};
    static const char *const placements[] = {"net=small", NULL};
    scene_t *s = scene_new(subclusters, placements, NULL, NULL);
    static fake_worker_t third;
    connect_worker(s, &third, 10, NULL); /* big (1/3 < 1/1), then small or big at 2/3: big, then small */
    both_have_net(s, NS_PER_MS, NS_PER_MS);
    worker_report(&third, "net", READY, NS_PER_MS, 0);
    stage_until(&s->stage, s->gateway.ready_workers == 3);
    s->first.auto_done = s->second.auto_done = third.auto_done = true;
    gateway_send(&s->gateway, s->gateway.model_id, 1, 60, 20 * NS_PER_S);
    stage_until(&s->stage, s->first.rows_total + s->second.rows_total + third.rows_total == 60);
    int serving = (s->first.rows_total > 0) + (s->second.rows_total > 0) + (third.rows_total > 0);
    cr_expect_eq(serving, 1, "%d workers of small", serving);
    fake_kill(&third.fake);
    scene_free(s);
}

Test(clusters, a_policy_that_one_refuses_is_not_that_of_those_to_come)
{
    static const char *const subclusters[] = {"a=first", NULL};
    static stage_t stage;
    err_t err = {0};
    stage_init(&stage);
    stage.options.shards = 2;
    stage.options.control.subclusters = subclusters;
    stage.options.control.subcluster_count = 1;
    stage_start(&stage);
    subclusters_t *subs = &stage.scheduler->control->subclusters;
    cr_expect_eq(subclusters_set_policy(subs, "", "shepherd", "", &err), STATUS_UNSUPPORTED);
    cr_expect_str_eq(subclusters_policy(subs), "fermata");
    subcluster_t *later = subclusters_for(subs, "second", 1, &err);
    cr_assert_not_null(later);
    cr_expect_str_eq(subcluster_policy(later), "fermata");
    cr_expect_eq(subclusters_set_policy(subs, "", "eager", "", &err), STATUS_OK);
    cr_expect_str_eq(subcluster_policy(subclusters_for(subs, "third", 1, &err)), "eager");
    stage_dispose(&stage);
}

Test(clusters, declarations_that_make_no_sense)
{
    static const char *const wrong[] = {
        "",          "a",         "=cpu", "a=", "a=cpu:0", "a=cpu:x", "a=cpu:1:nope", "a=cpu:99999999",
        "a=cpu:-1:", "a=cpu:1.5", NULL};
    for (uint32_t i = 0; wrong[i] != NULL; i++) {
        stage_t stage;
        err_t err = {0};
        stage_init(&stage);
        stage.options.grpc_address = "127.0.0.1:0";
        stage.options.control.subclusters = &wrong[i];
        stage.options.control.subcluster_count = 1;
        cr_expect_eq(scheduler_create(stage.fakes.loop, &stage.options, &stage.scheduler, &err),
                     STATUS_INVALID_ARGUMENT, "\"%s\"", wrong[i]);
        cr_expect_not_null(strstr(err.text, wrong[i]), "%s", err.text);
        stage.scheduler = NULL;
        stage_dispose(&stage);
    }
}
