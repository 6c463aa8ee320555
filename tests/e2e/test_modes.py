"""Execution modes in the running system: each serves, and does what it is for."""

import concurrent.futures
import json
import shutil
import subprocess

import numpy as np
import pytest

from client import INFER, digit_tensor, get, post, tensor_request
from system import Up, patient_models, wait_until


def metric(address, name, **labels):
    """The sum of a metric's series that have these labels."""
    total = 0.0
    for line in get(address, "/metrics").body.decode().splitlines():
        if line.startswith((name + "{", name + " ")) and all(f'{key}="{value}"' in line for key, value in labels.items()):
            total += float(line.rsplit(" ", 1)[1])
    return total


def infer(up, model, rows):
    """One request; row i holds rows[i] sixteen times, and comes back as it is from an emulated model."""
    data = [float(value) for value in rows for _ in range(16)]
    tensor = {"name": "input", "shape": [len(rows), 16], "datatype": "FP32", "data": data}
    answer = post(up.http, f"/v2/models/{model}/infer", {"inputs": [tensor]})
    if answer.status == 200:
        assert answer.json()["outputs"][0]["data"] == data
    return answer


def emulated(bin_dir, folder, lines, *flags):
    profile = folder / "profile.csv"
    profile.write_text("name,alpha_ms,beta_ms,slo_ms,max_batch\n" + "\n".join(lines) + "\n")
    return Up(bin_dir, folder / "up.log", "--engine", "emulated", "--profile", profile, *flags, models=None)


def test_shepherd_stops_a_running_batch(bin_dir, tmp_path):
    """A request that holds the device for 600 ms, then one of eight rows that cannot wait for it: both are answered in time."""
    up = emulated(bin_dir, tmp_path, ["slow,0,600,10000,1", "quick,0.1,5,300,16"], "--mode", "preempt", "--policy", "shepherd")
    worker, scheduler = up.ready["workers"][0]["metrics"], up.ready["scheduler"]["http"]
    try:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            slow = pool.submit(infer, up, "slow", [3])
            wait_until(lambda: metric(scheduler, "fermata_scheduler_tasks_total", model="slow", outcome="granted") == 1, "slow runs", 10)
            answer = infer(up, "quick", range(8))
            assert answer.status == 200, answer
            assert slow.result().status == 200, slow.result()
        assert metric(worker, "fermata_worker_revocations_total", outcome="stopped") == 1
        assert metric(scheduler, "fermata_scheduler_revoked_batches_total", model="slow", outcome="stopped") == 1
        assert metric(worker, "fermata_worker_stopped_seconds_count", model="slow") == 1
    finally:
        assert up.stop() == 0, up.log()


def load(bin_dir, up, *flags):
    got = subprocess.run([bin_dir / "fermata-load", "--address", up.http, "--json", *flags], capture_output=True, text=True, timeout=60)
    assert got.returncode == 0, got.stderr
    return json.loads(got.stdout)["total"]


@pytest.mark.parametrize("policy", ["eager", "deferred", "fermata"])
def test_staged_serves_and_rows_join_running_batches(bin_dir, tmp_path, policy):
    """A batch takes 40 ms and more, so that requests come while one runs; eager starts before there are many."""
    up = emulated(bin_dir, tmp_path, ["m,2,40,500,16"], "--mode", "staged", "--policy", policy)
    worker, scheduler = up.ready["workers"][0]["metrics"], up.ready["scheduler"]["http"]
    try:
        total = load(bin_dir, up, "--model", "m:100", "--duration", "2s", "--seed", "3")
        assert total["outcomes"].get("ok", 0) >= 0.95 * total["offered"], total
        assert sum(total["outcomes"].values()) == total["offered"], total
        joined = metric(worker, "fermata_worker_stretches_total", outcome="joined")
        assert joined <= metric(scheduler, "fermata_scheduler_stretches_total", model="m")
        if policy == "eager":
            assert joined >= 5
            assert metric(worker, "fermata_worker_staged_stretched_rows_total", model="m") >= joined
        assert metric(worker, "fermata_worker_mode_refusals_total") == 0
        assert infer(up, "m", range(5)).status == 200
    finally:
        assert up.stop() == 0, up.log()


def digits(folder, *lines):
    """The example model alone, with more lines in its config and an SLO for busy machines."""
    models = patient_models(folder)
    for other in models.iterdir():
        if other.name != "digits":
            shutil.rmtree(other)
    config = models / "digits" / "config.yaml"
    config.write_text(config.read_text() + "\n".join(lines) + "\n")
    return models


def test_staged_splits_where_parts_cost_no_more(bin_dir, tmp_path):
    models = digits(tmp_path, "mode: staged", "staged: {stages: 3, split_slack: 9}", "emulate: {alpha_ms: 1, beta_ms: 10}")
    up = Up(bin_dir, tmp_path / "up.log", "--engine", "emulated", models=models)
    worker = up.ready["workers"][0]["metrics"]
    try:
        picture = digit_tensor("7")
        answer = post(up.http, INFER, tensor_request(np.concatenate([picture] * 4)))
        assert answer.status == 200, answer
        assert metric(worker, "fermata_worker_staged_splits_total", model="digits") >= 1
    finally:
        assert up.stop() == 0, up.log()


@pytest.mark.parametrize("lines, said", [
    (["mode: stagged"], "stagged"),
    (["staged: {stages: 1}"], "stages"),
    (["staged: {schedule: mine}"], "mine"),
    (["staged: {speed: 3}"], "speed"),
])
def test_a_bad_mode_in_a_config_is_told_with_its_line(bin_dir, tmp_path, lines, said):
    models = digits(tmp_path, *lines)
    got = subprocess.run([bin_dir / "fermata", "up", "--any-port", "--models", models, "--ready-timeout", "20s"], capture_output=True, text=True, timeout=60)
    assert got.returncode == 1, got.stderr
    assert "config.yaml" in got.stderr and said in got.stderr, got.stderr[-2000:]


def test_a_bad_mode_of_the_worker_is_refused(bin_dir):
    for program, words in (("fermata-worker", []), ("fermata", ["up"])):
        got = subprocess.run([bin_dir / program, *words, "--mode", "fast", "--models", "examples/models"], capture_output=True, text=True, timeout=30)
        assert got.returncode == 2 and "fast" in got.stderr and "preempt" in got.stderr, got.stderr
