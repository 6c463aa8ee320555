/*
 * Models that workers want to unload. A worker that reports UNLOADING still takes grants until it is told
 * that nothing is left for it: at once where another worker has the model, else when no gateway can send more
 * and the queue is empty.
 */
#ifndef CONTROL_MODELS_DRAINING_H
#define CONTROL_MODELS_DRAINING_H

#include "control/models/model.h"

void draining_tick(models_t *models); /* releases what is UNLOADING and has no task left */

#endif
