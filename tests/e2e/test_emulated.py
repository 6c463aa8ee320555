"""What needs a model that takes a known time: clients that go away, and more load than there is capacity."""

import json
import socket
import subprocess

import pytest

from client import get, post
from system import Up, wait_until

pytestmark = pytest.mark.alone

SLOW_MS = 50


@pytest.fixture(scope="module")
def slow(bin_dir, tmp_path_factory):
    """One emulated GPU; `slow` takes 50 ms whatever the batch, and batches hold one: 20 a second at most."""
    folder = tmp_path_factory.mktemp("slow")
    profile = folder / "profile.csv"
    profile.write_text(f"name,alpha_ms,beta_ms,slo_ms,max_batch\nslow,0,{SLOW_MS},400,1\nquick,0.1,1,200,8\n")
    running = Up(bin_dir, folder / "up.log", "--engine", "emulated", "--profile", profile, models=None)
    yield running
    assert running.stop() == 0, running.log()[-4000:]


def infer_request(up, model):
    metadata = get(up.http, f"/v2/models/{model}").json()
    tensor = metadata["inputs"][0]
    shape = [1 if size < 0 else size for size in tensor["shape"]]
    count = 1
    for size in shape:
        count *= size
    return {"inputs": [{"name": tensor["name"], "shape": shape, "datatype": tensor["datatype"], "data": [0.0] * count}]}


def metric(up, name, **labels):
    """The sum of a metric's series that have these labels."""
    total = 0.0
    for line in get(up.gateways[0]["metrics"], "/metrics").body.decode().splitlines():
        if line.startswith((name + "{", name + " ")) and all(f'{key}="{value}"' in line for key, value in labels.items()):
            total += float(line.rsplit(" ", 1)[1])
    return total


def test_it_takes_its_time(slow):
    import time

    began = time.monotonic()
    answer = post(slow.http, "/v2/models/slow/infer", infer_request(slow, "slow"))
    assert answer.status == 200, answer
    assert time.monotonic() - began >= SLOW_MS / 1e3


def test_a_client_that_goes_away_cancels_its_request(slow):
    host, port = slow.http.rsplit(":", 1)
    text = json.dumps(infer_request(slow, "slow")).encode()
    head = f"POST /v2/models/slow/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n".encode()
    before = metric(slow, "fermata_gateway_requests_total", model="slow", status="cancelled")
    for _ in range(5):
        connection = socket.create_connection((host, int(port)))
        connection.sendall(head + text)
        connection.close()
    wait_until(lambda: metric(slow, "fermata_gateway_requests_total", model="slow", status="cancelled") >= before + 1, "a cancelled request", 10)
    wait_until(lambda: metric(slow, "fermata_gateway_tasks_in_flight") == 0, "no task in flight", 10)
    assert post(slow.http, "/v2/models/slow/infer", infer_request(slow, "slow")).status == 200


def load(bin_dir, up, *flags):
    got = subprocess.run([bin_dir / "fermata-load", "--address", up.http, "--json", *flags], capture_output=True, text=True, timeout=60)
    assert got.returncode == 0, got.stderr
    return json.loads(got.stdout)["total"]


def test_overload_is_answered_and_goodput_stays(bin_dir, slow):
    """Five times the capacity: what cannot be served is refused by its deadline, and the GPU stays busy with the rest."""
    total = load(bin_dir, slow, "--model", "slow:100", "--duration", "3s", "--deadline", "400ms")
    assert set(total["outcomes"]) <= {"ok", "late", "unavailable", "deadline_exceeded"}, total
    assert sum(total["outcomes"].values()) == total["offered"]
    assert total["outcomes"]["ok"] >= 0.6 * 3 * 1000 / SLOW_MS, total
    assert total["outcomes"].get("late", 0) <= 0.05 * total["offered"], total


def test_batches_form_under_load(bin_dir, slow):
    total = load(bin_dir, slow, "--model", "quick", "--concurrency", "32", "--duration", "2s")
    assert total["outcomes"]["ok"] >= 0.9 * total["offered"], total
    assert total["mean_batch"] > 2, total
    assert max(map(int, total["batch_sizes"])) <= 8


def test_refusals_say_when_to_come_back(slow):
    """503 carries Retry-After; 504 is for deadlines alone."""
    import concurrent.futures

    request = {**infer_request(slow, "slow"), "parameters": {"timeout": 300_000}}
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(lambda _: post(slow.http, "/v2/models/slow/infer", request), range(64)))
    assert {answer.status for answer in answers} <= {200, 503, 504}
    assert any(answer.status == 200 for answer in answers) and any(answer.status != 200 for answer in answers)
    for answer in answers:
        if answer.status == 503:
            assert int(answer.headers["Retry-After"]) >= 0, answer


def test_in_overload_low_priorities_are_refused_first(slow):
    """Each priority alone is three quarters of what the GPU can do: of both, the higher is served, the lower gets what is left."""
    import concurrent.futures
    import time

    period_s, seconds = SLOW_MS / 1e3 / 0.75, 8

    def stream(priority):
        request = {**infer_request(slow, "slow"), "parameters": {"timeout": 400_000, "priority": priority}}
        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            pending = []
            for i in range(int(seconds / period_s)):
                time.sleep(max(0, began + i * period_s - time.monotonic()))
                pending.append(pool.submit(post, slow.http, "/v2/models/slow/infer", request))
            return [future.result().status for future in pending]

    with concurrent.futures.ThreadPoolExecutor(2) as both:
        high, low = both.map(stream, [9, 1])  # the low ones come a moment later, which the policy alone would favour
    low, high = low[len(low) // 2:], high[len(high) // 2:]  # once it has seen that there is too much
    assert high.count(200) >= 0.75 * len(high), (high.count(200), low.count(200), len(high))
    assert high.count(200) > 1.5 * low.count(200), (high.count(200), low.count(200), len(high))
