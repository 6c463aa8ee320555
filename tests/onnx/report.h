/* What fermata-onnx-test prints. */
#ifndef TESTS_ONNX_REPORT_H
#define TESTS_ONNX_REPORT_H

#include "cases.h"

void report_line(const case_t *c, bool json);
void report_totals(const case_t *cases, size_t count, const char *engine, bool json);

/* Number of cases that the list requires and that did not pass, each named on stderr; -1 when there is no list. */
int report_required(const case_t *cases, size_t count, const char *list_path);

/* Writes the table operator × (passed, failed, unsupported). */
bool report_markdown(const case_t *cases, size_t count, const char *engine, const char *path);

#endif
