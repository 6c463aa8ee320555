"""Wrong requests: a clear error that names what is wrong, and the next good request works."""

import base64
import json
import struct
import zlib

import grpc
import numpy as np
import pytest
import tritonclient.grpc
from tritonclient.grpc import service_pb2

from client import INFER, bytes_element, digit_tensor, get, good, pictures, post, post_binary, read_picture, request, talk, tensor_request


@pytest.fixture(autouse=True)
def lives_on(up):
    """After each wrong request a good one is answered right, by both protocols' server."""
    yield
    good(up.http)


TENSOR = digit_tensor("7")


def document(**changes):
    """A good request with some members of its input changed; None removes one."""
    body = tensor_request(TENSOR)
    body["inputs"][0].update(changes)
    body["inputs"][0] = {key: value for key, value in body["inputs"][0].items() if value is not None}
    return body


def two_inputs(name):
    body = document()
    body["inputs"].append({**body["inputs"][0], "name": name})
    return body


# What is wrong, the request, and words that the error must have.
JSON_CASES = {
    "no_inputs": ({}, ["image"]),
    "inputs_no_list": ({"inputs": 3}, ["inputs"]),
    "empty_inputs": ({"inputs": []}, ["image"]),
    "not_an_object": ([1, 2], []),
    "no_name": (document(name=None), ["name"]),
    "no_shape": (document(shape=None), ["shape"]),
    "no_datatype": (document(datatype=None), ["datatype"]),
    "no_data": (document(data=None), ["image"]),
    "unknown_datatype": (document(datatype="FP33"), ["image", "FP33"]),
    "wrong_datatype": (document(datatype="INT32", data=[1] * 64), ["image", "INT32", "FP32"]),
    "wrong_shape": (document(shape=[1, 1, 8, 9], data=[0.5] * 72), ["image", "[1,1,8,9]"]),
    "wrong_rank": (document(shape=[64]), ["image", "[64]"]),
    "negative_shape": (document(shape=[-1, 1, 8, 8]), ["image"]),
    "huge_shape": (document(shape=[2**62, 4, 8, 8]), ["image"]),
    "shape_of_text": (document(shape=["a"]), ["image"]),
    "zero_rows": (document(shape=[0, 1, 8, 8], data=[]), ["image"]),
    "too_many_rows": (document(shape=[33, 1, 8, 8], data=[0.0] * 33 * 64), ["image", "32"]),
    "too_few_data": (document(data=[0.0] * 63), ["image"]),
    "too_many_data": (document(data=[0.0] * 65), ["image"]),
    "text_for_numbers": (document(data=["a"] * 64), ["image"]),
    "ragged_data": (document(data=[[0.0] * 60, [0.0] * 3]), ["image"]),
    "unknown_input": (document(name="picture"), ["picture"]),
    "extra_input": (two_inputs("extra"), ["extra"]),
    "input_twice": (two_inputs("image"), ["image", "twice"]),
    "unknown_output": (tensor_request(TENSOR, outputs=[{"name": "nothing"}]), ["nothing"]),
    "output_twice": (tensor_request(TENSOR, outputs=[{"name": "scores"}, {"name": "scores"}]), ["scores"]),
    "timeout_of_text": (tensor_request(TENSOR, parameters={"timeout": "soon"}), ["timeout"]),
    "negative_classification": (tensor_request(TENSOR, outputs=[{"name": "scores", "parameters": {"classification": -1}}]), ["classification"]),
}


@pytest.mark.parametrize("body,words", JSON_CASES.values(), ids=JSON_CASES)
def test_json(up, body, words):
    answer = post(up.http, INFER, body)
    assert answer.status == 400, answer
    for word in words:
        assert word in answer.error(), answer


@pytest.mark.parametrize("text", [b"", b"{", b'{"inputs":[', b"not json", b'{"inputs":[]}x', b'{"inputs":' + b"[" * 5000, b"\xff\xfe{}", b'{"a":nan}',
                                  b'{"inputs":[{"name":"image","shape":[1,1,8,8],"datatype":"FP32","data":[NaN]}]}',
                                  b'{"inputs":[{"name":"\\ud800","shape":[1],"datatype":"FP32","data":[1]}]}'])
