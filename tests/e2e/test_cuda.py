"""The CUDA engine in the running system, as far as it goes without a GPU: its twin over the CPU (`engine-cuda-host.so`, same
lowering, same kernels, same streams, graphs and borders) lies where programs look for the plug-in."""

import json
import shutil
import subprocess

import numpy as np
import pytest
import tritonclient.http as httpclient

import shape_models
from client import get
from system import Up
from test_modes import LENGTHS, digits, metric, same, sentences_of

PROGRAMS = ["fermata", "fermata-gateway", "fermata-loader", "fermata-scheduler", "fermata-worker"]


@pytest.fixture(scope="module")
def cuda_bin(bin_dir, tmp_path_factory):
    """The programs beside that plug-in. Copied: a program looks beside the file that it is, not beside a link to it."""
    plugin = bin_dir.parent / "lib" / "engine-cuda-host.so"
    assert plugin.exists(), "the CUDA engine over the CPU was not built"
    root = tmp_path_factory.mktemp("cuda")
    (root / "bin").mkdir()
    (root / "lib").mkdir()
    for program in PROGRAMS:
        shutil.copy(bin_dir / program, root / "bin")
    (root / "lib" / "engine-cuda.so").symlink_to(plugin)
    return root / "bin"


def pictures_of(client, models=("digits",)):
    """Answers to pictures in batches of several sizes: one after the other, then many at once, by these models in turn."""
    pictures = np.random.default_rng(5).normal(size=(40, 1, 8, 8)).astype(np.float32)

    def ask(batch, turn):
        tensor = httpclient.InferInput("image", list(batch.shape), "FP32")
        tensor.set_data_from_numpy(batch)
        return client.async_infer(models[turn % len(models)], [tensor])

    alone = [ask(pictures[i:i + size], i).get_result() for i, size in ((0, 1), (1, 2), (3, 5), (8, 8))]
    results = alone + [request.get_result() for request in [ask(pictures[i:i + 1], i) for i in range(40)]]
    name = results[0].get_response()["outputs"][0]["name"]
    return [result.as_numpy(name) for result in results]


def serve(bin_dir, folder, models, ask, *flags):
    """What ask(client) gets from a system with these flags, its worker's metrics and the mode that its model runs in."""
    up = Up(bin_dir, folder / "up.log", "--policy", "eager", *flags, models=models)
    try:
        got = ask(httpclient.InferenceServerClient(up.http, concurrency=16))
        worker = up.ready["workers"][0]["metrics"]
        counts = {name: metric(worker, f"fermata_worker_{name}_total")
                  for name in ("mode_refusals", "staged_batches", "overlap_groups", "overlap_parts", "mode_unfit_batches")}
        mode = get(up.ready["scheduler"]["http"], "/state").json()["models"][0]["mode"]
    finally:
        assert up.stop() == 0, up.log()
    assert counts["mode_refusals"] == 0, up.log()
    return got, counts, mode


@pytest.fixture(scope="module")
def expected_digits(bin_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("onednn")
    return serve(bin_dir, folder, digits(folder), pictures_of)[0]


@pytest.mark.parametrize("mode, line", [
    ("whole", ""),
    ("staged", "staged: {stages: 3}"),
    ("staged", "staged: {stages: 3, schedule: operator, split_slack: 9}"),
    ("preempt", ""),
])
def test_pictures_are_answered_as_by_onednn(cuda_bin, tmp_path, expected_digits, mode, line):
    got, counts, ran = serve(cuda_bin, tmp_path, digits(tmp_path, line), pictures_of, "--engine", "cuda", "--mode", mode)
    assert ran == mode
    assert (counts["staged_batches"] > 0) == (mode == "staged")
    for answer, want in zip(got, expected_digits):
        np.testing.assert_allclose(answer, want, atol=1e-4)


@pytest.mark.parametrize("precision, most", [("fp16", 0.02), ("bf16", 0.15)])
def test_half_precision_is_near(cuda_bin, tmp_path, expected_digits, precision, most):
    models = digits(tmp_path, f"precision: {precision}", "staged: {stages: 2}")
    got, _, ran = serve(cuda_bin, tmp_path, models, pictures_of, "--engine", "cuda", "--mode", "staged")
    assert ran == "staged"
    for answer, want in zip(got, expected_digits):
        assert np.abs(answer - want).max() <= most


@pytest.mark.parametrize("mode, line", [("staged", "staged: {stages: 3}"), ("preempt", "")])
def test_sentences_of_any_length_are_answered_as_by_onednn(bin_dir, cuda_bin, tmp_path, mode, line):
    (tmp_path / "models").mkdir()
    config = f"max_batch: 8\nslo_ms: 20000\nprofile_shapes: [{{sequence: 8}}, {{sequence: 48}}]\n{line}\n"
    shape_models.attention(tmp_path / "models", "text", config, more_layers=3)
    want, _, _ = serve(bin_dir, tmp_path, tmp_path / "models", sentences_of)
    got, counts, ran = serve(cuda_bin, tmp_path, tmp_path / "models", sentences_of, "--engine", "cuda", "--mode", mode)
    assert ran == mode
    if mode == "staged":
        assert counts["staged_batches"] >= len(LENGTHS)
    for answer, expected in zip(got, want):
        for name, value in expected.items():
            np.testing.assert_allclose(answer[name], value, atol=1e-4)


def test_overlap_of_sentences_is_profiled_and_served(bin_dir, cuda_bin, tmp_path):
    """Beside pictures, whose rows are all alike."""
    models, plan = digits(tmp_path), tmp_path / "plan"
    shape_models.attention(models, "text", "max_batch: 8\nslo_ms: 20000\nprofile_shapes: [{sequence: 8}, {sequence: 48}]\n", more_layers=3)
    done = subprocess.run([cuda_bin / "fermata", "profile", "--overlap", models / "digits", models / "text", "--engine", "cuda",
                           "--lengths", "3:2,17:1,48:1", "--groups", "60", "--out", plan, "--json"],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["sizes"] == {"digits": [], "text": ["3", "17", "48"]}

    def both(client):
        return sentences_of(client), pictures_of(client)

    want, _, _ = serve(bin_dir, tmp_path, models, both)
    got, counts, _ = serve(cuda_bin, tmp_path, models, both, "--engine", "cuda", "--mode", "overlap", f"--worker-flags=--overlap-plan={plan}")
    assert counts["overlap_groups"] > 0 and counts["mode_unfit_batches"] == 1, "the longest runs whole"
    same(got[0], want[0])
    for answer, expected in zip(got[1], want[1], strict=True):
        np.testing.assert_allclose(answer, expected, atol=1e-4)


def test_overlap_is_profiled_and_served(cuda_bin, tmp_path, expected_digits):
    """The duration model of two models is measured on the engine by `fermata profile` and taken up by the worker."""
    models, plan = digits(tmp_path), tmp_path / "plan"
    shutil.copytree(models / "digits", models / "twin")
    done = subprocess.run([cuda_bin / "fermata", "profile", "--overlap", models / "digits", models / "twin", "--engine", "cuda",
                           "--groups", "60", "--out", plan, "--json"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["all"]["groups"] == 60
    got, counts, ran = serve(cuda_bin, tmp_path, models, lambda client: pictures_of(client, ("digits", "twin")), "--engine", "cuda",
                             "--mode", "overlap", f"--worker-flags=--overlap-plan={plan}")
    assert ran == "overlap"
    assert counts["overlap_groups"] > 0 and counts["overlap_parts"] >= counts["overlap_groups"]
    for answer, want in zip(got, expected_digits):
        np.testing.assert_allclose(answer, want, atol=1e-4)
