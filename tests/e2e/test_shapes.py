"""Models whose dimensions vary beside the batch, by the stock clients, against onnxruntime."""

import concurrent.futures
import json
import re

import numpy as np
import onnxruntime
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient

import shape_models
from client import get, post, request, wait_served_by
from shape_models import attention_inputs
from system import Cluster, wait_until

pytestmark = pytest.mark.data_plane

PADDED = "slo_ms: 3000\nmax_batch: 8\ndims: {sequence: {pad_to: [8, 16, 32]}}\npad_value: {ids: 3}\n"
TYPES = {"int64": "INT64", "float32": "FP32"}
CLIENTS = {"http": httpclient, "grpc": grpcclient}


@pytest.fixture(scope="module")
def shaped(way, bin_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shapes")
    paths = {"free": shape_models.attention(folder, "free", "slo_ms: 3000\nmax_batch: 8\ndims: {sequence: {max: 64}}\n"),
             "padded": shape_models.attention(folder, "padded", PADDED),
             "pictures": shape_models.pictures(folder, "pictures", "slo_ms: 3000\nmax_batch: 2\n"),
             "above": shape_models.above(folder, "above"), "found": shape_models.found(folder, "found"),
             "one_scale": shape_models.one_scale(folder, "one_scale"), "decided": shape_models.decided(folder, "decided"),
             "with_past": shape_models.with_past(folder, "with_past", "slo_ms: 3000\nmax_batch: 4\n")}
    shape_models.attention(folder, "unknown_axis", "dims: {words: {max: 9}}\n")
    shape_models.attention(folder, "falling", "dims: {sequence: {pad_to: [16, 8]}}\n")
    shape_models.attention(folder, "half_a_shape", "profile_shapes: [{length: 9}]\n")
    running = way(bin_dir, tmp_path_factory.mktemp("up") / "up.log", models=folder)
    running.sessions = {name: onnxruntime.InferenceSession(str(path)) for name, path in paths.items()}
    yield running
    assert running.stop() == 0, running.log()[-4000:]


def client_of(running, protocol):
    return CLIENTS[protocol].InferenceServerClient(running.http if protocol == "http" else running.grpc)


def ask(running, protocol, model, inputs, binary=True, client=None):
    module = CLIENTS[protocol]
    tensors = []
    for name, value in inputs.items():
        tensor = module.InferInput(name, value.shape, TYPES[str(value.dtype)])
        if protocol == "http":
            tensor.set_data_from_numpy(value, binary_data=binary)
        else:
            tensor.set_data_from_numpy(value)
        tensors.append(tensor)
    outputs = [module.InferRequestedOutput(o.name, **({"binary_data": binary} if protocol == "http" else {}))
               for o in running.sessions[model].get_outputs()]
    return (client or client_of(running, protocol)).infer(model, tensors, outputs=outputs)


def check(running, protocol, model, inputs, binary=True, client=None, exact=False):
    got = ask(running, protocol, model, inputs, binary, client)
    for output, wanted in zip(running.sessions[model].get_outputs(), running.sessions[model].run(None, inputs)):
        value = got.as_numpy(output.name)
        assert value.shape == wanted.shape, output.name
        np.testing.assert_allclose(value, wanted, rtol=0 if exact else 1e-3, atol=0 if exact else 1e-5)


@pytest.mark.parametrize("protocol", CLIENTS)
def test_metadata_says_minus_one(shaped, protocol):
    client = client_of(shaped, protocol)
    metadata = client.get_model_metadata("free") if protocol == "http" else client.get_model_metadata("free", as_json=True)
    shapes = {t["name"]: [int(d) for d in t["shape"]] for t in metadata["inputs"] + metadata["outputs"]}
    assert shapes == {"ids": [-1, -1], "mask": [-1, -1], "states": [-1, -1, 16], "pooled": [-1, 16]}
    config = json.loads(get(shaped.http, "/v2/models/free/config").body)
    assert config["input"][0]["dims"] == [-1]


@pytest.mark.parametrize("rows,length", [(1, 1), (3, 5), (8, 16), (2, 17), (1, 64)])
@pytest.mark.parametrize("protocol,binary", [("http", True), ("http", False), ("grpc", True)])
def test_any_length(shaped, protocol, binary, rows, length):
    check(shaped, protocol, "free", attention_inputs(rows, length, hide=length // 3), binary)


@pytest.mark.parametrize("rows,length", [(1, 1), (3, 5), (8, 8), (2, 9), (1, 32)])
@pytest.mark.parametrize("protocol", CLIENTS)
def test_padding_is_not_seen(shaped, protocol, rows, length):
    check(shaped, protocol, "padded", attention_inputs(rows, length, hide=length // 3))


def test_typed_grpc_contents(shaped):
    """Not raw: what other clients than Triton's send."""
    from tritonclient.grpc import service_pb2, service_pb2_grpc
    import grpc

    inputs = attention_inputs(2, 7)
    message = service_pb2.ModelInferRequest(model_name="free")
    for name, value in inputs.items():
        tensor = message.inputs.add(name=name, datatype="INT64", shape=value.shape)
        tensor.contents.int64_contents.extend(value.ravel().tolist())
    with grpc.insecure_channel(shaped.grpc) as channel:
        answer = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(message, timeout=30)
    states = np.frombuffer(answer.raw_output_contents[0], np.float32).reshape(answer.outputs[0].shape)
    np.testing.assert_allclose(states, shaped.sessions["free"].run(None, inputs)[0], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("size", [(32, 48), (7, 9), (224, 224), (1, 1)])
@pytest.mark.parametrize("protocol", CLIENTS)
def test_pictures_of_any_size(shaped, protocol, size):
    picture = np.random.default_rng(size[0]).random((2, 3, *size), np.float32)
    check(shaped, protocol, "pictures", {"image": picture})


@pytest.mark.parametrize("above", [0, 1, 5, 12])
def test_an_output_whose_size_only_the_contents_tell(shaped, above):
    x = np.where(np.arange(12) < above, 1, -1).astype(np.float32)
    check(shaped, "http", "above", {"x": x})


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("past, words", [(0, 3), (5, 1), (9, 4)])
@pytest.mark.parametrize("protocol, binary", [("http", True), ("http", False), ("grpc", True)])
def test_axes_that_depend_on_one_another(shaped, protocol, binary, past, words, rows):
    """It is measured at sizes that fit, and nothing is a size: a text begins without a past."""
    check(shaped, protocol, "with_past", shape_models.with_past_inputs(rows, past, words), binary=binary)


ALONE = {"found": "output 'where' does not grow with the batch", "one_scale": "DynamicQuantizeLinear gives all rows of a batch one scale",
         "decided": "If 'branch' decides for all rows of a batch at once"}


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("model", ALONE)
def test_rows_that_cannot_be_told_apart_run_alone(shaped, model, rows):
    """And so answers are those that a request has by itself, whoever else asks."""
    assert re.search(f'model_loaded model={model} .*max_batch=1 .*alone="{ALONE[model]}"', shaped.log())

    def run(seed):
        check(shaped, "http", model, {"x": (seed - 8) * np.random.default_rng(seed).random((rows, 12), np.float32)}, exact=model != "decided")

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(16)))


def test_many_lengths_at_once(shaped):
    """Requests of all lengths from many clients: each has its own answer, and rows of one shape shared batches."""
    def run(number):
        model = "padded" if number % 2 else "free"
        with httpclient.InferenceServerClient(shaped.http, concurrency=1) as client:
            for i in range(12):
                length = 1 + (number * 12 + i * 5) % 32
                check(shaped, "http", model, attention_inputs(1 + i % 2, length, seed=number, hide=length // 4), client=client)

    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        list(pool.map(run, range(12)))
    state = {model["name"]: model for model in get(shaped.ready["scheduler"]["http"], "/state").json()["models"]}
    assert set(state) >= {"free", "padded"} and len(state) == len({name for name in state}), state
    for name in ("free", "padded"):
        assert state[name]["queued"] == state[name]["in_flight"] == 0
        assert state[name]["done"] >= 6 * 12 * 1.5
        assert state[name]["granted"] >= state[name]["done"]
    metrics = get(shaped.ready["scheduler"]["http"], "/metrics").body.decode()
    assert 'model="free"' in metrics


def refusal(shaped, model, inputs, status=400):
    document = {"inputs": [{"name": name, "shape": list(value.shape), "datatype": TYPES[str(value.dtype)], "data": value.ravel().tolist()}
                           for name, value in inputs.items()]}
    answer = post(shaped.http, f"/v2/models/{model}/infer", document)
    assert answer.status == status, answer
    return answer.error()


def test_what_is_wrong_with_a_shape_is_said(shaped):
    good = attention_inputs(2, 9)
    text = refusal(shaped, "free", {"ids": good["ids"], "mask": good["mask"][:, :8]})
    assert "mask" in text and "sequence" in text and "8" in text and "9" in text
    assert "sequence 65, 0 to 64" in refusal(shaped, "free", attention_inputs(1, 65))
    assert "sequence 33, 0 to 32" in refusal(shaped, "padded", attention_inputs(1, 33))
    empty = np.zeros((1, 0), np.int64)
    assert "every input is empty, with sequence 0" in refusal(shaped, "free", {"ids": empty, "mask": empty})
    assert "[2,9,1]" in refusal(shaped, "free", {"ids": good["ids"][..., None], "mask": good["mask"]})
    assert "batch of 9" in refusal(shaped, "free", attention_inputs(9, 4))
    assert "[1,4,8,8]" in refusal(shaped, "pictures", {"image": np.zeros((1, 4, 8, 8), np.float32)})
    huge = {"inputs": [{"name": "image", "shape": [1, 3, 1 << 20, 1 << 20], "datatype": "FP32", "data": [0]}]}
    assert post(shaped.http, "/v2/models/pictures/infer", huge).status in (400, 413)
    check(shaped, "http", "free", good)


def test_a_model_that_fails_on_a_shape_says_so(shaped):
    """A word beyond the table: the engine fails the batch, and only that."""
    inputs = attention_inputs(1, 6)
    inputs["ids"][0, 2] = shape_models.WORDS + 5
    error = post(shaped.http, "/v2/models/free/infer", {
        "inputs": [{"name": n, "shape": list(v.shape), "datatype": "INT64", "data": v.ravel().tolist()} for n, v in inputs.items()]})
    assert error.status >= 400 and error.error()
    check(shaped, "http", "free", attention_inputs(1, 6))


@pytest.mark.parametrize("name,words", {"unknown_axis": ["dims", "words"], "falling": ["config.yaml:1", "rise"],
                                        "half_a_shape": ["profile_shapes", "length"]}.items())
def test_a_wrong_config_says_why(shaped, name, words):
    index = {entry["name"]: entry for entry in post(shaped.http, "/v2/repository/index", {}).json()}
    assert index[name]["state"] == "UNAVAILABLE"
    for word in words:
        assert word in index[name]["reason"], index[name]


def test_a_raw_body_tells_one_open_dimension(shaped):
    """Of two inputs it cannot: refused, not guessed."""
    raw = {"Inference-Header-Content-Length": "0"}
    answer = request(shaped.http, "POST", "/v2/models/free/infer", bytes(16), raw)
    assert answer.status == 400 and answer.error(), answer


@pytest.fixture
def shaped_cluster(bin_dir, tmp_path):
    cluster = Cluster(bin_dir, tmp_path)
    cluster.models = tmp_path / "shaped"
    path = shape_models.attention(cluster.models, "padded", PADDED)
    cluster.sessions = {"padded": onnxruntime.InferenceSession(str(path))}
    yield cluster
    for service in reversed(cluster.running):
        service.stop()


@pytest.mark.parametrize("victim", ["worker", "scheduler"])
def test_a_death_under_load(shaped_cluster, victim):
    """kill -9: what was under way is answered by the other worker, or sent again to the scheduler that takes the place."""
    cluster = shaped_cluster
    scheduler = cluster.scheduler("--policy", "eager")
    gateway = cluster.gateway(scheduler)
    workers = [cluster.worker(scheduler), cluster.worker(scheduler)]
    cluster.http = gateway.http
    wait_until(lambda: get(gateway.http, "/v2/models/padded/ready").status == 200, "padded is ready")
    wait_served_by(scheduler, "padded", 2)
    stop, counts = [], [0] * 4

    def load(number):
        while not stop:
            length = 1 + (counts[number] * 7 + number) % 32
            check(cluster, "http", "padded", attention_inputs(2, length, seed=number, hide=length // 4))
            counts[number] += 1

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(load, number) for number in range(4)]

        def more(count):
            goal = sum(counts) + count
            wait_until(lambda: sum(counts) >= goal or any(run.done() for run in runs), f"{count} more answers")

        try:
            more(40)
            if victim == "worker":
                workers[0].kill()
                cluster.running.remove(workers[0])
            else:
                scheduler.kill()
                cluster.running.remove(scheduler)
                cluster.start("scheduler", "--grpc-address", scheduler.grpc, "--http-address", "127.0.0.1:0", "--policy", "eager")
            more(80)
        finally:
            stop.append(True)
        for run in runs:
            run.result()
