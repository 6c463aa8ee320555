#include "transfer/ucx/ask.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { ASK_ID = 1, ANSWER_ID = 2, NO_OP = UINT32_MAX };

/* Both sides run the same UCX, which itself wants the same byte order. */
typedef struct {
    uint64_t op, what, at, len_bytes, token;
} ask_header_t;

typedef struct {
    uint64_t op, refused;
} answer_header_t;

static bool handle_with(ucp_worker_h worker, unsigned id, ucp_am_recv_callback_t cb, void *arg)
{
    const ucp_am_handler_param_t param = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                      UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = id,
        .flags = UCP_AM_FLAG_WHOLE_MSG,
        .cb = cb,
        .arg = arg};

    return ucp_worker_set_am_recv_handler(worker, &param) == UCS_OK;
}

static ucp_request_param_t send_param(unsigned flags, ucp_send_nbx_callback_t cb, void *user)
{
    return (ucp_request_param_t){.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA,
                                 .flags = flags | UCP_AM_SEND_FLAG_EAGER,
                                 .cb.send = cb,
                                 .user_data = user};
}

/* ---- the owner's side ---- */

typedef struct answer {
    struct answer *next, *next_of_all;
    answerer_t *answerer;
    answer_header_t header;
} answer_t;

static void answer_free(answer_t *answer)
{
    answer->next = answer->answerer->free;
    answer->answerer->free = answer;
}

static void on_answered(void *request, ucs_status_t status, void *user)
{
    (void)status; /* who has gone needs no answer */
    ucp_request_free(request);
    answer_free(user);
}

static answer_t *answer_take(answerer_t *answerer)
{
    answer_t *answer = answerer->free;

    if (answer) {
        answerer->free = answer->next;
        return answer;
    }
    answer = calloc(1, sizeof(*answer));
    if (!answer)
        return NULL;
    answer->answerer = answerer;
    answer->next_of_all = answerer->all;
    answerer->all = answer;
    return answer;
}

static void answer_send(answerer_t *answerer, ucp_ep_h to, uint64_t op, const void *bytes, size_t len,
                        bool refused)
{
    answer_t *answer = answer_take(answerer);
    const ucp_request_param_t param = send_param(0, on_answered, answer);

    if (!answer)
        return;
    answer->header = (answer_header_t){.op = op, .refused = refused};
    if (!UCS_PTR_IS_PTR(
            ucp_am_send_nbx(to, ANSWER_ID, &answer->header, sizeof(answer->header), bytes, len, &param)))
        answer_free(answer);
}

static const uint8_t *asked_for(const carrier_memory_t *memory, const ask_header_t *ask)
{
    if (ask->at > memory->len_bytes || ask->len_bytes > memory->len_bytes - ask->at)
        return NULL;
    return (const uint8_t *)memory->base + ask->at;
}

static bool land(const answerer_t *answerer, const ask_header_t *ask, const void *bytes, size_t len)
{
    asked_window_t *window;

    if (ask->at > CARRIER_WINDOW_BYTES || len > CARRIER_WINDOW_BYTES - ask->at)
        return false;
    TAILQ_FOREACH(window, &answerer->windows, entry)
    {
        if (window->token == ask->token) {
            memcpy(window->base + ask->at, bytes, len);
            return true;
        }
    }
    return false;
}

static ucs_status_t on_ask(void *arg, const void *header, size_t header_bytes, void *bytes, size_t len,
                           const ucp_am_recv_param_t *param)
{
    answerer_t *answerer = arg;
    const uint8_t *from = NULL;
    ask_header_t ask;
    bool written = false;

    if (header_bytes != sizeof(ask) || !(param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) ||
        (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV))
        return UCS_OK;
    memcpy(&ask, header, sizeof(ask));
    if (ask.what == ASK_ARENA)
        from = asked_for(answerer->arena, &ask);
    else if (ask.what == ASK_DIRECTORY)
        from = asked_for(answerer->directory, &ask);
    else if (ask.what == ASK_WINDOW)
        written = land(answerer, &ask, bytes, len);
    answer_send(answerer, param->reply_ep, ask.op, from, from ? ask.len_bytes : 0, !from && !written);
    return UCS_OK;
}

void answerer_init(answerer_t *answerer, const carrier_memory_t *arena, const carrier_memory_t *directory)
{
    *answerer = (answerer_t){.arena = arena, .directory = directory};
    TAILQ_INIT(&answerer->windows);
}

bool answerer_listen(answerer_t *answerer, ucp_worker_h worker)
{
    return handle_with(worker, ASK_ID, on_ask, answerer);
}

void answerer_dispose(answerer_t *answerer)
{
    answer_t *answer;

    while ((answer = answerer->all)) {
        answerer->all = answer->next_of_all;
        free(answer);
    }
}

bool answerer_add(answerer_t *answerer, asked_window_t *window, void *base)
{
    uint64_t token;

    if (getrandom(&token, sizeof(token), 0) != sizeof(token))
        return false;
    window->token = token | 1;
    window->base = base;
    TAILQ_INSERT_TAIL(&answerer->windows, window, entry);
    return true;
}

