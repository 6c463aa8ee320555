/*
 * What happens to outputs between the worker and the client: softmax of the declared output, strings, and the
 * classification extension. In place where it can be; new tensors come from the session's allocator.
 */
#ifndef GATEWAY_POSTPROCESS_H
#define GATEWAY_POSTPROCESS_H

#include "oip/request.h"

/*
 * request was validated against spec. response lists the outputs that the client wants, in the order of
 * request->requested (all outputs when that is empty), each with `pieces` in writable arena memory, one per
 * row or one for all, and name, datatype and shape (batch dimension included) set. Outputs of strings, which lie in
 * rooms (oip/text.h), and those with `classification` are replaced by their BYTES form. UNAVAILABLE: no memory; INVALID_ARGUMENT names the
 * output.
 */
status_t postprocess_apply(const oip_model_spec_t *spec, const oip_request_t *request,
                           const oip_allocator_t *allocator, oip_response_t *response, err_t *err);

#endif
