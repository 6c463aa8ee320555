"""Several sub-clusters at once: classes of devices, policies of their own, and what a model does when its sub-cluster goes."""

import json
import subprocess
import threading

import pytest

from client import get
from system import ANY_PORT, Cluster, wait_until


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
    old.write_text("name,alpha_ms,beta_ms,slo_ms,max_batch\nloose,1,20,2000,16\ntight,4,400,5000,16\n")
    new.write_text("name,alpha_ms,beta_ms,slo_ms,max_batch\nloose,0.25,5,2000,16\ntight,1,10,200,16\n")
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
    assert total["outcomes"] == {"ok": total["offered"]}, total
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
    assert total["outcomes"] == {"ok": total["offered"]}, total
    assert subclusters(scheduler)["right"]["requests"] > 0