void answerer_remove(answerer_t *answerer, asked_window_t *window)
{
    if (window->token)
        TAILQ_REMOVE(&answerer->windows, window, entry);
    window->token = 0;
}

/* ---- the pool's side ---- */

/* In use while it is sent and until it is answered. */
typedef struct asking {
    ask_header_t header;
    asker_t *asker;
    void *to; /* of a read */
    size_t len;
    ask_ended_fn ended;
    void *user;
    uint32_t index, next_free;
    bool sending, unanswered;
    ucs_status_t status;
} asking_t;

static asking_t *asking_take(asker_t *asker)
{
    if (asker->free_head != NO_OP) {
        asking_t *asking = asker->ops[asker->free_head];
        asker->free_head = asking->next_free;
        return asking;
    }
    if (asker->count == asker->cap) {
        uint32_t cap = asker->cap ? asker->cap * 2 : 64;
        asking_t **ops = realloc(asker->ops, cap * sizeof(*ops));
        if (!ops)
            return NULL;
        asker->ops = ops;
        asker->cap = cap;
    }
    asking_t *asking = calloc(1, sizeof(*asking));
    if (!asking)
        return NULL;
    asking->asker = asker;
    asking->index = asker->count;
    asker->ops[asker->count++] = asking;
    return asking;
}

static void asking_free(asking_t *asking)
{
    asking->next_free = asking->asker->free_head;
    asking->asker->free_head = asking->index;
}

static void asking_end(asking_t *asking)
{
    ask_ended_fn ended = asking->ended;
    void *user = asking->user;
    ucs_status_t status = asking->status;

    if (asking->sending || asking->unanswered)
        return;
    asking_free(asking);
    ended(user, status);
}

static void on_asked(void *request, ucs_status_t status, void *user)
{
    asking_t *asking = user;

    ucp_request_free(request);
    asking->sending = false;
    if (status != UCS_OK) { /* there will be no answer */
        asking->unanswered = false;
        asking->status = status;
    }
    asking_end(asking);
}

static ucs_status_t on_answer(void *arg, const void *header, size_t header_bytes, void *bytes, size_t len,
                              const ucp_am_recv_param_t *param)
{
    asker_t *asker = arg;
    answer_header_t answer;

    if (header_bytes != sizeof(answer) || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV))
        return UCS_OK;
    memcpy(&answer, header, sizeof(answer));
    asking_t *asking = answer.op < asker->count ? asker->ops[answer.op] : NULL;
    if (!asking || !asking->unanswered)
        return UCS_OK;
    asking->unanswered = false;
    if (answer.refused || len != (asking->to ? asking->len : 0))
        asking->status = UCS_ERR_REJECTED;
    else if (asking->to)
        memcpy(asking->to, bytes, len);
    asking_end(asking);
    return UCS_OK;
}

bool asker_open(asker_t *asker, ucp_worker_h worker, ucp_ep_h ep, uint64_t token)
{
    *asker = (asker_t){.ep = ep, .token = token, .free_head = NO_OP};
    return handle_with(worker, ANSWER_ID, on_answer, asker);
}

void asker_give_up(asker_t *asker)
{
    for (uint32_t i = 0; i < asker->count; i++) {
        asking_t *asking = asker->ops[i];
        if (!asking->unanswered)
            continue;
        asking->unanswered = false;
        asking->status = UCS_ERR_CONNECTION_RESET;
        asking_end(asking);
    }
}

void asker_close(asker_t *asker)
{
    for (uint32_t i = 0; i < asker->count; i++)
        free(asker->ops[i]);
    free(asker->ops);
    *asker = (asker_t){.free_head = NO_OP};
}

ucs_status_t ask_by_message(asker_t *asker, ask_what_t what, uint64_t at, void *bytes, size_t len,
                            ask_ended_fn ended, void *user)
{
    asking_t *asking = asking_take(asker);
    bool writes = what == ASK_WINDOW;

    if (!asking)
        return UCS_ERR_NO_MEMORY;
    asking->header = (ask_header_t){
        .op = asking->index, .what = what, .at = at, .len_bytes = len, .token = writes ? asker->token : 0};
    asking->to = writes ? NULL : bytes;
    asking->len = len;
    asking->ended = ended;
    asking->user = user;
    asking->status = UCS_OK;
    const ucp_request_param_t param = send_param(UCP_AM_SEND_FLAG_REPLY, on_asked, asking);
    ucs_status_ptr_t request = ucp_am_send_nbx(asker->ep, ASK_ID, &asking->header, sizeof(asking->header),
                                               writes ? bytes : NULL, writes ? len : 0, &param);
    if (UCS_PTR_IS_ERR(request)) {
        asking_free(asking);
        return UCS_PTR_STATUS(request);
    }
    asking->sending = request;
    asking->unanswered = true;
    return UCS_OK;
}
