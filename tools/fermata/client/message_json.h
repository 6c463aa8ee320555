/* Any message of a protobuf as JSON: every field under its name, enums by their names, bytes as their number. */
#ifndef FERMATA_CLIENT_MESSAGE_JSON_H
#define FERMATA_CLIENT_MESSAGE_JSON_H

#include <jansson.h>
#include <protobuf-c/protobuf-c.h>

/* The caller owns it; NULL: out of memory. Fields that are not there (optional, of a oneof) are left out. */
json_t *message_json(const ProtobufCMessage *message);

#endif
