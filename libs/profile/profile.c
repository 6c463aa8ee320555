#include "profile/profile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* No latency is longer: with PROFILE_BATCH_MAX it keeps every product within int64. */
#define LATENCY_MAX_NS (INT64_C(3600) * 1000000000)

static status_t check_max_batch(uint32_t max_batch, err_t *err)
{
    if (max_batch >= 1 && max_batch <= PROFILE_BATCH_MAX)
        return STATUS_OK;
    return err_set(err, STATUS_INVALID_ARGUMENT, "max_batch is %u, not within 1..%d", max_batch,
                   PROFILE_BATCH_MAX);
}

status_t profile_from_line(profile_t *profile, int64_t alpha_ns, int64_t beta_ns, uint32_t max_batch,
                           err_t *err)
{
    status_t status = check_max_batch(max_batch, err);
    if (status != STATUS_OK)
        return status;
    if (alpha_ns < 0 || alpha_ns > LATENCY_MAX_NS || beta_ns < 0 || beta_ns > LATENCY_MAX_NS)
        return err_set(err, STATUS_INVALID_ARGUMENT, "alpha or beta is negative or longer than an hour");
    *profile = (profile_t){.alpha_ns = alpha_ns, .beta_ns = beta_ns, .max_batch = max_batch, .spread = 1};
    return STATUS_OK;
}

static int64_t round_at_least_zero(double value)
{
    return value > 0 ? llround(value) : 0;
}

/* What counts is how far the line is off in parts of the latency, so a point weighs by the square of its
 * inverse: else the largest batches, whose noise is largest too, would place the line for all. */
void profile_fit(const profile_point_t *points, uint32_t count, int64_t *alpha_ns, int64_t *beta_ns,
                 double *residual)
{
    double sw = 0, sx = 0, sy = 0, sxx = 0, sxy = 0, squares = 0;
    for (uint32_t i = 0; i < count; i++) {
        double x = points[i].batch, y = (double)points[i].latency_ns;
        double w = y > 1 ? 1 / (y * y) : 1;
        sw += w;
        sx += w * x;
        sy += w * y;
        sxx += w * x * x;
        sxy += w * x * y;
    }
    double spread = sw * sxx - sx * sx;
    /* One size alone has no spread but what rounding leaves. */
    double alpha = spread > 1e-12 * sw * sxx ? (sw * sxy - sx * sy) / spread : sxy / sxx;
    double beta = (sy - alpha * sx) / sw;
    if (alpha < 0) { /* the best line that does not fall is flat */
        alpha = 0;
        beta = sy / sw;
    } else if (beta < 0) { /* the best line through the origin */
        alpha = sxy / sxx;
        beta = 0;
    }
    *alpha_ns = round_at_least_zero(alpha);
    *beta_ns = round_at_least_zero(beta);
    for (uint32_t i = 0; i < count; i++) {
        double y = (double)points[i].latency_ns;
        double off = y > 0 ? (y - alpha * points[i].batch - beta) / y : 0;
        squares += off * off;
    }
    *residual = sqrt(squares / count);
}

static status_t check_points(const profile_point_t *points, uint32_t count, err_t *err)
{
    if (count == 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "a profile needs at least one measurement");
    for (uint32_t i = 0; i < count; i++) {
        if (points[i].batch == 0 || points[i].batch > PROFILE_BATCH_MAX)
            return err_set(err, STATUS_INVALID_ARGUMENT, "batch %u is not within 1..%d", points[i].batch,
                           PROFILE_BATCH_MAX);
        if (points[i].latency_ns < 0 || points[i].latency_ns > LATENCY_MAX_NS)
            return err_set(err, STATUS_INVALID_ARGUMENT,
                           "latency of batch %u is negative or longer than an hour", points[i].batch);
    }
    return STATUS_OK;
}

static uint32_t count_sizes(const profile_point_t *points, uint32_t count)
{
    uint32_t sizes = 0;

    for (uint32_t i = 0; i < count; i++) {
        bool before = false;
        for (uint32_t k = 0; k < i; k++)
            before |= points[k].batch == points[i].batch;
        sizes += !before;
    }
    return sizes;
}

/* Puts each measurement into its slot; the others stay negative. Returns the table's length. */
static uint32_t fill_measured(profile_t *profile, const profile_point_t *points, uint32_t count)
{
    uint32_t len = 0;
    for (uint32_t b = 1; b <= PROFILE_TABLE_MAX; b++)
        profile->table_ns[b] = -1;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t b = points[i].batch;
        if (b > PROFILE_TABLE_MAX)
            continue;
        if (points[i].latency_ns > profile->table_ns[b])
            profile->table_ns[b] = points[i].latency_ns;
        if (b > len)
            len = b;
    }
    return len;
}

/* Sizes below the first measured one take the first: never an under-estimate. */
static void fill_gaps(profile_t *profile)
{
    uint32_t known = 0;
    for (uint32_t b = 1; b <= profile->table_len; b++) {
        if (profile->table_ns[b] < 0)
            continue;
        for (uint32_t gap = known + 1; gap < b; gap++) {
            int64_t rise = known ? profile->table_ns[b] - profile->table_ns[known] : 0;
            int64_t from = known ? profile->table_ns[known] : profile->table_ns[b];
            profile->table_ns[gap] = from + rise * (int64_t)(gap - known) / (int64_t)(b - known);
        }
        known = b;
    }
}

static void make_monotone(profile_t *profile)
{
    profile->table_ns[0] = 0;
    for (uint32_t b = 1; b <= profile->table_len; b++) {
        if (profile->table_ns[b] < profile->table_ns[b - 1]) {
            profile->table_ns[b] = profile->table_ns[b - 1];
            profile->repaired = true;
        }
    }
}

