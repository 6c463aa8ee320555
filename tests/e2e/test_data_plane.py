"""Who may speak on the data plane: certificates, a secret, and a well-meaning worker beside those that have neither."""

import concurrent.futures
import json
import os
import re
import ssl
import struct
import subprocess
import urllib.request

import pytest

from client import INFER, digit_tensor, request, tensor_request
from system import ANY_PORT, Cluster, Process, Serve, patient_models, wait_until

AT_ONCE = ["--policy", "eager"]  # so that requests that come together go to both workers
# As a worker says it: header, versions, items, bytes, instance, ways (docs/data-plane.md).
HELLO = struct.pack("<HBBIII", 0x4D46, 1, 1, 0, 1, 0) + struct.pack("<HHIQQQ", 1, 1, 16, 4096, 0, 0)
BODY = json.dumps(tensor_request(digit_tensor()))


def fermata(bin_dir, *words):
    subprocess.run([bin_dir / "fermata", *map(str, words)], check=True, capture_output=True, timeout=60)


def secret_in(path, mode=0o600):
    path.write_bytes(os.urandom(32))
    path.chmod(mode)
    return path


@pytest.fixture
def certs(bin_dir, tmp_path):
    folder = tmp_path / "certs"
    fermata(bin_dir, "cert", "init", "--dir", folder)
    for role in ("scheduler", "gateway", "worker", "client"):
        fermata(bin_dir, "cert", "issue", role, "--role", role, "--dir", folder)
    return folder


def shown(certs, role):
    return ["--cluster-ca", certs / "ca.crt", "--cluster-cert", certs / f"{role}.crt", "--cluster-key", certs / f"{role}.key"]


def infer(gateway):
    return request(gateway.http, "POST", INFER, BODY)


def burst(gateway):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        return {answer.status for answer in pool.map(infer, [gateway] * 16)}


def metric(service, name, certs=None):
    """Of a program's exposition: the sum over its series, or of the one that is named."""
    context = None
    if certs:
        context = ssl.create_default_context(cafile=certs / "ca.crt")
        context.load_cert_chain(certs / "client.crt", certs / "client.key")
    with urllib.request.urlopen(f"http{'s' if certs else ''}://{service.ready['metrics']}/metrics", timeout=20, context=context) as answer:
        text = answer.read().decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))


def serve_by_two(gateway, workers, metric_of):
    """Both workers have fetched inputs."""
    wait_until(lambda: request(gateway.http, "GET", "/v2/models/digits/ready").status == 200, "the model is served")

    def both():
        assert burst(gateway) == {200}
        return all(metric_of(worker, 'fermata_data_items_total{status="ok"') > 0 for worker in workers)
    wait_until(both, "both workers have run batches")


@pytest.mark.parametrize("way", ["auto", "tcp"])
def test_two_workers_over_tls(certs, cluster, way):
    scheduler = cluster.scheduler(*shown(certs, "scheduler"), *AT_ONCE)
    gateway = cluster.gateway(scheduler, *shown(certs, "gateway"), "--transfer", way)
    workers = [cluster.worker(scheduler, *shown(certs, "worker"), "--transfer", way) for _ in range(2)]
    serve_by_two(gateway, workers, lambda worker, name: metric(worker, name, certs))
    for worker in workers:
        assert metric(worker, f'fermata_data_connections{{transport="{"tcp" if way == "tcp" else "shm"}"', certs) == 1
    assert metric(gateway, "fermata_data_refused_total", certs) == 0
    assert cluster.stop() == [0] * 4


@pytest.mark.parametrize("way", ["auto", "tcp"])
def test_two_workers_with_a_secret(cluster, tmp_path, way):
    flags = ["--cluster-secret", secret_in(tmp_path / "secret"), "--transfer", way]
    scheduler = cluster.scheduler(*AT_ONCE)
    gateway = cluster.gateway(scheduler, *flags)
    workers = [cluster.worker(scheduler, *flags) for _ in range(2)]
    serve_by_two(gateway, workers, metric)
    for worker in workers:
        assert metric(worker, f'fermata_data_connections{{transport="{"tcp" if way == "tcp" else "shm"}"') == 1
    assert metric(gateway, "fermata_data_refused_total") == 0
    assert cluster.stop() == [0] * 4


def refused_beside_a_good_one(gateway, good, bad, metric_of, reason, said):
    """Requests that come to the bad worker are answered by the good one, or with an error, and the reason is counted and told."""
    statuses = set()

    def counted():
        statuses.add(infer(gateway).status)
        return metric_of(gateway, f'fermata_data_refused_total{{reason="{reason}"}}') > 0
    wait_until(lambda: request(gateway.http, "GET", "/v2/models/digits/ready").status == 200, "the model is served")
    wait_until(counted, "the bad one has come and was refused")
    assert statuses <= {200, 503, 504}
    wait_until(lambda: infer(gateway).status == 200, "it is served by the good one")
    assert metric_of(good, 'fermata_data_items_total{status="ok"') > 0
    assert metric_of(bad, 'fermata_data_items_total{status="ok"') == 0
    assert re.search(rf"data_peer_not_proved reason={reason} ", gateway.log())
    assert said in bad.log(), bad.log()[-2000:]


