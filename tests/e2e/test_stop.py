"""A clean stop by either signal, and wrong usage."""

import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading

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


@pytest.mark.data_plane
@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_clean_stop(bin_dir, tmp_path, sig):
    up = Up(bin_dir, tmp_path / "up.log")
    good(up.http)
    pids = up.pids()
    assert all(alive(pid) for pid in pids) and len(pids) >= 3
    assert up.stop(sig) == 0, up.log()
    assert not any(alive(pid) for pid in pids)
    assert not connects(up.http) and not connects(up.grpc)


@pytest.mark.data_plane
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


def is_ready(address):
    return get(address, "/v2/models/digits/ready").status == 200 and get(address, "/v2/health/ready").status == 200


class PatientClient(threading.Thread):
    """Asks on one connection; goes to the next gateway when one cannot be connected to or ends the connection with its answer."""

    def __init__(self, addresses, first):
        super().__init__()
        self.addresses, self.at = addresses, first
        self.statuses, self.lost, self.over = [], [], threading.Event()
        self.start()

    def connect(self):
        while not self.over.is_set():
            connection = http.client.HTTPConnection(self.addresses[self.at % len(self.addresses)], timeout=30)
            try:
                connection.connect()
                return connection
            except OSError:
                self.at += 1
        return None

    def run(self):
        body, connection = json.dumps(tensor_request(digit_tensor())), None
        while not self.over.is_set():
            connection = connection or self.connect()
            if not connection:
                return
            try:
                connection.request("POST", INFER, body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                answer.read()
                self.statuses.append(answer.status)
                ended = answer.will_close
            except OSError as error:
                self.lost.append(repr(error))
                ended = True
            if ended:
                connection.close()
                connection, self.at = None, self.at + 1


@pytest.mark.data_plane
def test_a_rolling_restart_of_two_gateways_loses_nothing(cluster):
    scheduler = cluster.scheduler()
    gateways = [cluster.gateway(scheduler) for _ in range(2)]
    cluster.worker(scheduler)
    addresses = [gateway.http for gateway in gateways]
    for address in addresses:
        wait_until(lambda: is_ready(address), "both gateways")
    clients = [PatientClient(addresses, i) for i in range(6)]
    for gateway in gateways:
        asked = len(clients[0].statuses)
        wait_until(lambda: len(clients[0].statuses) > asked + 20, "requests under way")
        cluster.running.remove(gateway)
        assert gateway.stop() == 0
        again = cluster.gateway(scheduler, "--http-address", gateway.http)
        wait_until(lambda: is_ready(again.http), "the new one")
    for client in clients:
        client.over.set()
        client.join()
    assert [client.lost for client in clients] == [[]] * 6
    assert {status for client in clients for status in client.statuses} == {200}


@pytest.mark.data_plane
def test_a_gateway_that_stops_says_so_first(cluster):
    scheduler = cluster.scheduler()
    gateway = cluster.gateway(scheduler, "--drain-delay", "3s")
    cluster.worker(scheduler)
    wait_until(lambda: is_ready(gateway.http), "the gateway")
    connection = http.client.HTTPConnection(gateway.http, timeout=30)
    body = json.dumps(tensor_request(digit_tensor()))

    def ask():
        connection.request("POST", INFER, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        return answer

    assert not ask().will_close
    os.kill(gateway.pid, signal.SIGTERM)
    wait_until(lambda: get(gateway.http, "/v2/health/ready").status != 200, "not ready")
    assert get(gateway.http, "/v2/health/live").status == 200
    answer = ask()
    assert answer.status == 200 and answer.will_close
    cluster.running.remove(gateway)
    assert gateway.wait(60) == 0
