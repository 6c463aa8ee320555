/*
 * A plan as configuration of a scheduler: its groups or sub-clusters become `subclusters` with shares and a
 * policy, its models `placements`. What a live plan cannot do, because devices do not change sub-clusters
 * while they serve, a new start does.
 */
#ifndef FERMATA_PLAN_CONFIG_H
#define FERMATA_PLAN_CONFIG_H

#include "base/status.h"

#include <jansson.h>

/* document: of plan herd ("groups", with gpus) or plan partition ("clusters", of equal share);
 * UNSUPPORTED: of neither. Sub-clusters are named PLANNER-NUMBER and come from this class of devices.
 * Unused groups are left out. */
status_t plan_config_write(const json_t *document, const char *device_class, const char *path, err_t *err);

#endif
