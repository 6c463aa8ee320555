"""Execution modes in the running system: each serves, and does what it is for."""

import concurrent.futures
import json
import math
import shutil
import subprocess
import time

import numpy as np
import pytest
import shape_models
import tritonclient.http as httpclient

from client import INFER, digit_tensor, get, post, tensor_request, wait_served_by
from system import MODELS, Up, patient_models, wait_until


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


@pytest.mark.parametrize("policy", ["shepherd", "fermata"])
@pytest.mark.alone
def test_a_running_batch_is_stopped(bin_dir, tmp_path, policy):
    """A request that holds the device for 3 s, then one of eight rows that cannot wait so long: both are answered in time. Their SLOs are
    those of a busy host: what counts is that the second is shorter than the first one runs."""
    up = emulated(bin_dir, tmp_path, ["slow,0,3000,60000,1", "quick,0.1,5,2000,16"], "--mode", "preempt", "--policy", policy)
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


@pytest.mark.alone
def test_a_policy_that_never_stops_a_batch_is_named(bin_dir, tmp_path):
    up = emulated(bin_dir, tmp_path, ["quick,100,5,2000,16"], "--mode", "preempt", "--policy", "deferred")
    try:
        assert infer(up, "quick", [1]).status == 200
        assert up.log().count("policy_never_stops") == 1, up.log()
    finally:
        assert up.stop() == 0, up.log()


def load(bin_dir, up, *flags):
    got = subprocess.run([bin_dir / "fermata-load", "--address", up.http, "--json", *flags], capture_output=True, text=True, timeout=60)
    assert got.returncode == 0, got.stderr
    return json.loads(got.stdout)["total"]


@pytest.mark.parametrize("policy", ["eager", "deferred", "fermata"])
@pytest.mark.alone
def test_staged_serves_and_rows_join_running_batches(bin_dir, tmp_path, policy):
    """A batch takes 40 ms and more, so that requests come while one runs; eager starts before there are many."""
    up = emulated(bin_dir, tmp_path, ["m,2,40,3000,16"], "--mode", "staged", "--policy", policy)
    worker, scheduler = up.ready["workers"][0]["metrics"], up.ready["scheduler"]["http"]
    try:
        total = load(bin_dir, up, "--model", "m:100", "--duration", "2s", "--seed", "3")
        assert total["outcomes"].get("ok", 0) >= 0.5 * total["offered"], total  # how many are late on a busy host says nothing
        assert sum(total["outcomes"].values()) == total["offered"], total
        joined = metric(worker, "fermata_worker_stretches_total", outcome="joined")
        assert joined <= metric(scheduler, "fermata_scheduler_stretches_total", model="m")
        if policy == "eager":
            assert joined >= 5
            assert metric(worker, "fermata_worker_staged_stretched_rows_total", model="m") >= joined
        assert metric(worker, "fermata_worker_mode_refusals_total") == 0
        assert get(scheduler, "/state").json()["models"][0]["mode"] == "staged"
        assert infer(up, "m", range(5)).status == 200
    finally:
        assert up.stop() == 0, up.log()


def test_a_device_that_threads_cannot_drive_is_refused_with_what_can(bin_dir, tmp_path, monkeypatch):
    monkeypatch.setenv("FERMATA_SHARDS", "1")
    up = emulated(bin_dir, tmp_path, ["m,2,40,3000,16"], "--mode", "staged")
    try:
        refused = [line for line in up.log().splitlines() if "device_refused" in line]
        assert len(refused) == 1 and "start the scheduler with --shards 0" in refused[0], up.log()
        assert infer(up, "m", [1]).status in (503, 504)
    finally:
        assert up.stop() == 0, up.log()


@pytest.mark.alone
def test_a_deferred_batch_leaves_time_for_rows_that_join(bin_dir, tmp_path):
    """Six devices, so that one is free when a batch is due. It is let go in time for what comes during its first stage; held until one row
    more could not come, as before devices that run whole batches, it would leave 1 ms for a stage of 38."""
    expect_joins(bin_dir, tmp_path, "deferred")


def expect_joins(bin_dir, folder, policy):
    up = emulated(bin_dir, folder, ["m,1,150,280,32"], "--mode", "staged", "--policy", policy, "--gpus", "6")
    worker, scheduler = up.ready["workers"][0]["metrics"], up.ready["scheduler"]["http"]
    try:
        total = load(bin_dir, up, "--model", "m:80", "--duration", "4s", "--seed", "3")
        assert sum(total["outcomes"].values()) == total["offered"], total
        granted = metric(scheduler, "fermata_scheduler_stretches_total", model="m")
        joined = metric(worker, "fermata_worker_stretches_total", outcome="joined")
        assert granted >= joined >= 5, (granted, joined, total)
        assert metric(worker, "fermata_worker_staged_stretched_rows_total", model="m") >= joined
    finally:
        assert up.stop() == 0, up.log()


@pytest.mark.alone
def test_fermata_leaves_time_for_rows_that_join(bin_dir, tmp_path):
    expect_joins(bin_dir, tmp_path, "fermata")


