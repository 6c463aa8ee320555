#!/usr/bin/env python3
"""Classifies pictures with the stock Triton client, as against any server of the Open Inference Protocol.

    python examples/classify.py --protocol grpc --address 127.0.0.1:8001 examples/pictures/*.png

Needs `pip install tritonclient[all]` and nothing of Fermata.
"""

import argparse
import importlib
import pathlib
import sys

import numpy as np


def main():
    parser = argparse.ArgumentParser(description="Classify pictures with the stock Triton client.")
    parser.add_argument("--protocol", choices=["http", "grpc"], default="http")
    parser.add_argument("--address", default="127.0.0.1:8000")
    parser.add_argument("--model", default="digits")
    parser.add_argument("--check", action="store_true", help="the expected label is in the file name (digit-7-00.png); exit 1 if one is wrong")
    parser.add_argument("pictures", nargs="+", type=pathlib.Path)
    options = parser.parse_args()

    triton = importlib.import_module(f"tritonclient.{options.protocol}")
    client = triton.InferenceServerClient(options.address)
    metadata = client.get_model_metadata(options.model)
    if options.protocol == "grpc":
        name, output = metadata.inputs[0].name, metadata.outputs[0].name
    else:
        name, output = metadata["inputs"][0]["name"], metadata["outputs"][0]["name"]

    right = 0
    for path in options.pictures:
        picture = triton.InferInput(name, [1], "BYTES")
        picture.set_data_from_numpy(np.array([path.read_bytes()], dtype=np.object_))
        wanted = triton.InferRequestedOutput(output, class_count=1)
        best = client.infer(options.model, [picture], outputs=[wanted]).as_numpy(output).ravel()[0].decode()
        certainty, _, label = best.split(":", 2)
        print(f"{path.name}: {label} ({float(certainty):.3f})")
        right += options.check and label == path.name.split("-")[1]
    client.close()
    if options.check:
        print(f"tritonclient.{options.protocol}: {right} of {len(options.pictures)} right")
        return 0 if right == len(options.pictures) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
