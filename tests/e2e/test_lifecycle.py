"""Models that come, change and go while the system serves: Triton's model repository API with stock clients, version
policies, polling, and that no request fails meanwhile."""

import os
import shutil
import subprocess
import threading

import numpy as np
import onnx
import pytest
import tritonclient.grpc
import tritonclient.http
from onnx import TensorProto, helper
from tritonclient.utils import InferenceServerException

from client import INFER, digit_tensor, get, good, post, request, tensor_request
from system import MODELS, alive, wait_until
from test_models import no_pictures, unsupported_operator, write_model

DIGITS = (MODELS / "digits" / "1" / "model.onnx").read_bytes()


def set_config(models, text, model="digits"):
    (models / model / "config.yaml").write_text(text)


def config(slo_ms=3000, more=""):
    return f"slo_ms: {slo_ms}\nmax_batch: 32\n{more}"


def add_version(models, version, data=DIGITS, model="digits"):
    """As it should be done: the folder appears whole."""
    fresh = models / model / f".{version}"
    fresh.mkdir(parents=True)
    (fresh / "model.onnx").write_bytes(data)
    fresh.rename(models / model / str(version))


def index(gateway):
    return {(entry["name"], entry["version"]): entry for entry in post(gateway.http, "/v2/repository/index", {}).json()}


def state(gateway, name, version):
    return index(gateway).get((name, str(version)), {}).get("state")


def ready(gateway, name, version=None):
    path = f"/v2/models/{name}/ready" if version is None else f"/v2/models/{name}/versions/{version}/ready"
    return get(gateway.http, path).status == 200


class Stage:
    """A cluster whose worker loads on demand, with quick profiles."""

    def __init__(self, cluster, *flags, workers=1):
        self.cluster, self.models = cluster, cluster.models
        set_config(self.models, config())
        self.scheduler = cluster.scheduler()
        self.gateway = cluster.gateway(self.scheduler)
        self.flags = flags or ("--model-control", "explicit", "--load-model", "digits")
        self.workers = [self.worker() for _ in range(workers)]
        self.http = tritonclient.http.InferenceServerClient(self.gateway.http, connection_timeout=60, network_timeout=120)
        self.grpc = tritonclient.grpc.InferenceServerClient(self.gateway.grpc)
        if "digits" in self.flags or "none" in self.flags or "poll" in self.flags:
            wait_until(lambda: ready(self.gateway, "digits"), "digits is ready")

    def worker(self, *more):
        return self.cluster.worker(self.scheduler, "--profile-budget", "100ms", *self.flags, *more)


@pytest.fixture
def stage(cluster):
    return Stage(cluster)


class Load:
    """Requests without a version, back to back, from several threads, until stopped."""

    def __init__(self, address, threads=3, path=INFER):
        self.address, self.path, self.failures, self.versions, self.stopping = address, path, [], {}, False
        self.count = 0
        self.threads = [threading.Thread(target=self._run) for _ in range(threads)]
        for thread in self.threads:
            thread.start()

    def _run(self):
        document = tensor_request(digit_tensor("7"))
        while not self.stopping:
            answer = post(self.address, self.path, document)
            self.count += 1
            if answer.status != 200:
                self.failures.append(repr(answer))
                continue
            got = answer.json()
            self.versions[got["model_version"]] = self.versions.get(got["model_version"], 0) + 1

    def past(self, requests):
        """Waits until that many more have been answered."""
        goal = self.count + requests
        wait_until(lambda: self.count >= goal, f"{requests} more requests")

    def stop(self):
        self.stopping = True
        for thread in self.threads:
            thread.join()
        return self.failures


@pytest.fixture
def load(stage):
    running = Load(stage.gateway.http)
    yield running
    running.stop()


# ---- the API, by stock clients


def test_load_and_unload_by_the_http_client(stage):
    good(stage.gateway.http)
    stage.http.unload_model("digits")
    assert not stage.http.is_model_ready("digits")
    entry = next(entry for entry in stage.http.get_model_repository_index() if entry["name"] == "digits")
    assert entry["state"] == "UNAVAILABLE" and "unloaded" in entry["reason"], entry
    answer = post(stage.gateway.http, INFER, tensor_request(digit_tensor()))
    assert answer.status == 503 and "unloaded" in answer.error(), answer
    stage.http.load_model("digits")
    assert stage.http.is_model_ready("digits")
    good(stage.gateway.http)


