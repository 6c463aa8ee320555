"""TLS: stock clients over REST and gRPC with a key, certificates that change under traffic, and who is refused."""

import asyncio
import http.client
import json
import re
import shutil
import socket
import ssl
import subprocess
import threading

import grpc
import pytest
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
import tritonclient.http as triton_http
import tritonclient.http.aio as triton_http_aio

from client import INFER, digit_tensor, request, tensor_request
from system import ANY_PORT, ROOT, Cluster, Process, Serve, patient_models, wait_until
from test_perf_analyzer import analyze

KEY = "ci"


def fermata(bin_dir, *words, code=0):
    done = subprocess.run([bin_dir / "fermata", *map(str, words)], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


class Addressed:
    """Where a program is told to call."""

    def __init__(self, rest, rpc):
        self.http, self.grpc = rest, rpc


class Authority:
    """`fermata cert` in a folder of its own."""

    def __init__(self, bin_dir, folder):
        self.bin, self.folder = bin_dir, folder
        fermata(bin_dir, "cert", "init", "--dir", folder)
        self.ca = folder / "ca.crt"

    def issue(self, name, *words):
        fermata(self.bin, "cert", "issue", name, "--dir", self.folder, *words)
        return self.folder / f"{name}.crt", self.folder / f"{name}.key"


@pytest.fixture(scope="module")
def secured(bin_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority(bin_dir, folder / "certs")
    cert, key = authority.issue("gw", "--role", "gateway")
    text = fermata(bin_dir, "key", "new", KEY, "--keys", folder / "keys").splitlines()[0]
    serve = Serve(bin_dir, folder / "serve.log", "--keys", folder / "keys", "--tls-cert", cert, "--tls-key", key,
                  models=patient_models(folder))
    serve.authority, serve.key, serve.cert_file, serve.key_file, serve.folder = authority, text, cert, key, folder
    serve.headers = {"authorization": f"Bearer {text}"}
    serve.root = authority.ca.read_bytes()
    yield serve
    assert serve.stop() == 0
    log = serve.log()
    assert text not in log and "PRIVATE" not in log


@pytest.fixture(scope="module")
def mutual(bin_dir, tmp_path_factory):
    """Wants a certificate of its clients."""
    folder = tmp_path_factory.mktemp("mutual")
    authority = Authority(bin_dir, folder / "certs")
    cert, key = authority.issue("gw", "--role", "gateway")
    serve = Serve(bin_dir, folder / "serve.log", "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", authority.ca,
                  models=patient_models(folder))
    serve.authority, serve.folder, serve.root = authority, folder, authority.ca.read_bytes()
    yield serve
    assert serve.stop() == 0


def tls_context(serve, pair=None):
    context = ssl.create_default_context(cafile=serve.authority.ca)
    if pair:
        context.load_cert_chain(*pair)
    return context


def ask(serve, method, path, document=None, headers=None, context=None):
    host, port = serve.http.rsplit(":", 1)
    connection = http.client.HTTPSConnection(host, int(port), timeout=30, context=context or tls_context(serve))
    try:
        connection.request(method, path, document and json.dumps(document), headers or {})
        got = connection.getresponse()
        return got.status, got.read()
    finally:
        connection.close()


def seven(module):
    tensor = module.InferInput("image", [1, 1, 8, 8], "FP32")
    tensor.set_data_from_numpy(digit_tensor().reshape(1, 1, 8, 8))
    return tensor


def is_seven(result):
    return result.as_numpy("scores").argmax() == 7


def http_client(serve, **more):
    return triton_http.InferenceServerClient(serve.http, ssl=True, ssl_options={"ca_certs": str(serve.authority.ca)},
                                             ssl_context_factory=lambda: tls_context(serve), **more)


def grpc_client(serve, **more):
    return triton.InferenceServerClient(serve.grpc, ssl=True, root_certificates=str(serve.authority.ca), **more)


def test_tritonclient_http(secured):
    assert is_seven(http_client(secured).infer("digits", [seven(triton_http)], headers=dict(secured.headers)))


def test_tritonclient_http_aio(secured):
    async def infer():
        async with triton_http_aio.InferenceServerClient(secured.http, ssl=True, ssl_context=tls_context(secured)) as client:
            return await client.infer("digits", [seven(triton_http)], headers=dict(secured.headers))
    assert is_seven(asyncio.run(infer()))


def test_tritonclient_grpc(secured):
    assert is_seven(grpc_client(secured).infer("digits", [seven(triton)], headers=dict(secured.headers)))


def test_tritonclient_grpc_aio(secured):
    async def infer():
        async with triton_aio.InferenceServerClient(secured.grpc, ssl=True, root_certificates=str(secured.authority.ca)) as client:
            return await client.infer("digits", [seven(triton)], headers=dict(secured.headers))
    assert is_seven(asyncio.run(infer()))


def test_a_key_is_wanted_still(secured):
    assert ask(secured, "POST", INFER, tensor_request(digit_tensor()))[0] == 401


def test_grpcio(secured):
    channel = grpc.secure_channel(secured.grpc, grpc.ssl_channel_credentials(secured.root))
    live = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
    assert live(b"", timeout=20) == b"\x08\x01"
    channel.close()


def test_curl(secured):
    done = subprocess.run(["curl", "-sS", "--cacert", secured.authority.ca, "-H", f"x-api-key: {secured.key}", "-w", "\n%{http_code}",
                           f"https://{secured.http}/v2/models/digits"], capture_output=True, text=True, timeout=30)
    assert done.stdout.endswith("200"), done.stderr
    done = subprocess.run(["curl", "-sS", f"https://{secured.http}/v2"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 60, "whom the system does not know is not believed"


def test_perf_analyzer_by_rest(secured, tmp_path):
    """With a key, which it can send by REST alone."""
    ca = ["--ssl-https-ca-certificates-file", secured.authority.ca]
    got = analyze(Addressed(f"https://{secured.http}", secured.grpc), tmp_path / "figures.csv", "-i", "http", *ca, "-H", f"x-api-key:{secured.key}")
    assert got.returncode == 0 and "Throughput" in got.stdout, got.stdout + got.stderr
    for words, code in ((ca, "a valid API key is wanted"), (["-H", f"x-api-key:{secured.key}"], "")):
        got = analyze(Addressed(f"https://{secured.http}", secured.grpc), tmp_path / "none.csv", "-i", "http", *words)
        assert got.returncode != 0 and "Throughput" not in got.stdout and code in got.stdout + got.stderr


def test_perf_analyzer_by_grpc(mutual, tmp_path):
    """With a certificate."""
    cert, key = mutual.authority.issue("analyzer")
    ca = ["--ssl-grpc-use-ssl", "--ssl-grpc-root-certifications-file", mutual.authority.ca]
    own = ["--ssl-grpc-certificate-chain-file", cert, "--ssl-grpc-private-key-file", key]
    got = analyze(mutual, tmp_path / "figures.csv", "-i", "grpc", *ca, *own)
    assert got.returncode == 0 and "Throughput" in got.stdout, got.stdout + got.stderr
    got = analyze(mutual, tmp_path / "none.csv", "-i", "grpc", *ca)
    assert got.returncode != 0 and "Throughput" not in got.stdout


def s_client(address, *words):
    return subprocess.run(["openssl", "s_client", "-connect", address, *map(str, words)], input="", capture_output=True, text=True,
                          errors="replace", timeout=30)


@pytest.mark.parametrize("port", ["http", "grpc"])
def test_protocols(secured, port):
    address, ca = getattr(secured, port), ["-CAfile", secured.authority.ca, "-alpn", "http/1.1" if port == "http" else "h2"]
    for version, shown in (("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")):
        done = s_client(address, *ca, version, "-verify_return_error")
        assert f"{shown}, Cipher is" in done.stdout and "ALPN protocol" in done.stdout, done.stdout + done.stderr
    for version in ("-tls1", "-tls1_1"):
        done = s_client(address, *ca, version, "-cipher", "ALL:@SECLEVEL=0")
        assert done.returncode != 0 and "Cipher is (NONE)" in done.stdout


def test_a_protocol_that_is_not_spoken(secured):
    assert "no application protocol" in s_client(secured.http, "-alpn", "h2").stderr


def test_sessions_resume(secured, tmp_path):
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = tls_context(secured)
        context.minimum_version = context.maximum_version = version
        session, reused = None, []
        host, port = secured.http.rsplit(":", 1)
        for _ in range(2):
            with context.wrap_socket(socket.create_connection((host, int(port)), timeout=20), server_hostname=host, session=session) as sock:
                sock.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
                assert b"200 OK" in sock.recv(4096)
                session = sock.session
                reused.append(sock.session_reused)
        assert reused == [False, True], version


# ---- who is refused where clients are to show a certificate ----

def client_pairs(bin_dir, of, folder=None):
    """name: certificate and key, or None."""
    folder = folder or of.folder
    other = Authority(bin_dir, folder / "other")
    expired = of.authority.issue(f"expired-{folder.name}", "--valid", "1s")
    own = folder / "self.crt", folder / "self.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=me",
                    "-days", "1", "-out", own[0], "-keyout", own[1]], check=True, capture_output=True, timeout=30)
    wait_until(lambda: "(over)" in fermata(bin_dir, "cert", "show", expired[0]), "it has expired")
    return {"nobody": None, "self": own, "other": other.issue("stranger"), "expired": expired}


def test_only_who_is_of_the_authority_gets_in(bin_dir, mutual):
    good = mutual.authority.issue("good")
    assert ask(mutual, "GET", "/v2/models/digits", context=tls_context(mutual, good))[0] == 200
    text = [pathlib_bytes(path) for path in good]
    channel = grpc.secure_channel(mutual.grpc, grpc.ssl_channel_credentials(mutual.root, text[1], text[0]))
    assert channel.unary_unary("/inference.GRPCInferenceService/ServerLive")(b"", timeout=20) == b"\x08\x01"
    for name, pair in client_pairs(bin_dir, mutual).items():
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
            ask(mutual, "GET", "/v2/models/digits", context=tls_context(mutual, pair))
        keys = [pathlib_bytes(path) for path in pair] if pair else [None, None]
        refused = grpc.secure_channel(mutual.grpc, grpc.ssl_channel_credentials(mutual.root, keys[1], keys[0]))
        with pytest.raises(grpc.RpcError) as error:
            refused.unary_unary("/inference.GRPCInferenceService/ServerLive")(b"", timeout=5)
        assert error.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED), name
        refused.close()
    assert ask(mutual, "GET", "/v2/models/digits", context=tls_context(mutual, good))[0] == 200
    assert "tls_refused" in mutual.log()


def pathlib_bytes(path):
    with open(path, "rb") as file:
        return file.read()


# ---- our own clients ----

def test_our_clients(bin_dir, secured):
    where = ["--url", f"https://{secured.http}", "--api-key", secured.key]
    assert "digits" in fermata(bin_dir, "model", "status", "digits", *where, "--tls-ca", secured.authority.ca)
    assert "certificate is refused" in fermata(bin_dir, "model", "status", "digits", *where, code=1)
    for protocol, scheme, address in (("rest", "https", secured.http), ("grpc", "grpcs", secured.grpc)):
        done = subprocess.run([bin_dir / "fermata-load", "--protocol", protocol, "--address", f"{scheme}://{address}", "--tls-ca",
                               secured.authority.ca, "--api-key", secured.key, "--model", "digits", "--concurrency", "2", "--requests", "20", "--json"],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["total"]["outcomes"] == {"ok": 20}


def test_cluster_over_tls(bin_dir, secured):
    boss = fermata(bin_dir, "key", "new", "boss", "--scope", "admin", "--keys", secured.folder / "keys").splitlines()[0]
    wait_until(lambda: ask(secured, "POST", "/v2/repository/index", {}, {"x-api-key": boss})[0] == 200, "the key counts")
    words = ["cluster", "status", "--scheduler", secured.grpc, "--api-key", boss]
    assert "digits" in fermata(bin_dir, *words, "--tls-ca", secured.authority.ca)
    fermata(bin_dir, *words, code=1)


# ---- files that change ----

def serial(serve, port):
    """Of the certificate that is shown now."""
    host, number = getattr(serve, port).rsplit(":", 1)
    context = ssl.create_default_context(cafile=serve.authority.ca)
    if port == "grpc":
        context.set_alpn_protocols(["h2"])
    with context.wrap_socket(socket.create_connection((host, int(number)), timeout=20), server_hostname=host) as sock:
        return sock.getpeercert()["serialNumber"]


def replace(source, target):
    fresh = target.with_suffix(".fresh")
    shutil.copyfile(source, fresh)
    fresh.rename(target)


def test_certificates_change_under_traffic(secured):
    failures, done, stop = [], [0, 0], threading.Event()

    def by_rest():
        client = http_client(secured)
        while not stop.is_set():
            one(0, lambda: client.infer("digits", [seven(triton_http)], headers=dict(secured.headers)))

    def by_rest_anew():
        while not stop.is_set():
            one(0, lambda: ask(secured, "GET", "/v2/health/ready"))

    def by_grpc():
        client = grpc_client(secured)
        while not stop.is_set():
            one(1, lambda: client.infer("digits", [seven(triton)], headers=dict(secured.headers)))

    def by_grpc_anew():
        while not stop.is_set():
            one(1, lambda: grpc_client(secured).is_server_live())

    def one(which, call):
        try:
            call()
            done[which] += 1
        except Exception as error:  # whatever it is, it is told
            failures.append(repr(error))

    before = {port: serial(secured, port) for port in ("http", "grpc")}
    threads = [threading.Thread(target=run) for run in (by_rest, by_rest_anew, by_grpc, by_grpc_anew)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: min(done) > 20, "traffic")
        secured.key_file.write_text("no key\n")  # a bad file changes nothing
        wait_until(lambda: "tls_files_not_read" in secured.log(), "the bad file is told")
        cert, key = secured.authority.issue("gw2", "--role", "gateway")
        replace(key, secured.key_file)
        replace(cert, secured.cert_file)
        for port in before:
            wait_until(lambda: serial(secured, port) != before[port], f"the new certificate at {port}")
        count = list(done)
        wait_until(lambda: min(now - then for now, then in zip(done, count)) > 20, "traffic goes on")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == []


# ---- between services ----

@pytest.fixture(scope="module")
def proven(bin_dir, tmp_path_factory):
    """Services started by hand that prove to each other who they are."""
    folder = tmp_path_factory.mktemp("proven")
    cluster = Cluster(bin_dir, folder)
    cluster.authority = Authority(bin_dir, folder / "certs")
    cluster.pairs = {role: cluster.authority.issue(role, "--role", role) for role in ("scheduler", "gateway", "worker", "client", "admin")}
    cluster.at = cluster.scheduler(*as_role(cluster, "scheduler"))
    cluster.front = cluster.gateway(cluster.at, *as_role(cluster, "gateway"))
    cluster.hand = cluster.worker(cluster.at, *as_role(cluster, "worker"))
    wait_until(lambda: is_ready(cluster.front.http), "the model is served")
    yield cluster
    assert cluster.stop() == [0, 0, 0]


def is_ready(address):
    return request(address, "GET", "/v2/models/digits/ready").status == 200


def as_role(cluster, role, authority=None):
    cert, key = cluster.pairs[role]
    return ["--cluster-ca", (authority or cluster.authority).ca, "--cluster-cert", cert, "--cluster-key", key]


def admin(bin_dir, cluster, role, code):
    cert, key = cluster.pairs[role]
    return fermata(bin_dir, "cluster", "status", "--scheduler", cluster.at.grpc, "--tls-ca", cluster.authority.ca, "--tls-cert", cert,
                   "--tls-key", key, code=code)


@pytest.mark.data_plane
def test_services_with_certificates_serve(proven):
    answer = request(proven.front.http, "POST", INFER, json.dumps(tensor_request(digit_tensor())))
    assert answer.status == 200


ADMIN_CALLS = ["GetState", "SetPolicy", "DrainWorker", "Plan"]
ROLES = ["gateway", "scheduler", "worker", "client", "admin"]


def call_admin(cluster, call, pair, ca=None):
    """The code that an empty request gets."""
    text = [pathlib_bytes(path) for path in pair] if pair else [None, None]
    with grpc.secure_channel(cluster.at.grpc, grpc.ssl_channel_credentials((ca or cluster.authority.ca).read_bytes(), text[1], text[0])) as channel:
        try:
            channel.unary_unary(f"/fermata.admin.v1.Admin/{call}")(b"", timeout=10)
            return grpc.StatusCode.OK
        except grpc.RpcError as error:
            return error.code()


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("call", ADMIN_CALLS)
def test_each_admin_call_by_each_role(proven, call, role):
    code = call_admin(proven, call, proven.pairs[role])
    if role == "admin":
        assert code in (grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION)
    else:
        assert code == grpc.StatusCode.PERMISSION_DENIED


def test_the_table_of_admin_calls_is_whole():
    source = (ROOT / "services" / "scheduler" / "admin" / "admin.c").read_text()
    assert sorted(re.findall(r'"/fermata\.admin\.v1\.Admin/(\w+)"', source)) == sorted(ADMIN_CALLS)


def test_no_admin_call_by_who_is_not_of_the_authority(bin_dir, proven):
    for name, pair in client_pairs(bin_dir, proven).items():
        for call in ADMIN_CALLS:
            assert call_admin(proven, call, pair) in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED), (name, call)


@pytest.mark.parametrize("service", ["at", "front", "hand"])
def test_no_metrics_for_who_is_not_of_the_authority(bin_dir, proven, tmp_path, service):
    address = getattr(proven, service).ready.get("metrics") or proven.at.http
    for pair in client_pairs(bin_dir, proven, tmp_path).values():
        with pytest.raises(NO_METRICS):
            ask_metrics(proven, address, pair)
    for version in ("-tls1", "-tls1_1"):
        done = s_client(address, "-CAfile", proven.authority.ca, version, "-cipher", "ALL:@SECLEVEL=0")
        assert done.returncode != 0 and "Cipher is (NONE)" in done.stdout


def test_admin_calls_are_of_the_role_admin(bin_dir, proven):
    assert "digits" in admin(bin_dir, proven, "admin", 0)
    for role in ("gateway", "worker", "scheduler", "client"):
        assert f"this call is for the role admin; the certificate shown is of the role {role}" in admin(bin_dir, proven, role, 1)
    fermata(bin_dir, "cluster", "status", "--scheduler", proven.at.grpc, code=1)


@pytest.mark.parametrize("path,speaks", [("Gateway", "gateway"), ("Worker", "worker")])
def test_nobody_speaks_for_another_role(proven, path, speaks):
    for role in proven.pairs:
        cert, key = map(pathlib_bytes, proven.pairs[role])
        channel = grpc.secure_channel(proven.at.grpc, grpc.ssl_channel_credentials(proven.authority.ca.read_bytes(), key, cert))
        stream = channel.stream_stream(f"/fermata.control.v1.Control/{path}")(iter([b"\xff"]), timeout=20)
        with pytest.raises(grpc.RpcError) as error:
            next(stream)
        denied = error.value.code() == grpc.StatusCode.PERMISSION_DENIED
        assert denied == (role != speaks), (role, error.value)
        assert not denied or f"the certificate shown is of the role {role}" in error.value.details()
        channel.close()


NO_METRICS = (ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)


def ask_metrics(cluster, address, pair):
    """The status; raises one of NO_METRICS where nobody answers."""
    host, port = address.rsplit(":", 1)
    connection = http.client.HTTPSConnection(host, int(port), timeout=20, context=tls_context(cluster, pair))
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("service", ["at", "front", "hand"])
def test_metrics_want_a_certificate_of_the_cluster(proven, service):
    address = getattr(proven, service).ready.get("metrics") or proven.at.http
    assert ask_metrics(proven, address, proven.pairs["client"]) == 200
    with pytest.raises(NO_METRICS):
        ask_metrics(proven, address, None)


def as_both(cluster, worker="worker"):
    cert, key = cluster.pairs[worker]
    return [*as_role(cluster, "gateway"), "--worker-cert", cert, "--worker-key", key]


@pytest.mark.data_plane
def test_two_of_one_process_join_services_with_certificates(bin_dir, proven, tmp_path):
    """Each is a gateway and a worker; what comes to the one without models goes to the other."""
    (tmp_path / "none").mkdir()
    other = Cluster(bin_dir, tmp_path)
    scheduler = other.scheduler(*as_role(proven, "scheduler"))
    joining = ["--join", scheduler.grpc, "--data-address", ANY_PORT, *as_both(proven)]
    having = Serve(bin_dir, tmp_path / "having.log", *joining, models=proven.models)
    without = Serve(bin_dir, tmp_path / "without.log", *joining, models=tmp_path / "none")
    for serve in (having, without):
        wait_until(lambda at=serve.http: is_ready(at), "the model is served")
        assert request(serve.http, "POST", INFER, json.dumps(tensor_request(digit_tensor()))).status == 200
        metrics = serve.ready["workers"][0]["metrics"]
        assert ask_metrics(proven, metrics, proven.pairs["client"]) == 200
        with pytest.raises(NO_METRICS):
            ask_metrics(proven, metrics, None)
    assert [having.stop(), without.stop(), *other.stop()] == [0, 0, 0]


def test_one_process_that_serves_alone_shows_its_metrics_with_certificates(bin_dir, proven, tmp_path):
    serve = Serve(bin_dir, tmp_path / "serve.log", *as_role(proven, "gateway"), models=proven.models)
    assert ask_metrics(proven, serve.ready["scheduler"]["http"], proven.pairs["client"]) == 200
    with pytest.raises(NO_METRICS):
        ask_metrics(proven, serve.ready["scheduler"]["http"], None)
    assert request(serve.http, "POST", INFER, json.dumps(tensor_request(digit_tensor()))).status == 200
    assert serve.stop() == 0


def test_one_process_that_joins_is_a_worker_by_a_certificate_of_its_own(bin_dir, proven, tmp_path):
    joining = ["--join", proven.at.grpc, "--data-address", ANY_PORT, "--models", proven.models]
    for flags, said in ((as_role(proven, "gateway"), "--worker-cert and --worker-key, too"),
                        (as_both(proven)[6:], "--worker-cert and --worker-key go with --join and --cluster-ca")):
        assert said in fermata(bin_dir, "serve", *joining, *flags, code=2)
    before = proven.at.log().count("role=gateway wanted=worker")
    wrong = Process([bin_dir / "fermata", "serve", "--json", "--http-address", ANY_PORT, "--grpc-address", ANY_PORT, "--metrics-address",
                     ANY_PORT, *joining, *as_both(proven, worker="gateway")], tmp_path / "wrong.log")
    wait_until(lambda: proven.at.log().count("role=gateway wanted=worker") > before, "the scheduler tells it")
    assert wrong.stop() == 0


def test_who_is_not_the_scheduler_is_not_spoken_to(bin_dir, proven, tmp_path):
    """A gateway that has been lured to another service of the same authority, and one that shows nothing."""
    other = Cluster(bin_dir, tmp_path)
    other.pairs, other.authority = proven.pairs, proven.authority
    false = other.scheduler(*as_role(proven, "worker"))
    lured = other.gateway(false, *as_role(proven, "gateway"))
    plain = other.gateway(proven.at)
    document = json.dumps(tensor_request(digit_tensor()))
    for gateway in (lured, plain):
        wait_until(lambda: b"no connection to the scheduler" in request(gateway.http, "POST", INFER, document).body, "it says so")
        assert not is_ready(gateway.http)
    assert "peer_joined kind=gateway" not in false.log()
    assert other.stop() == [0, 0, 0]


def test_half_of_the_flags_is_no_start(bin_dir, proven):
    for program, more in (("scheduler", []), ("gateway", ["--data-address", ANY_PORT]), ("worker", ["--models", proven.models])):
        done = subprocess.run([bin_dir / f"fermata-{program}", "--cluster-ca", proven.authority.ca, *more], capture_output=True, text=True,
                              timeout=60)
        assert done.returncode != 0 and "--cluster-cert is missing" in done.stderr, done.stderr


@pytest.mark.data_plane
def test_up_with_tls_needs_nothing_else(bin_dir, tmp_path):
    certs, models = tmp_path / "certs", patient_models(tmp_path)
    for _ in range(2):  # it goes on with what it has made
        up = Process([bin_dir / "fermata", "up", "--models", models, "--any-port", "--tls", "--tls-dir", certs, "--log-dir", tmp_path],
                     tmp_path / "up.log")
        lines = []
        up.wait_ready(lambda line: lines.append(line) or line.startswith("Ctrl-C"))
        told = "\n".join(lines)
        line = next(line for line in lines if line.startswith("  curl"))
        done = subprocess.run(line.split(), capture_output=True, text=True, timeout=30)
        assert json.loads(done.stdout)["name"] == "digits", done.stderr
        address = re.search(r'grpc.InferenceServerClient\("([^"]+)", ssl=True, root_certificates="([^"]+)"', told)
        assert is_seven(triton.InferenceServerClient(address[1], ssl=True, root_certificates=address[2]).infer("digits", [seven(triton)]))
        line = next(line for line in lines if line.startswith("  fermata cluster"))
        assert "digits" in fermata(bin_dir, *line.split()[1:])
        assert "http://" not in told
        assert up.stop() == 0
    assert {path.stat().st_mode & 0o777 for path in certs.glob("*.key")} == {0o600}


# ---- the command line ----

def test_cert_says_what_it_has_made_and_overwrites_nothing(bin_dir, tmp_path):
    authority = Authority(bin_dir, tmp_path / "certs")
    cert, key = authority.issue("w1", "--role", "worker", "--host", "w1.example", "--host", "10.0.0.7", "--valid", "48h")
    assert key.stat().st_mode & 0o777 == 0o600 and authority.folder.stat().st_mode & 0o777 == 0o700
    shown = fermata(bin_dir, "cert", "show", cert)
    for words in ("name         w1\n", "role         worker\n", "hosts        worker.fermata, w1.example, 10.0.0.7\n",
                  "signed by    fermata-ca\n"):
        assert words in shown
    subprocess.run(["openssl", "verify", "-CAfile", authority.ca, cert], check=True, capture_output=True, timeout=20)
    before = key.read_text()
    assert "is there already" in fermata(bin_dir, "cert", "issue", "w1", "--dir", authority.folder, code=1)
    assert "is there already" in fermata(bin_dir, "cert", "init", "--dir", authority.folder, code=1)
    assert key.read_text() == before
    assert "is no role" in fermata(bin_dir, "cert", "issue", "x", "--role", "king", "--dir", authority.folder, code=1)
    assert "no name of a certificate" in fermata(bin_dir, "cert", "issue", "../x", "--dir", authority.folder, code=1)
    assert "is no certificate" in fermata(bin_dir, "cert", "show", key, code=1)
    assert "say `init`" in fermata(bin_dir, "cert", "issue", code=2)


@pytest.mark.parametrize("flags,said", [
    (["--tls-cert", "CERT"], "the key is missing"),
    (["--tls-client-ca", "CA"], "needs a certificate"),
    (["--tls-cert", "CERT", "--tls-key", "OTHER"], "is no private key of the certificate"),
    (["--tls-cert", "/nowhere", "--tls-key", "KEY"], "cannot read the certificate /nowhere"),
])
def test_a_start_that_cannot_be_secure_is_none(bin_dir, tmp_path, flags, said):
    authority = Authority(bin_dir, tmp_path / "certs")
    cert, key = authority.issue("gw", "--role", "gateway")
    names = {"CERT": cert, "KEY": key, "CA": authority.ca, "OTHER": authority.issue("other", "--role", "gateway")[1]}
    done = subprocess.run([bin_dir / "fermata-gateway", "--http-address", ANY_PORT, "--grpc-address", ANY_PORT, "--metrics-address",
                           ANY_PORT, "--data-address", ANY_PORT, *[str(names.get(flag, flag)) for flag in flags]],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and said in done.stderr, done.stderr
