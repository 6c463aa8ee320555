/* The scheduler's state as one JSON document, for people and dashboards. */
#ifndef SCHEDULER_STATE_H
#define SCHEDULER_STATE_H

#include "base/strbuf.h"

typedef struct scheduler scheduler_t;
typedef struct device device_t;

void state_json(const scheduler_t *s, strbuf_t *out);
const char *device_status(const device_t *device); /* "ready", "busy", "failed", "draining" */

#endif
