"""`fermata profile`: what it measures is what a worker then serves by."""

import json
import subprocess

import pytest
import shape_models

from client import get, good
from system import MODELS, wait_until


def profile(bin_dir, *words):
    return subprocess.run([bin_dir / "fermata", "profile", *map(str, words)], capture_output=True, text=True, timeout=120)


def latency_at_worker(cluster, name):
    """What the scheduler was told of a model, and the worker's log."""
    scheduler = cluster.scheduler()
    worker = cluster.worker(scheduler)

    def ready():
        models = {model["name"]: model for model in get(scheduler.http, "/state").json()["models"]}
        return models[name]["latency_ms"] if models.get(name, {}).get("ready") else None

    return wait_until(ready, f"{name} is ready"), worker.log()


@pytest.mark.alone
def test_a_worker_takes_up_the_profile(bin_dir, cluster):
    plot = cluster.folder / "plot.svg"
    done = profile(bin_dir, cluster.models / "digits", "--seconds", 0.02, "--check", "--json", "--plot", plot)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert [size["batch"] for size in said["sizes"]] == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]
    for size in said["sizes"]:
        assert 0 < size["min_ms"] <= size["median_ms"] <= size["p99_ms"]
    for part in ("off", "jitter", "fit"):
        assert 0 <= said["check"][f"{part}_p50"] <= said["check"][f"{part}_p90"]
    assert plot.read_text().startswith("<svg")

    kept = cluster.models / "digits" / "1" / "profile.auto.txt"
    assert said["profile"] == str(kept)
    # Latencies that no machine measures, so that it is seen where the worker has them from.
    lines = kept.read_text().splitlines()
    lines = [f"batch {line.split()[1]} {int(line.split()[1]) * 1_000_000 + 234_500}" if line.startswith("batch ") else line
             for line in lines]
    lines = ["spread 1.5" if line.startswith("spread ") else line for line in lines if not line.startswith("noise ")]
    assert "spread 1.5" in lines
    # Without the doubt that a busy machine leaves: the worker would measure it again.
    measured = "\n".join(f"spread {min(said['spread'], 1.5):.4f}" if line.startswith("spread ") else line
                         for line in kept.read_text().splitlines() if not line.startswith("noise ")) + "\n"
    kept.write_text("\n".join(lines) + "\n")
    latency, log = latency_at_worker(cluster, "digits")
    assert latency == {"one": 1.8518, "most": 48.3518}, "the median times the spread"
    assert "profile_used" in log and "model_profiled" not in log, log
    cluster.stop()

    kept.write_text(measured)
    latency, log = latency_at_worker(cluster, "digits")
    spread = min(said["spread"], 1.5)
    assert latency["one"] == pytest.approx(spread * said["sizes"][0]["median_ms"], rel=1e-3, abs=1e-4)
    assert latency["most"] == pytest.approx(spread * max(size["median_ms"] for size in said["sizes"]), rel=1e-3, abs=1e-4)
    assert "profile_used" in log and "model_profiled" not in log, log


@pytest.mark.alone
def test_a_wrong_profile_is_corrected_while_serving(bin_dir, cluster):
    assert profile(bin_dir, cluster.models / "digits", "--seconds", 0.001).returncode == 0
    kept = cluster.models / "digits" / "1" / "profile.auto.txt"
    header = [line for line in kept.read_text().splitlines() if not line.startswith(("batch ", "spread ", "noise "))]
    kept.write_text("\n".join(header + [f"batch {b} {b * 1_000_000}" for b in range(1, 33)]) + "\n")
    scheduler = cluster.scheduler()
    gateway = cluster.gateway(scheduler)
    worker = cluster.worker(scheduler)
    wait_until(lambda: get(gateway.http, "/v2/models/digits/ready").status == 200, "digits is ready")

    def latency():
        good(gateway.http)
        return get(scheduler.http, "/state").json()["models"][0]["latency_ms"]

    wait_until(lambda: latency()["one"] <= 0.98, "batches of one, that take a tenth of a millisecond, are planned with less")
    assert latency()["one"] >= 0.5, "never below half"
    assert latency()["most"] == 32, "no batch of 32 was run"
    assert "fermata_worker_profile_error_seconds_count" in get(worker.metrics, "/metrics").body.decode()


