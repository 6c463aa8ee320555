/*
 * What wants to be looked at from time to time, in every room: peers, bounds of delays, the advice on devices, plans, models that
 * nobody came back for, deadlines, drains.
 */
#ifndef CONTROL_UPKEEP_H
#define CONTROL_UPKEEP_H

#include "control/control.h"

void upkeep_tick(control_t *control);

#endif