def test_broken_json(up, text):
    answer = request(up.http, "POST", INFER, text)
    assert answer.status == 400, answer
    assert answer.error()


@pytest.mark.parametrize("path,word", [("/v2/models/nothing/infer", "nothing"), ("/v2/models/digits/versions/9/infer", "9"),
                                       ("/v2/models/digits/versions/x/infer", "x"), ("/v2/models/%00/infer", "")])
def test_unknown_model_or_version(up, path, word):
    answer = post(up.http, path, document())
    assert answer.status in ((404,) if word else (400, 404)), answer
    assert word in answer.error()
    assert get(up.http, path.removesuffix("/infer")).status in (400, 404)


def test_unknown_path_and_method(up):
    assert get(up.http, "/v3").status == 404
    answer = get(up.http, INFER)
    assert answer.status == 405 and "POST" in answer.headers.get("Allow", "POST")


# --- the binary extension ---

RAW = TENSOR.tobytes()


def binary_document(size, **changes):
    body = document(data=None, parameters={"binary_data_size": size})
    body["inputs"][0].update(changes)
    return body


BINARY_CASES = {
    "section_cut_short": (binary_document(len(RAW)), RAW[:100], None, ["image"]),
    "section_missing": (binary_document(len(RAW)), b"", None, ["image"]),
    "bytes_left_over": (binary_document(len(RAW)), RAW + b"more", None, []),
    "size_not_of_the_shape": (binary_document(len(RAW) - 4), RAW[:-4], None, ["image"]),
    "negative_size": (binary_document(-1), RAW, None, ["binary_data_size"]),
    "size_of_text": (binary_document("all"), RAW, None, ["binary_data_size"]),
    "huge_size": (binary_document(2**63), RAW, None, []),
    "header_beyond_the_body": (binary_document(len(RAW)), RAW, 10**6, []),
    "header_inside_the_json": (binary_document(len(RAW)), RAW, 10, []),
    "header_no_number": (binary_document(len(RAW)), RAW, "many", ["Inference-Header-Content-Length"]),
    "header_negative": (binary_document(len(RAW)), RAW, -5, ["Inference-Header-Content-Length"]),
    "data_and_binary": (binary_document(len(RAW), data=[0.0] * 64), RAW, None, ["image"]),
}


@pytest.mark.parametrize("body,raw,length,words", BINARY_CASES.values(), ids=BINARY_CASES)
def test_binary(up, body, raw, length, words):
    answer = post_binary(up.http, INFER, body, raw, length)
    assert answer.status == 400, answer
    for word in words:
        assert word in answer.error(), answer


def test_raw_body_of_the_wrong_size(up):
    answer = request(up.http, "POST", INFER, RAW[:-1], {"Inference-Header-Content-Length": "0"})
    assert answer.status == 400 and "image" in answer.error(), answer


# --- pictures ---

def png_chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_bomb(side):
    """A PNG of a few bytes whose header claims side x side pixels."""
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + png_chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + png_chunk(b"IEND", b"")


def jpeg_bomb(side):
    """A real JPEG whose frame header claims side x side pixels."""
    data = bytearray(read_picture(next(path for path, _ in pictures() if path.suffix == ".jpg")))
    frame = data.index(b"\xff\xc0")
    data[frame + 5:frame + 9] = struct.pack(">HH", side, side)
    return bytes(data)


A_PNG = read_picture(next(path for path, _ in pictures() if path.suffix == ".png"))
A_JPEG = read_picture(next(path for path, _ in pictures() if path.suffix == ".jpg"))

