"""What stock clients and curl ask before they infer."""

import os
import pathlib
import re
import subprocess

import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

from client import INFER, digit_tensor, get, post, post_binary, request, talk, tensor_request


def test_health(up):
    for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/digits/ready", "/v2/models/digits/versions/1/ready"):
        answer = get(up.http, path)
        assert (answer.status, answer.body) == (200, b""), path


def test_server_metadata(up):
    document = get(up.http, "/v2").json()
    assert document["name"] == "fermata"
    assert {"binary_tensor_data", "classification"} <= set(document["extensions"])


def test_model_metadata(up):
    for path in ("/v2/models/digits", "/v2/models/digits/versions/1"):
        document = get(up.http, path).json()
        assert document["name"] == "digits"
        assert document["versions"] == ["1"]
        assert document["inputs"] == [{"name": "image", "datatype": "FP32", "shape": [-1, 1, 8, 8]}]
        assert document["outputs"] == [{"name": "scores", "datatype": "FP32", "shape": [-1, 10]}]


def test_the_summary_says_how_good_a_profile_is(up):
    if "models" not in up.ready:
        pytest.skip("services that are started by hand have no summary")
    told = next(model for model in up.ready["models"] if model["name"] == "digits")
    assert told["measured"] >= 2 and told["measured_up_to"] >= 2 and told["latency_ms"] > 0, told
    state = next(model for model in get(up.ready["scheduler"]["http"], "/state").json()["models"] if model["name"] == "digits")
    # the sizes that a load leaves out may have come meanwhile
    assert state["profile"]["measured"] >= told["measured"] and state["profile"]["spread"] >= 1, state
    assert state["profile"]["doubt"] >= state["profile"]["spread"] and told["doubt"] >= 1, (told, state)


def test_stock_http_client_reads_metadata(up):
    client = tritonclient.http.InferenceServerClient(up.http)
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("digits", "1")
    assert not client.is_model_ready("nothing")
    assert client.get_server_metadata()["name"] == "fermata"
    assert client.get_model_metadata("digits")["inputs"][0]["shape"] == [-1, 1, 8, 8]
    client.close()


def test_stock_grpc_client_reads_metadata(up):
    client = tritonclient.grpc.InferenceServerClient(up.grpc)
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("digits", "1")
    assert not client.is_model_ready("nothing")
    assert client.get_server_metadata().name == "fermata"
    metadata = client.get_model_metadata("digits")
    assert list(metadata.inputs[0].shape) == [-1, 1, 8, 8]
    assert metadata.outputs[0].name == "scores"
    client.close()


@pytest.mark.parametrize("nested", [True, False])
def test_json_tensor(up, nested):
    tensor = digit_tensor("3")
    document = tensor_request(tensor, id="mine")
    if nested:
        document["inputs"][0]["data"] = tensor.tolist()
    answer = post(up.http, INFER, document)
    assert answer.status == 200, answer
    body = answer.json()
    assert (body["model_name"], body["model_version"], body["id"]) == ("digits", "1", "mine")
    (output,) = body["outputs"]
    assert (output["name"], output["datatype"], output["shape"]) == ("scores", "FP32", [1, 10])
    # The configuration asks for a softmax.
    assert abs(sum(output["data"]) - 1) < 1e-4
    assert output["data"].index(max(output["data"])) == 3


def test_binary_in_json_out(up):
    raw = digit_tensor("3").tobytes()
    document = {"inputs": [{"name": "image", "shape": [1, 1, 8, 8], "datatype": "FP32", "parameters": {"binary_data_size": len(raw)}}]}
    answer = post_binary(up.http, INFER, document, raw)
    assert answer.status == 200, answer
    data = answer.json()["outputs"][0]["data"]
    assert data.index(max(data)) == 3


def test_raw_body_is_the_single_input(up):
    answer = request(up.http, "POST", INFER, digit_tensor("4").tobytes(), {"Inference-Header-Content-Length": "0"})
    assert answer.status == 200, answer
    document, raw = answer.split()
    assert document["outputs"][0]["parameters"]["binary_data_size"] == len(raw) == 40


def test_timing_is_told_on_request(up):
    parameters = post(up.http, INFER, tensor_request(digit_tensor(), parameters={"fermata_timing": True})).json()["parameters"]
    assert 1 <= parameters["fermata_batch_size"] <= 32
    assert parameters["fermata_compute_us"] >= 0 and parameters["fermata_queue_us"] >= 0
    assert "fermata_batch_size" not in post(up.http, INFER, tensor_request(digit_tensor())).json().get("parameters", {})


