/* The slot of a session: its memory, its beginning and its end. */
#include "gateway/access/access.h"
#include "gateway/regions/regions.h"
#include "gateway/sessions/awake.h"
#include "gateway/sessions/session_private.h"

/* ------------------------------------------------------------------ memory */

void *session_alloc(session_t *session, size_t len_bytes)
{
    slot_t *slot = slot_of(session);
    if (slot->region_count == SESSION_REGIONS_MAX ||
        !clients_take_memory(slot->owner->gateway->clients, &slot->hold, len_bytes))
        return NULL;
    void *region = arena_alloc(slot->owner->gateway->arena, len_bytes);
    if (region)
        slot->regions[slot->region_count++] = region;
    else
        metrics_add(slot->owner->refusals, 1);
    return region;
}

static void *alloc_for_codec(void *self, size_t len_bytes)
{
    return session_alloc(self, len_bytes);
}

bool slot_owns(const slot_t *slot, const void *data, size_t len_bytes)
{
    const arena_t *arena = slot->owner->gateway->arena;
    return data && arena_contains(arena, data) &&
           (len_bytes == 0 || arena_contains(arena, (const uint8_t *)data + len_bytes - 1));
}

/* ------------------------------------------------------------------ opening and closing */

static void prepare_slot(slot_t *slot, sessions_t *sessions)
{
    slot->owner = sessions;
    slot->session.gateway = sessions->gateway;
    slot->session.allocator = (oip_allocator_t){.alloc = alloc_for_codec, .self = &slot->session};
    slot->session.internal = slot;
    /* JSON text is up to six times its tensor. */
    oip_reply_init(&slot->session.reply, sessions->gateway->body_bytes_max * 6 + (1 << 20));
    slot->prepared = true;
    uint32_t index = pool_index(&sessions->slots, slot);
    if (index >= sessions->slots_prepared)
        sessions->slots_prepared = index + 1;
}

session_t *session_open(gateway_t *gateway, protocol_t protocol, err_t *err)
{
    sessions_t *sessions = gateway->sessions;
    slot_t *slot = pool_get(&sessions->slots);
    if (!slot) {
        err_set(err, STATUS_UNAVAILABLE, "%u requests are under way, which is all this gateway takes",
                sessions->slots.capacity);
        return NULL;
    }
    awake_touch(gateway->awake);
    if (!slot->prepared)
        prepare_slot(slot, sessions);
    slot->generation++;
    slot->refs = 1;
    slot->state = SESSION_OPEN;
    slot->protocol = protocol;
    slot->holder = NULL;
    slot->hold = (client_hold_t){0};
    slot->region_count = slot->held_count = 0;
    slot->is_near = false;
    slot->input = slot->output = slot->placed = NULL;
    slot->published = slot->sent_before = slot->missed = false;
    slot->admitted_up_ns = 0;
    slot->rows = slot->rows_left = slot->sent_rows = 0;
    slot->session.model = NULL;
    slot->parsed_by = NULL;
    slot->session.front = NULL;
    slot->session.error.code = STATUS_OK;
    slot->session.retry_after_ms = 0;
    oip_request_init(&slot->session.request);
    return &slot->session;
}

void slot_unref(slot_t *slot)
{
    if (--slot->refs > 0)
        return;
    sessions_t *sessions = slot->owner;
    while (slot->held_count > 0)
        region_put(sessions->gateway->regions, slot->held[--slot->held_count]);
    for (uint32_t i = 0; i < slot->region_count; i++)
        arena_free(sessions->gateway->arena, slot->regions[i]);
    clients_leave(sessions->gateway->clients, &slot->hold);
    if (slot->session.model)
        model_entry_unref(slot->session.model);
    if (slot->parsed_by)
        model_entry_unref(slot->parsed_by);
    if (slot->session.reply.head.capacity_bytes > REPLY_KEEP_BYTES) {
        oip_reply_dispose(&slot->session.reply);
        oip_reply_init(&slot->session.reply, sessions->gateway->body_bytes_max * 6 + (1 << 20));
    }
    pool_put(&sessions->slots, slot);
}

void session_close(session_t *session)
{
    slot_t *slot = slot_of(session);
    if (slot->holder)
        access_leave(session->gateway->access, slot->holder);
    slot->holder = NULL;
    clients_answered(&slot->hold);
    slot_unref(slot);
}

