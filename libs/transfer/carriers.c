#include "transfer/carriers.h"

#ifdef FERMATA_RDMA
#include "transfer/ucx/hardware.h"
#endif

#include <string.h>

void carriers_of(transfer_choice_t choice, const carrier_ops_t *carriers[TRANSFER_WAYS])
{
    uint32_t count = 0;

    memset(carriers, 0, TRANSFER_WAYS * sizeof(*carriers));
    if (choice == TRANSFER_CHOOSE_AUTO)
        carriers[count++] = &carrier_shm;
#ifdef FERMATA_RDMA
    if (choice == TRANSFER_CHOOSE_RDMA || (choice == TRANSFER_CHOOSE_AUTO && ucx_has_hardware()))
        carriers[count++] = &carrier_rdma;
#endif
}
