/* The scheduler's state as one JSON document, for people and dashboards. */
#ifndef SCHEDULER_ADMIN_STATE_H
#define SCHEDULER_ADMIN_STATE_H

#include "base/strbuf.h"
#include "control/control.h"

void state_json(const control_t *control, int64_t now_ns, strbuf_t *out);
const char *device_status(const device_t *device); /* "ready", "busy", "failed", "draining" */

#endif
