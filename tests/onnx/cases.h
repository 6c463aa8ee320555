/*
 * The ONNX backend cases: folders with model.onnx and test_data_set_N/{input,output}_M.pb.
 */
#ifndef TESTS_ONNX_CASES_H
#define TESTS_ONNX_CASES_H

#include "engine/engine.h"

enum { CASE_NAME_BYTES = 160 };

typedef enum { CASE_PASSED, CASE_FAILED, CASE_UNSUPPORTED } case_result_t;

typedef struct {
    char group[CASE_NAME_BYTES], name[CASE_NAME_BYTES]; /* "node", "test_abs" */
    char ops[512];                                      /* distinct operators, space-separated */
    case_result_t result;
    err_t err; /* why not passed */
} case_t;

/* Finds DATA/GROUP/NAME/model.onnx, sorted; the array is the caller's to free. */
status_t cases_find(const char *data_dir, case_t **cases, size_t *count, err_t *err);

/* Loads and runs one case on the engine and fills result, ops and err. */
void case_run(case_t *c, const char *data_dir, const engine_ops_t *ops, engine_t *engine);

#endif
