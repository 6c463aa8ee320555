"""What nobody sends who means well, each with a name: requests whose JSON, binary header, path or gRPC is wrong, and reports of a worker that mean nothing.

Of HTTP the bytes of a whole request, of gRPC those of a message or of all frames of a connection. send_http and send_grpc say what came of one.
"""

import contextlib
import json
import re
import socket
import struct
import zlib

import grpc
from tritonclient.grpc import service_pb2

import rogue
from client import INFER, bytes_element, digit_tensor, talk, tensor_request

ANSWER_S = 20  # whoever is not answered by then was forgotten
TENSOR = digit_tensor("7")
RAW = TENSOR.tobytes()
BODY = json.dumps(tensor_request(TENSOR)).encode()


# ---- HTTP


def http(body=b"", *lines, target=INFER, method="POST"):
    head = b"\r\n".join([b"%s %s HTTP/1.1" % (method.encode(), target if isinstance(target, bytes) else target.encode()), b"Host: x", b"Connection: close",
                         *(line if isinstance(line, bytes) else line.encode() for line in lines), b"Content-Length: %d" % len(body)])
    return head + b"\r\n\r\n" + body


def changed(old, new):
    """The good request with one part of its text changed."""
    assert BODY.count(old) == 1, old
    return http(BODY.replace(old, new))


def data_of(text):
    return http(BODY[:BODY.index(b'"data"')] + b'"data": [' + text + b"]}]}")


SHAPE, NAME, TYPE = b"[1, 1, 8, 8]", b'"image"', b'"FP32"'

JSON = {
    "arrays_a_million_deep": http(b"[" * 1_000_000),
    "objects_100_000_deep": http(b'{"a":' * 100_000),
    "data_100_000_deep": data_of(b"[" * 100_000),
    "parameters_100_000_deep": http(b'{"parameters":{"a":' + b"[" * 100_000),
    "nan_in_a_shape": changed(SHAPE, b"[NaN, 1, 8, 8]"),
    "infinity_in_a_shape": changed(SHAPE, b"[-Infinity, 1, 8, 8]"),
    "number_beyond_its_type": data_of(b"1e999" + b",0" * 63),
    "number_of_a_million_digits": data_of(b"9" * 1_000_000 + b",0" * 63),
    "number_with_a_leading_nought": data_of(b"01" + b",0" * 63),
    "shape_whose_product_overflows": changed(SHAPE, b"[4294967296, 4294967296, 8, 8]"),
    "shape_beyond_64_bits": changed(SHAPE, b"[18446744073709551617, 1, 8, 8]"),
    "shape_of_the_least_number": changed(SHAPE, b"[-9223372036854775808, 1, 8, 8]"),
    "shape_with_a_fraction": changed(SHAPE, b"[1.5, 1, 8, 8]"),
    "shape_of_100_000_dimensions": changed(SHAPE, b"[1" + b",1" * 99_999 + b"]"),
    "shape_in_a_shape": changed(SHAPE, b"[[1, 1, 8, 8]]"),
    "shape_is_null": changed(SHAPE, b"null"),
    "name_is_a_number": changed(NAME, b"7"),
    "name_is_not_utf_8": changed(NAME, b'"im\xff\xfeage"'),
    "name_is_overlong_utf_8": changed(NAME, b'"im\xc0\xafage"'),
    "name_has_half_a_surrogate": changed(NAME, b'"im\\udc00age"'),
    "name_has_a_nul": changed(NAME, b'"im\\u0000age"'),
    "datatype_is_a_list": changed(TYPE, b'["FP32"]'),
    "inputs_are_an_object": http(b'{"inputs":{"image":' + BODY + b"}}"),
    "inputs_twice": http(BODY[:-1] + b"," + BODY[1:]),
    "an_output_100_000_times": http(BODY[:-1] + b',"outputs":[{"name":"scores"}' + b',{"name":"scores"}' * 99_999 + b"]}"),
    "more_behind_the_end": http(BODY + b"}"),
}


def binary(length=None, size=len(RAW), raw=RAW, more=()):
    """A request whose tensor is behind its JSON; its size and the length of the JSON as text, None = as they are."""
    text = json.dumps({"inputs": [{"name": "image", "shape": [1, 1, 8, 8], "datatype": "FP32", "parameters": {"binary_data_size": "SIZE"}}]})
    text = text.replace('"SIZE"', str(size)).encode()
    return http(text + raw, b"Inference-Header-Content-Length: " + (b"%d" % len(text) if length is None else length), *more)