@pytest.mark.data_plane
@pytest.mark.skipif(os.environ.get("FERMATA_TRANSFER") != "rdma", reason="only RDMA registers memory")
def test_the_buffers_of_a_model_are_registered_as_long_as_it_is_loaded(stage):
    def buffer_bytes(registered):
        lines = get(stage.workers[0].metrics, "/metrics").body.decode().splitlines()
        name = f'fermata_data_buffer_bytes{{registered="{registered}"}} '
        return next(float(line[len(name):]) for line in lines if line.startswith(name))

    good(stage.gateway.http)
    # One batch's: inputs of 8 x 8 floats, outputs of 10, for as many rows as its largest batch has.
    assert buffer_bytes("yes") >= 32 * (64 + 10) * 4 and buffer_bytes("no") == 0
    stage.http.unload_model("digits")
    assert buffer_bytes("yes") == 0
    stage.http.load_model("digits")
    good(stage.gateway.http)
    assert buffer_bytes("yes") > 0


def test_load_and_unload_by_the_grpc_client(stage):
    stage.grpc.unload_model("digits", unload_dependents=True)
    assert not stage.grpc.is_model_ready("digits")
    stage.grpc.load_model("digits")
    assert stage.grpc.is_model_ready("digits")
    models = stage.grpc.get_model_repository_index().models
    assert [(model.name, model.version, model.state) for model in models] == [("digits", "1", "READY")]
    good(stage.gateway.http)


def test_a_model_that_came_after_the_start(stage):
    write_model(stage.models, "late", no_pictures())
    stage.http.load_model("late")
    answer = post(stage.gateway.http, "/v2/models/late/infer",
                  {"inputs": [{"name": "x", "shape": [2, 1], "datatype": "FP32", "data": [-1, 2]}]})
    assert answer.json()["outputs"][0]["data"] == [0, 2]
    good(stage.gateway.http)


