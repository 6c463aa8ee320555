#include "oip/json_reader.h"

#include <stdarg.h>
#include <stdio.h>

status_t json_read_fail(json_reader_t *reader, const char *fmt, ...)
{
    char text[ERR_TEXT_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return err_set(reader->err, STATUS_INVALID_ARGUMENT, "JSON at byte %td: %s", reader->at - reader->begin,
                   text);
}
