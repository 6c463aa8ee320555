#include "base/clock.h"
#include "rpc/internal.h"

#include <grpc/support/alloc.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static const struct {
    rpc_code_t code;
    status_t status;
    const char *name;
} codes[] = {
    {RPC_OK, STATUS_OK, "OK"},
    {RPC_CANCELLED, STATUS_CANCELLED, "CANCELLED"},
    {RPC_UNKNOWN, STATUS_INTERNAL, "UNKNOWN"},
    {RPC_INVALID_ARGUMENT, STATUS_INVALID_ARGUMENT, "INVALID_ARGUMENT"},
    {RPC_DEADLINE_EXCEEDED, STATUS_DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED"},
    {RPC_NOT_FOUND, STATUS_NOT_FOUND, "NOT_FOUND"},
    {RPC_ALREADY_EXISTS, STATUS_INVALID_ARGUMENT, "ALREADY_EXISTS"},
    {RPC_PERMISSION_DENIED, STATUS_PERMISSION_DENIED, "PERMISSION_DENIED"},
    {RPC_RESOURCE_EXHAUSTED, STATUS_TOO_LARGE, "RESOURCE_EXHAUSTED"},
    {RPC_FAILED_PRECONDITION, STATUS_INVALID_ARGUMENT, "FAILED_PRECONDITION"},
    {RPC_ABORTED, STATUS_UNAVAILABLE, "ABORTED"},
    {RPC_OUT_OF_RANGE, STATUS_INVALID_ARGUMENT, "OUT_OF_RANGE"},
    {RPC_UNIMPLEMENTED, STATUS_UNSUPPORTED, "UNIMPLEMENTED"},
    {RPC_INTERNAL, STATUS_INTERNAL, "INTERNAL"},
    {RPC_UNAVAILABLE, STATUS_UNAVAILABLE, "UNAVAILABLE"},
    {RPC_DATA_LOSS, STATUS_INTERNAL, "DATA_LOSS"},
    {RPC_UNAUTHENTICATED, STATUS_UNAUTHENTICATED, "UNAUTHENTICATED"},
};
enum { CODE_COUNT = sizeof codes / sizeof codes[0] };

const char *rpc_code_name(rpc_code_t code)
{
    return (unsigned)code < CODE_COUNT ? codes[code].name : "?";
}

rpc_code_t rpc_code_of(status_t status)
{
    return (rpc_code_t)status_to_grpc(status);
}

status_t rpc_code_to_status(rpc_code_t code)
{
    return (unsigned)code < CODE_COUNT ? codes[code].status : STATUS_INTERNAL;
}

/* ---- Limits as channel arguments ---- */

static int clamp_int(int64_t value, int64_t fallback)
{
    if (value == 0)
        value = fallback;
    if (value < 0 || value > INT_MAX)
        return INT_MAX; /* gRPC's "never" and "no limit" */
    return (int)value;
}

static grpc_arg integer(const char *key, int value)
{
    grpc_arg arg = {.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)key};
    arg.value.integer = value;
    return arg;
}

/* Milliseconds of a duration, at least 1; negative = never. */
static int duration_ms(int64_t value_ns, int64_t fallback_ns)
{
    if (value_ns == 0)
        value_ns = fallback_ns;
    if (value_ns < 0)
        return INT_MAX;
    return clamp_int((value_ns + NS_PER_MS - 1) / NS_PER_MS, 1);
}

