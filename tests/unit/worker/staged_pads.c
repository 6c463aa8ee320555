/* Rows of different lengths in one batch of the stages, as policy I has it where rows can be padded. */
#include "support.h"

#include <string.h>

enum { STAGES = 3 };

static rig_t rig;

/* On one stream, and no row is late, however slow the test is. each: a row costs as much as the first, else nothing. */
static void begin(bool each)
{
    rig_init(&rig);
    rig_stage(&rig, STAGES);
    rig_vary(&rig);
    rig_pad(&rig);
    rig.devices.streams = 1;
    for (uint32_t i = 0; i < STAGES * (MAX_BATCH + 1); i++)
        rig.model->choice.stages->cost_ns[i] = 60 * NS_PER_S * (each ? i % (MAX_BATCH + 1) : 1);
    rig.model->choice.stages->beside = true;
    rig.model->choice.stages->schedule = &staged_schedule_input;
}

/* Batches 1 and 2 hold both pairs, so that what comes now waits, and can be in one batch. */
static void fill_pairs(void)
{
    rig_grant_sized(&rig, 1, 1, 8, 0);
    rig_until(&rig, engine_held() == 1);
    rig_grant_sized(&rig, 2, 2, 8, 0);
    rig_barrier(&rig);
}

/* Rows of batch `first` and of the next one wait together. */
static void wait_together(uint64_t first, uint32_t rows, uint32_t size, uint32_t next_rows,
                          uint32_t next_size)
{
    rig_grant_sized(&rig, first, rows, size, 0);
    rig_grant_sized(&rig, first + 1, next_rows, next_size, 0);
    rig_barrier(&rig);
}

/* The first stage of a batch of so many rows. */
static const engine_job_t *next_of(uint32_t rows)
{
    for (int i = 0; i < 30; i++) {
        rig_until(&rig, engine_held() > 0);
        const engine_job_t *job = engine_oldest();
        if (job->range.from == 0 && job->batch == rows)
            return job;
        rig_finish(&rig, STATUS_OK);
    }
    cr_assert_fail("no batch of %u rows", rows);
    return NULL;
}

static uint32_t size_of(const engine_job_t *job)
{
    return (uint32_t)job->input_shapes[0].dims[1];
}

/* Row `at` of the first stage is that of the task, padded to the size of the batch; the other input is not. */
static void check_laid(const engine_job_t *job, uint32_t at, uint64_t task, uint32_t size)
{
    const float *from = &rig.gateways[0].arena[task * (IN_A + IN_B)];
    const float *a = (const float *)job->inputs[0] + at * size_of(job);
    const float *b = (const float *)job->inputs[1] + at * IN_B;

    for (uint32_t j = 0; j < size_of(job); j++)
        cr_expect_float_eq(a[j], j < size ? from[j] : PAD, 0, "row %u, element %u", at, j);
    for (uint32_t j = 0; j < IN_B; j++)
        cr_expect_float_eq(b[j], from[size + j], 0, "row %u", at);
}

static void end(int reports)
{
    rig_finish_all(&rig, reports);
    rig_end(&rig);
}

Test(staged_pads, rows_of_several_lengths_share_a_batch_and_are_cut_again)
{
    begin(false);
    fill_pairs();
    wait_together(3, 2, 4, 1, 8);
    const engine_job_t *job = next_of(3);
    cr_assert_eq(size_of(job), 8);
    check_laid(job, 0, 30, 4);
    check_laid(job, 1, 31, 4);
    check_laid(job, 2, 40, 8);
    cr_assert_eq(metrics_value(rig.model->serving->stage_padded), 2);
    rig_finish_all(&rig, 4);
    rig_until(&rig, rig.gateways[0].done == 6);
    rig_check_padded(&rig, 10, 8);
    rig_check_padded(&rig, 20, 8);
    rig_check_padded(&rig, 30, 4);
    rig_check_padded(&rig, 31, 4);
    rig_check_padded(&rig, 40, 8);
    for (int i = 0; i < 6; i++) {
        const pushed_t *pushed = &rig.gateways[0].pushed[i];
        cr_assert_eq(pushed->timing.batch_size, pushed->task_id >= 30 ? 3 : pushed->task_id < 20 ? 1 : 2);
    }
    cr_assert_eq(metrics_value(rig.model->serving->stage_batches), 3);
    cr_assert_eq(metrics_value(rig.model->serving->unfit), 0);
    end(4);
}

/* Where a batch takes as long as its rows one after the other the costs are against it. */
Test(staged_pads, rows_are_not_padded_where_that_costs_more)
{
    begin(true);
    fill_pairs();
    wait_together(3, 2, 4, 1, 8);
    rig_finish_all(&rig, 4);
    rig_until(&rig, rig.gateways[0].done == 6);
    rig_check_padded(&rig, 31, 4);
    rig_check_padded(&rig, 40, 8);
    cr_assert_eq(metrics_value(rig.model->serving->stage_padded), 0);
    end(4);
}

