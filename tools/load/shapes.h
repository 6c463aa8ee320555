/*
 * What `--shape` says: sizes for inputs whose dimensions vary, fixed, drawn from a range, or drawn from a
 * file of sizes.
 *
 *   image:3,224,320        as perf_analyzer has it: the dimensions of one row, without the batch
 *   ids+mask:16-128        inputs of one shape: one size for both, drawn anew for each request body
 *   ids+mask:@lengths.txt  one of the sizes in the file, one a line, each as often as it is there
 */
#ifndef LOAD_SHAPES_H
#define LOAD_SHAPES_H

#include "base/prng.h"
#include "base/status.h"
#include "load/model.h"

typedef struct {
    int64_t low, high; /* inclusive */
    int64_t *sizes;    /* of a file; NULL: low to high */
    uint32_t size_count;
} shape_dim_t;

typedef struct {
    char names[MODEL_NAME_BYTES]; /* "ids+mask" */
    shape_dim_t dims[OIP_MAX_RANK];
    uint32_t rank;
    int64_t drawn[OIP_MAX_RANK];
    bool used; /* some model has an input of its */
} shape_rule_t;

enum { SHAPE_RULES_MAX = 64, SHAPE_SIZES_MAX = 1 << 20 };

typedef struct {
    shape_rule_t *rules;
    uint32_t count;
} shapes_t;

/* Adds one rule. INVALID_ARGUMENT names the part; IO and INVALID_ARGUMENT of a file come with its name and line. */
status_t shapes_add(shapes_t *shapes, const char *text, err_t *err);
void shapes_dispose(shapes_t *shapes);

/* Whether the rules have as many dimensions as those inputs of the model that they name. Marks them as used. */
status_t shapes_check(shapes_t *shapes, const model_t *model, err_t *err);
/* NOT_FOUND names a rule of whose inputs no model that was checked has any. */
status_t shapes_check_used(const shapes_t *shapes, err_t *err);

/* Draws what all inputs of one request go by. */
void shapes_draw(shapes_t *shapes, prng_t *prng);
/* The shape to send: as drawn, else as model_shape has it. */
oip_shape_t shapes_of(const shapes_t *shapes, const model_tensor_t *tensor, uint32_t rows);

#endif
