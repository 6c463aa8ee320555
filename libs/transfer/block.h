/* Memory for arenas and directories: each carrier makes its own kind (carrier.h), and where none can, it is a mapping like any other. */
#ifndef TRANSFER_BLOCK_H
#define TRANSFER_BLOCK_H

#include "transfer/carrier.h"

struct transfer_block {
    carrier_memory_t memory;
};

/* By the first carrier of the choice that can; a log line says of each that cannot. NO_MEMORY. */
status_t block_memory_make(transfer_choice_t choice, const char *address, const carrier_memory_t *beside,
                           size_t len_bytes, carrier_memory_t *memory, err_t *err);
void block_memory_free(carrier_memory_t *memory);

#endif
