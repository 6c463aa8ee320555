"""Tensors in shared memory of clients (--client-shared-memory), with stock clients and as nobody should ask."""

import contextlib
import csv
import itertools
import os
import pathlib
import queue
import socket

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

from client import INFER, bytes_element, digit_tensor, get, good, pictures, post, request
from system import Serve, Up, patient_models
from test_keys import key
from test_perf_analyzer import analyze

ROW_BYTES, CLASSES = 64 * 4, 10
FLAG = "--client-shared-memory"
names = itertools.count()


@pytest.fixture(scope="module", params=[*(pytest.param(name, marks=pytest.mark.one_process) for name in ("serve", "loops")), "up"])
def near(request, bin_dir, tmp_path_factory):
    """A server whose clients may share memory: on one loop, on three, and as services."""
    folder = tmp_path_factory.mktemp("near")
    models, log = patient_models(folder), folder / "log"
    if request.param == "up":
        running = Up(bin_dir, log, f"--gateway-flags={FLAG}", models=models)
    else:
        running = Serve(bin_dir, log, FLAG, *(["--gateway-threads", 3] if request.param == "loops" else []), models=models)
    yield running
    assert running.stop() == 0, running.log()[-4000:]


@contextlib.contextmanager
def shared(length):
    """An object of that many bytes; its key."""
    name = f"fermata-e2e-{os.getpid()}-{next(names)}"
    path = pathlib.Path("/dev/shm") / name
    path.write_bytes(bytes(length))
    try:
        yield "/" + name, path
    finally:
        path.unlink(missing_ok=True)


def client_of(running, protocol):
    return getattr(tritonclient, protocol).InferenceServerClient(getattr(running, protocol))


@pytest.mark.data_plane
@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("rows", [1, 5])
def test_a_stock_client(near, protocol, rows):
    """As Triton's own examples do it: input and output in regions, twice, and gone then."""
    module, client = getattr(tritonclient, protocol), client_of(near, protocol)
    tensors = np.concatenate([digit_tensor(str(label)) for label in range(rows)])
    key_in, key_out = (f"/fermata-e2e-{os.getpid()}-{next(names)}" for _ in range(2))
    handle_in = shm.create_shared_memory_region("in", key_in, tensors.nbytes)
    handle_out = shm.create_shared_memory_region("out", key_out, 2 * rows * CLASSES * 4)
    try:
        shm.set_shared_memory_region(handle_in, [tensors])
        client.register_system_shared_memory("in", key_in, tensors.nbytes)
        client.register_system_shared_memory("out", key_out, 2 * rows * CLASSES * 4)
        image = module.InferInput("image", tensors.shape, "FP32")
        image.set_shared_memory("in", tensors.nbytes)
        scores = module.InferRequestedOutput(client_output(near))
        for at in (0, rows * CLASSES * 4):
            scores.set_shared_memory("out", rows * CLASSES * 4, offset=at)
            output = client.infer("digits", [image], outputs=[scores]).get_output(client_output(near))
            assert set(output) == {"name", "datatype", "shape"} if protocol == "http" else list(output.shape) == [rows, CLASSES]
            got = shm.get_contents_as_numpy(handle_out, np.float32, [rows, CLASSES], offset=at)
            assert list(np.argmax(got, axis=1)) == list(range(rows))
        listed = client.get_system_shared_memory_status()
        assert {one["name"] for one in listed} == {"in", "out"} if protocol == "http" else set(listed.regions) == {"in", "out"}
        client.unregister_system_shared_memory("in")
        with pytest.raises(InferenceServerException, match="Unable to find shared memory region: 'in'"):
            client.infer("digits", [image], outputs=[scores])
        client.unregister_system_shared_memory()
        assert not (client.get_system_shared_memory_status() if protocol == "http" else client.get_system_shared_memory_status().regions)
        extensions = client.get_server_metadata()
        assert "system_shared_memory" in (extensions["extensions"] if protocol == "http" else extensions.extensions)
    finally:
        client.unregister_system_shared_memory()
        client.close()
        shm.destroy_shared_memory_region(handle_in)
        shm.destroy_shared_memory_region(handle_out)


def client_output(running):
    return get(running.http, "/v2/models/digits").json()["outputs"][0]["name"]


@pytest.mark.data_plane
def test_a_stream(near):
    """Inputs of a stream's requests are read when each is; the answers come in order."""
    client, answers = client_of(near, "grpc"), queue.Queue()
    with shared(ROW_BYTES) as (key_in, path), shared(CLASSES * 4) as (key_out, out):
        path.write_bytes(digit_tensor("4").tobytes())
        client.register_system_shared_memory("in", key_in, ROW_BYTES)
        client.register_system_shared_memory("out", key_out, CLASSES * 4)
        image = tritonclient.grpc.InferInput("image", [1, 1, 8, 8], "FP32")
        image.set_shared_memory("in", ROW_BYTES)
        scores = tritonclient.grpc.InferRequestedOutput(client_output(near))
        scores.set_shared_memory("out", CLASSES * 4)
        client.start_stream(lambda result, error: answers.put((result, error)))
        for _ in range(3):
            client.async_stream_infer("digits", [image], outputs=[scores])
        for _ in range(3):
            result, error = answers.get(timeout=60)
            assert error is None and result.get_response().raw_output_contents == [b""]
        client.stop_stream()
        assert np.argmax(np.frombuffer(out.read_bytes(), np.float32)) == 4
        client.unregister_system_shared_memory()
    client.close()


