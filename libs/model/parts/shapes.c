#include "model/parts/shapes.h"

#include "engine/compile/fit.h"

#include <stdio.h>
#include <string.h>

/* ---- choosing references ---- */

/* Sizes that suit sequences, and such that suit pictures: a network for pictures reduces them many times. */
static const uint32_t sequence_sizes[] = {16, 128, 512}, picture_sizes[] = {224, 448};
enum {
    SEQUENCE_SIZES = sizeof(sequence_sizes) / sizeof(sequence_sizes[0]),
    PICTURE_SIZES = sizeof(picture_sizes) / sizeof(picture_sizes[0]),
};

static uint32_t at_most(uint32_t size, uint32_t most)
{
    return size < most ? size : most;
}

/* Keeps them in order of their elements. Two of equal elements cost the same: one will do. */
static void add_reference(model_shapes_t *shapes, const uint32_t *sizes)
{
    uint64_t elements = axes_elements(&shapes->axes, sizes);
    uint32_t at = 0;

    while (at < shapes->reference_count && axes_elements(&shapes->axes, shapes->references[at]) < elements)
        at++;
    if (at < shapes->reference_count && axes_elements(&shapes->axes, shapes->references[at]) == elements)
        return;
    memmove(shapes->references[at + 1], shapes->references[at],
            (shapes->reference_count - at) * sizeof(shapes->references[0]));
    memcpy(shapes->references[at], sizes, sizeof(shapes->references[0]));
    shapes->reference_count++;
}

static status_t check_bounds(const axes_t *axes, const uint32_t *sizes, const char *key, err_t *err)
{
    for (uint32_t a = 0; a < axes->count; a++)
        if (sizes[a] > axes->list[a].size_max)
            return err_set(err, STATUS_INVALID_ARGUMENT, "%s: %u is beyond the largest size of '%s', %u", key,
                           sizes[a], axes->list[a].name, axes->list[a].size_max);
    return STATUS_OK;
}

static status_t configured(model_shapes_t *shapes, const reference_config_t *reference, err_t *err)
{
    const axes_t *axes = &shapes->axes;
    uint32_t sizes[AXES_MAX] = {0};

    for (uint32_t i = 0; i < reference->count; i++) {
        int32_t axis = axes_index(axes, reference->sizes[i].axis);
        if (axis < 0)
            return err_set(err, STATUS_INVALID_ARGUMENT,
                           "profile_shapes: no dimension '%s' varies in this model",
                           reference->sizes[i].axis);
        sizes[axis] = reference->sizes[i].size;
    }
    for (uint32_t a = 0; a < axes->count; a++)
        if (!sizes[a])
            return err_set(err, STATUS_INVALID_ARGUMENT, "profile_shapes: an entry has no size for '%s'",
                           axes->list[a].name);
    if (check_bounds(axes, sizes, "profile_shapes", err) != STATUS_OK)
        return err->code;
    add_reference(shapes, sizes);
    return STATUS_OK;
}

/* Whether the model takes a row of this shape: some engines tell before it runs. */
static bool works(const model_shapes_t *shapes, const shapes_choice_t *choice, const uint32_t *sizes,
                  err_t *err)
{
    engine_shape_t inputs[ENGINE_MAX_IO];

    axes_input_shapes(&shapes->axes, sizes, 1, inputs);
    if (choice->ops->prepare_shapes &&
        choice->ops->prepare_shapes(choice->model, 1, inputs, err) != STATUS_OK)
        return false;
    return !choice->takes || choice->takes(choice->takes_arg, sizes, err) == STATUS_OK;
}

/* How many sizes the axes are padded to; 0: none is. */
static uint32_t most_pad_sizes(const axes_t *axes)
{
    uint32_t most = 0;

    for (uint32_t a = 0; a < axes->count; a++)
        most = axes->list[a].pad_to_count > most ? axes->list[a].pad_to_count : most;
    return most;
}

/* Sizes of the i-th of `count` references spread over what the axes are padded to, the largest always among them. */
static void padded(const axes_t *axes, uint32_t i, uint32_t count, uint32_t *sizes)
{
    for (uint32_t a = 0; a < axes->count; a++) {
        const axis_t *axis = &axes->list[a];
        uint32_t last = axis->pad_to_count - 1;
        if (axis->pad_to_count)
            sizes[a] = axis->pad_to[count > 1 ? i * last / (count - 1) : last];
        else
            sizes[a] = at_most(sequence_sizes[1], axis->size_max);
    }
}

