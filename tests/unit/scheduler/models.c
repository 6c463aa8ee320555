/* Loading and unloading through the scheduler: requests of gateways, commands to workers, draining. */
#include "scheduler/shell.h"
#include "support.h"

#include <string.h>

#define LOADING CONTROL__MODEL_STATE__MODEL_STATE_LOADING
#define READY CONTROL__MODEL_STATE__MODEL_STATE_READY
#define UNLOADING CONTROL__MODEL_STATE__MODEL_STATE_UNLOADING
#define UNLOADED CONTROL__MODEL_STATE__MODEL_STATE_UNLOADED
#define LOAD CONTROL__MODEL_ACTION__MODEL_ACTION_LOAD
#define UNLOAD CONTROL__MODEL_ACTION__MODEL_ACTION_UNLOAD
#define RELEASE CONTROL__MODEL_ACTION__MODEL_ACTION_RELEASE

typedef struct {
    stage_t stage;
    fake_gateway_t gateway;
    fake_worker_t one, two;
} cast_t;

static void cast_init(cast_t *c, bool with_two)
{
    stage_init(&c->stage);
    c->stage.options.control.ping_interval_ns = 5 * NS_PER_MS;
    stage_start(&c->stage);
    gateway_init(&c->gateway, &c->stage.fakes, 9);
    gateway_connect(&c->gateway);
    worker_init(&c->one, &c->stage.fakes, 1, 1);
    worker_init(&c->two, &c->stage.fakes, 2, 1);
    c->one.slo_ns = c->two.slo_ns =
        HANG_NS; /* what waits for a busy machine is not late, so nothing is refused */
    worker_connect(&c->one);
    stage_until(&c->stage, c->gateway.fake.welcomes == 1 && c->one.fake.welcomes == 1);
    if (!with_two)
        return;
    c->two.fake.hello.name = (char *)"second-worker";
    worker_connect(&c->two);
    stage_until(&c->stage, c->two.fake.welcomes == 1);
}

static void cast_dispose(cast_t *c, bool with_two)
{
    fake_kill(&c->gateway.fake);
    fake_kill(&c->one.fake);
    if (with_two)
        fake_kill(&c->two.fake);
    stage_dispose(&c->stage);
}

static void expect_told(const fake_worker_t *w, uint32_t at, uint32_t action, const char *name,
                        int64_t version)
{
    cr_assert_lt(at, w->told_count);
    cr_expect_eq(w->told[at].action, action);
    cr_expect_str_eq(w->told[at].name, name);
    cr_expect_eq(w->told[at].version, version);
}

Test(models, a_request_goes_to_all_workers_and_is_answered_when_all_have)
{
    static cast_t c;
    cast_init(&c, true);
    gateway_ask(&c.gateway, 77, LOAD, "net");
    stage_until(&c.stage, c.one.told_count == 1 && c.two.told_count == 1);
    expect_told(&c.one, 0, LOAD, "net", 0);
    cr_expect_not(c.one.told[0].planned);
    worker_report(&c.one, "net", READY, NS_PER_MS, NS_PER_MS);
    worker_answer(&c.one, c.one.told[0].id, STATUS_OK, "");
    stage_until(&c.stage, c.gateway.ready);
    cr_expect_eq(c.gateway.answer_count, 0);
    worker_answer(&c.two, c.two.told[0].id, STATUS_NOT_FOUND, "there is no model");
    stage_until(&c.stage, c.gateway.answer_count == 1);
    cr_expect_eq(c.gateway.answer_id, 77);
    cr_expect_eq(c.gateway.answer_status, STATUS_OK, "one has it: that is enough");
    worker_answer(&c.two, c.two.told[0].id, STATUS_OK, ""); /* nonsense: it has answered */
    cast_dispose(&c, true);
}

