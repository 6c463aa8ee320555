/*
 * Tensors in memory that the client shares (regions/regions.h): inputs are read into memory of the session before they are looked at, so what the client
 * does to them meanwhile changes nothing; outputs are written before the answer says so.
 */
#include "gateway/regions/regions.h"
#include "gateway/sessions/session_private.h"

status_t slot_check_memory(const slot_t *slot, err_t *err)
{
    if (!slot->session.request.in_memory || (slot->owner->gateway->regions && slot->is_near))
        return STATUS_OK;
    return regions_check_peer(slot->owner->gateway->regions, "another host", err);
}

/* As large as a body may be: one request must not hold up the loop for long. */
static status_t check_size(const slot_t *slot, err_t *err)
{
    const oip_request_t *request = &slot->session.request;
    uint64_t left_bytes = slot->owner->gateway->body_bytes_max;
    for (uint32_t i = 0; i < request->input_count; i++) {
        if (!request->inputs[i].memory.region)
            continue;
        if (request->inputs[i].len_bytes > left_bytes)
            return err_set(err, STATUS_TOO_LARGE,
                           "the inputs in shared memory are larger than the limit of %zu bytes",
                           slot->owner->gateway->body_bytes_max);
        left_bytes -= request->inputs[i].len_bytes;
    }
    return STATUS_OK;
}

static status_t read_input(slot_t *slot, oip_input_t *input, err_t *err)
{
    regions_t *regions = slot->owner->gateway->regions;
    region_t *region;
    status_t status = regions_hold(regions, regions_owner(slot->holder), &input->memory, false, &region, err);
    if (status != STATUS_OK)
        return err_prefix(err, "input '%s'", input->name);
    uint8_t *data = session_alloc(&slot->session, input->len_bytes);
    status = data ? region_read(region, &input->memory, data, err)
                  : err_set(err, STATUS_UNAVAILABLE, "the gateway has no memory left for tensors");
    region_put(regions, region);
    if (status != STATUS_OK)
        return err_prefix(err, "input '%s'", input->name);
    input->data = data;
    return oip_validate_elements(input, &slot->session.model->spec, err);
}

static status_t hold_output(slot_t *slot, const oip_requested_t *requested, err_t *err)
{
    regions_t *regions = slot->owner->gateway->regions;
    region_t **held = &slot->held[slot->held_count];
    if (regions_hold(regions, regions_owner(slot->holder), &requested->memory, true, held, err) != STATUS_OK)
        return err_prefix(err, "output '%s'", requested->name);
    slot->held_count++;
    return STATUS_OK;
}

status_t slot_take_memory(slot_t *slot, err_t *err)
{
    oip_request_t *request = &slot->session.request;
    if (!request->in_memory)
        return STATUS_OK;
    status_t status = check_size(slot, err);
    for (uint32_t i = 0; i < request->requested_count && status == STATUS_OK; i++)
        if (request->requested[i].memory.region)
            status = hold_output(slot, &request->requested[i], err);
    for (uint32_t i = 0; i < request->input_count && status == STATUS_OK; i++)
        if (request->inputs[i].memory.region)
            status = read_input(slot, &request->inputs[i], err);
    return status;
}

status_t slot_fill_memory(slot_t *slot, err_t *err)
{
    const oip_response_t *response = &slot->session.response;
    region_t *const *held = slot->held; /* in the order of the outputs that have one */
    for (uint32_t i = 0; slot->held_count > 0 && i < response->output_count; i++) {
        const oip_output_t *output = &response->outputs[i];
        if (!output->memory)
            continue;
        if (region_write(*held++, output->memory, output->pieces, output->piece_count, err) != STATUS_OK)
            return err_prefix(err, "output '%s'", output->name);
    }
    return STATUS_OK;
}
