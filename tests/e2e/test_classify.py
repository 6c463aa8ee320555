"""Every example picture gets its label, by each way that a client has."""

import concurrent.futures
import base64
import json
import subprocess

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http

from client import INFER, bytes_element, label_of, pictures, post_binary, read_picture

pytestmark = pytest.mark.data_plane

ALL = pictures()
IDS = [path.name for path, _ in ALL]


def test_there_are_pictures():
    assert len(ALL) >= 20
    assert {path.suffix for path, _ in ALL} == {".png", ".jpg"}


def classification_request(size):
    return {"inputs": [{"name": "image", "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": size}}],
            "outputs": [{"name": "scores", "parameters": {"classification": 1}}]}


@pytest.mark.parametrize("path,expected", ALL, ids=IDS)
def test_binary_extension(up, path, expected):
    element = bytes_element(read_picture(path))
    answer = post_binary(up.http, INFER, classification_request(len(element)), element)
    assert answer.status == 200, answer
    (output,) = answer.json()["outputs"]
    assert output["datatype"] == "BYTES"
    assert label_of(output["data"][0]) == expected


def curl_picture(up, path, query=""):
    kind = "image/png" if path.suffix == ".png" else "image/jpeg"
    got = subprocess.run(["curl", "-sS", "-H", f"Content-Type: {kind}", "-w", "\n%{http_code}", "--data-binary", f"@{path}",
                          f"http://{up.http}{INFER}{query}"], capture_output=True, timeout=30, check=True)
    body, _, status = got.stdout.rpartition(b"\n")
    return int(status), json.loads(body)


def curl_picture(up, path, query=""):
    kind = "image/png" if path.suffix == ".png" else "image/jpeg"
    got = subprocess.run(["curl", "-sS", "--fail-with-body", "-H", f"Content-Type: {kind}", "--data-binary", f"@{path}",
                          f"http://{up.http}{INFER}{query}"], capture_output=True, timeout=30)
    assert got.returncode == 0, got.stdout
    return json.loads(got.stdout)["outputs"][0]["data"]


def test_curl_posts_the_picture_itself(up):
    for path, expected in ALL:
        assert int(np.argmax(curl_picture(up, path))) == int(expected), path.name
        assert label_of(curl_picture(up, path, "?classification=1")[0]) == expected, path.name


def test_curl_posts_base64_in_json(up):
    """The command of docs/rest-api.md."""
    for path, expected in ALL:
        got = subprocess.run(
            ["sh", "-c", """(printf '{"inputs": [{"name": "image", "shape": [1], "datatype": "BYTES",
                             "parameters": {"content_type": "base64"}, "data": ["'; base64 -w 0 "$1"; printf '"]}]}') |
                            curl -s --json @- "$2" """, "sh", path, f"http://{up.http}{INFER}"],
            capture_output=True, timeout=30, check=True)
        scores = json.loads(got.stdout)["outputs"][0]["data"]
        assert int(np.argmax(scores)) == int(expected), path.name


def test_stock_http_client_sends_base64_in_json(up):
    client = tritonclient.http.InferenceServerClient(up.http)
    for path, expected in ALL:
        data = tritonclient.http.InferInput("image", [1], "BYTES")
        data.set_data_from_numpy(np.array([base64.b64encode(read_picture(path))], dtype=np.object_), binary_data=False)
        wanted = tritonclient.http.InferRequestedOutput("scores", class_count=1)
        result = client.infer("digits", [data], outputs=[wanted], parameters={"content_type": "base64"})
        assert label_of(result.as_numpy("scores").ravel()[0]) == expected
    client.close()


def http_classify(client, path):
    data = tritonclient.http.InferInput("image", [1], "BYTES")
    data.set_data_from_numpy(np.array([read_picture(path)], dtype=np.object_))
    wanted = tritonclient.http.InferRequestedOutput("scores", class_count=1)
    return label_of(client.infer("digits", [data], outputs=[wanted]).as_numpy("scores").ravel()[0])


def grpc_classify(client, path):
    data = tritonclient.grpc.InferInput("image", [1], "BYTES")
    data.set_data_from_numpy(np.array([read_picture(path)], dtype=np.object_))
    wanted = tritonclient.grpc.InferRequestedOutput("scores", class_count=1)
    return label_of(client.infer("digits", [data], outputs=[wanted]).as_numpy("scores").ravel()[0])


def test_stock_http_client(up):
    client = tritonclient.http.InferenceServerClient(up.http)
    assert [http_classify(client, path) for path, _ in ALL] == [expected for _, expected in ALL]
    client.close()


def test_stock_grpc_client(up):
    client = tritonclient.grpc.InferenceServerClient(up.grpc)
    assert [grpc_classify(client, path) for path, _ in ALL] == [expected for _, expected in ALL]
    client.close()


@pytest.mark.parametrize("module,classify", [(tritonclient.http, http_classify), (tritonclient.grpc, grpc_classify)], ids=["http", "grpc"])
def test_concurrent_stock_clients(up, module, classify):
    """Eight clients at once, each with all pictures: nobody gets anybody else's answer."""

    def one_client(offset):
        client = module.InferenceServerClient(up.http if module is tritonclient.http else up.grpc)
        mine = ALL[offset:] + ALL[:offset]
        wrong = [path.name for path, expected in mine if classify(client, path) != expected]
        client.close()
        return wrong

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one_client, range(0, 24, 3))) == [[]] * 8


def test_a_batch_of_pictures(up):
    """Pictures of different sizes and kinds as the rows of one request."""
    client = tritonclient.grpc.InferenceServerClient(up.grpc)
    data = tritonclient.grpc.InferInput("image", [len(ALL), 1], "BYTES")
    data.set_data_from_numpy(np.array([[read_picture(path)] for path, _ in ALL], dtype=np.object_))
    wanted = tritonclient.grpc.InferRequestedOutput("scores", class_count=3)
    got = client.infer("digits", [data], outputs=[wanted]).as_numpy("scores")
    assert got.shape == (len(ALL), 3)
    assert [label_of(row[0]) for row in got] == [expected for _, expected in ALL]
    client.close()


def test_tensors_agree_with_onnxruntime(up):
    """Random tensors in batches of all sizes: the engine's scores are those of the reference."""
    import onnxruntime

    from system import MODELS

    reference = onnxruntime.InferenceSession(MODELS / "digits" / "1" / "model.onnx", providers=["CPUExecutionProvider"])
    client = tritonclient.grpc.InferenceServerClient(up.grpc)
    rng = np.random.default_rng(20261120)
    for rows in (1, 2, 3, 7, 8, 31, 32):
        tensor = rng.standard_normal((rows, 1, 8, 8)).astype(np.float32)
        data = tritonclient.grpc.InferInput("image", tensor.shape, "FP32")
        data.set_data_from_numpy(tensor)
        got = client.infer("digits", [data]).as_numpy("scores")
        scores = reference.run(["scores"], {"image": tensor})[0]
        expected = np.exp(scores - scores.max(1, keepdims=True))
        expected /= expected.sum(1, keepdims=True)
        np.testing.assert_allclose(got, expected, atol=1e-4)
    client.close()
