/*
 * RDMA by UCX: the owner's arena and directory are registered once, each seat has a window of its own; a link gets inputs straight into
 * the caller's buffers and puts outputs into its window.
 *
 * A get takes three bursts, each for all items of the job: the entries of the directory, the bytes, the entries again. A put takes the
 * bytes and a flush, after which the owner sees them.
 *
 * Each link has a worker of UCX's own, so that to close it ends all that it has under way at once: nothing is written for a worker
 * that is gone. Links are made with UCX's handling of errors where its transports have that (RDMA, tcp); its shared memory has none,
 * and there the end of the TCP connection is what ends a link.
 *
 * Where there is no hardware, reads and writes go by messages of our own (ucx_ask.h) and not by UCX's emulation: that writes to
 * wherever a message says, and of UCX 1.13 it ends the owner's process when a reader is killed at a bad moment. `auto` takes hardware only. A
 * window that was given up is not used again for a while, as UCX's shared memory lets nobody take its key away.
 */
#include "transfer/ucx.h"

#include "base/clock.h"
#include "base/log.h"
#include "transfer/carrier.h"
#include "transfer/ucx_ask.h"
#include "transfer/ucx_worker.h"
#include "transfer/wire.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const int64_t WINDOW_QUARANTINE_NS = 10 * NS_PER_S;

enum { FIRST_ANSWER_MS = 1000 };

bool ucx_has_hardware(void)
{
    DIR *devices = opendir("/sys/class/infiniband");
    const struct dirent *entry;
    bool found = false;

    while (devices && (entry = readdir(devices)))
        found = found || entry->d_name[0] != '.';
    if (devices)
        closedir(devices);
    return found;
}

/* ---- blobs: u32 and u64 numbers, and pieces with a length before them ---- */

typedef struct {
    carrier_blob_t *blob;
    bool full;
} writer_t;

static void put_bytes(writer_t *writer, const void *bytes, size_t len)
{
    carrier_blob_t *blob = writer->blob;

    if (len > sizeof(blob->bytes) - blob->len) {
        writer->full = true;
        return;
    }
    memcpy(blob->bytes + blob->len, bytes, len);
    blob->len += (uint32_t)len;
}

static void put_u64(writer_t *writer, uint64_t value)
{
    uint8_t bytes[8];

    wire_put64(bytes, value);
    put_bytes(writer, bytes, sizeof(bytes));
}

static void put_piece(writer_t *writer, const void *bytes, size_t len)
{
    put_u64(writer, len);
    put_bytes(writer, bytes, len);
}

typedef struct {
    const uint8_t *at;
    size_t left;
    bool short_of;
} reader_t;

static uint64_t get_u64(reader_t *reader)
{
    if (reader->left < 8) {
        reader->short_of = true;
        return 0;
    }
    uint64_t value = wire_get64(reader->at);
    reader->at += 8;
    reader->left -= 8;
    return value;
}

/* Points into the blob; NULL: it is not all there. */
static const void *get_piece(reader_t *reader)
{
    uint64_t len = get_u64(reader);

    if (reader->short_of || len == 0 || len > reader->left) {
        reader->short_of = true;
        return NULL;
    }
    const void *piece = reader->at;
    reader->at += len;
    reader->left -= len;
    return piece;
}

/* ---- memory of UCX's making ---- */

struct carrier_made {
    ucx_context_t *context; /* the door's, too, and that of what is made beside it */
    ucx_memory_t memory;
};

static status_t rdma_memory_make(const carrier_memory_t *beside, size_t len_bytes, carrier_memory_t *memory,
                                 err_t *err)
{
    struct carrier_made *made = calloc(1, sizeof(*made));
    void *base = NULL;
    status_t status = STATUS_OK;

    if (!made)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    if (beside && beside->made)
        made->context = ucx_context_hold(beside->made->context);
    else
        status = ucx_context_open(&made->context, err);
    if (status != STATUS_OK)
        goto free_made;
    status = ucx_allocate(made->context, len_bytes, &made->memory, &base, err);
    if (status != STATUS_OK)
        goto let_go;
    *memory = (carrier_memory_t){
        .base = base, .len_bytes = len_bytes, .fd = -1, .made = made, .made_by = &carrier_rdma};
    return STATUS_OK;

let_go:
    ucx_context_let_go(made->context);
free_made:
    free(made);
    return status;
}

