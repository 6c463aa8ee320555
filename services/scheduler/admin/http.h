/* The HTTP port: metrics, health and state. */
#ifndef SCHEDULER_ADMIN_HTTP_H
#define SCHEDULER_ADMIN_HTTP_H

#include "base/status.h"

typedef struct scheduler scheduler_t;

status_t http_start(scheduler_t *s, err_t *err);

#endif