BINARY = {
    "length_negative": binary(b"-1"),
    "length_with_a_sign": binary(b"+100"),
    "length_of_nothing": binary(b""),
    "length_in_hexadecimal": binary(b"0x70"),
    "length_with_an_exponent": binary(b"1e2"),
    "length_twice_in_one": binary(b"112, 112"),
    "length_beyond_64_bits": binary(b"18446744073709551728"),
    "length_of_63_bits": binary(b"9223372036854775807"),
    "length_into_the_json": binary(b"20"),
    "length_into_the_tensor": binary(b"200"),
    "length_twice": binary(more=["Inference-Header-Content-Length: 5"]),
    "size_of_64_bits": binary(size=2**64 - 1),
    "size_negative": binary(size=-256),
    "size_is_true": binary(size="true"),
    "size_beyond_the_body": binary(size=2**40),
}

PATHS = {
    "upwards": http(target="/v2/models/../../../etc/passwd", method="GET"),
    "upwards_escaped": http(target="/v2/models/%2e%2e/%2e%2e/etc/passwd", method="GET"),
    "upwards_with_escaped_slashes": http(target="/v2/models/..%2f..%2fetc%2fpasswd", method="GET"),
    "upwards_escaped_twice": http(target="/v2/models/%252e%252e%252fetc/passwd", method="GET"),
    "upwards_by_backslashes": http(target="/v2/models/..\\..\\etc\\passwd", method="GET"),
    "upwards_in_overlong_utf_8": http(target="/v2/models/%c0%ae%c0%ae%c0%afetc", method="GET"),
    "upwards_to_infer": http(BODY, target="/v2/models/digits/versions/../../../infer"),
    "nul_escaped": http(BODY, target="/v2/models/digits%00/infer"),
    "escape_of_no_digits": http(BODY, target="/v2/models/digi%zz/infer"),
    "escape_cut_short": http(target="/v2/models/digits%2", method="GET"),
    "bytes_that_are_no_text": http(target=b"/v2/models/\xff\xfe\xfd", method="GET"),
    "name_of_8_kb": http(BODY, target="/v2/models/" + "a" * 8192 + "/infer"),
    "name_of_nothing": http(BODY, target="/v2/models//infer"),
    "version_negative": http(BODY, target="/v2/models/digits/versions/-1/infer"),
    "version_beyond_64_bits": http(BODY, target="/v2/models/digits/versions/18446744073709551617/infer"),
}

HTTP = {"json": JSON, "binary": BINARY, "path": PATHS}


def send_http(address, data):
    """The status that came; None: closed without any."""
    answer = re.match(rb"HTTP/1\.1 (\d{3}) ", talk(address, data, ANSWER_S))
    return int(answer[1]) if answer else None


# ---- gRPC: messages

METHOD = "/inference.GRPCInferenceService/ModelInfer"


def message(model="digits", version="", shape=(1, 1, 8, 8), name="image", datatype="FP32", raw=(RAW,), **contents):
    made = service_pb2.ModelInferRequest(model_name=model, model_version=version, raw_input_contents=raw)
    tensor = made.inputs.add(name=name, datatype=datatype, shape=shape)
    for field, values in contents.items():
        getattr(tensor.contents, field).extend(values)
    return made


def twice(part):
    """The good message with an input or output said again."""
    made = message()
    if part == "inputs":
        made.inputs.append(made.inputs[0])
        made.raw_input_contents.append(RAW)
    else:
        made.outputs.add(name="scores")
        made.outputs.add(name="scores")
    return made


def classified(count):
    made = message()
    made.outputs.add(name="scores").parameters["classification"].int64_param = count
    return made