status_t profile_from_points(profile_t *profile, const profile_point_t *points, uint32_t count,
                             uint32_t max_batch, err_t *err)
{
    status_t status = check_points(points, count, err);
    if (status != STATUS_OK)
        return status;
    uint32_t largest = 0;
    for (uint32_t i = 0; i < count; i++)
        largest = points[i].batch > largest ? points[i].batch : largest;
    if (max_batch == 0)
        max_batch = largest;
    status = check_max_batch(max_batch, err);
    if (status != STATUS_OK)
        return status;
    memset(profile, 0, sizeof(*profile));
    profile->max_batch = max_batch;
    profile->points = count_sizes(points, count);
    profile->spread = 1;
    profile_fit(points, count, &profile->alpha_ns, &profile->beta_ns, &profile->residual);
    profile->table_len = fill_measured(profile, points, count);
    fill_gaps(profile);
    make_monotone(profile);
    memset(&profile->table_ns[profile->table_len + 1], 0,
           (PROFILE_TABLE_MAX - profile->table_len) * sizeof(profile->table_ns[0]));
    return STATUS_OK;
}

void profile_merge_slower(profile_t *into, const profile_t *other)
{
    profile_t merged = *into;
    uint32_t len = into->table_len > other->table_len ? into->table_len : other->table_len;
    merged.max_batch = into->max_batch < other->max_batch ? into->max_batch : other->max_batch;
    merged.alpha_ns = into->alpha_ns > other->alpha_ns ? into->alpha_ns : other->alpha_ns;
    merged.beta_ns = into->beta_ns > other->beta_ns ? into->beta_ns : other->beta_ns;
    merged.residual = into->residual > other->residual ? into->residual : other->residual;
    merged.points = into->points < other->points ? into->points : other->points;
    merged.spread = into->spread > other->spread ? into->spread : other->spread;
    merged.noise = into->noise > other->noise ? into->noise : other->noise;
    merged.repaired = into->repaired || other->repaired;
    /* Two lines cross: only a table can hold the slower of them at each size. */
    if (len == 0 && (into->alpha_ns - other->alpha_ns) * (into->beta_ns - other->beta_ns) < 0)
        len = PROFILE_TABLE_MAX;
    merged.table_len = len;
    for (uint32_t b = 1; b <= len; b++) {
        int64_t a = profile_latency_ns(into, b), c = profile_latency_ns(other, b);
        merged.table_ns[b] = a > c ? a : c;
    }
    *into = merged;
}

void profile_continue(profile_t *profile, const profile_t *other)
{
    uint32_t last = profile->table_len;

    if (last == 0 || other->table_len <= last || other->table_ns[last] <= 0)
        return;
    double ratio = (double)profile->table_ns[last] / (double)other->table_ns[last];
    for (uint32_t b = last + 1; b <= other->table_len; b++) {
        int64_t ns = llround(fmin((double)other->table_ns[b] * ratio, (double)LATENCY_MAX_NS));
        profile->table_ns[b] = ns > profile->table_ns[b - 1] ? ns : profile->table_ns[b - 1];
    }
    profile->table_len = other->table_len;
    profile->alpha_ns = llround(fmin((double)other->alpha_ns * ratio, (double)LATENCY_MAX_NS));
    profile->beta_ns = llround(fmin((double)other->beta_ns * ratio, (double)LATENCY_MAX_NS));
    profile->residual = other->residual;
    profile->points = other->points > profile->points ? other->points : profile->points;
}

static uint32_t largest_on_line(int64_t budget_ns, int64_t slope_ns, uint32_t max_batch)
{
    if (slope_ns == 0)
        return max_batch;
    int64_t batch = budget_ns / slope_ns;
    return batch < (int64_t)max_batch ? (uint32_t)batch : max_batch;
}

uint32_t profile_largest_batch_sloped(const profile_t *profile, int64_t budget_ns, int64_t extra_ns)
{
    uint32_t len = profile->table_len < profile->max_batch ? profile->table_len : profile->max_batch;
    if (budget_ns < profile_latency_ns(profile, 1) + extra_ns)
        return 0;
    if (profile->table_len == 0)
        return largest_on_line(budget_ns - profile->beta_ns, profile->alpha_ns + extra_ns,
                               profile->max_batch);
    if (len < profile->max_batch) {
        int64_t over = budget_ns - profile->table_ns[len] - extra_ns * (int64_t)len;
        if (over >= 0)
            return len + largest_on_line(over, profile->alpha_ns + extra_ns, profile->max_batch - len);
    }
    uint32_t fits = 1, beyond = len + 1;
    while (beyond - fits > 1) {
        uint32_t middle = fits + (beyond - fits) / 2;
        if (profile->table_ns[middle] + extra_ns * (int64_t)middle <= budget_ns)
            fits = middle;
        else
            beyond = middle;
    }
    return fits;
}

const char *profile_validate(const profile_t *profile)
{
    if (profile->max_batch == 0 || profile->max_batch > PROFILE_BATCH_MAX)
        return "max_batch is out of range";
    if (profile->table_len > PROFILE_TABLE_MAX)
        return "the table is longer than its array";
    if (profile->alpha_ns < 0 || profile->beta_ns < 0)
        return "the fit falls or begins below zero";
    if (!(profile->noise >= 0 && profile->noise < 1))
        return "the noise is no share";
    for (uint32_t b = 1; b <= profile->table_len; b++) {
        if (profile->table_ns[b] < profile->table_ns[b - 1])
            return "the table falls";
    }
    return NULL;
}
