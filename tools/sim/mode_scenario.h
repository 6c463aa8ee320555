/*
 * What an execution mode is tried on: models of emulated operators, the queries that come, and the settings
 * of the modes, read from tests/sim/modes/NAME.txt. A line is a word and its values; # begins a comment. Values end at
 * MODE_US_MAX microseconds and MODE_UNITS_MAX rows or elements: no sum of them overflows 64 bits of nanoseconds.
 *
 *     title TEXT
 *     slo_ms X            rows_max N          launch_us X      host time of one launch
 *     model NAME          what follows is about this model
 *     ops COUNT US PREFER [LENGTH]   COUNT operators that take US microseconds on up to PREFER rows, and n / PREFER times
 *                         as long on n rows beyond; they occupy n / PREFER of the device, at most all. With LENGTH a row
 *                         of L counts as L / LENGTH rows.
 *     lengths L:W …       lengths of the queries and their weights
 *     batches N …         rows of one query, all alike likely (overlap); default 1
 *     delay_window_us X   DelayBatch
 *     staged KEY=VALUE …  stages schedule new_pairs width window_us comp_wait_us slack (a worker's split_slack);
 *                         cut=even (default): stages of about equal time at a quarter of rows_max; cut=preference: where the preferred size changes, at most `stages`
 *     peak_rps X          of DelayBatch: what low, medium and high are fractions of
 */
#ifndef SIM_MODE_SCENARIO_H
#define SIM_MODE_SCENARIO_H

#include "accel/accel.h"
#include "base/prng.h"
#include "base/status.h"
#include "exec/staged.h"

enum {
    MODE_MODELS_MAX = 8,
    MODE_OPS_MAX = 256,
    MODE_LENGTHS_MAX = 32,
    MODE_BATCHES_MAX = 8,
    MODE_NAME_BYTES = 32,
    MODE_US_MAX = 1000000,
    MODE_UNITS_MAX = 1 << 16,
};

typedef struct {
    double us, prefer, length; /* prefer 1 and more; length 0: it does not count */
} mode_op_t;

typedef struct {
    char name[MODE_NAME_BYTES];
    mode_op_t ops[MODE_OPS_MAX];
    uint32_t op_count;
    uint32_t lengths[MODE_LENGTHS_MAX];
    double weights[MODE_LENGTHS_MAX];
    uint32_t length_count;
    uint32_t batches[MODE_BATCHES_MAX];
    uint32_t batch_count;
    uint32_t stage_end[STAGED_STAGES_MAX]; /* operator behind each stage */
} mode_model_t;

typedef struct {
    char title[128];
    char schedule[MODE_NAME_BYTES];
    double slo_ms, launch_us, delay_window_us, peak_rps;
    double window_us, comp_wait_us, slack;
    uint32_t rows_max, stages, new_pairs, width;
    bool cut_by_preference;
    mode_model_t models[MODE_MODELS_MAX];
    uint32_t model_count;
} mode_scenario_t;

/* INVALID_ARGUMENT names file, line and word. `staged`: settings KEY=VALUE,... in place of the file's; NULL: none. */
status_t mode_scenario_read(mode_scenario_t *scenario, const char *directory, const char *name,
                            const char *staged, err_t *err);

accel_op_t mode_op(const mode_op_t *op, uint32_t rows, uint32_t length);
/* The operators of all stages from <= x < to. */
exec_part_t mode_part_of_stages(const mode_model_t *model, exec_part_t stages);
/* What a launch of these operators puts on the device, into ops: MODE_OPS_MAX + 1 at most; returns how many. */
uint32_t mode_operators(const mode_scenario_t *scenario, const exec_part_t *part, accel_op_t *ops);
/* Of the operators from <= x < to: alone on the device. */
staged_cost_t mode_cost(const mode_model_t *model, uint32_t from, uint32_t to, uint32_t rows,
                        uint32_t length);
uint32_t mode_draw_length(const mode_model_t *model, prng_t *prng);
uint32_t mode_draw_rows(const mode_model_t *model, prng_t *prng);

#endif