static void rdma_memory_free(carrier_memory_t *memory)
{
    struct carrier_made *made = memory->made;

    ucx_deregister(made->context, &made->memory);
    ucx_context_let_go(made->context);
    free(made);
    memory->made = NULL;
}

/* ---- the owner's side ---- */

typedef struct window_memory {
    struct window_memory *next;
    int64_t given_up_ns;
    void *base;
} window_memory_t;

struct carrier_door {
    ucx_t ucx;
    ucx_context_t *context;
    carrier_memory_t arena, directory;
    ucx_memory_t arena_key, directory_key; /* of what was not made by UCX */
    answerer_t answerer;
    window_memory_t *oldest, **newest; /* windows that were given up, by time */
};

struct carrier_seat {
    carrier_door_t *door;
    window_memory_t *window;
    ucx_memory_t key;
    asked_window_t asked;
};

static bool door_advance(void *ctx)
{
    (void)ctx;
    return false;
}

static void door_freed(void *ctx)
{
    carrier_door_t *door = ctx;
    window_memory_t *window;

    while ((window = door->oldest)) {
        door->oldest = window->next;
        munmap(window->base, CARRIER_WINDOW_BYTES);
        free(window);
    }
    free(door);
}

static status_t door_open_context(carrier_door_t *door, err_t *err)
{
    if (!door->arena.made)
        return ucx_context_open(&door->context, err);
    door->context = ucx_context_hold(door->arena.made->context);
    return STATUS_OK;
}

static const ucx_memory_t *key_of(const carrier_memory_t *memory, const ucx_memory_t *registered)
{
    return memory->made ? &memory->made->memory : registered;
}

static status_t door_register(const carrier_door_t *door, const carrier_memory_t *memory, ucx_memory_t *key,
                              err_t *err)
{
    return memory->made ? STATUS_OK : ucx_register(door->context, memory->base, memory->len_bytes, key, err);
}

static void rdma_door_close(carrier_door_t *door)
{
    ucx_context_t *context = door->context;

    ucx_deregister(context, &door->arena_key);
    ucx_deregister(context, &door->directory_key);
    ucx_close(&door->ucx); /* frees the door when the loop has run */
    answerer_close(&door->answerer);
    ucx_context_let_go(context);
}

static status_t rdma_door_open(const carrier_door_options_t *options, carrier_door_t **out, err_t *err)
{
    carrier_door_t *door = calloc(1, sizeof(*door));

    if (!door)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    door->arena = options->arena;
    door->directory = options->directory;
    door->newest = &door->oldest;
    door->ucx.advance = door_advance;
    door->ucx.freed = door_freed;
    door->ucx.ctx = door;
    status_t status = door_open_context(door, err);
    if (status != STATUS_OK)
        goto free_door;
    status = ucx_open(&door->ucx, door->context, options->loop, options->spin, err);
    if (status != STATUS_OK)
        goto close_context;
    if (!answerer_open(&door->answerer, door->ucx.worker, &door->arena, &door->directory))
        status = err_set(err, STATUS_UNSUPPORTED, "UCX takes no messages");
    if (status == STATUS_OK)
        status = door_register(door, &door->arena, &door->arena_key, err);
    if (status == STATUS_OK)
        status = door_register(door, &door->directory, &door->directory_key, err);
    if (status != STATUS_OK) {
        rdma_door_close(door);
        return status;
    }
    if (!ucx_has_hardware())
        log_warn("rdma_without_hardware", LOG_STR("reason", "UCX emulates it, which is slower than tcp"));
    *out = door;
    return STATUS_OK;

close_context:
    ucx_context_let_go(door->context);
free_door:
    free(door);
    return status;
}

