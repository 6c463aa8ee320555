"""Peers of the control plane that lie: a worker and a gateway that greet as real ones do and then answer as a test wants.

They speak control.proto by grpcio. The protocol is read from the file itself, so a field that is renamed breaks the tests that use it.
A rogue runs on threads of its own until it is closed; what it was sent is in `heard` and in its own lists, for `wait_until`.
"""

import functools
import itertools
import math
import pathlib
import queue
import random
import socket
import struct
import subprocess
import tempfile
import threading
import time

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PROTOS = pathlib.Path(__file__).resolve().parents[2] / "protos"
NS_PER_MS = 1_000_000
GRANT_ROW_WORDS = 6  # as in protos/grant_rows.h


@functools.cache
def _package(file, package):
    """{name: class or enum} of a .proto of the tree."""
    with tempfile.NamedTemporaryFile(suffix=".set") as out:
        subprocess.run(["protoc", f"-I{PROTOS}", "-I/usr/include", "--include_imports", f"--descriptor_set_out={out.name}", file], check=True)
        files = descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(out.name).read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for proto in files.file:
        pool.Add(proto)
    found = {name: message_factory.GetMessageClass(descriptor)
             for name, descriptor in pool.FindFileByName(file).message_types_by_name.items()}
    values = {value.name: value.number for enum in pool.FindFileByName(file).enum_types_by_name.values() for value in enum.values}
    assert pool.FindFileByName(file).package == package
    return found, values


def message(kind, /, **fields):
    """A message of the control protocol: message("Hello", name="x")."""
    return _package("control.proto", "fermata.control.v1")[0][kind](**fields)


def value(name):
    """The number of an enum's value: value("STATUS_OK")."""
    return _package("control.proto", "fermata.control.v1")[1][name]


class Peer:
    """One stream to the scheduler. `hello` may be changed before connect(); `epoch`, `None` = as the scheduler's, is put in every frame.
    Pings are answered, unless `mute`."""

    method, sends, receives = None, None, None

    def __init__(self, scheduler, name, instance_id=None):
        self.scheduler = scheduler
        self.hello = message("Hello", min_version=1, max_version=1, name=name,
                             instance_id=random.getrandbits(63) | 1 if instance_id is None else instance_id)
        self.epoch, self.mute = None, False
        self.welcome, self.ended = None, None  # the answer to the hello; the grpc.RpcError that ended the stream
        self.heard = []                        # every frame, oldest first
        self._seen_epoch, self._out, self._welcomed = 0, queue.Queue(), threading.Event()
        self._over = threading.Event()

    def connect(self, seconds=10):
        """Greets and waits for the welcome; raises the grpc.RpcError with which the stream ended instead."""
        self.channel = grpc.insecure_channel(self.scheduler)
        out, into = message(self.sends), message(self.receives)
        call = self.channel.stream_stream(f"/fermata.control.v1.Control/{self.method}", request_serializer=type(out).SerializeToString,
                                          response_deserializer=type(into).FromString)
        self.send(hello=self.hello)
        self.stream = call(iter(self._out.get, None))
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()
        assert self._welcomed.wait(seconds), "the scheduler does not answer a hello"
        if self.welcome is None:
            raise self.ended
        return self

    def send(self, **parts):
        """One frame with these parts, as fields of its envelope; its epoch too, where a test gives one."""
        parts.setdefault("epoch", self._seen_epoch if self.epoch is None else self.epoch)
        self._out.put(message(self.sends, **parts))

    def _read(self):
        try:
            for frame in self.stream:
                self._take(frame)
        except grpc.RpcError as error:
            self.ended = error
        finally:
            self._over.set()
            self._welcomed.set()

    def _take(self, frame):
        self._seen_epoch = max(self._seen_epoch, frame.epoch)
        if frame.HasField("welcome"):
            self.welcome = frame.welcome
        if frame.HasField("ping") and not self.mute:
            self.send(pong=message("Pong", sent_ns=frame.ping.sent_ns, held_ns=0))
        self.on_frame(frame)
        self.heard.append(frame)
        if self.welcome is not None:
            self._welcomed.set()

    def on_frame(self, frame):
        """What a subclass does with a frame, on the reading thread."""

    def close(self):
        self._out.put(None)
        if hasattr(self, "stream"):
            self.stream.cancel()
            self.thread.join()
            self.channel.close()

    def __enter__(self):
        return self.connect()

    def __exit__(self, *_):
        self.close()


