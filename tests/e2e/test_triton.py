"""A repository that was made for Triton, with its config.pbtxt files as they are: what can be served is, by stock clients, and each of
the others says in one line why not."""

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from onnx import TensorProto, helper

from client import get, post

CONFIG = """name: "%s"
platform: "onnxruntime_onnx"
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 2, 3 ] reshape { shape: [ 6 ] } } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 6 ] label_filename: "names.txt" } ]
dynamic_batching {
  preferred_batch_size: [ 4, 8 ]
  max_queue_delay_microseconds: 100
  default_queue_policy { default_timeout_microseconds: 3000000 }
}
instance_group [ { count: 2 kind: KIND_CPU } ]
version_policy: { specific { versions: [ 3 ] } }
"""


def relu(width):
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", width])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", width])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()


def put(folder, name, pbtxt, version="1", file="model.onnx", data=None):
    place = folder / name / version
    place.mkdir(parents=True)
    (place / file).write_bytes(relu(6) if data is None else data)
    if pbtxt is not None:
        (folder / name / "config.pbtxt").write_text(pbtxt)


SERVED = "those of the backend 'onnxruntime' (platform 'onnxruntime_onnx') are"
# name: (what its config.pbtxt says, its file, what the index must say)
REFUSED = {
    "trt": ('platform: "tensorrt_plan"\n', "model.plan", ["config.pbtxt:1:1", "'tensorrt_plan'", SERVED]),
    "torch": ('backend: "pytorch"\nmax_batch_size: 8\n', "model.pt", ["config.pbtxt:1:1", "'pytorch'", SERVED]),
    "torchscript": ('platform: "pytorch_libtorch"\n', "model.pt", ["'pytorch_libtorch'", SERVED]),
    "saved": ('\nplatform: "tensorflow_savedmodel"\n', "model.pb", ["config.pbtxt:2:1", "'tensorflow_savedmodel'", SERVED]),
    "graphdef": ('platform: "tensorflow_graphdef"\n', "model.graphdef", ["'tensorflow_graphdef'", SERVED]),
    "python": ('backend: "python"\n', "model.py", ["'python'", SERVED]),
    "vino": ('backend: "openvino"\n', "model.xml", ["'openvino'", SERVED]),
    "dali": ('backend: "dali"\n', "model.dali", ["'dali'", SERVED]),
    "trees": ('backend: "fil"\n', "xgboost.model", ["'fil'", SERVED]),
    "llm": ('backend: "vllm"\n', "model.json", ["'vllm'", SERVED]),
    "chain": ('platform: "ensemble"\nensemble_scheduling { step [ ] }\n', "none", ["ensembles are not served"]),
    "stateful": ("sequence_batching { }\n", "model.onnx", ["keep a state between requests"]),
    "other": ('name: "some"\n', "model.onnx", ["config.pbtxt:1", "'some'", "'other'"]),
    "syntax": ("max_batch_size: 8\ninput [ {\n", "model.onnx", ["config.pbtxt:2:1", "'input' is never closed"]),
    "names": ('input { name: "z" }\n', "model.onnx", ["config.pbtxt:1", "no input 'z'", "'x'"]),
    "dtype": ('input { name: "x" data_type: TYPE_FP16 }\n', "model.onnx", ["FP16", "FP32"]),
    "dims": ('max_batch_size: 4 input { name: "x" dims: [ 7 ] }\n', "model.onnx", ["[7]", "[6]"]),
    "nofile": ('default_model_filename: "net.onnx"\n', "model.onnx", ["no version folder with a net.onnx", "'1' has no such file"]),
    "undirected": (None, "model.plan", ["no version folder with a model.onnx", "'1' has no such file"]),
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("triton")
    put(folder, "net", CONFIG % "net", "3", data=relu(6))
    put(folder, "net", None, "4", data=b"not looked at: version_policy names 3")
    (folder / "net" / "names.txt").write_text("a\nb\nc\nd\ne\nf\n")
    put(folder, "named", 'max_batch_size: 0\ndefault_model_filename: "net.onnx"\noptimisation { }\n', file="net.onnx")
    for name, (pbtxt, file, _) in REFUSED.items():
        put(folder, name, pbtxt, file=file)
    put(folder, "both", "max_batch_size: 8\n")
    (folder / "both" / "config.yaml").write_text("priority: 3\nmax_batch: 16\n")
    put(folder, "words", None, version="v1")
    put(folder, "zeros", None, version="01")
    (folder / "bare" / "docs").mkdir(parents=True)
    (folder / "folded" / "1" / "model.onnx").mkdir(parents=True)
    (folder / "linked").symlink_to(folder / "net", target_is_directory=True)
    put(folder, "plain", None)
    (folder / "twin").symlink_to(folder / "plain", target_is_directory=True)
    (folder / "dangling").symlink_to(folder / "nowhere", target_is_directory=True)
    (folder / "loop").symlink_to(folder / "loop", target_is_directory=True)
    return folder


@pytest.fixture(scope="module")
def triton(way, bin_dir, tmp_path_factory, repository):
    running = way(bin_dir, tmp_path_factory.mktemp("up") / "up.log", models=repository)
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="module")
def index(triton):
    return {entry["name"]: entry for entry in post(triton.http, "/v2/repository/index", {}).json()}