@pytest.mark.data_plane
@pytest.mark.parametrize("flags,reason,said", [
    (["--cluster-secret", "other"], "proof", "another --cluster-secret than this gateway's"),
    ([], "no_proof", "this gateway wants a proof: --cluster-secret"),
])
def test_another_secret_or_none_beside_a_good_worker(cluster, tmp_path, flags, reason, said):
    good_flags = ["--cluster-secret", secret_in(tmp_path / "secret")]
    secret_in(tmp_path / "other")
    scheduler = cluster.scheduler()
    gateway = cluster.gateway(scheduler, *good_flags)
    bad = cluster.worker(scheduler, *[tmp_path / flag if flag == "other" else flag for flag in flags])  # the first is asked first
    good = cluster.worker(scheduler, *good_flags)
    refused_beside_a_good_one(gateway, good, bad, metric, reason, said)
    assert cluster.stop() == [0] * 4


@pytest.mark.data_plane
def test_another_role_on_the_data_plane(certs, cluster):
    """Whoever has a certificate of the cluster, but not a worker's, asks a gateway for inputs."""
    scheduler = cluster.scheduler(*shown(certs, "scheduler"))
    gateway = cluster.gateway(scheduler, *shown(certs, "gateway"))
    worker = cluster.worker(scheduler, *shown(certs, "worker"))
    wait_until(lambda: infer(gateway).status == 200, "it is served")
    words = ["openssl", "s_client", "-connect", gateway.ready["data"], "-tls1_3", "-alpn", "fermata-data/1", "-CAfile", certs / "ca.crt", "-quiet"]
    for role, pair in (("client", ["-cert", certs / "client.crt", "-key", certs / "client.key"]), (None, [])):
        done = subprocess.run([*map(str, words + pair)], input=HELLO, capture_output=True, timeout=30)
        assert (b"the role worker is wanted, the certificate's is client" in done.stdout) == bool(role), done
    assert metric(gateway, 'fermata_data_refused_total{reason="role"}', certs) == 1
    wait_until(lambda: metric(gateway, 'fermata_data_refused_total{reason="tls"}', certs) == 1, "none at all is refused, too")
    for version in ("-tls1_2", "-tls1_1"):
        done = subprocess.run(["openssl", "s_client", "-connect", gateway.ready["data"], version], input=b"", capture_output=True, timeout=30)
        assert b"Cipher is (NONE)" in done.stdout
    assert infer(gateway).status == 200
    assert cluster.stop() == [0] * 3


@pytest.mark.data_plane
def test_serve_that_joins_takes_the_secret(bin_dir, cluster, tmp_path):
    secret = secret_in(tmp_path / "secret")
    scheduler = cluster.scheduler(*AT_ONCE)
    gateway = cluster.gateway(scheduler, "--cluster-secret", secret)
    joined = Serve(bin_dir, tmp_path / "serve.log", "--join", scheduler.grpc, "--cluster-secret", secret, models=cluster.models)
    try:
        wait_until(lambda: infer(gateway).status == 200, "it serves for the others' gateway")
        worker = cluster.worker(scheduler, "--cluster-secret", secret)
        wait_until(lambda: burst(joined) == {200} and metric(worker, 'fermata_data_items_total{status="ok"') > 0,
                   "its gateway gives inputs to a worker elsewhere, too")
    finally:
        assert joined.stop() == 0


@pytest.mark.data_plane
def test_up_with_tls_has_it_on_its_data_plane(bin_dir, tmp_path):
    models, certs = patient_models(tmp_path), tmp_path / "certs"
    up = Process([bin_dir / "fermata", "up", "--models", models, "--any-port", "--tls", "--tls-dir", certs, "--json", "--log-dir", tmp_path],
                 tmp_path / "up.log")
    ready = json.loads(up.wait_ready(lambda line: line.startswith("{")))
    done = subprocess.run(["openssl", "s_client", "-connect", ready["gateways"][0]["data"], "-tls1_3", "-CAfile", certs / "ca.crt", "-cert",
                           certs / "worker.crt", "-key", certs / "worker.key"], input="", capture_output=True, text=True, timeout=30)
    assert "Verify return code: 0 (ok)" in done.stdout and "gateway.fermata" in subprocess.run(
        ["openssl", "x509", "-noout", "-ext", "subjectAltName"], input=done.stdout, capture_output=True, text=True, timeout=30).stdout
    assert up.stop() == 0


@pytest.mark.parametrize("program,flags", [("gateway", ["--http-address", ANY_PORT, "--grpc-address", ANY_PORT]), ("worker", ["--models", "MODELS"])])
@pytest.mark.parametrize("mode,size,said", [(0o644, 32, "is open to others (mode 0644): chmod 600"), (0o600, 31, "fewer than 32 bytes")])
def test_a_secret_that_is_none_is_no_start(bin_dir, tmp_path, program, flags, mode, size, said):
    secret = tmp_path / "secret"
    secret.write_bytes(b"x" * size)
    secret.chmod(mode)
    words = [str(patient_models(tmp_path)) if flag == "MODELS" else flag for flag in flags]
    done = subprocess.run([bin_dir / f"fermata-{program}", "--metrics-address", ANY_PORT, "--cluster-secret", secret, *words], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 1 and said in done.stderr, done.stderr


def test_certificates_and_a_secret_are_no_start(bin_dir, certs, tmp_path):
    done = subprocess.run([bin_dir / "fermata-gateway", "--metrics-address", ANY_PORT, "--http-address", ANY_PORT, "--grpc-address", ANY_PORT,
                           "--data-address", ANY_PORT, "--cluster-secret", secret_in(tmp_path / "secret"), *shown(certs, "gateway")],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "leave one out" in done.stderr, done.stderr
