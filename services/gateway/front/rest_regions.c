#include "gateway/front/rest_regions.h"

#include "gateway/front/regions_list.h"
#include "oip/describe.h"
#include "oip/region.h"

/* A path without a name means all of them. */
static const char *name_of(const http_request_t *request)
{
    const char *name = http_request_param(request, "region");
    return name ? name : "";
}

/* False: it was refused. */
static bool admit(const gateway_t *gateway, http_request_t *request)
{
    err_t err;
    if (regions_check_peer(gateway->regions, http_request_peer(request), &err) == STATUS_OK)
        return true;
    http_respond_err(request, &err);
    return false;
}

static void respond_done(http_request_t *request)
{
    http_respond_copy(request, 200, NULL, NULL, "", 0);
}

void rest_regions_status(gateway_t *gateway, http_request_t *request)
{
    strbuf_t document;
    err_t err;
    if (!admit(gateway, request))
        return;
    strbuf_init(&document, GATEWAY_DOCUMENT_BYTES_MAX);
    if (regions_write_list(gateway->regions, regions_owner(http_request_caller(request)), name_of(request),
                           oip_describe_regions_json, &document, &err) == STATUS_OK)
        http_respond_copy(request, 200, "application/json", NULL, document.data, document.len_bytes);
    else
        http_respond_err(request, &err);
    strbuf_dispose(&document);
}

void rest_regions_register(gateway_t *gateway, http_request_t *request)
{
    char key[OIP_KEY_BYTES];
    oip_region_t wanted;
    size_t len;
    err_t err;
    if (!admit(gateway, request))
        return;
    const uint8_t *body = http_request_body(request, &len);
    status_t status = oip_rest_parse_region(body ? (const char *)body : "", len, key, &wanted, &err);
    wanted.name = name_of(request);
    if (status == STATUS_OK)
        status =
            regions_register(gateway->regions, regions_owner(http_request_caller(request)), &wanted, &err);
    if (status == STATUS_OK)
        respond_done(request);
    else
        http_respond_err(request, &err);
}

void rest_regions_unregister(gateway_t *gateway, http_request_t *request)
{
    if (!admit(gateway, request))
        return;
    regions_unregister(gateway->regions, regions_owner(http_request_caller(request)), name_of(request));
    respond_done(request);
}
