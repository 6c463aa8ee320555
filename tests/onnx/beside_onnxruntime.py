#!/usr/bin/env python3
"""Our oneDNN engine beside onnxruntime on the same models, inputs and threads, in turns; and whether they agree.

    tests/onnx/beside_onnxruntime.py --bench build/release/bin/fermata-engine-bench [--zoo DIR] [--batches 1,8] [MODEL ...]

A MODEL is an ONNX file, or a name of scripts/make-zoo, which is built in DIR when it is not there yet (and removed again with
--remove). Turns alternate. The ratio is that of the least processor times of a run, the only figure that repeats on a shared
machine (least wall-clock times stand beside it); onnxruntime / ours, so above 1 we are faster. "off" is the part of what is
allowed that some element is off by: --rtol of its value and --atol of the output's largest. Exit code 1: some model is
off by more, or was refused. Needs numpy, onnx and onnxruntime (PyPI).
"""
import argparse
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
from made_inputs import make, part_of_allowed

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ["resnet50", "mobilenet_v2", "vgg16", "densenet121", "bert_base_128", "minilm_128"]
COLUMNS = [("model", 24, "s"), ("opset", 5, "d"), ("batch", 5, "d"), ("ours cpu", 9, ".2f"), ("ort cpu", 9, ".2f"),
           ("ratio", 6, ".2f"), ("wall", 9, ".2f"), ("ort wall", 9, ".2f"), ("error", 8, ".1e"), ("off", 7, ".4f"),
           ("load", 6, ".0f"), ("ort load", 8, ".0f")]


class Refused(Exception):
    """By our engine or by onnxruntime, which says why."""


def inputs_for(session, batch, length):
    random = np.random.default_rng(7)
    values = {}
    for io in session.get_inputs():
        dims = [d if isinstance(d, int) else batch if n == 0 else length for n, d in enumerate(io.shape)]
        values[io.name] = make(io, dims, random)
    return values


def our_turn(options, path, folder, batch):
    done = subprocess.run([options.bench, "--model", path, "--batch", str(batch), "--length", str(options.length),
                           "--seconds", str(options.seconds), "--threads", str(options.threads), "--inputs", folder,
                           "--outputs", folder + "/out"], capture_output=True, text=True)
    if done.returncode:
        raise Refused(done.stderr.strip() or f"ended with {done.returncode}")
    return json.loads(done.stdout)


def their_turn(session, values, seconds):
    times, end = [], time.monotonic() + seconds
    outputs = session.run(None, values)
    while not times or time.monotonic() < end:
        begin, used = time.perf_counter(), time.process_time()
        session.run(None, values)
        times.append((1e3 * (time.process_time() - used), 1e3 * (time.perf_counter() - begin)))
    return times, outputs


def differences(options, folder, outputs):
    """The largest error as a part of the output's largest value, and as a part of what is allowed."""
    error = off = 0.0
    for i, theirs in enumerate(outputs):
        ours = np.fromfile(f"{folder}/out/{i}.bin", theirs.dtype)
        if ours.size != theirs.size:
            return math.inf, math.inf
        ours = ours.reshape(theirs.shape)
        if np.issubdtype(theirs.dtype, np.floating) and theirs.size:
            error = max(error, float(np.abs(ours - theirs).max() / (np.abs(theirs).max() + 1e-12)))
        off = max(off, part_of_allowed(ours, theirs, options.rtol, options.atol))
    return error, off


def opset_of(path):
    return next(o.version for o in onnx.load(path, load_external_data=False).opset_import if o.domain in ("", "ai.onnx"))