Test(models, failures_carry_the_workers_reasons)
{
    static cast_t c;
    cast_init(&c, true);
    gateway_ask(&c.gateway, 1, LOAD, "net");
    stage_until(&c.stage, c.one.told_count == 1 && c.two.told_count == 1);
    worker_answer(&c.one, c.one.told[0].id, STATUS_NOT_FOUND, "there is no model");
    worker_answer(&c.two, c.two.told[0].id, STATUS_NO_MEMORY, "600 MiB are needed");
    stage_until(&c.stage, c.gateway.answer_count == 1);
    cr_expect_eq(c.gateway.answer_status, STATUS_NO_MEMORY);
    cr_expect_str_eq(c.gateway.answer_reason, "second-worker: 600 MiB are needed");

    gateway_ask(&c.gateway, 2, UNLOAD, "nobody");
    stage_until(&c.stage, c.one.told_count == 2 && c.two.told_count == 2);
    worker_answer(&c.one, c.one.told[1].id, STATUS_NOT_FOUND, "there is no model 'nobody'");
    worker_answer(&c.two, c.two.told[1].id, STATUS_NOT_FOUND, "there is no model 'nobody'");
    stage_until(&c.stage, c.gateway.answer_count == 2);
    cr_expect_eq(c.gateway.answer_status, STATUS_NOT_FOUND);
    cr_expect_str_eq(c.gateway.answer_reason, "there is no model 'nobody'");

    gateway_ask(&c.gateway, 3, LOAD, "net");
    stage_until(&c.stage, c.one.told_count == 3 && c.two.told_count == 3);
    worker_answer(&c.one, c.one.told[2].id, STATUS_OK, "");
    fake_kill(&c.two.fake);
    stage_until(&c.stage, c.gateway.answer_count == 3);
    cr_expect_eq(c.gateway.answer_status, STATUS_UNAVAILABLE);
    cr_expect_str_eq(c.gateway.answer_reason, "second-worker: the worker went away");

    gateway_ask(&c.gateway, 4, RELEASE, "net");
    stage_until(&c.stage, c.gateway.answer_count == 4);
    cr_expect_eq(c.gateway.answer_status, STATUS_UNSUPPORTED);
    cast_dispose(&c, false);
}

Test(models, without_a_worker_there_is_an_answer_and_a_gateway_that_left_needs_none)
{
    static cast_t c;
    cast_init(&c, false);
    gateway_ask(&c.gateway, 1, LOAD, "net");
    stage_until(&c.stage, c.one.told_count == 1);
    fake_kill(&c.gateway.fake);
    worker_answer(&c.one, c.one.told[0].id, STATUS_OK, "");
    fake_kill(&c.one.fake);
    stage_until(&c.stage, roster_workers(&c.stage.scheduler->control->roster) == 0);
    gateway_init(&c.gateway, &c.stage.fakes, 10);
    gateway_connect(&c.gateway);
    stage_until(&c.stage, c.gateway.fake.welcomes == 1);
    gateway_ask(&c.gateway, 2, LOAD, "net");
    stage_until(&c.stage, c.gateway.answer_count == 1);
    cr_expect_eq(c.gateway.answer_status, STATUS_UNAVAILABLE);
    cr_expect_str_eq(c.gateway.answer_reason, "no worker is connected");
    fake_kill(&c.gateway.fake);
    stage_dispose(&c.stage);
}

/* The last worker of a model keeps it until what waits has been granted and no gateway can send more. */
Test(models, the_last_one_is_released_when_its_queue_is_empty_and_all_gateways_know)
{
    static cast_t c;
    cast_init(&c, false);
    worker_report(&c.one, "net", READY, NS_PER_MS, NS_PER_MS);
    stage_until(&c.stage, c.gateway.ready);
    c.gateway.blind = true;
    worker_report(&c.one, "net", UNLOADING, NS_PER_MS, NS_PER_MS);
    stage_until(&c.stage, !c.gateway.ready);
    cr_expect_not_null(strstr(c.gateway.reason, "unloading"));
    /* Made before the news: still served. Batches stay under way, so that some wait. */
    gateway_send(&c.gateway, c.gateway.model_id, 1, 40, HANG_NS);
    stage_until(&c.stage, c.one.grant_count == 2);
    cr_expect_eq(c.one.told_count, 0);
    c.one.auto_done = true;
    for (int i = 0; i < 2; i++)
        worker_done(&c.one, c.one.grants[i].batch_id, 0, STATUS_OK);
    stage_until(&c.stage, c.one.rows_total == 40);
    stage_upkeep(&c.stage);
    cr_expect_eq(c.one.told_count, 0, "the gateway has not said that it knows");
    c.gateway.blind = false;
    worker_report(&c.one, "other", READY, NS_PER_MS, NS_PER_MS); /* a new catalogue */
    stage_until(&c.stage, c.one.told_count == 1);
    expect_told(&c.one, 0, RELEASE, "net", 1);
    cr_expect_eq(c.gateway.drop_count, 0);
    worker_report(&c.one, "net", UNLOADED, NS_PER_MS, NS_PER_MS);
    stage_until(&c.stage, strstr(c.gateway.reason, "unloaded") != NULL);
    gateway_send(&c.gateway, c.gateway.model_id, 100, 1, HANG_NS);
    stage_until(&c.stage, gateway_dropped(&c.gateway, 100) != NULL);
    cr_expect_eq(gateway_dropped(&c.gateway, 100)->status, STATUS_UNAVAILABLE);
    cast_dispose(&c, false);
}

