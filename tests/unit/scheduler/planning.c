/* Plans that the service makes and carries out: what is loaded, served and unloaded where, and in which order. */
#include "support.h"

#include "admin.pb-c.h"

#include <string.h>

#define READY CONTROL__MODEL_STATE__MODEL_STATE_READY
#define UNLOADED CONTROL__MODEL_STATE__MODEL_STATE_UNLOADED
#define LOAD CONTROL__MODEL_ACTION__MODEL_ACTION_LOAD
#define UNLOAD CONTROL__MODEL_ACTION__MODEL_ACTION_UNLOAD

enum { ROWS_MAX = 8 };

static uint32_t moves_allowed = 16;

/* Two sub-clusters of a worker each. Models are ready on the first; the second could load them. */
typedef struct {
    stage_t stage;
    fake_gateway_t gateway;
    fake_worker_t one, two;
    rpc_client_t *admin;
    bool answered;
    rpc_code_t code;
    uint32_t rows, moves;
    char name[ROWS_MAX][32], to[ROWS_MAX][32], note[ROWS_MAX][128], plan_note[256];
    double before, after;
} scene_t;

static void connect_worker(scene_t *s, fake_worker_t *worker, uint64_t id, const char *name)
{
    worker_init(worker, &s->stage.fakes, id, 1);
    worker->fake.hello.name = (char *)(uintptr_t)name;
    worker->device[0].memory_bytes = UINT64_C(1000000000);
    worker->model_bytes = UINT64_C(100000000);
    worker->slo_ns = HANG_NS; /* what waits for a busy machine is not late, so nothing is refused */
    worker->auto_done = true;
    worker_connect(worker);
    stage_until(&s->stage, worker->fake.welcomes == 1);
}

static scene_t *scene_new(uint32_t models)
{
    static const char *const subclusters[] = {"a=emulated", "b=emulated"};
    static const char *const names[] = {"m0", "m1", "m2", "m3"};
    scene_t *s = calloc(1, sizeof *s);
    err_t err = {0};
    stage_init(&s->stage);
    s->stage.options.control.subclusters = subclusters;
    s->stage.options.control.subcluster_count = 2;
    s->stage.options.control.plan_limit_ns = 50 * NS_PER_MS;
    s->stage.options.control.plan_moves_max = moves_allowed;
    s->stage.options.control.ping_interval_ns = 5 * NS_PER_MS; /* with which the devices are counted */
    stage_start(&s->stage);
    rpc_client_options_t to = {.address = s->stage.fakes.address};
    cr_assert_eq(rpc_client_create(s->stage.fakes.runtime, &to, &s->admin, &err), STATUS_OK);
    gateway_init(&s->gateway, &s->stage.fakes, 9);
    gateway_connect(&s->gateway);
    connect_worker(s, &s->one, 7, "one");
    connect_worker(s, &s->two, 8, "two");
    for (uint32_t m = 0; m < models; m++) {
        worker_report(&s->one, names[m], READY, NS_PER_MS, NS_PER_MS);
        stage_until(&s->stage, s->gateway.models == m + 1 && s->gateway.ready);
        worker_report(&s->two, names[m], UNLOADED, 0, 0);
    }
    stage_until(&s->stage, s->two.model_ids > 0 && s->one.fake.pings > 2 && s->two.fake.pings > 2);
    return s;
}

static void scene_free(scene_t *s)
{
    rpc_client_destroy(s->admin);
    fake_kill(&s->one.fake);
    fake_kill(&s->two.fake);
    fake_kill(&s->gateway.fake);
    stage_dispose(&s->stage);
    free(s);
}

/* So many tasks for each of the first two models, and so many, no more, for each of the others; all of them done. */
static void serve(scene_t *s, uint32_t models, uint64_t first_id, uint32_t hot, uint32_t cold)
{
    uint32_t rows = s->one.rows_total + s->two.rows_total;
    for (uint32_t m = 0; m < models; m++) {
        uint32_t count = m < 2 ? hot : cold;
        gateway_send(&s->gateway, m, first_id + m * hot, count, HANG_NS);
        rows += count;
    }
    stage_until(&s->stage, s->one.rows_total + s->two.rows_total == rows);
    stage_barrier(&s->stage); /* the reports that they are done are on their way */
}