static bool has_pictures(const axes_t *axes)
{
    for (uint32_t i = 0; i < axes->info->input_count; i++) {
        uint32_t varying = 0;
        for (uint32_t k = 0; k < axes->info->inputs[i].rank; k++)
            varying += axes->of_input[i][k] != 0;
        if (varying >= 2 && axes->info->inputs[i].rank + axes->info->batchable == 4)
            return true;
    }
    return false;
}

/* The picture's sides are the last two dimensions of its input, or those before the last. False: it has other ones. */
static bool of_pipeline(const axes_t *axes, const shapes_choice_t *choice, uint32_t *sizes)
{
    for (uint32_t i = 0; i < axes->info->input_count; i++) {
        const engine_tensor_t *tensor = &axes->info->inputs[i];
        if (strcmp(tensor->name, choice->picture_input) != 0 || tensor->rank < 3)
            continue;
        uint32_t height = tensor->rank - (choice->channels_last ? 3 : 2);
        if (axes->of_input[i][height])
            sizes[axes->of_input[i][height] - 1] = choice->picture_height;
        if (axes->of_input[i][height + 1])
            sizes[axes->of_input[i][height + 1] - 1] = choice->picture_width;
        return true;
    }
    return false;
}

/* An axis that leads every input of a model whose rows are run one by one: how many rows a request has. */
static bool is_rows(const axes_t *axes, uint32_t a)
{
    for (uint32_t i = 0; i < axes->info->input_count; i++)
        if (axes->info->inputs[i].rank == 0 || axes->of_input[i][0] != a + 1)
            return false;
    return !axes->info->batchable;
}

/* rows: of a request, where that is an axis. */
static void all_of(const axes_t *axes, const fit_t *fit, uint32_t size, uint32_t rows, uint32_t *sizes)
{
    for (uint32_t a = 0; a < axes->count; a++)
        sizes[a] =
            at_most(is_rows(axes, a) ? rows : (uint32_t)fit_size(fit, a, size), axes->list[a].size_max);
}

/* What takes no small size of a pattern takes no larger one. */
static void choose_usual(model_shapes_t *shapes, const shapes_choice_t *choice, const fit_t *fit,
                         bool pictures, err_t *err)
{
    const uint32_t *usual = pictures ? picture_sizes : sequence_sizes;
    uint32_t sizes[AXES_MAX] = {0};

    for (uint32_t i = 0; i < (pictures ? PICTURE_SIZES : SEQUENCE_SIZES); i++) {
        all_of(&shapes->axes, fit, usual[i], shapes->axes.count == 1 ? i + 1 : 1, sizes);
        if (works(shapes, choice, sizes, err))
            add_reference(shapes, sizes);
        else if (fit->step > 0 && i == 0)
            return;
    }
}

/* One size for all axes, else what fits where they depend on one another. What is told of is what the first lacked. */
static void choose_fitting(model_shapes_t *shapes, const shapes_choice_t *choice, err_t *err)
{
    bool pictures = has_pictures(&shapes->axes);
    err_t why;
    fit_t fit;

    fit_first(&fit, FIT_TO_MEASURE, shapes->axes.count);
    do {
        choose_usual(shapes, choice, &fit, pictures, fit.step ? &why : err);
        if (shapes->reference_count == 0)
            choose_usual(shapes, choice, &fit, !pictures, &why);
    } while (shapes->reference_count == 0 && fit_next(&fit));
}

/* What the config asks for, else what it pads to. */
static status_t choose_wanted(model_shapes_t *shapes, const shape_config_t *config, err_t *err)
{
    uint32_t count = at_most(most_pad_sizes(&shapes->axes), REFERENCES_MAX), sizes[AXES_MAX] = {0};

    for (uint32_t i = 0; i < config->reference_count; i++)
        if (configured(shapes, &config->references[i], err) != STATUS_OK)
            return err->code;
    for (uint32_t i = 0; i < count && config->reference_count == 0; i++) {
        padded(&shapes->axes, i, count, sizes);
        add_reference(shapes, sizes);
    }
    return STATUS_OK;
}

