#include "scheduler/subclusters.h"

#include "base/log.h"
#include "config/value.h"
#include "scheduler/service.h"
#include "scheduler/shapes.h"
#include "scheduler/subcluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

subcluster_t *subclusters_find(const scheduler_t *s, const char *name)
{
    for (uint32_t i = 0; i < s->subcluster_count; i++)
        if (strcmp(s->subclusters[i]->name, name) == 0)
            return s->subclusters[i];
    return NULL;
}

static void on_news(void *arg)
{
    scheduler_touch(arg);
}

static status_t make(scheduler_t *s, const char *name, const char *device_class, const char *policy,
                     const char *params, subcluster_t **out, err_t *err)
{
    const scheduler_options_t *o = &s->options;
    subcluster_options_t options = {
        .index = s->subcluster_count,
        .name = name,
        .device_class = device_class,
        .limits = {.models_max = shapes_core_models(s),
                   .gpus_max = o->devices_max,
                   .tasks_max = o->tasks_max,
                   .batch_max = o->batch_max,
                   .gpu_inflight_max = o->device_inflight_max},
        .policy = policy,
        .policy_params = params,
        .initial_delay_ns = o->initial_delay_ns,
        .autoscale_window_ns = o->autoscale_window_ns,
        .metrics = s->metrics,
        .shards = o->shards,
        .loop = s->loop,
        .on_news = on_news,
        .on_news_arg = s,
    };
    if (s->subcluster_count == SUBCLUSTERS_MAX)
        return err_set(err, STATUS_TOO_LARGE, "there are %d sub-clusters already", SUBCLUSTERS_MAX);
    status_t status = subcluster_create(&options, &s->subclusters[s->subcluster_count], err);
    if (status != STATUS_OK)
        return status;
    *out = s->subclusters[s->subcluster_count++];
    log_info("subcluster_made", LOG_STR("name", name), LOG_STR("device_class", device_class),
             LOG_STR("policy", policy));
    return STATUS_OK;
}

/* ---- Declared ---- */

enum { DECLARATION_BYTES = 256, SHARE_MOST = 65536 };

/* NAME=CLASS[:SHARE[:POLICY]] in text, which is cut up. */
static status_t declare_one(scheduler_t *s, char *text, err_t *err)
{
    char *name = text, *device_class = strchr(text, '=');
    int64_t share = 1;
    if (device_class == NULL || device_class == name || device_class[1] == '\0')
        return err_set(err, STATUS_INVALID_ARGUMENT, "it is not NAME=CLASS[:SHARE[:POLICY]]");
    *device_class++ = '\0';
    char *number = strchr(device_class, ':');
    if (number != NULL)
        *number++ = '\0';
    char *policy = number != NULL ? strchr(number, ':') : NULL;
    if (policy != NULL)
        *policy++ = '\0';
    if (strlen(name) >= SUBCLUSTER_NAME_BYTES || strlen(device_class) >= DEVICE_CLASS_BYTES)
        return err_set(err, STATUS_TOO_LARGE, "its names may have %d bytes", SUBCLUSTER_NAME_BYTES - 1);
    if (subclusters_find(s, name) != NULL)
        return err_set(err, STATUS_INVALID_ARGUMENT, "there are two of this name");
    if (number != NULL &&
        (value_parse_int64(number, &share, err) != STATUS_OK || share < 1 || share > SHARE_MOST))
        return err_set(err, STATUS_INVALID_ARGUMENT, "its share \"%s\" is not within 1..%d", number,
                       SHARE_MOST);
    subcluster_t *made;
    status_t status = make(s, name, device_class, policy != NULL ? policy : s->policy,
                           policy != NULL ? NULL : s->policy_params, &made, err);
    if (status == STATUS_OK)
        made->share = (uint32_t)share;
    return status;
}

