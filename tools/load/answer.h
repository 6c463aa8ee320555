/*
 * Reading answers: the three timing parameters, found without parsing the rest (a load generator that parses
 * everything would measure itself), and the outputs as JSON when somebody wants to see them.
 */
#ifndef LOAD_ANSWER_H
#define LOAD_ANSWER_H

#include "base/status.h"
#include "base/strbuf.h"
#include "load/payload.h"
#include "load/tally.h"

/* timing->known stays false where the server did not say. */
void answer_timing(protocol_t protocol, const uint8_t *body, size_t len_bytes, timing_t *timing);

/* Appends {"OUTPUT":[…],…}: BYTES as strings, FP32 as numbers; gRPC tensors of other datatypes as null. */
status_t answer_outputs(protocol_t protocol, const uint8_t *body, size_t len_bytes, strbuf_t *out,
                        err_t *err);

#endif