@pytest.mark.data_plane
def test_pictures_and_classes_in_shared_memory(near):
    """BYTES elements, length first, there and back."""
    path, label = pictures()[0]
    framed = bytes_element(path.read_bytes())
    with shared(4096 + len(framed)) as (object_key, file):
        with file.open("r+b") as out:
            out.seek(4096)
            out.write(framed)
        register(near, "r", object_key, file.stat().st_size)
        place = {"shared_memory_region": "r", "shared_memory_offset": 4096, "shared_memory_byte_size": len(framed)}
        answer = post(near.http, INFER, {
            "inputs": [{"name": "image", "shape": [1, 1], "datatype": "BYTES", "parameters": place}],
            "outputs": [{"name": client_output(near), "parameters": {"classification": 1, "shared_memory_region": "r", "shared_memory_byte_size": 200}}]})
        assert answer.status == 200, answer
        output = answer.json()["outputs"][0]
        assert output["datatype"] == "BYTES" and "data" not in output
        got = file.read_bytes()
        element = got[4:4 + int.from_bytes(got[:4], "little")]
        assert element.decode().rsplit(":", 1)[1] == label
        unregister(near)


def register(running, name, object_key, length, offset=0, headers=None):
    return post(running.http, f"/v2/systemsharedmemory/region/{name}/register", {"key": object_key, "offset": offset, "byte_size": length}, headers)


def unregister(running, headers=None):
    assert request(running.http, "POST", "/v2/systemsharedmemory/unregister", "", headers).status == 200


def infer_in(running, **place):
    parameters = {f"shared_memory_{name}": value for name, value in place.items()}
    return post(running.http, INFER, {"inputs": [{"name": "image", "shape": [1, 1, 8, 8], "datatype": "FP32", "parameters": parameters}]})


def test_registrations_that_are_refused(near):
    with shared(100) as (object_key, path):
        table = [
            ("/etc/passwd", 8, 0, "is no name of an object"),
            ("/../etc/passwd", 8, 0, "is no name of an object"),
            ("..", 8, 0, "is no name of an object"),
            ("", 8, 0, "is no name of an object"),
            (object_key + "/", 8, 0, "is no name of an object"),
            ("/fermata-is-not-there", 8, 0, "No such file"),
            (object_key, 0, 0, "byte_size of 0"),
            (object_key, 101, 0, "beyond the 100 bytes"),
            (object_key, 1, 100, "beyond the 100 bytes"),
            (object_key, 2**64 - 1, 2, "beyond the 100 bytes"),
            (object_key, 2**64, 0, "'byte_size'"),
            (object_key, -1, 0, "'byte_size'"),
            (object_key, "8", 0, "byte_size"),
            (7, 8, 0, "'key'"),
        ]
        for which, length, offset, says in table:
            answer = register(near, "bad", which, length, offset)
            assert answer.status == 400 and says in answer.error(), (which, length, offset, answer)
        assert register(near, "r", object_key, 100).status == 200
        answer = register(near, "r", object_key, 100)
        assert answer.status == 400 and "already in manager" in answer.error()
        path.unlink()
        os.mkfifo(path)
        answer = register(near, "pipe", object_key, 8)
        assert answer.status == 400 and "is no shared memory object" in answer.error()
        path.unlink()
        path.symlink_to("/etc/passwd")
        answer = register(near, "link", object_key, 8)
        assert answer.status == 400 and "cannot open" in answer.error()
        answer = get(near.http, "/v2/systemsharedmemory/region/nothing/status")
        assert answer.status == 404 and "Unable to find system shared memory region: 'nothing'" in answer.error()
        assert [one["name"] for one in get(near.http, "/v2/systemsharedmemory/status").json()] == ["r"]
        unregister(near)
    good(near.http)


