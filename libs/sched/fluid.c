#include "sched/fluid.h"

#include <math.h>

enum { HALVINGS = 30 }; /* to 1e-9 of the first interval */

static fluid_model_t *model_at(const fluid_models_t *models, uint32_t i)
{
    return (fluid_model_t *)(void *)((char *)models->first + (uint64_t)i * models->stride);
}

double fluid_batch(const fluid_model_t *model, double margin)
{
    double slack = model->slo - margin - model->beta;
    double batch = (1 + model->growth * (slack > 0 ? slack : 0)) / (1 + model->growth * model->alpha);
    return batch < model->least ? model->least : batch > model->most ? model->most : batch;
}

double fluid_use(const fluid_model_t *model, double batch)
{
    double busy = model->busy_fixed + model->busy_row * batch;
    return model->rate * (model->alpha + model->beta / batch) * (busy > 0 && busy < 1 ? busy : 1);
}

double fluid_use_at_margin(const fluid_models_t *models, double margin)
{
    double use = 0;
    for (uint32_t i = 0; i < models->count; i++) {
        const fluid_model_t *model = model_at(models, i);
        if (model->rate > 0)
            use += fluid_use(model, fluid_batch(model, margin));
    }
    return use;
}

double fluid_margin(const fluid_models_t *models, double gpus, double most)
{
    if (fluid_use_at_margin(models, most) <= gpus)
        return most;
    double low = 0, high = most;
    for (int i = 0; i < HALVINGS; i++) {
        double middle = (low + high) / 2;
        if (fluid_use_at_margin(models, middle) <= gpus)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static double use_at_price(const fluid_models_t *models, double price)
{
    double use = 0;
    for (uint32_t i = 0; i < models->count; i++) {
        const fluid_model_t *model = model_at(models, i);
        if (!(model->rate > 0))
            continue;
        double most = fluid_batch(model, 0), batch = model->beta * model->rate / price;
        use += fluid_use(model, batch < model->least ? model->least : batch > most ? most : batch);
    }
    return use;
}

double fluid_price(const fluid_models_t *models, double gpus)
{
    double dearest = 0; /* at this price all batches are of one */
    for (uint32_t i = 0; i < models->count; i++) {
        const fluid_model_t *model = model_at(models, i);
        dearest = fmax(dearest, model->rate * model->beta);
    }
    if (!(dearest > 0) || use_at_price(models, dearest) <= gpus)
        return INFINITY;
    double low = 0, high = dearest;
    for (int i = 0; i < HALVINGS; i++) {
        double middle = (low + high) / 2;
        if (use_at_price(models, middle) <= gpus)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void fluid_scale_to(const fluid_models_t *models, double gpus)
{
    double low = 0, high = 1;
    for (int i = 0; i < HALVINGS; i++) {
        double use = 0, middle = (low + high) / 2;
        for (uint32_t m = 0; m < models->count; m++) {
            fluid_model_t scaled = *model_at(models, m);
            scaled.rate *= middle;
            scaled.growth *= middle;
            if (scaled.rate > 0)
                use += fluid_use(&scaled, fluid_batch(&scaled, 0));
        }
        if (use <= gpus)
            low = middle;
        else
            high = middle;
    }
    for (uint32_t m = 0; m < models->count; m++) {
        model_at(models, m)->rate *= low;
        model_at(models, m)->growth *= low;
    }
}

double fluid_erlang_c(uint32_t gpus, double load)
{
    if (gpus == 0 || load >= gpus)
        return 1;
    double blocked = 1; /* Erlang B, by its recursion */
    for (uint32_t g = 1; g <= gpus; g++)
        blocked = load * blocked / (g + load * blocked);
    return blocked / (1 - load / gpus * (1 - blocked));
}
