"""Which engine a model runs on: chosen by measurement, named, kept; what becomes of one that is not there."""

import os
import re
import shutil
import subprocess
import threading

import numpy as np
import onnx
import onnx.numpy_helper
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from onnx import TensorProto, helper
from client import get
from system import Up
from tritonclient.utils import InferenceServerException

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


def on_cpu(engine):
    """One, or two: "openvino:2+onednn"."""
    small, plus, large = engine.partition("+")
    return engine in CPU if not plus else small.split(":")[0] in CPU and large in CPU


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
        assert on_cpu(said["engine"])
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
    # So are two engines, each for its sizes of batches.
    two = "onednn:2+onnxruntime"
    kept.write_text(kept.read_text().replace(f"engine {other}\n", f"engine {two}\n"))
    other = two
    (models / "heavy" / "config.yaml").write_text("slo_ms: 60000\n")  # so that it is answered, however busy the machine is
    up = Up(bin_dir, tmp_path / "two.log", models=models)
    try:
        assert engines(up)["heavy"]["engine"] == up.ready["models"][0]["engine"] == two
        client = httpclient.InferenceServerClient(up.http)
        x = np.random.default_rng(1).standard_normal((3, 512)).astype(np.float32)
        np.testing.assert_allclose(ask(client, "heavy", x)[:1], ask(client, "heavy", x[:1]), atol=1e-5)
    finally:
        up.stop()
    # An engine that is not there any more is no reason not to serve.
    (models / "heavy" / "config.yaml").write_text("slo_ms: 2\n")
    kept.write_text(kept.read_text().replace(f"engine {other}\n", "engine abacus\n"))
    up = Up(bin_dir, tmp_path / "gone.log", models=models)
    try:
        found = engines(up)["heavy"]["engine"]
        assert on_cpu(found)
        assert "engine_tried" in up.log()
    finally:
        up.stop()
    assert f"engine {found}\n" in kept.read_text(), "and the next start knows"


def test_what_an_engine_would_interpret_it_is_not_tried_on(bin_dir, tmp_path):
    models = tmp_path / "models"
    weight = helper.make_tensor("w", TensorProto.FLOAT, [512, 512], np.ones((512, 512), np.float32).tobytes(), raw=True)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("NonZero", ["h"], ["y"])]
    write(models, "where", nodes, "slo_ms: 1\n", width=512, initializers=[weight],
          outputs=[helper.make_tensor_value_info("y", TensorProto.INT64, [2, "found"])])
    up = Up(bin_dir, tmp_path / "up.log", models=models)
    try:
        said = engines(up)["where"]
        assert said["engine"] in CPU - {"onednn"}
        assert "onednn: its shapes depend on contents: it would be interpreted" in said["engines"], said
    finally:
        up.stop()
    (models / "where" / "config.yaml").write_text("slo_ms: 60000\nengine: onednn\n")
    up = Up(bin_dir, tmp_path / "named.log", models=models)
    try:
        assert engines(up)["where"]["engine"] == "onednn", "who names it gets it"
        x = np.zeros((1, 512), np.float32)
        x[0, 3] = 2
        np.testing.assert_array_equal(ask(httpclient.InferenceServerClient(up.http), "where", x), [[0] * 512, range(512)])
    finally:
        up.stop()


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
        if program.name in ("fermata", "fermata-gateway", "fermata-loader", "fermata-scheduler", "fermata-worker"):
            shutil.copy(program, alone / program.name)
    models = tmp_path / "models"
    heavy(models, "heavy")
    up = Up(alone, tmp_path / "up.log", models=models)
    try:
        assert engines(up)["heavy"]["engine"] == "onednn"
        assert len([line for line in up.log().splitlines() if "engine_not_here" in line]) == 2
    finally:
        up.stop()


COLOURS = ["red", "green", "deep violet"]


def colours(folder, name, config=""):
    """As pipelines of scikit-learn are exported: a column of strings to a label and to a map from each class to its share; unknown colours are refused."""
    def ml(op, x, y, **attributes):
        return helper.make_node(op, [x], [y], domain="ai.onnx.ml", **attributes)

    nodes = [ml("LabelEncoder", "colour", "label", keys_strings=COLOURS, values_strings=[colour.upper() + " ✓" for colour in COLOURS]),
             ml("OneHotEncoder", "colour", "hot", cats_strings=COLOURS, zeros=0), helper.make_node("Flatten", ["hot"], ["flat"]),
             ml("ZipMap", "flat", "share", classlabels_strings=COLOURS)]
    strings = helper.make_tensor_value_info("colour", TensorProto.STRING, ["n", 1]), helper.make_tensor_value_info("label", TensorProto.STRING, ["n", 1])
    shares = helper.make_value_info("share", helper.make_sequence_type_proto(helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))))
    graph = helper.make_graph(nodes, name, [strings[0]], [strings[1], shares])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2)], ir_version=8)
    (folder / name / "1").mkdir(parents=True)
    onnx.save(model, folder / name / "1" / "model.onnx")
    (folder / name / "config.yaml").write_text(config)


