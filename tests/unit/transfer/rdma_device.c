/*
 * Fetches into the memory of a GPU. There is none here: UCX is replaced where it is asked what memory it takes, and where it is given such
 * memory, which is the host's in truth.
 */
#include "harness.h"

#include "transfer/carrier.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <ucp/api/ucp.h>

enum { LEN = 40000 };

static bool takes_cuda, gets_fail;
static uint32_t mapped_as_cuda;

ucs_status_t ucp_context_query(ucp_context_h context, ucp_context_attr_t *attr)
{
    ucs_status_t (*real)(ucp_context_h, ucp_context_attr_t *) =
        (ucs_status_t(*)(ucp_context_h, ucp_context_attr_t *))dlsym(RTLD_NEXT, "ucp_context_query");
    ucs_status_t status = real(context, attr);

    if (takes_cuda && attr->field_mask & UCP_ATTR_FIELD_MEMORY_TYPES)
        attr->memory_types |= UCS_BIT(UCS_MEMORY_TYPE_CUDA);
    return status;
}

ucs_status_t ucp_mem_map(ucp_context_h context, const ucp_mem_map_params_t *params, ucp_mem_h *handle)
{
    ucs_status_t (*real)(ucp_context_h, const ucp_mem_map_params_t *, ucp_mem_h *) =
        (ucs_status_t(*)(ucp_context_h, const ucp_mem_map_params_t *, ucp_mem_h *))dlsym(RTLD_NEXT,
                                                                                         "ucp_mem_map");
    ucp_mem_map_params_t host = *params;

    if (params->field_mask & UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE)
        mapped_as_cuda += params->memory_type == UCS_MEMORY_TYPE_CUDA;
    host.field_mask &= ~(uint64_t)UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
    return real(context, &host, handle);
}

ucs_status_ptr_t ucp_get_nbx(ucp_ep_h ep, void *buffer, size_t count, uint64_t remote_addr, ucp_rkey_h rkey,
                             const ucp_request_param_t *param)
{
    typedef ucs_status_ptr_t (*get_fn)(ucp_ep_h, void *, size_t, uint64_t, ucp_rkey_h,
                                       const ucp_request_param_t *);

    if (gets_fail && count == LEN)
        return UCS_STATUS_PTR(UCS_ERR_IO_ERROR);
    return ((get_fn)dlsym(RTLD_NEXT, "ucp_get_nbx"))(ep, buffer, count, remote_addr, rkey, param);
}

static rig_t rig;
static uint8_t gpu[LEN];
static struct iovec iov = {gpu, LEN};
static transfer_item_t item;
static outcome_t outcome;

static void use(const char *way, const char *transports)
{
    setenv("FERMATA_TEST_TRANSPORT", way, 1);
    setenv("UCX_TLS", transports, 1);
}

static status_t fetch(uint64_t len_bytes)
{
    item = (transfer_item_t){
        .handle = rig_publish(&rig, 100, LEN, NULL), .len_bytes = len_bytes, .iov = &iov, .iov_count = 1};
    return transfer_fetch_to_device(rig.peer, &item, 1, 0, outcome_set, &outcome, NULL);
}

static transfer_stats_t stats(void)
{
    transfer_stats_t now;

    transfer_pool_stats(rig.pool, &now);
    return now;
}

static void end(void)
{
    rig_dispose(&rig);
    cr_assert_eq(carrier_rdma.registered(), 0, "nothing stays registered");
}

Test(rdma_device, what_ucx_takes_is_asked_of_it)
{
    use("rdma", "posix,sysv,cma,self");
    rig_init_apart(&rig, NULL, NULL);
    cr_assert(transfer_pool_reach(rig.pool).rdma);
    cr_assert_not(transfer_pool_reach(rig.pool).device, "this UCX knows of no CUDA");
    takes_cuda = true;
    cr_assert(transfer_pool_reach(rig.pool).device);
    end();
    use("tcp", "");
    rig_init_apart(&rig, NULL, NULL);
    cr_assert_not(transfer_pool_reach(rig.pool).rdma || transfer_pool_reach(rig.pool).device);
    end();
}

Test(rdma_device, a_fetch_lands_in_a_buffer_that_is_registered_as_the_gpus)
{
    use("rdma", "posix,sysv,cma,self");
    rig_init(&rig, NULL, NULL);
    cr_assert_eq(fetch(LEN), STATUS_UNAVAILABLE, "it is not registered");
    transfer_buffer_add(rig.pool, TRANSFER_IN_DEVICE, gpu, LEN);
    cr_assert_eq(mapped_as_cuda, 1);
    cr_assert(transfer_lands(rig.peer, gpu, LEN) && !transfer_lands(rig.peer, gpu + 1, LEN));
    cr_assert_eq(fetch(LEN - 1), STATUS_INVALID_ARGUMENT, "looked at as any other");
    cr_assert_eq(fetch(LEN), STATUS_OK);
    rig_until(&rig, &outcome.calls, 1);
    cr_assert(outcome.status == STATUS_OK && item.status == STATUS_OK);
    cr_assert_arr_eq(gpu, rig.arena + 100, LEN);
    cr_assert_eq(stats().by[TRANSFER_BY_RDMA].items, 1);
    transfer_buffer_drop(rig.pool, gpu);
    cr_assert_not(transfer_lands(rig.peer, gpu, LEN));
    end();
}

Test(rdma_device, when_the_link_breaks_it_fails_once_and_nothing_goes_through_the_socket)
{
    use("rdma", "posix,sysv,cma,self");
    rig_init(&rig, NULL, NULL);
    transfer_buffer_add(rig.pool, TRANSFER_IN_DEVICE, gpu, LEN);
    gets_fail = true;
    cr_assert_eq(fetch(LEN), STATUS_OK);
    rig_until(&rig, &outcome.calls, 1);
    cr_assert_eq(outcome.status, STATUS_UNAVAILABLE);
    cr_assert_eq(item.status, STATUS_UNAVAILABLE);
    rig_settle(&rig);
    cr_assert_eq(outcome.calls, 1);
    for (int i = 0; i < LEN; i++)
        cr_assert_eq(gpu[i], 0);
    cr_assert_eq(fetch(LEN), STATUS_UNAVAILABLE, "there is no link now");
    cr_assert(stats().by[TRANSFER_BY_TCP].items == 0 && stats().fallbacks == 1);
    cr_assert_eq(transfer_fetch(rig.peer, &item, 1, 0, outcome_set, &outcome, NULL), STATUS_OK);
    rig_until(&rig, &outcome.calls, 2);
    cr_assert(outcome.status == STATUS_OK && stats().by[TRANSFER_BY_TCP].items == 1,
              "into the host's it goes on through the socket");
    end();
}

static void has_no_way(const char *way, const char *transports)
{
    use(way, transports);
    rig_init(&rig, NULL, NULL);
    transfer_buffer_add(rig.pool, TRANSFER_IN_DEVICE, gpu, LEN);
    cr_assert_not(transfer_lands(rig.peer, gpu, LEN));
    cr_assert_eq(fetch(LEN), STATUS_UNAVAILABLE);
    end();
}

Test(rdma_device, the_socket_has_no_way_there)
{
    has_no_way("tcp", "");
}

Test(rdma_device, nor_has_shared_memory)
{
    has_no_way("shm", "");
}

Test(rdma_device, nor_have_messages)
{
    has_no_way("rdma", "tcp,self");
}
