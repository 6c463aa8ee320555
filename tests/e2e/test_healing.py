"""What Fermata believes heals by itself: a host that stood still, clients whose deadlines nobody could keep."""

import os
import signal
import time

import pytest

import rogue
from client import get, post
from system import Up, wait_until
from test_emulated import infer_request

pytestmark = pytest.mark.alone

NO_PAUSE = 10_000  # a second: more than one after the other are ever answered


@pytest.fixture(scope="module")
def quick(bin_dir, tmp_path_factory):
    """One emulated GPU; a row takes 11 ms, and the model's SLO is 250 ms."""
    folder = tmp_path_factory.mktemp("quick")
    profile = folder / "profile.csv"
    profile.write_text("name,alpha_ms,beta_ms,slo_ms,max_batch\nquick,1,10,250,8\n")
    running = Up(bin_dir, folder / "up.log", "--engine", "emulated", "--profile", profile, models=None)
    running.body = infer_request(running, "quick")
    yield running
    assert running.stop() == 0, running.log()[-4000:]


def ask(up, **parameters):
    return post(up.http, "/v2/models/quick/infer", dict(up.body, parameters=parameters))


def test_a_host_that_stood_still_locks_nobody_out(quick):
    """Gateway and worker stand still six times for a quarter of a second. What is short of its deadline is served soon after, and
    not when 256 pings later the last stall is forgotten."""
    victims = [service["pid"] for service in quick.gateways + quick.ready["workers"]]
    with rogue.Steady(lambda: ask(quick), NO_PAUSE), rogue.Steady(lambda: ask(quick), NO_PAUSE):
        for _ in range(6):
            time.sleep(0.5)
            for victim in victims:
                os.kill(victim, signal.SIGSTOP)
            time.sleep(0.25)
            for victim in victims:
                os.kill(victim, signal.SIGCONT)
    began = time.monotonic()
    wait_until(lambda: ask(quick, timeout=50000).status == 200, "a request of 50 ms is answered", 10)
    print(f"after {time.monotonic() - began:.2f} s")


def test_a_client_that_asks_for_what_cannot_be_costs_nobody_an_answer(quick):
    """A microsecond is less than any model takes: that is no overload, and nobody is refused for it."""
    with rogue.Steady(lambda: ask(quick, timeout=1), 50) as liar, rogue.Steady(lambda: ask(quick, priority=1), NO_PAUSE) as better:
        answers = [ask(quick).status for _ in range(120)]
    assert liar.results and {answer.status for answer in liar.results} == {504}
    assert "the deadline cannot be met" in liar.results[0].error()
    assert 503 not in answers, answers
    assert 503 not in {answer.status for answer in better.results}

    def counted():
        return next(m for m in get(quick.ready["scheduler"]["http"], "/state").json()["models"] if m["name"] == "quick")["infeasible"]

    # Gateways tell of what they refused by themselves when the scheduler says something the next time.
    wait_until(lambda: counted() >= len(liar.results), f"{len(liar.results)} are counted as infeasible", 10)