static window_memory_t *window_make(carrier_door_t *door)
{
    window_memory_t *window = door->oldest;

    if (window && clock_now_ns() - window->given_up_ns >= WINDOW_QUARANTINE_NS) {
        door->oldest = window->next;
        if (!door->oldest)
            door->newest = &door->oldest;
        return window;
    }
    window = calloc(1, sizeof(*window));
    void *base =
        window ? mmap(NULL, CARRIER_WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
               : MAP_FAILED;
    if (base == MAP_FAILED) {
        free(window);
        return NULL;
    }
    window->base = base;
    return window;
}

static void window_retire(carrier_door_t *door, window_memory_t *window)
{
    window->next = NULL;
    window->given_up_ns = clock_now_ns();
    *door->newest = window;
    door->newest = &window->next;
}

static status_t seat_answer(const carrier_seat_t *seat, carrier_blob_t *answer, err_t *err)
{
    const carrier_door_t *door = seat->door;
    writer_t writer = {.blob = answer};
    ucp_address_t *address;
    size_t address_bytes;

    ucs_status_t failed = ucp_worker_get_address(door->ucx.worker, &address, &address_bytes);
    if (failed != UCS_OK)
        return err_set(err, STATUS_INTERNAL, "UCX has no address: %s", ucs_status_string(failed));
    answer->len = 0;
    put_u64(&writer, (uint64_t)UCX_MAGIC << 32 | ucx_version());
    put_piece(&writer, address, address_bytes);
    put_u64(&writer, (uintptr_t)door->arena.base);
    put_u64(&writer, door->arena.len_bytes);
    const ucx_memory_t *key = key_of(&door->arena, &door->arena_key);
    put_piece(&writer, key->rkey, key->rkey_bytes);
    put_u64(&writer, (uintptr_t)door->directory.base);
    put_u64(&writer, door->directory.len_bytes);
    key = key_of(&door->directory, &door->directory_key);
    put_piece(&writer, key->rkey, key->rkey_bytes);
    put_u64(&writer, (uintptr_t)seat->window->base);
    put_piece(&writer, seat->key.rkey, seat->key.rkey_bytes);
    put_u64(&writer, seat->asked.token);
    ucp_worker_release_address(door->ucx.worker, address);
    if (writer.full)
        return err_set(err, STATUS_TOO_LARGE, "UCX's addresses of this host take more than %d bytes",
                       CARRIER_BLOB_BYTES);
    return STATUS_OK;
}

static status_t check_hello(const carrier_blob_t *hello, err_t *err)
{
    reader_t reader = {.at = hello->bytes, .left = hello->len};
    uint64_t word = get_u64(&reader);

    if (reader.short_of || reader.left != 0 || word >> 32 != UCX_MAGIC)
        return err_set(err, STATUS_INVALID_ARGUMENT, "not a greeting of RDMA");
    uint32_t theirs = (uint32_t)word, ours = ucx_version();
    if (theirs != ours)
        return err_set(err, STATUS_UNSUPPORTED, "UCX %u.%u here, %u.%u there", ours >> 16, ours & 0xffff,
                       theirs >> 16, theirs & 0xffff);
    return STATUS_OK;
}

static void rdma_seat_give_up(carrier_seat_t *seat)
{
    answerer_remove(&seat->door->answerer, &seat->asked);
    ucx_deregister(seat->door->context, &seat->key);
    window_retire(seat->door, seat->window);
    free(seat);
}

static status_t rdma_seat_take(carrier_door_t *door, const carrier_blob_t *hello, carrier_blob_t *answer,
                               carrier_seat_t **out, err_t *err)
{
    status_t status = check_hello(hello, err);

    if (status != STATUS_OK)
        return status;
    carrier_seat_t *seat = calloc(1, sizeof(*seat));
    window_memory_t *window = window_make(door);
    if (!seat || !window) {
        if (window)
            window_retire(door, window);
        free(seat);
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    }
    seat->door = door;
    seat->window = window;
    status = ucx_register(door->context, window->base, CARRIER_WINDOW_BYTES, &seat->key, err);
    if (status == STATUS_OK && !answerer_add(&door->answerer, &seat->asked, window->base))
        status = err_set(err, STATUS_INTERNAL, "no random numbers");
    if (status == STATUS_OK)
        status = seat_answer(seat, answer, err);
    if (status != STATUS_OK) {
        rdma_seat_give_up(seat);
        return status;
    }
    ucx_begin(&door->ucx);
    *out = seat;
    return STATUS_OK;
}

static const uint8_t *rdma_seat_window(const carrier_seat_t *seat)
{
    return seat->window->base;
}

/* ---- the pool's side ---- */

TAILQ_HEAD(job_list, carrier_job);

/* In carrier_job_t.inside; inside_ptr is the scratch of a get. */
enum { JOB_PHASE, JOB_PENDING, JOB_FAILED };
typedef enum { GET_LOOK, GET_BYTES, GET_LOOK_AGAIN, PUT_BYTES } phase_t;

/* Room for the entries of a job's items. */
typedef struct scratch {
    struct scratch *next;
    uint32_t cap;
    directory_entry_t entries[];
} scratch_t;

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
};