/* A picture that the axes do not admit would have every request refused: better the model. */
static status_t choose_picture(model_shapes_t *shapes, const shapes_choice_t *choice, err_t *err)
{
    uint32_t sizes[AXES_MAX] = {0};
    fit_t fit;

    fit_first(&fit, FIT_TO_MEASURE, shapes->axes.count);
    all_of(&shapes->axes, &fit, picture_sizes[0], 1, sizes);
    if (!choice->picture_width || !of_pipeline(&shapes->axes, choice, sizes))
        return STATUS_OK;
    if (check_bounds(&shapes->axes, sizes, "preprocess", err) != STATUS_OK)
        return err->code;
    if (shapes->reference_count == 0)
        add_reference(shapes, sizes);
    return STATUS_OK;
}

status_t shapes_choose(model_shapes_t *shapes, const shapes_choice_t *choice, err_t *err)
{
    err_t why = {0};

    shapes->reference_count = 0;
    if (choose_wanted(shapes, choice->config, err) != STATUS_OK ||
        choose_picture(shapes, choice, err) != STATUS_OK)
        return err->code;
    shapes->wanted = shapes->reference_count > 0;
    if (!shapes->wanted)
        choose_fitting(shapes, choice, &why);
    if (shapes->reference_count == 0)
        return err_set(
            err, STATUS_INVALID_ARGUMENT,
            "the model takes none of the usual sizes, so config.yaml must give profile_shapes: %.300s",
            why.text);
    return STATUS_OK;
}

status_t shapes_prepare(const model_shapes_t *shapes, const engine_ops_t *ops, engine_model_t *model,
                        const _Atomic(int) *stop, err_t *err)
{
    engine_shape_t inputs[ENGINE_MAX_IO];

    if (!ops->prepare_shapes || !shapes->wanted)
        return STATUS_OK;
    for (uint32_t r = 0; r < shapes->reference_count; r++) {
        for (uint32_t b = 1; b <= shapes->axes.info->max_batch; b++) {
            if (atomic_load(stop))
                return err_set(err, STATUS_CANCELLED, "stopped");
            axes_input_shapes(&shapes->axes, shapes->references[r], b, inputs);
            status_t status = ops->prepare_shapes(model, b, inputs, err);
            if (status != STATUS_OK)
                return status;
        }
    }
    return STATUS_OK;
}

bool shapes_fit(const model_shapes_t *shapes, const uint32_t *sizes)
{
    return axes_within(&shapes->axes, sizes, shapes_largest(shapes));
}

/* ---- correcting ---- */

void shapes_start(model_shapes_t *shapes)
{
    shapes->measured = shapes->family;
    for (uint32_t m = 0; m < shapes->family.count; m++)
        correction_init(&shapes->corrections[m], shapes->measured.members[m].profile.spread);
}

static void correct(model_shapes_t *shapes, uint32_t m)
{
    correction_apply(&shapes->corrections[m], &shapes->measured.members[m].profile,
                     &shapes->family.members[m].profile);
}

void shapes_take(model_shapes_t *shapes, uint32_t reference, const profile_t *profile)
{
    shapes->measured.members[reference].profile = *profile;
    correction_init(&shapes->corrections[reference], profile->spread);
    correct(shapes, reference);
}

bool shapes_took(model_shapes_t *shapes, const uint32_t *sizes, uint32_t batch, int64_t exec_ns)
{
    uint64_t elements = axes_elements(&shapes->axes, sizes);
    uint32_t nearest = family_nearest(&shapes->measured, elements);
    const family_member_t *members = shapes->measured.members;
    const profile_t *base = &members[nearest].profile;

    /* Beyond the references a wrong prediction is the line's fault, not theirs. */
    if (elements < members[0].elements || elements > members[shapes->measured.count - 1].elements)
        return false;
    int64_t here_ns = family_latency_ns(&shapes->measured, elements, batch);

    /* As long as the reference would have taken, if it is off by as much. */
    if (here_ns > 0)
        exec_ns = (int64_t)((double)exec_ns * (double)profile_latency_ns(base, batch) / (double)here_ns);
    correction_add(&shapes->corrections[nearest], base, batch, exec_ns);
    return correction_is_due(&shapes->corrections[nearest]);
}

void shapes_correct(model_shapes_t *shapes)
{
    for (uint32_t m = 0; m < shapes->family.count; m++)
        correct(shapes, m);
}

const char *shapes_text(const axes_t *axes, const uint32_t *sizes, char text[SHAPES_TEXT_BYTES])
{
    size_t len = 0;

    text[0] = '\0';
    for (uint32_t a = 0; a < axes->count && len < SHAPES_TEXT_BYTES; a++)
        len += (size_t)snprintf(text + len, SHAPES_TEXT_BYTES - len, "%s%u", a ? "x" : "", sizes[a]);
    return text;
}
