/* What fermata-onnx-test prints. */
#ifndef TESTS_ONNX_REPORT_H
#define TESTS_ONNX_REPORT_H

#include "cases.h"

void report_line(const case_t *c, bool json);
void report_totals(const case_t *cases, size_t count, const char *engine, bool json);

/* Number of cases that the list requires and that did not pass, each named on stderr; 1 when the list
 * cannot be read or requires nothing. */
int report_required(const case_t *cases, size_t count, const char *list_path);

/* Writes the table operator × engine × (passed, failed, unsupported); cases[e] are those of engines[e], all alike. */
bool report_markdown(case_t *const *cases, size_t count, const char *const *engines, size_t engine_count,
                     const char *path);

#endif