static void serve_each(scene_t *s, uint32_t models, uint64_t first_id, uint32_t count)
{
    serve(s, models, first_id, count, count);
}

static void on_plan(void *arg, rpc_code_t code, const char *text, rpc_bytes_t *response, bool *keep)
{
    scene_t *s = arg;
    (void)text;
    (void)keep;
    s->answered = true;
    s->code = code;
    if (code != RPC_OK)
        return;
    pb_arena_t arena;
    pb_arena_init(&arena, 0);
    const Admin__PlanResponse *plan =
        (const Admin__PlanResponse *)rpc_unpack(&admin__plan_response__descriptor, response, &arena);
    cr_assert(plan != NULL && plan->n_models <= ROWS_MAX);
    s->rows = (uint32_t)plan->n_models;
    s->moves = plan->moves;
    s->before = plan->imbalance_before;
    s->after = plan->imbalance_after;
    (void)snprintf(s->plan_note, sizeof s->plan_note, "%s", plan->note);
    for (uint32_t i = 0; i < s->rows; i++) {
        (void)snprintf(s->name[i], sizeof s->name[i], "%s", plan->models[i]->name);
        (void)snprintf(s->to[i], sizeof s->to[i], "%s", plan->models[i]->to);
        (void)snprintf(s->note[i], sizeof s->note[i], "%s", plan->models[i]->note);
    }
    pb_arena_dispose(&arena);
}

static void ask_plan(scene_t *s, bool apply)
{
    Admin__PlanRequest request = ADMIN__PLAN_REQUEST__INIT;
    const rpc_unary_options_t how = {.method = "/fermata.admin.v1.Admin/Plan", .timeout_ns = 10 * NS_PER_S};
    request.apply = apply;
    s->answered = false;
    cr_assert_not_null(rpc_client_unary(s->admin, &how, rpc_pack(&request.base), on_plan, s));
    stage_until(&s->stage, s->answered);
}

/* The model that the plan moves to b. */
static uint32_t moved(const scene_t *s)
{
    for (uint32_t i = 0; i < s->rows; i++)
        if (strcmp(s->to[i], "b") == 0)
            return i;
    cr_assert_fail("nothing moves to b");
    return 0;
}

Test(planning, load_there_then_serve_there_then_unload_here)
{
    scene_t *s = scene_new(2);
    serve_each(s, 2, 1, 20);
    cr_expect_eq(s->two.rows_total, 0);
    ask_plan(s, true);
    cr_assert_eq(s->code, RPC_OK);
    cr_expect_eq(s->moves, 1, "%u", s->moves);
    cr_expect(s->before > 1.9 && s->after < 0.1, "%g -> %g", s->before, s->after);
    uint32_t m = moved(s);
    stage_until(&s->stage, s->two.told_count == 1);
    cr_expect_eq(s->two.told[0].action, LOAD);
    cr_expect_str_eq(s->two.told[0].name, s->name[m]);
    cr_expect(s->two.told[0].planned);
    serve_each(s, 2, 1000, 5); /* it is not there yet: served where it was */
    cr_expect_eq(s->two.rows_total, 0);
    cr_expect_eq(s->one.told_count, 0);
    worker_report(&s->two, s->name[m], READY, NS_PER_MS, NS_PER_MS);
    worker_answer(&s->two, s->two.told[0].id, STATUS_OK, "");
    stage_until(&s->stage, s->one.told_count == 1);
    cr_expect_eq(s->one.told[0].action, UNLOAD);
    cr_expect_str_eq(s->one.told[0].name, s->name[m]);
    serve_each(s, 2, 2000, 5);
    cr_expect_eq(s->two.rows_total, 5, "%u", s->two.rows_total);
    cr_expect_eq(s->gateway.drop_count, 0);
    scene_free(s);
}

