/*
 * A model as `fermata profile --overlap` runs it: the pieces between its cuts, in memory of its own, at any of the
 * shapes that its rows come in.
 */
#ifndef FERMATA_PROFILE_OVERLAP_SERVICE_H
#define FERMATA_PROFILE_OVERLAP_SERVICE_H

#include "fermata/profile/mix.h"

#include "exec/exec.h"

typedef struct {
    const engine_ops_t *ops;
    engine_t *engine;
    engine_model_t *model;
    const engine_model_info_t *info;
    profile_mix_t *mix; /* NULL: nothing but the batch varies */
    uint32_t pieces, op_count;
    uint32_t *at; /* pieces + 1: the first operator of each, and the end (0: all) */
    engine_border_t *source, *target;
    void *inputs[ENGINE_MAX_IO], *outputs[ENGINE_MAX_IO];
    /* Of the job under way, where shapes vary. */
    engine_shape_t in_shapes[ENGINE_MAX_IO], out_shapes[ENGINE_MAX_IO];
    size_t capacity[ENGINE_MAX_IO];
} overlap_service_t;

/*
 * s: ops, engine, model and mix are set. Cuts the model with its largest shape, and takes those shapes out of the
 * mix with which it has other operators: a worker runs them whole. rows: sizes of batches that will come. To be
 * closed also when it fails.
 */
status_t overlap_service_open(overlap_service_t *s, const uint32_t *rows, uint32_t row_count, err_t *err);
void overlap_service_close(overlap_service_t *s); /* one of all zeros is fine */

/* The length of rows of this shape of the mix, in exec/exec.h. */
uint32_t overlap_service_length(const overlap_service_t *s, uint32_t shape);

/* Pieces from <= x < to of a part, on the stream of its number; one job of a service at a time. done and arg are the
 * caller's to set. */
engine_job_t overlap_service_job(overlap_service_t *s, const exec_part_t *part, uint32_t from, uint32_t to);
status_t overlap_service_prepare(const overlap_service_t *s, const exec_part_t *part, err_t *err);

#endif
