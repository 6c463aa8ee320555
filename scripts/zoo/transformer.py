"""BERT, MiniLM, DistilBERT, ViT."""
import math

import numpy as np
from onnx import TensorProto

from .net import Net

POSITIONS = 512


def norm(net, x, width, epsilon=1e-12):
    scale = net.parameter((1 + 0.1 * net.random.standard_normal(width)).astype(np.float32), "gamma")
    return net.op("LayerNormalization", x, scale, net.bias(width, 0.1), axis=-1, epsilon=epsilon)


def attention(net, queries, keys, values, size, masked=lambda scores: scores):
    """Of [batch, head, place, size]; keys [batch, head, size, place]."""
    scores = net.op("Div", net.op("MatMul", queries, keys), net.scalar(math.sqrt(size)))
    weights = net.op("Softmax", masked(scores), axis=-1)
    return net.op("Transpose", net.op("MatMul", weights, values), perm=[0, 2, 1, 3])


class Text:
    """The inputs of an encoder as torch exports them: shapes are computed at run time."""

    def __init__(self, net, sequence, heads, width):
        self.net, self.size, self.heads, self.width = net, width // heads, heads, width
        for name in ("input_ids", "attention_mask"):
            net.input(name, TensorProto.INT64, sequence)
        self.sequence, shape = sequence, net.op("Shape", "input_ids")
        self.batch, self.length = (net.op("Unsqueeze", net.op("Gather", shape, net.constant(np.int64(i), "axis"), axis=0),
                                          net.ints(0)) for i in (0, 1))

    def embed(self, vocabulary, width):
        net, wide = self.net, {"gain": 0.05, "fan_in": 1}
        places = net.op("Slice", net.constant(np.arange(POSITIONS, dtype=np.int64)[None], "positions"), net.ints(0), self.length,
                        net.ints(1), net.ints(1))
        words = net.op("Gather", net.weight(vocabulary, width, **wide), "input_ids", axis=0)
        return norm(net, net.op("Add", words, net.op("Gather", net.weight(POSITIONS, width, **wide), places, axis=0)), width)

    def heads_of(self, x, perm):
        net = self.net
        x = net.op("Reshape", x, net.op("Concat", self.batch, self.length, net.ints(self.heads), net.ints(self.size), axis=0))
        return net.op("Transpose", x, perm=perm)

    def attend(self, x, masked):
        net, width = self.net, self.width
        q, k, v = (self.heads_of(net.linear(x, width, width), perm)
                   for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
        x = attention(net, q, k, v, self.size, masked)
        x = net.op("Reshape", x, net.op("Concat", self.batch, self.length, net.ints(width), axis=0))
        return net.linear(x, width, width)

    def finish(self, x):
        self.net.output(x, self.sequence, self.width, name="last_hidden_state")
        return self.net


def encoder(name, layers, width, heads, sequence, mask):
    net = Net(name)
    text = Text(net, sequence, heads, width)
    masked = mask(net)
    x = text.embed(30522, width)
    for _ in range(layers):
        x = norm(net, net.op("Add", text.attend(x, masked), x), width)
        y = net.linear(net.gelu(net.linear(x, width, 4 * width)), 4 * width, width)
        x = norm(net, net.op("Add", y, x), width)
    return text.finish(x)


def added_mask(net):
    mask = net.op("Cast", net.op("Unsqueeze", "attention_mask", net.ints(1, 2)), to=TensorProto.FLOAT)
    mask = net.op("Mul", net.op("Sub", net.scalar(1), mask), net.scalar(-1e9))
    return lambda scores: net.op("Add", scores, mask)


def chosen_mask(net):
    """As DistilBERT does it: what is masked out is replaced."""
    mask = net.op("Equal", net.op("Unsqueeze", "attention_mask", net.ints(1, 2)), net.constant(np.int64(0), "zero"))
    low = net.scalar(np.finfo(np.float32).min)
    return lambda scores: net.op("Where", net.op("Expand", mask, net.op("Shape", scores)), low, scores)


def bert(name, layers, width, heads, sequence="sequence"):
    """Devlin et al. 2019, without token types and pooler."""
    return encoder(name, layers, width, heads, sequence, added_mask)


def distilbert():
    """Sanh et al. 2019."""
    return encoder("distilbert", 6, 768, 12, "sequence", chosen_mask)


def vit(name, size=224, patch=16, layers=12, width=768, heads=12, classes=1000):
    """Dosovitskiy et al. 2021, as torchvision exports it: one product for queries, keys and values."""
    net, places, each = Net(name, size), (size // patch) ** 2 + 1, width // heads
    x = net.conv("input", width, patch, patch, 0, bias=True, gain=1)
    x = net.op("Transpose", net.op("Reshape", x, net.ints(0, width, places - 1)), perm=[0, 2, 1])
    batch = net.op("Slice", net.op("Shape", x), net.ints(0), net.ints(1))
    token = net.op("Expand", net.weight(1, 1, width, fan_in=1), net.op("Concat", batch, net.ints(1, width), axis=0))
    x = net.op("Add", net.op("Concat", token, x, axis=1), net.weight(1, places, width, fan_in=1, gain=0.5))
    for _ in range(layers):
        y = net.linear(norm(net, x, width, 1e-6), width, 3 * width)
        y = net.op("Transpose", net.op("Reshape", y, net.ints(0, places, 3, heads, each)), perm=[2, 0, 3, 1, 4])
        q, k, v = (net.op("Gather", y, net.constant(np.int64(i), "index"), axis=0) for i in range(3))
        y = attention(net, q, net.op("Transpose", k, perm=[0, 1, 3, 2]), v, each)
        x = net.op("Add", net.linear(net.op("Reshape", y, net.ints(0, places, width)), width, width), x)
        y = net.gelu(net.linear(norm(net, x, width, 1e-6), width, 4 * width))
        x = net.op("Add", net.linear(y, 4 * width, width), x)
    x = net.op("Gather", norm(net, x, width, 1e-6), net.constant(np.int64(0), "index"), axis=1)
    net.output(net.gemm(x, width, classes), classes)
    return net
