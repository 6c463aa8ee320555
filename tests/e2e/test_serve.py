"""`fermata serve`: what is its own; what clients see of it is in every test that takes `up`."""

import concurrent.futures
import fcntl
import json
import os
import pathlib
import pty
import re
import signal
import socket
import struct
import subprocess
import termios
import threading

import numpy as np
import onnx
import pytest
import tritonclient.grpc
import tritonclient.http

from client import INFER, digit_tensor, get, post, request, tensor_request, wait_served_by
from system import ANY_PORT, STOP_S, Process, Serve, alive, listeners, patient_models, wait_until

SLOW = "name,alpha_ms,beta_ms,slo_ms,max_batch\nslow,0,300,5000,4\n"
SLOW_INFER = "/v2/models/slow/infer"


@pytest.fixture
def slow(bin_dir, tmp_path):
    """A model that takes 0.3 s, on an emulated device."""
    profile = tmp_path / "slow.csv"
    profile.write_text(SLOW)
    running = Serve(bin_dir, tmp_path / "serve.log", "--engine", "emulated", "--profile", profile, models=None)
    yield running
    running.stop()


def slow_request(address):
    return post(address, SLOW_INFER, {"inputs": [{"name": "input", "shape": [1, 16], "datatype": "FP32", "data": [0.0] * 16}]})


def run(bin_dir, *flags):
    return subprocess.run([bin_dir / "fermata", "serve", "--http-address", ANY_PORT, "--grpc-address", ANY_PORT,
                           "--metrics-address", ANY_PORT, *map(str, flags)], capture_output=True, text=True, timeout=60)


def test_it_listens_at_three_ports_of_this_host(bin_dir, tmp_path):
    running = Serve(bin_dir, tmp_path / "serve.log", models=patient_models(tmp_path))
    found = listeners(running.pid)
    assert len(found) == 3, found
    assert {address.removeprefix("::ffff:") for address, _ in found} == {"127.0.0.1"}
    assert running.stop() == 0


def test_state_and_metrics_are_of_all_of_it(bin_dir, tmp_path):
    running = Serve(bin_dir, tmp_path / "serve.log", models=patient_models(tmp_path))
    assert post(running.http, INFER, tensor_request(digit_tensor())).status == 200
    state = get(running.ready["scheduler"]["http"], "/state").json()
    assert [model["name"] for model in state["models"]] == ["digits"] and state["models"][0]["ready"]
    text = get(running.gateways[0]["metrics"], "/metrics").body.decode()
    for name in ("fermata_gateway_scheduler_connected 1", "fermata_worker_scheduler_connected 1", "fermata_scheduler_workers 1"):
        assert name in text, name
    assert text.count("fermata_build_info{") == 1
    assert running.stop() == 0


def in_place(running, what):
    text = get(running.gateways[0]["metrics"], "/metrics").body.decode()
    return int(re.search(rf'fermata_worker_in_place_batches_total{{model="relu",of="{what}"}} (\d+)', text).group(1))


@pytest.fixture
def relu(bin_dir, tmp_path):
    """A model of 120 KB in and 120 KB out, that costs nothing."""
    model = tmp_path / "models" / "relu" / "1"
    model.mkdir(parents=True)
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", 3, 100, 100])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["N", 3, 100, 100])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "relu", [x], [y])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8), model / "model.onnx")
    running = Serve(bin_dir, tmp_path / "serve.log", models=tmp_path / "models")
    yield running
    assert running.stop() == 0


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_tensors_stay_where_the_gateway_has_them(relu, protocol):
    """Whatever stands before them in a request, so that it is not aligned by chance."""
    running = relu
    module = getattr(tritonclient, protocol)
    with module.InferenceServerClient(getattr(running, protocol)) as client:
        for length in range(1, 20):
            tensor = np.random.default_rng(length).standard_normal((1, 3, 100, 100)).astype(np.float32)
            data = module.InferInput("x", tensor.shape, "FP32")
            data.set_data_from_numpy(tensor)
            answer = client.infer("relu", [data], request_id="i" * length)
            assert np.array_equal(answer.as_numpy("y"), np.maximum(tensor, 0))
            assert in_place(running, "inputs") == in_place(running, "outputs") == length