def compare(options, name, path, batch):
    """A line of the table, by column."""
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.inter_op_num_threads = options.threads, 1
    settings.log_severity_level = 4
    begin = time.perf_counter()
    try:
        session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    except Exception as error:  # each kind is a class of its own, with no other base
        raise Refused(f"onnxruntime: {error}") from error
    their_load = 1e3 * (time.perf_counter() - begin)
    if isinstance(session.get_inputs()[0].shape[0], int):
        batch = 1  # nothing to choose: it is run as it is
    values = inputs_for(session, batch, options.length)
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(folder + "/out")
        for n, io in enumerate(session.get_inputs()):
            values[io.name].tofile(f"{folder}/{n}.bin")
        for _ in range(options.rounds):
            mine = our_turn(options, path, folder, batch)
            ours.append((mine["cpu_ms"], mine["min_ms"]))
            times, outputs = their_turn(session, values, options.seconds)
            theirs += times
        error, off = differences(options, folder, outputs)
    cpu, wall = [[min(t[k] for t in side) / batch for side in (ours, theirs)] for k in (0, 1)]
    found = (name, opset_of(path), batch, *cpu, cpu[1] / cpu[0], *wall, error, off, mine["load_ms"] + mine["prepare_ms"],
             their_load)
    return dict(zip((title for title, _, _ in COLUMNS), found))


def write(options, cells):
    if options.markdown:
        print("| " + " | ".join(cell.strip() for cell in cells) + " |", flush=True)
    else:
        print(" ".join(cells), flush=True)


def write_head(options):
    print(f"onnxruntime {onnxruntime.__version__}, {options.threads} thread(s), minimum of {options.rounds} turns, "
          f"ms per row of the batch\n")
    write(options, [f"{title:<{width}}" if kind == "s" else f"{title:>{width}}" for title, width, kind in COLUMNS])
    if options.markdown:
        write(options, ["---" if kind == "s" else "---:" for _, _, kind in COLUMNS])


def name_of(path):
    """exports/resnet50/1/model.onnx is resnet50."""
    return path.parent.parent.name if path.name == "model.onnx" else path.stem


def place(options, model):
    """Name and file of a MODEL, and the folder to remove after it."""
    if model.endswith(".onnx"):
        return name_of(pathlib.Path(model).resolve()), model, None
    folder = pathlib.Path(options.zoo, model)
    path = folder / "1" / "model.onnx"
    made = not path.exists()
    if made:
        subprocess.run([sys.executable, ROOT / "scripts" / "make-zoo", "--out", options.zoo, model], check=True,
                       stdout=subprocess.DEVNULL)
    return model, str(path), folder if made and options.remove else None


def sum_up(found, refused):
    if found:
        ratios = [line["ratio"] for line in found]
        print(f"\ngeometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}, lowest {min(ratios):.2f}, "
              f"largest error {max(line['error'] for line in found):.1e}")
    wrong = sum(not line["off"] <= 1 for line in found)
    print(f"{len(found) - wrong} agree, {wrong} differ, {refused} refused")
    return 1 if wrong or refused else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default=str(ROOT / "build" / "release" / "bin" / "fermata-engine-bench"))
    parser.add_argument("--zoo", default="zoo", metavar="DIR", help="where models of the zoo are, or will be")
    parser.add_argument("--remove", action="store_true", help="a model of the zoo that had to be built")
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--length", type=int, default=128, help="of dimensions that are open beside the batch")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rtol", type=float, default=1e-3)
    parser.add_argument("--atol", type=float, default=1e-4, help="and, for values near 0, this part of the output's largest")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("models", nargs="*", default=MODELS, metavar="MODEL")
    options = parser.parse_args()
    found, refused = [], 0
    write_head(options)
    for model in options.models:
        name, path, rest = place(options, model)
        for batch in options.batches.split(","):
            try:
                line = compare(options, name, path, int(batch))
                found.append(line)
                write(options, [f"{line[title]:{'<' if kind == 's' else '>'}{width}{kind}}" for title, width, kind in COLUMNS])
            except Refused as error:
                refused += 1
                write(options, [f"{name:<24}", f"refused: {error}"])
        if rest:
            shutil.rmtree(rest)
    sys.exit(sum_up(found, refused))


if __name__ == "__main__":
    main()