def test_a_profile_of_other_threads_is_not_taken_up(bin_dir, cluster):
    done = profile(bin_dir, cluster.models / "digits", "--seconds", 0.001, "--threads", 2)
    assert done.returncode == 0, done.stderr
    _, log = latency_at_worker(cluster, "digits")
    assert "profile_not_used" in log and "model_profiled" in log, log


def test_a_file_is_profiled_without_leaving_anything(bin_dir, tmp_path):
    file = tmp_path / "some.onnx"
    file.write_bytes((MODELS / "digits" / "1" / "model.onnx").read_bytes())
    done = profile(bin_dir, file, "--batches", "4,1-2", "--seconds", 0.01)
    assert done.returncode == 0, done.stderr
    assert "alpha" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["some.onnx"]
    done = profile(bin_dir, file, "--batches", "1,4", "--seconds", 0.01, "--out", tmp_path / "out.txt")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.txt").read_text().startswith("fermata_profile 2\n")


def test_loads_want_to_know_what_one_row_takes(bin_dir, cluster):
    done = profile(bin_dir, cluster.models / "digits", "--batches", "4", "--stages", "--loads", "--no-keep")
    assert done.returncode == 2 and "--batches must have 1 in it" in done.stderr, done.stderr


@pytest.mark.alone
def test_stages_and_exit_points_stay_in_the_profile(bin_dir, cluster):
    digits = cluster.models / "digits"
    kept = digits / "1" / "profile.auto.txt"
    few = ["--batches", "1,32", "--seconds", 0.001]
    done = profile(bin_dir, digits, *few, "--stages", "--exit-points", "--json")
    assert done.returncode == 0, done.stderr
    modes = json.loads(done.stdout)["modes"]
    assert {row["mode"] for row in modes["stages"]} == {"zerobatch", "delaybatch", "staged"}
    assert sum(row["taken"] for row in modes["stages"]) == 1
    assert len({row["rate_rps"] for row in modes["stages"]}) == 1 and modes["stages"][0]["rate_rps"] > 0, "the same requests"
    waits = [row["wait_ms"] for row in modes["stages"] if row["mode"] == "staged"]
    assert waits == sorted(waits) and waits[0] == 0 < waits[-1], "waits are an extra that has to pay"
    taken, = (row for row in modes["stages"] if row["taken"])
    lines = dict(line.split(" ", 1) for line in kept.read_text().splitlines())
    assert taken["mode"] == "staged" and len(lines["stages"].split()) == taken["stages"] - 1
    assert int(lines["comp_wait_ns"]) == pytest.approx(taken["wait_ms"] * 1e6, abs=1)
    whole = min(row["avg_ms"] for row in modes["stages"] if row["mode"] != "staged")
    assert modes["whole_is_faster"] == (whole < taken["avg_ms"])
    assert lines["schedule"] == taken["schedule"] == "combined"
    assert lines["whole_is_faster"] == ("yes" if modes["whole_is_faster"] else "no")
    points = [row["exit_points"] for row in modes["exit_points"]]
    assert points == sorted(points)
    assert "exits" in lines or not any(row["taken"] for row in modes["exit_points"])

    assert profile(bin_dir, digits, *few).returncode == 0
    again = dict(line.split(" ", 1) for line in kept.read_text().splitlines())
    assert [again.get(word) for word in ("stages", "schedule", "exits")] == [lines.get(word) for word in ("stages", "schedule", "exits")]


def test_a_profile_with_a_schedule_that_nobody_has_is_not_taken_up(bin_dir, cluster):
    kept = cluster.models / "digits" / "1" / "profile.auto.txt"
    assert profile(bin_dir, cluster.models / "digits", "--batches", "1,32", "--seconds", 0.001, "--stages").returncode == 0
    kept.write_text(kept.read_text().replace("schedule combined", "schedule mine"))
    _, log = latency_at_worker(cluster, "digits")
    assert "profile_not_used" in log and "no schedule is named 'mine'" in log and "model_profiled" in log, log


