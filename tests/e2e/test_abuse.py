"""What nobody sends who means well, beside a client who does: each row gets its status, and that client loses nothing."""

import json
import re
import threading
import urllib.request

import grpc
import pytest

from client import INFER, digit_tensor, good, post, talk, tensor_request
from half_sent import MODEL_STREAM_INFER, HalfSent, digit_message, message_of
from system import Serve, patient_models, wait_until

BODY = json.dumps(tensor_request(digit_tensor("7"))).encode()


def http(*lines, body=b"", method="POST", path=INFER, version="HTTP/1.1", end="\r\n"):
    head = end.join([f"{method} {path} {version}", "Host: x", *lines, "", ""])
    return head.encode("latin-1") + body


def sized(body, *lines, **how):
    return http(f"Content-Length: {len(body)}", *lines, body=body, **how)


def tensor(text):
    return BODY.replace(BODY[BODY.index(b'"data"'):], b'"data": [' + text + b"]}]}")


# What is sent, and the statuses of which one must be the answer; None: none at all.
TABLE = {
    "wrong_method": (http("Content-Length: 0", method="DELETE"), {405}),
    "method_unknown": (http(method="BREW"), {400}),
    "no_length": (http(), {411}),
    "gzip": (sized(BODY, "Content-Encoding: gzip"), {415}),
    "length_not_a_number": (http("Content-Length: ten"), {400}),
    "length_with_a_sign": (http("Content-Length: +3", body=b"abc"), {400}),
    "length_beyond_64_bits": (http("Content-Length: 99999999999999999999999"), {400, 413}),
    "4_gib_declared": (http(f"Content-Length: {4 << 30}"), {413}),
    "two_lengths": (http("Content-Length: 3", "Content-Length: 4", body=b"abcd"), {400}),
    "the_same_length_twice": (http("Content-Length: 3", "Content-Length: 3", body=b"abc"), {400}),
    "length_and_chunked": (http("Content-Length: 3", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"), {400}),
    "chunked_and_length": (http("Transfer-Encoding: chunked", "Content-Length: 3", body=b"0\r\n\r\n"), {400}),
    "chunked_twice": (http("Transfer-Encoding: chunked, chunked", body=b"0\r\n\r\n"), {400, 501}),
    "chunked_disguised": (http("Transfer-Encoding: xchunked", body=b"0\r\n\r\n"), {400, 501}),
    "chunk_size_overflows": (http("Transfer-Encoding: chunked", body=b"fffffffffffffffff\r\nabc"), {400, 413}),
    "chunk_size_of_4_gib": (http("Transfer-Encoding: chunked", body=b"100000000\r\n" + bytes(1000)), {400, 413, None}),
    "two_hosts": (sized(BODY, "Host: y"), {400}),
    "transfer_encoding_twice": (http("Transfer-Encoding: chunked", "Transfer-Encoding: identity", body=b"0\r\n\r\n"), {400}),
    "chunked_in_http_1_0": (http("Transfer-Encoding: chunked", body=b"0\r\n\r\n", version="HTTP/1.0"), {400}),
    "two_lengths_in_one_line": (http("Content-Length: 3, 3", body=b"abc"), {400}),
    "length_in_hexadecimal": (http("Content-Length: 0x3", body=b"abc"), {400}),
    "bare_lf": (sized(b"", end="\n"), {400}),
    "bare_lf_before_all": (b"\n" + sized(BODY), {400}),
    "bare_lf_of_the_request_line": (b"GET /v2 HTTP/1.1\nHost: x\r\n\r\n", {400}),
    "bare_lf_of_a_header": (sized(BODY, "X-A: a\nX-B: b"), {400}),
    "bare_lf_at_the_end": (b"GET /v2 HTTP/1.1\r\nHost: x\r\n\n", {400}),
    "bare_cr_at_the_end": (b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r", {400, None}),
    "bare_lf_of_a_chunk": (http("Transfer-Encoding: chunked", body=b"3\nabc\r\n0\r\n\r\n"), {400}),
    "bare_cr_of_trailers": (http("Transfer-Encoding: chunked", body=b"0\r\n\rX"), {400}),
    "folded": (sized(BODY, "X-A: a", " b"), {400}),
    "folded_by_a_tab": (sized(BODY, "X-A: a", "\tb"), {400}),
    "folded_to_nothing": (sized(BODY, "X-A: a", "  "), {400}),
    "folded_length": (http("Content-Length:", " 3", body=b"abc"), {400}),
    "folded_encoding": (http("Transfer-Encoding:", " chunked", body=b"0\r\n\r\n"), {400}),
    "folded_trailer": (http("Transfer-Encoding: chunked", body=b"0\r\nX-A: a\r\n b\r\n\r\n"), {400}),
    "no_name": (sized(BODY, ": a"), {400}),
    "no_name_and_no_value": (sized(BODY, ":"), {400}),
    "no_name_of_a_trailer": (http("Transfer-Encoding: chunked", body=b"0\r\n: a\r\n\r\n"), {400}),
    "no_colon": (sized(BODY, "X-A"), {400}),
    "space_in_a_name": (sized(BODY, "X A: a"), {400}),
    "bare_cr": (sized(BODY, "X-A: a\rX-B: b"), {400}),
    "nul_in_a_header": (sized(BODY, "X-A: a\0b"), {400}),
    "space_before_the_colon": (http("Content-Length : 3", body=b"abc"), {400}),
    "http_2_preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 505}),
    "version_of_the_future": (http(version="HTTP/3.7"), {400, 505}),
    "many_headers": (sized(BODY, *(f"X-{i}: {i}" for i in range(200))), {431}),
    "a_large_header": (sized(BODY, "X-Large: " + "a" * 100_000), {431}),
    "a_large_url": (http(path="/v2/models/" + "a" * 100_000, method="GET"), {414, 431}),
    "broken_escape": (http(path="/v2/models/%zz", method="GET"), {400}),
    "nul_in_a_path": (http(path="/v2/models/a%00b", method="GET"), {400, 404}),
    "path_upwards": (http(path="/v2/models/../../etc/passwd", method="GET"), {400, 404}),
    "json_depth_bomb": (sized(b"[" * 1_000_000), {400}),
    "json_depth_of_objects": (sized(b'{"a":' * 100_000), {400}),
    "json_depth_in_data": (sized(tensor(b"[" * 100_000)), {400}),
    "number_beyond_its_type": (sized(tensor(b"1e999" + b",0" * 63)), {400}),
    "number_of_many_digits": (sized(tensor(b"1" * 100_000 + b",0" * 63)), {400}),
    "number_that_is_none": (sized(tensor(b"0x10" + b",0" * 63)), {400}),
    "shape_beyond_64_bits": (sized(BODY.replace(b"[1, 1, 8, 8]", b"[1e30, 1, 8, 8]")), {400}),
    "not_utf_8": (sized(BODY.replace(b'"image"', b'"im\xff\xfeage"')), {400}),
    "half_a_surrogate": (sized(BODY.replace(b'"image"', b'"im\\ud800age"')), {400}),
    "nul_in_a_name": (sized(BODY.replace(b'"image"', b'"im\\u0000age"')), {400}),
    "json_header_longer_than_the_body": (sized(BODY, "Inference-Header-Content-Length: 99999999"), {400}),
    "json_header_is_negative": (sized(BODY, "Inference-Header-Content-Length: -1"), {400}),
}


def status_of(answer):
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else None


@pytest.fixture(scope="module")
def beside(up):
    """A client who means well, all the while; what he was answered."""
    statuses, stop = [], threading.Event()

    def ask():
        while not stop.is_set():
            statuses.append(post(up.http, INFER, json.loads(BODY)).status)

    thread = threading.Thread(target=ask)
    thread.start()
    yield statuses
    stop.set()
    thread.join()
    assert set(statuses) == {200}, statuses


@pytest.mark.parametrize("data,expected", TABLE.values(), ids=TABLE)
def test_abuse(up, beside, data, expected):
    answer = talk(up.http, data)
    assert status_of(answer) in expected, answer[:300]


@pytest.mark.parametrize("name,reason", [("folded_trailer", b"folded"), ("no_name_of_a_trailer", b"no name"), ("bare_cr_of_trailers", b"CR"),
                                         ("folded_encoding", b"folded"), ("chunked_in_http_1_0", b"HTTP/1.0")])
def test_the_reason_is_told(up, beside, name, reason):
    """Of what an empty body would be refused for, too."""
    assert reason in talk(up.http, TABLE[name][0])


def test_smuggled_requests_are_never_answered(up, beside):
    """Behind a message whose end is disputable nothing is read."""
    inner = http(method="GET", path="/v2")
    for front in ("two_lengths", "length_and_chunked", "bare_lf", "bare_lf_at_the_end", "bare_cr_at_the_end", "bare_cr_of_trailers",
                  "chunked_in_http_1_0", "folded", "folded_encoding", "no_name", "space_before_the_colon"):
        got = talk(up.http, TABLE[front][0] + inner)
        assert got.count(b"HTTP/1.1 ") == 1 and status_of(got) == 400, (front, got[:300])


@pytest.mark.data_plane
@pytest.mark.parametrize("garbage", [b"\0" * 4096, b"\xff" * 4096, b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 64])
def test_garbage_at_the_data_plane(up, beside, garbage):
    data = up.gateways[0].get("data")
    if not data:
        pytest.skip("one process has no data plane")
    talk(data, garbage)
    good(up.http)


# ---- gRPC: most of a message, and no more ----

LARGE = 60_000_000


def metric(serve, name):
    with urllib.request.urlopen(f"http://{serve.gateways[0]['metrics']}/metrics") as answer:
        text = answer.read().decode()
    return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.M)[1])


def memory(pid, what):
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(rf"{what}:\s+(\d+) kB", status.read())[1]) * 1024


