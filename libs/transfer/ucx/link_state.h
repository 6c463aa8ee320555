/* A link, as the files beside link.c see it. */
#ifndef TRANSFER_UCX_LINK_STATE_H
#define TRANSFER_UCX_LINK_STATE_H

#include "transfer/carrier.h"
#include "transfer/ucx/ask.h"
#include "transfer/ucx/client.h"
#include "transfer/ucx/worker.h"

TAILQ_HEAD(job_list, carrier_job);

/* Memory of the owner. */
typedef struct {
    uint64_t base, len_bytes;
    ucp_rkey_h rkey;
    ask_what_t what; /* it is called so in messages */
} remote_t;

struct carrier_link {
    ucx_t ucx;
    carrier_client_t *client;
    carrier_watch_t watch;
    ucp_ep_h ep;
    asker_t asker;
    bool asks; /* goes by messages */
    remote_t arena, directory, window;
    struct job_list jobs;
    directory_entry_t proof; /* of the first read, which shows that it works */
    uint32_t proving;        /* operations of that */
    bool by_peer;            /* UCX handles errors of its endpoint */
    bool ready, broken, told;
    ucs_status_t why;
    bool closed;
    bool lingers;        /* it is closed and waits for the first answer */
    uv_timer_t patience; /* with that */
    ucx_context_t *context;
    uint32_t context_at; /* among those of the client */
};

/* In carrier_job_t.inside; inside_ptr is the scratch of a get. */
enum { JOB_PHASE, JOB_PENDING, JOB_FAILED };

#endif