@pytest.mark.alone
def test_the_modes_of_a_model_whose_dimensions_vary(bin_dir, tmp_path):
    """Measured at the largest shape that is profiled; with several lengths, policy I is tried as well."""
    shape_models.attention(tmp_path, "text", "max_batch: 4\nprofile_shapes: [{sequence: 8}, {sequence: 40}]\n", more_layers=4)
    words = [tmp_path / "text", "--batches", "1,4", "--seconds", 0.001, "--stages", "--exit-points"]
    done = profile(bin_dir, *words)
    assert done.returncode == 0, done.stderr
    assert "operators measured at 40, rows of 1 shapes came" in done.stdout
    kept = {size: (tmp_path / "text" / "1" / f"profile.auto.{size}.txt").read_text() for size in (8, 40)}
    assert "\nstages " in kept[40] and "\nstages " not in kept[8]

    done = profile(bin_dir, *words, "--lengths", "4:3,20:2,60:1", "--loads", "--no-keep")
    assert done.returncode == 0, done.stderr
    assert "operators measured at 60, rows of 3 shapes came" in done.stdout
    for load in ("peak", "low", "medium", "high", "closed"):
        rows = [line.split()[2:4] for line in done.stdout.splitlines() if line.startswith(load + " ")]
        modes = ["zerobatch", "delaybatch", "staged"]
        assert [mode for mode, _ in rows[:3]] == modes, done.stdout
        late = [["zerobatch", "late"], ["delaybatch", "late"], ["no", "schedule"]]
        assert rows[3:] == ([] if load in ("peak", "closed") else late), done.stdout
    assert " input " in done.stdout and " combined " in done.stdout

    (tmp_path / "text" / "config.yaml").write_text("max_batch: 4\nprofile_shapes: [{sequence: 40}]\n")  # --out takes one shape
    done = profile(bin_dir, *words, "--lengths", "4:3,20:2,60:1", "--out", tmp_path / "found.txt", "--json")
    assert done.returncode == 0, done.stderr
    taken, = (row for row in json.loads(done.stdout)["modes"]["stages"] if row["taken"])
    wait = dict(line.split(" ", 1) for line in (tmp_path / "found.txt").read_text().splitlines())["comp_wait_ns"]
    assert wait == "none" if taken["schedule"] == "input" else int(wait) == pytest.approx(taken["wait_ms"] * 1e6, abs=1)

    for lengths, what in (("4:1,4:2", "rise"), ("4", "SIZE:SHARE"), ("4:0", "SIZE:SHARE"), ("-4:1", "SIZE:SHARE")):
        done = profile(bin_dir, *words, "--lengths", lengths, "--no-keep")
        assert done.returncode == 1 and what in done.stderr, done.stderr


def test_the_duration_model_of_a_pair(bin_dir, cluster):
    for name in ("b", "a"):
        folder = cluster.models / name / "1"
        folder.mkdir(parents=True)
        (folder / "model.onnx").write_bytes((MODELS / "digits" / "1" / "model.onnx").read_bytes())
    words = ["--overlap", cluster.models / "b", cluster.models / "a", "--groups", 60, "--batches", "8", "--json"]
    done = profile(bin_dir, *words)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert [pair["models"] for pair in said["pairs"]] == [["a", "b"]], "by name, whatever the order was"
    assert said["all"]["groups"] == 60
    assert all(said["all"][kind] > 0 for kind in ("mlp", "linear", "svm"))
    text = (cluster.models / "overlap.auto.txt").read_text()
    assert text.startswith("fermata-overlap 3\ndevice auto")
    assert "sizes" in said and said["sizes"] == {"a": [], "b": []}


