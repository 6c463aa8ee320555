/*
 * The elements of a repeated field of messages, as protobuf-c wants them: a list of pointers to messages.
 *
 *   Control__Device **devices = repeated_make(&control__device__descriptor, count, NULL);      one allocation:
 *
 *   | pointer 0 | pointer 1 | … | message 0 | message 1 | …
 */
#ifndef PROTOS_REPEATED_H
#define PROTOS_REPEATED_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

/* So many initialised messages of the type. Freed as one: with free() when allocator is NULL, else as that
 * says. NULL: no memory. */
void *repeated_make(const ProtobufCMessageDescriptor *type, size_t count, ProtobufCAllocator *allocator);

#endif
