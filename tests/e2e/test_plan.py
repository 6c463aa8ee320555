"""The running cluster plans itself: models are spread over sub-clusters by their load, without a failed request."""

import json
import subprocess
import threading

import pytest

from system import Cluster, wait_until
from test_clusters import admin, assert_none_failed, emulated, homes, load, state, subclusters

pytestmark = pytest.mark.alone

MODELS = ["m0", "m1", "m2", "m3"]


def plan(bin_dir, scheduler, verb):
    got = subprocess.run([bin_dir / "fermata", "plan", verb, "--scheduler", scheduler.grpc], capture_output=True, text=True, timeout=60)
    return got.returncode, got.stdout + got.stderr


def copies(scheduler):
    return {model["name"]: model["workers"] for model in state(scheduler)["models"]}


def cluster_of(bin_dir, tmp_path, *flags, memory=None):
    """Two sub-clusters of one worker each; every model takes 10 ms a request. m0 and m2 start on one of them, m1 and m3 on the other."""
    running = Cluster(bin_dir, tmp_path)
    profile = tmp_path / "models.csv"
    profile.write_text("name,alpha_ms,beta_ms,slo_ms,max_batch\n" + "".join(f"{name},0,10,1000,1\n" for name in MODELS))
    scheduler = running.scheduler("--subclusters", "a=emulated", "--subclusters", "b=emulated", "--autoscale-window", "1s", *flags)
    gateway = running.gateway(scheduler)
    limit = ["--memory-limit", memory] if memory else []
    emulated(running, scheduler, "w-a", profile, *limit)
    wait_until(lambda: subclusters(scheduler)["a"]["devices"] == 1, "the first worker is in a")
    wait_until(lambda: copies(scheduler) == {name: 1 for name in MODELS}, "a has all models")
    emulated(running, scheduler, "w-b", profile, *limit)
    wait_until(lambda: copies(scheduler) == {name: 2 for name in MODELS}, "b has them too")
    return running, scheduler, gateway


def stop(running):
    for service in reversed(running.running):
        service.stop()


@pytest.fixture
def lopsided(bin_dir, tmp_path):
    running, scheduler, gateway = cluster_of(bin_dir, tmp_path, "--plan-interval", "0", "--plan-limit", "200ms")
    yield running, scheduler, gateway
    stop(running)


def test_an_imbalance_is_mended_under_load(bin_dir, lopsided):
    _, scheduler, gateway = lopsided
    before = homes(scheduler)
    shared = [name for name in MODELS if before[name] == before["m0"]]
    assert len(shared) == 2, before
    hot = [flag for name in MODELS for flag in ("--model", f"{name}:{20 if name in shared else 1}")]
    results = []
    loader = threading.Thread(target=lambda: results.append(load(bin_dir, gateway, *hot, "--duration", "8s", "--deadline", "1s")))
    loader.start()
    wait_until(lambda: sum(sub["requests"] for sub in subclusters(scheduler).values()) > 160, "some load was measured")
    code, said = plan(bin_dir, scheduler, "show")
    assert code == 0 and "models would move" in said, said  # one of the hot ones, and perhaps an idle one for the memory
    assert homes(scheduler) == before, "show changes nothing"
    code, said = plan(bin_dir, scheduler, "apply")
    assert code == 0 and "begin to move" in said, said
    wait_until(lambda: state(scheduler)["moving"] == 0 and homes(scheduler) != before, "a model has moved")
    after = homes(scheduler)
    assert after[shared[0]] != after[shared[1]], (before, after)
    moved = [name for name in MODELS if after[name] != before[name]]
    wait_until(lambda: all(copies(scheduler)[name] == 1 for name in moved), "the old copies are unloaded")
    loader.join()
    total = results[0]["total"]
    assert_none_failed(total)
    made = state(scheduler)["plan"]
    # Rates of some 70 requests a hot model are off by an eighth each by chance.
    assert made["applied"] and made["imbalance_after"] < 0.6 < 1 < made["imbalance_before"], made
    # Back again: what was unloaded is loaded before traffic moves.
    hot = [flag for name in MODELS for flag in ("--model", f"{name}:{20 if after[name] == after[moved[0]] else 1}")]
    again = []
    loader = threading.Thread(target=lambda: again.append(load(bin_dir, gateway, *hot, "--duration", "6s", "--deadline", "1s")))
    loader.start()
    wait_until(lambda: sum(model["granted"] for model in state(scheduler)["models"]) > 0, "it runs")
    requests = sum(sub["requests"] for sub in subclusters(scheduler).values())
    wait_until(lambda: sum(sub["requests"] for sub in subclusters(scheduler).values()) > requests + 60, "more load was measured")
    assert plan(bin_dir, scheduler, "apply")[0] == 0
    loader.join()
    assert_none_failed(again[0]["total"])


def test_it_plans_by_itself_and_leaves_well_alone(bin_dir, tmp_path):
    """Every second: the imbalance goes, and then nothing moves any more."""
    running, scheduler, gateway = cluster_of(bin_dir, tmp_path, "--plan-interval", "1s", "--plan-limit", "200ms")
    try:
        before = homes(scheduler)
        shared = [name for name in MODELS if before[name] == before["m0"]]
        hot = [flag for name in MODELS for flag in ("--model", f"{name}:{20 if name in shared else 1}")]
        results = []
        loader = threading.Thread(target=lambda: results.append(load(bin_dir, gateway, *hot, "--duration", "10s", "--deadline", "5s")))
        loader.start()

        def apart():
            now = homes(scheduler)  # one look: two of them may lie on both sides of a move
            return now[shared[0]] != now[shared[1]]

        wait_until(lambda: apart() or not loader.is_alive(), "the hot ones are apart")
        assert apart(), state(scheduler)["plan"]
        settled = state(scheduler)["plan"]["number"]
        wait_until(lambda: state(scheduler)["plan"]["number"] >= settled + 3 or not loader.is_alive(), "further plans")
        assert apart(), state(scheduler)["plan"]
        loader.join()
        total = results[0]["total"]
        assert_none_failed(total)
    finally:
        stop(running)


