/*
 * The programs that are carried to a GPU machine leave oneDNN out, which is many times their size: this takes
 * the place of its table in the list of backends.
 */
#include "engine/backends.h"

const engine_ops_t engine_onednn = {
    .abi = ENGINE_ABI, .size_bytes = sizeof(engine_ops_t), .name = "left out"};
