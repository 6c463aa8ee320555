"""Several sub-clusters at once: classes of devices, policies of their own, and what a model does when its sub-cluster goes."""

import json
import subprocess
import threading

import pytest

from client import get
from system import ANY_PORT, Cluster, wait_until

pytestmark = pytest.mark.alone


def emulated(cluster, scheduler, name, profile, *flags):
    return cluster.start("worker", "--scheduler", scheduler.grpc, "--engine", "emulated", "--profile", profile, "--metrics-address",
                         ANY_PORT, "--name", name, *flags)


def state(scheduler):
    return json.loads(get(scheduler.http, "/state").body)


def subclusters(scheduler):
    return {sub["name"]: sub for sub in state(scheduler)["subclusters"]}


def homes(scheduler):
    return {model["name"]: model["subcluster"] for model in state(scheduler)["models"]}


def admin(bin_dir, scheduler, *words):
    got = subprocess.run([bin_dir / "fermata", "cluster", *words, "--scheduler", scheduler.grpc], capture_output=True, text=True, timeout=30)
    return got.returncode, got.stdout + got.stderr


def load(bin_dir, gateway, *flags):
    got = subprocess.run([bin_dir / "fermata-load", "--address", gateway.http, "--json", *flags], capture_output=True, text=True, timeout=120)
    assert got.returncode == 0, got.stderr
    return json.loads(got.stdout)


def assert_none_failed(total):
    """An answer that is late tells how busy the host is; one that failed, what the system did."""
    assert total["outcomes"].get("ok", 0) + total["outcomes"].get("late", 0) == total["offered"] > 0, total


def metric(scheduler, name, **labels):
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    for line in get(scheduler.http, "/metrics").body.decode().splitlines():
        if line.startswith(name + "{") and all(word in line for word in wanted):
            return float(line.rsplit(" ", 1)[1])
    return None


@pytest.fixture
def two(bin_dir, tmp_path):
    """Class `old` takes four times as long as class `new`; `tight` can only be served by the new one."""
    running = Cluster(bin_dir, tmp_path)
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    old.write_text("name,alpha_ms,beta_ms,slo_ms,max_batch\nloose,1,20,10000,16\ntight,4,400,5000,16\n")
    new.write_text("name,alpha_ms,beta_ms,slo_ms,max_batch\nloose,0.25,5,10000,16\ntight,1,10,200,16\n")
    # The SLO in use is that of the first report: the new class is there first.
    scheduler = running.scheduler("--autoscale-window", "1s", "--subclusters", "left=old:1:eager", "--subclusters", "right=new:1:deferred")
    gateway = running.gateway(scheduler)
    running.new = emulated(running, scheduler, "new-1", new, "--device-class", "new", "--devices", "2")
    wait_until(lambda: homes(scheduler).get("tight") == "right", "tight is served")
    running.old = emulated(running, scheduler, "old-1", old, "--device-class", "old", "--devices", "2")
    wait_until(lambda: all(model["workers"] == 2 for model in state(scheduler)["models"]), "both workers have both models")
    yield running, scheduler, gateway
    for service in reversed(running.running):
        service.stop()


def test_two_policies_at_once_and_a_switch_under_load(bin_dir, two):
    _, scheduler, gateway = two
    assert {name: sub["policy"] for name, sub in subclusters(scheduler).items()} == {"left": "eager", "right": "deferred"}
    assert homes(scheduler) == {"loose": "left", "tight": "right"}
    results = []
    loader = threading.Thread(target=lambda: results.append(
        load(bin_dir, gateway, "--model", "loose:60", "--model", "tight:60", "--duration", "4s", "--deadline", "2s")))
    loader.start()
    policies = ["fermata", "timeout", "nexus", "shepherd", "clockwork", "eager"]
    while loader.is_alive():
        for policy in policies:
            code, said = admin(bin_dir, scheduler, "policy", policy, "--subcluster", "left")
            assert code == 0 and "left" in said, said
            now = subclusters(scheduler)
            assert (now["left"]["policy"], now["right"]["policy"]) == (policy, "deferred")
    loader.join()
    total = results[0]["total"]
    assert_none_failed(total)
    code, said = admin(bin_dir, scheduler, "status")
    assert code == 0 and said.startswith("policy various "), said
    assert [line for line in said.splitlines() if line.startswith("left ")][0].split()[1:3] == ["old", "eager"]
    assert metric(scheduler, "fermata_scheduler_devices", subcluster="left", state="free") == 2
    assert metric(scheduler, "fermata_subcluster_models", subcluster="right") == 1


def test_a_policy_for_all_and_a_name_that_is_none(bin_dir, two):
    _, scheduler, _ = two
    code, said = admin(bin_dir, scheduler, "policy", "eager", "--subcluster", "middle")
    assert code == 1 and "middle" in said, said
    code, said = admin(bin_dir, scheduler, "policy", "nonsense", "--subcluster", "left")
    assert code == 1 and "nonsense" in said, said
    assert {name: sub["policy"] for name, sub in subclusters(scheduler).items()} == {"left": "eager", "right": "deferred"}
    assert admin(bin_dir, scheduler, "policy", "timeout", "k_ms=5")[0] == 0
    assert {sub["policy"] for sub in subclusters(scheduler).values()} == {"timeout"}


