"""Triton's server, as the PyPI package nvidia-pytriton carries it, for benchmarks beside it."""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]


def environment(work, name, requirements):
    """The Python of an environment with what requirements names, made once."""
    folder = work / name
    if not (folder / ".installed").exists():
        subprocess.run([ROOT / "scripts" / "make-venv", folder, ROOT / "tests" / "bench" / requirements], check=True)
    return folder / "bin" / "python"


def packages(python):
    return next((python.parent.parent / "lib").glob("python3*")) / "site-packages"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_ready(address, what, process, work):
    for _ in range(600):
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(f"http://{address}/v2/health/ready") as answer:
                if answer.status == 200:
                    return
        if process.poll() is not None:
            break
        time.sleep(0.1)
    sys.exit(f"{what} does not become ready; see {work}/{what}.log")


@contextlib.contextmanager
def running(work, command, log_name, **more):
    with open(work / f"{log_name}.log", "w") as log:
        process = subprocess.Popen([str(word) for word in command], stderr=log, text=True, start_new_session=True, **more)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def triton(work, python, repository):
    """Serves a repository of Python models; yields its REST and its gRPC address."""
    package = packages(python)
    server = package / "pytriton" / "tritonserver"
    backend = work / "backends" / "python"
    backend.mkdir(parents=True, exist_ok=True)
    stub = server / "python_backend_stubs" / f"{sys.version_info[0]}.{sys.version_info[1]}" / "triton_python_backend_stub"
    for file in [stub, *(server / "backends" / "python").iterdir()]:
        if not (backend / file.name).exists():
            (backend / file.name).symlink_to(file)
    http, grpc, metrics = free_port(), free_port(), free_port()
    command = [server / "bin" / "tritonserver", f"--model-repository={repository}", f"--backend-directory={work}/backends", f"--http-port={http}",
               f"--grpc-port={grpc}", f"--metrics-port={metrics}", "--http-address=127.0.0.1", "--grpc-address=127.0.0.1"]
    libraries = [str(path) for path in package.glob("*.libs")]
    env = dict(os.environ, LD_LIBRARY_PATH=":".join(libraries))
    with running(work, command, "triton", stdout=subprocess.DEVNULL, env=env) as process:
        wait_ready(f"127.0.0.1:{http}", "triton", process, work)
        yield f"127.0.0.1:{http}", f"127.0.0.1:{grpc}"
