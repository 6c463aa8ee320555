#include "mode_train.h"

#include <stdlib.h>
#include <string.h>

status_t mode_measure_group(const mode_scenario_t *scenario, const overlap_group_t *group, int64_t *ns,
                            err_t *err)
{
    accel_t *device = accel_create(group->count, MODE_OPS_MAX + 1, err);
    accel_op_t ops[MODE_OPS_MAX + 1];
    uint64_t tag;
    if (!device)
        return err->code;
    status_t status = STATUS_OK;
    for (uint32_t i = 0; i < group->count && status == STATUS_OK; i++)
        status = accel_launch(device, i, i, ops, mode_operators(scenario, &group->parts[i], ops), err);
    *ns = 0;
    for (int64_t at = accel_next_ns(device); at != ACCEL_NEVER; at = accel_next_ns(device)) {
        accel_advance(device, at);
        while (accel_take_ended(device, &tag))
            *ns = at;
    }
    accel_destroy(device);
    return status;
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
        overlap_group_t group = trainer_draw_group(&services, prng);
        int64_t ns;
        status_t status = mode_measure_group(scenario, &group, &ns, err);
        if (status != STATUS_OK)
            return status;
        samples[i] = trainer_sample(predictor, &group, ns);
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
