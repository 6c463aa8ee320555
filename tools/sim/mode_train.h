/*
 * Trains Abacus's duration model on samples of the emulated device (papers/abacus.txt 5.4, 5.5).
 */
#ifndef SIM_MODE_TRAIN_H
#define SIM_MODE_TRAIN_H

#include "exec/trainer.h"
#include "mode_scenario.h"

typedef struct {
    double mlp, linear; /* mean absolute percentage errors on the fifth that was not trained on */
} mode_errors_t;

/* Duration of a group, measured by running it on a device of its own. */
status_t mode_measure_group(const mode_scenario_t *scenario, const overlap_group_t *group, int64_t *ns,
                            err_t *err);

/* Instance-based sampling of `samples` groups of the scenario's services, 80 % to train, 20 % to test. limited: as in
 * trainer_services_t. */
status_t mode_train(const mode_scenario_t *scenario, bool limited, uint32_t samples, uint32_t epochs,
                    uint64_t seed, predictor_t *predictor, mode_errors_t *errors, err_t *err);

#endif
