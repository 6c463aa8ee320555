"""Clients of gRPC who send most of a message, and no more."""

import contextlib
import socket
import threading

import grpc
import numpy
import tritonclient.grpc as triton

from client import digit_tensor

MODEL_INFER = "/inference.GRPCInferenceService/ModelInfer"
MODEL_STREAM_INFER = "/inference.GRPCInferenceService/ModelStreamInfer"


class HalfSent:
    """A stock client behind a proxy that passes on so many bytes, and then nothing more of what the client sends: of a ModelInfer, or of the first
    message of a stream of that method."""

    def __init__(self, address, message, passed, stream=None):
        host, port = address.rsplit(":", 1)
        self.server = socket.create_connection((host, int(port)), timeout=30)
        self.server.settimeout(None)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.left, self.held, self.over = passed, threading.Event(), threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.listener.getsockname()[1]}",
                                             [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)])
        if stream:
            self.answer = self.channel.stream_stream(stream)(self._one_and_wait(message), wait_for_ready=True)
        else:
            self.answer = self.channel.unary_unary(MODEL_INFER).future(message, wait_for_ready=True)

    def _one_and_wait(self, message):
        yield message
        self.over.wait()

    def _accept(self):
        self.client, _ = self.listener.accept()
        threading.Thread(target=self._back, daemon=True).start()
        try:
            while self.left > 0 and (data := self.client.recv(min(self.left, 1 << 18))):
                self.server.sendall(data)
                self.left -= len(data)
        except OSError:
            pass
        self.held.set()

    def _back(self):
        try:
            while data := self.server.recv(1 << 16):
                self.client.sendall(data)
        except OSError:
            pass

    def code(self, seconds):
        """What the call ends with."""
        return self.answer.code() if self.answer.exception(timeout=seconds) else None

    def close(self):
        self.over.set()
        self.channel.close()
        for end in (self.server, self.client):  # a thread that reads one keeps it open until it is shut down
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self.listener.close()


def message_of(bytes_):
    """A ModelInfer request of about so many bytes."""
    request = triton.service_pb2.ModelInferRequest(model_name="digits")
    request.raw_input_contents.append(bytes(bytes_))
    return request.SerializeToString()


def digit_message():
    """A ModelInfer request that is answered."""
    tensor = triton.InferInput("image", [1, 1, 8, 8], "FP32")
    tensor.set_data_from_numpy(numpy.asarray(digit_tensor("7"), numpy.float32).reshape(1, 1, 8, 8))
    request = triton.service_pb2.ModelInferRequest(model_name="digits")
    request.inputs.append(tensor._get_tensor())
    request.raw_input_contents.append(tensor._get_content())
    return request.SerializeToString()
