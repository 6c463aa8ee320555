#include "mode_train.h"

#include <stdlib.h>
#include <string.h>

int64_t mode_measure_group(const mode_scenario_t *scenario, accel_t *device, const overlap_group_t *group)
{
    uint64_t tag;
    int64_t start = -1, at = 0;
    for (uint32_t i = 0; i < group->count; i++) {
        const exec_part_t *part = &group->parts[i];
        accel_op_t ops[MODE_OPS_MAX + 1] = {{.ns = (int64_t)(scenario->launch_us * 1e3)}};
        uint32_t count = 1;
        for (uint32_t op = part->from; op < part->to; op++)
            ops[count++] = mode_op(&scenario->models[part->model].ops[op], part->rows, part->length);
        accel_launch(device, part->stream, i, ops, count, NULL);
    }
    while ((at = accel_next_ns(device)) != ACCEL_NEVER) {
        accel_advance(device, at);
        while (accel_take_ended(device, &tag))
            start = at;
    }
    return start;
}

static trainer_services_t services_of(const mode_scenario_t *scenario, bool limited)
{
    trainer_services_t services = {.models = scenario->model_count, .limited = limited};
    for (uint32_t i = 0; i < scenario->model_count; i++) {
        const mode_model_t *model = &scenario->models[i];
        services.model[i].ops = model->op_count;
        services.model[i].row_count = model->batch_count;
        memcpy(services.model[i].rows, model->batches, sizeof(model->batches));
        services.model[i].length_count = model->length_count;
        memcpy(services.model[i].lengths, model->lengths, sizeof(model->lengths));
        memcpy(services.model[i].weights, model->weights, sizeof(model->weights));
    }
    return services;
}

static status_t draw_samples(const mode_scenario_t *scenario, bool limited, const predictor_t *predictor,
                             trainer_sample_t *samples, uint32_t count, prng_t *prng, err_t *err)
{
    trainer_services_t services = services_of(scenario, limited);
    for (uint32_t i = 0; i < count; i++) {
        accel_t *device = accel_create(scenario->model_count, MODE_OPS_MAX + 1, err);
        if (!device)
            return STATUS_NO_MEMORY;
        overlap_group_t group = trainer_draw_group(&services, prng);
        samples[i] = trainer_sample(predictor, &group, mode_measure_group(scenario, device, &group));
        accel_destroy(device);
    }
    return STATUS_OK;
}

status_t mode_train(const mode_scenario_t *scenario, bool limited, uint32_t samples, uint32_t epochs,
                    uint64_t seed, predictor_t *predictor, mode_errors_t *errors, err_t *err)
{
    static trainer_t trainer;
    uint32_t ops[OVERLAP_MODELS_MAX], trained = samples / 5 * 4;
    trainer_line_t line;
    prng_t prng;
    prng_init_stream(&prng, seed, 77);
    for (uint32_t i = 0; i < scenario->model_count; i++)
        ops[i] = scenario->models[i].op_count;
    memset(predictor, 0, sizeof(*predictor));
    predictor_init(predictor, scenario->model_count, ops, 32, 64);
    trainer_sample_t *list = calloc(samples, sizeof(*list));
    status_t status = list ? draw_samples(scenario, limited, predictor, list, samples, &prng, err)
                           : err_set(err, STATUS_NO_MEMORY, "no memory for %u samples", samples);
    if (status == STATUS_OK) {
        trainer_fit(&trainer, predictor, list, trained, epochs, &prng);
        errors->mlp = trainer_error(predictor, list + trained, samples - trained);
        trainer_fit_linear(&line, list, trained, predictor->width[0]);
        errors->linear = trainer_line_error(&line, list + trained, samples - trained);
    }
    free(list);
    return status;
}
