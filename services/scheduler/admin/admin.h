/* fermata.admin.v1.Admin: unary calls on the gRPC port. Cold. */
#ifndef SCHEDULER_ADMIN_ADMIN_H
#define SCHEDULER_ADMIN_ADMIN_H

#include "base/status.h"

typedef struct scheduler scheduler_t;

status_t admin_init(scheduler_t *s); /* before its gRPC server starts */

#endif
