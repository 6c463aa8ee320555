/*
 * The file that makes a shared object out of the libraries; they export one symbol (plugin.map).
 */
#include "engine/engine.h"

const engine_ops_t *fermata_engine(uint32_t abi);

/* Refers to it, so that the linker takes it out of its archive. */
__attribute__((used)) static const engine_ops_t *(*const entry)(uint32_t abi) = fermata_engine;
