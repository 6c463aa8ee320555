#include "summary/summary.h"

#include "profile/profile.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* "; 1 row takes 3.4 ms, 32 take 91 (4 sizes measured, up to 8, beside other work)". */
static void print_latency(const summary_model_t *model)
{
    if (!model->ready || !(model->one_ms > 0))
        return;
    printf("; 1 row takes %.3g ms", model->one_ms);
    if (model->max_batch > 1)
        printf(", %u take %.3g", model->max_batch, model->most_ms);
    if (model->measured > 0)
        printf(" (%u size%s measured, up to %u%s)", model->measured, model->measured > 1 ? "s" : "",
               model->measured_up_to, model->doubt > PROFILE_DOUBT_MOST ? ", beside other work" : "");
}

void summary_print_model(const summary_model_t *model)
{
    const char *reason = model->reason[0] != '\0' ? model->reason : model->mode_reason;
    bool told =
        model->mode[0] != '\0' && (model->mode_reason[0] != '\0' || strcmp(model->mode, "whole") != 0);
    printf("  %s, version %s: %s", model->name, model->version, model->state);
    if (model->engine[0] != '\0')
        printf(" on %s", model->engine);
    if (told)
        printf(", %s", model->mode);
    if (model->stages > 0)
        printf(" in %u stages", model->stages);
    if (model->exit_points > 0)
        printf(" at %u exit points", model->exit_points);
    printf("%s%s", reason[0] != '\0' ? ": " : "", reason);
    print_latency(model);
    printf("\n");
}

json_t *summary_model_json(const summary_model_t *model)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:f, s:i, s:i, s:f}", "name", model->name,
                     "version", model->version, "state", model->state, "reason", model->reason, "engine",
                     model->engine, "mode", model->mode, "mode_reason", model->mode_reason, "stages",
                     (int)model->stages, "exit_points", (int)model->exit_points, "latency_ms", model->one_ms,
                     "measured", (int)model->measured, "measured_up_to", (int)model->measured_up_to, "doubt",
                     isfinite(model->doubt) ? model->doubt : 0.0);
}