PICTURE_CASES = {
    "no_picture": (b"this is no picture at all", 400),
    "empty": (b"", 400),
    "gif": (b"GIF89a" + bytes(100), 400),
    "png_signature_alone": (A_PNG[:8], 400),
    "png_cut_short": (A_PNG[:len(A_PNG) // 2], 400),
    "png_damaged": (A_PNG[:40] + b"\xff" * 40 + A_PNG[80:], 400),
    "png_without_pixels": (png_bomb(0), 400),
    "jpeg_signature_alone": (A_JPEG[:3], 400),
    "jpeg_header_alone": (A_JPEG[:200], 400),
    "png_bomb": (png_bomb(60000), 413),
    "jpeg_bomb": (jpeg_bomb(60000), 413),
}


def send_picture(up, data):
    element = bytes_element(data)
    body = {"inputs": [{"name": "image", "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": len(element)}}]}
    return post_binary(up.http, INFER, body, element)


@pytest.mark.parametrize("data,status", PICTURE_CASES.values(), ids=PICTURE_CASES)
def test_picture(up, data, status):
    answer = send_picture(up, data)
    assert answer.status == status, answer
    assert "image" in answer.error(), answer


@pytest.mark.parametrize("kind", ["image/png", "image/jpeg"])
def test_posted_body_is_no_picture(up, kind):
    answer = request(up.http, "POST", INFER, b"no picture", {"Content-Type": kind})
    assert answer.status == 400, answer


@pytest.mark.parametrize("kind", ["image/webp", "image/jpegx", "image/gif; q=1", "multipart/form-data; boundary=x", "application/x-protobuf"])
def test_a_type_that_is_not_taken_is_415(up, kind):
    answer = request(up.http, "POST", INFER, A_PNG, {"Content-Type": kind})
    assert answer.status == 415, answer
    assert f"'{kind}' is not taken" in answer.error() and "image/png" in answer.error() and "application/json" in answer.error()


@pytest.mark.parametrize("kind", ["", "application/json; charset=utf-8", "application/x-www-form-urlencoded", "text/plain", "Application/JSON"])
def test_what_clients_say_of_json_is_taken(up, kind):
    answer = request(up.http, "POST", INFER, json.dumps(tensor_request(digit_tensor())).encode(), {"Content-Type": kind} if kind else {})
    assert answer.status == 200, answer


@pytest.mark.parametrize("kind", [None, "application/x-www-form-urlencoded", "application/json"])
def test_a_picture_that_is_not_called_one_is_told_how(up, kind):
    answer = request(up.http, "POST", INFER, A_PNG, {"Content-Type": kind} if kind else {})
    assert answer.status == 400 and "Content-Type: image/png" in answer.error(), answer


def test_base64_that_is_not_called_that_is_told_how(up):
    body = {"inputs": [{"name": "image", "shape": [1], "datatype": "BYTES", "data": [base64.b64encode(A_PNG).decode()]}]}
    answer = post(up.http, INFER, body)
    assert answer.status == 400 and 'content_type: "base64"' in answer.error(), answer


@pytest.mark.parametrize("text,says", {
    "no picture": ["element 0", "no base64 from character 3"],
    "AAAA": ["image", "picture 0"],
}.items())
def test_base64_that_is_none_and_base64_of_no_picture(up, text, says):
    body = {"inputs": [{"name": "image", "shape": [1], "datatype": "BYTES", "parameters": {"content_type": "base64"}, "data": [text]}]}
    answer = post(up.http, INFER, body)
    assert answer.status == 400, answer
    for words in says:
        assert words in answer.error(), answer


def test_an_unknown_name_names_the_real_ones(up):
    request_of = tensor_request(digit_tensor())
    request_of["inputs"][0]["name"] = "imag"
    assert post(up.http, INFER, request_of).error() == "unknown input 'imag' for model 'digits', which has 'image'"
    answer = post(up.http, INFER, tensor_request(digit_tensor(), outputs=[{"name": "score"}]))
    assert answer.status == 400 and answer.error() == "unknown output 'score' for model 'digits', which has 'scores'"


def test_broken_framing_of_bytes(up):
    body = {"inputs": [{"name": "image", "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": 8}}]}
    answer = post_binary(up.http, INFER, body, struct.pack("<I", 1000) + b"abcd")
    assert answer.status == 400 and "image" in answer.error(), answer


def test_one_bad_picture_of_a_batch_is_named(up):
    elements = bytes_element(A_PNG) + bytes_element(b"no picture")
    body = {"inputs": [{"name": "image", "shape": [2, 1], "datatype": "BYTES", "parameters": {"binary_data_size": len(elements)}}]}
    answer = post_binary(up.http, INFER, body, elements)
    assert answer.status == 400 and "1" in answer.error(), answer