class Row:
    """One row of a grant, as grant_rows.h lays it out."""

    def __init__(self, words):
        self.task, self.handle_hi, self.handle_lo, self.offset, self.budget_ns, last = words
        self.len, self.gateway = last >> 32, last & 0xFFFFFFFF


def rows_of(grant):
    return [Row(grant.word[i * GRANT_ROW_WORDS:(i + 1) * GRANT_ROW_WORDS]) for i in range(grant.rows)]


class RogueWorker(Peer):
    """A worker that reports what it is told to and answers each grant as `answer(grant)` says: the fields of a BatchDone beside its
    batch and device, or None for no answer at all. It computes, fetches and pushes nothing.

    Ready answers: `ok`, `failed_rows`, `cancelled`, `internal`, `silent`."""

    method, sends, receives = "Worker", "WorkerToScheduler", "SchedulerToWorker"

    def __init__(self, scheduler, answer, name="rogue-worker", devices=1, kind="cpu", **more):
        super().__init__(scheduler, name, **more)
        self.answer = answer
        self.hello.devices.extend(message("Device", name=f"rogue{i}", kind=kind) for i in range(devices))
        self.grants = []          # every grant, oldest first
        self.model_ids = {}       # (name, version) -> catalogue id
        self.commands = []
        self.gateways = {}        # index -> Peer of the peer table

    def on_frame(self, frame):
        self.model_ids.update({(model.name, model.version): model.id for model in frame.model_ids})
        self.gateways.update({peer.index: peer for peer in frame.peers.peers})
        for grant in frame.grants:
            self.grants.append(grant)
            told = self.answer(grant)
            if told is not None:
                self.done(grant, **told)
        for command in frame.commands:
            self.commands.append(command)
            self.send(commands_done=[message("CommandDone", id=command.id)])

    def done(self, grant, **told):
        self.send(done=[message("BatchDone", batch_id=grant.batch_id, device=grant.device, **told)])

    def report(self, like, state="MODEL_STATE_READY", alpha_ns=1e5, beta_ns=1e6, **other):
        """Says that it has the model that `like`, a ModelReport of a real worker's (see Spy), describes; fields in `other` replace its."""
        report = message("ModelReport")
        report.CopyFrom(like)
        report.state, report.reason = value(state), ""
        del report.devices[:]
        report.latency.CopyFrom(message("Latency", alpha_ns=alpha_ns, beta_ns=beta_ns))
        for name, put in other.items():
            setattr(report, name, put)
        self.send(models=[report])

    def rows_granted(self):
        return sum(grant.rows for grant in self.grants)


def ok(grant, exec_ns=NS_PER_MS):
    """The batch ran; its results are never pushed."""
    return dict(status=value("STATUS_OK"), exec_ns=exec_ns, device_ns=exec_ns)


def failed_rows(grant, status="STATUS_TOO_LARGE"):
    """The batch ran, and every row of it failed."""
    return dict(ok(grant), failed_row=range(grant.rows), failed_status=[value(status)] * grant.rows)


def cancelled(grant):
    """As if the gateway had given all of its rows up."""
    return dict(status=value("STATUS_CANCELLED"), reason="given up, as a rogue has it")


def internal(grant):
    return dict(status=value("STATUS_INTERNAL"), reason="as a rogue has it")


def silent(grant):
    """Nothing is heard of the batch again."""
    return None