struct carrier_client {
    ucx_context_t *context;
    uv_loop_t *loop;
    bool spin;
    scratch_t *scratch; /* not in use */
};

static bool link_advance(void *ctx);

static status_t rdma_client_open(struct uv_loop_s *loop, bool spin, carrier_client_t **out, err_t *err)
{
    carrier_client_t *client = calloc(1, sizeof(*client));

    if (!client)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    client->loop = loop;
    client->spin = spin;
    status_t status = ucx_context_open(&client->context, err);
    if (status != STATUS_OK) {
        free(client);
        return status;
    }
    *out = client;
    return STATUS_OK;
}

static void rdma_client_close(carrier_client_t *client)
{
    scratch_t *scratch;

    ucx_context_let_go(client->context);
    while ((scratch = client->scratch)) {
        client->scratch = scratch->next;
        free(scratch);
    }
    free(client);
}

static void rdma_client_hello(carrier_client_t *client, carrier_blob_t *hello)
{
    writer_t writer = {.blob = hello};

    (void)client;
    hello->len = 0;
    put_u64(&writer, (uint64_t)UCX_MAGIC << 32 | ucx_version());
}

/* -- operations -- */

static void link_break(carrier_link_t *link, ucs_status_t why)
{
    if (!link->broken)
        link->why = why;
    link->broken = true;
    ucx_begin(&link->ucx);
}

static void proof_ended(void *user, ucs_status_t status)
{
    carrier_link_t *link = user;

    link->proving--;
    if (status != UCS_OK)
        link_break(link, status);
}

static void on_proved(void *request, ucs_status_t status, void *user)
{
    ucp_request_free(request);
    proof_ended(user, status);
}

static void job_operation_ended(carrier_job_t *job, ucs_status_t status)
{
    job->inside[JOB_PENDING]--;
    job->inside[JOB_FAILED] |= status != UCS_OK;
    if (status != UCS_OK)
        link_break(job->link, status);
}

static void on_asked(void *user, ucs_status_t status)
{
    job_operation_ended(user, status);
}

static void on_job_operation(void *request, ucs_status_t status, void *user)
{
    ucp_request_free(request);
    job_operation_ended(user, status);
}

static ucp_request_param_t job_param(carrier_job_t *job)
{
    return (ucp_request_param_t){.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.send = on_job_operation,
                                 .user_data = job};
}

static void job_begun(carrier_job_t *job, ucs_status_ptr_t request)
{
    if (UCS_PTR_IS_ERR(request)) {
        job->inside[JOB_FAILED] = 1;
        link_break(job->link, UCS_PTR_STATUS(request));
    } else if (request) {
        job->inside[JOB_PENDING]++;
    }
}