def test_pipelined_requests_are_answered_in_order(up):
    one = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
    two = b"GET /v2/models/nothing HTTP/1.1\r\nHost: x\r\n\r\n"
    got = talk(up.http, one + two + one)
    statuses = re.findall(rb"HTTP/1\.1 (\d{3}) ", got)
    assert statuses == [b"200", b"404", b"200"]


@pytest.mark.parametrize("header", ["Transfer-Encoding: chunked", "Expect: 100-continue"])
def test_curl_sends_the_body_its_own_way(up, tmp_path, header):
    import json

    body = tmp_path / "body.json"
    body.write_text(json.dumps(tensor_request(digit_tensor("7"))))
    got = subprocess.run(["curl", "-sS", "--fail-with-body", "-H", header, "--data-binary", f"@{body}", f"http://{up.http}{INFER}"],
                         capture_output=True, timeout=30)
    assert got.returncode == 0, got.stderr
    data = json.loads(got.stdout)["outputs"][0]["data"]
    assert data.index(max(data)) == 7


UNSERVED = {
    "shared memory": ["get_system_shared_memory_status", "unregister_system_shared_memory", "get_cuda_shared_memory_status",
                      "unregister_cuda_shared_memory"],
    "tracing": ["get_trace_settings", "update_trace_settings"],
    "logging": ["get_log_settings"],
}


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_what_is_not_served_is_told_alike_over_both_protocols(up, protocol):
    client = getattr(tritonclient, protocol).InferenceServerClient(getattr(up, protocol))
    calls = [(word, getattr(client, name), ()) for word, names in UNSERVED.items() for name in names]
    calls += [("shared memory", client.register_system_shared_memory, ("region", "/key", 64)),
              ("shared memory", client.unregister_system_shared_memory, ("region",)),
              ("shared memory", client.get_cuda_shared_memory_status, ("region",)),
              ("tracing", client.update_trace_settings, ("digits", {"trace_rate": "1"})),
              ("logging", client.update_log_settings, ({"log_verbose_level": 1},))]
    for word, call, arguments in calls:
        with pytest.raises(InferenceServerException) as refused:
            call(*arguments)
        assert word in refused.value.message(), call
        assert refused.value.status() in ("501", "StatusCode.UNIMPLEMENTED"), call
    client.close()


def test_metrics_are_there(up):
    text = get(up.gateways[0]["metrics"], "/metrics").body.decode()
    assert "fermata_" in text and "nv_inference_count" in text


@pytest.mark.data_plane
def test_both_sides_of_the_data_plane_count_the_same(up):
    if len(set(up.pids())) == 1:
        pytest.skip("within one process there is no data plane")

    def moved(address):
        text = get(address, "/metrics").body.decode()
        found = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("fermata_data_"))
        return {name: float(value) for name, value in found.items()}

    def sums(sides):
        return {name: sum(side[name] for side in sides) for name in sides[0]}

    def by(side, name, transport, status=None):
        return side[f'fermata_data_{name}{{' + (f'status="{status}",' if status else "") + f'transport="{transport}"}}']

    assert post(up.http, INFER, tensor_request(digit_tensor("7"))).status == 200
    gateways = sums([moved(gateway["metrics"]) for gateway in up.gateways])
    workers = sums([moved(worker["metrics"]) for worker in up.ready["workers"]])
    for transport in ("tcp", "shm", "rdma"):
        for name in ("results_total", "result_bytes_total", "connections"):
            assert by(gateways, name, transport) == by(workers, name, transport), (name, transport)
    # Engines of the CPU read memory of the host.
    data = [worker["data"] for worker in get(up.ready["scheduler"]["http"], "/state").json()["workers"]]
    assert data and all(worker["inputs_land"] == "host" for worker in data), data
    # All are on one host: what a worker reads there no gateway sees.
    past = {"tcp": "tcp", "rdma": "rdma"}.get(os.environ.get("FERMATA_TRANSFER"), "shm")
    assert by(workers, "connections", past) > 0 and sum(by(workers, "connections", way) for way in ("tcp", "shm", "rdma") if way != past) == 0
    assert by(workers, "item_bytes_total", past) >= 4 * 8 * 8
    assert by(gateways, "items_total", "tcp", "ok") == by(workers, "items_total", "tcp", "ok")


def test_one_thread_of_grpc_takes_the_events_of_a_process(up):
    """Another would take some from the kernel too, and hand them on."""
    for pid in set(up.pids()):
        names = [(task / "comm").read_text().strip() for task in pathlib.Path(f"/proc/{pid}/task").iterdir()]
        assert names.count("rpc") == 1, names
