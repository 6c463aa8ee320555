#include "gateway/front/readiness.h"

#include "gateway/links/control.h"
#include "gateway/models/catalogue.h"

bool gateway_is_ready(const gateway_t *gateway, const char **reason)
{
    const char *why = NULL;
    if (gateway->stopping)
        why = "it stops";
    else if (!gateway_control_is_up(gateway->control))
        why = gateway_control_away_reason(gateway->control);
    else if (catalogue_ready_count(gateway->catalogue) == 0)
        why = "no model is ready";
    if (reason)
        *reason = why;
    return !why;
}
