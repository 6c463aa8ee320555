#include "fermata/profile/mix.h"

#include "model/measure/profiler_modes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static status_t bad_part(const char *part, err_t *err)
{
    return err_set(err, STATUS_INVALID_ARGUMENT,
                   "lengths: '%.40s' is not SIZE:SHARE, with sizes that rise and shares above 0", part);
}

/* One "SIZE:SHARE"; *text behind it. */
static bool parse_part(const char **text, uint32_t *size, double *share)
{
    char *end;

    errno = 0;
    unsigned long value = strtoul(*text, &end, 10);
    if (end == *text || errno || **text == '-' || value == 0 || value > AXIS_SIZE_MAX || *end != ':')
        return false;
    *text = end + 1;
    *share = strtod(*text, &end);
    if (end == *text || !(*share > 0 && *share < 1e9))
        return false;
    *text = end;
    *size = (uint32_t)value;
    return true;
}

/* Shares, one for each shape, become what is passed at each. */
static void add_up(profile_mix_t *mix)
{
    double sum = 0, passed = 0;

    for (uint32_t i = 0; i < mix->count; i++)
        sum += mix->shapes[i].until;
    for (uint32_t i = 0; i < mix->count; i++)
        mix->shapes[i].until = (passed += mix->shapes[i].until) / sum;
}

static status_t parse_list(const char *text, const axes_t *axes, profile_mix_t *mix, err_t *err)
{
    for (;; text++) {
        const char *part = text;
        uint32_t size, before = mix->count ? mix->shapes[mix->count - 1].sizes[0] : 0;
        double share;
        if (mix->count == MIX_SHAPES_MAX)
            return err_set(err, STATUS_INVALID_ARGUMENT, "lengths: more than %d", MIX_SHAPES_MAX);
        if (!parse_part(&text, &size, &share) || size <= before || (*text != ',' && *text != '\0'))
            return bad_part(part, err);
        if (size > axes->list[0].size_max)
            return err_set(err, STATUS_INVALID_ARGUMENT, "lengths: %u is beyond the largest size of '%s', %u",
                           size, axes->list[0].name, axes->list[0].size_max);
        mix->shapes[mix->count].sizes[0] = size;
        mix->shapes[mix->count++].until = share;
        if (*text == '\0')
            return STATUS_OK;
    }
}

status_t profile_mix_parse(const char *text, const model_shapes_t *shapes, profile_mix_t *mix, err_t *err)
{
    *mix = (profile_mix_t){.axes = &shapes->axes};
    if (text) {
        if (shapes->axes.count != 1)
            return err_set(err, STATUS_INVALID_ARGUMENT, "lengths: %u dimensions of the model vary, not one",
                           shapes->axes.count);
        if (parse_list(text, &shapes->axes, mix, err) != STATUS_OK)
            return err->code;
    } else {
        memcpy(mix->shapes[0].sizes, shapes_largest(shapes), sizeof(mix->shapes[0].sizes));
        mix->shapes[0].until = 1;
        mix->count = 1;
    }
    add_up(mix);
    return STATUS_OK;
}

void profile_mix_references(const model_shapes_t *shapes, profile_mix_t *mix)
{
    *mix = (profile_mix_t){.axes = &shapes->axes};
    for (uint32_t i = 0; i < shapes->reference_count; i++) {
        if (!shapes_fit(shapes, shapes->references[i]))
            continue;
        memcpy(mix->shapes[mix->count].sizes, shapes->references[i], sizeof(mix->shapes[0].sizes));
        mix->shapes[mix->count++].until = 1;
    }
    add_up(mix);
}

void profile_mix_remove(profile_mix_t *mix, uint32_t shape)
{
    for (uint32_t i = mix->count - 1; i > 0; i--)
        mix->shapes[i].until = profile_mix_share(mix, i);
    memmove(&mix->shapes[shape], &mix->shapes[shape + 1], (mix->count - shape - 1) * sizeof(mix->shapes[0]));
    mix->count--;
    add_up(mix);
}

status_t profile_mix_measure(profile_mix_t *mix, const profiler_t *profiler, err_t *err)
{
    uint32_t most = profiler->ops->info(profiler->model)->max_batch;
    uint32_t sizes[] = {1, (most + 1) / 2, most}, distinct[3], count = 0;
    status_t status = STATUS_OK;

    for (uint32_t i = 0; i < 3; i++)
        if (count == 0 || sizes[i] > distinct[count - 1])
            distinct[count++] = sizes[i];
    profiler_t at = *profiler;
    at.axes = mix->axes;
    at.sizes = distinct;
    at.size_count = count;
    at.size_goal_ns = 0; /* the usual, short one */
    for (uint32_t i = 0; i < mix->count && status == STATUS_OK; i++) {
        at.axis_sizes = mix->shapes[i].sizes;
        status = profiler_measure(&at, &mix->shapes[i].latency, err);
    }
    return status == STATUS_OK ? profiler_output_bytes(&at, mix->output_bytes, err) : status;
}

uint32_t profile_mix_draw(const profile_mix_t *mix, double u)
{
    uint32_t i = 0;

    while (i + 1 < mix->count && u >= mix->shapes[i].until)
        i++;
    return i + 1;
}
