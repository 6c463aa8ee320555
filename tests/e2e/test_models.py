"""Models that cannot load leave the others serving and say why."""

import shutil

import onnx
import pytest
from onnx import TensorProto, helper

from client import digit_tensor, get, good, pictures, post, read_picture, request, tensor_request
from system import MODELS


def write_model(folder, name, data, config=None):
    (folder / name / "1").mkdir(parents=True)
    (folder / name / "1" / "model.onnx").write_bytes(data)
    if config:
        (folder / name / "config.yaml").write_text(config)


def unsupported_operator():
    node = helper.make_node("Loopback", ["x"], ["y"], "the_odd_one", domain="example.com")
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13), helper.make_opsetid("example.com", 1)], ir_version=8)
    return model.SerializeToString()


def missing_weight():
    node = helper.make_node("Gemm", ["x", "nowhere"], ["y"], "lost")
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()


def no_pictures():
    """A good model that takes tensors only: y = relu(x)."""
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 1])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 1])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()


@pytest.fixture(scope="module")
def mixed(way, bin_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    shutil.copytree(MODELS / "digits", folder / "digits")
    digits = (MODELS / "digits" / "1" / "model.onnx").read_bytes()
    write_model(folder, "garbage", b"\x00\x01this is not a model")
    write_model(folder, "empty", b"")
    write_model(folder, "cut", digits[:len(digits) // 2])
    write_model(folder, "badop", unsupported_operator())
    write_model(folder, "noweight", missing_weight())
    write_model(folder, "badconfig", digits, "slo_ms: 50\nmax_bach: 8\n")
    write_model(folder, "plain", no_pictures())
    (folder / "hollow").mkdir()
    running = way(bin_dir, tmp_path_factory.mktemp("up") / "up.log", models=folder)
    yield running
    assert running.stop() == 0


# What each must say.
REASONS = {"garbage": ["ONNX"], "empty": ["model"], "cut": ["ONNX"], "badop": ["the_odd_one", "Loopback"], "noweight": ["nowhere"],
           "badconfig": ["config.yaml:2", "max_bach"]}


def test_the_good_one_serves(mixed):
    assert get(mixed.http, "/v2/health/ready").status == 200
    assert get(mixed.http, "/v2/models/digits/ready").status == 200
    good(mixed.http)


@pytest.mark.parametrize("name,words", REASONS.items(), ids=REASONS)
def test_a_broken_one_says_why(mixed, name, words):
    assert get(mixed.http, f"/v2/models/{name}/ready").status != 200
    index = {entry["name"]: entry for entry in post(mixed.http, "/v2/repository/index", {}).json()}
    assert index[name]["state"] == "UNAVAILABLE", index
    for word in words:
        assert word in index[name]["reason"], index[name]
    answer = post(mixed.http, f"/v2/models/{name}/infer", tensor_request(digit_tensor()))
    assert answer.status in (404, 503), answer
    assert answer.error()
    good(mixed.http)


@pytest.mark.parametrize("name,words", REASONS.items(), ids=REASONS)
def test_a_broken_one_has_no_empty_metadata(mixed, name, words):
    for path in (f"/v2/models/{name}", f"/v2/models/{name}/config"):
        answer = get(mixed.http, path)
        assert answer.status == 503, answer
        for word in words:
            assert word in answer.error()


def test_a_picture_is_no_tensor(mixed):
    """One FP32 a row: any file whose length is a multiple of four would fit."""
    picture = read_picture(pictures()[0][0])
    picture += bytes(-len(picture) % 4)
    answer = request(mixed.http, "POST", "/v2/models/plain/infer", picture, {"Content-Type": "image/png"})
    assert answer.status == 400 and "pictures" in answer.error(), answer
    raw = {"Inference-Header-Content-Length": "0"}
    assert request(mixed.http, "POST", "/v2/models/plain/infer", bytes(8), raw).status == 200


@pytest.mark.parametrize("body", ["[]", "{", '{"ready": 1}', '{"ready": true'])
def test_a_broken_question_for_the_index(mixed, body):
    answer = request(mixed.http, "POST", "/v2/repository/index", body)
    assert answer.status == 400 and answer.error(), answer


def test_the_index_of_ready_ones(mixed):
    assert {entry["name"] for entry in post(mixed.http, "/v2/repository/index", {"ready": True}).json()} == {"digits", "plain"}


def test_onnx_is_what_it_should_be():
    """The broken models are broken in one way each: the reference checker refuses or accepts them as meant."""
    onnx.checker.check_model(onnx.load_from_string(unsupported_operator()))
    with pytest.raises(Exception):
        onnx.checker.check_model(onnx.load_from_string(missing_weight()))
