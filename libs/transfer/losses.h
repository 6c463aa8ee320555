/* What the kernel knows of a TCP connection's losses on the way to here. */
#ifndef TRANSFER_LOSSES_H
#define TRANSFER_LOSSES_H

#include <stdbool.h>
#include <stdint.h>

/* Packets that came out of order so far: they overtook one that was lost. False: this kernel does not tell (before 5.4). */
bool losses_out_of_order(int fd, uint32_t *packets);

#endif