status_t session_admit(session_t *session, keyring_holder_t *holder, const char *peer, err_t *err)
{
    slot_t *slot = slot_of(session);
    uint32_t *retry_ms = &session->retry_after_ms;
    slot->is_near =
        session->gateway->regions && regions_check_peer(session->gateway->regions, peer, NULL) == STATUS_OK;
    status_t status = clients_enter(session->gateway->clients, holder, peer, &slot->hold, retry_ms, err);
    if (status != STATUS_OK || !holder)
        return status;
    status = access_enter(session->gateway->access, holder, retry_ms, err);
    if (status == STATUS_OK)
        slot->holder = holder;
    return status;
}

status_t session_set_model(session_t *session, const char *name, const char *version, err_t *err)
{
    gateway_t *gateway = session->gateway;
    model_entry_t *entry;
    status_t status = catalogue_find(gateway->catalogue, name, version, &entry, err);
    if (status != STATUS_OK) {
        if (!gateway_control_is_up(gateway->control)) /* it may well exist */
            return err_set(err, STATUS_UNAVAILABLE, "model '%s' is not known here: %s", name,
                           gateway_control_away_reason(gateway->control));
        return status;
    }
    /* A model that never loaded has no description to read a request by; others are refused by check(). */
    status = model_entry_check_described(entry, err);
    if (status != STATUS_OK)
        return status;
    slot_of(session)->any_version = !version || !version[0];
    if (slot_of(session)->any_version)
        entry = catalogue_share(gateway->catalogue, entry);
    model_entry_ref(entry);
    session->model = entry;
    slot_of(session)->parsed_by = NULL;
    return clients_enter_model(gateway->clients, entry, &slot_of(session)->hold, &session->retry_after_ms,
                               err);
}

void slot_move(slot_t *slot, model_entry_t *now)
{
    model_entry_t *old = slot->session.model;
    model_stats_moved(&old->stats, &now->stats);
    model_entry_ref(now);
    slot->session.model = now;
    if (slot->parsed_by)
        model_entry_unref(old);
    else
        slot->parsed_by = old;
}

/* Its version may have left while the body was on its way. */
void slot_follow(slot_t *slot)
{
    model_entry_t *old = slot->session.model;
    model_entry_t *now = slot->any_version ? catalogue_successor(slot->owner->gateway->catalogue, old) : old;
    if (now != old)
        slot_move(slot, now);
}

/* ------------------------------------------------------------------ the end */

static void unlink_waiting(slot_t *slot)
{
    if (slot->prev)
        slot->prev->next = slot->next;
    else
        slot->owner->waiting = slot->next;
    if (slot->next)
        slot->next->prev = slot->prev;
}

/* No more tasks: what is not finished is cancelled. */
static void withdraw(slot_t *slot)
{
    gateway_t *gateway = slot->owner->gateway;
    if (slot->state == SESSION_WAITING)
        unlink_waiting(slot);
    for (uint32_t row = 0; row < slot->sent_rows; row++) {
        uint64_t id = slot_task_id(slot, row);
        if (bit_get(slot->finished, row))
            continue;
        (void)doubts_take(&slot->owner->doubts, id);
        if (slot->missed)
            gateway_control_miss(gateway->control, id);
        else
            gateway_control_cancel(gateway->control, id);
    }
    slot->sent_rows = 0;
    if (slot->published) {
        slot->published = false;
        dataplane_unpublish(gateway->dataplane, slot->handle);
    }
}

void slot_finish(slot_t *slot, const err_t *error, uint32_t retry_after_ms)
{
    session_t *session = &slot->session;
    sessions_t *sessions = slot->owner;
    if (heap_contains(&slot->backstop)) {
        heap_remove(&sessions->backstops, &slot->backstop);
        sessions->tasks_waiting -= slot->rows;
    }
    sessions->waiting_count--;
    withdraw(slot);
    bool decoding = slot->state == SESSION_PREPROCESSING;
    slot->state = SESSION_DONE; /* before the job ends, maybe from within */
    if (decoding)
        preprocess_cancel(sessions->gateway->preprocess, &slot->job);
    if (error->code == STATUS_OK)
        clients_ended(sessions->gateway->clients, &slot->hold, session->model, true);
    session->error = *error;
    session->retry_after_ms = retry_after_ms;
    slot->done(session, slot->arg);
}