Test(models, one_of_two_is_released_at_once)
{
    static cast_t c;
    cast_init(&c, true);
    c.gateway.blind = true;
    worker_report(&c.one, "net", READY, NS_PER_MS, NS_PER_MS);
    worker_report(&c.two, "net", READY, NS_PER_MS, NS_PER_MS);
    stage_until(&c.stage, c.gateway.ready_workers == 2);
    worker_report(&c.one, "net", UNLOADING, NS_PER_MS, NS_PER_MS);
    stage_until(&c.stage, c.one.told_count == 1);
    expect_told(&c.one, 0, RELEASE, "net", 1);
    cr_expect(c.gateway.ready);
    gateway_send(&c.gateway, c.gateway.model_id, 1, 8, HANG_NS);
    stage_until(&c.stage, c.two.rows_total == 8);
    cr_expect_eq(c.one.rows_total, 0);
    cast_dispose(&c, true);
}

/* The first of two workers has the new version and wants to let go of the old one, which the other one
 * still needs help with. */
Test(models, the_old_version_stays_until_all_workers_have_the_new_one)
{
    static cast_t c;
    cast_init(&c, true);
    worker_report_version(&c.one, "net", 1, READY);
    worker_report_version(&c.two, "net", 1, READY);
    stage_until(&c.stage, c.gateway.ready_workers == 2);
    worker_report_version(&c.one, "net", 2, LOADING);
    worker_report_version(&c.two, "net", 2, LOADING);
    worker_report(&c.two, "marker", READY, NS_PER_MS,
                  NS_PER_MS); /* once it is seen, so is what came before it */
    stage_until(&c.stage, c.gateway.models == 3);
    worker_report_version(&c.one, "net", 2, READY);
    worker_report_version(&c.one, "net", 1, UNLOADING);
    stage_upkeep(&c.stage);
    cr_expect_eq(c.one.told_count, 0);
    cr_expect(c.gateway.ready);
    cr_expect_eq(c.gateway.ready_workers, 2, "it counts as long as it helps");
    worker_report_version(&c.two, "net", 2, READY);
    worker_report_version(&c.two, "net", 1, UNLOADING);
    stage_until(&c.stage, c.one.told_count == 1 && c.two.told_count == 1);
    expect_told(&c.one, 0, RELEASE, "net", 1);
    expect_told(&c.two, 0, RELEASE, "net", 1);
    cr_expect(!c.gateway.ready);
    cast_dispose(&c, true);
}

Test(models, one_that_the_catalogue_has_no_room_for_is_named)
{
    static cast_t c;
    cast_init(&c, false);
    c.one.label_bytes = 12 << 20;
    worker_report(&c.one, "net", READY, NS_PER_MS, NS_PER_MS);
    worker_report(&c.one, "other", READY, NS_PER_MS, NS_PER_MS);
    worker_report(&c.one, "third", READY, NS_PER_MS, NS_PER_MS);
    stage_until(&c.stage, c.gateway.models == 3 && c.gateway.models_ready == 2);
    stage_until(&c.stage, strstr(c.gateway.last_reason, "no room") != NULL);
    c.one.label_bytes = 0;
    worker_report(&c.one, "net", READY, NS_PER_MS, NS_PER_MS);
    stage_until(&c.stage, c.gateway.models_ready == 3); /* there is room again */
    cr_expect_eq(c.gateway.fake.closes, 0, "%s", c.gateway.fake.text);
    cast_dispose(&c, false);
}
