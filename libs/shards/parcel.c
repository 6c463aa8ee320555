#include "shards/parcel.h"

#include <stdlib.h>

parcel_t *parcel_create(uint32_t model, uint32_t count)
{
    parcel_t *parcel = calloc(1, sizeof *parcel + count * sizeof parcel->tasks[0]);
    if (parcel) {
        parcel->tasks = (parcel_task_t *)(void *)(parcel + 1);
        parcel->model = model;
        parcel->count = count;
    }
    return parcel;
}

void parcel_send(parcel_list_t *list, parcel_t *parcel)
{
    parcel->next = atomic_load_explicit(list, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(list, &parcel->next, parcel, memory_order_release,
                                                  memory_order_relaxed))
        ;
}

parcel_t *parcel_take_all(parcel_list_t *list)
{
    if (!atomic_load_explicit(list, memory_order_relaxed))
        return NULL;
    parcel_t *last_first = atomic_exchange_explicit(list, NULL, memory_order_acquire), *first = NULL;
    while (last_first) {
        parcel_t *next = last_first->next;
        last_first->next = first;
        first = last_first;
        last_first = next;
    }
    return first;
}
