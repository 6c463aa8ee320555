/* Who a peer is: with TLS or a secret it proves that, and then it says whom it looks for. */
#include "transfer/owner/private.h"
#include "transfer/proof.h"

#include <stdio.h>
#include <string.h>

/* ---- strangers ---- */

static void owner_turn_away(owner_conn_t *oc, transfer_refusal_t refusal, const char *why)
{
    oc->refusal = refusal;
    conn_close(&oc->conn, true, why);
}

/* Who has not proved himself has a place among his like only, and the newest may try. */
void owner_take_stranger(owner_conn_t *oc)
{
    transfer_owner_t *owner = oc->owner;

    if (owner->stranger_count >= owner->limits.max_strangers)
        owner_turn_away(TAILQ_FIRST(&owner->strangers), TRANSFER_REFUSED_CROWD,
                        "too many that have not proved themselves");
    oc->stage = owner->trust.tls ? OWNER_SHAKING : owner->trust.secret ? OWNER_CHALLENGE : OWNER_HELLO;
    oc->refusal = owner->trust.tls ? TRANSFER_REFUSED_TLS : TRANSFER_REFUSED_NONE;
    TAILQ_INSERT_TAIL(&owner->strangers, oc, link);
    owner->stranger_count++;
    if (owner->trust.tls && !conn_secure(&oc->conn, owner->trust.tls))
        conn_close(&oc->conn, false, "out of memory");
}

void owner_turn_away_late(transfer_owner_t *owner, uint64_t now)
{
    owner_conn_t *oc;

    while ((oc = TAILQ_FIRST(&owner->strangers)) && now - oc->since_ns >= owner->limits.prove_ns)
        owner_turn_away(oc, TRANSFER_REFUSED_TIME, "nothing was proved in time");
}

void owner_stranger_closed(owner_conn_t *oc, bool protocol, const char *why)
{
    transfer_owner_t *owner = oc->owner;

    TAILQ_REMOVE(&owner->strangers, oc, link);
    owner->stranger_count--;
    if (protocol)
        refusals_note(&owner->stats, oc->refusal, (struct sockaddr *)&oc->from, why);
}

/* Told to the peer, and by owner_closed to the log. */
static bool owner_refuse(owner_conn_t *oc, transfer_refusal_t refusal, status_t code, const char *text)
{
    oc->refusal = refusal;
    owner_send_bye(oc, code, text);
    conn_close(&oc->conn, true, text);
    return false;
}

/* ---- what is wanted first ---- */

/* Nothing more is to be proved. */
static void owner_expect_hello(owner_conn_t *oc)
{
    oc->stage = OWNER_HELLO;
    oc->refusal = TRANSFER_REFUSED_NONE;
}

/* Another role is told so when it speaks, as it does at once: what it was told before would be lost with what it had said. */
void owner_secured(conn_t *conn)
{
    owner_conn_t *oc = (owner_conn_t *)conn;

    oc->stage = OWNER_CHALLENGE;
    oc->refusal = TRANSFER_REFUSED_ROLE;
    if (strcmp(tls_stream_peer_role(conn->tls), "worker") == 0)
        owner_expect_hello(oc);
}

static bool owner_refuse_first(owner_conn_t *oc)
{
    char text[WIRE_BYE_BYTES];

    if (oc->refusal != TRANSFER_REFUSED_ROLE)
        return owner_refuse(oc, TRANSFER_REFUSED_NONE, STATUS_UNAUTHENTICATED,
                            "this gateway wants a proof: --cluster-secret");
    const char *role = tls_stream_peer_role(oc->conn.tls);
    snprintf(text, sizeof(text), "the role worker is wanted, the certificate's is %s",
             role[0] ? role : "none");
    return owner_refuse(oc, TRANSFER_REFUSED_ROLE, STATUS_PERMISSION_DENIED, text);
}

void owner_in_clear(conn_t *conn)
{
    owner_refuse((owner_conn_t *)conn, TRANSFER_REFUSED_TLS, STATUS_UNAUTHENTICATED,
                 "this gateway wants TLS (--cluster-ca)");
}

bool owner_accept_first(const owner_conn_t *oc, const wire_header_t *header, size_t *records_bytes)
{
    *records_bytes = header->type == WIRE_HELLO       ? WIRE_HELLO_BYTES
                     : header->type == WIRE_CHALLENGE ? WIRE_CHALLENGE_BYTES
                                                      : WIRE_PROOF_BYTES;
    bool known = oc->stage == OWNER_PROOF ? header->type == WIRE_PROOF
                                          : header->type == WIRE_HELLO || header->type == WIRE_CHALLENGE;
    return known && header->count == 1 && header->extra_bytes == 0;
}