def relu_request(tensor):
    """Headers and body of a request for it in bytes, whose answer is bytes too."""
    head = json.dumps({"inputs": [{"name": "x", "shape": tensor.shape, "datatype": "FP32", "parameters": {"binary_data_size": tensor.nbytes}}],
                       "outputs": [{"name": "y", "parameters": {"binary_data": True}}]}).encode()
    return {"Inference-Header-Content-Length": str(len(head))}, head + tensor.tobytes()


def numbers(body, like):
    return np.frombuffer(body[-like.nbytes:], np.float32).reshape(like.shape)


class Deaf(threading.Thread):
    """Sends requests of its own one behind the other, and reads no answer before it is told to."""

    def __init__(self, address, tensor, count):
        super().__init__()
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self.tensor, self.count, self.reads, self.right = tensor, count, threading.Event(), 0

    def run(self):
        reader = threading.Thread(target=self.read)
        reader.start()
        headers, body = relu_request(self.tensor)
        lines = "".join(f"{name}: {value}\r\n" for name, value in {**headers, "Content-Length": str(len(body))}.items())
        for _ in range(self.count):
            self.socket.sendall(f"POST /v2/models/relu/infer HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode() + body)
        reader.join()
        self.socket.close()

    def read(self):
        self.reads.wait()
        with self.socket.makefile("rb") as stream:
            for _ in range(self.count):
                length = 0
                while (line := stream.readline()) not in (b"\r\n", b""):
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                self.right += np.array_equal(numbers(stream.read(length), self.tensor), np.maximum(self.tensor, 0))


def test_clients_that_do_not_read_large_answers_keep_nobody_else_waiting(relu):
    """More of them than a device has buffers, and more for each than sockets hold; once they read they get all of it."""
    tensors = np.random.default_rng(1).standard_normal((9, 1, 3, 100, 100)).astype(np.float32)
    deaf = [Deaf(relu.http, tensor, 60) for tensor in tensors[1:]]
    for client in deaf:
        client.start()
    for _ in range(50):
        headers, body = relu_request(tensors[0])
        answer = request(relu.http, "POST", "/v2/models/relu/infer", body, headers)
        assert answer.status == 200 and np.array_equal(numbers(answer.body, tensors[0]), np.maximum(tensors[0], 0)), answer.status
    for client in deaf:
        client.reads.set()
    for client in deaf:
        client.join()
    assert [client.right for client in deaf] == [60] * len(deaf)


def test_a_stop_answers_what_is_under_way(slow):
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        answers = [threads.submit(slow_request, slow.http) for _ in range(4)]
        metrics = slow.gateways[0]["metrics"]
        wait_until(lambda: "fermata_gateway_tasks_in_flight 4" in get(metrics, "/metrics").body.decode(), "4 tasks under way")
        assert slow.stop() == 0
        assert [answer.result().status for answer in answers] == [200] * 4


def test_a_stop_before_anything_is_loaded(bin_dir, tmp_path):
    models = patient_models(tmp_path)
    command = [bin_dir / "fermata", "serve", "--models", models, "--http-address", ANY_PORT, "--grpc-address", ANY_PORT,
               "--metrics-address", ANY_PORT, "--log-level", "debug"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    child.stderr.readline()  # signals are taken from before the first line on
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=STOP_S)
    assert child.returncode == 0


def test_a_killed_one_starts_again_at_the_same_ports_and_clients_see_broken_connections_only(bin_dir, tmp_path):
    models = patient_models(tmp_path)
    first = Serve(bin_dir, tmp_path / "first.log", models=models)
    ports = ["--http-address", first.http, "--grpc-address", first.grpc, "--metrics-address", first.gateways[0]["metrics"]]
    end, seen = threading.Event(), []

    def ask():
        while not end.is_set():
            try:
                seen.append(post(first.http, INFER, tensor_request(digit_tensor())).status)
            except OSError:
                seen.append("broken")

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: seen.count(200) > 20, "requests that are answered")
    first.kill()
    wait_until(lambda: "broken" in seen, "clients that noticed")
    second = Serve(bin_dir, tmp_path / "second.log", *ports, models=models)
    before = len(seen)
    wait_until(lambda: seen[before:].count(200) > 20, "requests that are answered again")
    end.set()
    for thread in threads:
        thread.join()
    assert set(seen) <= {200, "broken", 503}, set(seen)  # 503: before the model was loaded again
    assert second.stop() == 0


