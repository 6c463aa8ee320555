"""Starting and stopping Fermata: as a whole (`fermata up`) or service by service.

Every service listens on ports that the kernel picks and says which in its `ready` line, so that tests never collide
and never sleep: they wait for the line, or for a condition with a deadline.
"""

import json
import os
import pathlib
import queue
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / "examples" / "models"
PICTURES = ROOT / "examples" / "pictures"

START_S = 180  # profiling a model at load takes seconds, on a busy machine a minute
STOP_S = 20
LOOPBACK = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
ANY_PORT = "127.0.0.1:0"


def patient_models(folder):
    """A copy of the example models with an SLO that a busy machine or a sanitizer meets, for tests of what is answered."""
    copy = pathlib.Path(folder) / "models"
    shutil.copytree(MODELS, copy, ignore=shutil.ignore_patterns("profile.*", "__pycache__"))
    config = copy / "digits" / "config.yaml"
    text = config.read_text()
    assert "slo_ms: 100\n" in text
    config.write_text(text.replace("slo_ms: 100\n", "slo_ms: 3000\n"))
    return copy


def port_for_later():
    """A port of the loopback on which nobody listens yet, below those that the kernel picks: what asks for any, a client that tries to
    connect to it included, is not given it meanwhile."""
    picked_from = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(max(1024, picked_from - 10000), picked_from)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue


class Dead(Exception):
    """The process ended, or did not say what it should in time; the message has the end of its log."""


class Process:
    """A child with its stdout as a queue of lines and its stderr in a file."""

    def __init__(self, command, log_path, env=None):
        self.command = [str(word) for word in command]
        self.log_path = pathlib.Path(log_path)
        self.lines = queue.Queue()
        with open(self.log_path, "wb") as log:
            self.child = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                                          env={**os.environ, **(env or {})}, text=True)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.child.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    @property
    def pid(self):
        return self.child.pid

    def log(self):
        return self.log_path.read_text(errors="replace")

    def wait_line(self, matches, seconds=START_S):
        """The first line of stdout for which matches(line) is true."""
        end = time.monotonic() + seconds
        while True:
            try:
                line = self.lines.get(timeout=max(0, end - time.monotonic()))
            except queue.Empty:
                raise Dead(f"{self.command} said nothing fitting in {seconds} s\n{self.log()[-4000:]}") from None
            if line is None:
                raise Dead(f"{self.command} ended with {self.child.wait()}\n{self.log()[-4000:]}")
            if matches(line):
                return line

    def wait_ready(self, matches):
        """As wait_line, for what it says when it has started; a process that has not is ended, with those that it started."""
        try:
            return self.wait_line(matches)
        except Dead:
            self.stop()
            raise

    def wait(self, seconds=STOP_S):
        return self.child.wait(timeout=seconds)

    def kill(self):
        """kill -9, as a crash does."""
        self.child.kill()
        self.child.wait()

    def stop(self, sig=signal.SIGTERM):
        """A clean stop; returns the exit code."""
        if self.child.poll() is None:
            self.child.send_signal(sig)
            try:
                self.child.wait(timeout=STOP_S)
            except subprocess.TimeoutExpired:
                self.kill()
                raise Dead(f"{self.command} did not stop in {STOP_S} s\n{self.log()[-4000:]}") from None
        return self.child.returncode


class Service(Process):
    """One service started by hand; its addresses are attributes (`.http`, `.grpc`, `.metrics`, `.data`)."""

    def __init__(self, command, log_path, env=None):
        super().__init__(command, log_path, env)
        line = self.wait_ready(lambda text: text.startswith("ready "))
        self.ready = json.loads(line.removeprefix("ready "))
        assert self.ready["pid"] == self.pid

    def __getattr__(self, name):
        if name != "ready" and name in self.__dict__.get("ready", {}):
            return self.ready[name]
        raise AttributeError(name)


