#include "repeated.h"

#include <stdlib.h>

void *repeated_make(const ProtobufCMessageDescriptor *type, size_t count, ProtobufCAllocator *allocator)
{
    size_t bytes = count * (sizeof(ProtobufCMessage *) + type->sizeof_message) + 1; /* never none */
    ProtobufCMessage **list =
        allocator != NULL ? allocator->alloc(allocator->allocator_data, bytes) : malloc(bytes);
    if (list == NULL)
        return NULL;
    char *message = (char *)(list + count);
    for (size_t i = 0; i < count; i++, message += type->sizeof_message) {
        list[i] = (ProtobufCMessage *)(void *)message;
        protobuf_c_message_init(type, list[i]);
    }
    return list;
}