# --- HTTP ---

HTTP_CASES = {
    "garbage": b"\x16\x03\x01\x02\x00\x01\x00garbage\r\n\r\n",
    "no_version": b"GET /v2\r\n\r\n",
    "space_in_header": b"GET /v2 HTTP/1.1\r\nHo st: x\r\n\r\n",
    "two_lengths": b"POST /v2/models/digits/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabcde",
    "length_and_chunked": b"POST /v2/models/digits/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "bad_chunk": b"POST /v2/models/digits/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "negative_length": b"POST /v2/models/digits/infer HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
}


@pytest.mark.parametrize("data", HTTP_CASES.values(), ids=HTTP_CASES)
def test_malformed_http(up, data):
    got = talk(up.http, data)
    # A request line without a version is HTTP/0.9: a version that is not served.
    assert got.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 505 ")), got[:200]
    assert b"Connection: close" in got or b"connection: close" in got


def test_cut_off_request_is_dropped(up):
    got = talk(up.http, b"POST /v2/models/digits/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc")
    assert got == b"" or got.startswith(b"HTTP/1.1 4"), got[:200]


def test_headers_over_the_limit(up):
    got = talk(up.http, b"GET /v2 HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * (1 << 20) + b"\r\n\r\n")
    assert got.split(b" ")[1] in (b"400", b"413", b"431"), got[:200]


@pytest.mark.parametrize("length", [1 << 40, 1 << 62])
def test_announced_body_over_the_limit(up, length):
    """Refused by its header: no byte of the body need be sent."""
    got = talk(up.http, f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode())
    assert got.startswith(b"HTTP/1.1 413 "), got[:200]


def test_deadline_that_cannot_be_met(up):
    answer = post(up.http, INFER, tensor_request(TENSOR, parameters={"timeout": 1}))
    assert answer.status == 504, answer
    assert answer.error()


# --- gRPC ---

@pytest.fixture(scope="module")
def channel(up):
    with grpc.insecure_channel(up.grpc, options=[("grpc.max_send_message_length", -1)]) as opened:
        yield opened


def infer_message(**changes):
    message = service_pb2.ModelInferRequest(model_name="digits")
    tensor = message.inputs.add(name="image", datatype="FP32", shape=[1, 1, 8, 8])
    message.raw_input_contents.append(RAW)
    for key, value in changes.items():
        if key in ("name", "datatype"):
            setattr(tensor, key, value)
        elif key == "shape":
            del tensor.shape[:]
            tensor.shape.extend(value)
        elif key == "raw":
            del message.raw_input_contents[:]
            message.raw_input_contents.extend(value)
        elif key == "output":
            message.outputs.add(name=value)
        elif key == "contents":
            tensor.contents.fp32_contents.extend(value)
        else:
            setattr(message, key, value)
    return message


def call(channel, message, method="ModelInfer", timeout=30):
    """(code, text) of the call; messages may be bytes."""
    data = message if isinstance(message, bytes) else message.SerializeToString()
    stub = channel.unary_unary(f"/inference.GRPCInferenceService/{method}")
    try:
        stub(data, timeout=timeout, wait_for_ready=True)
        return grpc.StatusCode.OK, ""
    except grpc.RpcError as error:
        return error.code(), error.details()


INVALID, NOT_FOUND = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND
GRPC_CASES = {
    "unknown_model": (infer_message(model_name="nothing"), NOT_FOUND, "nothing"),
    "no_model": (infer_message(model_name=""), None, ""),
    "unknown_version": (infer_message(model_version="9"), NOT_FOUND, "9"),
    "unknown_input": (infer_message(name="picture"), INVALID, "picture"),
    "wrong_datatype": (infer_message(datatype="INT32"), INVALID, "image"),
    "unknown_datatype": (infer_message(datatype="FP33"), INVALID, "image"),
    "wrong_shape": (infer_message(shape=[1, 1, 8, 9]), INVALID, "image"),
    "negative_shape": (infer_message(shape=[-1, 1, 8, 8]), INVALID, "image"),
    "huge_shape": (infer_message(shape=[2**62, 2**62, 8, 8]), INVALID, "image"),
    "no_inputs": (service_pb2.ModelInferRequest(model_name="digits"), INVALID, "image"),
    "raw_too_short": (infer_message(raw=[RAW[:-4]]), INVALID, "image"),
    "raw_missing": (infer_message(raw=[]), INVALID, "image"),
    "raw_too_many": (infer_message(raw=[RAW, RAW]), INVALID, "raw_input_contents"),
    "raw_and_typed": (infer_message(contents=[0.5] * 64), INVALID, ""),
    "unknown_output": (infer_message(output="nothing"), INVALID, "nothing"),
    "no_picture": (infer_message(datatype="BYTES", shape=[1], raw=[bytes_element(b"no picture")]), INVALID, "image"),
    "picture_bomb": (infer_message(datatype="BYTES", shape=[1], raw=[bytes_element(png_bomb(60000))]), grpc.StatusCode.RESOURCE_EXHAUSTED, "image"),
}


@pytest.mark.parametrize("message,code,word", GRPC_CASES.values(), ids=GRPC_CASES)
def test_grpc(channel, message, code, word):
    got, text = call(channel, message)
    assert got in ((code,) if code else (INVALID, NOT_FOUND)), text
    assert word in text


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", b"\x0a\xff\x01", bytes([0x2a, 0x7f]) + bytes(10)])
def test_grpc_message_is_no_protobuf(channel, data):
    code, text = call(channel, data)
    assert code in (INVALID, grpc.StatusCode.INTERNAL), text
    assert text


def test_grpc_unknown_method(channel):
    assert call(channel, b"", method="NoSuchMethod")[0] == grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_a_compressed_message_is_refused(up, algorithm):
    """Of a stock client, before it is unpacked."""
    tensor = tritonclient.grpc.InferInput("image", [1, 1, 8, 8], "FP32")
    tensor.set_data_from_numpy(TENSOR)
    client = tritonclient.grpc.InferenceServerClient(up.grpc)
    with pytest.raises(tritonclient.grpc.InferenceServerException, match=algorithm) as refused:
        client.infer("digits", [tensor], compression_algorithm=algorithm)
    assert refused.value.status() == "StatusCode.UNIMPLEMENTED"
    assert client.infer("digits", [tensor]).as_numpy("scores").shape == (1, 10)
    client.close()


def test_grpc_message_over_the_limit(channel):
    message = infer_message(raw=[bytes(600 << 20)])
    code, _ = call(channel, message, timeout=60)
    assert code == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_grpc_deadline_that_cannot_be_met(up, channel):
    message = infer_message()
    message.parameters["timeout"].int64_param = 1
    assert call(channel, message)[0] == grpc.StatusCode.DEADLINE_EXCEEDED


def test_stock_client_gets_the_text(up):
    client = tritonclient.grpc.InferenceServerClient(up.grpc)
    data = tritonclient.grpc.InferInput("image", [1, 8, 8], "FP32")
    data.set_data_from_numpy(np.zeros((1, 8, 8), np.float32))
    with pytest.raises(tritonclient.grpc.InferenceServerException, match="image"):
        client.infer("digits", [data])
    client.close()


# --- while others go on ---

def test_other_requests_are_untouched(up):
    """Good requests in one thread while another sends every wrong one: all good ones are answered right."""
    import threading

    stop, failed, count = threading.Event(), [], [0]

    def ask():
        while not stop.is_set():
            try:
                good(up.http)
                count[0] += 1
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the failure
                failed.append(error)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for body, _ in JSON_CASES.values():
        post(up.http, INFER, body)
    for body, raw, length, _ in BINARY_CASES.values():
        post_binary(up.http, INFER, body, raw, length)
    for data, _ in PICTURE_CASES.values():
        send_picture(up, data)
    for data in HTTP_CASES.values():
        talk(up.http, data)
    stop.set()
    for thread in threads:
        thread.join()
    assert not failed
    assert count[0] > 0
