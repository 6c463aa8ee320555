/* Which plans a model keeps. */
#include "engine/compile/plan_table.h"

#include <criterion/criterion.h>
#include <stdlib.h>

typedef struct {
    plan_entry_t entry;
    int64_t width;
} plan_t;

static int built, destroyed;

static void destroy(plan_entry_t *entry)
{
    destroyed++;
    free(entry);
}

static status_t build(void *ctx, const tensor_t *inputs, plan_entry_t **entry, err_t *err)
{
    const int64_t *refused = ctx;
    if (inputs[0].dims[1] == *refused)
        return err_set(err, STATUS_UNSUPPORTED, "this width is not built");
    plan_t *plan = calloc(1, sizeof *plan);
    plan->width = inputs[0].dims[1];
    built++;
    *entry = &plan->entry;
    return STATUS_OK;
}

static plan_table_t table;
static int64_t refused = -1;

static void open_table(bool varies)
{
    static const engine_tensor_t input = {.name = "x", .dtype = DTYPE_F32, .rank = 1};
    engine_model_info_t info = {.inputs = &input, .input_count = 1, .max_batch = 4};
    cr_assert_eq(plan_table_init(&table, &info, varies, destroy, NULL), STATUS_OK);
}

static status_t get(uint32_t batch, int64_t width, plan_t **plan, err_t *err)
{
    tensor_t input = {.dtype = DTYPE_F32, .rank = 2, .dims = {batch, width}};
    return plan_table_get(&table, batch, &input, build, &refused, (plan_entry_t **)plan, err);
}

static bool is_there(int64_t width)
{
    tensor_t input = {.dtype = DTYPE_F32, .rank = 2, .dims = {1, width}};
    plan_entry_t *found = plan_table_find(&table, 1, &input);
    if (found)
        plan_table_release(&table, found);
    return found != NULL;
}

Test(plan_table, each_batch_size_is_built_once)
{
    open_table(false);
    plan_t *first, *again;
    for (uint32_t batch = 1; batch <= 4; batch++) {
        cr_assert_eq(get(batch, 7, &first, NULL), STATUS_OK);
        cr_assert_eq(get(batch, 7, &again, NULL), STATUS_OK);
        cr_assert_eq(first, again);
    }
    cr_assert_eq(built, 4);
    plan_table_dispose(&table);
    cr_assert_eq(destroyed, 4);
}

Test(plan_table, the_least_recently_used_shape_makes_room)
{
    open_table(true);
    plan_t *plan;
    for (int64_t width = 1; width <= PLAN_TABLE_SHAPES_MAX; width++) {
        cr_assert_eq(get(1, width, &plan, NULL), STATUS_OK);
        plan_table_release(&table, &plan->entry);
    }
    cr_assert(is_there(1), "which makes it the most recently used one");
    for (int64_t width = 1000; width < 1002; width++) {
        cr_assert_eq(get(1, width, &plan, NULL), STATUS_OK);
        plan_table_release(&table, &plan->entry);
    }
    cr_assert(is_there(1) && is_there(4) && is_there(1000) && is_there(1001));
    cr_assert(!is_there(2) && !is_there(3));
    cr_assert_eq(destroyed, 2);
    tensor_t last = {0};
    cr_assert(plan_table_last_shapes(&table, &last));
    cr_assert_eq(last.dims[1], 1001, "the one that was looked for last");
    plan_table_dispose(&table);
    cr_assert_eq(destroyed, built);
}

Test(plan_table, what_is_in_use_stays)
{
    open_table(true);
    plan_t *plans[PLAN_TABLE_SHAPES_MAX], *plan;
    err_t err;
    for (int64_t i = 0; i < PLAN_TABLE_SHAPES_MAX; i++)
        cr_assert_eq(get(1, i + 1, &plans[i], NULL), STATUS_OK);
    cr_assert_eq(get(1, 1000, &plan, &err), STATUS_NO_MEMORY);
    cr_assert_eq(destroyed, 1, "the one that there was no room for");
    plan_table_release(&table, &plans[17]->entry);
    cr_assert_eq(get(1, 1000, &plan, NULL), STATUS_OK);
    cr_assert(!is_there(18) && is_there(17) && is_there(1000));
    plan_table_dispose(&table);
}

Test(plan_table, what_cannot_be_built_leaves_nothing)
{
    open_table(true);
    plan_t *plan = NULL;
    err_t err;
    refused = 5;
    cr_assert_eq(get(1, 5, &plan, &err), STATUS_UNSUPPORTED);
    cr_assert_null(plan);
    cr_assert(!is_there(5));
    tensor_t last;
    cr_assert(!plan_table_last_shapes(&table, &last));
    refused = -1;
    cr_assert_eq(get(1, 5, &plan, &err), STATUS_OK);
    plan_table_dispose(&table);
    plan_table_dispose(&table);
    cr_assert_eq(destroyed, 1, "twice is as good as once");
}
