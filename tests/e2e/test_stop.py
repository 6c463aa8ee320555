"""A clean stop by either signal, and wrong usage."""

import os
import pathlib
import signal
import socket
import subprocess

import pytest

from client import INFER, digit_tensor, get, good, post, tensor_request
from system import Up, alive, wait_until


def connects(address):
    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
        return True
    except OSError:
        return False


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_clean_stop(bin_dir, tmp_path, sig):
    up = Up(bin_dir, tmp_path / "up.log")
    good(up.http)
    pids = up.pids()
    assert all(alive(pid) for pid in pids) and len(pids) >= 3
    assert up.stop(sig) == 0, up.log()
    assert not any(alive(pid) for pid in pids)
    assert not connects(up.http) and not connects(up.grpc)


def test_a_dead_service_is_told_and_the_rest_goes_on(bin_dir, tmp_path):
    """Nothing is restarted silently: a service that dies is told, the others serve, the stop is clean."""
    up = Up(bin_dir, tmp_path / "up.log", "--workers", "2")
    good(up.http)
    pids = up.pids()
    os.kill(up.ready["workers"][0]["pid"], signal.SIGKILL)
    wait_until(lambda: "the rest goes on" in up.log(), "the death is told")
    # The other worker may still have been loading when the first one was ready.
    wait_until(lambda: get(up.http, "/v2/models/digits/ready").status == 200, "the other worker has the model")
    good(up.http)
    assert up.stop() == 0, up.log()
    assert not any(alive(pid) for pid in pids)


def test_a_port_in_use_is_an_error(bin_dir, up, tmp_path):
    """A second gateway on the same port ends with 1 and names the address."""
    got = subprocess.run([bin_dir / "fermata-gateway", "--http-address", up.http, "--grpc-address", "127.0.0.1:0", "--data-address",
                          "127.0.0.1:0", "--metrics-address", "127.0.0.1:0"], capture_output=True, text=True, timeout=30)
    assert got.returncode == 1
    assert up.http.rsplit(":", 1)[1] in got.stderr
    assert post(up.http, INFER, tensor_request(digit_tensor())).status == 200


PROGRAMS = ["fermata", "fermata-gateway", "fermata-scheduler", "fermata-worker", "fermata-load"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_version_and_usage(bin_dir, program):
    path = pathlib.Path(bin_dir) / program

    def run(*flags):
        return subprocess.run([path, *flags], capture_output=True, text=True, timeout=30)

    helped = run("--help")
    assert helped.returncode == 0 and program in helped.stdout
    version = run("--version")
    assert version.returncode == 0 and any(c.isdigit() for c in version.stdout)
    wrong = run("--no-such-option")
    assert wrong.returncode == 2 and "no-such-option" in wrong.stderr and wrong.stdout == ""
