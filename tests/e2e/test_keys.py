"""API keys: who may do what by REST, gRPC and streams, with stock clients; keys that come and go while it serves."""

import json
import os
import queue
import re
import subprocess

import pytest
import tritonclient.grpc as triton
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from client import INFER, digit_tensor, request, tensor_request
from system import ANY_PORT, Process, Serve, Up, patient_models, wait_until


def key(bin_dir, file, *words):
    done = subprocess.run([bin_dir / "fermata", "key", "--keys", file, *map(str, words)], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def keyed(bin_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("keyed")
    keys = folder / "keys"
    flags = {"digits": ["--scope", "infer:digits"], "other": ["--scope", "infer:other"], "reader": ["--scope", "read"],
             "boss": ["--scope", "admin", "--scope", "infer"], "slow": ["--limits", "rate=0.001,burst=2"]}
    running = {name: key(bin_dir, keys, "new", name, *words) for name, words in flags.items()}
    serve = Serve(bin_dir, folder / "serve.log", "--keys", keys, "--model-control", "explicit", "--load-model", "digits",
                  models=patient_models(folder))
    serve.keys, serve.file, serve.grpc = running, keys, serve.gateways[0]["grpc"]
    yield serve
    assert serve.stop() == 0
    for text in running.values():
        assert text not in serve.log(), "a key is a secret"


def ask(serve, name, method, path, document=None):
    headers = {"Authorization": f"Bearer {serve.keys.get(name, name)}"} if name else {}
    return request(serve.http, method, path, document and json.dumps(document), headers)


def seven(module=triton):
    tensor = module.InferInput("image", [1, 1, 8, 8], "FP32")
    tensor.set_data_from_numpy(digit_tensor().reshape(1, 1, 8, 8))
    return tensor


def infer_by_grpc(serve, name):
    client = triton.InferenceServerClient(serve.grpc)
    return client.infer("digits", [seven()], headers={"authorization": f"Bearer {serve.keys.get(name, name)}"} if name else None)


REQUEST = tensor_request(digit_tensor())
TABLE = [  # method, path, document, then what nobody, a stranger, digits, other, reader and boss are answered
    ("GET", "/v2/health/live", None, [200] * 6),
    ("GET", "/v2/health/ready", None, [200] * 6),
    ("GET", "/v2", None, [200] * 6),
    ("POST", INFER, REQUEST, [401, 401, 200, 403, 403, 200]),
    ("GET", "/v2/models/digits", None, [401, 401, 200, 403, 200, 200]),
    ("GET", "/v2/models/digits/config", None, [401, 401, 200, 403, 200, 200]),
    ("GET", "/v2/models/digits/ready", None, [401, 401, 200, 403, 200, 200]),
    ("GET", "/v2/models/digits/stats", None, [401, 401, 200, 403, 200, 200]),
    ("GET", "/v2/models/stats", None, [401, 401, 403, 403, 200, 200]),
    ("POST", "/v2/repository/index", None, [401, 401, 403, 403, 200, 200]),
    ("POST", "/v2/repository/models/digits/load", None, [401, 401, 403, 403, 403, 200]),
    ("POST", "/v2/models/nothing/infer", REQUEST, [401, 401, 403, 403, 403, 404]),
]


@pytest.mark.parametrize("method,path,document,expected", TABLE)
def test_each_may_what_his_key_says(keyed, method, path, document, expected):
    who = [None, "fmk_guess", "digits", "other", "reader", "boss"]
    assert [ask(keyed, name, method, path, document).status for name in who] == expected


def test_strangers_learn_nothing(keyed):
    answers = [ask(keyed, name, "GET", "/v2/models/digits") for name in (None, "fmk_guess", "", "x" * 5000)]
    answers += [request(keyed.http, "GET", "/v2/models/nothing", None, {"x-api-key": "y"}),
                request(keyed.http, "GET", "/v2/models/digits", None, {"Authorization": "Basic YTpi"})]
    assert {(answer.status, answer.body) for answer in answers} == {(401, answers[0].body)}
    assert answers[0].headers["WWW-Authenticate"] == "Bearer"


def test_grpc(keyed):
    assert infer_by_grpc(keyed, "digits").as_numpy("scores").argmax() == 7
    for name, code in ((None, "UNAUTHENTICATED"), ("fmk_guess", "UNAUTHENTICATED"), ("other", "PERMISSION_DENIED"),
                       ("reader", "PERMISSION_DENIED")):
        with pytest.raises(InferenceServerException) as refused:
            infer_by_grpc(keyed, name)
        assert code in refused.value.status(), name
    client = triton.InferenceServerClient(keyed.grpc)
    assert client.is_server_ready()
    with pytest.raises(InferenceServerException, match="API key"):
        client.get_model_repository_index()
    with pytest.raises(InferenceServerException, match="scope admin"):
        client.unload_model("digits", headers={"x-api-key": keyed.keys["digits"]})
    assert client.get_model_metadata("digits", headers={"x-api-key": keyed.keys["digits"]}).name == "digits"


def test_http_client(keyed):
    client = triton_http.InferenceServerClient(keyed.http)
    headers = {"Authorization": f"Bearer {keyed.keys['digits']}"}
    assert client.infer("digits", [seven(triton_http)], headers=headers).as_numpy("scores").argmax() == 7
    with pytest.raises(InferenceServerException, match="API key"):
        client.infer("digits", [seven(triton_http)])


def stream_of(serve, text, got):
    client = triton.InferenceServerClient(serve.grpc)
    client.start_stream(lambda result, error: got.put(error or result), headers={"authorization": f"Bearer {text}"})
    return client


def test_a_stream_ends_with_its_key(keyed, bin_dir):
    text = key(bin_dir, keyed.file, "new", "passing", "--scope", "infer")
    wait_until(lambda: ask(keyed, text, "GET", "/v2/models/digits").status == 200, "the key counts")
    got = queue.Queue()
    client = stream_of(keyed, text, got)
    client.async_stream_infer("digits", [seven()])
    assert got.get(timeout=20).as_numpy("scores").argmax() == 7
    key(bin_dir, keyed.file, "revoke", "passing")
    wait_until(lambda: ask(keyed, text, "GET", "/v2/models/digits").status == 401, "the key counts no more")
    client.async_stream_infer("digits", [seven()])
    assert "API key" in str(got.get(timeout=20))
    client.stop_stream()


def test_a_stranger_opens_no_stream(keyed):
    got = queue.Queue()
    client = stream_of(keyed, "fmk_guess", got)
    assert "UNAUTHENTICATED" in str(got.get(timeout=20))
    client.stop_stream()


def test_ones_own_limit_is_no_overload(keyed):
    answers = [ask(keyed, "slow", "POST", INFER, REQUEST) for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert int(answers[2].headers["Retry-After"]) > 600 and "this key" in answers[2].error()
    with pytest.raises(InferenceServerException) as refused:
        infer_by_grpc(keyed, "slow")
    assert "RESOURCE_EXHAUSTED" in refused.value.status()
    assert ask(keyed, "digits", "POST", INFER, REQUEST).status == 200


def test_a_broken_file_changes_nothing(keyed, bin_dir):
    whole = keyed.file.read_text()
    keyed.file.write_text(whole + "nonsense\n")
    wait_until(lambda: "keys_not_read" in keyed.log(), "the file was looked at")
    assert ask(keyed, "digits", "POST", INFER, REQUEST).status == 200
    keyed.file.write_text(whole)
    assert re.search(r"keys_not_read reason=\"\S+/keys: line \d+: 1 fields", keyed.log())


def test_refusals_and_admin_actions_are_told(keyed):
    ask(keyed, "fmk_guess", "POST", INFER, REQUEST)
    assert ask(keyed, "boss", "POST", "/v2/repository/models/digits/load").status == 200
    assert re.search(r"audit key=boss peer=127\.0\.0\.1:\d+ action=POST target=/v2/repository/models/digits/load", keyed.log())
    wait_until(lambda: "access_refused" in keyed.log(), "a refusal is logged")
    metrics = request(keyed.gateways[0]["metrics"], "GET", "/metrics").body.decode()
    assert re.search(r'fermata_gateway_access_refused_total\{reason="unknown_key"\} \d', metrics)


@pytest.mark.parametrize("protocol,address", [("rest", "http"), ("grpc", "grpc")])
def test_our_own_clients_show_a_key(keyed, bin_dir, protocol, address):
    command = [bin_dir / "fermata-load", "--model", "digits", "--protocol", protocol, "--address", keyed.gateways[0][address],
               "--requests", "20", "--concurrency", "2"]
    environment = os.environ | {"FERMATA_API_KEY": keyed.keys["digits"]}
    assert subprocess.run(command, env=environment, capture_output=True, timeout=60).returncode == 0
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 1 and "API key" in refused.stderr


def test_admin_calls_want_an_admin(keyed, bin_dir):
    command = [bin_dir / "fermata", "cluster", "status", "--scheduler", keyed.grpc]
    for name, code, said in ((None, 1, "API key"), ("digits", 1, "lacks the scope admin"), ("boss", 0, "digits")):
        done = subprocess.run([*command, *(["--api-key", keyed.keys[name]] if name else [])], capture_output=True, text=True, timeout=60)
        assert done.returncode == code and said in done.stdout + done.stderr, (name, done)


def test_fermata_model_shows_a_key(keyed, bin_dir):
    command = [bin_dir / "fermata", "model", "status", "digits", "--url", keyed.http, "--api-key"]
    assert subprocess.run([*command, keyed.keys["digits"]], capture_output=True, timeout=60).returncode == 0
    for text, reason in (("fmk_guess", "a valid API key is wanted"), ("two words", "an API key is up to")):
        refused = subprocess.run([*command, text], capture_output=True, text=True, timeout=60)
        assert refused.returncode == 1 and reason in refused.stderr


def test_up_hands_keys_to_its_gateways(bin_dir, tmp_path):
    keys = tmp_path / "keys"
    text = key(bin_dir, keys, "new", "digits", "--scope", "infer:digits")
    up = Up(bin_dir, tmp_path / "up.log", "--keys", keys, "--gateways", 2, models=patient_models(tmp_path))
    assert {model["state"] for model in up.ready["models"]} == {"ready"}
    for gateway in up.gateways:
        assert request(gateway["http"], "POST", INFER, json.dumps(REQUEST)).status == 401
        assert request(gateway["http"], "POST", INFER, json.dumps(REQUEST), {"x-api-key": text}).status == 200
    assert up.stop() == 0


@pytest.mark.parametrize("command", [["up", "--any-port"], ["serve", "--http-address", ANY_PORT, "--grpc-address", ANY_PORT,
                                                              "--metrics-address", ANY_PORT]])
def test_the_first_words_say_how_to_come_by_a_key(bin_dir, tmp_path, command):
    keys = tmp_path / "keys"
    key(bin_dir, keys, "new", "somebody")
    process = Process([bin_dir / "fermata", *command, "--keys", keys, "--models", patient_models(tmp_path)], tmp_path / "log")
    process.wait_ready(lambda line: line == f"  KEY=$(fermata key new NAME --keys {keys})")
    process.wait_ready(lambda line: line.startswith('  curl -s -H "Authorization: Bearer $KEY" http://127.0.0.1:'))
    assert process.stop() == 0


@pytest.mark.parametrize("text,reason", [(None, "No such file"), ("a b", "line 1: 2 fields")])
def test_no_keys_no_start(bin_dir, tmp_path, text, reason):
    file = tmp_path / "keys"
    if text:
        file.write_text(text)
    done = subprocess.run([bin_dir / "fermata", "serve", "--models", patient_models(tmp_path), "--keys", file, "--http-address",
                           ANY_PORT, "--grpc-address", ANY_PORT, "--metrics-address", ANY_PORT],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and reason in done.stderr, done.stderr