class Silence:
    """A data plane that accepts every connection, and keeps quiet."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.connections = []
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self):
        try:
            while True:
                self.connections.append(self.listener.accept()[0])
        except OSError:
            pass

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()
        for connection in self.connections:
            connection.close()


ELEMENT_BYTES = {"BOOL": 1, "INT8": 1, "UINT8": 1, "INT16": 2, "UINT16": 2, "FP16": 2, "BF16": 2, "INT64": 8, "UINT64": 8, "FP64": 8}


def item_bytes(report):
    """What the inputs of one row of a model without axes are long; a fetch of another length is refused without asking."""
    return sum(math.prod(tensor.dims) * ELEMENT_BYTES.get(tensor.datatype, 4) for tensor in report.inputs)


class RogueGateway(Peer):
    """A gateway that asks for work and lets nobody have the inputs: its data plane is silent, unless another address is given."""

    method, sends, receives = "Gateway", "GatewayToScheduler", "SchedulerToGateway"

    def __init__(self, scheduler, name="rogue-gateway", data_address=None, **more):
        super().__init__(scheduler, name, **more)
        self.silence = None if data_address else Silence()
        self.hello.data_address = data_address or self.silence.address
        self.models = {}  # name -> CatalogueModel of the newest catalogue, of a version that is ready if there is one
        self.drops = []   # [(task id, status, stage)]
        self._ids = itertools.count(1)

    def on_frame(self, frame):
        if frame.HasField("catalogue"):
            self.models = {model.description.name: model for model in sorted(frame.catalogue.models, key=lambda model: model.ready)}
            self.send(catalogue_seen=frame.catalogue.version)
        self.drops.extend(zip(frame.drops.id, frame.drops.status, frame.drops.stage))

    def submit(self, model, count=1, budget_ns=100 * NS_PER_MS, length=None):
        """So many tasks for a model that the catalogue shows; their ids."""
        ids = list(itertools.islice(self._ids, count))
        length = item_bytes(self.models[model].description) if length is None else length
        self.send(tasks=message("TaskBatch", id=ids, model=[self.models[model].id] * count, budget_ns=[budget_ns] * count,
                                handle_hi=[self.hello.instance_id] * count, handle_lo=ids, offset_bytes=[0] * count, len_bytes=[length] * count))
        return ids

    def close(self):
        super().close()
        if self.silence:
            self.silence.close()


class Spy(RogueGateway):
    """A gateway that only listens: what real workers report is in its catalogue, for a rogue to report the same."""

    def described(self, model, seconds=60):
        """The ModelReport of a model that some worker has ready."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if model in self.models and self.models[model].ready:
                return self.models[model].description
            time.sleep(0.02)
        raise TimeoutError(f"no worker has {model} ready")


# ---- the data plane (libs/transfer/wire.h)

HELLO, FETCH = 1, 3
HELLO_BYTES = 32


def data_frame(kind, records=b"", seq=0, count=1):
    return struct.pack("<HBBIII", 0x4D46, 1, kind, seq, count, 0) + records


def read_exactly(connection, count):
    parts = bytearray()
    while len(parts) < count:
        part = connection.recv(count - len(parts))
        if not part:
            raise ConnectionError("the other side has closed")
        parts += part
    return bytes(parts)


def instance_at(scheduler, data_address):
    """The instance id of the gateway there, which greeting it wants: the scheduler tells it to workers."""
    with RogueWorker(scheduler, silent) as worker:
        end = time.monotonic() + 10
        while time.monotonic() < end:
            found = [peer.instance_id for peer in worker.gateways.values() if peer.data_address == data_address]
            if found:
                return found[0]
            time.sleep(0.02)
    raise TimeoutError(f"the scheduler tells of no gateway at {data_address}")


def data_connection(address, instance_id):
    """A connection to a gateway's data plane that has greeted as a worker does."""
    host, port = address.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)), timeout=30)
    connection.sendall(data_frame(HELLO, struct.pack("<HHIQQQ", 1, 1, 4096, 1 << 26, instance_id, 0)))
    answer = read_exactly(connection, 16 + HELLO_BYTES)
    assert answer[3] == HELLO, f"the gateway does not greet back: {answer!r}"
    return connection


class Steady:
    """Something that is done at a rate, whatever comes of it, until the block ends: the traffic of a peer or a client."""

    def __init__(self, work, per_s):
        self.work, self.pause, self.over = work, 1 / per_s, threading.Event()
        self.results = []
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        due = time.monotonic()
        while not self.over.wait(max(0, due - time.monotonic())):
            self.results.append(self.work())
            due = max(due + self.pause, time.monotonic() - 1)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