def test_the_duration_model_of_rows_of_several_lengths(bin_dir, cluster):
    """Those of --lengths where one dimension varies, else those of the references."""
    shape_models.attention(cluster.models, "text", "max_batch: 4\nprofile_shapes: [{sequence: 8}, {sequence: 40}]\n", more_layers=2)
    shape_models.pictures(cluster.models, "map", "max_batch: 2\nprofile_shapes: [{height: 8, width: 10}, {height: 4, width: 32}]\n")
    words = ["--overlap", cluster.models / "text", cluster.models / "map", "--groups", 60]
    kept = cluster.models / "overlap.auto.txt"

    def lengths():
        return [line for line in kept.read_text().splitlines() if line.startswith("lengths ")]

    done = profile(bin_dir, *words, "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["sizes"] == {"map": ["4x32"], "text": ["8", "40"]}, "a picture higher than the largest does not run beside others"
    assert said["all"]["groups"] == 60
    assert lengths() == ["lengths 384 384 4x32", "lengths 16 80 40"]

    done = profile(bin_dir, *words, "--lengths", "4:3,20:2,60:1")
    assert done.returncode == 0, done.stderr
    assert "text: rows of 3 shapes came, up to 60; larger ones run whole" in done.stdout
    assert lengths() == ["lengths 384 384 4x32", "lengths 8 120 60"]

    done = profile(bin_dir, *words, "--lengths", "4:1,4:1")
    assert done.returncode == 1 and "text: lengths: " in done.stderr and "rise" in done.stderr, done.stderr
    alike = ["--overlap", cluster.models / "map", cluster.models / "digits", "--groups", 60]
    done = profile(bin_dir, *alike, "--lengths", "4:1")
    assert done.returncode == 1 and "of none of these models one dimension varies" in done.stderr, done.stderr


@pytest.mark.parametrize("mode", ["staged", "preempt", "overlap"])
def test_a_worker_runs_a_mode_by_what_was_profiled(bin_dir, cluster, mode):
    flags = ["--mode", mode]
    if mode == "overlap":
        twin = cluster.models / "twin" / "1"
        twin.mkdir(parents=True)
        (twin / "model.onnx").write_bytes((MODELS / "digits" / "1" / "model.onnx").read_bytes())
        done = profile(bin_dir, "--overlap", cluster.models / "digits", cluster.models / "twin", "--groups", 60)
        assert (cluster.models / "overlap.auto.txt").exists()  # where the worker looks
    else:
        words = {"staged": "--stages", "preempt": "--exit-points"}[mode]
        done = profile(bin_dir, cluster.models / "digits", "--batches", "1,32", "--seconds", 0.001, words)
    assert done.returncode == 0, done.stderr
    scheduler = cluster.scheduler()
    gateway = cluster.gateway(scheduler)
    worker = cluster.worker(scheduler, *map(str, flags))
    wait_until(lambda: get(gateway.http, "/v2/models/digits/ready").status == 200, "digits is ready")
    for _ in range(5):
        good(gateway.http)
    assert "mode_refused" not in worker.log(), worker.log()


@pytest.mark.parametrize("words,code,what", [
    ([], 2, "MODEL"),
    (["a", "b"], 2, "MODEL"),
    (["DIGITS", "--overlap"], 2, "2 to 8"),
    (["DIGITS", "DIGITS", "--overlap"], 1, "two models are named digits"),
    (["DIGITS", "/nowhere", "--overlap"], 1, "/nowhere"),
    (["DIGITS", "DIGITS", "--overlap", "--stages"], 2, "nothing else"),
    (["DIGITS", "--engine", "reference", "--batches", "1", "--stages"], 1, "cannot cut"),
    (["DIGITS", "--batches", "1", "--stages", "--lengths", "4:1"], 1, "nothing but the batch"),
    (["DIGITS", "--lengths", "4:1"], 2, "--stages"),
    (["/nowhere"], 1, "/nowhere"),
    (["DIGITS", "--engine", "abacus"], 2, "abacus"),
    (["DIGITS", "--batches", "0,1"], 2, "0,1"),
    (["DIGITS", "--batches", "1,2000"], 2, "2000"),
    (["DIGITS", "--batches", "64"], 1, "max_batch, 32"),
    (["DIGITS", "--seconds", "0"], 2, "seconds"),
    (["DIGITS", "--seconds", "nan"], 2, "seconds"),
    (["DIGITS", "--threads", "0"], 2, "threads"),
    (["DIGITS", "--out", "/nowhere/profile"], 1, "/nowhere/profile"),
    (["DIGITS", "--plot", "/nowhere/plot.svg"], 1, "/nowhere/plot.svg"),
    (["CUT"], 1, "cut.onnx"),
    (["FOLDER"], 1, "no version folder"),
], ids=lambda value: " ".join(value) if isinstance(value, list) else None)
def test_what_is_wrong_is_named(bin_dir, tmp_path, words, code, what):
    (tmp_path / "folder").mkdir()
    cut = tmp_path / "cut.onnx"
    cut.write_bytes((MODELS / "digits" / "1" / "model.onnx").read_bytes()[:5000])
    names = {"DIGITS": MODELS / "digits", "CUT": cut, "FOLDER": tmp_path / "folder"}
    done = profile(bin_dir, *[names.get(word, word) for word in words])
    assert done.returncode == code, done
    assert what in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stdout == ""
