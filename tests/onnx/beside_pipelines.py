#!/usr/bin/env python3
"""Serves the pipelines of scripts/export-pipelines with `fermata up` and holds each answer against onnxruntime's.

    tests/onnx/beside_pipelines.py [--bin build/release/bin] DIR

Each is asked by HTTP (binary), HTTP (JSON) and gRPC, with one row and with seven; strings and whole numbers must be equal, floats
within 1e-5. A sequence of maps is one number a key, in the order of the keys. Exit code 1 when one differs or is not served.
"""
import argparse
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient

ROOT = pathlib.Path(__file__).resolve().parents[2]
TYPES = {"tensor(float)": "FP32", "tensor(int64)": "INT64", "tensor(string)": "BYTES", "tensor(double)": "FP64"}
ROWS = [1, 7]


def plain(value):
    """What onnxruntime gives, as it is served."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return np.array([[row[key] for key in sorted(row)] for row in value], np.float32)
    value = np.asarray(value)
    return np.char.encode(value.astype(str), "utf-8") if value.dtype.kind in "UO" else value


def inputs(module, session, rows, binary):
    made = []
    for io in session.get_inputs():
        data = rows[io.name]
        tensor = module.InferInput(io.name, data.shape, TYPES[io.type])
        tensor.set_data_from_numpy(data.astype(object) if data.dtype.kind == "U" else data, **({} if module is grpcclient else {"binary_data": binary}))
        made.append(tensor)
    return made


def answers(client, module, name, session, rows, binary=True):
    wanted = [module.InferRequestedOutput(io.name, **({} if module is grpcclient else {"binary_data": binary})) for io in session.get_outputs()]
    result = client.infer(name, inputs(module, session, rows, binary), outputs=wanted)
    return [plain(result.as_numpy(io.name)) if io.type == "tensor(string)" else result.as_numpy(io.name) for io in session.get_outputs()]


def differs(got, want):
    if got.shape != want.shape:
        return f"shape {got.shape}, not {want.shape}"
    if want.dtype.kind == "S":
        got = np.array([x if isinstance(x, bytes) else str(x).encode() for x in got.reshape(-1)]).reshape(got.shape)
        return None if (got == want).all() else f"{got.tolist()}, not {want.tolist()}"
    if want.dtype.kind == "i":
        return None if (got == want).all() else f"{got.tolist()}, not {want.tolist()}"
    return None if np.allclose(got, want, rtol=1e-5, atol=1e-5) else f"off by {np.abs(got - want).max()}"


def check(http, grpc, folder):
    session = onnxruntime.InferenceSession(str(folder / "1" / "model.onnx"))
    rows = np.load(folder / "rows.npz")
    for count in ROWS:
        some = {io.name: rows[io.name][:count] for io in session.get_inputs()}
        want = [plain(value) for value in session.run(None, {key: value.astype(object) if value.dtype.kind == "U" else value for key, value in some.items()})]
        for way, got in (("http", answers(http, httpclient, folder.name, session, some)), ("json", answers(http, httpclient, folder.name, session, some, False)),
                         ("grpc", answers(grpc, grpcclient, folder.name, session, some))):
            for io, a, b in zip(session.get_outputs(), got, want):
                if reason := differs(a, b):
                    return f"{way}, {count} rows, output {io.name}: {reason}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "release" / "bin")
    args = parser.parse_args()
    folders = sorted(path.parent.parent for path in args.folder.glob("*/1/model.onnx"))
    with tempfile.NamedTemporaryFile("w+", suffix=".log") as log:
        up = subprocess.Popen([args.bin / "fermata", "up", "--models", args.folder, "--any-port", "--json"], stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            ready = json.loads(up.stdout.readline())
            http, grpc = httpclient.InferenceServerClient(ready["gateways"][0]["http"], network_timeout=60), grpcclient.InferenceServerClient(ready["gateways"][0]["grpc"])
            wrong = 0
            for folder in folders:
                try:
                    reason = check(http, grpc, folder)
                except Exception as error:  # whatever a client throws
                    reason = str(error)
                wrong += reason is not None
                print(f"{folder.name:20} {reason or 'equal'}", flush=True)
            print(f"{len(folders) - wrong} of {len(folders)} equal")
            sys.exit(wrong > 0)
        finally:
            up.send_signal(signal.SIGTERM)
            up.wait(30)


if __name__ == "__main__":
    main()