static void job_ask(carrier_job_t *job, ask_what_t what, uint64_t at, void *bytes, size_t len)
{
    ucs_status_t status = ask_by_message(&job->link->asker, what, at, bytes, len, on_asked, job);

    if (status == UCS_OK)
        job->inside[JOB_PENDING]++;
    else
        job_begun(job, UCS_STATUS_PTR(status));
}

static void job_get(carrier_job_t *job, const remote_t *from, uint64_t at, void *to, size_t len)
{
    ucp_request_param_t param = job_param(job);

    if (len == 0 || job->inside[JOB_FAILED])
        return;
    if (job->link->asks)
        job_ask(job, from->what, at, to, len);
    else
        job_begun(job, ucp_get_nbx(job->link->ep, to, len, from->base + at, from->rkey, &param));
}

static void job_put(carrier_job_t *job, uint64_t at, void *bytes, size_t len)
{
    const remote_t *window = &job->link->window;
    ucp_request_param_t param = job_param(job);

    if (at > CARRIER_WINDOW_BYTES || len > CARRIER_WINDOW_BYTES - at)
        job_begun(job, UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM));
    else if (len == 0 || job->inside[JOB_FAILED])
        return;
    else if (job->link->asks)
        job_ask(job, ASK_WINDOW, at, bytes, len);
    else
        job_begun(job, ucp_put_nbx(job->link->ep, bytes, len, window->base + at, window->rkey, &param));
}

/* -- a get -- */

static void get_look(carrier_job_t *job)
{
    scratch_t *scratch = job->inside_ptr;

    for (uint32_t i = 0; i < job->count; i++) {
        uint64_t at = (uint64_t)directory_slot(job->items[i].handle) * sizeof(directory_entry_t);
        if (job->items[i].status == STATUS_OK)
            job_get(job, &job->link->directory, at, &scratch->entries[i], sizeof(directory_entry_t));
    }
}

static void get_begin(carrier_job_t *job)
{
    uint64_t slots = job->link->directory.len_bytes / sizeof(directory_entry_t);

    for (uint32_t i = 0; i < job->count; i++) {
        transfer_item_t *item = &job->items[i];
        item->status = item->len_bytes > job->max_item_bytes   ? STATUS_TOO_LARGE
                       : directory_slot(item->handle) >= slots ? STATUS_NOT_FOUND
                                                               : STATUS_OK;
    }
    get_look(job);
}

static void get_bytes(carrier_job_t *job)
{
    const scratch_t *scratch = job->inside_ptr;

    for (uint32_t i = 0; i < job->count; i++) {
        transfer_item_t *item = &job->items[i];
        uint64_t at = 0;
        if (item->status == STATUS_OK)
            item->status = directory_find(&scratch->entries[i], item->handle, item->offset, item->len_bytes,
                                          job->link->arena.len_bytes, &at);
        for (uint32_t k = 0; item->status == STATUS_OK && k < item->iov_count; k++) {
            job_get(job, &job->link->arena, at, item->iov[k].iov_base, item->iov[k].iov_len);
            at += item->iov[k].iov_len;
        }
    }
}

static void get_judge(const carrier_job_t *job)
{
    const scratch_t *scratch = job->inside_ptr;

    for (uint32_t i = 0; i < job->count; i++) {
        transfer_item_t *item = &job->items[i];
        if (item->status == STATUS_OK && !directory_holds(&scratch->entries[i], item->handle))
            item->status = STATUS_NOT_FOUND;
    }
}

/* -- jobs -- */

static void job_end(carrier_job_t *job, status_t status)
{
    carrier_client_t *client = job->link->client;
    scratch_t *scratch = job->inside_ptr;

    TAILQ_REMOVE(&job->link->jobs, job, entry);
    if (scratch) {
        scratch->next = client->scratch;
        client->scratch = scratch;
    }
    job->done(job, status);
}

