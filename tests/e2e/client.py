"""Small REST helpers beside the stock clients, for what those cannot say (broken requests, exact bytes)."""

import http.client
import json
import pathlib
import socket
import struct

import numpy as np

from system import PICTURES, wait_until

TIMEOUT_S = 30


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    def error(self):
        return self.json()["error"]

    def split(self):
        """(JSON, the raw section behind it)."""
        length = int(self.headers.get("Inference-Header-Content-Length", len(self.body)))
        return json.loads(self.body[:length]), self.body[length:]

    def __repr__(self):
        return f"{self.status} {self.body[:300]!r}"


def request(address, method, path, body=None, headers=None):
    host, port = address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_S)
    try:
        connection.request(method, path, body, headers or {})
        got = connection.getresponse()
        return Answer(got.status, got.headers, got.read())
    finally:
        connection.close()


def get(address, path):
    return request(address, "GET", path)


def wait_served_by(scheduler, name, workers):
    """A model is ready as soon as one worker has it: a test that kills that one waits for the others first."""
    def there():
        models = get(scheduler.http, "/state").json()["models"]
        return any(model["name"] == name and model["workers"] == workers for model in models)
    wait_until(there, f"{workers} workers have {name}")


def post(address, path, document, headers=None):
    return request(address, "POST", path, json.dumps(document), {"Content-Type": "application/json", **(headers or {})})


def post_binary(address, path, document, raw, length=None):
    text = json.dumps(document).encode()
    header = str(len(text) if length is None else length)
    return request(address, "POST", path, text + raw, {"Inference-Header-Content-Length": header})


def talk(address, data, seconds=TIMEOUT_S):
    """Sends bytes as they are and returns everything that comes until the server closes."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=seconds) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        got = b""
        try:
            while chunk := connection.recv(65536):
                got += chunk
        except ConnectionResetError:
            pass
        return got


def pictures():
    """[(path, expected label)]"""
    return [(path, path.name.split("-")[1]) for path in sorted(PICTURES.glob("digit-*"))]


def bytes_element(data):
    return struct.pack("<I", len(data)) + data


def digit_tensor(label="7"):
    """One example picture as the model wants it, float32 [1,1,8,8], by Pillow."""
    from PIL import Image

    path = next(path for path, expected in pictures() if expected == label)
    grey = Image.open(path).convert("L").resize((8, 8), Image.Resampling.BOX)
    return ((np.asarray(grey, np.float32) / 255 - 0.5) / 0.5)[None, None]


def tensor_request(tensor, **more):
    return {"inputs": [{"name": "image", "shape": list(tensor.shape), "datatype": "FP32", "data": tensor.ravel().tolist()}], **more}


INFER = "/v2/models/digits/infer"


def good(address):
    """A request that must work, whatever was sent before: the tensor of a 7."""
    answer = post(address, INFER, tensor_request(digit_tensor("7")))
    assert answer.status == 200, answer
    scores = answer.json()["outputs"][0]["data"]
    assert int(np.argmax(scores)) == 7
    return answer


def label_of(entry):
    """`value:index:label` of the classification extension."""
    text = entry.decode() if isinstance(entry, bytes) else str(entry)
    return text.split(":")[2]


def read_picture(path):
    return pathlib.Path(path).read_bytes()
