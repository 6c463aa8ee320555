#!/usr/bin/env python3
"""Classifies the example pictures with onnxruntime and Pillow by the pipeline of config.yaml; exit 1 if one is wrong."""

import pathlib
import sys

import numpy as np
import onnxruntime
from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent
PICTURES = HERE.parent.parent / "pictures"


def main():
    session = onnxruntime.InferenceSession(HERE / "1" / "model.onnx", providers=["CPUExecutionProvider"])
    labels = (HERE / "labels.txt").read_text().split()
    wrong, least = 0, 1.0
    paths = sorted(PICTURES.glob("digit-*"))
    for path in paths:
        grey = Image.open(path).convert("L").resize((8, 8), Image.Resampling.BOX)
        x = ((np.asarray(grey, np.float32) / 255 - 0.5) / 0.5)[None, None]
        scores = session.run(["scores"], {"image": x})[0][0]
        chances = np.exp(scores - scores.max())
        chances /= chances.sum()
        expected, got = path.name.split("-")[1], labels[chances.argmax()]
        least = min(least, chances.max())
        if got != expected:
            wrong += 1
            print(f"{path.name}: expected {expected}, got {got} ({chances.max():.3f})")
    print(f"{len(paths) - wrong} of {len(paths)} pictures right, least certainty {least:.3f}")
    return 1 if wrong or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
