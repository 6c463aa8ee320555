#include "oip/classification.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Outputs lie side by side in an item, so floats may start anywhere. */
static float load(const uint8_t *at)
{
    float value;
    memcpy(&value, at, sizeof value);
    return value;
}

static void store(uint8_t *at, float value)
{
    memcpy(at, &value, sizeof value);
}

static void softmax_row(uint8_t *scores, size_t classes)
{
    const size_t step = sizeof(float);
    float top = load(scores), sum = 0;
    for (size_t i = 1; i < classes; i++) {
        float score = load(scores + i * step);
        top = score > top ? score : top;
    }
    for (size_t i = 0; i < classes; i++) {
        float power = expf(load(scores + i * step) - top);
        store(scores + i * step, power);
        sum += power;
    }
    for (size_t i = 0; i < classes; i++)
        store(scores + i * step, load(scores + i * step) / sum);
}

void oip_softmax_fp32(void *scores, size_t rows, size_t classes)
{
    uint8_t *at = scores;
    if (classes == 0)
        return;
    for (size_t i = 0; i < rows; i++)
        softmax_row(at + i * classes * sizeof(float), classes);
}

status_t oip_classify_check(const oip_tensor_spec_t *output, uint32_t k, err_t *err)
{
    switch (output->datatype) {
    case OIP_BOOL:
    case OIP_FP16:
    case OIP_BF16:
    case OIP_BYTES:
        return err_set(err, STATUS_INVALID_ARGUMENT, "output '%s' is %s, classification needs numbers",
                       output->name, oip_datatype_name(output->datatype));
    default:
        break;
    }
    if (k == 0 || k > OIP_MAX_CLASSIFICATION)
        return err_set(err, STATUS_INVALID_ARGUMENT, "classification of output '%s' must be 1 to %d",
                       output->name, OIP_MAX_CLASSIFICATION);
    return STATUS_OK;
}

status_t oip_classify_shape(const oip_model_spec_t *spec, const oip_tensor_spec_t *output,
                            const oip_shape_t *row, uint32_t rows, uint32_t k, oip_shape_t *shape,
                            uint32_t *classes, err_t *err)
{
    uint64_t count;
    status_t status = oip_classify_check(output, k, err);
    if (status)
        return status;
    if (!oip_shape_elements(row, &count) || count == 0 || count > UINT32_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "output '%s' has nothing to classify", output->name);
    *classes = (uint32_t)count;
    uint32_t best = k < count ? k : (uint32_t)count;
    *shape = spec->max_batch > 0 ? (oip_shape_t){.rank = 2, .dims = {rows, best}}
                                 : (oip_shape_t){.rank = 1, .dims = {best}};
    return STATUS_OK;
}

/* "-3.402823e+38:4294967295:" and the prefix */
enum { SCORE_BYTES = 64 };

size_t oip_classify_row_bytes(const oip_model_spec_t *spec, uint32_t k)
{
    size_t longest = 0;
    for (uint32_t i = 0; i < spec->label_count; i++) {
        size_t len = strlen(spec->labels[i]);
        longest = len > longest ? len : longest;
    }
    return (size_t)k * (SCORE_BYTES + longest);
}

static double score_at(oip_datatype_t type, const uint8_t *row, uint32_t index)
{
    oip_element_t v = oip_element(type, row + index * oip_datatype_bytes(type));
    switch (type) {
    case OIP_UINT8:
        return v.u8;
    case OIP_INT8:
        return v.i8;
    case OIP_UINT16:
        return v.u16;
    case OIP_INT16:
        return v.i16;
    case OIP_UINT32:
        return v.u32;
    case OIP_INT32:
        return v.i32;
    case OIP_UINT64:
        return (double)v.u64;
    case OIP_INT64:
        return (double)v.i64;
    case OIP_FP32:
        return (double)v.f32;
    default:
        return v.f64;
    }
}

typedef struct {
    double score;
    uint32_t index;
} ranked_t;

/* NaN ranks last. */
static bool is_better(ranked_t a, ranked_t b)
{
    if (isnan(a.score) || isnan(b.score))
        return !isnan(a.score) || (isnan(b.score) && a.index < b.index);
    return a.score > b.score || (a.score == b.score && a.index < b.index);
}

/* Keeps the best ones sorted by insertion: k is small and most candidates fail the first comparison. */
static uint32_t rank(oip_datatype_t type, const void *row, uint32_t classes, uint32_t k, ranked_t *best)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < classes; i++) {
        ranked_t candidate = {.score = score_at(type, row, i), .index = i};
        if (count == k && !is_better(candidate, best[k - 1]))
            continue;
        uint32_t at = count < k ? count++ : k - 1;
        for (; at > 0 && is_better(candidate, best[at - 1]); at--)
            best[at] = best[at - 1];
        best[at] = candidate;
    }
    return count;
}

static size_t write_class(const oip_model_spec_t *spec, oip_datatype_t type, ranked_t ranked, uint8_t *out)
{
    char text[SCORE_BYTES];
    bool is_float = type == OIP_FP32 || type == OIP_FP64;
    uint32_t len = (uint32_t)(is_float ? snprintf(text, sizeof text, "%f:%u", ranked.score, ranked.index)
                                       : snprintf(text, sizeof text, "%.0f:%u", ranked.score, ranked.index));
    if (len >= sizeof text - sizeof len) /* numbers beyond 10^40 are shorter with an exponent */
        len = (uint32_t)snprintf(text, sizeof text, "%g:%u", ranked.score, ranked.index);
    const char *label = ranked.index < spec->label_count ? spec->labels[ranked.index] : NULL;
    uint32_t label_len = label && label[0] ? (uint32_t)strlen(label) : 0;
    uint32_t total = len + (label_len ? 1 + label_len : 0);
    memcpy(out, &total, sizeof total);
    memcpy(out + sizeof total, text, len);
    if (label_len) {
        out[sizeof total + len] = ':';
        memcpy(out + sizeof total + len + 1, label, label_len);
    }
    return sizeof total + total;
}

size_t oip_classify_row(const oip_model_spec_t *spec, oip_datatype_t type, const void *row, uint32_t classes,
                        uint32_t k, uint8_t *out)
{
    ranked_t best[OIP_MAX_CLASSIFICATION];
    size_t len = 0;
    uint32_t count = rank(type, row, classes, k < OIP_MAX_CLASSIFICATION ? k : OIP_MAX_CLASSIFICATION, best);
    for (uint32_t i = 0; i < count; i++)
        len += write_class(spec, type, best[i], out + len);
    return len;
}