/* A model that the plan moves to b, and has unloaded on a. */
static uint32_t move_one(scene_t *s)
{
    serve_each(s, 2, 1, 20);
    ask_plan(s, true);
    uint32_t m = moved(s);
    stage_until(&s->stage, s->two.told_count == 1);
    worker_report(&s->two, s->name[m], READY, NS_PER_MS, NS_PER_MS);
    worker_answer(&s->two, s->two.told[0].id, STATUS_OK, "");
    stage_until(&s->stage, s->one.told_count == 1);
    worker_report(&s->one, s->name[m], UNLOADED, 0, 0);
    worker_answer(&s->one, s->one.told[0].id, STATUS_OK, "");
    return m;
}

Test(planning, a_sub_cluster_that_dies_gives_its_models_back)
{
    scene_t *s = scene_new(2);
    uint32_t m = move_one(s);
    serve_each(s, 2, 1000, 5);
    cr_expect_eq(s->two.rows_total, 5);
    fake_kill(&s->two.fake);
    stage_until(&s->stage, s->one.told_count == 2);
    cr_expect_eq(s->one.told[1].action, LOAD);
    cr_expect_str_eq(s->one.told[1].name, s->name[m]);
    worker_report(&s->one, s->name[m], READY, NS_PER_MS, NS_PER_MS);
    worker_answer(&s->one, s->one.told[1].id, STATUS_OK, "");
    stage_barrier(&s->stage);
    s->two.rows_total = 0; /* of a worker that is no more */
    uint32_t rows = s->one.rows_total;
    for (uint32_t model = 0; model < 2; model++)
        gateway_send(&s->gateway, model, 2000 + model * 5, 5, HANG_NS);
    stage_until(&s->stage, s->one.rows_total == rows + 10);
    connect_worker(s, &s->two, 8, "two");
    scene_free(s);
}

/* Of all workers, which have it unloaded at once. */
static void unload_by_hand(scene_t *s, uint64_t id, const char *name)
{
    uint32_t one = s->one.told_count, two = s->two.told_count;
    gateway_ask(&s->gateway, id, UNLOAD, name);
    stage_until(&s->stage, s->one.told_count == one + 1 && s->two.told_count == two + 1);
    worker_report(&s->one, name, UNLOADED, 0, 0);
    worker_report(&s->two, name, UNLOADED, 0, 0);
    worker_answer(&s->one, s->one.told[one].id, STATUS_OK, "");
    worker_answer(&s->two, s->two.told[two].id, STATUS_OK, "");
    stage_until(&s->stage, s->gateway.answer_id == id);
}

Test(planning, what_people_unload_no_plan_brings_back)
{
    scene_t *s = scene_new(2);
    uint32_t m = move_one(s);
    unload_by_hand(s, 100, s->name[m]);
    uint32_t told = s->one.told_count + s->two.told_count;
    stage_upkeep(&s->stage);
    cr_expect_eq(s->one.told_count + s->two.told_count, told, "it stays unloaded");
    scene_free(s);
}

Test(planning, what_people_unload_is_no_matter_for_other_models)
{
    scene_t *s = scene_new(2);
    uint32_t m = move_one(s);
    unload_by_hand(s, 100, s->name[1 - m]);
    uint32_t told = s->one.told_count;
    fake_kill(&s->two.fake);
    stage_until(&s->stage, s->one.told_count == told + 1);
    cr_expect_eq(s->one.told[told].action, LOAD);
    cr_expect_str_eq(s->one.told[told].name, s->name[m]);
    connect_worker(s, &s->two, 8, "two");
    scene_free(s);
}

Test(planning, what_cannot_be_loaded_stays)
{
    scene_t *s = scene_new(2);
    serve_each(s, 2, 1, 20);
    ask_plan(s, true);
    stage_until(&s->stage, s->two.told_count == 1);
    ask_plan(s, true); /* meanwhile */
    cr_expect_eq(s->code, RPC_UNAVAILABLE);
    worker_answer(&s->two, s->two.told[0].id, STATUS_NO_MEMORY, "no room");
    serve_each(s, 2, 1000, 10);
    cr_expect_eq(s->two.rows_total, 0);
    cr_expect_eq(s->one.told_count, 0);
    cr_expect_eq(s->gateway.drop_count, 0);
    ask_plan(s, false); /* it is over */
    cr_expect_eq(s->code, RPC_OK);
    scene_free(s);
}

