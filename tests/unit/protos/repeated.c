#include "repeated.h"

#include "control.pb-c.h"

#include <criterion/criterion.h>
#include <stdlib.h>

Test(repeated, messages_are_initialised_and_apart)
{
    Control__Device **list = repeated_make(&control__device__descriptor, 3, NULL);
    cr_assert_not_null(list);
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert(protobuf_c_message_check(&list[i]->base));
        cr_assert_str_eq(list[i]->name, "", "a string that is not set is empty, not NULL");
        list[i]->memory_bytes = i;
        list[i]->slots = i;
    }
    for (uint32_t i = 0; i < 3; i++)
        cr_assert(list[i]->memory_bytes == i && list[i]->slots == i);
    free(list);
}

Test(repeated, they_can_be_packed)
{
    Control__WorkerToScheduler message = CONTROL__WORKER_TO_SCHEDULER__INIT;
    message.devices = repeated_make(&control__device_state__descriptor, 2, NULL);
    message.n_devices = 2;
    message.devices[1]->device = 7;
    uint8_t bytes[64];
    size_t len = control__worker_to_scheduler__get_packed_size(&message);
    cr_assert_leq(len, sizeof bytes);
    control__worker_to_scheduler__pack(&message, bytes);
    free(message.devices);
    Control__WorkerToScheduler *back = control__worker_to_scheduler__unpack(NULL, len, bytes);
    cr_assert_not_null(back);
    cr_assert_eq(back->n_devices, 2);
    cr_assert_eq(back->devices[1]->device, 7);
    control__worker_to_scheduler__free_unpacked(back, NULL);
}

Test(repeated, none_is_a_list_too)
{
    void *list = repeated_make(&control__device__descriptor, 0, NULL);
    cr_assert_not_null(list);
    free(list);
}

static void *refuse(void *data, size_t bytes)
{
    *(size_t *)data = bytes;
    return NULL;
}

Test(repeated, an_allocator_without_memory_is_asked_once_for_all)
{
    size_t asked = 0;
    ProtobufCAllocator allocator = {.alloc = refuse, .allocator_data = &asked};
    cr_assert_null(repeated_make(&control__device__descriptor, 5, &allocator));
    cr_assert_geq(asked, 5 * sizeof(Control__Device));
}