static size_t server_args(grpc_arg *args)
{
    size_t n = 0;
    /* Our clients ping while they wait for the first connection's traffic. */
    args[n++] = integer(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 100);
    args[n++] = integer(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
    /* gRPC unpacks before anyone is asked, and 64 KB of gzip may be 64 MB: bit 0 is no compression. */
    args[n++] = integer(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE);
    return n;
}

static size_t client_args(grpc_arg *args)
{
    size_t n = 0;
    args[n++] = integer(GRPC_ARG_ENABLE_HTTP_PROXY, 0); /* http_proxy is for the web, not for the cluster */
    args[n++] = integer(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1); /* one connection per client */
    args[n++] = integer(GRPC_ARG_ENABLE_RETRIES, 0);            /* what is sent twice is decided above */
    args[n++] = integer(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
    /* The link's own backoff decides (it resets gRPC's); these only bound what happens without a link. */
    args[n++] = integer(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
    args[n++] = integer(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
    args[n++] = integer(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
    return n;
}

size_t rpc_limits_args(const rpc_limits_t *limits, bool server, grpc_arg args[RPC_ARGS_MAX])
{
    int64_t receive_default = server ? 4 * 1024 * 1024 : INT_MAX;
    size_t n = server ? server_args(args) : client_args(args);
    args[n++] =
        integer(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, clamp_int(limits->max_receive_bytes, receive_default));
    args[n++] = integer(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, clamp_int(limits->max_send_bytes, INT_MAX));
    args[n++] = integer(GRPC_ARG_KEEPALIVE_TIME_MS, duration_ms(limits->keepalive_ns, 10 * NS_PER_S));
    args[n++] =
        integer(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, duration_ms(limits->keepalive_timeout_ns, 5 * NS_PER_S));
    args[n++] = integer(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
    args[n++] = integer(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    if (server && limits->idle_ns > 0)
        args[n++] = integer(GRPC_ARG_MAX_CONNECTION_IDLE_MS, duration_ms(limits->idle_ns, 0));
    return n;
}

size_t rpc_send_queue_bytes(const rpc_limits_t *limits)
{
    return limits->send_queue_bytes > 0 ? (size_t)limits->send_queue_bytes : (size_t)8 * 1024 * 1024;
}

/* ---- Texts and times ---- */

void rpc_copy_text(char text[RPC_TEXT_BYTES], const char *from)
{
    (void)snprintf(text, RPC_TEXT_BYTES, "%s", from ? from : "");
}

void rpc_slice_text(grpc_slice slice, char text[RPC_TEXT_BYTES])
{
    size_t len = GRPC_SLICE_LENGTH(slice);
    if (len >= RPC_TEXT_BYTES)
        len = RPC_TEXT_BYTES - 1;
    memcpy(text, GRPC_SLICE_START_PTR(slice), len);
    text[len] = '\0';
}

bool rpc_metadata_find(const grpc_metadata_array *metadata, const char *name, const char **value,
                       size_t *len_bytes)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < metadata->count; i++) {
        const grpc_slice *key = &metadata->metadata[i].key, *found = &metadata->metadata[i].value;
        if (GRPC_SLICE_LENGTH(*key) != len || memcmp(GRPC_SLICE_START_PTR(*key), name, len) != 0)
            continue;
        *value = (const char *)GRPC_SLICE_START_PTR(*found);
        *len_bytes = GRPC_SLICE_LENGTH(*found);
        return true;
    }
    return false;
}

/* gRPC says "ipv4:127.0.0.1:1" and "ipv6:%5B::1%5D:1". */
void rpc_peer_text(grpc_call *call, char text[RPC_PEER_BYTES])
{
    char *uri = grpc_call_get_peer(call);
    const char *at = uri ? uri : "unknown";
    if (strncmp(at, "ipv4:", 5) == 0 || strncmp(at, "ipv6:", 5) == 0)
        at += 5;
    size_t n = 0;
    for (; *at != '\0' && n < RPC_PEER_BYTES - 1; n++) {
        bool open = strncmp(at, "%5B", 3) == 0, close = strncmp(at, "%5D", 3) == 0;
        text[n] = open ? '[' : close ? ']' : *at;
        at += open || close ? 3 : 1;
    }
    text[n] = '\0';
    gpr_free(uri);
}

gpr_timespec rpc_deadline_after(int64_t timeout_ns)
{
    gpr_timespec now = gpr_now(GPR_CLOCK_MONOTONIC);
    if (timeout_ns == RPC_NO_DEADLINE)
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    return gpr_time_add(now, gpr_time_from_nanos(timeout_ns, GPR_TIMESPAN));
}