def test_a_model_of_the_onnxruntime_backend_is_served_as_its_config_says(triton):
    client = tritonclient.grpc.InferenceServerClient(triton.grpc)
    config = client.get_model_config("net", as_json=True)["config"]
    assert config["max_batch_size"] == 8
    assert config["input"][0]["name"] == "x" and config["input"][0]["dims"] == ["2", "3"]
    assert config["output"][0]["dims"] == ["6"] and config["output"][0]["label_filename"]
    metadata = client.get_model_metadata("net", as_json=True)
    assert metadata["versions"] == ["3"]
    assert metadata["inputs"][0]["shape"] == ["-1", "2", "3"] and metadata["inputs"][0]["datatype"] == "FP32"
    http = tritonclient.http.InferenceServerClient(triton.http)
    assert http.get_model_config("net")["max_batch_size"] == 8
    values = np.array([[[1, -2, 3], [-4, 5, -6]], [[6, 5, 4], [3, 2, 1]]], np.float32)
    for kind, caller in ((tritonclient.grpc, client), (tritonclient.http, http)):
        x = kind.InferInput("x", values.shape, "FP32")
        x.set_data_from_numpy(values)
        assert np.array_equal(caller.infer("net", [x]).as_numpy("y"), np.maximum(values, 0).reshape(2, 6))
        top = caller.infer("net", [x], outputs=[kind.InferRequestedOutput("y", class_count=1)]).as_numpy("y")
        assert [text.split(b":")[-1] for text in top.ravel()] == [b"e", b"a"]


@pytest.mark.data_plane
def test_a_model_without_a_batch_dimension(triton, index):
    client = tritonclient.http.InferenceServerClient(triton.http)
    assert client.get_model_config("named")["max_batch_size"] == 0
    assert client.get_model_metadata("named")["inputs"][0]["shape"] == [-1, 6]
    x = tritonclient.http.InferInput("x", [3, 6], "FP32")
    x.set_data_from_numpy(-np.ones((3, 6), np.float32))
    assert not client.infer("named", [x]).as_numpy("y").any()


def test_what_is_not_taken_up_is_named_in_the_index_and_the_log(triton, index):
    assert index["net"]["state"] == "READY"
    assert index["net"]["reason"] == ("config.pbtxt: not taken up: dynamic_batching.preferred_batch_size (line 7), "
                                      "dynamic_batching.max_queue_delay_microseconds (line 8), instance_group.count (line 11), "
                                      "instance_group.kind (line 11)")
    lines = [line for line in triton.log().splitlines() if "config_key_not_taken_up" in line]
    assert len([line for line in lines if "model=net " in line and "max_queue_delay_microseconds" in line and "line=8" in line]) == 1
    assert index["named"]["reason"] == "config.pbtxt: not taken up: optimisation (line 3)"
    assert [line for line in lines if "model=named " in line and "why=unknown" in line]
    assert not index["plain"].get("reason")


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_served_says_why_in_one_line(triton, index, name):
    assert index[name]["state"] == "UNAVAILABLE"
    for words in REFUSED[name][2]:
        assert words in index[name]["reason"], index[name]
    assert "\n" not in index[name]["reason"]
    assert get(triton.http, f"/v2/models/{name}/ready").status == 503


@pytest.mark.parametrize("name,words", {
    "both": ["config.yaml:2:1: max_batch: 16 contradicts max_batch_size 8 in config.pbtxt:1"],
    "words": ["no version folder with a model.onnx", "'v1' is no number"],
    "zeros": ["no version folder", "'01' is no number from 1, without zeros ahead"],
    "bare": ["no version folder", "'docs' is no number"],
    "folded": ["no version folder", "'1' has a folder of the file's name"],
    "linked": ["the name 'net' is not that of its folder, 'linked'"],
    "dangling": ["/dangling is a link that leads nowhere: No such file or directory"],
    "loop": ["/loop is a link that leads nowhere: Too many levels of symbolic links"],
}.items())
def test_a_folder_with_a_mistake_says_which(index, name, words):
    assert index[name]["state"] == "UNAVAILABLE"
    for text in words:
        assert text in index[name]["reason"], index[name]


def test_a_link_to_a_model_is_a_model_of_its_own(triton, index):
    assert index["plain"]["state"] == index["twin"]["state"] == "READY"
    client = tritonclient.http.InferenceServerClient(triton.http)
    x = tritonclient.http.InferInput("x", [1, 6], "FP32")
    x.set_data_from_numpy(np.ones((1, 6), np.float32))
    for name in ("plain", "twin"):
        assert client.infer(name, [x]).as_numpy("y").sum() == 6
