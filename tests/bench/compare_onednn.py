#!/usr/bin/env python3
"""Our oneDNN engine beside onnxruntime on the same models, inputs and threads, in turns; and whether they agree.

    tests/bench/compare_onednn.py --bench build/release/bin/fermata-engine-bench --zoo DIR [--batches 1,8] [MODEL ...]

DIR comes from scripts/make-zoo. Turns alternate. The ratio is that of the least processor times of a run, the only figure
that repeats on a shared machine (least wall-clock times stand beside it); onnxruntime / ours, so above 1 we are faster. Needs numpy, onnx and onnxruntime (PyPI).
"""
import argparse
import json
import math
import os
import subprocess
import tempfile
import time

import numpy as np
import onnxruntime

MODELS = ["resnet50", "mobilenet_v2", "vgg16", "densenet121", "bert_base_128", "minilm_128"]


def inputs_for(session, batch, length):
    random = np.random.default_rng(7)
    values = {}
    for i in session.get_inputs():
        shape = [batch if n == 0 else d if isinstance(d, int) else length for n, d in enumerate(i.shape)]
        if i.name == "attention_mask":
            values[i.name] = np.ones(shape, np.int64)
        elif "int64" in i.type:
            values[i.name] = random.integers(0, 1000, shape)
        else:
            values[i.name] = random.standard_normal(shape).astype(np.float32)
    return values


def our_turn(options, path, folder, batch):
    line = subprocess.run([options.bench, "--model", path, "--batch", str(batch), "--length", str(options.length),
                           "--seconds", str(options.seconds), "--threads", str(options.threads), "--inputs", folder,
                           "--outputs", folder + "/out"], check=True, capture_output=True, text=True).stdout
    return json.loads(line)


def their_turn(session, values, seconds):
    times, end = [], time.monotonic() + seconds
    outputs = session.run(None, values)
    while len(times) < 3 or time.monotonic() < end:
        begin, used = time.perf_counter(), time.process_time()
        session.run(None, values)
        times.append((1e3 * (time.process_time() - used), 1e3 * (time.perf_counter() - begin)))
    return times, outputs


def difference(folder, outputs):
    worst = 0.0
    for i, theirs in enumerate(outputs):
        ours = np.fromfile(f"{folder}/out/{i}.bin", theirs.dtype).reshape(theirs.shape)
        worst = max(worst, float(np.abs(ours - theirs).max() / (np.abs(theirs).max() + 1e-12)))
    return worst


def compare(options, name, batch):
    path = os.path.join(options.zoo, name, "1", "model.onnx")
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.inter_op_num_threads = options.threads, 1
    begin = time.perf_counter()
    session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    their_load = 1e3 * (time.perf_counter() - begin)
    values = inputs_for(session, batch, options.length)
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(folder + "/out")
        for n, i in enumerate(session.get_inputs()):
            values[i.name].tofile(f"{folder}/{n}.bin")
        for _ in range(options.rounds):
            mine = our_turn(options, path, folder, batch)
            ours.append((mine["cpu_ms"], mine["min_ms"]))
            times, outputs = their_turn(session, values, options.seconds)
            theirs += times
        error = difference(folder, outputs)
    cpu, wall = [[min(t[k] for t in side) for side in (ours, theirs)] for k in (0, 1)]
    ratio = cpu[1] / cpu[0]
    print(f"{name:16} {batch:5} {cpu[0] / batch:9.2f} {cpu[1] / batch:9.2f} {ratio:6.2f} {wall[0] / batch:9.2f} "
          f"{wall[1] / batch:9.2f} {error:9.1e} {mine['load_ms'] + mine['prepare_ms']:9.0f} {their_load:9.0f}", flush=True)
    return ratio, error


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--zoo", required=True)
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("models", nargs="*", default=MODELS)
    options = parser.parse_args()
    print(f"onnxruntime {onnxruntime.__version__}, {options.threads} thread(s), minimum of {options.rounds} turns")
    print(f"{'model':16} {'batch':>5} {'ours cpu':>9} {'ort cpu':>9} {'ratio':>6} {'wall':>9} {'ort wall':>9} {'error':>9} "
          f"{'load':>9} {'ort load':>9}   (ms per row of the batch)")
    found = [compare(options, m, int(b)) for m in options.models for b in options.batches.split(",")]
    ratios = [r for r, _ in found]
    print(f"geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}, lowest {min(ratios):.2f}, "
          f"largest error {max(e for _, e in found):.1e}")


if __name__ == "__main__":
    main()