def test_twice_is_once(stage):
    stage.http.load_model("digits")
    stage.http.unload_model("digits")
    stage.http.unload_model("digits")
    threads = [threading.Thread(target=load_by(stage.gateway.http)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    good(stage.gateway.http)


def load_by(address, name="digits"):
    return lambda: tritonclient.http.InferenceServerClient(address, network_timeout=120).load_model(name)


@pytest.mark.parametrize("call", ["load_model", "unload_model"])
def test_what_is_unknown_is_not_found(stage, call):
    for client in (stage.http, stage.grpc):
        with pytest.raises(InferenceServerException, match="there is no model 'nobody'"):
            getattr(client, call)("nobody")
    verb = call.split("_")[0]
    assert request(stage.gateway.http, "POST", f"/v2/repository/models/nobody/{verb}").status == 404
    good(stage.gateway.http)


def test_overrides_are_refused(stage):
    for client in (stage.http, stage.grpc):
        with pytest.raises(InferenceServerException, match="parameter 'config' is not supported"):
            client.load_model("digits", config="{}")
        with pytest.raises(InferenceServerException, match="is not supported"):
            client.load_model("digits", config="{}", files={"file:1/model.onnx": b"x"})
    good(stage.gateway.http)


@pytest.mark.parametrize("body", ["[]", "{", '{"parameters": 3}', '{"parameters": {"unload_dependents": "yes"}}', "{} {}"])
def test_a_broken_request(stage, body):
    answer = request(stage.gateway.http, "POST", "/v2/repository/models/digits/unload", body)
    assert answer.status == 400 and answer.error(), answer
    good(stage.gateway.http)


def test_a_broken_file_says_why_and_leaves_the_rest(stage, load):
    write_model(stage.models, "badop", unsupported_operator())
    with pytest.raises(InferenceServerException, match="the_odd_one"):
        stage.http.load_model("badop")
    add_version(stage.models, 2, b"no model at all")
    with pytest.raises(InferenceServerException, match="failed to load 'digits'"):
        stage.grpc.load_model("digits")
    load.past(50)
    assert state(stage.gateway, "digits", 1) == "READY"
    assert load.stop() == []


def test_a_version_that_is_not_there(stage, load):
    set_config(stage.models, config(more="version_policy: {specific: [1, 9]}\n"))
    with pytest.raises(InferenceServerException, match="version 9 is not there"):
        stage.http.load_model("digits")
    load.past(20)
    assert load.stop() == []


def test_the_modes_that_take_no_orders(cluster):
    stage = Stage(cluster, "--model-control", "none")
    with pytest.raises(InferenceServerException, match="model-control none"):
        stage.http.unload_model("digits")
    assert request(stage.gateway.http, "POST", "/v2/repository/models/digits/unload").status == 501
    good(stage.gateway.http)


def test_no_worker_no_load(cluster):
    gateway = cluster.gateway(cluster.scheduler())
    answer = wait_until(lambda: said(gateway, "no worker is connected"), "the scheduler says that it has no worker")
    assert answer.status == 503


def said(gateway, text):
    answer = request(gateway.http, "POST", "/v2/repository/models/digits/load")
    return answer if text in answer.error() else None


def test_the_command_line(stage, bin_dir):
    def fermata(*words):
        done = subprocess.run([bin_dir / "fermata", "model", *words, "--url", f"http://{stage.gateway.http}"],
                              capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout + done.stderr

    assert fermata("unload", "digits") == (0, "digits is unloaded\n")
    assert "unloaded" in fermata("list")[1]
    assert fermata("load", "digits") == (0, "digits is loaded\n")
    code, text = fermata("load", "nobody")
    assert code == 1 and "there is no model 'nobody'" in text
    assert fermata("load")[0] == 2
    good(stage.gateway.http)


# ---- versions


@pytest.mark.data_plane
def test_a_new_version_takes_over_without_a_failure(stage, load):
    load.past(30)
    add_version(stage.models, 2)
    stage.http.load_model("digits")
    assert ready(stage.gateway, "digits", 2)
    wait_until(lambda: state(stage.gateway, "digits", 1) == "UNAVAILABLE", "version 1 is unloaded")
    load.past(30)
    assert load.stop() == []
    assert set(load.versions) == {"1", "2"}
    assert post(stage.gateway.http, INFER, tensor_request(digit_tensor())).json()["model_version"] == "2"
    assert get(stage.gateway.http, "/v2/models/digits").json()["versions"] == ["2"]


def test_several_versions_side_by_side(stage):
    for version in (2, 3):
        add_version(stage.models, version)
    set_config(stage.models, config(more="version_policy: all\n"))
    stage.http.load_model("digits")
    assert get(stage.gateway.http, "/v2/models/digits").json()["versions"] == ["1", "2", "3"]
    for version in ("1", "2", "3"):
        answer = post(stage.gateway.http, f"/v2/models/digits/versions/{version}/infer", tensor_request(digit_tensor()))
        assert answer.json()["model_version"] == version
    assert post(stage.gateway.http, INFER, tensor_request(digit_tensor())).json()["model_version"] == "3"
    set_config(stage.models, config(more="version_policy: {specific: [1]}\n"))
    stage.http.load_model("digits")
    wait_until(lambda: get(stage.gateway.http, "/v2/models/digits").json()["versions"] == ["1"], "only version 1 is left")
    answer = post(stage.gateway.http, "/v2/models/digits/versions/3/infer", tensor_request(digit_tensor()))
    assert answer.status == 503 and "unload" in answer.error(), answer
    assert post(stage.gateway.http, "/v2/models/digits/versions/7/infer", tensor_request(digit_tensor())).status == 404
    good(stage.gateway.http)


@pytest.mark.data_plane
def test_a_changed_config_is_taken_up_without_a_failure(stage, load):
    load.past(20)
    set_config(stage.models, config(more="priority: 7\n"))
    stage.http.load_model("digits")
    set_config(stage.models, "slo_ms: 3000\nmax_batch: 4\n")
    stage.grpc.load_model("digits")
    wait_until(lambda: get(stage.gateway.http, "/v2/models/digits/config").json()["max_batch_size"] == 4, "the new batch size")
    load.past(20)
    assert load.stop() == []


@pytest.mark.data_plane
def test_a_new_version_on_two_workers(cluster):
    stage = Stage(cluster, workers=2)
    load = Load(stage.gateway.http)
    try:
        load.past(20)
        add_version(stage.models, 2)
        stage.http.load_model("digits")
        wait_until(lambda: state(stage.gateway, "digits", 1) == "UNAVAILABLE", "version 1 is unloaded")
        load.past(20)
    finally:
        failures = load.stop()
    assert failures == []
    assert "2" in load.versions


@pytest.mark.data_plane
def test_polling_finds_a_new_version_without_a_failure(cluster):
    stage = Stage(cluster, "--model-control", "poll", "--poll-interval", "200ms")
    load = Load(stage.gateway.http)
    try:
        load.past(20)
        add_version(stage.models, 2)
        wait_until(lambda: ready(stage.gateway, "digits", 2), "version 2 is ready")
        wait_until(lambda: state(stage.gateway, "digits", 1) == "UNAVAILABLE", "version 1 is unloaded")
        load.past(20)
    finally:
        failures = load.stop()
    assert failures == []
    with pytest.raises(InferenceServerException, match="model-control poll"):
        stage.http.load_model("digits")
    shutil.rmtree(stage.models / "digits")
    wait_until(lambda: not ready(stage.gateway, "digits"), "the model is gone")
    answer = post(stage.gateway.http, INFER, tensor_request(digit_tensor()))
    assert answer.status in (404, 503), answer


# ---- unloading and dying under load


@pytest.mark.data_plane
def test_unload_lets_what_is_under_way_finish(stage, load):
    """Each request is answered: by the model, or told that it is being unloaded. None is lost or late."""
    load.past(30)
    stage.http.unload_model("digits")
    load.past(30)
    failures = load.stop()
    others = [failure for failure in failures if "unload" not in failure]
    assert failures and not others, (others[:3], failures[:1])
    stage.http.load_model("digits")
    good(stage.gateway.http)


def test_a_worker_that_dies_while_it_loads(stage):
    victim = stage.workers[0]
    heavy = stage.models / "heavy"
    shutil.copytree(stage.models / "digits", heavy)
    (heavy / "1" / "weights.bin").write_bytes(bytes(1 << 20))
    victim.child.send_signal(19)  # SIGSTOP: it hears of the load and cannot do it
    answers = []
    asking = threading.Thread(target=lambda: answers.append(request(stage.gateway.http, "POST", "/v2/repository/models/heavy/load")))
    asking.start()
    wait_until(lambda: "model_command " in stage.scheduler.log(), "the scheduler has told the worker")
    victim.kill()
    asking.join()
    assert answers[0].status == 503 and "the worker went away" in answers[0].error(), answers
    assert alive(stage.scheduler.pid)
    stage.workers = [stage.worker()]
    wait_until(lambda: ready(stage.gateway, "digits"), "digits is ready again")
    stage.http.load_model("heavy")
    good(stage.gateway.http)


def test_a_scheduler_that_dies_during_a_load(stage):
    stage.workers[0].child.send_signal(19)
    answers = []
    asking = threading.Thread(target=lambda: answers.append(request(stage.gateway.http, "POST", "/v2/repository/models/digits/load")))
    asking.start()
    wait_until(lambda: "model_request " in stage.scheduler.log(), "the scheduler has heard of it")
    stage.scheduler.kill()
    asking.join()
    stage.workers[0].child.send_signal(18)
    assert answers[0].status == 503 and "the scheduler went away" in answers[0].error(), answers


def test_a_client_that_does_not_wait(stage):
    """Its connection ends; the load goes on."""
    write_model(stage.models, "late", no_pictures())
    stage.workers[0].child.send_signal(19)
    with pytest.raises(Exception):
        tritonclient.http.InferenceServerClient(stage.gateway.http, network_timeout=1).load_model("late")
    with pytest.raises(InferenceServerException):
        stage.grpc.load_model("late", client_timeout=1)
    stage.workers[0].child.send_signal(18)
    wait_until(lambda: ready(stage.gateway, "late"), "it was loaded all the same")
    good(stage.gateway.http)


# ---- memory


def heavy_model(mib):
    """y = x W with so many MiB of weights."""
    rows = mib * (1 << 20) // 4 // 1024
    weights = onnx.numpy_helper.from_array(np.zeros((rows, 1024), np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", rows])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 1024])], [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()


def test_what_does_not_fit_is_refused_with_the_sizes(cluster, bin_dir):
    stage = Stage(cluster, "--model-control", "explicit", "--load-model", "digits", "--memory-limit", "24MiB")
    write_model(stage.models, "huge", heavy_model(40))
    write_model(stage.models, "large", heavy_model(9), "max_batch: 2\n")
    with pytest.raises(InferenceServerException, match=r"its files alone need 4\d MiB on cpu0, where \d+ of 24 MiB are in use"):
        stage.http.load_model("huge")
    assert state(stage.gateway, "huge", 1) == "UNAVAILABLE"
    stage.http.load_model("large")
    memory = {model["name"]: model for model in get(stage.scheduler.http, "/state").json()["models"]}
    assert memory["large"]["memory_bytes"] > 9 << 20
    assert memory["large"]["batch_memory_bytes"]["1"] <= memory["large"]["batch_memory_bytes"]["2"] == memory["large"]["memory_bytes"]
    metrics = get(stage.workers[0].metrics, "/metrics").body.decode()
    assert 'fermata_worker_model_bytes{model="large",version="1",batch="2"}' in metrics
    assert 'fermata_worker_device_memory_bytes{device="cpu0",kind="limit"} %d' % (24 << 20) in metrics
    add_version(stage.models, 2, heavy_model(10), "large")
    with pytest.raises(InferenceServerException, match="MiB"):
        stage.http.load_model("large")
    assert state(stage.gateway, "large", 1) == "READY", "the old version goes on"
    stage.http.unload_model("large")
    stage.http.load_model("large")
    assert state(stage.gateway, "large", 2) == "READY"
    shown = subprocess.run([bin_dir / "fermata", "cluster", "status", "--scheduler", stage.scheduler.grpc],
                           capture_output=True, text=True, timeout=60).stdout
    assert "MiB" in shown, shown
    good(stage.gateway.http)
