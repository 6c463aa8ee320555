#!/usr/bin/env python3
"""Trains the digits classifier and writes 1/model.onnx, labels.txt and the example pictures.

    python -m venv /tmp/venv && /tmp/venv/bin/pip install -r requirements.txt && /tmp/venv/bin/python train.py

Data: scikit-learn's copy of the UCI optical digits (1,797 scanned digits of 8 x 8 pixels). Every digit is made a
picture (dark ink on white paper, enlarged, PNG or JPEG) and read back through the pipeline of config.yaml, so that
the network sees in training what the gateway will give it. A fifth of the digits is held out; the accuracy on it is
printed and must be at least 98 %. Everything follows from SEED.
"""

import io
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from sklearn.datasets import load_digits

import network

SEED = 20261120
EPOCHS = 30
BATCH = 64
HELD_OUT = 360
PICTURES_PER_DIGIT = 3
PICTURE_SIZES = (64, 80, 96)

# The same as in config.yaml.
MEAN, STD = 0.5, 0.5

HERE = pathlib.Path(__file__).resolve().parent
PICTURES = HERE.parent.parent / "pictures"


def encode(digit, number):
    """One 8 x 8 digit (0 paper, 16 ink) as (file bytes, suffix): every third a grey PNG, a colour PNG, a JPEG."""
    grey = Image.fromarray(np.rint(255 - digit * 255 / 16).astype(np.uint8))
    size = PICTURE_SIZES[number // 3 % len(PICTURE_SIZES)]
    picture = grey.resize((size, size), Image.Resampling.BICUBIC)
    out = io.BytesIO()
    if number % 3 == 2:
        picture.convert("RGB").save(out, "JPEG", quality=90)
        return out.getvalue(), "jpg"
    picture.convert("RGB" if number % 3 == 1 else "L").save(out, "PNG", optimize=True)
    return out.getvalue(), "png"


def preprocess(file_bytes):
    """What the gateway does by config.yaml: decode to grey, box filter to 8 x 8, normalise, NCHW."""
    picture = Image.open(io.BytesIO(file_bytes)).convert("L").resize((8, 8), Image.Resampling.BOX)
    return ((np.asarray(picture, np.float32) / 255 - MEAN) / STD)[None]


def export(net, path):
    """Writes the network as ONNX, batch normalisation unfolded: folding it is the engine's work."""
    nodes, weights = [], []

    def weight(name, value):
        weights.append(numpy_helper.from_array(np.ascontiguousarray(value, np.float32), name))
        return name

    def conv_norm(name, conv, norm, source):
        nodes.append(helper.make_node("Conv", [source, weight(f"{name}.w", conv.w.value), weight(f"{name}.b", conv.b.value)],
                                      [f"{name}.out"], name, kernel_shape=[3, 3], pads=[1, 1, 1, 1]))
        inputs = [f"{name}.out"] + [weight(f"{name}.norm.{part}", value) for part, value in
                                    (("scale", norm.scale.value), ("shift", norm.shift.value),
                                     ("mean", norm.mean), ("var", norm.var))]
        nodes.append(helper.make_node("BatchNormalization", inputs, [f"{name}.norm"], f"{name}.norm", epsilon=norm.EPSILON))
        return f"{name}.norm"

    def node(kind, inputs, output, **attributes):
        nodes.append(helper.make_node(kind, inputs, [output], output, **attributes))
        return output

    x = node("Relu", [conv_norm("conv1", net.conv1, net.norm1, "image")], "relu1")
    x = node("Relu", [conv_norm("conv2", net.conv2, net.norm2, x)], "relu2")
    pooled = node("MaxPool", [x], "pool", kernel_shape=[2, 2], strides=[2, 2])
    x = node("Add", [conv_norm("conv3", net.conv3, net.norm3, pooled), pooled], "residual")
    x = node("Flatten", [node("Relu", [x], "relu3")], "flat", axis=1)
    node("Gemm", [x, weight("fc.w", net.fc.w.value), weight("fc.b", net.fc.b.value)], "scores")

    graph = helper.make_graph(
        nodes, "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", 10])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8,
                              producer_name="fermata-examples")
    onnx.checker.check_model(model, full_check=True)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(model.SerializeToString(deterministic=True))


def write_pictures(files, labels, chosen):
    PICTURES.mkdir(exist_ok=True)
    for old in PICTURES.glob("digit-*"):
        old.unlink()
    count = [0] * 10
    for index in chosen:
        label = labels[index]
        if count[label] < PICTURES_PER_DIGIT:
            data, suffix = files[index]
            (PICTURES / f"digit-{label}-{count[label]:02}.{suffix}").write_bytes(data)
            count[label] += 1
    return sum(count)


def main():
    rng = np.random.default_rng(SEED)
    digits = load_digits()
    files = [encode(digit, number) for number, digit in enumerate(digits.images)]
    x = np.stack([preprocess(data) for data, _ in files])
    labels = digits.target
    order = rng.permutation(len(x))
    test, training = order[:HELD_OUT], order[HELD_OUT:]

    net = network.Network(rng)
    for epoch in range(EPOCHS):
        rate = 2e-3 * 0.5 * (1 + np.cos(np.pi * epoch / EPOCHS))
        shuffled = rng.permutation(training)
        losses = [net.train_step(x[part], labels[part], rate)
                  for part in np.array_split(shuffled, len(shuffled) // BATCH)]
        print(f"epoch {epoch + 1:2}: loss {np.mean(losses):.4f}", flush=True)

    right = net.forward(x[test]).argmax(1) == labels[test]
    print(f"seed {SEED}: {len(training)} digits to train on, {len(test)} held out")
    print(f"test accuracy {100 * right.mean():.2f} % ({right.sum()} of {len(test)})")
    if right.mean() < 0.98:
        sys.exit("below 98 %: nothing written")
    export(net, HERE / "1" / "model.onnx")
    (HERE / "labels.txt").write_text("".join(f"{digit}\n" for digit in range(10)))
    print(f"{write_pictures(files, labels, test)} held-out pictures written to {PICTURES.name}/")


if __name__ == "__main__":
    main()