/* The next phase of a job of which nothing is under way. False: it has ended. */
static bool job_next(carrier_job_t *job)
{
    switch ((phase_t)job->inside[JOB_PHASE]) {
    case GET_LOOK:
        job->inside[JOB_PHASE] = GET_BYTES;
        get_bytes(job);
        return true;
    case GET_BYTES:
        job->inside[JOB_PHASE] = GET_LOOK_AGAIN;
        get_look(job);
        return true;
    case GET_LOOK_AGAIN:
        get_judge(job);
        break;
    case PUT_BYTES:
        break;
    }
    job_end(job, STATUS_OK);
    return false;
}

/* True: something was done. Callbacks may do anything to the link, so the caller begins anew after it. */
static bool link_advance_job(carrier_link_t *link)
{
    carrier_job_t *job;

    TAILQ_FOREACH(job, &link->jobs, entry)
    {
        if (job->inside[JOB_PENDING] > 0)
            continue;
        if (link->broken)
            job_end(job, STATUS_UNAVAILABLE);
        else
            job_next(job);
        return true;
    }
    return false;
}

static scratch_t *scratch_take(carrier_client_t *client, uint32_t count)
{
    scratch_t *scratch = client->scratch;

    if (scratch && scratch->cap >= count) {
        client->scratch = scratch->next;
        return scratch;
    }
    uint32_t cap = 16;
    while (cap < count)
        cap *= 2;
    size_t bytes = sizeof(*scratch) + cap * sizeof(directory_entry_t);
    if (scratch) /* one of them grows; soon all have the usual size */
        client->scratch = scratch->next;
    free(scratch);
    scratch = calloc(1, bytes);
    if (scratch)
        scratch->cap = cap;
    return scratch;
}

static void job_start(carrier_link_t *link, carrier_job_t *job, phase_t phase)
{
    job->link = link;
    memset(job->inside, 0, sizeof(job->inside));
    job->inside[JOB_PHASE] = phase;
    job->inside_ptr = NULL;
    TAILQ_INSERT_TAIL(&link->jobs, job, entry);
    ucx_begin(&link->ucx);
}

static void rdma_get(carrier_link_t *link, carrier_job_t *job)
{
    job_start(link, job, GET_LOOK);
    job->inside_ptr = scratch_take(link->client, job->count);
    if (job->inside_ptr)
        get_begin(job);
    else
        link_break(link, UCS_ERR_NO_MEMORY);
}

static void rdma_put(carrier_link_t *link, carrier_job_t *job)
{
    ucp_request_param_t param = job_param(job);
    uint64_t at = job->window_offset;

    job_start(link, job, PUT_BYTES);
    for (uint32_t i = 0; i < job->count; i++) {
        job_put(job, at, job->iov[i].iov_base, job->iov[i].iov_len);
        at += job->iov[i].iov_len;
    }
    if (!link->asks && !job->inside[JOB_FAILED])
        job_begun(job, ucp_ep_flush_nbx(link->ep, &param));
}

static bool rdma_cancel(carrier_link_t *link, carrier_job_t *job)
{
    carrier_client_t *client = link->client;
    scratch_t *scratch = job->inside_ptr;

    if (job->inside[JOB_PENDING] > 0)
        return false;
    TAILQ_REMOVE(&link->jobs, job, entry);
    if (scratch) {
        scratch->next = client->scratch;
        client->scratch = scratch;
    }
    return true;
}

/* -- links -- */

static void on_ep_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)ep;
    link_break(arg, status);
}

static ucs_status_t link_connect(carrier_link_t *link, const void *address, bool by_peer)
{
    const ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      (by_peer ? UCP_EP_PARAM_FIELD_ERR_HANDLER : 0),
        .address = address,
        .err_mode = by_peer ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE,
        .err_handler = {.cb = on_ep_error, .arg = link}};

    link->by_peer = by_peer;
    return ucp_ep_create(link->ucx.worker, &params, &link->ep);
}

