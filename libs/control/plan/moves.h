/* Models on their way from one sub-cluster to another: loaded there, then served there, then unloaded
 * where they were. */
#ifndef CONTROL_PLAN_MOVES_H
#define CONTROL_PLAN_MOVES_H

#include "control/models/model.h"

/* Under way; embedded in the planner. */
typedef struct {
    struct move *first;
    uint32_t count;
    uint64_t done, failed; /* since the start */
} moves_t;

/* from NULL: it is served nowhere. False: no memory. */
bool moves_begin(moves_t *moves, models_t *models, model_t *model, const subcluster_t *from,
                 subcluster_t *to);
/* After all workers have gone. */
void moves_dispose(moves_t *moves);

#endif
