#include "control/core/subclusters.h"

#include "config/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

subcluster_t *subclusters_find(const subclusters_t *subs, const char *name)
{
    for (uint32_t i = 0; i < subs->count; i++)
        if (strcmp(subs->all[i]->name, name) == 0)
            return subs->all[i];
    return NULL;
}

static status_t make(subclusters_t *subs, const char *name, const char *device_class, const char *policy,
                     const char *params, subcluster_t **out, err_t *err)
{
    const control_options_t *o = &subs->turn->options;
    subcluster_options_t options = {
        .turn = subs->turn,
        .index = subs->count,
        .name = name,
        .device_class = device_class,
        .limits = {.models_max = o->models_max + SHAPES_MAX,
                   .gpus_max = o->devices_max,
                   .tasks_max = o->tasks_max,
                   .batch_max = o->batch_max,
                   .gpu_inflight_max = o->device_inflight_max},
        .policy = policy,
        .policy_params = params,
        .initial_delay_ns = o->initial_delay_ns,
        .autoscale_window_ns = o->autoscale_window_ns,
    };
    if (subs->count == SUBCLUSTERS_MAX)
        return err_set(err, STATUS_TOO_LARGE, "there are %d sub-clusters already", SUBCLUSTERS_MAX);
    status_t status = subcluster_create(&options, &subs->all[subs->count], err);
    if (status != STATUS_OK)
        return status;
    *out = subs->all[subs->count++];
    note_info(subs->turn, "subcluster_made", LOG_STR("name", name), LOG_STR("device_class", device_class),
              LOG_STR("policy", policy));
    return STATUS_OK;
}

/* ---- Declared ---- */

enum { DECLARATION_BYTES = 256, SHARE_MOST = 65536 };

/* NAME=CLASS[:SHARE[:POLICY]] in text, which is cut up. */
static status_t declare_one(subclusters_t *subs, char *text, err_t *err)
{
    char *name = text, *device_class = strchr(text, '=');
    int64_t share = 1;
    if (!device_class || device_class == name || device_class[1] == '\0')
        return err_set(err, STATUS_INVALID_ARGUMENT, "it is not NAME=CLASS[:SHARE[:POLICY]]");
    *device_class++ = '\0';
    char *number = strchr(device_class, ':');
    if (number)
        *number++ = '\0';
    char *policy = number ? strchr(number, ':') : NULL;
    if (policy)
        *policy++ = '\0';
    if (strlen(name) >= SUBCLUSTER_NAME_BYTES || strlen(device_class) >= DEVICE_CLASS_BYTES)
        return err_set(err, STATUS_TOO_LARGE, "its names may have %d bytes", SUBCLUSTER_NAME_BYTES - 1);
    if (subclusters_find(subs, name))
        return err_set(err, STATUS_INVALID_ARGUMENT, "there are two of this name");
    if (number && (value_parse_int64(number, &share, err) != STATUS_OK || share < 1 || share > SHARE_MOST))
        return err_set(err, STATUS_INVALID_ARGUMENT, "its share \"%s\" is not within 1..%d", number,
                       SHARE_MOST);
    subcluster_t *made;
    status_t status = make(subs, name, device_class, policy ? policy : subs->policy,
                           policy ? NULL : subs->policy_params, &made, err);
    if (status != STATUS_OK)
        return status;
    made->declared = true;
    made->share = (uint32_t)share;
    return STATUS_OK;
}

status_t subclusters_init(subclusters_t *subs, turn_t *turn, err_t *err)
{
    subs->turn = turn;
    (void)snprintf(subs->policy, sizeof subs->policy, "%s", subs->turn->options.policy);
    (void)snprintf(subs->policy_params, sizeof subs->policy_params, "%s",
                   subs->turn->options.policy_params ? subs->turn->options.policy_params : "");
    status_t status = subcluster_check_policy(subs->policy, subs->policy_params, err);
    for (uint32_t i = 0; i < subs->turn->options.subcluster_count && status == STATUS_OK; i++) {
        char text[DECLARATION_BYTES];
        int len = snprintf(text, sizeof text, "%s", subs->turn->options.subclusters[i]);
        status = len >= DECLARATION_BYTES ? err_set(err, STATUS_TOO_LARGE, "it is too long")
                                          : declare_one(subs, text, err);
        if (status != STATUS_OK)
            err_prefix(err, "sub-cluster \"%.80s\"", subs->turn->options.subclusters[i]);
    }
    return status;
}