@pytest.mark.parametrize("which", ["http", "grpc", "metrics"])
def test_a_taken_port_is_named(bin_dir, tmp_path, which):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = run(bin_dir, "--models", patient_models(tmp_path), f"--{which}-address", address, "--log-level", "error")
    assert ended.returncode == 1 and address in ended.stderr, ended.stderr


def test_mistakes_are_told_in_one_line(bin_dir, tmp_path):
    missing = run(bin_dir, "--models", tmp_path / "nothing", "--log-level", "error")
    assert missing.returncode == 1 and missing.stderr == f"fermata serve: model repository {tmp_path / 'nothing'}: No such file or directory\n"
    policy = run(bin_dir, "--models", patient_models(tmp_path), "--policy", "fast", "--log-level", "error")
    assert policy.returncode == 1 and "fast" in policy.stderr and policy.stderr.count("\n") == 1, policy.stderr
    flag = run(bin_dir, "--frob")
    assert flag.returncode == 2 and "--frob" in flag.stderr


def test_without_a_model_that_loads_it_ends(bin_dir, tmp_path):
    (tmp_path / "models/broken/1").mkdir(parents=True)
    (tmp_path / "models/broken/1/model.onnx").write_text("no model")
    ended = run(bin_dir, "--models", tmp_path / "models")
    assert ended.returncode == 1
    assert "model_failed" in ended.stderr and "no model could be loaded" in ended.stderr


def test_two_of_one_folder_serve_both(bin_dir, tmp_path):
    models = patient_models(tmp_path)
    both = [Serve(bin_dir, tmp_path / f"{i}.log", models=models) for i in range(2)]
    for one in both:
        assert post(one.http, INFER, tensor_request(digit_tensor())).status == 200
    for one in both:
        assert one.stop() == 0


def test_its_report_for_people(bin_dir, tmp_path):
    command = [bin_dir / "fermata", "serve", "--models", patient_models(tmp_path), "--http-address", ANY_PORT, "--grpc-address",
               ANY_PORT, "--metrics-address", ANY_PORT]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    told = []
    for line in child.stdout:
        told.append(line.rstrip())
        if line.startswith("Ctrl-C"):
            break
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=STOP_S)
    assert child.returncode == 0
    address = next(line for line in told if "REST" in line).split()[1].removeprefix("http://")
    assert told[0].startswith("Fermata serves after")
    assert any(re.match(r"  digits +1 +ready +(onnxruntime|openvino|onednn) +[\d.]+ (µs|ms) +32 in ", line) for line in told), told
    assert f"  curl -s http://{address}/v2/models/digits" in told


