#include "engine/onnxruntime/library.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_BYTES = 400 };

const OrtApi *ort;

static OrtEnv *env;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static err_t why; /* not opened */

OrtEnv *library_env(void)
{
    return env;
}

static status_t status_of(OrtErrorCode code)
{
    switch (code) {
    case ORT_NO_SUCHFILE:
        return STATUS_NOT_FOUND;
    case ORT_NOT_IMPLEMENTED:
        return STATUS_UNSUPPORTED;
    case ORT_INVALID_ARGUMENT:
    case ORT_INVALID_PROTOBUF:
    case ORT_INVALID_GRAPH:
    case ORT_NO_MODEL:
        return STATUS_INVALID_ARGUMENT;
    default:
        return STATUS_INTERNAL;
    }
}

/* Messages of several lines become one. */
static void copy_line(char *to, size_t size, const char *text)
{
    size_t len = strlen(text);
    if (len >= size)
        len = size - 1;
    while (len > 0 && (unsigned char)text[len - 1] <= ' ')
        len--;
    for (size_t i = 0; i < len; i++)
        to[i] = (unsigned char)text[i] < ' ' ? ' ' : text[i];
    to[len] = '\0';
}

status_t library_check(OrtStatus *failed, const char *about, err_t *err)
{
    if (!failed)
        return STATUS_OK;
    char text[MESSAGE_BYTES];
    status_t status = status_of(ort->GetErrorCode(failed));
    copy_line(text, sizeof text, ort->GetErrorMessage(failed));
    err_set(err, status, "%.80s: onnxruntime: %s", about, text);
    ort->ReleaseStatus(failed);
    return status;
}

/*
 * What it says of its environment is sent to its makers seconds later, on a thread of its own, and kept in the user's cache folder until then; DisableTelemetryEvents
 * comes behind the first of it. A server calls nobody, and the loader's process is killed for it.
 */
static void forbid_telemetry(void)
{
    (void)setenv("ORT_DISABLE_TELEMETRY", "1", 1);
}

static void open_once(void)
{
    const OrtApiBase *base = OrtGetApiBase();
    forbid_telemetry();
    ort = base->GetApi(ORT_API_USED);
    if (!ort) {
        err_set(&why, STATUS_UNAVAILABLE, "onnxruntime %s is older than what this was built for",
                base->GetVersionString());
        return;
    }
    why.code = library_check(ort->CreateEnv(ORT_LOGGING_LEVEL_FATAL, "fermata", &env), "start", &why);
    if (why.code == STATUS_OK)
        why.code = library_check(ort->DisableTelemetryEvents(env), "start", &why);
}

status_t library_open(err_t *err)
{
    pthread_once(&once, open_once);
    return why.code == STATUS_OK ? STATUS_OK : err_set(err, why.code, "%s", why.text);
}
