"""Every policy serves, and one takes over from another while requests are under way."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import termios
import threading

import pytest

from client import good
from system import PICTURES, Up, patient_models

pytestmark = pytest.mark.alone

POLICIES = ["fermata", "deferred", "eager", "timeout", "clockwork", "shepherd", "nexus"]


def cluster(bin_dir, up, *words):
    """`fermata cluster …`: exit code and all that it printed."""
    got = subprocess.run([bin_dir / "fermata", "cluster", *words, "--scheduler", up.ready["scheduler"]["grpc"]],
                         capture_output=True, text=True, timeout=30)
    return got.returncode, got.stdout + got.stderr


def load(bin_dir, up, *flags):
    got = subprocess.run([bin_dir / "fermata-load", "--address", up.http, "--model", "digits", "--pictures", PICTURES, "--json", *flags],
                         capture_output=True, text=True, timeout=60, check=True)
    return json.loads(got.stdout)["total"]


@pytest.mark.parametrize("policy", POLICIES)
def test_each_policy_serves(bin_dir, tmp_path, policy):
    up = Up(bin_dir, tmp_path / "up.log", "--workers", "2", "--policy", policy)
    try:
        code, said = cluster(bin_dir, up, "status")
        assert code == 0 and said.startswith(f"policy {policy} "), said
        code, said = cluster(bin_dir, up, "status", "--json")
        state = json.loads(said)
        assert code == 0 and state["policy"] == policy and len(state["workers"]) == 2 and state["models"][0]["name"] == "digits", said
        assert state["models"][0]["ready"] is True and set(POLICIES) <= set(state["policies"]), said
        total = load(bin_dir, up, "--rate", "100", "--duration", "1s", "--seed", "7")
        # Half would be a policy that does not work; how many are late on a busy host says nothing about it.
        assert total["outcomes"].get("ok", 0) >= 0.5 * total["offered"], total
        assert sum(total["outcomes"].values()) == total["offered"], total
    finally:
        assert up.stop() == 0, up.log()


def test_a_policy_takes_over_without_losing_requests(bin_dir, tmp_path):
    up = Up(bin_dir, tmp_path / "up.log", "--workers", "2")
    try:
        totals = []
        loader = threading.Thread(target=lambda: totals.append(load(bin_dir, up, "--rate", "100", "--duration", "2s", "--deadline", "2s")))
        loader.start()
        while loader.is_alive():
            for policy in [*POLICIES[1:], POLICIES[0]]:
                code, said = cluster(bin_dir, up, "policy", policy)
                assert code == 0, said
        loader.join()
        total = totals[0]
        assert total["outcomes"].get("ok", 0) >= 0.95 * total["offered"], total
        assert sum(total["outcomes"].values()) == total["offered"], total
    finally:
        assert up.stop() == 0, up.log()


def test_a_wrong_policy_changes_nothing(bin_dir, up):
    if "grpc" not in up.ready["scheduler"]:
        pytest.skip("one process has no port for admin calls")
    before = cluster(bin_dir, up, "status")[1].split()[1]
    code, said = cluster(bin_dir, up, "policy", "nonsense")
    assert code == 1 and "nonsense" in said
    code, said = cluster(bin_dir, up, "policy", "timeout", "k_ms=x")
    assert code == 1 and "k_ms" in said
    assert cluster(bin_dir, up, "policy", "timeout", "k_ms")[0] != 0
    assert cluster(bin_dir, up, "status")[1].split()[1] == before
    good(up.http)


def test_a_wrong_policy_at_the_start_is_said(bin_dir):
    got = subprocess.run([bin_dir / "fermata-scheduler", "--policy", "nonsense", "--grpc-address", "127.0.0.1:0", "--http-address",
                          "127.0.0.1:0"], capture_output=True, text=True, timeout=30)
    assert got.returncode in (1, 2) and "nonsense" in got.stderr


def test_a_drained_worker_gets_nothing_and_the_other_serves(bin_dir, tmp_path):
    up = Up(bin_dir, tmp_path / "up.log", "--workers", "2", models=patient_models(tmp_path))
    try:
        assert cluster(bin_dir, up, "drain", "worker-1")[0] == 0
        for _ in range(20):
            good(up.http)
        lines = {line.split()[0]: line.split() for line in cluster(bin_dir, up, "status")[1].splitlines() if line.startswith("worker-")}
        assert lines["worker-1"][1] == "draining" and lines["worker-1"][3] == "0", lines
        assert int(lines["worker-0"][3]) >= 1, lines
        assert cluster(bin_dir, up, "resume", "worker-1")[0] == 0
        assert cluster(bin_dir, up, "drain", "nobody")[0] == 1
    finally:
        assert up.stop() == 0, up.log()


def on_terminal(columns, *words):
    """What a program writes to a terminal so wide."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    subprocess.run(words, stdout=slave, stderr=subprocess.DEVNULL, timeout=30, check=True)
    os.close(slave)
    said = b""
    while True:
        try:
            said += os.read(master, 4096)
        except OSError:  # nobody holds the other end
            os.close(master)
            return said.decode().splitlines()


def test_status_fits_a_terminal(bin_dir, tmp_path):
    up = Up(bin_dir, tmp_path / "up.log")
    try:
        words = [bin_dir / "fermata", "cluster", "status", "--scheduler", up.ready["scheduler"]["grpc"]]
        models = {columns: next(line for line in on_terminal(columns, *words) if line.startswith("MODEL")).split() for columns in (40, 80, 200)}
        assert models[40] == ["MODEL", "VERSION", "STATE", "WORKERS", "MEMORY"]
        assert models[80][-1] == "DROPPED" and models[200][-1] == "SUBCLUSTER"
        lines = on_terminal(80, *words)
        assert max(map(len, lines)) <= 80, lines
    finally:
        assert up.stop() == 0, up.log()
