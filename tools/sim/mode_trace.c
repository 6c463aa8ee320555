#include "mode_trace.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

status_t mode_trace_open(mode_trace_t *trace, const char *path, err_t *err)
{
    *trace = (mode_trace_t){.path = path};
    if (!path)
        return STATUS_OK;
    trace->file = fopen(path, "we");
    if (!trace->file)
        return err_set(err, STATUS_IO, "--trace %.300s: %s", path, strerror(errno));
    fputs("stream,stage,batch,rows,again,start_ms,end_ms,end\n", trace->file);
    return STATUS_OK;
}

void mode_trace_row(mode_trace_t *trace, const mode_trace_row_t *row)
{
    static const char *const ends[] = {"ended", "stopped", "dropped"};
    if (trace->file)
        fprintf(trace->file, "%u,%u,%llu,%u,%u,%.4f,%.4f,%s\n", row->stream, row->stage,
                (unsigned long long)row->batch, row->rows, row->again, (double)row->start_ns / 1e6,
                (double)row->end_ns / 1e6, ends[row->end]);
}

status_t mode_trace_close(mode_trace_t *trace, status_t status, err_t *err)
{
    if (!trace->file)
        return status;
    bool failed = ferror(trace->file) != 0;
    failed = fclose(trace->file) != 0 || failed;
    return failed && status == STATUS_OK
               ? err_set(err, STATUS_IO, "--trace %.300s: %s", trace->path, strerror(errno))
               : status;
}
