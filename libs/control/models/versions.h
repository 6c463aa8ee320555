/*
 * Which version of a model serves those who name none. As a rule the highest, at once. But one that only comes with workers that have
 * no other version of the model is a stranger's: gateways send it a share (catalogue.h of the gateway) until it has served
 * VERSION_PROVEN rows, and nothing where more of it was missed, late or failed than was good. A worker that has a trusted version vouches
 * for its new one.
 */
#ifndef CONTROL_MODELS_VERSIONS_H
#define CONTROL_MODELS_VERSIONS_H

#include "control/models/model.h"

enum { VERSION_PROVEN = 32, VERSION_BAD = 8 };

/* After the instances of `model`, or of another version of it, have changed. */
void versions_settle(models_t *models, model_t *model);
const char *version_state_name(version_state_t state); /* "" of one that is trusted */
void versions_tick(models_t *models);                  /* who is on trial may have served enough */

#endif
