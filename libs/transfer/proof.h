/*
 * How two that share a secret (trust.h) prove it to each other without showing it.
 *
 *   worker                                               gateway
 *     CHALLENGE {id and nonce of the worker}  ------->
 *                                             <-------     CHALLENGE {id and nonce of the gateway}
 *     PROOF as a worker                       ------->     holds, or BYE
 *     holds, or it hangs up                   <-------     PROOF as a gateway
 *
 *   PROOF = HMAC-SHA-256(secret, label, role, the worker's challenge, the gateway's): versions, ids and nonces, as they went over the wire
 *
 * The role keeps a peer from answering with what it was answered; the nonces, of 256 bits and new for each connection, keep what was heard
 * once from holding again. Who stands between the two can pass all this on and then say what he likes: against him there is TLS.
 *
 * Pure but for proof_challenge, which asks the kernel for a nonce.
 */
#ifndef TRANSFER_PROOF_H
#define TRANSFER_PROOF_H

#include "transfer/trust.h"
#include "transfer/wire.h"

typedef enum { PROOF_WORKER, PROOF_GATEWAY } proof_role_t;

/* A new challenge of this side. False: the kernel gives no random bytes. */
bool proof_challenge(uint64_t instance_id, wire_challenge_t *challenge);

/* False: OpenSSL has no memory. */
bool proof_make(const transfer_secret_t *secret, proof_role_t role, const wire_challenge_t *worker,
                const wire_challenge_t *gateway, uint8_t proof[WIRE_PROOF_BYTES]);

/* In constant time. */
bool proof_holds(const transfer_secret_t *secret, proof_role_t role, const wire_challenge_t *worker,
                 const wire_challenge_t *gateway, const uint8_t proof[WIRE_PROOF_BYTES]);

#endif