Test(planning, a_worker_that_dies_while_it_loads)
{
    scene_t *s = scene_new(2);
    serve_each(s, 2, 1, 20);
    ask_plan(s, true);
    stage_until(&s->stage, s->two.told_count == 1);
    fake_kill(&s->two.fake);
    serve_each(s, 2, 1000, 10);
    cr_expect_eq(s->gateway.drop_count, 0);
    connect_worker(s, &s->two, 8, "two");
    scene_free(s);
}

Test(planning, to_look_changes_nothing)
{
    scene_t *s = scene_new(2);
    serve_each(s, 2, 1, 20);
    ask_plan(s, false);
    cr_expect_eq(s->moves, 1);
    stage_upkeep(&s->stage);
    cr_expect_eq(s->two.told_count, 0);
    scene_free(s);
}

/* Four times the load may be chance where 20 requests came, and is not where 100 did. */
Test(planning, what_may_be_chance_moves_nothing)
{
    static const char *const names[] = {"m2", "m3"};
    scene_t *s = scene_new(2);
    for (uint32_t m = 0; m < 2; m++) {
        worker_report(&s->two, names[m], READY, NS_PER_MS, NS_PER_MS);
        stage_until(&s->stage, s->gateway.models == 3 + m);
        worker_report(&s->one, names[m], UNLOADED, 0, 0);
    }
    serve(s, 4, 1, 8, 2);
    ask_plan(s, false);
    cr_expect_eq(s->moves, 0, "%u, %g -> %g", s->moves, s->before, s->after);
    cr_expect(s->before > 1, "%g", s->before);
    serve(s, 4, 1000, 40, 10);
    ask_plan(s, false);
    cr_expect_gt(s->moves, 0, "%g -> %g", s->before, s->after);
    scene_free(s);
}

/* One that no device has room for is named, stays where it is, and does not keep the others from being planned. */
Test(planning, a_model_larger_than_any_device)
{
    scene_t *s = scene_new(2);
    s->one.model_bytes = UINT64_C(2000000000);
    worker_report(&s->one, "huge", READY, NS_PER_MS, NS_PER_MS);
    stage_until(&s->stage, s->gateway.models == 3);
    serve_each(s, 3, 1, 20);
    ask_plan(s, true);
    cr_assert_eq(s->rows, 3);
    cr_expect_eq(s->moves, 1);
    cr_expect_str_eq(s->name[2], "huge");
    cr_expect_str_eq(s->to[2], "");
    cr_expect_str_eq(s->note[2], "needs 2000 MB, a device has 1000 MB");
    cr_expect_str_eq(s->note[moved(s)], "");
    serve_each(s, 3, 1000, 5);
    cr_expect_eq(s->gateway.drop_count, 0);
    scene_free(s);
}

/* Four alike in one place: two should go, one may. */
Test(planning, no_more_moves_than_allowed)
{
    scene_t *s = scene_new(4);
    serve_each(s, 4, 1, 20);
    ask_plan(s, false);
    cr_expect_eq(s->moves, 2);
    scene_free(s);
    moves_allowed = 1;
    s = scene_new(4);
    serve_each(s, 4, 1, 20);
    ask_plan(s, false);
    cr_expect_eq(s->moves, 1);
    scene_free(s);
}

/* The solver runs on its own thread: the service stops in an orderly way while it does. */
Test(planning, a_stop_while_a_plan_is_made)
{
    scene_t *s = scene_new(3);
    serve_each(s, 3, 1, 20);
    Admin__PlanRequest request = ADMIN__PLAN_REQUEST__INIT;
    const rpc_unary_options_t how = {.method = "/fermata.admin.v1.Admin/Plan", .timeout_ns = 10 * NS_PER_S};
    cr_assert_not_null(rpc_client_unary(s->admin, &how, rpc_pack(&request.base), on_plan, s));
    stage_pass(&s->stage, 2 * NS_PER_MS);
    stage_stop(&s->stage);
    stage_until(&s->stage, s->answered);
    scene_free(s);
}
