/*
 * The shapes of the rows that `fermata profile --stages` and --overlap let come, of a model whose dimensions
 * vary: those of --lengths; else the largest reference alone (--stages, which pads batches to their longest
 * row as DVABatch does) or each of them (--overlap).
 */
#ifndef FERMATA_PROFILE_MIX_H
#define FERMATA_PROFILE_MIX_H

#include "model/measure/profiler.h"
#include "model/parts/shapes.h"

enum { MIX_SHAPES_MAX = 32 };

typedef struct {
    const axes_t *axes;
    struct {
        uint32_t sizes[AXES_MAX];
        double until;         /* share of the rows that are of this shape or a smaller one; 1 at the last */
        profile_t latency;    /* of whole batches; set by profile_mix_measure */
    } shapes[MIX_SHAPES_MAX]; /* rising; number i + 1 is the length of a row in exec/exec.h */
    uint32_t count;
    size_t output_bytes[ENGINE_MAX_IO]; /* of a row of the largest; set by profile_mix_measure */
} profile_mix_t;

/* text: "16:2,24:8,…", sizes of the one axis of the model, rising, and how many of the rows have each.
 * INVALID_ARGUMENT says what is wrong. NULL: the largest reference. */
status_t profile_mix_parse(const char *text, const model_shapes_t *shapes, profile_mix_t *mix, err_t *err);

/* As many rows of each reference, but for those that are larger than the largest along some axis: modes run
 * such rows whole. */
void profile_mix_references(const model_shapes_t *shapes, profile_mix_t *mix);

/* Whole batches of one row, half the largest and the largest at each shape. */
status_t profile_mix_measure(profile_mix_t *mix, const profiler_t *profiler, err_t *err);

static inline const uint32_t *profile_mix_largest(const profile_mix_t *mix)
{
    return mix->shapes[mix->count - 1].sizes;
}

/* Of the rows that are of this shape. */
static inline double profile_mix_share(const profile_mix_t *mix, uint32_t shape)
{
    return mix->shapes[shape].until - (shape ? mix->shapes[shape - 1].until : 0);
}

/* Takes a shape out; not the only one. */
void profile_mix_remove(profile_mix_t *mix, uint32_t shape);

/* Length of the row for which u in 0..1 was drawn. */
uint32_t profile_mix_draw(const profile_mix_t *mix, double u);

#endif