MESSAGES = {
    "raw_a_byte_short": message(raw=[RAW[:-1]]),
    "raw_a_byte_long": message(raw=[RAW + b"x"]),
    "raw_of_nothing": message(raw=[b""]),
    "raw_for_a_hundred_inputs": message(raw=[RAW] * 100),
    "raw_beside_typed": message(fp32_contents=[0.5] * 64),
    "typed_as_another_type": message(raw=[], int_contents=[1] * 64),
    "typed_too_few": message(raw=[], fp32_contents=[0.5] * 63),
    "typed_too_many": message(raw=[], fp32_contents=[0.5] * 65),
    "datatype_of_nothing": message(datatype=""),
    "datatype_of_another": message(datatype="INT64"),
    "bytes_that_claim_4_gib": message(datatype="BYTES", shape=[1], raw=[struct.pack("<I", 2**32 - 1) + b"abcd"]),
    "bytes_of_no_picture": message(datatype="BYTES", shape=[1], raw=[bytes_element(b"\x89PNG\r\n\x1a\n")]),
    "shape_whose_product_overflows": message(shape=[2**32, 2**32, 8, 8]),
    "shape_of_the_least_number": message(shape=[-2**63, 1, 8, 8]),
    "shape_of_no_rows": message(shape=[0, 1, 8, 8], raw=[b""]),
    "shape_of_100_000_dimensions": message(shape=[1] * 100_000),
    "input_twice": twice("inputs"),
    "classification_negative": classified(-2**63),
    "model_of_a_megabyte": message(model="a" * 1_000_000),
    "model_with_a_nul": message(model="digits\0"),
    "name_is_not_utf_8": message().SerializeToString().replace(b"image", b"im\xff\xfee"),
    "version_of_text": message(version="newest"),
    "no_protobuf": b"\xff" * 64,
    "length_beyond_the_end": b"\x0a\xff\xff\xff\xff\x0fdigits",
    "groups_100_000_deep": b"\xa3\x06" * 100_000,
}


# ---- gRPC: frames

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY = 0, 1, 3, 4, 7
END_STREAM, END_HEADERS = 1, 4
FRAME_MAX = 16384  # of a server that has not said otherwise


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def frames(data, path=METHOD, encoding="identity"):
    """Of a call: its header and its data; no more than 64 KB, for which no leave is needed."""
    headers = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "x", "content-type": "application/grpc", "te": "trailers",
               "grpc-encoding": encoding}
    block = b"".join(b"\0" + bytes([len(key)]) + key.encode() + bytes([len(text)]) + text.encode() for key, text in headers.items())
    pieces = [data[at:at + FRAME_MAX] for at in range(0, len(data), FRAME_MAX)]
    return (PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, block) + b"".join(frame(DATA, 0, 1, piece) for piece in pieces)
            + frame(DATA, END_STREAM, 1))


def prefixed(data, compressed=0, length=None):
    return struct.pack(">BI", compressed, len(data) if length is None else length) + data


def gzip_bomb(mib):
    """Zeros, 1,000 of them in each byte."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join(packer.compress(bytes(1 << 20)) for _ in range(mib)) + packer.flush()


GOOD = message().SerializeToString()
FRAMES = {
    "compressed_bomb_of_60_mib": frames(prefixed(gzip_bomb(60), compressed=1), encoding="gzip"),
    "prefix_cut_short": frames(b"\0\0\0"),
    "message_of_4_gib": frames(prefixed(GOOD, length=2**32 - 1)),
    "message_cut_short": frames(prefixed(GOOD[:100], length=len(GOOD))),
    "method_of_another_service": frames(prefixed(GOOD), path="/fermata.control.v1.Control/Worker"),
    "settings_of_five_bytes": PREFACE + frame(SETTINGS, 0, 0, b"abcde"),
}

GRPC = {**MESSAGES, **FRAMES}


def send_grpc(address, case):
    """The grpc.StatusCode that came, or "closed" where frames ended the connection or the call without any; OK where it was served."""
    return send_frames(address, case) if isinstance(case, bytes) and case.startswith(PREFACE) else send_message(address, case)


def send_message(address, case):
    with grpc.insecure_channel(address, [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]) as channel:
        call = channel.unary_unary(METHOD)
        try:
            call(case if isinstance(case, bytes) else case.SerializeToString(), timeout=ANSWER_S, wait_for_ready=True)
            return grpc.StatusCode.OK
        except grpc.RpcError as error:
            return error.code()


def send_frames(address, data):
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=ANSWER_S) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(data)
            return answer_in_frames(connection)
    return "closed"


def answer_in_frames(connection):
    """Reads until the call is over. gRPC writes its own headers without Huffman's code, so that they can be looked for."""
    while True:
        head = rogue.read_exactly(connection, 9)
        kind, flags, payload = head[3], head[4], rogue.read_exactly(connection, int.from_bytes(head[:3], "big"))
        if kind == HEADERS and flags & END_STREAM:
            status = re.search(rb"grpc-status.(\d+)", payload, re.S)
            return next(code for code in grpc.StatusCode if code.value[0] == int(status[1])) if status else "closed"
        if kind in (RST_STREAM, GOAWAY):
            return "closed"


