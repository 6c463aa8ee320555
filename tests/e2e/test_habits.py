"""What an operator expects of a service: nothing open to other hosts unless asked for, SIGHUP never kills, a client that goes away is
no warning, an engine whose device is missing says which."""

import json
import pathlib
import shutil
import signal
import socket
import subprocess

import pytest

from client import digit_tensor, get, good, post, tensor_request
from system import ANY_PORT, MODELS, Cluster, Serve, Up, alive, wait_until
from test_models import no_pictures, write_model
from test_tls import Authority, fermata


@pytest.mark.parametrize("name,ports", {"scheduler": [9000, 9001], "gateway": [8000, 8001, 8002, 8003], "worker": [9101]}.items())
def test_defaults_are_of_this_host(bin_dir, name, ports):
    text = subprocess.run([bin_dir / f"fermata-{name}", "--help"], capture_output=True, text=True, check=True).stdout
    for port in ports:
        assert f"127.0.0.1:{port}" in text, port
    assert "0.0.0.0" not in text


def is_ready(gateway, name):
    return get(gateway.http, f"/v2/models/{name}/ready").status == 200


def test_sighup_has_a_worker_read_its_models_again_and_kills_nobody(cluster):
    scheduler = cluster.scheduler()
    gateway = cluster.gateway(scheduler)
    worker = cluster.worker(scheduler, "--profile-budget", "100ms")
    wait_until(lambda: is_ready(gateway, "digits"), "digits is ready")
    write_model(cluster.models, "plain", no_pictures())
    for service in (scheduler, gateway, worker):
        service.child.send_signal(signal.SIGHUP)
    wait_until(lambda: is_ready(gateway, "plain"), "the new model is ready")
    shutil.rmtree(cluster.models / "plain")
    worker.child.send_signal(signal.SIGHUP)
    wait_until(lambda: not is_ready(gateway, "plain"), "the model that is gone is unloaded")
    good(gateway.http)
    for service in (scheduler, gateway):
        assert "read_again" in service.log()
    assert cluster.stop() == [0, 0, 0]


def test_sighup_of_explicit_control_reloads_what_is_loaded_and_nothing_else(cluster):
    scheduler = cluster.scheduler()
    gateway = cluster.gateway(scheduler)
    worker = cluster.worker(scheduler, "--profile-budget", "100ms", "--model-control", "explicit", "--load-model", "digits")
    wait_until(lambda: is_ready(gateway, "digits"), "digits is ready")
    write_model(cluster.models, "plain", no_pictures())
    (cluster.models / "digits" / "2").mkdir()
    shutil.copy(cluster.models / "digits" / "1" / "model.onnx", cluster.models / "digits" / "2")
    worker.child.send_signal(signal.SIGHUP)
    wait_until(lambda: get(gateway.http, "/v2/models/digits/versions/2/ready").status == 200, "the new version is ready")
    names = {entry["name"] for entry in post(gateway.http, "/v2/repository/index", {}).json()}
    assert not is_ready(gateway, "plain") and "plain" not in names
    assert cluster.stop() == [0, 0, 0]


def test_sighup_has_serve_read_its_models_again(bin_dir, tmp_path):
    models = tmp_path / "models"
    shutil.copytree(MODELS, models)
    serve = Serve(bin_dir, tmp_path / "serve.log", models=models)
    write_model(models, "plain", no_pictures())
    serve.child.send_signal(signal.SIGHUP)
    wait_until(lambda: is_ready(serve, "plain"), "the new model is ready")
    assert serve.stop() == 0


@pytest.mark.parametrize("program", ["gateway", "serve", "scheduler"])
def test_sighup_has_keys_and_certificates_read_at_once(bin_dir, tmp_path, program):
    """Before the line of the log that says that all has been read; by itself it is looked for once a second."""
    authority = Authority(bin_dir, tmp_path / "certs")
    cert, key = authority.issue("own", "--role", "gateway")
    fermata(bin_dir, "key", "new", "first", "--keys", tmp_path / "keys")
    cluster = Cluster(bin_dir, tmp_path)
    certified = ["--tls-cert", cert, "--tls-key", key, "--keys", tmp_path / "keys"]
    if program == "serve":
        service = Serve(bin_dir, tmp_path / "serve.log", "--gateway-threads", 2, *certified)
    elif program == "gateway":
        service = cluster.gateway(cluster.scheduler(), "--gateway-threads", 2, *certified)
    else:
        service = cluster.scheduler("--cluster-ca", authority.ca, "--cluster-cert", cert, "--cluster-key", key)
    wanted = ["tls_files_read"] if program == "scheduler" else ["tls_files_read", "keys_read"]
    for i in range(1, 5):
        authority.issue(f"new{i}", "--role", "gateway")
        for suffix in ("key", "crt"):
            (authority.folder / f"new{i}.{suffix}").rename(authority.folder / f"own.{suffix}")
        fermata(bin_dir, "key", "new", f"n{i}", "--keys", tmp_path / "keys")
        service.child.send_signal(signal.SIGHUP)
        wait_until(lambda: service.log().count(" read_again") == i, "it has read again")
        before = service.log().split(" read_again")[i - 1]
        for event in wanted:
            assert event in before, (i, event, before)
    assert service.stop() == 0
    cluster.stop()


def test_sighup_is_a_clean_stop_of_up(bin_dir, tmp_path):
    """The terminal that it was started in has closed."""
    up = Up(bin_dir, tmp_path / "up.log")
    pids = up.pids()
    assert up.stop(signal.SIGHUP) == 0
    assert not any(alive(pid) for pid in pids)


@pytest.mark.data_plane
def test_a_client_that_goes_away_is_no_warning(cluster):
    """Each leaves while its request waits for a worker or runs."""
    scheduler = cluster.scheduler()
    gateway = cluster.gateway(scheduler)
    worker = cluster.worker(scheduler, "--profile-budget", "100ms")
    wait_until(lambda: is_ready(gateway, "digits"), "digits is ready")
    body = json.dumps(tensor_request(digit_tensor())).encode()
    head = (f"POST /v2/models/digits/infer HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n").encode()
    host, port = gateway.http.rsplit(":", 1)
    for _ in range(1000):
        with socket.create_connection((host, int(port))) as client:
            client.sendall(head + body)
    good(gateway.http)
    cluster.stop()
    for service in (scheduler, gateway, worker):
        loud = [line for line in service.log().splitlines() if (" WARN " in line or " ERROR " in line) and "rdma_without_hardware" not in line]
        assert not loud, loud[:3]


def test_a_missing_gpu_is_told_as_that(bin_dir):
    got = subprocess.run([bin_dir / "fermata-worker", "--engine", "cuda", "--models", MODELS, "--metrics-address", ANY_PORT],
                         capture_output=True, text=True, timeout=60)
    if got.returncode == 0 or pathlib.Path("/dev/nvidiactl").exists() or "not built" in got.stderr or "plug-in" in got.stderr:
        pytest.skip("there is a GPU, or no CUDA engine")
    assert got.returncode == 1
    assert "no GPU" in got.stderr and "driver" in got.stderr, got.stderr