def on_terminal(command, columns, **environment):
    """Exit code, and what a terminal of so many columns gets, of a program that is stopped once it serves."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    child = subprocess.Popen(command, stdout=slave, stderr=slave, env={**os.environ, "TERM": "xterm", **environment})
    os.close(slave)
    seen, told = b"", False
    while True:
        try:
            seen += os.read(master, 4096)
        except OSError:  # who held the terminal has ended
            break
        if b"Ctrl-C stops it" in seen and not told:
            told = True
            child.send_signal(signal.SIGINT)
    os.close(master)
    return child.wait(STOP_S), seen.decode()


def serve_on_any_port(bin_dir, models, *flags):
    return [bin_dir / "fermata", "serve", "--models", models, "--http-address", ANY_PORT, "--grpc-address", ANY_PORT, "--metrics-address", ANY_PORT,
            *flags]


def test_its_screen(bin_dir, tmp_path):
    """Loading models are drawn over by the report; each failed one is told once, with its whole reason; the log is elsewhere."""
    models = patient_models(tmp_path)
    (models / "broken" / "1").mkdir(parents=True)
    (models / "broken" / "1" / "model.onnx").write_bytes(b"no model")
    for columns in (40, 80, 200):
        code, seen = on_terminal(serve_on_any_port(bin_dir, models), columns, NO_COLOR="1", TMPDIR=str(tmp_path))
        assert code == 0 and re.search(r"Loading models: 0 of 2 ready after \d+ s", seen), seen
        stays = seen[seen.index("Fermata serves after"):]
        assert "\x1b" not in stays and " INFO " not in seen and not re.search(r"\x1b\[[0-9;]*m", seen), seen
        rows = stays[stays.index("Models:"):stays.index("Try:")].split("\r\n")
        assert all(len(row) <= columns for row in rows), rows
        assert [row.split()[:3] for row in rows[2:] if re.match("  [a-z]", row)] == [["broken", "1", "failed"], ["digits", "1", "ready"]], rows
        words = stays[stays.index("Try:"):].replace("\r\n", "\n")
        assert re.search(r"--data-binary @PICTURE.png \\\n +'http://\S+/v2/models/digits/infer\?classification=3'\n", words), words
        log = pathlib.Path(re.search(r"  log +(\S+)\r\n", stays)[1])
        assert log.parent.parent == tmp_path and " serve stopped" in log.read_text()


def test_its_log_where_it_is_asked_for(bin_dir, tmp_path):
    code, seen = on_terminal(serve_on_any_port(bin_dir, patient_models(tmp_path), "--log-to", "stderr"), 80)
    assert code == 0 and " INFO serve " in seen and "Loading models" not in seen
    (tmp_path / "serve.log").symlink_to("/dev/full")
    code, seen = on_terminal(serve_on_any_port(bin_dir, tmp_path / "models", "--log-dir", tmp_path), 80)
    assert code == 0 and "Ctrl-C stops it" in seen and " INFO " not in seen, "a full disk under the log is borne"
    code, seen = on_terminal(serve_on_any_port(bin_dir, tmp_path / "models", "--log-dir", "/nowhere"), 80)
    assert code == 1 and seen == "fermata serve: cannot write /nowhere/serve.log: No such file or directory\r\n"


def test_why_nothing_is_served_is_told_once(bin_dir, tmp_path):
    (tmp_path / "models" / "broken" / "1").mkdir(parents=True)
    (tmp_path / "models" / "broken" / "1" / "model.onnx").write_bytes(b"no model")
    code, seen = on_terminal(serve_on_any_port(bin_dir, tmp_path / "models"), 80, TMPDIR=str(tmp_path))
    stays = seen.rsplit("\x1b[J", 1)[-1]
    assert code == 1 and re.fullmatch(r"fermata serve: model broken is not ready: .+\r\nfermata serve: no model could be loaded\r\n", stays), seen


def test_models_come_and_go_while_it_serves(bin_dir, tmp_path):
    running = Serve(bin_dir, tmp_path / "serve.log", "--model-control", "explicit", "--load-model", "digits", models=patient_models(tmp_path))
    index = json.loads(request(running.http, "POST", "/v2/repository/index", b"{}", {}).body)
    assert [model["state"] for model in index] == ["READY"]
    assert request(running.http, "POST", "/v2/repository/models/digits/unload", b"{}", {}).status == 200
    assert post(running.http, INFER, tensor_request(digit_tensor())).status in (400, 404, 503)
    assert request(running.http, "POST", "/v2/repository/models/digits/load", b"{}", {}).status == 200
    assert post(running.http, INFER, tensor_request(digit_tensor())).status == 200
    assert running.stop() == 0


# ---- several loops that read requests


@pytest.fixture
def loops(bin_dir, tmp_path):
    running = Serve(bin_dir, tmp_path / "serve.log", "--gateway-threads", 3, models=patient_models(tmp_path))
    yield running
    running.stop()


def ask_on_connections(address, count):
    """The status of a request on each of so many connections, which the kernel spreads over the loops."""
    return [post(address, INFER, tensor_request(digit_tensor())).status for _ in range(count)]


def tasks_by_gateway(running):
    return {gateway["name"]: gateway["tasks_total"] for gateway in get(running.ready["scheduler"]["http"], "/state").json()["gateways"]}


def test_several_loops_share_two_ports_and_are_one_in_the_metrics(loops):
    assert len({port for _, port in listeners(loops.pid)}) == 3
    assert {address.removeprefix("::ffff:") for address, _ in listeners(loops.pid)} == {"127.0.0.1"}
    asked = 0
    while asked < 2000 and (len(tasks_by_gateway(loops)) < 3 or min(tasks_by_gateway(loops).values()) == 0):
        assert set(ask_on_connections(loops.http, 10)) == {200}
        asked += 10
    assert min(tasks_by_gateway(loops).values()) > 0 and sum(tasks_by_gateway(loops).values()) == asked
    text = get(loops.gateways[0]["metrics"], "/metrics").body.decode()
    assert f'nv_inference_request_success{{model="digits",version="1"}} {asked}\n' in text
    assert "fermata_gateway_scheduler_connected 1\n" in text and int(re.search(r"fermata_gateway_arena_bytes (\d+)", text).group(1)) >= 1 << 30
    wait_until(lambda: "fermata_gateway_tasks_in_flight 0\n" in get(loops.gateways[0]["metrics"], "/metrics").body.decode(), "no task under way")
    for _ in range(10):  # whichever loop is asked
        told = get(loops.http, "/v2/models/digits/stats").json()["model_stats"][0]
        assert told["inference_count"] == asked and told["inference_stats"]["success"]["count"] == asked
        assert sum(batch["batch_size"] * batch["compute_infer"]["count"] for batch in told["batch_stats"]) == told["execution_count"] == asked


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_model_that_comes_and_goes_does_so_for_all_loops(bin_dir, tmp_path, protocol):
    """Whichever loop is asked behind the answer knows of it."""
    running = Serve(bin_dir, tmp_path / "serve.log", "--model-control", "explicit", "--gateway-threads", 3, models=patient_models(tmp_path))
    with getattr(tritonclient, protocol).InferenceServerClient(getattr(running, protocol)) as client:
        for _ in range(5):
            client.load_model("digits")
            assert set(ask_on_connections(running.http, 12)) == {200}
            client.unload_model("digits")
            assert set(ask_on_connections(running.http, 12)) == {503}
    assert running.stop() == 0


def test_a_stop_answers_what_each_loop_has(bin_dir, tmp_path):
    profile = tmp_path / "slow.csv"
    profile.write_text(SLOW)
    running = Serve(bin_dir, tmp_path / "serve.log", "--engine", "emulated", "--profile", profile, "--gateway-threads", 2, models=None)
    with concurrent.futures.ThreadPoolExecutor(12) as threads:
        answers = [threads.submit(slow_request, running.http) for _ in range(12)]
        metrics = running.gateways[0]["metrics"]
        wait_until(lambda: "fermata_gateway_tasks_in_flight 12\n" in get(metrics, "/metrics").body.decode(), "12 tasks under way")
        assert running.stop() == 0
        assert [answer.result().status for answer in answers] == [200] * 12


@pytest.mark.parametrize("which", ["http", "grpc"])
def test_a_port_that_others_of_this_user_share_is_taken_too(loops, bin_dir, tmp_path, which):
    address = getattr(loops, which)
    ended = run(bin_dir, "--models", loops.models, "--gateway-threads", 2, f"--{which}-address", address, "--log-level", "error")
    assert ended.returncode == 1 and address in ended.stderr, ended.stderr


def test_a_loop_blocked_by_a_client_that_does_not_read_answers_the_others(loops):
    """Metadata is asked for again and again on a connection that nobody reads, until the socket takes no more."""
    host, port = loops.http.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as deaf:
        deaf.setblocking(False)
        wish = b"GET /v2/models/digits HTTP/1.1\r\nHost: x\r\n\r\n" * 1000
        refused = 0
        while refused < 20:
            try:
                deaf.send(wish)
                refused = 0
            except BlockingIOError:
                refused += 1
                assert get(loops.http, "/v2/health/live").status == 200
        assert set(ask_on_connections(loops.http, 30)) == {200}


@pytest.mark.data_plane
def test_several_gateways_of_one_program_join_a_scheduler(cluster):
    scheduler = cluster.scheduler()
    gateway = cluster.gateway(scheduler, "--gateway-threads", 2)
    cluster.worker(scheduler)
    wait_until(lambda: len(get(scheduler.http, "/state").json()["gateways"]) == 2, "both gateways")
    wait_until(lambda: all(get(gateway.http, "/v2/models/digits/ready").status == 200 for _ in range(20)), "the model in both")
    assert set(ask_on_connections(gateway.http, 40)) == {200}
    state = get(scheduler.http, "/state").json()
    assert sum(one["tasks_total"] for one in state["gateways"]) == 40 and min(one["tasks_total"] for one in state["gateways"]) > 0


@pytest.mark.data_plane
def test_several_loops_join_a_cluster(cluster, bin_dir, tmp_path):
    scheduler = cluster.scheduler()
    running = Serve(bin_dir, tmp_path / "serve.log", "--gateway-threads", 2, "--join", scheduler.grpc, *JOIN_PORTS, models=cluster.models)
    wait_served_by(scheduler, "digits", 1)
    wait_until(lambda: all(get(running.http, "/v2/models/digits/ready").status == 200 for _ in range(20)), "the model in both")
    assert set(ask_on_connections(running.http, 40)) == {200}
    assert running.stop() == 0


JOIN_PORTS = ["--data-address", ANY_PORT]


@pytest.mark.data_plane
def test_two_that_join_a_cluster_serve_as_one(cluster, bin_dir, tmp_path):
    scheduler = cluster.scheduler()
    both = [Serve(bin_dir, tmp_path / f"{i}.log", "--join", scheduler.grpc, *JOIN_PORTS, models=cluster.models) for i in range(2)]
    wait_served_by(scheduler, "digits", 2)
    state = get(scheduler.http, "/state").json()
    assert len(state["gateways"]) == 2 and len(state["workers"]) == 2
    for one in both:
        wait_until(lambda: get(one.http, "/v2/models/digits/ready").status == 200, "the model in its gateway")
        for _ in range(20):
            assert post(one.http, INFER, tensor_request(digit_tensor())).status == 200
    both[0].kill()
    wait_until(lambda: len(get(scheduler.http, "/state").json()["workers"]) == 1, "the scheduler to notice")
    for _ in range(20):
        assert post(both[1].http, INFER, tensor_request(digit_tensor())).status == 200
    assert both[1].stop() == 0


@pytest.mark.data_plane
def test_inputs_go_from_one_that_joined_to_the_worker_of_another(cluster, bin_dir, tmp_path):
    scheduler = cluster.scheduler()
    (tmp_path / "empty").mkdir()
    without = Serve(bin_dir, tmp_path / "without.log", "--join", scheduler.grpc, *JOIN_PORTS, models=tmp_path / "empty")
    having = Serve(bin_dir, tmp_path / "having.log", "--join", scheduler.grpc, *JOIN_PORTS, models=cluster.models)
    wait_until(lambda: get(without.http, "/v2/models/digits/ready").status == 200, "the model in the other's gateway")
    for _ in range(20):
        assert post(without.http, INFER, tensor_request(digit_tensor())).status == 200
    assert having.stop() == 0 and without.stop() == 0


def test_joining_nobody_is_told_and_borne(bin_dir, tmp_path):
    running = Serve(bin_dir, tmp_path / "serve.log", "--join", "127.0.0.1:1", *JOIN_PORTS, models=patient_models(tmp_path))
    answer = post(running.http, INFER, tensor_request(digit_tensor()))
    assert answer.status == 503 and "127.0.0.1:1" in answer.error(), answer
    assert running.stop() == 0


def test_one_that_is_sent_away_ends(cluster, bin_dir, tmp_path):
    scheduler = cluster.scheduler()
    running = Serve(bin_dir, tmp_path / "serve.log", "--name", "leaver", "--join", scheduler.grpc, *JOIN_PORTS, models=cluster.models)
    wait_served_by(scheduler, "digits", 1)
    command = [bin_dir / "fermata", "cluster", "--exit", "drain", "leaver", "--scheduler", scheduler.grpc]
    assert subprocess.run(command, timeout=60).returncode == 0
    assert running.wait() == 0


def supervised(bin_dir, tmp_path, *flags):
    """`fermata serve --supervise`, and the process that serves."""
    command = [bin_dir / "fermata", "serve", "--supervise", "--json", "--http-address", ANY_PORT, "--grpc-address", ANY_PORT,
               "--metrics-address", ANY_PORT, "--models", patient_models(tmp_path), *flags]
    parent = Process(command, tmp_path / "supervise.log")
    return parent, json.loads(parent.wait_ready(lambda text: text.startswith("{")))


def test_a_supervised_one_is_started_again_and_stops_when_told(bin_dir, tmp_path):
    parent, told = supervised(bin_dir, tmp_path)
    os.kill(told["scheduler"]["pid"], signal.SIGSEGV)
    again = json.loads(parent.wait_line(lambda text: text.startswith("{")))
    assert again["scheduler"]["pid"] != told["scheduler"]["pid"]
    assert "was killed by signal 11" in parent.log() and "starting it again" in parent.log()
    assert post(again["gateways"][0]["http"], INFER, tensor_request(digit_tensor())).status == 200
    assert parent.stop() == 0
    assert not alive(again["scheduler"]["pid"])


def test_nothing_is_left_behind_a_killed_supervisor(bin_dir, tmp_path):
    parent, told = supervised(bin_dir, tmp_path)
    parent.kill()
    wait_until(lambda: not alive(told["scheduler"]["pid"]), "the end of the one that served")


def test_wrong_flags_are_not_tried_again(bin_dir):
    ended = run(bin_dir, "--supervise", "--frob")
    assert ended.returncode == 2 and ended.stderr.count("\n") == 1, ended.stderr


# ---- the admin calls, at its gRPC port


def admin(bin_dir, running, *words):
    return subprocess.run([bin_dir / "fermata", *words, "--scheduler", running.grpc], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("threads", [1, 3])
def test_its_cluster_is_seen_and_changed_at_the_grpc_port(bin_dir, tmp_path, threads):
    running = Serve(bin_dir, tmp_path / "serve.log", "--name", "lone", "--gateway-threads", threads, models=patient_models(tmp_path))
    for _ in range(4):  # whichever loop has the connection
        status = admin(bin_dir, running, "cluster", "status")
        assert status.returncode == 0 and "lone" in status.stdout and "digits" in status.stdout, status
    assert admin(bin_dir, running, "cluster", "policy", "eager").returncode == 0
    assert get(running.ready["scheduler"]["http"], "/state").json()["policy"] == "eager"
    unknown = admin(bin_dir, running, "cluster", "policy", "fast")
    assert unknown.returncode == 1 and "fast" in unknown.stderr
    assert admin(bin_dir, running, "cluster", "drain", "lone").returncode == 0
    assert "draining" in admin(bin_dir, running, "cluster", "status").stdout
    assert post(running.http, INFER, tensor_request(digit_tensor())).status in (503, 504)
    assert admin(bin_dir, running, "cluster", "resume", "lone").returncode == 0
    wait_until(lambda: post(running.http, INFER, tensor_request(digit_tensor())).status == 200, "answers again")
    assert len({port for _, port in listeners(running.pid)}) == 3
    plan = admin(bin_dir, running, "plan", "show")
    assert plan.returncode == 1 and "this process has one worker" in plan.stderr, plan
    assert admin(bin_dir, running, "cluster", "--exit", "drain", "lone").returncode == 0
    assert running.wait() == 0


def test_one_that_joined_names_its_scheduler_to_admins(cluster, bin_dir, tmp_path):
    scheduler = cluster.scheduler()
    running = Serve(bin_dir, tmp_path / "serve.log", "--join", scheduler.grpc, *JOIN_PORTS, models=cluster.models)
    refused = admin(bin_dir, running, "cluster", "status")
    assert refused.returncode == 1 and scheduler.grpc in refused.stderr, refused
    assert running.stop() == 0


# ---- what must not happen


CRASH_REQUESTS = 1000


def crash_under_load(running, pid, http):
    """What clients see when an engine takes the process down while they wait: statuses, or "broken"."""
    seen = []

    def ask():
        try:
            seen.append(slow_request(http).status)
        except OSError:
            seen.append("broken")

    threads = [threading.Thread(target=ask) for _ in range(CRASH_REQUESTS)]
    for thread in threads:
        thread.start()
    metrics = running["gateways"][0]["metrics"]
    wait_until(lambda: int(re.search(r"fermata_gateway_tasks_in_flight (\d+)", get(metrics, "/metrics").body.decode()).group(1)) > CRASH_REQUESTS / 2,
               "requests that wait")
    os.kill(pid, signal.SIGSEGV)  # as a fault of an engine's code does
    for thread in threads:
        thread.join()
    return seen


@pytest.mark.parametrize("threads", [1, 2])
def test_an_engine_that_crashes_breaks_the_connections_of_those_who_wait_and_nothing_else(bin_dir, tmp_path, threads):
    profile = tmp_path / "slow.csv"
    profile.write_text(SLOW.replace("5000", "500000"))
    running = Serve(bin_dir, tmp_path / "serve.log", "--engine", "emulated", "--profile", profile, "--gateway-threads", threads, models=None)
    seen = crash_under_load(running.ready, running.pid, running.http)
    assert len(seen) == CRASH_REQUESTS and set(seen) <= {200, "broken"} and seen.count("broken") > CRASH_REQUESTS / 4, {one: seen.count(one) for one in set(seen)}
    assert running.wait() == -signal.SIGSEGV


def test_a_supervised_one_serves_again_after_a_crash_while_1000_wait(bin_dir, tmp_path):
    profile = tmp_path / "slow.csv"
    profile.write_text(SLOW.replace("5000", "500000"))
    command = [bin_dir / "fermata", "serve", "--supervise", "--json", "--http-address", ANY_PORT, "--grpc-address", ANY_PORT,
               "--metrics-address", ANY_PORT, "--engine", "emulated", "--profile", profile]
    parent = Process(command, tmp_path / "supervise.log")
    told = json.loads(parent.wait_ready(lambda text: text.startswith("{")))
    seen = crash_under_load(told, told["scheduler"]["pid"], told["gateways"][0]["http"])
    assert len(seen) == CRASH_REQUESTS and set(seen) <= {200, "broken"}, set(seen)
    again = json.loads(parent.wait_line(lambda text: text.startswith("{")))
    assert slow_request(again["gateways"][0]["http"]).status == 200
    assert parent.stop() == 0


def test_two_of_one_folder_keep_profiles_that_both_and_a_third_can_read(bin_dir, tmp_path):
    """They measure and write at the same time; whoever was last has written a whole one."""
    models = patient_models(tmp_path)
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        both = list(threads.map(lambda i: Serve(bin_dir, tmp_path / f"{i}.log", "--engine", "onednn", models=models), range(2)))
    for one in both:
        assert post(one.http, INFER, tensor_request(digit_tensor())).status == 200
        assert one.stop() == 0
    third = Serve(bin_dir, tmp_path / "third.log", "--engine", "onednn", models=models)
    assert "profile_used" in third.log(), third.log()
    assert {file.name for file in (models / "digits/1").iterdir()} == {"model.onnx", "profile.onednn.txt"}
    assert third.stop() == 0


def test_joining_a_scheduler_of_another_version_is_told(bin_dir, tmp_path):
    """A gRPC server that knows no such method, as one of another version may."""
    other = Serve(bin_dir, tmp_path / "other.log", models=patient_models(tmp_path))
    running = Serve(bin_dir, tmp_path / "serve.log", "--join", other.grpc, *JOIN_PORTS, models=other.models)
    wait_until(lambda: "UNIMPLEMENTED" in post(running.http, INFER, tensor_request(digit_tensor())).error(), "the reason")
    answer = post(running.http, INFER, tensor_request(digit_tensor()))
    assert answer.status == 503 and other.grpc in answer.error(), answer
    assert running.stop() == 0 and other.stop() == 0
