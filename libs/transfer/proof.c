#include "transfer/proof.h"
#include "transfer/secret.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <sys/random.h>

static const char LABEL[] = "fermata data plane, proof of the cluster secret, 1";

enum { SAID_BYTES = sizeof LABEL + 1 + 2 * WIRE_CHALLENGE_BYTES };

bool proof_challenge(uint64_t instance_id, wire_challenge_t *challenge)
{
    *challenge = (wire_challenge_t){.min_version = WIRE_VERSION,
                                    .max_version = WIRE_VERSION,
                                    .proofs = WIRE_PROOF_HMAC_SHA256,
                                    .instance_id = instance_id};
    return getrandom(challenge->nonce, WIRE_NONCE_BYTES, 0) == WIRE_NONCE_BYTES;
}

bool proof_make(const transfer_secret_t *secret, proof_role_t role, const wire_challenge_t *worker,
                const wire_challenge_t *gateway, uint8_t proof[WIRE_PROOF_BYTES])
{
    uint8_t said[SAID_BYTES];
    unsigned len = 0;
    uint8_t *to = (uint8_t *)memcpy(said, LABEL, sizeof LABEL) + sizeof LABEL;
    *to++ = role == PROOF_WORKER ? 'w' : 'g';
    wire_put_challenge(wire_put_challenge(to, worker), gateway);
    return HMAC(EVP_sha256(), secret->bytes, (int)secret->len, said, sizeof said, proof, &len) &&
           len == WIRE_PROOF_BYTES;
}

bool proof_holds(const transfer_secret_t *secret, proof_role_t role, const wire_challenge_t *worker,
                 const wire_challenge_t *gateway, const uint8_t proof[WIRE_PROOF_BYTES])
{
    uint8_t wanted[WIRE_PROOF_BYTES];
    bool holds = proof_make(secret, role, worker, gateway, wanted) &&
                 CRYPTO_memcmp(wanted, proof, WIRE_PROOF_BYTES) == 0;
    OPENSSL_cleanse(wanted, sizeof wanted);
    return holds;
}
