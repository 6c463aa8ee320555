"""Nothing is open to other hosts by itself: who listens where, and what it takes to listen elsewhere."""

import collections
import re
import socket
import ssl
import subprocess

import grpc
import pytest

from client import get, good
from system import ANY_PORT, LOOPBACK, MODELS, ROOT, Cluster, Serve, Up, listeners, wait_until
from test_tls import Authority, fermata

ALL = "0.0.0.0:0"
SERVICES = ["--cluster-ca", "--cluster-cert", "--cluster-key"]
PORTS = {
    "gateway": {"--http-address": "clients", "--grpc-address": "clients", "--metrics-address": "services", "--data-address": "services"},
    "scheduler": {"--grpc-address": "services", "--http-address": "services"},
    "worker": {"--metrics-address": "services"},
    "serve": {"--http-address": "clients", "--grpc-address": "clients", "--metrics-address": "services"},
}
EACH = [(program, flag) for program, ports in PORTS.items() for flag in ports]
WANTED = {"clients": ["--tls-cert", "--tls-key", "--keys"], "services": SERVICES}


def words(bin_dir, program, listening):
    """The command of a program with these listeners; the rest picks ports of this host."""
    flags = [word for flag in PORTS[program] for word in (flag, listening.get(flag, ANY_PORT))]
    models = ["--models", MODELS] if program in ("worker", "serve") else []
    command = [bin_dir / "fermata", "serve", "--log-to", "stderr"] if program == "serve" else [bin_dir / f"fermata-{program}"]
    return [str(word) for word in [*command, *models, *flags]]


