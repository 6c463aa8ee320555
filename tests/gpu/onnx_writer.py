"""Writes ONNX files with numpy alone: a GPU machine need not have the onnx package."""
import struct

import numpy as np

FLOAT, INT64 = 1, 7


def varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def number(field, n):
    return varint(field << 3) + varint(n)


def message(field, payload):
    payload = payload.encode() if isinstance(payload, str) else payload
    return varint(field << 3 | 2) + varint(len(payload)) + payload


def tensor(name, array):
    array = np.asarray(array, order="C")
    kind = {np.dtype("float32"): FLOAT, np.dtype("int64"): INT64}[array.dtype]
    return b"".join(number(1, d) for d in array.shape) + number(2, kind) + message(8, name) + message(9, array.tobytes())


def attribute(name, value):
    head = message(1, name)
    if isinstance(value, float):
        return head + varint(2 << 3 | 5) + struct.pack("<f", value) + number(20, 1)
    if isinstance(value, int):
        return head + number(3, value) + number(20, 2)
    if isinstance(value, str):
        return head + message(4, value) + number(20, 3)
    return head + b"".join(number(8, v) for v in value) + number(20, 7)


def value_info(name, kind, dims):
    shape = b"".join(message(1, message(2, d) if isinstance(d, str) else number(1, d)) for d in dims)
    return message(1, name) + message(2, message(1, number(1, kind) + message(2, shape)))


class Graph:
    """op() returns the name of the value it makes."""

    def __init__(self, opset=20):
        self.opset, self.parts, self.count = opset, [], 0

    def constant(self, array):
        self.count += 1
        name = f"c{self.count}"
        self.parts.append(message(5, tensor(name, array)))
        return name

    def op(self, kind, *inputs, **attributes):
        self.count += 1
        out = f"v{self.count}"
        node = b"".join(message(1, i) for i in inputs) + message(2, out) + message(3, f"n{self.count}")
        node += message(4, kind) + b"".join(message(5, attribute(k, v)) for k, v in attributes.items())
        self.parts.append(message(1, node))
        return out

    def save(self, path, inputs, outputs):
        graph = b"".join(self.parts) + message(2, "g")
        graph += b"".join(message(11, value_info(*i)) for i in inputs)
        graph += b"".join(message(12, value_info(*o)) for o in outputs)
        model = number(1, 9) + message(7, graph) + message(8, message(1, "") + number(2, self.opset))
        with open(path, "wb") as file:
            file.write(model)
