/*
 * Buffers that are registered once: UCX is called with their handles, however they lie to each other and whenever they were added, and they
 * are given back. ucp_get_nbx and ucp_put_nbx are replaced by such as note the handle, and then call the real ones.
 */
#include "harness.h"

#include "transfer/carrier.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <ucp/api/ucp.h>

enum { LEN = 40000, BUFFERS = 40 };

typedef ucs_status_ptr_t (*get_fn)(ucp_ep_h, void *, size_t, uint64_t, ucp_rkey_h,
                                   const ucp_request_param_t *);
typedef ucs_status_ptr_t (*put_fn)(ucp_ep_h, const void *, size_t, uint64_t, ucp_rkey_h,
                                   const ucp_request_param_t *);

/* Of the last operation on LEN bytes. */
static ucp_mem_h got_by, put_by;

static ucp_mem_h handle_of(const ucp_request_param_t *param)
{
    return param->op_attr_mask & UCP_OP_ATTR_FIELD_MEMH ? param->memh : NULL;
}

ucs_status_ptr_t ucp_get_nbx(ucp_ep_h ep, void *buffer, size_t count, uint64_t remote_addr, ucp_rkey_h rkey,
                             const ucp_request_param_t *param)
{
    if (count == LEN)
        got_by = handle_of(param);
    return ((get_fn)dlsym(RTLD_NEXT, "ucp_get_nbx"))(ep, buffer, count, remote_addr, rkey, param);
}

ucs_status_ptr_t ucp_put_nbx(ucp_ep_h ep, const void *buffer, size_t count, uint64_t remote_addr,
                             ucp_rkey_h rkey, const ucp_request_param_t *param)
{
    if (count == LEN)
        put_by = handle_of(param);
    return ((put_fn)dlsym(RTLD_NEXT, "ucp_put_nbx"))(ep, buffer, count, remote_addr, rkey, param);
}

static rig_t rig;
static uint8_t bytes[BUFFERS][LEN];

static void use(const char *way, const char *transports)
{
    setenv("FERMATA_TEST_TRANSPORT", way, 1);
    setenv("UCX_TLS", transports, 1);
}

static transfer_stats_t stats(void)
{
    transfer_stats_t now;

    transfer_pool_stats(rig.pool, &now);
    return now;
}

static void fetch_to(uint8_t *to)
{
    struct iovec iov = {to, LEN};
    transfer_item_t item = {
        .handle = rig_publish(&rig, 100, LEN, NULL), .len_bytes = LEN, .iov = &iov, .iov_count = 1};
    outcome_t outcome = {0};

    cr_assert_eq(transfer_fetch(rig.peer, &item, 1, 0, outcome_set, &outcome, NULL), STATUS_OK);
    rig_until(&rig, &outcome.calls, 1);
    cr_assert(outcome.status == STATUS_OK && item.status == STATUS_OK);
    cr_assert_arr_eq(to, rig.arena + 100, LEN);
    transfer_unpublish(rig.owner, item.handle);
}

static void push_from(uint8_t *from)
{
    struct iovec iov = {from, LEN};
    transfer_result_t result = {
        .task_id = 1, .handle = rig_publish(&rig, 0, 1, NULL), .iov = &iov, .iov_count = 1};
    outcome_t outcome = {0};

    cr_assert_eq(transfer_push(rig.peer, &result, 1, 0, outcome_set, &outcome, NULL), STATUS_OK);
    rig_until(&rig, &outcome.calls, 1);
    cr_assert_eq(outcome.status, STATUS_OK);
    cr_assert_arr_eq(rig.received[rig.received_count - 1].buffer, from, LEN);
}

static void end(void)
{
    rig_dispose(&rig);
    cr_assert_eq(carrier_rdma.registered(), 0, "nothing stays registered");
}

Test(rdma_buffers, gets_and_puts_of_a_buffer_pass_its_handle_until_it_is_dropped)
{
    use("rdma", "posix,sysv,cma,self");
    rig_init(&rig, NULL, NULL);
    uint32_t others = carrier_rdma.registered();

    fetch_to(bytes[0]);
    cr_assert_null(got_by, "it was not added yet");
    transfer_buffer_add(rig.pool, TRANSFER_IN_HOST, bytes[0], LEN);
    cr_assert_eq(carrier_rdma.registered(), others + 1);
    cr_assert_eq(stats().registered_bytes, LEN);
    fetch_to(bytes[0]);
    cr_assert_not_null(got_by);
    push_from(bytes[0]);
    cr_assert_eq(put_by, got_by, "outputs are puts of the same memory");
    transfer_buffer_drop(rig.pool, bytes[0]);
    cr_assert_eq(carrier_rdma.registered(), others);
    cr_assert_eq(stats().registered_bytes, 0);
    fetch_to(bytes[0]);
    push_from(bytes[0]);
    cr_assert(!got_by && !put_by, "it is gone");
    end();
}

Test(rdma_buffers, those_of_before_the_first_link_are_registered_with_it_and_the_end_of_the_pool_drops_them)
{
    use("rdma", "posix,sysv,cma,self");
    rig_init_apart(&rig, NULL, NULL);
    uint32_t others = carrier_rdma.registered();

    for (int i = 0; i < BUFFERS; i++) /* in no order */
        transfer_buffer_add(rig.pool, TRANSFER_IN_HOST, bytes[i * 7 % BUFFERS], LEN);
    cr_assert_eq(carrier_rdma.registered(), others, "no link, nothing pinned");
    rig_link(&rig);
    cr_assert_eq(carrier_rdma.registered(), others + BUFFERS + 1, "with the connection's window");
    cr_assert_eq(stats().registered_bytes, BUFFERS * LEN);
    for (int i = 0; i < BUFFERS; i++) {
        ucp_mem_h last = got_by;
        fetch_to(bytes[i]);
        cr_assert(got_by && got_by != last, "buffer %d has a handle of its own", i);
    }
    for (int i = 0; i < BUFFERS; i += 2)
        transfer_buffer_drop(rig.pool, bytes[i]);
    transfer_buffer_drop(rig.pool, bytes[0]);
    transfer_buffer_drop(rig.pool, bytes[1] + 1);
    cr_assert_eq(stats().registered_bytes, BUFFERS / 2 * LEN);
    for (int i = 0; i < BUFFERS; i++) {
        fetch_to(bytes[i]);
        cr_assert_eq(got_by != NULL, i % 2, "buffer %d", i);
    }
    end();
}

Test(rdma_buffers, what_reaches_beyond_a_buffer_has_no_handle)
{
    use("rdma", "posix,sysv,cma,self");
    rig_init(&rig, NULL, NULL);
    transfer_buffer_add(rig.pool, TRANSFER_IN_HOST, bytes[1], LEN);
    fetch_to(bytes[1] + 1);
    cr_assert_null(got_by);
    fetch_to(bytes[1] - 1);
    cr_assert_null(got_by);
    fetch_to(bytes[1]);
    cr_assert_not_null(got_by);
    end();
}

Test(rdma_buffers, are_nothing_to_the_socket_and_to_shared_memory)
{
    const char *const ways[] = {"tcp", "shm"};

    for (int i = 0; i < 2; i++) {
        use(ways[i], "posix,sysv,cma,self");
        rig_init(&rig, NULL, NULL);
        transfer_buffer_add(rig.pool, TRANSFER_IN_HOST, bytes[0], LEN);
        fetch_to(bytes[0]);
        push_from(bytes[0]);
        cr_assert(stats().registered_bytes == 0 && stats().refused_bytes == 0);
        transfer_buffer_drop(rig.pool, bytes[0]);
        end();
    }
}
