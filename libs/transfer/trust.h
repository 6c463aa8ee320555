/*
 * Whom the other side of a data-plane connection must prove to be, before the first frame that means anything.
 *
 *   tls      mutual TLS 1.3: the owner shows a certificate of the role `gateway`, a peer one of the role `worker`; all that is said is secret
 *   secret   a mutual challenge (proof.h): both have the cluster's secret; what is said after it goes as it is
 *   neither  only that it knows the owner's instance id, of which the scheduler tells workers: what keeps mistakes out, and no attacker who
 *            listens on the way; handles cannot be guessed
 *
 * A way past the socket is told of, and keys and addresses for it are exchanged, over the connection that has proved itself (carrier.h).
 */
#ifndef TRANSFER_TRUST_H
#define TRANSFER_TRUST_H

#include "base/status.h"

#include <stdbool.h>

struct tls_context;

/* Why a peer was refused before it had proved itself. */
typedef enum {
    TRANSFER_REFUSED_TLS,      /* no TLS, or no certificate of the authority */
    TRANSFER_REFUSED_ROLE,     /* a certificate of another role */
    TRANSFER_REFUSED_PROOF,    /* the proof does not hold: another secret, or one that was heard before */
    TRANSFER_REFUSED_NONE,     /* frames without any proof, or what is no frame */
    TRANSFER_REFUSED_INSTANCE, /* HELLO names another process than this one, or none */
    TRANSFER_REFUSED_TIME,     /* nothing proved within the time */
    TRANSFER_REFUSED_CROWD,    /* too many that had not proved themselves: the oldest had to go */
    TRANSFER_REFUSALS
} transfer_refusal_t;

const char *transfer_refusal_name(
    transfer_refusal_t refusal); /* "tls", "role", "proof", "no_proof", "instance", "timeout", "crowded" */

/* What the services of a cluster share. Read only: any thread. */
typedef struct transfer_secret transfer_secret_t;

enum { TRANSFER_SECRET_BYTES_MIN = 32, TRANSFER_SECRET_BYTES_MAX = 4096 };

/* The file's bytes, whatever they are. INVALID_ARGUMENT, which names the file: it cannot be read, is too short or too long, or others than its
 * owner may read or write it. */
status_t transfer_secret_read(const char *path, transfer_secret_t **secret, err_t *err);
void transfer_secret_destroy(transfer_secret_t *secret); /* wipes it; NULL is fine */

/* The caller's, until the owner or pool is destroyed. At most one of them. */
typedef struct {
    struct tls_context *
        tls; /* of an owner: a server's that wants certificates; of a pool: a client's, of the server role "gateway" */
    const transfer_secret_t *secret;
} transfer_trust_t;

/* The name of the protocol in TLS (ALPN). */
#define TRANSFER_PROTOCOL "fermata-data/1"

/* From the options of a program; what is made is for transfer_trust_close. owner: else a pool. INVALID_ARGUMENT: both, or half of the
 * certificates' three, or a file that will not do. */
struct tls_cluster_options;
status_t transfer_trust_open(const struct tls_cluster_options *certificates, const char *secret_file,
                             bool owner, transfer_trust_t *trust, err_t *err);
void transfer_trust_close(transfer_trust_t *trust);

#endif