def test_requests_that_are_refused(near):
    with shared(ROW_BYTES) as (object_key, path):
        assert register(near, "r", object_key, ROW_BYTES).status == 200
        table = [
            ({"region": "q", "byte_size": ROW_BYTES}, "Unable to find shared memory region: 'q'"),
            ({"region": "r", "byte_size": ROW_BYTES, "offset": 1}, f"beyond the {ROW_BYTES} of"),
            ({"region": "r", "byte_size": ROW_BYTES, "offset": 2**64 - 1}, "beyond"),
            ({"region": "r", "byte_size": ROW_BYTES - 4}, f"has {ROW_BYTES - 4} bytes"),
            ({"region": "r", "byte_size": 0}, "at least 1"),
            ({"region": "r"}, "needs a 'shared_memory_byte_size'"),
            ({"byte_size": ROW_BYTES}, "no 'shared_memory_region'"),
        ]
        for place, says in table:
            answer = infer_in(near, **place)
            assert answer.status == 400 and says in answer.error(), (place, answer)
        assert infer_in(near, region="r", byte_size=ROW_BYTES).status == 200
        os.truncate(path, ROW_BYTES // 2)
        answer = infer_in(near, region="r", byte_size=ROW_BYTES)
        assert answer.status == 400 and "has become shorter since" in answer.error()
        unregister(near)
    good(near.http)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_it_must_be_asked_for(up, protocol):
    client, module = client_of(up, protocol), getattr(tritonclient, protocol)
    image = module.InferInput("image", [1, 1, 8, 8], "FP32")
    image.set_shared_memory("r", ROW_BYTES)
    for call in (lambda: client.register_system_shared_memory("r", "/r", 64), client.get_system_shared_memory_status,
                 client.unregister_system_shared_memory, lambda: client.infer("digits", [image])):
        with pytest.raises(InferenceServerException, match=FLAG) as refused:
            call()
        assert refused.value.status() in ("501", "StatusCode.UNIMPLEMENTED")
    metadata = client.get_server_metadata()
    assert "system_shared_memory" not in (metadata["extensions"] if protocol == "http" else metadata.extensions)
    client.close()


def own_address():
    """One of this host that is not loopback; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        return probe.getsockname()[0]


def test_only_by_a_loopback_address(bin_dir, tmp_path):
    address = own_address()
    if not address or address.startswith("127."):
        pytest.skip("this host has no other address")
    serve = Serve(bin_dir, tmp_path / "log", FLAG, "--insecure", f"--http-address={address}:0", models=patient_models(tmp_path))
    with shared(ROW_BYTES) as (object_key, _):
        answer = register(serve, "r", object_key, ROW_BYTES)
        assert answer.status == 403 and "loopback" in answer.error()
        client = client_of(serve, "grpc")
        client.register_system_shared_memory("r", object_key, ROW_BYTES)
        client.close()
        answer = infer_in(serve, region="r", byte_size=ROW_BYTES)
        assert answer.status == 403 and "loopback" in answer.error()
    good(serve.http)
    assert serve.stop() == 0


def test_regions_are_of_the_key_that_made_them(bin_dir, tmp_path):
    keys = tmp_path / "keys"
    anna, bert, reader = (key(bin_dir, keys, "new", name, "--scope", scope) for name, scope in
                          (("anna", "infer:digits"), ("bert", "infer"), ("reader", "read")))
    serve = Serve(bin_dir, tmp_path / "log", FLAG, "--keys", keys, models=patient_models(tmp_path))

    def of(text):
        return {"Authorization": f"Bearer {text}"}

    with shared(ROW_BYTES) as (object_key, _):
        assert register(serve, "r", object_key, ROW_BYTES).status == 401
        assert register(serve, "r", object_key, ROW_BYTES, headers=of(reader)).status == 403
        assert register(serve, "r", object_key, ROW_BYTES, headers=of(anna)).status == 200
        assert request(serve.http, "GET", "/v2/systemsharedmemory/status", None, of(bert)).json() == []
        place = {"shared_memory_region": "r", "shared_memory_byte_size": ROW_BYTES}
        asked = {"inputs": [{"name": "image", "shape": [1, 1, 8, 8], "datatype": "FP32", "parameters": place}]}
        assert post(serve.http, INFER, asked, of(anna)).status == 200
        assert post(serve.http, INFER, asked, of(bert)).status == 400
        unregister(serve, of(bert))
        assert post(serve.http, INFER, asked, of(anna)).status == 200
        for i in range(1, 64):
            assert register(serve, f"r{i}", object_key, ROW_BYTES, headers=of(anna)).status == 200
        answer = register(serve, "more", object_key, ROW_BYTES, headers=of(anna))
        assert answer.status == 429 and "64 regions" in answer.error()
        assert register(serve, "r", object_key, ROW_BYTES, headers=of(bert)).status == 200
        metrics = get(serve.gateways[0]["metrics"], "/metrics").body.decode()
        assert "fermata_gateway_shared_memory_regions 65" in metrics
    assert serve.stop() == 0


@pytest.mark.data_plane
@pytest.mark.parametrize("asking", [["-i", "http"], ["-i", "grpc"], ["-i", "http", "-b", "8", "--async"], ["-i", "grpc", "--streaming", "--async"]],
                         ids=["rest", "grpc", "rest, batches", "grpc stream"])
def test_perf_analyzer(near, tmp_path, asking):
    out = tmp_path / "figures.csv"
    got = analyze(near, out, *asking, "--shared-memory", "system", "--output-shared-memory-size", "1024", "--concurrency-range", "4")
    assert got.returncode == 0, got.stdout + got.stderr
    (row,) = csv.DictReader(out.open())
    assert float(row["Inferences/Second"]) > 0
    assert get(near.http, "/v2/systemsharedmemory/status").json() == [], "it takes its regions back"