/* 3 and 5 are no sizes with which the stages were prepared. */
Test(staged_pads, rows_of_several_lengths_run_at_one_that_is_prepared)
{
    begin(false);
    fill_pairs();
    wait_together(3, 1, 3, 2, 5);
    const engine_job_t *job = next_of(3);
    cr_assert_eq(size_of(job), 8);
    check_laid(job, 0, 30, 3);
    check_laid(job, 2, 41, 5);
    cr_assert_eq(metrics_value(rig.model->serving->stage_padded), 3);
    rig_finish_all(&rig, 4);
    rig_until(&rig, rig.gateways[0].done == 6);
    rig_check_padded(&rig, 30, 3);
    rig_check_padded(&rig, 41, 5);
    end(4);
}

Test(staged_pads, rows_of_one_length_run_at_that_if_it_is_prepared)
{
    begin(false);
    fill_pairs();
    wait_together(3, 1, 4, 2, 4);
    cr_assert_eq(size_of(next_of(3)), 4);
    rig_finish_all(&rig, 4);
    rig_until(&rig, rig.gateways[0].done == 6);
    rig_check_padded(&rig, 30, 4);
    rig_check_padded(&rig, 41, 4);
    cr_assert_eq(metrics_value(rig.model->serving->stage_padded), 0);
    end(4);
}

/* Also of one batch, in order: they cannot stay where they were fetched. */
Test(staged_pads, rows_of_one_length_run_at_the_next_that_is_prepared)
{
    begin(false);
    rig_grant_sized(&rig, 1, 2, 3, 0);
    const engine_job_t *job = next_of(2);
    cr_assert_eq(size_of(job), 4);
    check_laid(job, 0, 10, 3);
    check_laid(job, 1, 11, 3);
    cr_assert_eq(metrics_value(rig.model->serving->stage_padded), 2);
    rig_finish_all(&rig, 1);
    rig_until(&rig, rig.gateways[0].done == 2);
    rig_check_padded(&rig, 10, 3);
    rig_check_padded(&rig, 11, 3);
    end(1);
}

/* Half of 10 elements is 5. */
Test(staged_pads, rows_run_as_they_are_where_what_is_prepared_is_too_long)
{
    begin(false);
    rig.model->choice.stages->pads[0] = false;
    rig_grant_sized(&rig, 1, 1, 2, 0);
    cr_assert_eq(size_of(next_of(1)), 2);
    rig_finish_all(&rig, 1);
    rig_grant_sized(&rig, 2, 1, 3, 0);
    cr_assert_eq(size_of(next_of(1)), 8);
    rig_finish_all(&rig, 2);
    rig_until(&rig, rig.gateways[0].done == 2);
    rig_check_padded(&rig, 10, 2);
    rig_check_padded(&rig, 20, 3);
    end(2);
}

Test(staged_pads, to_a_size_that_is_not_prepared_nothing_is_padded)
{
    begin(false);
    rig.model->choice.stages->pads[1] = false;
    fill_pairs();
    wait_together(3, 2, 4, 1, 8);
    rig_finish_all(&rig, 4);
    rig_until(&rig, rig.gateways[0].done == 6);
    cr_assert_eq(metrics_value(rig.model->serving->stage_padded), 0);
    end(4);
}

Test(staged_pads, a_stage_that_fails_loses_rows_of_every_length)
{
    begin(false);
    fill_pairs();
    wait_together(3, 2, 4, 1, 8);
    cr_assert_not_null(next_of(3));
    rig_finish(&rig, STATUS_INTERNAL);
    end(4);
    for (int i = 0; i < 4; i++) {
        const run_report_t *report = &rig.reports[i].report;
        cr_assert_eq(report->status, report->batch_id < 3 ? STATUS_OK : STATUS_INTERNAL);
    }
}

Test(staged_pads, those_that_are_revoked_leave_the_others_their_length)
{
    begin(false);
    fill_pairs();
    wait_together(3, 3, 4, 1, 8);
    run_revoke(rig.run, 7, 4);
    cr_assert_eq(size_of(next_of(3)), 4);
    rig_finish_all(&rig, 4);
    cr_assert_eq(metrics_value(rig.model->serving->stage_padded), 0);
    end(4);
}

/* A batch that ran padded tells nothing about one of its own shape. */
Test(staged_pads, the_profile_does_not_follow_padded_batches)
{
    correction_t before[FAMILY_MAX];

    begin(false);
    rig.model->corrects = true;
    memcpy(before, rig.model->shapes->corrections, sizeof(before));
    fill_pairs();
    wait_together(3, 2, 4, 1, 8);
    rig_finish_all(&rig, 4);
    cr_assert_eq(metrics_value(rig.model->serving->stage_padded), 2);
    cr_assert_arr_eq(before, rig.model->shapes->corrections, sizeof(before));
    end(4);
}
