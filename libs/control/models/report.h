/* What a worker reports of a model, read into what is kept of it. */
#ifndef CONTROL_MODELS_REPORT_H
#define CONTROL_MODELS_REPORT_H

#include "control/models/model.h"

/* A report that makes no sense leaves the instance FAILED, with the reason, and its worker complained of. Without memory it
 * keeps the report before, which may be none. */
void report_take(instance_t *instance, const Control__ModelReport *report);

#endif
