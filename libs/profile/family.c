#include "profile/family.h"

#include <math.h>
#include <string.h>

/* As in profile.c: nothing that is served takes longer. */
static const double LATENCY_MOST_NS = 3600e9;

status_t family_add(family_t *family, uint64_t elements, const profile_t *profile, err_t *err)
{
    uint32_t at = 0;

    while (at < family->count && family->members[at].elements < elements)
        at++;
    if (at < family->count && family->members[at].elements == elements) {
        profile_merge_slower(&family->members[at].profile, profile);
        return STATUS_OK;
    }
    if (family->count == FAMILY_MAX)
        return err_set(err, STATUS_TOO_LARGE, "more than %d reference sizes", FAMILY_MAX);
    memmove(&family->members[at + 1], &family->members[at],
            (family->count - at) * sizeof(family->members[0]));
    family->members[at] = (family_member_t){.elements = elements, .profile = *profile};
    family->count++;
    return STATUS_OK;
}

static double latency_of(const family_t *family, uint32_t member, uint32_t batch)
{
    return (double)profile_latency_ns(&family->members[member].profile, batch);
}

/* The line through two members; it never falls: what is larger is not faster. */
static double on_line(const family_t *family, uint32_t first, uint64_t elements, uint32_t batch)
{
    double from = (double)family->members[first].elements, to = (double)family->members[first + 1].elements;
    double low = latency_of(family, first, batch), high = fmax(low, latency_of(family, first + 1, batch));

    return low + (high - low) * ((double)elements - from) / (to - from);
}

int64_t family_latency_ns(const family_t *family, uint64_t elements, uint32_t batch)
{
    uint32_t last = family->count - 1, at = 0;
    double ns;

    if (elements <= family->members[0].elements)
        return profile_latency_ns(&family->members[0].profile, batch);
    while (at < last && family->members[at + 1].elements < elements)
        at++;
    if (last == 0)
        ns = latency_of(family, 0, batch) * (double)elements / (double)family->members[0].elements;
    else
        ns = on_line(family, at < last ? at : last - 1, elements, batch);
    return llround(fmin(ns, LATENCY_MOST_NS));
}

void family_profile(const family_t *family, uint64_t elements, profile_t *profile)
{
    profile_point_t points[PROFILE_TABLE_MAX];
    uint32_t max_batch = PROFILE_BATCH_MAX;

    for (uint32_t m = 0; m < family->count; m++)
        if (family->members[m].profile.max_batch < max_batch)
            max_batch = family->members[m].profile.max_batch;
    uint32_t len = max_batch < PROFILE_TABLE_MAX ? max_batch : PROFILE_TABLE_MAX;
    for (uint32_t b = 1; b <= len; b++)
        points[b - 1] = (profile_point_t){.batch = b, .latency_ns = family_latency_ns(family, elements, b)};
    if (profile_from_points(profile, points, len, max_batch, NULL) != STATUS_OK)
        *profile = family->members[0].profile; /* latencies within bounds never come here */
}

uint32_t family_nearest(const family_t *family, uint64_t elements)
{
    uint32_t nearest = 0;

    for (uint32_t m = 1; m < family->count; m++)
        if (fabs((double)family->members[m].elements - (double)elements) <
            fabs((double)family->members[nearest].elements - (double)elements))
            nearest = m;
    return nearest;
}