def scheduled_digits(folder, schedule):
    """Whole batches take 20 ms and more; the SLO is for a busy host."""
    models = patient_models(folder)
    for other in models.iterdir():
        if other.name != "digits":
            shutil.rmtree(other)
    lines = ["max_batch: 8", "slo_ms: 5000", "mode: staged", f"staged: {{{schedule}}}", "emulate: {alpha_ms: 2, beta_ms: 20}"]
    (models / "digits" / "config.yaml").write_text("\n".join(lines) + "\n")
    return models


@pytest.mark.parametrize("policy", ["deferred", "fermata"])
@pytest.mark.alone
def test_deferred_batches_run_side_by_side(bin_dir, tmp_path, policy):
    """Four full batches of requests are there all the time, so that one is granted while another runs, however long it was deferred."""
    up = Up(bin_dir, tmp_path / "up.log", "--engine", "emulated", "--policy", policy, models=scheduled_digits(tmp_path, "schedule: input"))
    worker = up.ready["workers"][0]["metrics"]
    try:
        total = load(bin_dir, up, "--model", "digits", "--concurrency", "32", "--duration", "2s")
        assert set(total["outcomes"]) == {"ok"}, total
        batches, beside = (metric(worker, f"fermata_worker_staged_{which}_total", model="digits") for which in ("batches", "beside_batches"))
        assert batches > beside >= 5
        assert metric(worker, "fermata_worker_batches_total", status="failed") == 0, up.log()
    finally:
        assert up.stop() == 0, up.log()


@pytest.mark.parametrize("schedule, does", [
    ("schedule: input", "beside_batches"),
    ("schedule: load", "stretched_rows"),
    ("schedule: load, comp_wait_ms: 200", "stretched_rows"),
])
@pytest.mark.alone
def test_a_schedule_named_in_the_config_is_what_runs(bin_dir, tmp_path, schedule, does):
    """The scheduler grants more than the device runs, and what comes of it is the schedule's: batches side by side, or rows that join."""
    up = Up(bin_dir, tmp_path / "up.log", "--engine", "emulated", "--policy", "eager", models=scheduled_digits(tmp_path, schedule))
    worker = up.ready["workers"][0]["metrics"]
    try:
        for _ in range(5):  # on a busy host the clients can fall into step
            total = load(bin_dir, up, "--model", "digits", "--concurrency", "6", "--duration", "2s")
            assert set(total["outcomes"]) == {"ok"}, total
            if (done := metric(worker, f"fermata_worker_staged_{does}_total", model="digits")) >= 5:
                break
        assert done >= 5, up.log()
        assert metric(worker, "fermata_worker_batches_total", status="failed") == 0, up.log()
        busy = metric(worker, "fermata_worker_device_busy_seconds_total")
        assert 0.5 < busy < time.time() - metric(worker, "fermata_start_time_seconds"), "each moment counts once"
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


@pytest.mark.alone
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


@pytest.mark.parametrize("staged, stages", [
    ("{stages: 3}", 3),
    ("{stages: 3, schedule: load}", 3),
    ("{stages: 3, split_slack: 9}", 3),
    ("{}", 4),
])
def test_the_number_of_stages_is_told_whoever_decides_what_joins(bin_dir, tmp_path, staged, stages):
    models = digits(tmp_path, "mode: staged", f"staged: {staged}", "emulate: {alpha_ms: 1, beta_ms: 10}")
    up = Up(bin_dir, tmp_path / "up.log", "--engine", "emulated", models=models)
    try:
        for told in (up.ready["models"][0], get(up.ready["scheduler"]["http"], "/state").json()["models"][0]):
            assert (told["mode"], told["stages"], told["exit_points"]) == ("staged", stages, 0)
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


# ---- overlap ----

UNITS, HIDDEN = 32, 3


def overlap_plan(path, device, models, ns, rows_max=64):
    """A plan that predicts the same duration for every group: models is [(name, segments, hash, lengths)], the last where rows differ."""
    lines = ["fermata-overlap 3", f"device {device}", f"rows_max {rows_max}"]
    for name, segments, digest, *lengths in models:
        lines += [f"model {name} 1 {segments} {digest}", f"lengths {lengths[0] if lengths else '1 1 -'}"]
    lines += ["places index"]
    widths = [5 * len(models)] + [UNITS] * HIDDEN
    weights = ["0 " * (width + 1) for width in widths for _ in range(UNITS)][:UNITS * HIDDEN]
    lines += ["weights " + "\n".join(weights), "0 " * UNITS + str(math.log(ns))]
    path.write_text("\n".join(lines) + "\n")
    return path


EMULATED_SEGMENTS = 16


@pytest.mark.alone
def test_overlap_runs_two_models_side_by_side(bin_dir, tmp_path):
    plan = overlap_plan(tmp_path / "plan", "emulated", [("a", EMULATED_SEGMENTS, "-"), ("b", EMULATED_SEGMENTS, "-")], 30e6)
    up = emulated(bin_dir, tmp_path, ["a,1,20,500,8", "b,1,30,500,8"], "--mode", "overlap", "--policy", "eager", f"--worker-flags=--overlap-plan={plan}")
    worker = up.ready["workers"][0]["metrics"]
    try:
        total = load(bin_dir, up, "--model", "a:60", "--model", "b:60", "--duration", "2s", "--seed", "3")
        assert total["outcomes"].get("ok", 0) >= 0.5 * total["offered"], total
        assert sum(total["outcomes"].values()) == total["offered"], total
        groups = metric(worker, "fermata_worker_overlap_groups_total")
        assert metric(worker, "fermata_worker_overlap_shared_groups_total") >= 3, groups
        assert metric(worker, "fermata_worker_overlap_parts_total") > groups
        assert metric(worker, "fermata_worker_mode_refusals_total") == 0
        assert infer(up, "a", range(3)).status == 200 and infer(up, "b", range(4)).status == 200
    finally:
        assert up.stop() == 0, up.log()


