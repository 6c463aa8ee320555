"""Which engine a model runs on: chosen by measurement, named, kept; what becomes of one that is not there."""

import shutil

import numpy as np
import onnx
import pytest
import tritonclient.http as httpclient
from onnx import TensorProto, helper
from client import get
from system import Up

CPU = {"onnxruntime", "openvino", "onednn"}


@pytest.fixture(scope="module", autouse=True)
def plugins(bin_dir):
    if not (bin_dir.parent / "lib" / "engine-onnxruntime.so").exists():
        pytest.skip("the plug-in of onnxruntime is not built")


def write(folder, name, nodes, config="", inputs=None, outputs=None, width=64, initializers=()):
    """A model over rows of `width` floats, x to y, unless its inputs and outputs are given."""
    def rows(value):
        return helper.make_tensor_value_info(value, TensorProto.FLOAT, ["n", width])

    graph = helper.make_graph(nodes, name, inputs or [rows("x")], outputs or [rows("y")], list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / name / "1").mkdir(parents=True)
    onnx.save(model, folder / name / "1" / "model.onnx")
    (folder / name / "config.yaml").write_text(config)


def heavy(folder, name, config="", width=512):
    """Products that take longer than is small."""
    random = np.random.default_rng(0)
    weight = helper.make_tensor("w", TensorProto.FLOAT, [width, width], (random.standard_normal((width, width)) / width ** .5).astype(np.float32).tobytes(), raw=True)
    nodes, at = [], "x"
    for layer in range(12):
        to = "y" if layer == 11 else f"h{layer}"
        nodes += [helper.make_node("MatMul", [at, "w"], [f"m{layer}"]), helper.make_node("Tanh", [f"m{layer}"], [to])]
        at = to
    write(folder, name, nodes, config, width=width, initializers=[weight])


def branch(folder, name):
    """Control flow: libs/graph reads none of it."""
    def side(op):
        return helper.make_graph([helper.make_node(op, ["x"], ["z"])], op, [], [helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", 64])])

    nodes = [helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0), helper.make_node("Greater", ["s", "zero"], ["positive"]),
             helper.make_node("If", ["positive"], ["y"], then_branch=side("Neg"), else_branch=side("Abs"))]
    zero = helper.make_tensor("zero", TensorProto.FLOAT, [], [0.0])
    write(folder, name, nodes, initializers=[zero])


def engines(up):
    return {model["name"]: model for model in get(up.ready["scheduler"]["http"], "/state").json()["models"]}


def ask(client, name, x):
    tensor = httpclient.InferInput("x", x.shape, "FP32")
    tensor.set_data_from_numpy(x)
    return client.infer(name, [tensor]).as_numpy("y")


def test_the_fastest_serves_and_is_kept(bin_dir, tmp_path):
    models = tmp_path / "models"
    heavy(models, "heavy", "slo_ms: 2\n")  # of which a hundredth is less than its batches take anywhere
    up = Up(bin_dir, tmp_path / "first.log", models=models)
    try:
        said = engines(up)["heavy"]
        assert said["engine"] in CPU
        assert "onnxruntime: 1: " in said["engines"] and "onednn: 1: " in said["engines"], said
        assert up.ready["models"][0]["engine"] == said["engine"]
        assert "engine_tried" in up.log()
    finally:
        up.stop()
    kept, = (models / "heavy" / "1").glob("profile.auto*.txt")
    assert f"engine {said['engine']}\n" in kept.read_text()
    # What was kept is believed: another engine than that which was found, so that it is seen.
    other = "onednn" if said["engine"] == "onnxruntime" else "onnxruntime"
    kept.write_text(kept.read_text().replace(f"engine {said['engine']}\n", f"engine {other}\n"))
    up = Up(bin_dir, tmp_path / "again.log", models=models)
    try:
        assert engines(up)["heavy"]["engine"] == other
        assert "engine_tried" not in up.log() and "profile_used" in up.log(), up.log()
    finally:
        up.stop()
    # An engine that is not there any more is no reason not to serve.
    kept.write_text(kept.read_text().replace(f"engine {other}\n", "engine abacus\n"))
    up = Up(bin_dir, tmp_path / "gone.log", models=models)
    try:
        found = engines(up)["heavy"]["engine"]
        assert found in CPU
        assert "engine_tried" in up.log()
    finally:
        up.stop()
    assert f"engine {found}\n" in kept.read_text(), "and the next start knows"


def test_a_named_engine_runs_it_and_answers_alike(bin_dir, tmp_path):
    models = tmp_path / "models"
    for name in ("onnxruntime", "onednn"):
        heavy(models, name, f"engine: {name}\n", width=64)
    up = Up(bin_dir, tmp_path / "up.log", models=models)
    try:
        assert {name: model["engine"] for name, model in engines(up).items()} == {"onnxruntime": "onnxruntime", "onednn": "onednn"}
        client = httpclient.InferenceServerClient(up.http)
        x = np.random.default_rng(1).standard_normal((3, 64)).astype(np.float32)
        np.testing.assert_allclose(ask(client, "onnxruntime", x), ask(client, "onednn", x), atol=1e-5)
    finally:
        up.stop()


def test_a_model_that_only_one_engine_takes_is_served(bin_dir, tmp_path):
    """Beside one whose config names an engine that does not take it, and one that names none that there is: each says why."""
    models = tmp_path / "models"
    branch(models, "branch")
    branch(models, "wrong")
    (models / "wrong" / "config.yaml").write_text("engine: onednn\n")
    branch(models, "none")
    (models / "none" / "config.yaml").write_text("engine: abacus\n")
    up = Up(bin_dir, tmp_path / "up.log", models=models)
    try:
        said = {model["name"]: model for model in up.ready["models"]}
        assert said["branch"]["state"] == "ready" and engines(up)["branch"]["engine"] == "onnxruntime"
        assert said["wrong"]["state"] == "failed" and "If" in said["wrong"]["reason"]
        assert said["none"]["state"] == "failed" and "abacus" in said["none"]["reason"] and "onnxruntime" in said["none"]["reason"]
        client = httpclient.InferenceServerClient(up.http)
        x = np.full((1, 64), -1, np.float32)
        np.testing.assert_array_equal(ask(client, "branch", x), np.abs(x))
        np.testing.assert_array_equal(ask(client, "branch", -x), x)
    finally:
        up.stop()


def test_without_the_libraries_what_is_there_serves(bin_dir, tmp_path):
    """The programs alone, as where the libraries could not be fetched."""
    alone = tmp_path / "alone" / "bin"
    alone.mkdir(parents=True)
    for program in bin_dir.glob("fermata*"):
        if program.name in ("fermata", "fermata-gateway", "fermata-scheduler", "fermata-worker"):
            shutil.copy(program, alone / program.name)
    models = tmp_path / "models"
    heavy(models, "heavy")
    up = Up(alone, tmp_path / "up.log", models=models)
    try:
        assert engines(up)["heavy"]["engine"] == "onednn"
        assert len([line for line in up.log().splitlines() if "engine_not_here" in line]) == 2
    finally:
        up.stop()
