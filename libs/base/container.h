/* From an embedded member (a heap node, a mailbox node) to the object it is in. */
#ifndef BASE_CONTAINER_H
#define BASE_CONTAINER_H

#include <stddef.h>

#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#endif