@pytest.mark.parametrize("ends", ["well", "badly"])
def test_the_solver_is_a_process_of_its_own_and_may_crash(bin_dir, tmp_path, ends):
    """The plan is made either way; a solver that crashes costs only what it might have found."""
    ran = tmp_path / "ran"
    solver = tmp_path / "solver"
    then = f"exec {bin_dir / 'fermata-plan-solver'}" if ends == "well" else "kill -SEGV $$"
    solver.write_text(f"#!/bin/sh\necho once >> {ran}\n{then}\n")
    solver.chmod(0o755)
    running, scheduler, gateway = cluster_of(bin_dir, tmp_path, "--plan-interval", "0", "--plan-limit", "300ms", "--plan-solver", solver)
    try:
        before = homes(scheduler)
        shared = [name for name in MODELS if before[name] == before["m0"]]
        hot = [flag for name in MODELS for flag in ("--model", f"{name}:{20 if name in shared else 1}")]
        total = load(bin_dir, gateway, *hot, "--duration", "2s", "--deadline", "5s")["total"]
        assert_none_failed(total)
        code, said = plan(bin_dir, scheduler, "apply")
        assert code == 0 and "begin to move" in said, said
        wait_until(lambda: state(scheduler)["moving"] == 0 and homes(scheduler) != before, "a model has moved")
        assert ran.read_text() == "once\n"
        assert ("plan_solver reason=" in scheduler.log()) == (ends == "badly"), scheduler.log()
    finally:
        stop(running)


def test_one_sub_cluster_has_nothing_to_plan(bin_dir, tmp_path):
    running = Cluster(bin_dir, tmp_path)
    try:
        profile = tmp_path / "one.csv"
        profile.write_text("name,alpha_ms,beta_ms,slo_ms,max_batch\nm0,0,10,1000,1\n")
        scheduler = running.scheduler()
        emulated(running, scheduler, "w", profile)
        wait_until(lambda: homes(scheduler).get("m0"), "m0 is served")
        code, said = plan(bin_dir, scheduler, "apply")
        assert code == 0 and "no class of devices has two sub-clusters" in said, said
        assert plan(bin_dir, scheduler, "perhaps")[0] == 2
    finally:
        stop(running)


def offline(bin_dir, planner, models, *flags):
    return subprocess.run([bin_dir / "fermata", "plan", planner, "--models", models, *flags], capture_output=True, text=True, timeout=60)


def test_a_herd_plan_is_what_a_scheduler_starts_with(bin_dir, tmp_path):
    """Groups become sub-clusters of their sizes with the policy shepherd, and each model is served by its group."""
    models, config, profile = tmp_path / "models.csv", tmp_path / "scheduler.yaml", tmp_path / "profile.csv"
    rates = {"m0": 150, "m1": 40, "m2": 30, "m3": 20}
    models.write_text("name,rate,memory,alpha_ms,beta_ms,slo_ms\n" + "".join(f"{name},{rate},100MB,1,4,100\n" for name, rate in rates.items()))
    profile.write_text("name,alpha_ms,beta_ms,slo_ms,max_batch\n" + "".join(f"{name},1,4,1000,16\n" for name in rates))
    got = offline(bin_dir, "herd", models, "--gpus", "3", "--groups", "2", "--group-gpus-max", "2", "--gpu-memory", "300MB", "--json", "--config-out", config,
                  "--device-class", "emulated")
    assert got.returncode == 0, got.stderr
    groups = {f"group-{group['group']}": group for group in json.loads(got.stdout)["groups"]}
    assert len(groups) == 2 and sorted(group["gpus"] for group in groups.values()) == [1, 2], groups
    running = Cluster(bin_dir, tmp_path)
    try:
        scheduler = running.scheduler("--config", config)
        for i in range(3):
            emulated(running, scheduler, f"w-{i}", profile)
        wait_until(lambda: {name: sub["devices"] for name, sub in subclusters(scheduler).items()} == {name: group["gpus"] for name, group in groups.items()},
                   "each group has its devices")
        assert all(sub["policy"] == "shepherd" for sub in subclusters(scheduler).values())
        wanted = {name: where for where, group in groups.items() for name in group["models"]}
        wait_until(lambda: homes(scheduler) == wanted, f"the models are where the plan has them: {wanted}")
    finally:
        stop(running)


def test_a_packing_has_no_sub_clusters(bin_dir, tmp_path):
    models = tmp_path / "models.csv"
    models.write_text("name,rate,memory,alpha_ms,beta_ms,slo_ms\nm0,50,100MB,1,4,100\n")
    got = offline(bin_dir, "nexus", models, "--config-out", tmp_path / "scheduler.yaml")
    assert got.returncode == 1 and "--config-out" in got.stderr and not (tmp_path / "scheduler.yaml").exists(), got.stderr
    got = offline(bin_dir, "partition", models, "--config-out", tmp_path / "no" / "scheduler.yaml")
    assert got.returncode == 1 and "cannot write" in got.stderr, got.stderr