class Cluster:
    """Services started one by one, for tests that kill and restart them."""

    def __init__(self, bin_dir, folder, models=None):
        self.bin, self.folder, self.count = pathlib.Path(bin_dir), pathlib.Path(folder), 0
        self.running = []
        self.models = models or patient_models(folder)

    def start(self, name, *flags):
        self.count += 1
        service = Service([self.bin / f"fermata-{name}", *flags], self.folder / f"{name}-{self.count}.log")
        self.running.append(service)
        return service

    def scheduler(self, *flags):
        return self.start("scheduler", "--grpc-address", ANY_PORT, "--http-address", ANY_PORT, *flags)

    def gateway(self, scheduler, *flags):
        return self.start("gateway", "--scheduler", scheduler.grpc, "--http-address", ANY_PORT, "--grpc-address", ANY_PORT,
                          "--metrics-address", ANY_PORT, "--data-address", ANY_PORT, *flags)

    def worker(self, scheduler, *flags):
        return self.start("worker", "--scheduler", scheduler.grpc, "--models", self.models, "--metrics-address", ANY_PORT, *flags)

    def stop(self):
        codes = [service.stop() for service in reversed(self.running)]
        self.running.clear()
        return codes


class Up(Process):
    """`fermata up --json`: everything on this machine, ready when the constructor returns."""

    def __init__(self, bin_dir, log_path, *flags, models=MODELS):
        repository = ["--models", models] if models else []
        super().__init__([pathlib.Path(bin_dir) / "fermata", "up", "--json", "--any-port", *repository, *flags], log_path)
        self.ready = json.loads(self.wait_ready(lambda text: text.startswith("{")))
        self.gateways = self.ready["gateways"]
        self.http, self.grpc = self.gateways[0]["http"], self.gateways[0]["grpc"]

    def pids(self):
        return [service["pid"] for service in [self.ready["scheduler"], *self.gateways, *self.ready["workers"]]]


class Serve(Process):
    """`fermata serve --json`: one process that is all of it, told of as `fermata up` is."""

    def __init__(self, bin_dir, log_path, *flags, models=MODELS):
        self.models = models
        repository = ["--models", models] if models else []
        super().__init__([pathlib.Path(bin_dir) / "fermata", "serve", "--json", "--http-address", ANY_PORT, "--grpc-address", ANY_PORT,
                          "--metrics-address", ANY_PORT, *repository, *flags], log_path)
        self.ready = json.loads(self.wait_ready(lambda text: text.startswith("{")))
        self.gateways = self.ready["gateways"]
        self.http, self.grpc = self.gateways[0]["http"], self.gateways[0]["grpc"]

    pids = Up.pids


class ByHand:
    """The services started one by one, told of as `fermata up` tells of them."""

    def __init__(self, bin_dir, log_path, models=MODELS):
        self.cluster = Cluster(bin_dir, pathlib.Path(log_path).parent, models)
        scheduler = self.cluster.scheduler()
        gateway = self.cluster.gateway(scheduler)
        worker = self.cluster.worker(scheduler)
        self.ready = {"scheduler": {"name": "scheduler", **scheduler.ready}, "gateways": [{"name": "gateway-0", **gateway.ready}],
                      "workers": [{"name": "worker-0", **worker.ready}]}
        self.gateways = self.ready["gateways"]
        self.http, self.grpc = self.gateways[0]["http"], self.gateways[0]["grpc"]
        wait_until(lambda: self._is_settled(f"http://{scheduler.http}/state") and self._gateway_is_ready(), "all models")

    def _is_settled(self, url):
        """The worker has told of its models, and each is ready or never will be."""
        models = self._state(url)["models"]
        return models and all(model["ready"] or ": failed" in model["reason"] for model in models)

    @staticmethod
    def _state(url):
        with urllib.request.urlopen(url) as answer:
            return json.load(answer)

    def _gateway_is_ready(self):
        try:
            with urllib.request.urlopen(f"http://{self.http}/v2/health/ready") as answer:
                return answer.status == 200
        except urllib.error.HTTPError:
            return False

    def log(self):
        return "".join(service.log() for service in self.cluster.running)

    def stop(self):
        """The first exit code that is not 0."""
        return next((code for code in self.cluster.stop() if code != 0), 0)

    pids = Up.pids


def wait_until(condition, what, seconds=START_S):
    """Asks until the condition holds; the pause only keeps a loop of requests from eating the CPU."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Dead(f"after {seconds} s still not so: {what}")
        time.sleep(0.02)


def alive(pid):
    """True for a process that runs (a zombie does not)."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def listeners(pid):
    """(address, port) of each TCP socket that a process listens at, as the kernel has them."""
    inodes = set()
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(entry)
        except FileNotFoundError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    found = []
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] != "0A" or fields[9] not in inodes:
                continue
            address, port = fields[1].split(":")
            raw = bytes.fromhex(address)
            words = b"".join(raw[i:i + 4][::-1] for i in range(0, len(raw), 4))
            found.append((socket.inet_ntop(family, words), int(port, 16)))
    return found