typedef struct {
    const void *address, *arena, *directory, *window;
    uint64_t token;
} answer_t;

static bool link_read_answer(carrier_link_t *link, const carrier_blob_t *blob, answer_t *answer)
{
    reader_t reader = {.at = blob->bytes, .left = blob->len};

    uint64_t word = get_u64(&reader);
    answer->address = get_piece(&reader);
    link->arena.what = ASK_ARENA;
    link->directory.what = ASK_DIRECTORY;
    link->window.what = ASK_WINDOW;
    link->arena.base = get_u64(&reader);
    link->arena.len_bytes = get_u64(&reader);
    answer->arena = get_piece(&reader);
    link->directory.base = get_u64(&reader);
    link->directory.len_bytes = get_u64(&reader);
    answer->directory = get_piece(&reader);
    link->window.base = get_u64(&reader);
    link->window.len_bytes = CARRIER_WINDOW_BYTES;
    answer->window = get_piece(&reader);
    answer->token = get_u64(&reader);
    return !reader.short_of && reader.left == 0 && word == ((uint64_t)UCX_MAGIC << 32 | ucx_version()) &&
           link->directory.len_bytes >= sizeof(directory_entry_t) && link->arena.len_bytes > 0;
}

static void link_drop_keys(carrier_link_t *link)
{
    remote_t *const all[] = {&link->arena, &link->directory, &link->window};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (all[i]->rkey)
            ucp_rkey_destroy(all[i]->rkey);
        all[i]->rkey = NULL;
    }
}

static void link_prove(carrier_link_t *link)
{
    const ucp_request_param_t param = {.op_attr_mask =
                                           UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                       .cb.send = on_proved,
                                       .user_data = link};
    ucs_status_ptr_t request;

    if (link->asks)
        request = UCS_STATUS_PTR(ask_by_message(&link->asker, ASK_DIRECTORY, 0, &link->proof,
                                                sizeof(link->proof), proof_ended, link));
    else
        request = ucp_get_nbx(link->ep, &link->proof, sizeof(link->proof), link->directory.base,
                              link->directory.rkey, &param);
    if (UCS_PTR_IS_ERR(request))
        link_break(link, UCS_PTR_STATUS(request));
    else if (request || link->asks)
        link->proving++;
}

static void link_freed(void *ctx)
{
    carrier_link_t *link = ctx;

    asker_close(&link->asker);
    ucx_context_let_go(link->context);
    free(link);
}

static status_t link_unpack(carrier_link_t *link, const answer_t *answer, err_t *err)
{
    ucs_status_t failed = link_connect(link, answer->address, true);

    if (failed != UCS_OK)
        failed = link_connect(link, answer->address, false);
    if (failed != UCS_OK)
        return err_set(err, STATUS_UNAVAILABLE, "UCX does not reach it: %s", ucs_status_string(failed));
    link->asks = link->by_peer && !ucx_has_hardware();
    if (!asker_open(&link->asker, link->ucx.worker, link->ep, answer->token))
        return err_set(err, STATUS_UNAVAILABLE, "UCX takes no messages");
    failed = ucp_ep_rkey_unpack(link->ep, answer->arena, &link->arena.rkey);
    if (failed == UCS_OK)
        failed = ucp_ep_rkey_unpack(link->ep, answer->directory, &link->directory.rkey);
    if (failed == UCS_OK)
        failed = ucp_ep_rkey_unpack(link->ep, answer->window, &link->window.rkey);
    if (failed != UCS_OK)
        return err_set(err, STATUS_UNAVAILABLE, "UCX cannot use its keys: %s", ucs_status_string(failed));
    return STATUS_OK;
}

/* After this nothing of a job is touched. Frees the link when the loop has run. */
static void link_end(carrier_link_t *link)
{
    if (link->ep && link->by_peer)
        ucx_close_endpoint(&link->ucx, link->ep);
    link_drop_keys(link);
    ucx_close(&link->ucx);
}

