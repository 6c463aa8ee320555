/*
 * Batches that the core has stopped, until their worker says how that ended. Their tasks wait in the core
 * again; a batch that had ended before the word reached it has answered them all the same.
 */
#ifndef SCHEDULER_REVOKED_H
#define SCHEDULER_REVOKED_H

#include "control.pb-c.h"

#include <stdbool.h>

typedef struct scheduler scheduler_t;
typedef struct worker worker_t;
typedef struct device device_t;
typedef struct batch batch_t;

void revoked_note(const batch_t *batch, const scheduler_t *s);       /* while its tasks are still its own */
bool revoked_done(worker_t *worker, const Control__BatchDone *done); /* false: none such */
void revoked_forget(device_t *device);

#endif