@pytest.mark.parametrize("program,flag", EACH)
def test_no_start_where_others_come_in_unprotected(bin_dir, program, flag):
    done = subprocess.run(words(bin_dir, program, {flag: ALL}), capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and not done.stdout
    assert len(done.stderr.splitlines()) == 1 and f"{flag} {ALL}" in done.stderr, done.stderr
    for protecting in [*WANTED[PORTS[program][flag]], "--insecure"]:
        assert protecting in done.stderr, done.stderr


def exposed(log):
    return re.findall(r" WARN \S+ exposed listener=(\S+) address=(\S+) without=", log)


@pytest.mark.parametrize("program", ["gateway", "scheduler", "worker"])
def test_a_start_by_the_word_of_the_user_is_told(cluster, program):
    scheduler = [] if program == "scheduler" else ["--scheduler", cluster.scheduler().grpc]
    flags = [word for flag in PORTS[program] for word in (flag, ALL)]
    models = ["--models", cluster.models] if program == "worker" else []
    service = cluster.start(program, *scheduler, *models, *flags, "--insecure")
    assert exposed(service.log()) == [(flag, ALL) for flag in PORTS[program]]
    assert "0.0.0.0" in {address for address, _ in listeners(service.pid)}


def test_serve_and_up_by_the_word_of_the_user(bin_dir, tmp_path):
    serve = Serve(bin_dir, tmp_path / "serve.log", "--http-address", ALL, "--insecure")
    assert exposed(serve.log()) == [("--http-address", ALL)]
    assert serve.stop() == 0
    up = Up(bin_dir, tmp_path / "up.log", "--host", "0.0.0.0", "--insecure")
    assert [flag for flag, _ in exposed(up.log())] == ["--host", "--http-address", "--grpc-address", "--metrics-address"]
    assert up.stop() == 0


def test_up_names_its_own_flags(bin_dir):
    said = fermata(bin_dir, "up", "--models", MODELS, "--any-port", "--host", "0.0.0.0", code=2)
    assert "--host 0.0.0.0:0" in said and "--tls and --keys" in said and len(said.splitlines()) == 1
    said = fermata(bin_dir, "up", "--models", MODELS, "--any-port", "--host", "0.0.0.0", "--tls", code=2)
    assert "give --keys too" in said


def first_line(port, context=None):
    """What comes back for a plain HTTP request about a model, its first line; "": nothing, or no handshake."""
    host = "127.0.0.1"
    try:
        with socket.create_connection((host, port), timeout=10) as plain:
            client = context.wrap_socket(plain, server_hostname=host) if context else plain
            client.sendall(b"GET /v2/models/digits HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            return client.recv(4096).split(b"\r\n")[0].decode(errors="replace")
    except (OSError, ssl.SSLError):
        return ""


def asks_grpc(port, ca):
    """The code that a client of gRPC without a key or a certificate gets."""
    with grpc.secure_channel(f"127.0.0.1:{port}", grpc.ssl_channel_credentials(ca.read_bytes())) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelMetadata")
        with pytest.raises(grpc.RpcError) as failed:
            call(b"\x0a\x06digits", timeout=10)
        return failed.value.code()


@pytest.fixture(autouse=True)
def ucx_chooses_devices(monkeypatch):
    """Where the suite runs over UCX, whose tcp listens, too."""
    monkeypatch.delenv("UCX_NET_DEVICES", raising=False)


def check_socket(address, port, ca):
    """Of this host; or whoever comes to it speaks TLS, and shows a key or a certificate."""
    if address in LOOPBACK:
        return "own"
    assert ca, f"{address}:{port} is open to other hosts"
    assert not first_line(port).startswith("HTTP/"), f"{port} answers without TLS"
    line = first_line(port, ssl.create_default_context(cafile=ca))
    if line:
        assert line.startswith("HTTP/1.1 401"), (port, line)
    else:
        assert asks_grpc(port, ca) in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNAVAILABLE), port
    return "protected"


def check_sockets(pids, ca=None):
    """How many sockets there are of each kind; UCX, where the suite runs over it, adds some of this host."""
    return collections.Counter(check_socket(*found, ca) for pid in pids for found in listeners(pid))


@pytest.mark.data_plane
def test_all_sockets_of_up_are_of_this_host(bin_dir, tmp_path):
    up = Up(bin_dir, tmp_path / "up.log", "--gateways", "2")
    found = check_sockets([up.pid, *up.pids()])
    assert found["own"] >= 2 * 4 + 2 + 1 and not found["protected"]
    assert up.stop() == 0


def test_all_sockets_of_serve_are_of_this_host(bin_dir, tmp_path):
    serve = Serve(bin_dir, tmp_path / "serve.log")
    assert check_sockets({serve.pid, *serve.pids()}) == {"own": 3}
    assert serve.stop() == 0


@pytest.mark.data_plane
def test_all_sockets_of_services_started_by_hand_are_of_this_host(cluster):
    """What no flag names, and a port alone."""
    scheduler = cluster.start("scheduler", "--grpc-address", ":0", "--http-address", ":0")
    gateway = cluster.start("gateway", "--scheduler", scheduler.grpc, "--http-address", ":0", "--grpc-address", ":0", "--metrics-address",
                            ":0", "--data-address", ":0")
    worker = cluster.start("worker", "--scheduler", scheduler.grpc, "--models", cluster.models, "--metrics-address", ":0")
    wait_until(lambda: get(gateway.http, "/v2/models/digits/ready").status == 200, "digits is ready")
    good(gateway.http)
    found = check_sockets([service.pid for service in (scheduler, gateway, worker)])
    assert found["own"] >= 2 + 4 + 1 and not found["protected"]
    assert all(address.startswith("127.0.0.1:") for address in (scheduler.grpc, scheduler.http, gateway.http, gateway.grpc, gateway.metrics,
                                                                 gateway.data, worker.metrics))


@pytest.mark.data_plane
def test_all_other_sockets_of_up_want_tls_and_keys(bin_dir, tmp_path):
    fermata(bin_dir, "key", "new", "ci", "--keys", tmp_path / "keys")
    up = Up(bin_dir, tmp_path / "up.log", "--host", "0.0.0.0", "--tls", "--tls-dir", tmp_path / "certs", "--keys", tmp_path / "keys")
    found = check_sockets([up.pid, *up.pids()], tmp_path / "certs" / "ca.crt")
    assert found["protected"] == 3 and found["own"] >= 1 + 2 + 1
    assert up.stop() == 0


@pytest.mark.data_plane
def test_all_other_sockets_of_services_want_tls_and_keys_or_certificates(bin_dir, tmp_path):
    authority = Authority(bin_dir, tmp_path / "certs")
    pairs = {role: authority.issue(role, "--role", role) for role in ("gateway", "scheduler", "worker")}
    fermata(bin_dir, "key", "new", "ci", "--keys", tmp_path / "keys")
    cluster = Cluster(bin_dir, tmp_path)

    def flags(role):
        cert, key = pairs[role]
        everywhere = [word for flag in PORTS[role] if flag != "--data-address" for word in (flag, ALL)]
        return [*everywhere, "--cluster-ca", authority.ca, "--cluster-cert", cert, "--cluster-key", key]

    scheduler = cluster.start("scheduler", *flags("scheduler"))
    to = ["--scheduler", f"localhost:{scheduler.grpc.rsplit(':', 1)[1]}"]
    cert, key = pairs["gateway"]
    gateway = cluster.start("gateway", *to, *flags("gateway"), "--data-address", ANY_PORT, "--tls-cert", cert, "--tls-key", key, "--keys",
                            tmp_path / "keys")
    worker = cluster.start("worker", *to, *flags("worker"), "--models", cluster.models)
    found = check_sockets([service.pid for service in (scheduler, gateway, worker)], authority.ca)
    assert found["protected"] == 2 + 3 + 1 and found["own"] >= 1
    assert cluster.stop() == [0, 0, 0]


def test_compose_opens_nothing_by_itself():
    """No service goes without protection, and what is published is of this host unless PUBLISH says otherwise."""
    text = (ROOT / "compose.yaml").read_text()
    services = dict(re.findall(r"(?ms)^  ([a-z0-9-]+):\n(.*?)(?=^  [a-z]|^[^ ])", text.partition("\nservices:\n")[2]))
    commands = {name: body for name, body in services.items() if re.search(r"- fermata-(scheduler|gateway|worker)$", body, re.M)}
    assert set(commands) == {"scheduler", "gateway-1", "worker-1"} and "--insecure" not in text
    assert all("command: *" in services[name] for name in ("gateway-2", "worker-2"))
    for body in commands.values():
        assert all(f"- {flag}=" in body for flag in SERVICES)
    assert all(f"- {flag}=" in commands["gateway-1"] for flag in WANTED["clients"])
    ports = [port for listed in re.findall(r"ports: \[(.*)\]", text) for port in re.findall(r'"([^"]*)"', listed)]
    assert len(ports) == 7 and all(port.startswith(("127.0.0.1:", "${PUBLISH:-127.0.0.1}:")) for port in ports)
