/* Inside of transfer_secret_t (trust.h). */
#ifndef TRANSFER_SECRET_H
#define TRANSFER_SECRET_H

#include "transfer/trust.h"

#include <stddef.h>
#include <stdint.h>

struct transfer_secret {
    size_t len;
    uint8_t bytes[TRANSFER_SECRET_BYTES_MAX];
};

#endif