@pytest.mark.parametrize("stream", [None, MODEL_STREAM_INFER], ids=["unary", "stream"])
def test_half_sent_messages_are_bounded_and_cost_nobody_else(bin_dir, tmp_path, stream):
    serve = Serve(bin_dir, tmp_path / "serve.log", models=patient_models(tmp_path))
    good(serve.http)
    before, answered, stop = memory(serve.pid, "VmHWM"), [], threading.Event()

    def ask():
        with grpc.insecure_channel(serve.grpc) as channel:
            while not stop.is_set():
                channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")(digit_message(), timeout=30)
                answered.append(True)

    thread = threading.Thread(target=ask)
    thread.start()
    message = message_of(LARGE)
    halves = []
    try:
        while len(halves) < 32:  # by and by: what comes between two looks is not held back, however much that is on this machine
            halves += [HalfSent(serve.grpc, message, LARGE - 2_000_000, stream) for _ in range(8)]
            wait_until(lambda: metric(serve, 'fermata_gateway_unfinished_cut_total{reason="full"}') >= len(halves) - 8, "those for which there is no room are cut")
        count = len(answered)
        wait_until(lambda: len(answered) > count + 20, "the other client goes on")
        assert 0 < metric(serve, "fermata_gateway_unfinished_bytes") <= 256 << 20
        assert sum(half.answer.done() and half.answer.code() == grpc.StatusCode.RESOURCE_EXHAUSTED for half in halves) >= 24
        grown = memory(serve.pid, "VmHWM") - before
        assert grown < 24 * LARGE, f"{grown / 1e6:.0f} MB"  # all of them: 32
    finally:
        stop.set()
        thread.join()
        for half in halves:
            half.close()
    wait_until(lambda: memory(serve.pid, "VmRSS") < before + (80 << 20), "the memory is given back")
    assert serve.stop() == 0


