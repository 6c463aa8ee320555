/*
 * The REST front end: the Open Inference Protocol over HTTP, on sessions. docs/rest-api.md tells what it serves.
 */
#ifndef GATEWAY_REST_H
#define GATEWAY_REST_H

#include "gateway/gateway.h"
#include "http/server.h"

typedef struct rest rest_t;

/* config: listen, limits and time-outs of the server. */
status_t rest_create(gateway_t *gateway, const http_server_config_t *config, rest_t **rest, err_t *err);

const char *rest_address(const rest_t *rest);
uint64_t rest_connections(const rest_t *rest);

/* Its answers end their connections, so that clients look for another gateway. */
void rest_part(rest_t *rest);
/* No new connections; requests under way may be answered within grace_ms; then done, from the loop. */
void rest_stop(rest_t *rest, uint32_t grace_ms, void (*done)(void *arg), void *arg);
void rest_destroy(rest_t *rest); /* after done; NULL is fine */

#endif