# ---- reports of a worker


def model_report(**fields):
    """Of a model that nobody else has, and its tensors."""
    tensor = rogue.message("Tensor", name="x", datatype="FP32", dims=[4])
    said = {"name": "made-up", "version": 1, "state": rogue.value("MODEL_STATE_READY"), "max_batch": 8, "slo_ns": 10**9, "inputs": [tensor], "outputs": [tensor],
            "latency": rogue.message("Latency", alpha_ns=1e3, beta_ns=1e4), **fields}
    return {"models": [rogue.message("ModelReport", **said)]}


def done(**fields):
    return {"done": [rogue.message("BatchDone", **{"batch_id": 1 << 60, **fields})]}


def device(**fields):
    return {"devices": [rogue.message("DeviceState", **fields)]}


def tensor_of(**fields):
    return [rogue.message("Tensor", **{"name": "x", "datatype": "FP32", "dims": [4], **fields})]


MOST, LEAST = 2**63 - 1, -2**63
REPORTS = {
    "done_with_what_nobody_granted": done(batch_id=2**64 - 1),
    "done_on_a_device_it_has_not": done(device=2**32 - 1),
    "done_with_a_status_of_no_name": done(status=999),
    "done_in_less_than_no_time": done(exec_ns=LEAST, device_ns=LEAST, fetch_ns=-1, push_ns=-1),
    "done_in_three_centuries": done(exec_ns=MOST, device_ns=MOST, fetch_ns=MOST, push_ns=MOST),
    "done_and_never_free": done(free_in_ns=MOST),
    "done_but_a_row_it_has_not": done(failed_row=[2**32 - 1], failed_status=[3]),
    "done_but_rows_without_status": done(failed_row=range(10)),
    "done_but_statuses_without_row": done(failed_status=[3] * 1000),
    "done_but_100_000_rows": done(failed_row=range(100_000), failed_status=[3] * 100_000),
    "done_for_a_reason_of_a_megabyte": done(status=10, reason="a" * 1_000_000),
    "device_it_has_not": device(device=2**32 - 1, status=1),
    "device_of_a_status_of_no_name": device(status=99),
    "device_that_is_never_free": device(status=1, free_in_ns=MOST),
    "device_that_was_free_long_ago": device(status=1, free_in_ns=LEAST),
    "command_nobody_gave": {"commands_done": [rogue.message("CommandDone", id=2**64 - 1, status=999, reason="why\n\0")]},
    "links_beyond_number": {"data_links": rogue.message("DataLinks", tcp=2**32 - 1, shm=2**32 - 1, rdma=2**32 - 1, inputs_land=99)},
    "pong_nobody_asked_for": {"pong": rogue.message("Pong", sent_ns=2**64 - 1, held_ns=LEAST)},
    "model_without_a_name": model_report(name=""),
    "model_of_5_000_letters": model_report(name="a" * 5000),
    "model_of_a_path": model_report(name="../../etc/passwd"),
    "model_of_a_version_below_nought": model_report(version=LEAST),
    "model_of_a_state_of_no_name": model_report(state=99),
    "model_of_endless_batches": model_report(max_batch=2**32 - 1),
    "model_of_deadlines_long_ago": model_report(slo_ns=LEAST),
    "model_that_takes_no_number_of_time": model_report(latency=rogue.message("Latency", alpha_ns=float("nan"), beta_ns=float("inf"))),
    "model_that_takes_less_than_no_time": model_report(latency=rogue.message("Latency", table_ns=[LEAST] * 8, alpha_ns=-1e300, beta_ns=-1e300)),
    "model_of_100_000_batch_sizes": model_report(latency=rogue.message("Latency", table_ns=[MOST] * 100_000)),
    "model_of_devices_it_has_not": model_report(devices=[7, 2**32 - 1]),
    "model_of_endless_tensors": model_report(inputs=tensor_of(dims=[MOST, MOST, -5])),
    "model_of_10_000_inputs": model_report(inputs=tensor_of() * 10_000),
    "model_of_axes_that_fall": model_report(inputs=tensor_of(dims=[-1], axes=[9]), axes=[rogue.message("Axis", name="a", pad_to=[8, 4, 0])]),
    "model_of_endless_pictures": model_report(image=rogue.message("ImagePipeline", input="nothing", resize_width=2**32 - 1, crop_width=2**32 - 1, scale=float("nan"))),
}