void subclusters_remove(subclusters_t *subs, uint32_t index)
{
    note_info(subs->turn, "subcluster_gone", LOG_STR("name", subs->all[index]->name));
    subcluster_destroy(subs->all[index]);
    if (index < --subs->count) {
        subs->all[index] = subs->all[subs->count];
        subs->all[index]->index = index;
    }
}

void subclusters_dispose(subclusters_t *subs)
{
    for (uint32_t i = 0; i < subs->count; i++)
        subcluster_destroy(subs->all[i]);
    subs->count = 0;
}

/* ---- For a worker that joins ---- */

/* How full it would be with so many devices more, by the share that it is to have. */
static double fullness(const subcluster_t *sub, uint32_t devices)
{
    return (double)(sub->device_count + devices) / sub->share;
}

subcluster_t *subclusters_for(subclusters_t *subs, const char *device_class, uint32_t devices, err_t *err)
{
    subcluster_t *best = NULL;
    for (uint32_t i = 0; i < subs->count; i++) {
        subcluster_t *sub = subs->all[i];
        if (strcmp(sub->device_class, device_class) != 0)
            continue;
        if (!best || fullness(sub, devices) < fullness(best, devices))
            best = sub;
    }
    if (best)
        return best;
    if (subclusters_find(subs, device_class)) {
        (void)err_set(err, STATUS_INVALID_ARGUMENT, "sub-cluster %s is of another class", device_class);
        return NULL;
    }
    return make(subs, device_class, device_class, subs->policy, subs->policy_params, &best, err) == STATUS_OK
               ? best
               : NULL;
}

/* ---- Policies ---- */

/* One name or, where they differ, those of all. */
const char *subclusters_policy(const subclusters_t *subs)
{
    for (uint32_t i = 0; i < subs->count; i++)
        if (strcmp(subcluster_policy(subs->all[i]), subcluster_policy(subs->all[0])) != 0)
            return "various";
    return subs->count > 0 ? subcluster_policy(subs->all[0]) : subs->policy;
}

static status_t set_one(const subclusters_t *subs, subcluster_t *sub, const char *name, const char *params,
                        err_t *err)
{
    char before[SUBCLUSTER_NAME_BYTES];
    (void)snprintf(before, sizeof before, "%s", subcluster_policy(sub));
    status_t status = subcluster_set_policy(sub, name, params, err);
    if (status == STATUS_OK)
        note_info(subs->turn, "policy_set", LOG_STR("subcluster", sub->name), LOG_STR("policy", name),
                  LOG_STR("params", params), LOG_STR("was", before));
    else
        note_error(subs->turn, "policy_refused", LOG_STR("subcluster", sub->name), LOG_ERR(err));
    return status;
}

status_t subclusters_set_policy(subclusters_t *subs, const char *subcluster, const char *name,
                                const char *params, err_t *err)
{
    status_t status = subcluster_check_policy(name, params, err);
    if (status != STATUS_OK)
        return status;
    turn_touch(subs->turn);
    if (subcluster[0] != '\0') {
        subcluster_t *sub = subclusters_find(subs, subcluster);
        if (!sub)
            return err_set(err, STATUS_NOT_FOUND, "there is no sub-cluster '%s'", subcluster);
        return set_one(subs, sub, name, params, err);
    }
    for (uint32_t i = 0; i < subs->count; i++) {
        err_t refused = {0};
        if (set_one(subs, subs->all[i], name, params, &refused) != STATUS_OK && status == STATUS_OK) {
            status = refused.code; /* of the first; the others may have taken it */
            *err = refused;
        }
    }
    if (status == STATUS_OK) { /* also of those that are still to come */
        (void)snprintf(subs->policy, sizeof subs->policy, "%s", name);
        (void)snprintf(subs->policy_params, sizeof subs->policy_params, "%s", params);
    }
    return status;
}
