/*
 * The stream to the scheduler. Tasks and cancellations are gathered and leave together, one message per turn
 * of the loop. The stream comes back by itself; with each new one the scheduler knows nothing of us, so on_up
 * is the call to submit everything again. Loop thread only.
 *
 *   states: DOWN ─stream─▶ GREETING ─Welcome─▶ WELCOMED ─Catalogue─▶ UP ; any end of the stream ─▶ DOWN
 *
 * Hot path: nothing is allocated per task; the message is one slice.
 */
#ifndef GATEWAY_CONTROL_H
#define GATEWAY_CONTROL_H

#include "base/status.h"
#include "gateway/links/asks.h"
#include "gateway/links/outbox.h"
#include "gateway/models/estimates.h"
#include "loop/loop.h"
#include "metrics/metrics.h"

struct Control__Catalogue;
typedef struct gateway_control gateway_control_t;

typedef struct {
    uint64_t id;
    status_t status;
    const char *stage; /* "admission", "queue", … */
    uint32_t retry_after_ms;
} gateway_control_drop_t;

typedef struct gateway_control_ops {
    /* Each newest description of the models; the first one of a stream comes before on_up. */
    void (*on_catalogue)(void *ctx, const struct Control__Catalogue *catalogue);
    void (*on_up)(void *ctx);
    /* The stream takes tasks again after it has refused one. Never from within gateway_control_submit. */
    void (*on_room)(void *ctx);
    void (*on_down)(void *ctx);
    /* What it tells ahead, while up. */
    void (*on_estimate)(void *ctx, const struct Control__Estimate *estimate);
    void (*on_drop)(void *ctx, const gateway_control_drop_t *drop);
    /* To be told by gateway_control_arrive when its result is there, or when it has ended. */
    void (*on_doubt)(void *ctx, uint64_t id);
} gateway_control_ops_t;

typedef struct {
    loop_t *loop;
    struct rpc_runtime *rpc;
    struct link_hub *hub; /* the scheduler is in this process; NULL: by rpc */
    metrics_t *metrics;
    struct tls_context *tls; /* of who dials it; NULL: plain */
    const char *scheduler;   /* "host:port", or what people are to read in its place */
    const char *name;
    uint64_t instance_id, instance_key;
    const char *data_address; /* where workers reach our data plane */
    const gateway_control_ops_t *ops;
    void *ctx;
} gateway_control_options_t;

/* Connects from now on. */
status_t gateway_control_create(const gateway_control_options_t *options, gateway_control_t **control,
                                err_t *err);
/* Ends the stream; closed comes from the loop, then gateway_control_destroy may be called. */
void gateway_control_stop(gateway_control_t *control, void (*closed)(void *ctx), void *ctx);
void gateway_control_destroy(gateway_control_t *control); /* after closed; NULL is fine */

bool gateway_control_is_up(const gateway_control_t *control);
/* "no connection to the scheduler at 127.0.0.1:9000 (connection refused)"; when it is not up. */
const char *gateway_control_away_reason(const gateway_control_t *control);

/* Only while up. UNAVAILABLE: the stream is congested, and all that waits for it can still make its deadline. */
status_t gateway_control_submit(gateway_control_t *control, const gateway_control_task_t *task);
/* A client wants a model loaded or unloaded, by all workers whose repository has it. UNAVAILABLE: no
 * scheduler, or too many such. Else done comes once: also when the scheduler goes away meanwhile. After a
 * load that went well the catalogue has the model ready. */
status_t gateway_control_ask(gateway_control_t *control, bool load, const char *name, ask_done_fn done,
                             void *ctx, uint64_t *id, err_t *err);
void gateway_control_forget(gateway_control_t *control, uint64_t id); /* done does not come */

/* The stream is not congested: what is said now is on its way at once. */
bool gateway_control_has_room(const gateway_control_t *control);
/* Answers an estimate with what was refused by those before. Only while up. */
void gateway_control_refused(gateway_control_t *control, estimates_refused_t *refused);

/* Best effort. */
void gateway_control_cancel(gateway_control_t *control, uint64_t id);
/* As cancel; and tells that its result should have been there. */
void gateway_control_miss(gateway_control_t *control, uint64_t id);
/* The scheduler doubted it, and its result is there. */
void gateway_control_arrive(gateway_control_t *control, uint64_t id);

#endif
