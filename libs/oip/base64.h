/* Base64 (RFC 4648, section 4) in the elements of a BYTES tensor. */
#ifndef OIP_BASE64_H
#define OIP_BASE64_H

#include "base/status.h"

#include <stdint.h>

/*
 * Decodes each element where it lies; *len_bytes becomes that of what they say. Line breaks between characters and a missing
 * padding are borne. INVALID_ARGUMENT names the input, the element and the place. The framing must be whole.
 */
status_t oip_base64_decode(const char *input, uint8_t *elements, size_t *len_bytes, err_t *err);

#endif
