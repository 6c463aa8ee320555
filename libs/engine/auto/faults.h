/*
 * What engines are known to compute wrongly, so that a model with it does not go on them while another takes it. One table, by
 * operator and condition; each entry has a case of ONNX's own that fails there and passes on onednn.
 */
#ifndef ENGINE_AUTO_FAULTS_H
#define ENGINE_AUTO_FAULTS_H

#include "engine/engine.h"

enum { FAULTS_ENGINES = 3 };

/* Which engine computes what wrongly: a reason, or NULL. */
typedef struct {
    const char *engine, *reason;
} fault_t;

/* Of the file or the bytes of `what`; `faults` ends with an entry without a name. What cannot be read has none: a load tells. */
void faults_find(const engine_load_t *what, fault_t faults[FAULTS_ENGINES + 1]);

/* NULL: none is known of that engine. */
const char *faults_of(const fault_t *faults, const char *engine);

#endif
