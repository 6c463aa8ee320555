"""kill -9 under load: every request has exactly one answer, or its connection broke with its gateway."""

import collections
import http.client
import json
import threading
import time

import pytest

from client import INFER, digit_tensor, get, tensor_request, wait_served_by
from system import port_for_later, wait_until

pytestmark = pytest.mark.data_plane

# Longer than a worker's death takes to be seen, so that what it ran can be granted again. Only for schedulers that do
# not hold a batch for the sake of a larger one: the others would rightly use such a budget up.
LONG_BUDGET_US = 5_000_000
CLIENTS = 6
# How late an answer may be on a busy machine before it counts as lost.
PATIENCE_S = 3


class Load:
    """Clients that each ask one gateway again and again and write down what became of every request."""

    def __init__(self, addresses, budget_us=0):
        self.budget_us = budget_us
        self.stopping = threading.Event()
        self.lock = threading.Lock()
        self.outcomes = {address: collections.Counter() for address in addresses}
        self.faults, self.slowest = [], 0.0
        self.threads = [threading.Thread(target=self._client, args=(addresses[i % len(addresses)], i)) for i in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def _note(self, address, outcome):
        with self.lock:
            self.outcomes[address][outcome] += 1

    def _client(self, address, number):
        host, port = address.rsplit(":", 1)
        connection, count = None, 0
        tensor = digit_tensor("7")
        while not self.stopping.is_set():
            count += 1
            mine = f"{number}-{count}"
            parameters = {"timeout": self.budget_us} if self.budget_us else {}
            body = json.dumps(tensor_request(tensor, id=mine, parameters=parameters))
            began = time.monotonic()
            try:
                connection = connection or http.client.HTTPConnection(host, int(port), timeout=30)
                connection.request("POST", INFER, body)
                answer = connection.getresponse()
                document = json.loads(answer.read())
            except (OSError, http.client.HTTPException):
                self._note(address, "broken")
                if connection:
                    connection.close()
                connection = None
                self.stopping.wait(0.01)
                continue
            self.slowest = max(self.slowest, time.monotonic() - began)
            self._note(address, answer.status)
            # An answer to another request, or a second one, would show up here as a wrong id.
            if answer.status == 200 and (document["id"] != mine or document["outputs"][0]["data"].index(max(document["outputs"][0]["data"])) != 7):
                self.faults.append((mine, document))
            if answer.status != 200 and not document.get("error"):
                self.faults.append((mine, document))

    def answered(self, address=None):
        with self.lock:
            return sum(counter[200] for name, counter in self.outcomes.items() if address in (None, name))

    def wait_more(self, count, address=None):
        """Until so many more requests were answered well."""
        goal = self.answered(address) + count
        wait_until(lambda: self.answered(address) >= goal, f"{count} more answers from {address or 'all'}: {self.outcomes}")

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive(), "a request was never answered"
        assert not self.faults, self.faults[:3]
        assert self.slowest < self.budget_us / 1e6 + PATIENCE_S, f"an answer took {self.slowest:.2f} s"
        return self.outcomes


def serving(gateway):
    return wait_until(lambda: get(gateway.http, "/v2/models/digits/ready").status == 200, "digits is ready")


def test_worker_dies_under_load_and_comes_back(cluster):
    scheduler = cluster.scheduler()
    gateway = cluster.gateway(scheduler)
    first, second = cluster.worker(scheduler), cluster.worker(scheduler)
    serving(gateway)
    load = Load([gateway.http])
    load.wait_more(100)
    first.kill()
    load.wait_more(200)
    # Without any worker requests wait or are refused, each with one answer; the new one is found by itself.
    second.kill()
    third = cluster.worker(scheduler)
    load.wait_more(200)
    outcomes = load.stop()[gateway.http]
    assert outcomes["broken"] == 0, outcomes
    assert set(outcomes) <= {200, 503, 504}, outcomes
    for service in (first, second):
        cluster.running.remove(service)
    assert third.stop() == 0 and gateway.stop() == 0 and scheduler.stop() == 0


def test_one_of_two_workers_dies_and_no_request_is_lost(cluster):
    """What the dead worker ran is granted to the other within the deadline."""
    scheduler = cluster.scheduler("--policy", "eager")
    gateway = cluster.gateway(scheduler)
    workers = [cluster.worker(scheduler), cluster.worker(scheduler)]
    serving(gateway)
    wait_served_by(scheduler, "digits", 2)
    load = Load([gateway.http], LONG_BUDGET_US)
    load.wait_more(100)
    workers[0].kill()
    cluster.running.remove(workers[0])
    load.wait_more(300)
    outcomes = load.stop()[gateway.http]
    assert set(outcomes) == {200}, outcomes


def test_gateway_dies_under_load_and_comes_back(cluster):
    scheduler = cluster.scheduler()
    first, second = cluster.gateway(scheduler), cluster.gateway(scheduler)
    cluster.worker(scheduler)
    serving(first), serving(second)
    load = Load([first.http, second.http])
    load.wait_more(100, first.http)
    load.wait_more(100, second.http)
    first.kill()
    cluster.running.remove(first)
    load.wait_more(200, second.http)
    # The restarted one takes the same address again; its clients go on.
    again = cluster.start("gateway", "--scheduler", scheduler.grpc, "--http-address", first.http, "--grpc-address", first.grpc,
                          "--metrics-address", "127.0.0.1:0", "--data-address", "127.0.0.1:0")
    serving(again)
    load.wait_more(100, first.http)
    outcomes = load.stop()
    assert set(outcomes[second.http]) <= {200, 503, 504}, outcomes
    assert outcomes[second.http][200] >= 0.9 * sum(outcomes[second.http].values()), outcomes
    assert outcomes[first.http]["broken"] > 0
    assert set(outcomes[first.http]) <= {200, 503, 504, "broken"}, outcomes


def test_scheduler_dies_under_load_and_comes_back(cluster):
    """Gateway and worker find the restarted scheduler by themselves; nothing hangs meanwhile."""
    scheduler = cluster.scheduler()
    gateway = cluster.gateway(scheduler)
    cluster.worker(scheduler)
    serving(gateway)
    load = Load([gateway.http])
    load.wait_more(100)
    scheduler.kill()
    cluster.running.remove(scheduler)
    again = cluster.start("scheduler", "--grpc-address", scheduler.grpc, "--http-address", "127.0.0.1:0")
    load.wait_more(100)
    outcomes = load.stop()[gateway.http]
    assert outcomes["broken"] == 0 and set(outcomes) <= {200, 503, 504}, outcomes
    assert again.pid


@pytest.mark.parametrize("order", ["worker first", "gateway first"])
def test_services_start_in_any_order(cluster, order):
    """A gateway or worker that is there before its scheduler waits for it."""
    address = f"127.0.0.1:{port_for_later()}"
    names = ["worker", "gateway"] if order == "worker first" else ["gateway", "worker"]

    class Later:
        grpc = address

    started = {name: getattr(cluster, name)(Later) for name in names}
    cluster.start("scheduler", "--grpc-address", address, "--http-address", "127.0.0.1:0")
    serving(started["gateway"])
