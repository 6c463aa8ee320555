/* Whether this gateway can answer: one word for REST, gRPC and metrics. */
#ifndef GATEWAY_READINESS_H
#define GATEWAY_READINESS_H

#include "gateway/gateway.h"

/* Ready = the scheduler is there and at least one model is ready. reason (may be NULL) says why not. */
bool gateway_is_ready(const gateway_t *gateway, const char **reason);

#endif