static status_t rdma_link_open(carrier_client_t *client, const carrier_blob_t *blob,
                               const carrier_watch_t *watch, carrier_link_t **out, err_t *err)
{
    carrier_link_t *link = calloc(1, sizeof(*link));
    answer_t answer;

    if (!link)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    link->client = client;
    link->watch = *watch;
    link->ucx.advance = link_advance;
    link->ucx.freed = link_freed;
    link->ucx.ctx = link;
    TAILQ_INIT(&link->jobs);
    status_t status = STATUS_OK;
    if (!link_read_answer(link, blob, &answer))
        status = err_set(err, STATUS_INVALID_ARGUMENT, "its answer makes no sense");
    if (status == STATUS_OK)
        status = ucx_open(&link->ucx, client->context, client->loop, client->spin, err);
    if (status != STATUS_OK) {
        free(link);
        return status;
    }
    link->context = ucx_context_hold(client->context);
    status = link_unpack(link, &answer, err);
    if (status != STATUS_OK) {
        link_end(link);
        return status;
    }
    link_prove(link);
    *out = link;
    return STATUS_OK;
}

static void on_patience_closed(uv_handle_t *handle)
{
    link_end(handle->data);
}

static void linger_end(carrier_link_t *link)
{
    link->lingers = false;
    uv_close((uv_handle_t *)&link->patience, on_patience_closed);
}

static void on_patience(uv_timer_t *timer)
{
    linger_end(timer->data);
}

/* An owner that answers the first message of somebody who is gone by then is aborted by UCX 1.13, so who closes so soon waits for the
 * answer. There are no jobs yet. */
static void link_linger(carrier_link_t *link)
{
    link->lingers = true;
    uv_timer_init(link->client->loop, &link->patience);
    link->patience.data = link;
    uv_update_time(link->client->loop);
    uv_timer_start(&link->patience, on_patience, FIRST_ANSWER_MS, 0);
    ucx_begin(&link->ucx);
}

static void rdma_link_close(carrier_link_t *link)
{
    link->closed = true;
    if (link->proving > 0 && !link->broken)
        link_linger(link);
    else
        link_end(link);
    while (!TAILQ_EMPTY(&link->jobs))
        job_end(TAILQ_FIRST(&link->jobs), STATUS_UNAVAILABLE);
}

/* One thing at a time: callbacks may close the link. */
static bool link_advance(void *ctx)
{
    carrier_link_t *link = ctx;

    if (link->broken)
        asker_give_up(&link->asker);
    if (link->closed) {
        if (link->lingers && (link->proving == 0 || link->broken))
            linger_end(link);
        return false;
    }
    if (link_advance_job(link))
        return true;
    if (link->told || link->proving > 0 || !TAILQ_EMPTY(&link->jobs))
        return false;
    if (link->broken) {
        link->told = true;
        link->watch.changed(link->watch.ctx, STATUS_UNAVAILABLE, ucs_status_string(link->why));
        return true;
    }
    if (link->ready)
        return false;
    link->ready = true;
    link->watch.changed(link->watch.ctx, STATUS_OK, "");
    return true;
}

const carrier_ops_t carrier_rdma = {
    .way = TRANSFER_BY_RDMA,
    .bit = 2,
    .name = "rdma",
    .memory_make = rdma_memory_make,
    .memory_free = rdma_memory_free,
    .door_open = rdma_door_open,
    .door_close = rdma_door_close,
    .seat_take = rdma_seat_take,
    .seat_give_up = rdma_seat_give_up,
    .seat_window = rdma_seat_window,
    .client_open = rdma_client_open,
    .client_close = rdma_client_close,
    .client_hello = rdma_client_hello,
    .link_open = rdma_link_open,
    .link_close = rdma_link_close,
    .get = rdma_get,
    .put = rdma_put,
    .cancel = rdma_cancel,
    .registered = ucx_registered,
};