bool owner_on_challenge(owner_conn_t *oc, const uint8_t *record)
{
    transfer_owner_t *owner = oc->owner;

    if (!owner->trust.secret || oc->stage != OWNER_CHALLENGE)
        return owner_send_bye(oc, STATUS_UNSUPPORTED,
                              "this gateway wants no proof: no --cluster-secret here");
    wire_get_challenge(record, &oc->challenge);
    if (oc->challenge.min_version > WIRE_VERSION || oc->challenge.max_version < WIRE_VERSION ||
        !(oc->challenge.proofs & WIRE_PROOF_HMAC_SHA256))
        return owner_refuse(oc, TRANSFER_REFUSED_NONE, STATUS_UNSUPPORTED,
                            "this gateway speaks version 1 with HMAC-SHA-256 only");
    frame_t *frame = owner_frame(oc, WIRE_CHALLENGE, &(wire_header_t){.count = 1}, WIRE_CHALLENGE_BYTES, 0);
    if (!frame)
        return false;
    if (!proof_challenge(owner->instance_id, &oc->answered)) {
        frame_put(&owner->shared.frames, frame);
        return false;
    }
    wire_put_challenge(frame->meta + WIRE_HEADER_BYTES, &oc->answered);
    conn_send(&oc->conn, frame);
    oc->stage = OWNER_PROOF;
    return true;
}

bool owner_on_proof(owner_conn_t *oc, const uint8_t *record)
{
    const transfer_secret_t *secret = oc->owner->trust.secret;

    if (!proof_holds(secret, PROOF_WORKER, &oc->challenge, &oc->answered, record))
        return owner_refuse(oc, TRANSFER_REFUSED_PROOF, STATUS_UNAUTHENTICATED,
                            "another --cluster-secret than this gateway's");
    frame_t *frame = owner_frame(oc, WIRE_PROOF, &(wire_header_t){.count = 1}, WIRE_PROOF_BYTES, 0);
    if (!frame)
        return false;
    if (!proof_make(secret, PROOF_GATEWAY, &oc->challenge, &oc->answered, frame->meta + WIRE_HEADER_BYTES)) {
        frame_put(&oc->owner->shared.frames, frame);
        return false;
    }
    conn_send(&oc->conn, frame);
    owner_expect_hello(oc);
    return true;
}

/* ---- whom it looks for ---- */

static bool owner_send_hello(owner_conn_t *oc)
{
    frame_t *frame = owner_frame(oc, WIRE_HELLO, &(wire_header_t){.count = 1}, WIRE_HELLO_BYTES, 0);

    if (!frame)
        return false;
    wire_put_hello(frame->meta + WIRE_HEADER_BYTES,
                   &(wire_hello_t){.min_version = WIRE_VERSION,
                                   .max_version = WIRE_VERSION,
                                   .max_items = oc->max_items,
                                   .max_item_bytes = oc->max_item_bytes,
                                   .instance_id = oc->owner->instance_id,
                                   .carriers = doors_bits(&oc->owner->doors)});
    conn_send(&oc->conn, frame);
    return true;
}

/* It has said whom it looks for, and proved what is wanted. */
static void owner_admit(owner_conn_t *oc)
{
    transfer_owner_t *owner = oc->owner;

    TAILQ_REMOVE(&owner->strangers, oc, link);
    owner->stranger_count--;
    owner->stats.connections++;
    owner->stats.by[TRANSFER_BY_TCP].connections++;
    owner->stats.connects++;
    oc->stage = OWNER_OPEN;
    owner_give_place(oc);
}

static bool owner_has_trust(const transfer_owner_t *owner)
{
    return owner->trust.tls || owner->trust.secret;
}

/* Only the scheduler's peers are told what a gateway's instance id is: without another proof it is one. */
static bool owner_is_meant(const transfer_owner_t *owner, const wire_hello_t *hello)
{
    return hello->instance_id == owner->instance_id || (hello->instance_id == 0 && owner_has_trust(owner));
}

bool owner_on_hello(owner_conn_t *oc, const uint8_t *record)
{
    const transfer_owner_t *owner = oc->owner;
    wire_hello_t hello;

    if (oc->stage != OWNER_HELLO)
        return owner_refuse_first(oc);
    wire_get_hello(record, &hello);
    if (hello.min_version > WIRE_VERSION || hello.max_version < WIRE_VERSION)
        return owner_send_bye(oc, STATUS_UNSUPPORTED, "this gateway's data plane speaks version 1 only");
    if (!owner_is_meant(owner, &hello))
        return owner_refuse(oc, TRANSFER_REFUSED_INSTANCE, STATUS_NOT_FOUND,
                            hello.instance_id ? "another instance listens here now"
                                              : "the instance that is looked for is to be named");
    if (hello.max_items == 0 || hello.max_item_bytes == 0)
        return false;
    oc->max_items = hello.max_items < owner->limits.max_items ? hello.max_items : owner->limits.max_items;
    oc->max_item_bytes = hello.max_item_bytes < owner->limits.max_item_bytes ? hello.max_item_bytes
                                                                             : owner->limits.max_item_bytes;
    owner_admit(oc);
    /* Stop reading when a full request's worth of answers is unread on the other side: bounds what a peer can
     * pin. */
    oc->conn.pause_weight = oc->max_items;
    return owner_send_hello(oc);
}
