"""`fermata serve --join` at what is no scheduler, or one of another version: told once, borne, and the right one is joined when it comes."""

import concurrent.futures
import contextlib
import http.server
import struct
import threading

import grpc

from client import INFER, digit_tensor, post, tensor_request
from system import ANY_PORT, Serve, port_for_later, wait_until

class Attempts:
    """Counts those of a gateway, from any thread."""

    def __init__(self):
        self.count, self.lock = 0, threading.Lock()

    def __call__(self):
        with self.lock:
            self.count += 1


def welcome(version, epoch):
    """The first frame of a scheduler, to a gateway as to a worker."""
    text = b"\x08" + bytes([version]) + b"\x11" + struct.pack("<Q", 1) + b"\x21" + struct.pack("<q", 100_000_000)
    return b"\x09" + struct.pack("<Q", epoch) + b"\x12" + bytes([len(text)]) + text


@contextlib.contextmanager
def grpc_server(port, answer):
    """A server whose Control service answers each stream with answer(context), an iterator of frames; None: it has no such service."""
    attempts = Attempts()

    def stream(_, context):
        context.send_initial_metadata(())
        yield from answer(context)

    class Handler(grpc.GenericRpcHandler):
        def service(self, call):
            if call.method == "/fermata.control.v1.Control/Gateway":
                attempts()
            return grpc.stream_stream_rpc_method_handler(stream) if answer else None

    server = grpc.server(concurrent.futures.ThreadPoolExecutor(8), handlers=[Handler()], options=[("grpc.so_reuseport", 0)])
    assert server.add_insecure_port(f"127.0.0.1:{port}") == port
    server.start()
    yield attempts
    server.stop(0).wait()


def refuse(context):
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, "control protocol versions do not meet: scheduler speaks 7 to 8, its guest 1 to 1")
    yield b""


def welcome_by_another_version(context):
    """Of an epoch that would make all that comes later look old."""
    yield welcome(9, 1 << 61)
    wait_until(lambda: not context.is_active(), "the guest to leave")


def say_nonsense(context):
    yield b"\xff" * 20
    wait_until(lambda: not context.is_active(), "the guest to leave")


def be_silent(context):
    wait_until(lambda: not context.is_active(), "the guest to leave")
    yield from ()


@contextlib.contextmanager
def web_server(port):
    attempts = Attempts()

    class Handler(http.server.BaseHTTPRequestHandler):
        def handle_one_request(self):
            attempts()
            super().handle_one_request()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield attempts
    server.shutdown()
    thread.join()
    server.server_close()


IMPOSTORS = [
    (web_server, "UNAVAILABLE", "no gRPC server answers at"),
    (lambda port: grpc_server(port, None), "UNIMPLEMENTED", "what answers is no scheduler, or one of another version"),
    (lambda port: grpc_server(port, refuse), "FAILED_PRECONDITION", "scheduler speaks 7 to 8"),
    (lambda port: grpc_server(port, welcome_by_another_version), "FAILED_PRECONDITION", "it speaks version 9 of the control protocol"),
    (lambda port: grpc_server(port, say_nonsense), "INTERNAL", "it says what is no message of the control protocol"),
    (lambda port: grpc_server(port, be_silent), "DEADLINE_EXCEEDED", "nothing was heard of it for 5 s"),
]


def test_impostors_are_told_once_and_borne_and_the_right_one_is_joined(cluster, bin_dir, tmp_path):
    port = port_for_later()
    address = f"127.0.0.1:{port}"
    running = Serve(bin_dir, tmp_path / "serve.log", "--join", address, "--data-address", ANY_PORT, models=cluster.models)

    def ask():
        return post(running.http, INFER, tensor_request(digit_tensor()))

    for impostor, code, words in IMPOSTORS:
        with impostor(port) as asked:
            wait_until(lambda: ask().status == 503 and code in ask().error() and words in ask().error() and address in ask().error(), f"{code}: {words}")
            wait_until(lambda: asked.count >= 2, "another attempt")
        told = [line for line in running.log().splitlines() if "scheduler_away part=gateway" in line and code in line and words in line]
        assert len(told) == 1, told
    assert len([line for line in running.log().splitlines() if "scheduler_away" in line]) <= 2 * len(IMPOSTORS)
    cluster.start("scheduler", "--grpc-address", address, "--http-address", ANY_PORT)
    wait_until(lambda: ask().status == 200, "the right scheduler")
    assert running.stop() == 0
