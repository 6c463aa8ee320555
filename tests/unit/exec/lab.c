#include "lab.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static accel_op_t op_of(const lab_op_t *op, uint32_t rows, uint32_t length)
{
    double share = rows / op->prefer;
    return (accel_op_t){.ns = (int64_t)llround(op->ns * fmax(1, share) * length / 100),
                        .occupancy = fmin(1, share)};
}

staged_cost_t lab_cost(void *ctx, uint32_t stage, uint32_t rows, uint32_t length)
{
    const lab_t *lab = ctx;
    uint32_t each = lab->op_count / lab->stages;
    staged_cost_t cost = {0};
    for (uint32_t i = stage * each; i < (stage + 1) * each; i++) {
        accel_op_t op = op_of(&lab->ops[i], rows, length);
        cost.ns += op.ns;
        cost.busy_ns += (int64_t)((double)op.ns * op.occupancy);
    }
    return cost;
}

void lab_query(lab_t *lab, double at, uint32_t length)
{
    int64_t at_ns = (int64_t)llround(at * (double)LAB_T);
    uint64_t tag = lab->coming_count + 1;
    lab->coming[lab->coming_count++] = (exec_query_t){
        .tag = tag, .rows = 1, .length = length, .arrival_ns = at_ns, .deadline_ns = INT64_MAX};
}

static void __attribute__((format(printf, 2, 3))) note(lab_t *lab, const char *fmt, ...)
{
    size_t len = strlen(lab->log);
    if (lab->quiet || len + 2 > sizeof(lab->log))
        return;
    va_list args;
    va_start(args, fmt);
    if (len)
        lab->log[len++] = ' ';
    vsnprintf(lab->log + len, sizeof(lab->log) - len, fmt, args);
    va_end(args);
}

static uint32_t operators(void *ctx, const exec_part_t *part, accel_op_t *ops)
{
    const lab_t *lab = ctx;
    uint32_t each = lab->op_count / lab->stages;
    uint32_t first = lab->stages > 1 ? part->from * each : 0, count = lab->stages > 1 ? each : lab->op_count;
    for (uint32_t i = 0; i < count; i++)
        ops[i] = op_of(&lab->ops[first + i], part->rows, part->length);
    return count;
}

/* Stages are numbered from 1, as in the paper. "2.a0" is: executor 2, batch a, from row 0 on. */
static void on_launch(lab_t *lab, const exec_action_t *action)
{
    const exec_part_t *part = &action->launch.parts[0];
    note(lab, "run%u(%u:%u+%u)%u>%u", part->to, (unsigned)action->batch, action->launch.start, part->rows,
         action->launch.in_pair, action->launch.out_pair);
}

static void on_complete(lab_t *lab, const exec_action_t *action)
{
    note(lab, "complete(%u:%u)@%g", (unsigned)action->batch, action->done.count,
         (double)lab->driver.now_ns / (double)LAB_T);
    lab->completed += action->done.count;
    for (uint32_t i = 0; i < action->done.count; i++)
        lab->latency_sum += (double)(lab->driver.now_ns - action->done.queries[i].arrival_ns) / (double)LAB_T;
}

static void act(void *ctx, const exec_action_t *action)
{
    lab_t *lab = ctx;
    switch (action->kind) {
    case EXEC_LAUNCH:
        on_launch(lab, action);
        break;
    case EXEC_COMPLETE:
        on_complete(lab, action);
        break;
    case EXEC_MERGE:
        note(lab, "merge(%u:%u+%u)", (unsigned)action->batch, action->merge.start, action->merge.rows);
        break;
    case EXEC_SPLIT:
        note(lab, "split(%u>%u:%u+%u)", (unsigned)action->batch, (unsigned)action->split.part,
             action->split.start, action->split.rows);
        break;
    default:
        note(lab, "other");
    }
}

static int64_t next_ns(const void *ctx)
{
    const lab_t *lab = ctx;
    return lab->arrived < lab->coming_count ? lab->coming[lab->arrived].arrival_ns : EXEC_NEVER;
}

static status_t come(void *ctx, int64_t now_ns, err_t *err)
{
    lab_t *lab = ctx;
    return exec_submit(lab->driver.exec, now_ns, &lab->coming[lab->arrived++], 1, 0, err);
}

static const driver_user_ops_t lab_ops = {next_ns, come, act};

void lab_open(lab_t *lab, exec_t *exec)
{
    const accel_device_config_t config = {.streams = 64, .ops_max = 64, .operators = operators, .ctx = lab};
    lab->device = accel_device_create(&config, NULL);
    cr_assert(exec && lab->device);
    lab->driver = (driver_t){.exec = exec,
                             .on = &accel_device_ops,
                             .device = lab->device,
                             .user = &lab_ops,
                             .ctx = lab,
                             .wake_ns = EXEC_NEVER};
}

void lab_close(lab_t *lab)
{
    exec_destroy(lab->driver.exec);
    accel_device_destroy(lab->device);
}

static int64_t due_ns(const lab_t *lab)
{
    int64_t ends_ns = accel_device_next_ns(lab->device), due_ns = driver_due_ns(&lab->driver);
    return due_ns < ends_ns ? due_ns : ends_ns;
}

static void step(lab_t *lab)
{
    cr_assert_eq(driver_step(&lab->driver, EXEC_NEVER), STATUS_OK);
    const char *fault = exec_validate(lab->driver.exec);
    cr_assert(fault == NULL, "%s", fault);
}

void lab_run_until(lab_t *lab, double at)
{
    while (due_ns(lab) <= (int64_t)llround(at * (double)LAB_T))
        step(lab);
}

void lab_run(lab_t *lab)
{
    while (due_ns(lab) != EXEC_NEVER)
        step(lab);
}
