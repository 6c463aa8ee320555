/*
 * What a run prints: a table for people, or one JSON document.
 */
#ifndef LOAD_REPORT_H
#define LOAD_REPORT_H

#include "base/strbuf.h"
#include "load/options.h"
#include "load/runner.h"

typedef struct {
    const load_options_t *options;
    const flow_t *flows;
    uint32_t flow_count;
    int64_t window_ns;
    const histogram_t *send_lag;
} report_t;

/* room: the columns of the terminal that it is for, 0 where there is none. */
void report_text(const report_t *report, unsigned room, strbuf_t *out);
void report_json(const report_t *report, strbuf_t *out);

/* One line of --results. */
void report_result(protocol_t protocol, const result_t *result, strbuf_t *out);

#endif
