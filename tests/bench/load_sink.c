/*
 * A server that knows one model and answers every inference at once with the same bytes, by both protocols: what
 * is left of a measured rate is the load generator and the transports. tests/bench/bench-load runs it.
 */
#include "http/server.h"
#include "loop/loop.h"
#include "loop/signals.h"
#include "open_inference.pb-c.h"
#include "rpc/pb.h"
#include "rpc/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char metadata[] = "{\"name\":\"sink\",\"versions\":[\"1\"],\"platform\":\"none\","
                               "\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[-1,16]}],"
                               "\"outputs\":[{\"name\":\"y\",\"datatype\":\"FP32\",\"shape\":[-1,16]}]}";
static const char answer[] =
    "{\"model_name\":\"sink\",\"model_version\":\"1\",\"parameters\":{\"fermata_batch_size\":1,"
    "\"fermata_queue_us\":1,\"fermata_compute_us\":1},\"outputs\":[{\"name\":\"y\","
    "\"datatype\":\"FP32\",\"shape\":[1,1],\"data\":[0.5]}]}";

static void on_http_metadata(http_request_t *request, void *user)
{
    (void)user;
    http_respond_copy(request, 200, "application/json", NULL, metadata, sizeof metadata - 1);
}

static void on_http_infer(http_request_t *request, void *user)
{
    (void)user;
    static const struct iovec body = {(void *)answer, sizeof answer - 1};
    http_respond(request,
                 &(http_response_t){
                     .status = 200, .content_type = "application/json", .body = &body, .body_count = 1});
}

static void on_grpc_metadata(rpc_call_t *call, void *arg)
{
    (void)arg;
    Inference__ModelMetadataResponse response = INFERENCE__MODEL_METADATA_RESPONSE__INIT;
    Inference__ModelMetadataResponse__TensorMetadata input =
        INFERENCE__MODEL_METADATA_RESPONSE__TENSOR_METADATA__INIT;
    Inference__ModelMetadataResponse__TensorMetadata *inputs[] = {&input};
    int64_t shape[] = {-1, 16};
    input.name = (char *)"x";
    input.datatype = (char *)"FP32";
    input.shape = shape;
    input.n_shape = 2;
    response.name = (char *)"sink";
    response.inputs = inputs;
    response.n_inputs = 1;
    rpc_call_finish(call, RPC_OK, NULL, rpc_pack(&response.base));
}

static void on_grpc_infer(rpc_call_t *call, void *arg)
{
    (void)arg;
    Inference__ModelInferResponse response = INFERENCE__MODEL_INFER_RESPONSE__INIT;
    response.model_name = (char *)"sink";
    rpc_call_finish(call, RPC_OK, NULL, rpc_pack(&response.base));
}

static void on_signal(void *arg, int signum)
{
    (void)signum;
    loop_stop(arg);
}

static const http_handler_ops_t metadata_ops = {.on_request = on_http_metadata},
                                infer_ops = {.on_request = on_http_infer};
static const http_route_t routes[] = {
    {HTTP_METHOD_GET, "/v2/models/{model}", &metadata_ops, NULL},
    {HTTP_METHOD_POST, "/v2/models/{model}/infer", &infer_ops, NULL},
};

static status_t serve(err_t *err)
{
    loop_t *loop;
    loop_signals_t *signals;
    http_server_t *http;
    rpc_runtime_t *runtime;
    rpc_server_t *grpc;
    status_t st = loop_create(&loop, err);
    if (st == STATUS_OK)
        st = loop_signals_create(&signals, loop, on_signal, loop, err);
    if (st == STATUS_OK)
        st = http_server_create(loop_uv(loop), &(http_server_config_t){.listen = "127.0.0.1:0"}, routes, 2,
                                &http, err);
    if (st == STATUS_OK)
        st = rpc_runtime_create(&(rpc_runtime_options_t){.threads = 1}, &runtime, err);
    if (st == STATUS_OK)
        st = rpc_server_create(runtime, &(rpc_server_options_t){.address = "127.0.0.1:0"}, &grpc, err);
    if (st != STATUS_OK)
        return st;
    rpc_server_add_unary(grpc, "/inference.GRPCInferenceService/ModelMetadata", on_grpc_metadata, NULL);
    rpc_server_add_unary(grpc, "/inference.GRPCInferenceService/ModelInfer", on_grpc_infer, NULL);
    st = rpc_server_start(grpc, err);
    if (st != STATUS_OK)
        return st;
    printf("ready {\"service\":\"sink\",\"http\":\"%s\",\"grpc\":\"%s\"}\n", http_server_address(http),
           rpc_server_address(grpc));
    fflush(stdout);
    loop_run(loop); /* the end of the process frees what it held */
    return STATUS_OK;
}

int main(void)
{
    err_t err = {0};
    if (serve(&err) == STATUS_OK)
        return 0;
    fprintf(stderr, "bench_load_sink: %s\n", err.text);
    return 1;
}
