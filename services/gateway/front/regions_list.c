#include "gateway/front/regions_list.h"

#include <stdio.h>
#include <stdlib.h>

/* Texts are copied: a region may go as soon as the table's lock is left. */
typedef struct {
    oip_region_t regions[REGIONS_MAX];
    char names[REGIONS_MAX][REGION_NAME_BYTES], keys[REGIONS_MAX][REGION_KEY_BYTES];
    uint32_t count;
} found_t;

static void on_each(const oip_region_t *region, void *arg)
{
    found_t *found = arg;
    uint32_t i = found->count++;
    snprintf(found->names[i], sizeof found->names[i], "%s", region->name);
    snprintf(found->keys[i], sizeof found->keys[i], "%s", region->key);
    found->regions[i] = *region;
    found->regions[i].name = found->names[i];
    found->regions[i].key = found->keys[i];
}

status_t regions_write_list(regions_t *regions, const char *owner, const char *name,
                            regions_describe_fn describe, strbuf_t *out, err_t *err)
{
    found_t *found = calloc(1, sizeof *found);
    if (!found)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a list of regions");
    status_t status = regions_list(regions, owner, name, on_each, found, err);
    if (status == STATUS_OK && (status = describe(out, found->regions, found->count)) != STATUS_OK)
        err_set(err, status, "the list of regions cannot be written");
    free(found);
    return status;
}