@pytest.mark.alone
def test_overlap_answers_what_is_through_before_its_group_ends(bin_dir, tmp_path):
    """While a long batch runs another and a short one come, which are the next group."""
    plan = overlap_plan(tmp_path / "plan", "emulated", [(name, EMULATED_SEGMENTS, "-") for name in ("long", "short")], 30e6)
    up = emulated(bin_dir, tmp_path, ["long,1,400,5000,8", "short,1,20,5000,8"], "--mode", "overlap", "--policy", "eager",
                  f"--worker-flags=--overlap-plan={plan}")

    def ended_at(model):
        assert infer(up, model, [1]).status == 200
        return time.monotonic()

    try:
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            asked = []
            for model in ("long", "long", "short"):
                asked.append(pool.submit(ended_at, model))
                time.sleep(0.05)
            first, second, short = (answer.result() for answer in asked)
        assert metric(up.ready["workers"][0]["metrics"], "fermata_worker_overlap_shared_groups_total") == 1
        assert first < short < second - 0.2, (short - first, second - first)
    finally:
        assert up.stop() == 0, up.log()


@pytest.mark.alone
def test_overlap_drops_what_it_cannot_end_in_time_and_says_where(bin_dir, tmp_path):
    """The plan believes in ten seconds for everything: the scheduler grants, the controller of the worker gives up."""
    plan = overlap_plan(tmp_path / "plan", "emulated", [("a", EMULATED_SEGMENTS, "-")], 10e9)
    up = emulated(bin_dir, tmp_path, ["a,1,5,500,8"], "--mode", "overlap", f"--worker-flags=--overlap-plan={plan}")
    try:
        answer = infer(up, "a", [1])
        assert answer.status == 504, answer
        assert metric(up.ready["workers"][0]["metrics"], "fermata_worker_overlap_dropped_batches_total", model="a") >= 1
    finally:
        assert up.stop() == 0, up.log()


@pytest.mark.parametrize("content, said", [
    (None, "fermata profile --overlap"),
    ("fermata-overlap 3\ndevice x\n", "the file ends here"),
    ("fermata-overlap 2\ndevice x\nrows_max 8\nlength_max 1\n", "of another version"),
    ("fermata-overlap 3\ndevice x\nrows_max 8\nmodel a 1 3 -\nplaces time\n", "'lengths' is expected"),
    ("fermata-overlap 3\ndevice x\nrows_max 8\nmodel a 1 3 -\nlengths 9 8 4\n", "these are no lengths"),
    ("fermata-overlap 3\ndevice x\nrows_max 8\nmodel a 1 3 -\nlengths 1 1 -\nplaces time\npassed 0.9 0.2\n", "falls"),
    ("fermata-overlap 3\ndevice x\nrows_max 8\nmodel a 1 3 -\nlengths 1 1 -\nplaces there\n", "by time or by index"),
    ("other", "no overlap plan"),
    ([("a", EMULATED_SEGMENTS, "-")], "another device"),
    ([("z", EMULATED_SEGMENTS, "-")], "is not in the overlap plan"),
    ([("a", 5, "-")], "another file"),
    ([("a", EMULATED_SEGMENTS, "-", "8 96 48")], "nothing but its batch varies"),
    ([("a", EMULATED_SEGMENTS, "-")], "batches of 4 rows at most"),
    ([("a", EMULATED_SEGMENTS, "-"), ("b", EMULATED_SEGMENTS, "-")], "2 models side by side"),
])
def test_overlap_without_its_plan_runs_whole(bin_dir, tmp_path, content, said):
    flags = ["--mode", "overlap"]
    if isinstance(content, list):
        device, rows = "x" if said == "another device" else "emulated", 4 if "4 rows" in said else 64
        flags += ["--overlap-plan", overlap_plan(tmp_path / "plan", device, content, 1e6, rows), "--worker-flags=--streams=1"]
    elif content:
        (tmp_path / "plan").write_text(content)
        flags += ["--overlap-plan", tmp_path / "plan"]
    up = emulated(bin_dir, tmp_path, ["a,1,5,3000,8"], *flags)
    try:
        assert infer(up, "a", range(4)).status == 200
        assert metric(up.ready["workers"][0]["metrics"], "fermata_worker_mode_refusals_total", model="a", mode="overlap", reason="predictor") == 1
        refusals = [line for line in up.log().splitlines() if "mode_refused" in line]
        assert len(refusals) == 1 and said in refusals[0], refusals
        model = get(up.ready["scheduler"]["http"], "/state").json()["models"][0]
        assert model["mode"] == "whole" and said in model["mode_reason"], model
        told = up.ready["models"][0]
        assert (told["state"], told["mode"]) == ("ready", "whole") and said in told["mode_reason"], told
        loaded = [line for line in up.log().splitlines() if "model_loaded" in line]
        assert "mode=whole" in loaded[0] and said in loaded[0], loaded
    finally:
        assert up.stop() == 0, up.log()


