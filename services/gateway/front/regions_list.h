/* What both front ends tell of the regions of shared memory that a client has registered. */
#ifndef GATEWAY_REGIONS_LIST_H
#define GATEWAY_REGIONS_LIST_H

#include "gateway/regions/regions.h"

/* Writes the owner's region of that name, or all of them for "", as one document. NOT_FOUND, NO_MEMORY. */
typedef status_t (*regions_describe_fn)(strbuf_t *out, const oip_region_t *regions, uint32_t count);
status_t regions_write_list(regions_t *regions, const char *owner, const char *name,
                            regions_describe_fn describe, strbuf_t *out, err_t *err);

#endif
