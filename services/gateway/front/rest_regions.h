/* REST requests about shared memory of clients (regions/regions.h): each answers. */
#ifndef GATEWAY_REST_REGIONS_H
#define GATEWAY_REST_REGIONS_H

#include "gateway/gateway.h"
#include "http/server.h"

void rest_regions_status(gateway_t *gateway, http_request_t *request);
void rest_regions_register(gateway_t *gateway, http_request_t *request);
void rest_regions_unregister(gateway_t *gateway, http_request_t *request);

#endif
