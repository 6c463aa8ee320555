/*
 * What models may take of a device: the worker refuses one that does not fit, before it is read and when all
 * of it is known, and says the sizes. Counted are weights, the work space of the largest batch, one set of
 * batch buffers and what the mode keeps between parts of a batch. Any thread.
 */
#ifndef MODEL_MEMORY_H
#define MODEL_MEMORY_H

#include "model/model.h"

/* Before the load: room for its files on all devices, for less it never takes; so that those that are loaded at once
 * do not find the same room. NO_MEMORY with the sizes. */
status_t memory_take_files(model_t *model, const model_devices_t *devices, err_t *err);

/* What loading it takes, as its trial found, in place of what its files have, until memory_take; NO_MEMORY with the sizes. */
status_t memory_take_loading(model_t *model, const model_devices_t *devices, err_t *err);

/* A batch size has been prepared on the first device: what the model takes if no larger one is. */
void memory_note_batch(model_t *model, uint32_t batch);

/* All of it is known: takes the room on all devices, what its files have with it, or NO_MEMORY with the sizes. */
status_t memory_take(model_t *model, const model_devices_t *devices, err_t *err);
/* Behind it: as much again is left on each device. */
bool memory_is_ample(const model_t *model, const model_devices_t *devices);
/* Behind memory_take: room for more, whatever the batch size. `what` needs it. */
status_t memory_take_more(model_t *model, const model_devices_t *devices, uint64_t bytes, const char *what,
                          err_t *err);
/* Gives back what was taken beyond these. */
void memory_shrink(model_t *model, const model_devices_t *devices, uint64_t taken_bytes);
/* Gives back what was taken. */
void memory_give(model_t *model, const model_devices_t *devices);

#endif