def test_a_model_moves_when_its_sub_cluster_dies(bin_dir, two):
    """`loose` is served by the old devices; when their worker is killed the new ones take over, running batches included."""
    running, scheduler, gateway = two
    results = []
    loader = threading.Thread(target=lambda: results.append(
        load(bin_dir, gateway, "--model", "loose:60", "--duration", "4s", "--deadline", "2s")))
    loader.start()
    wait_until(lambda: subclusters(scheduler)["left"]["requests"] > 20, "requests on the left")
    running.old.kill()
    wait_until(lambda: homes(scheduler)["loose"] == "right", "loose has moved")
    loader.join()
    total = results[0]["total"]
    assert_none_failed(total)
    assert subclusters(scheduler)["right"]["requests"] > 0


@pytest.fixture
def one(bin_dir, tmp_path):
    """`unit` takes 20 ms a request whatever happens: a device serves 50 a second. Advice every half second."""
    running = Cluster(bin_dir, tmp_path)
    running.profile = tmp_path / "unit.csv"
    running.profile.write_text("name,alpha_ms,beta_ms,slo_ms,max_batch\nunit,0,20,200,1\n")
    scheduler = running.scheduler("--autoscale-window", "500ms")
    gateway = running.gateway(scheduler)
    emulated(running, scheduler, "w-0", running.profile, "--devices", "2")
    wait_until(lambda: homes(scheduler).get("unit") == "emulated", "unit is served")
    yield running, scheduler, gateway
    for service in reversed(running.running):
        service.stop()


def test_the_desired_number_of_devices_follows_the_load(bin_dir, one):
    """Three times what two devices carry: about six are wanted. Then nothing: one is enough. Metric, state and CLI agree."""
    _, scheduler, gateway = one
    loader = threading.Thread(target=lambda: load(bin_dir, gateway, "--model", "unit:300", "--duration", "4s", "--deadline", "200ms"))
    loader.start()
    wait_until(lambda: subclusters(scheduler)["emulated"]["desired"] >= 4, "more devices are wanted", 10)
    assert metric(scheduler, "fermata_desired_gpus", subcluster="emulated") >= 4
    assert metric(scheduler, "fermata_subcluster_bad_rate", subcluster="emulated") > 0.2
    line = [line for line in admin(bin_dir, scheduler, "status")[1].splitlines() if line.startswith("emulated ")][0].split()
    assert int(line[5]) >= 4, line
    loader.join()
    wait_until(lambda: subclusters(scheduler)["emulated"]["desired"] == 1, "fewer devices are wanted", 20)
    assert metric(scheduler, "fermata_subcluster_idle_fraction", subcluster="emulated") > 0.9


def test_workers_join_and_leave_under_load(bin_dir, one):
    """One joins, one is drained to its end, one gets SIGTERM: both end with 0, and no request fails."""
    running, scheduler, gateway = one
    results = []
    loader = threading.Thread(target=lambda: results.append(
        load(bin_dir, gateway, "--model", "unit:50", "--duration", "6s", "--deadline", "3s")))
    loader.start()
    first = running.running[-1]
    second = emulated(running, scheduler, "w-1", running.profile, "--devices", "2")
    wait_until(lambda: len(state(scheduler)["workers"]) == 2 and state(scheduler)["models"][0]["workers"] == 2, "the second has joined")
    code, said = admin(bin_dir, scheduler, "drain", "w-0", "--exit")
    assert code == 0 and "will end" in said, said
    assert first.wait() == 0, first.log()
    third = emulated(running, scheduler, "w-2", running.profile, "--devices", "2")
    wait_until(lambda: any(worker["name"] == "w-2" for worker in state(scheduler)["workers"]) and state(scheduler)["models"][0]["workers"] == 2,
               "the third has joined")
    assert second.stop() == 0, second.log()
    loader.join()
    total = results[0]["total"]
    assert_none_failed(total)
    assert all(worker["batches_total"] > 0 for worker in state(scheduler)["workers"] if worker["name"] == "w-2")
    running.running.remove(first), running.running.remove(second)
    assert third.child.poll() is None


def test_a_batch_that_does_not_end_is_given_back(bin_dir, one):
    """A worker that is told to stop waits for its batches no longer than it may; the request is served by the other."""
    running, scheduler, gateway = one
    long = running.folder / "long.csv"
    long.write_text("name,alpha_ms,beta_ms,slo_ms,max_batch\nlong,0,1500,20000,1\n")
    stopped = emulated(running, scheduler, "w-long", long, "--device-class", "long", "--drain-timeout", "100ms")
    wait_until(lambda: homes(scheduler).get("long") == "long", "long is served")
    results = []
    loader = threading.Thread(target=lambda: results.append(load(bin_dir, gateway, "--model", "long", "--concurrency", "1", "--requests", "1")))
    loader.start()
    wait_until(lambda: any(worker["name"] == "w-long" and worker["batches_total"] == 1 for worker in state(scheduler)["workers"]), "it runs")
    emulated(running, scheduler, "w-long-2", long, "--device-class", "long")
    wait_until(lambda: [m["workers"] for m in state(scheduler)["models"] if m["name"] == "long"] == [2], "another has joined")
    assert stopped.stop() == 0, stopped.log()
    running.running.remove(stopped)
    loader.join()
    assert results[0]["total"]["outcomes"] == {"ok": 1}, results[0]["total"]