def test_half_a_message_that_does_not_get_on_is_ended(bin_dir, tmp_path):
    serve = Serve(bin_dir, tmp_path / "serve.log", "--body-timeout", "300ms", models=patient_models(tmp_path))
    half = HalfSent(serve.grpc, message_of(1_000_000), 500_000)
    assert half.code(30) == grpc.StatusCode.DEADLINE_EXCEEDED
    assert metric(serve, 'fermata_gateway_unfinished_cut_total{reason="slow"}') == 1
    half.close()
    wait_until(lambda: metric(serve, "fermata_gateway_unfinished_bytes") == 0, "nothing is held")
    assert serve.stop() == 0


def test_a_connection_without_calls_is_closed(bin_dir, tmp_path):
    """As one by HTTP is, after --idle-timeout; a stock client makes a new one at its next call."""
    serve = Serve(bin_dir, tmp_path / "serve.log", "--idle-timeout", "300ms", models=patient_models(tmp_path))
    with grpc.insecure_channel(serve.grpc) as channel:
        states = []
        channel.subscribe(states.append)
        infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        infer(digit_message(), timeout=30)
        wait_until(lambda: states[-1] == grpc.ChannelConnectivity.IDLE and grpc.ChannelConnectivity.READY in states, "the server closes it", 60)
        infer(digit_message(), timeout=30)
    assert serve.stop() == 0