@pytest.mark.alone
def test_a_plan_of_other_models_too_counts_for_those_that_it_has(bin_dir, tmp_path):
    """Of {a, b}, where {a, c} are deployed: nobody asks for b, and nothing is known of c."""
    plan = overlap_plan(tmp_path / "plan", "emulated", [("a", EMULATED_SEGMENTS, "-"), ("b", EMULATED_SEGMENTS, "-")], 30e6)
    up = emulated(bin_dir, tmp_path, ["a,1,5,3000,8", "c,1,5,3000,8"], "--mode", "overlap", f"--worker-flags=--overlap-plan={plan}")
    try:
        told = {model["name"]: (model["mode"], model["mode_reason"]) for model in up.ready["models"]}
        assert told == {"a": ("overlap", ""), "c": ("whole", "c is not in the overlap plan")}
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda i: infer(up, "ac"[i % 2], range(1 + i % 3)).status, range(24)))
        assert set(answers) == {200}, answers
        worker = up.ready["workers"][0]["metrics"]
        groups, parts = (metric(worker, f"fermata_worker_overlap_{what}_total") for what in ("groups", "parts"))
        assert parts >= 1 and groups == parts, "those of a"
    finally:
        assert up.stop() == 0, up.log()


@pytest.mark.alone
def test_emulated_models_overlap_by_what_was_profiled(bin_dir, tmp_path):
    """Profiled, and served by the plan that lies beside them then: nobody names it."""
    models = tmp_path / "models"
    for name in ("a", "b", "c"):
        shutil.copytree(MODELS / "digits", models / name, ignore=shutil.ignore_patterns("profile.*"))
        (models / name / "config.yaml").write_text("max_batch: 8\nslo_ms: 3000\nemulate: {alpha_ms: 0.05, beta_ms: 0.4}\n")
    done = subprocess.run([bin_dir / "fermata", "profile", "--engine", "emulated", "--overlap", *models.iterdir(), "--groups", "60", "--json"],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    for pair in json.loads(done.stdout)["pairs"]:
        error = pair["error"]
        assert (error["repeated"] is None) == (error["least"] is None) == (error["repeated_groups"] == 0), pair
    up = Up(bin_dir, tmp_path / "up.log", "--engine", "emulated", "--mode", "overlap", models=models)
    try:
        assert {(model["name"], model["mode"], model["mode_reason"]) for model in up.ready["models"]} == {(name, "overlap", "") for name in "abc"}
    finally:
        assert up.stop() == 0, up.log()


def ask(client, model, tensors):
    inputs = []
    for name, value in tensors.items():
        inputs.append(httpclient.InferInput(name, list(value.shape), {"int64": "INT64", "float32": "FP32"}[str(value.dtype)]))
        inputs[-1].set_data_from_numpy(value)
    return client.async_infer(model, inputs)


def arrays_of(requests):
    """Of each request its outputs by their names."""
    results = [request.get_result() for request in requests]
    return [{output["name"]: result.as_numpy(output["name"]) for output in result.get_response()["outputs"]} for result in results]


def same(got, expected):
    for answer, want in zip(got, expected, strict=True):
        assert answer.keys() == want.keys()
        for name, value in want.items():
            assert answer[name].shape == value.shape
            np.testing.assert_allclose(answer[name], value, atol=1e-4)


def foretell(bin_dir, models, plan, ns, *flags):
    """Profiles these models for overlap, and has the plan foretell `ns` for everything, alone or together: so that they share groups
    however busy the host is. Returns what was said of the profile."""
    done = subprocess.run([bin_dir / "fermata", "profile", "--overlap", *models, "--groups", "60", "--out", plan, "--json", *flags],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = [line.split(" ", 1) for line in plan.read_text().splitlines()]
    named = [line.split() for word, line in lines if word == "model"]
    lengths = [line for word, line in lines if word == "lengths"]
    overlap_plan(plan, dict(lines)["device"],
                 [(name, segments, digest, *length) for (name, _, segments, digest), *length in zip(named, lengths, strict=True)], ns)
    return json.loads(done.stdout)


@pytest.mark.alone
def test_overlap_of_two_real_models_answers_as_whole(bin_dir, tmp_path):
    """Two attentions of some milliseconds a batch, each asked by many at once, side by side on one CPU device."""
    models, plan = tmp_path / "models", tmp_path / "plan"
    models.mkdir()
    lengths = {"long": 128, "short": 48}
    for name, length in lengths.items():
        shape_models.attention(models, name, "max_batch: 8\nslo_ms: 20000\n", more_layers=20, sequence=length)
    foretell(bin_dir, [models / name for name in lengths], plan, 5e6)

    def answers(up):
        client = httpclient.InferenceServerClient(up.http, concurrency=16)
        return arrays_of([ask(client, name, shape_models.attention_inputs(1 + i % 3, lengths[name], seed=i))
                          for i in range(40) for name in lengths])

    got = {}
    for mode, flags in (("whole", []), ("overlap", [f"--worker-flags=--overlap-plan={plan}"])):
        up = start(bin_dir, tmp_path, mode, models, "--policy", "eager", *flags)
        worker = up.ready["workers"][0]["metrics"]
        try:
            got[mode] = answers(up)
            assert metric(worker, "fermata_worker_mode_refusals_total") == 0, up.log()
            if mode == "overlap":
                assert metric(worker, "fermata_worker_overlap_shared_groups_total") >= 3
        finally:
            assert up.stop() == 0, up.log()
    same(got["overlap"], got["whole"])


def mixed_rows(client):
    """Answers of a model of sentences, one that sums them up and one whose rows are all alike, of several lengths and many at once."""
    def sentence(i, length):
        return ask(client, "text", shape_models.attention_inputs(1 + i % 3, length, seed=i))

    def total(i, length):
        return ask(client, "totals", shape_models.totals_inputs(1 + i % 2, length, seed=i))

    first = arrays_of([sentence(0, 48), sentence(3, 60), total(2, 24), total(4, 1), total(6, 30)])
    many = []
    for i in range(40):
        many += [sentence(i, LENGTHS[i % len(LENGTHS)]), total(i, (5, 24, 11)[i % 3]),
                 ask(client, "alike", shape_models.attention_inputs(1 + i % 3, 48, seed=i))]
    return first + arrays_of(many)


@pytest.mark.alone
def test_overlap_serves_rows_of_any_length_as_whole_does(bin_dir, tmp_path):
    """Longer rows than were profiled run whole, and so does one word alone, with which `totals` has other operators: it is left out of
    the profile."""
    models, plan = tmp_path / "models", tmp_path / "plan"
    models.mkdir()
    config = "max_batch: 8\nslo_ms: 20000\n"
    shape_models.attention(models, "text", config + "profile_shapes: [{sequence: 8}, {sequence: 48}]\n", more_layers=10)
    shape_models.totals(models, "totals", config + "profile_shapes: [{sequence: 1}, {sequence: 6}, {sequence: 24}]\n", layers=6)
    shape_models.attention(models, "alike", config, more_layers=10, sequence=48)
    said = foretell(bin_dir, sorted(models.iterdir()), plan, 5e6)
    assert said["sizes"] == {"alike": [], "text": ["8", "48"], "totals": ["6", "24"]}
    assert [line for line in plan.read_text().splitlines() if line.startswith("lengths")] == ["lengths 1 1 -", "lengths 16 96 48", "lengths 96 384 24"]
    got = {}
    for mode, flags in (("whole", []), ("overlap", [f"--worker-flags=--overlap-plan={plan}"])):
        up = start(bin_dir, tmp_path, mode, models, "--policy", "eager", *flags)
        worker = up.ready["workers"][0]["metrics"]
        try:
            got[mode] = mixed_rows(httpclient.InferenceServerClient(up.http, concurrency=16))
            assert metric(worker, "fermata_worker_mode_refusals_total") == 0, up.log()
            if mode == "overlap":
                assert metric(worker, "fermata_worker_overlap_shared_groups_total") >= 3
                assert metric(worker, "fermata_worker_mode_unfit_batches_total", model="text") == 1, "60 words"
                assert metric(worker, "fermata_worker_mode_unfit_batches_total", model="totals") == 2, "one word, and 30"
                assert metric(worker, "fermata_worker_mode_unfit_batches_total", model="alike") == 0
        finally:
            assert up.stop() == 0, up.log()
    same(got["overlap"], got["whole"])


@pytest.fixture(scope="module")
def foretold(bin_dir, tmp_path_factory):
    """A folder of models and the text of a plan for them."""
    folder = tmp_path_factory.mktemp("foretold")
    models = folder / "models"
    models.mkdir()
    shape_models.attention(models, "text", "max_batch: 2\nslo_ms: 20000\ndims: {sequence: {max: 64}}\nprofile_shapes: [{sequence: 48}]\n")
    shape_models.attention(models, "other", "max_batch: 2\n", sequence=8)
    foretell(bin_dir, [models / "text", models / "other"], folder / "plan", 5e6)
    return models, (folder / "plan").read_text()


@pytest.mark.parametrize("lengths, said", [
    ("1 1 -", "it has not one size for each"),
    ("16 96 48x2", "it has not one size for each"),
    ("16 96 40", "its rows have 80 elements where the plan says 96"),
    ("16 2000 1000", "out of range"),
])
def test_a_plan_whose_lengths_are_not_the_models_is_refused(bin_dir, tmp_path, foretold, lengths, said):
    (models, text), plan = foretold, tmp_path / "plan"
    assert "lengths 96 96 48\n" in text
    plan.write_text(text.replace("lengths 96 96 48", f"lengths {lengths}"))
    up = start(bin_dir, tmp_path, "overlap", models, f"--worker-flags=--overlap-plan={plan}")
    try:
        answer = arrays_of([ask(httpclient.InferenceServerClient(up.http), "text", shape_models.attention_inputs(2, 5))])
        assert answer[0]["states"].shape == (2, 5, shape_models.WIDTH)
        assert metric(up.ready["workers"][0]["metrics"], "fermata_worker_mode_refusals_total", model="text", mode="overlap", reason="predictor") == 1
        refusals = [line for line in up.log().splitlines() if "mode_refused" in line]
        assert len(refusals) == 1 and said in refusals[0], refusals
    finally:
        assert up.stop() == 0, up.log()


@pytest.mark.alone
def test_a_model_that_is_loaded_later_is_stretched_too(bin_dir, tmp_path, cluster):
    """A worker in mode staged that begins without any model, and gets one whose batches take 40 ms and more."""
    models = tmp_path / "later"
    models.mkdir()
    scheduler = cluster.scheduler("--policy", "eager")
    gateway = cluster.gateway(scheduler)
    worker = cluster.start("worker", "--scheduler", scheduler.grpc, "--engine", "emulated", "--mode", "staged", "--models", models,
                           "--model-control", "poll", "--poll-interval", "100ms", "--metrics-address", "127.0.0.1:0")
    wait_until(lambda: metric(scheduler.http, "fermata_scheduler_workers") == 1, "the worker is there")
    (tmp_path / "made").mkdir()
    shutil.copytree(digits(tmp_path / "made", "emulate: {alpha_ms: 2, beta_ms: 40}") / "digits", models / "digits")
    wait_until(lambda: get(gateway.http, "/v2/models/digits/ready").status == 200, "digits is ready")
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        tensor = tensor_request(digit_tensor("7"))
        answers = list(pool.map(lambda _: post(gateway.http, INFER, tensor).status, range(200)))
    assert set(answers) == {200}, answers
    assert metric(worker.metrics, "fermata_worker_stretches_total", model="digits", outcome="joined") >= 3
    assert metric(scheduler.http, "fermata_scheduler_stretches_total", model="digits") >= 3


# ---- all modes ----

def start(bin_dir, folder, mode, models, *flags):
    """Whole on the engine that the other modes are given, so that answers differ by the mode alone."""
    engine = "onednn" if mode == "whole" else "auto"
    return Up(bin_dir, folder / f"{mode}.log", "--mode", mode, "--engine", engine, *flags, models=models)


@pytest.mark.data_plane
@pytest.mark.parametrize("mode, line", [("staged", ""), ("preempt", ""), ("staged", "engine: onnxruntime"), ("preempt", "engine: onnxruntime")])
def test_answers_are_those_of_whole(bin_dir, tmp_path, mode, line):
    """The same pictures, in batches of several sizes, one request after the other and many at once."""
    if line and not (bin_dir.parent / "lib" / "engine-onnxruntime.so").exists():
        pytest.skip("the plug-in of onnxruntime is not built")
    models = digits(tmp_path, line)
    pictures = np.random.default_rng(5).normal(size=(40, 1, 8, 8)).astype(np.float32)

    def answers(up):
        client = httpclient.InferenceServerClient(up.http, concurrency=8)

        def ask(batch):
            tensor = httpclient.InferInput("image", list(batch.shape), "FP32")
            tensor.set_data_from_numpy(batch)
            result = client.async_infer("digits", [tensor])
            return result

        alone = [ask(pictures[i:i + size]).get_result() for i, size in ((0, 1), (1, 2), (3, 5), (8, 8))]
        together = [request.get_result() for request in [ask(pictures[i:i + 1]) for i in range(40)]]
        name = alone[0].get_response()["outputs"][0]["name"]
        return [result.as_numpy(name) for result in alone + together]

    got = {}
    for each in ("whole", mode):
        up = start(bin_dir, tmp_path, each, models, "--policy", "eager")
        try:
            got[each] = answers(up)
            assert metric(up.ready["workers"][0]["metrics"], "fermata_worker_mode_refusals_total") == 0
        finally:
            assert up.stop() == 0, up.log()
    for expected, answer in zip(got["whole"], got[mode]):
        np.testing.assert_allclose(answer, expected, atol=1e-4)


LENGTHS = [3, 17, 40, 17, 3, 5, 40, 33]
BEYOND = 60  # of what the modes are prepared for below


def sentences_of(client):
    """Answers to sentences of mixed lengths: one after the other, then many at once."""
    def sentence(i, length, rows=1):
        return ask(client, "text", shape_models.attention_inputs(rows, length, seed=i))

    alone = [arrays_of([sentence(i, length, 1 + i % 3)])[0] for i, length in enumerate(LENGTHS + [BEYOND])]
    return alone + arrays_of([sentence(i, LENGTHS[i % len(LENGTHS)]) for i in range(64)])


@pytest.mark.data_plane
@pytest.mark.parametrize("mode, lines", [
    ("staged", "staged: {stages: 3}"),
    ("staged", "staged: {stages: 4, schedule: load}"),
    ("staged", "staged: {stages: 2, schedule: input}"),
    ("preempt", ""),
    ("preempt", "engine: onednn"),
    ("preempt", "engine: onnxruntime"),
])
def test_answers_of_any_length_are_those_of_whole(bin_dir, tmp_path, mode, lines):
    """A model whose sequences vary, not padded: batches of one length each, and what is too long for the stages runs whole."""
    config = f"max_batch: 8\nslo_ms: 20000\nprofile_shapes: [{{sequence: 8}}, {{sequence: 48}}]\n{lines}\n"
    (tmp_path / "models").mkdir()
    shape_models.attention(tmp_path / "models", "text", config, more_layers=6)
    got = {}
    if "onnxruntime" in lines and not (bin_dir.parent / "lib" / "engine-onnxruntime.so").exists():
        pytest.skip("the plug-in of onnxruntime is not built")
    for each in ("whole", mode):
        up = start(bin_dir, tmp_path, each, tmp_path / "models", "--policy", "eager")
        worker = up.ready["workers"][0]["metrics"]
        try:
            got[each] = sentences_of(httpclient.InferenceServerClient(up.http, concurrency=16))
            assert metric(worker, "fermata_worker_mode_refusals_total") == 0, up.log()
            assert get(up.ready["scheduler"]["http"], "/state").json()["models"][0]["mode"] == each
            assert metric(worker, "fermata_worker_mode_unfit_batches_total", model="text") == (each == "staged"), "the longest"
            if each == "staged":
                assert metric(worker, "fermata_worker_staged_batches_total", model="text") >= len(LENGTHS)
        finally:
            assert up.stop() == 0, up.log()
    same(got[mode], got["whole"])


PADDED = """max_batch: 8
slo_ms: 20000
dims: {sequence: {pad_to: %s}}
pad_value: {ids: 3}
staged: {stages: 2, schedule: input}
"""


@pytest.mark.alone
@pytest.mark.parametrize("sizes", [[36, 40, 44, 48], list(range(34, 49))], ids=["all_prepared", "some_prepared"])
def test_rows_of_several_lengths_share_a_batch_and_answer_as_whole(bin_dir, tmp_path, sizes):
    """Short sentences of a small model take no less time alone than with others: policy I pads them to each other, and nobody sees it."""
    (tmp_path / "models").mkdir()
    shape_models.attention(tmp_path / "models", "text", PADDED % sizes, more_layers=6)
    lengths = [33, 47, 36, 40, 38, 44, 34, 48, 41, 45]

    def sentences():
        return arrays_of([ask(client, "text", shape_models.attention_inputs(1 + i % 2, lengths[i % len(lengths)], seed=i)) for i in range(80)])

    expected, padded = None, 0
    for each in ("whole", "staged"):
        up = start(bin_dir, tmp_path, each, tmp_path / "models", "--policy", "eager")
        worker = up.ready["workers"][0]["metrics"]
        try:
            client = httpclient.InferenceServerClient(up.http, concurrency=16)
            expected = expected or sentences()
            for _ in range(20 if each == "staged" else 0):  # on a busy host the clients can fall into step
                same(sentences(), expected)
                if (padded := metric(worker, "fermata_worker_staged_padded_rows_total", model="text")) >= 5:
                    break
            assert metric(worker, "fermata_worker_mode_refusals_total") == 0, up.log()
            assert metric(worker, "fermata_worker_mode_unfit_batches_total") == 0, up.log()
            assert metric(worker, "fermata_worker_batches_total", status="failed") == 0, up.log()
        finally:
            assert up.stop() == 0, up.log()
    assert padded >= 5, up.log()


def found_schedule(bin_dir, folder, schedule, whole="no"):
    """A model whose rows are of 8 or 512 words, as `fermata profile --stages` leaves it; what it found is put in place, since trials of
    a moment find now this, now that. Returns how many stages it has."""
    shape_models.attention(folder, "text", "max_batch: 4\nslo_ms: 20000\nprofile_shapes: [{sequence: 8}, {sequence: 512}]\n", more_layers=6)
    words = ["--batches", "1,4", "--seconds", "0.001", "--stages", "--lengths", "8:1,512:1"]
    done = subprocess.run([bin_dir / "fermata", "profile", folder / "text", *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "a worker in mode staged takes it up" in done.stdout
    kept = folder / "text" / "1" / "profile.auto.512.txt"
    lines = kept.read_text().splitlines()
    assert any(line in ("schedule input", "schedule combined") for line in lines) and any(line.startswith("whole_is_faster ") for line in lines)
    found = {"schedule": schedule, "whole_is_faster": whole}
    kept.write_text("".join(" ".join([word, found.get(word, rest)]) + "\n" for word, rest in (line.split(" ", 1) for line in lines)))
    stages, = (line for line in lines if line.startswith("stages "))
    return len(stages.split())


def staged_line(log):
    """What the worker says of its only model when that is loaded."""
    loaded, = (line for line in log.splitlines() if "model_loaded" in line)
    return dict(word.split("=", 1) for word in loaded.split() if "=" in word)


@pytest.mark.alone
@pytest.mark.parametrize("config, schedule", [("", "input"), ("staged: {schedule: granted}\n", "granted")])
def test_a_schedule_that_was_found_is_what_runs_unless_the_config_names_one(bin_dir, tmp_path, config, schedule):
    """With policy I batches of one length are in the stages beside those of another: the scheduler grants several."""
    (tmp_path / "models").mkdir()
    stages = found_schedule(bin_dir, tmp_path / "models", "input")
    with open(tmp_path / "models" / "text" / "config.yaml", "a") as file:
        file.write(config)
    up = start(bin_dir, tmp_path, "staged", tmp_path / "models", "--policy", "eager")
    worker, scheduler = up.ready["workers"][0]["metrics"], up.ready["scheduler"]["http"]
    try:
        said = staged_line(up.log())
        assert (said["mode"], said["stages"], said["schedule"]) == ("staged", str(stages), schedule)
        client = httpclient.InferenceServerClient(up.http, concurrency=16)
        for _ in range(5):  # on a busy host the clients can fall into step
            arrays_of([ask(client, "text", shape_models.attention_inputs(1, 512 - 32 * (i % 4))) for i in range(64)])
            if (beside := metric(worker, "fermata_worker_staged_beside_batches_total", model="text")) >= 5:
                break
        assert beside >= 5 if schedule == "input" else beside == 0, up.log()
        if schedule == "input":
            assert metric(scheduler, "fermata_scheduler_stretches_total", model="text") == 0
        assert "whole_is_faster" not in up.log() and "schedule_refused" not in up.log(), up.log()
    finally:
        assert up.stop() == 0, up.log()


def test_a_schedule_that_was_found_needs_devices_that_were_told_of_it(bin_dir, tmp_path, cluster):
    """A model that comes after the start, and of which the profile says that whole is faster: rows join as granted, and both is said."""
    found_schedule(bin_dir, tmp_path, "combined", whole="yes")
    models = tmp_path / "later"
    models.mkdir()
    scheduler = cluster.scheduler()
    gateway = cluster.gateway(scheduler)
    worker = cluster.start("worker", "--scheduler", scheduler.grpc, "--mode", "staged", "--models", models, "--model-control", "poll",
                           "--poll-interval", "100ms", "--metrics-address", "127.0.0.1:0")
    wait_until(lambda: metric(scheduler.http, "fermata_scheduler_workers") == 1, "the worker is there")
    (tmp_path / "text").rename(models / "text")
    wait_until(lambda: get(gateway.http, "/v2/models/text/ready").status == 200, "text is ready")
    said = staged_line(worker.log())
    assert (said["mode"], said["schedule"]) == ("staged", "granted"), said
    refused, = (line for line in worker.log().splitlines() if "schedule_refused" in line)
    assert "schedule=combined" in refused and "start it anew" in refused, refused
    assert worker.log().count("whole_is_faster") == 1, worker.log()


@pytest.mark.data_plane
@pytest.mark.parametrize("mode", ["staged", "overlap", "preempt"])
def test_each_device_of_a_worker_runs_the_mode(bin_dir, tmp_path, mode):
    """Sentences of several lengths on two CPU devices, which cut the model each for itself; until the second was needed, too."""
    models, plan = tmp_path / "models", tmp_path / "plan"
    models.mkdir()
    config = "max_batch: 4\nslo_ms: 20000\nprofile_shapes: [{sequence: 8}, {sequence: 48}]\n"
    shape_models.attention(models, "text", config, more_layers=40)
    flags = ["--worker-flags=--devices=2"]
    if mode == "overlap":
        shape_models.attention(models, "alike", "max_batch: 4\n", sequence=8)
        foretell(bin_dir, sorted(models.iterdir()), plan, 5e6)
        flags.append(f"--worker-flags=--overlap-plan={plan}")
    got = {}
    for each, words in (("whole", []), (mode, flags)):
        up = start(bin_dir, tmp_path, each, models, "--policy", "eager", *words)
        worker = up.ready["workers"][0]["metrics"]
        try:
            got[each] = sentences_of(httpclient.InferenceServerClient(up.http, concurrency=16))
            devices = ("cpu0", "cpu1") if words else ("cpu0",)

            def all_ran():
                total = load(bin_dir, up, "--model", "text", "--concurrency", "64", "--duration", "500ms", "--shape", "ids+mask:3-48")
                assert set(total["outcomes"]) == {"ok"}, total
                return all(metric(worker, "fermata_worker_device_busy_seconds_total", device=device) > 0 for device in devices)

            wait_until(all_ran, "every device has run batches", 30)
            assert metric(worker, "fermata_worker_mode_refusals_total") == 0, up.log()
            assert metric(worker, "fermata_worker_batches_total", status="failed") == 0, up.log()
        finally:
            assert up.stop() == 0, up.log()
    same(got[mode], got["whole"])


@pytest.mark.parametrize("mode", ["staged", "overlap", "preempt"])
@pytest.mark.alone
def test_a_worker_that_dies_in_a_mode_loses_no_request(bin_dir, tmp_path, cluster, mode):
    profile = tmp_path / "profile.csv"
    profile.write_text("name,alpha_ms,beta_ms,slo_ms,max_batch\nm,1,20,5000,8\n")
    plan = overlap_plan(tmp_path / "plan", "emulated", [("m", EMULATED_SEGMENTS, "-")], 30e6)
    scheduler = cluster.scheduler("--policy", "eager")
    gateway = cluster.gateway(scheduler)
    workers = [cluster.start("worker", "--scheduler", scheduler.grpc, "--engine", "emulated", "--profile", profile, "--mode", mode,
                             "--overlap-plan", plan, "--metrics-address", "127.0.0.1:0") for _ in range(2)]
    wait_until(lambda: get(gateway.http, "/v2/models/m/ready").status == 200, "m is ready")
    wait_served_by(scheduler, "m", 2)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(subprocess.run, [bin_dir / "fermata-load", "--address", gateway.http, "--model", "m", "--concurrency", "8",
                                               "--duration", "2s", "--deadline", "5s", "--json"], capture_output=True, text=True, timeout=60)
        wait_until(lambda: metric(workers[0].metrics, "fermata_worker_tasks_total", status="ok") >= 20, "the first worker runs")
        workers[0].kill()
        cluster.running.remove(workers[0])
        total = json.loads(running.result().stdout)["total"]
    assert set(total["outcomes"]) == {"ok"}, total
    assert total["outcomes"]["ok"] == total["offered"], total
