/*
 * `fermata up`: the services of this machine as child processes.
 *
 *   SCHEDULER ─▶ SERVICES ─▶ MODELS ─▶ RUNNING ─▶ STOPPING ─▶ ENDED      (any of the first four ─▶ STOPPING on a failure)
 *
 * The scheduler comes first, as the others are told its address; then gateways and workers together; then the
 * models are waited for. Stopping goes the other way: gateways (no new requests), workers, scheduler, each
 * kind gone before the next is told.
 */
#ifndef FERMATA_UP_H
#define FERMATA_UP_H

#include "base/strbuf.h"
#include "fermata/client/ask.h"
#include "fermata/up/child.h"
#include "fermata/up/child_words.h"
#include "fermata/up/options.h"
#include "loop/signals.h"
#include "loop/timer.h"
#include "screen/screen.h"
#include "tls/context.h"

#include "fermata/up/readiness.h"

typedef enum { UP_SCHEDULER, UP_SERVICES, UP_MODELS, UP_RUNNING, UP_STOPPING, UP_ENDED } up_phase_t;

struct up;

enum { UP_PATH_BYTES = 4096 };

typedef struct {
    struct up *up;
    role_t role;
    uint32_t index;
    char name[32];
    child_t *child; /* NULL before the start and between two lives */
    addresses_t addresses;
    loop_timer_t restart;
} member_t;

typedef struct up {
    const up_options_t *options;
    const char *self;    /* path of our own program */
    const char *bin_dir; /* of the services' */
    loop_t *loop;
    loop_signals_t *signals;
    up_phase_t phase;
    role_t stopping; /* UP_STOPPING: the kind that is being stopped */
    int exit_code;
    int64_t started_ns;
    member_t *members; /* the scheduler, the gateways, the workers */
    size_t members_len;
    loop_timer_t limit; /* until UP_RUNNING: of being ready; in UP_STOPPING: of ending */
    readiness_t *readiness;
    tls_context_t *tls;             /* of who asks the services; NULL: plain */
    char log_folder[UP_PATH_BYTES]; /* "": logs go to stderr */
    screen_t screen;                /* of how the start goes; it is stderr */
    loop_timer_t draw;              /* until UP_RUNNING */
} up_t;

/* What the screen shows of a start that is going on. */
void up_report_start(const up_t *up, strbuf_t *out);

/* Both print to stdout, once, when everything is ready. */
void up_report_text(const up_t *up, const model_state_t *models, size_t models_len);
void up_report_json(const up_t *up, const model_state_t *models, size_t models_len);

#endif