def ask_colours(module, client, name, words, binary=True):
    flags = {} if module is grpcclient else {"binary_data": binary}
    data = np.array([[word] for word in words], object)
    tensor = module.InferInput("colour", data.shape, "BYTES")
    tensor.set_data_from_numpy(data, **flags)
    result = client.infer(name, [tensor], outputs=[module.InferRequestedOutput(output, **flags) for output in ("label", "share")])
    label = [x if isinstance(x, str) else x.decode() for x in result.as_numpy("label")[:, 0]]
    return label, result.as_numpy("share")


@pytest.fixture(scope="module")
def strings(bin_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("strings")
    colours(folder / "models", "colours", "slo_ms: 1000\n")
    colours(folder / "models", "narrow", "string_bytes: 12\n")
    up = Up(bin_dir, folder / "log", models=folder / "models")
    yield up
    up.stop()


@pytest.mark.data_plane
@pytest.mark.parametrize("way", ["binary", "json", "grpc"])
def test_strings_go_in_and_come_out(strings, way):
    module = grpcclient if way == "grpc" else httpclient
    client = module.InferenceServerClient(strings.gateways[0]["grpc" if way == "grpc" else "http"])
    metadata = get(strings.gateways[0]["http"], "/v2/models/colours").json()
    assert metadata["inputs"] == [{"name": "colour", "datatype": "BYTES", "shape": [-1, 1]}]
    assert metadata["outputs"] == [{"name": "label", "datatype": "BYTES", "shape": [-1, 1]}, {"name": "share", "datatype": "FP32", "shape": [-1, 3]}]
    words = ["green", "deep violet", "red", "red"]
    label, share = ask_colours(module, client, "colours", words, way == "binary")
    assert label == [word.upper() + " ✓" for word in words]
    assert share.tolist() == [[float(word == key) for key in sorted(COLOURS)] for word in words]
    module is grpcclient and client.close()


@pytest.mark.data_plane
def test_what_a_model_does_not_know_costs_others_nothing(strings):
    def many(word, into):
        client = httpclient.InferenceServerClient(strings.gateways[0]["http"], network_timeout=60)
        for _ in range(100):
            try:
                into.append(ask_colours(httpclient, client, "colours", [word])[0])
            except InferenceServerException as error:
                into.append(error.status() + " " + error.message())

    right, wrong = [], []
    threads = [threading.Thread(target=many, args=item) for item in [("red", right)] * 3 + [("pink", wrong)] * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [["RED ✓"]] * 300
    assert wrong == ["400 model 'colours' cannot be run on these inputs (the log of its worker says why)"] * 200
    assert "inputs_refused" in strings.log() and "Unknown Category" in strings.log()


@pytest.mark.data_plane
@pytest.mark.parametrize("word, reason", [
    ("x" * 257, "input 'colour': element 0 has 257 bytes, the model takes 256 at most (string_bytes)"),
    ("red\0", "input 'colour': element 0 ends in a zero byte"),
])
def test_strings_without_room_are_refused(strings, word, reason):
    client = httpclient.InferenceServerClient(strings.gateways[0]["http"])
    with pytest.raises(InferenceServerException, match=re.escape(reason)):
        ask_colours(httpclient, client, "colours", [word])


@pytest.mark.data_plane
def test_the_room_of_strings_is_configured(strings):
    """The label of "deep violet" takes 15 bytes."""
    client = httpclient.InferenceServerClient(strings.gateways[0]["http"])
    assert ask_colours(httpclient, client, "narrow", ["red"])[0] == ["RED ✓"]
    with pytest.raises(InferenceServerException) as refused:
        ask_colours(httpclient, client, "narrow", ["deep violet"])
    assert refused.value.status() == "413", refused.value
    assert ask_colours(httpclient, client, "narrow", ["red", "green"])[0] == ["RED ✓", "GREEN ✓"]


@pytest.mark.parametrize("lines, why", [
    ("providers: [cuda, tensorrt]\n", "without 'cuda'; it has"),
    ("providers: abacus\n", "'abacus' is none of cuda"),
    ("providers: [cpu, cuda]\n", "it comes last"),
    ("engine: onednn\nproviders: cpu\n", "not of onednn"),
])
def test_a_provider_that_is_not_to_be_had_is_named(bin_dir, tmp_path, lines, why):
    """And the rest serves."""
    models = tmp_path / "models"
    exp = [helper.make_node("Exp", ["x"], ["y"])]
    write(models, "elsewhere", exp, lines)
    write(models, "here", exp, "providers: cpu\n")
    up = Up(bin_dir, tmp_path / "up.log", models=models)
    try:
        said = {model["name"]: model for model in get(up.ready["scheduler"]["http"], "/state").json()["models"]}
        assert said["here"]["engine"] == "onnxruntime", said
        assert get(up.http, "/v2/models/elsewhere/ready").status != 200
        assert why in up.log(), up.log()
    finally:
        assert up.stop() == 0, up.log()


def test_a_worker_told_to_use_a_provider_that_it_lacks_does_not_start(bin_dir, tmp_path):
    write(tmp_path / "models", "here", [helper.make_node("Exp", ["x"], ["y"])])
    for flags, code, why in ((["--providers", "cuda"], 1, "without 'cuda'; it has"), (["--providers", "cuda", "--engine", "onednn"], 2, "--providers is for")):
        done = subprocess.run([bin_dir / "fermata-worker", "--scheduler", "127.0.0.1:1", "--models", tmp_path / "models", *flags], capture_output=True, text=True, timeout=60)
        assert done.returncode == code and why in done.stderr, (done.returncode, done.stderr)


def test_what_cannot_be_fetched_is_named_once_and_left_out(tmp_path):
    """No package index and no mirror: nobody listens where they are said to be."""
    nobody = "http://127.0.0.1:9"
    env = os.environ | {"PIP_INDEX_URL": nobody, "PIP_RETRIES": "0", "PIP_CONFIG_FILE": os.devnull, "http_proxy": nobody, "https_proxy": nobody}
    done = subprocess.run(["scripts/get-engines", tmp_path / "libraries"], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    for name in ("onnxruntime", "openvino"):
        assert sum(f"get-engines: {name} " in line for line in done.stdout.splitlines()) == 1, done.stdout
    assert "from the package index of Python" in done.stdout, done.stdout
    assert not list((tmp_path / "libraries").iterdir()), "nothing half-made is left"


def broken_files(folder):
    """Each as a user's own file can be broken, and what the refusal names."""
    def save(name, nodes, weights=(), width=1):
        value = helper.make_tensor_value_info
        graph = helper.make_graph(nodes, name, [value("x", TensorProto.FLOAT, ["n", 4])], [value("y", TensorProto.FLOAT, ["n", width])], list(weights))
        (folder / name / "1").mkdir(parents=True)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)], ir_version=8),
                  folder / name / "1" / "model.onnx")

    def array(name, value, dtype=np.float32):
        return onnx.numpy_helper.from_array(np.asarray(value, dtype), name)

    def quantised(name, scale):
        save(name, [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], "quantize"), helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], "back"),
                    helper.make_node("MatMul", ["d", "w"], ["y"])], [array("s", scale), array("z", 0, np.uint8), array("w", np.ones((4, 1)))])

    def tree(name, left, right):
        save(name, [helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], "trees", domain="ai.onnx.ml", n_targets=1, nodes_treeids=[0] * 3, nodes_nodeids=[0, 1, 2],
                                     nodes_featureids=[0] * 3, nodes_values=[0.0] * 3, nodes_modes=["BRANCH_LEQ", "BRANCH_LEQ", "LEAF"], nodes_truenodeids=[1, left, 0],
                                     nodes_falsenodeids=[2, right, 0], target_treeids=[0], target_nodeids=[2], target_ids=[0], target_weights=[1.0])])

    def branch(name, *nodes):
        return helper.make_graph(list(nodes), name, [], [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)])

    quantised("zero", 0)
    quantised("no_number", np.nan)
    tree("itself", 1, 2)
    tree("root", 0, 2)
    tree("nowhere", 7, 2)
    save("cyclic", [helper.make_node("If", ["k"], ["y"], "branch",
                                     then_branch=branch("then", helper.make_node("Add", ["b", "x"], ["a"]), helper.make_node("Add", ["a", "x"], ["b"])),
                                     else_branch=branch("else", helper.make_node("Identity", ["x"], ["c"])))], [array("k", True, bool)], 4)
    save("typed", [helper.make_node("MatMul", ["x", "w"], ["y"], "product")], [array("w", np.ones((4, 1)), np.int64)])
    heavy(folder, "cut", "")
    path = folder / "cut" / "1" / "model.onnx"
    path.write_bytes(path.read_bytes()[:-100])
    return {"zero": "node 'quantize' (QuantizeLinear): scale 's' has 0", "no_number": "node 'quantize' (QuantizeLinear): scale 's' has nan",
            "itself": "tree", "root": "tree", "nowhere": "tree", "cyclic": "branch", "typed": "product", "cut": ""}


def test_broken_files_are_refused_by_name_and_the_rest_serves(bin_dir, tmp_path):
    models = tmp_path / "models"
    heavy(models, "whole", "", width=64)
    reasons = broken_files(models)
    up = Up(bin_dir, tmp_path / "up.log", models=models)
    try:
        said = {model["name"]: model for model in up.ready["models"]}
        for name, reason in reasons.items():
            assert said[name]["state"] == "failed" and said[name]["reason"], said[name]
            assert reason.lower() in said[name]["reason"].lower(), said[name]
        assert said["whole"]["state"] == "ready"
        x = np.random.default_rng(1).standard_normal((3, 64)).astype(np.float32)
        assert ask(httpclient.InferenceServerClient(up.http), "whole", x).shape == (3, 64)
    finally:
        up.stop()
