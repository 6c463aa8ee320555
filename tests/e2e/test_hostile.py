"""Peers that lie (tests/hostile/rogue.py), beside those who mean well."""

import pytest

import rogue
from client import get
from system import Cluster, wait_until


@pytest.fixture(scope="module")
def emulated(bin_dir, tmp_path_factory):
    """Scheduler, gateway and worker; `quick` takes 1.1 ms for a row, its SLO is 200 ms."""
    folder = tmp_path_factory.mktemp("hostile")
    profile = folder / "profile.csv"
    profile.write_text("name,alpha_ms,beta_ms,slo_ms,max_batch\nquick,0.1,1,200,8\n")
    cluster = Cluster(bin_dir, folder, models=folder)
    cluster.one = cluster.scheduler()
    cluster.front = cluster.gateway(cluster.one)
    cluster.back = cluster.worker(cluster.one, "--engine", "emulated", "--profile", profile)
    yield cluster
    assert set(cluster.stop()) == {0}


def state(cluster):
    return get(cluster.one.http, "/state").json()


ANSWERS = {"ok": rogue.ok, "failed_rows": rogue.failed_rows, "cancelled": rogue.cancelled, "internal": rogue.internal}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_the_rogues_are_taken_for_peers(emulated, answer):
    """What the other tests rest on: a rogue worker is granted what a rogue gateway asks for, and its answers count."""
    with rogue.Spy(emulated.one.grpc) as gateway, rogue.RogueWorker(emulated.one.grpc, answer) as worker:
        like = gateway.described("quick")
        worker.report(like, name="rogue")
        gateway.described("rogue")
        ids = gateway.submit("rogue")
        wait_until(lambda: worker.grants, "the rogue worker is granted something", 10)
        rows = rogue.rows_of(worker.grants[0])
        assert [(row.task, row.handle_hi) for row in rows] == [(ids[0], gateway.hello.instance_id)]
        assert worker.gateways[rows[0].gateway].data_address == gateway.silence.address
        if answer in (rogue.failed_rows, rogue.internal):
            wait_until(lambda: gateway.drops, "the failure is told", 10)
            assert [drop[0] for drop in gateway.drops] == ids
        assert {"rogue-gateway", "rogue-worker"} <= {peer["name"] for kind in ("gateways", "workers") for peer in state(emulated)[kind]}
    wait_until(lambda: len(state(emulated)["workers"]) == 1, "the rogue is gone", 10)