status_t subclusters_init(scheduler_t *s, err_t *err)
{
    (void)snprintf(s->policy, sizeof s->policy, "%s", s->options.policy);
    (void)snprintf(s->policy_params, sizeof s->policy_params, "%s",
                   s->options.policy_params != NULL ? s->options.policy_params : "");
    status_t status = subcluster_check_policy(s->policy, s->policy_params, err);
    for (uint32_t i = 0; i < s->options.subcluster_count && status == STATUS_OK; i++) {
        char text[DECLARATION_BYTES];
        int len = snprintf(text, sizeof text, "%s", s->options.subclusters[i]);
        status = len >= DECLARATION_BYTES ? err_set(err, STATUS_TOO_LARGE, "it is too long")
                                          : declare_one(s, text, err);
        if (status != STATUS_OK)
            err_prefix(err, "sub-cluster \"%.80s\"", s->options.subclusters[i]);
    }
    return status;
}

void subclusters_dispose(scheduler_t *s)
{
    for (uint32_t i = 0; i < s->subcluster_count; i++)
        subcluster_destroy(s->subclusters[i]);
    s->subcluster_count = 0;
}

/* ---- For a worker that joins ---- */

/* How full it would be with so many devices more, by the share that it is to have. */
static double fullness(const subcluster_t *sub, uint32_t devices)
{
    return (double)(sub->device_count + devices) / sub->share;
}

subcluster_t *subclusters_for(scheduler_t *s, const char *device_class, uint32_t devices, err_t *err)
{
    subcluster_t *best = NULL;
    for (uint32_t i = 0; i < s->subcluster_count; i++) {
        subcluster_t *sub = s->subclusters[i];
        if (strcmp(sub->device_class, device_class) != 0)
            continue;
        if (best == NULL || fullness(sub, devices) < fullness(best, devices))
            best = sub;
    }
    if (best != NULL)
        return best;
    if (subclusters_find(s, device_class) != NULL) {
        (void)err_set(err, STATUS_INVALID_ARGUMENT, "sub-cluster %s is of another class", device_class);
        return NULL;
    }
    return make(s, device_class, device_class, s->policy, s->policy_params, &best, err) == STATUS_OK ? best
                                                                                                     : NULL;
}

/* ---- Policies ---- */

/* One name or, where they differ, those of all. */
const char *subclusters_policy(const scheduler_t *s)
{
    for (uint32_t i = 0; i < s->subcluster_count; i++)
        if (strcmp(subcluster_policy(s->subclusters[i]), subcluster_policy(s->subclusters[0])) != 0)
            return "various";
    return s->subcluster_count > 0 ? subcluster_policy(s->subclusters[0]) : s->policy;
}

static status_t set_one(subcluster_t *sub, const char *name, const char *params, err_t *err)
{
    char before[SUBCLUSTER_NAME_BYTES];
    (void)snprintf(before, sizeof before, "%s", subcluster_policy(sub));
    status_t status = subcluster_set_policy(sub, name, params, err);
    if (status == STATUS_OK)
        log_info("policy_set", LOG_STR("subcluster", sub->name), LOG_STR("policy", name),
                 LOG_STR("params", params), LOG_STR("was", before));
    else
        log_error("policy_refused", LOG_STR("subcluster", sub->name), LOG_ERR(err));
    return status;
}

status_t subclusters_set_policy(scheduler_t *s, const char *subcluster, const char *name, const char *params,
                                err_t *err)
{
    status_t status = subcluster_check_policy(name, params, err);
    if (status != STATUS_OK)
        return status;
    scheduler_touch(s);
    if (subcluster[0] != '\0') {
        subcluster_t *sub = subclusters_find(s, subcluster);
        if (sub == NULL)
            return err_set(err, STATUS_NOT_FOUND, "there is no sub-cluster '%s'", subcluster);
        return set_one(sub, name, params, err);
    }
    for (uint32_t i = 0; i < s->subcluster_count; i++) {
        err_t refused = {0};
        if (set_one(s->subclusters[i], name, params, &refused) != STATUS_OK && status == STATUS_OK) {
            status = refused.code; /* of the first; the others may have taken it */
            *err = refused;
        }
    }
    if (status == STATUS_OK) { /* also of those that are still to come */
        (void)snprintf(s->policy, sizeof s->policy, "%s", name);
        (void)snprintf(s->policy_params, sizeof s->policy_params, "%s", params);
    }
    return status;
}
