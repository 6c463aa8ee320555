"""What a model's file can do to who loads it: it costs that model, and the one that is served beside it loses nothing."""

import os
import pathlib
import re
import subprocess
import threading
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tritonclient.utils import InferenceServerException

from client import get, good
from system import ANY_PORT, Dead, alive, wait_until
from test_lifecycle import DIGITS, Load, Stage, index, state
from test_models import write_model

RELUS = 100_000
LIMIT = 512 << 20
ALLOWED = 0.01  # of the honest client's requests


def model_of(nodes, inputs, outputs, weights=()):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in inputs],
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in outputs],
                              [numpy_helper.from_array(np.array(values, np.int64), name) for name, values in weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def many_relus():
    """2.4 MB of which an engine makes gigabytes of objects."""
    return model_of([helper.make_node("Relu", [f"v{i}"], [f"v{i + 1}"]) for i in range(RELUS)], [("v0", ["N", 4])], [(f"v{RELUS}", ["N", 4])])


def wide(mib):
    """Some 200 bytes, and so much work space for each row of a batch."""
    return model_of([helper.make_node("Unsqueeze", ["x", "last"], ["u"]), helper.make_node("Expand", ["u", "sizes"], ["e"]),
                     helper.make_node("Relu", ["e"], ["r"]), helper.make_node("ReduceSum", ["r", "all"], ["y"], keepdims=0)],
                    [("x", ["N", 1])], [("y", ["N"])], [("last", [2]), ("sizes", [1, mib, 1 << 18]), ("all", [1, 2])])


def resident(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise Dead(f"{pid} has no memory")


def children(pid):
    found = []
    for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
        found += map(int, (thread / "children").read_text().split())
    return found


def script(folder, words):
    path = folder / "loader.sh"
    path.write_text(f"#!/bin/sh\n{words}\n")
    path.chmod(0o755)
    return path


def stage_of(cluster, *flags):
    return Stage(cluster, "--model-control", "explicit", "--load-model", "digits", *flags)


def refused(stage, name, words):
    """With digits served beside it: none of its requests is lost."""
    beside = Load(stage.gateway.http)
    try:
        beside.past(100)
        with pytest.raises(InferenceServerException, match=words):
            stage.http.load_model(name)
        beside.past(100)
    finally:
        failures = beside.stop()
    assert len(failures) <= ALLOWED * beside.count, failures
    assert state(stage.gateway, name, 1) == "UNAVAILABLE"
    assert index(stage.gateway)[(name, "1")]["reason"]


@pytest.mark.parametrize("name, data, words", [
    ("relus", many_relus(), r"the loader ran out of the 51\d MiB that cpu0 has left: \d+ MiB more were wanted, on engine onednn"),
    ("wide", wide(6 << 10), r"6144 MiB are needed, and 0 of 512 MiB are in use")], ids=["relus", "wide"])
def test_what_wants_more_memory_than_there_is_is_refused_before_the_worker_has_it(cluster, name, data, words):
    stage = stage_of(cluster, "--engine", "onednn", "--memory-limit", str(LIMIT))
    write_model(stage.models, name, data)
    worker = stage.workers[0]
    before = resident(worker.pid)
    refused(stage, name, words)
    assert resident(worker.pid) < before + (64 << 20)


def device_bytes(worker):
    found = re.search(r'fermata_worker_device_memory_bytes{device="cpu0",kind="used"} (\S+)', get(worker.metrics, "/metrics").body.decode())
    return float(found.group(1))


def test_work_space_is_counted_and_given_back(cluster):
    """Of 200 bytes that want half a gigabyte and may have it."""
    stage = stage_of(cluster, "--engine", "onednn")
    write_model(stage.models, "wide", wide(512), "max_batch: 1\n")
    worker = stage.workers[0]
    before, used = resident(worker.pid), device_bytes(worker)
    stage.http.load_model("wide")
    assert resident(worker.pid) > before + (500 << 20), "it was measured"
    assert used + (500 << 20) < device_bytes(worker) < used + (600 << 20)
    stage.http.unload_model("wide")
    wait_until(lambda: state(stage.gateway, "wide", 1) == "UNAVAILABLE", "it is off the device")
    assert device_bytes(worker) == used
    assert resident(worker.pid) < before + (32 << 20)
    good(stage.gateway.http)


def test_a_file_that_is_none_is_refused_before_it_is_opened(cluster):
    stage = stage_of(cluster)
    write_model(stage.models, "pipe", DIGITS)
    os.mkfifo(stage.models / "pipe" / "1" / "weights.bin")
    refused(stage, "pipe", "weights.bin: a FIFO, not a regular file")


def test_a_load_that_hangs_is_given_up_and_others_go_on(cluster, bin_dir, tmp_path):
    hangs = tmp_path / "hangs"
    stage = stage_of(cluster, "--loader", script(tmp_path, f"test -e {hangs} && exec sleep 1000\nexec {bin_dir / 'fermata-loader'}"), "--load-timeout", "15s")  # a load that does not hang takes a second on a busy machine
    write_model(stage.models, "share", DIGITS)
    hangs.touch()
    refused(stage, "share", r"not done with its files after 15 s \(--load-timeout\)")
    hangs.unlink()
    stage.http.load_model("share")
    assert state(stage.gateway, "share", 1) == "READY"


def test_a_stop_does_not_wait_for_a_load_that_hangs(cluster, bin_dir, tmp_path):
    hangs = tmp_path / "hangs"
    stage = stage_of(cluster, "--loader", script(tmp_path, f"test -e {hangs} && exec sleep 1000\nexec {bin_dir / 'fermata-loader'}"))
    write_model(stage.models, "share", DIGITS)
    hangs.touch()
    asks = threading.Thread(target=lambda: pytest.raises(InferenceServerException, stage.http.load_model, "share"))
    asks.start()
    worker = stage.workers[0]
    loaders = wait_until(lambda: children(worker.pid), "a loader")
    begin = time.monotonic()
    assert worker.stop() == 0
    assert time.monotonic() - begin < 10, "the time of the load is 120 s"
    asks.join()
    assert not any(alive(pid) for pid in loaders)


def test_a_loader_goes_with_its_worker(cluster, tmp_path):
    stage = stage_of(cluster)
    stopped = cluster.worker(stage.scheduler, "--loader", script(tmp_path, "exec sleep 1000"))
    loaders = wait_until(lambda: children(stopped.pid), "a loader")
    stopped.stop()
    wait_until(lambda: not any(alive(pid) for pid in loaders), "it has gone")


def test_an_engine_that_crashes_is_told_and_harms_nobody(cluster, bin_dir, tmp_path):
    crashes = tmp_path / "crashes"
    stage = stage_of(cluster, "--loader", script(tmp_path, f"test -e {crashes} && kill -SEGV $$\nexec {bin_dir / 'fermata-loader'}"))
    write_model(stage.models, "bad", DIGITS)
    crashes.touch()
    refused(stage, "bad", r"the loader crashed \(Segmentation fault\)")


def tried(worker, name):
    """Of the newest trial: whether the model was known before."""
    lines = [line for line in worker.log().splitlines() if "model_tried" in line and f"model={name} " in line]
    return "before=yes" in lines[-1]


def test_a_model_is_tried_once_as_long_as_its_files_are_the_same(cluster):
    stage = stage_of(cluster)
    first = stage.workers[0]
    assert not tried(first, "digits")
    assert "loading_bytes" in (stage.models / "digits" / "1" / "profile.auto.txt").read_text()
    assert first.stop() == 0
    again = stage.worker()
    wait_until(lambda: "model_loaded" in again.log(), "it is loaded")
    assert tried(again, "digits")
    assert again.stop() == 0
    with open(stage.models / "digits" / "1" / "note.txt", "w", encoding="utf-8") as note:
        note.write("another file of the model")
    third = stage.worker()
    wait_until(lambda: "model_loaded" in third.log(), "it is loaded")
    assert not tried(third, "digits")
    wait_until(lambda: get(stage.gateway.http, "/v2/models/digits/ready").status == 200, "it serves")
    good(stage.gateway.http)


def test_a_worker_without_its_loader_does_not_start(bin_dir, cluster):
    got = subprocess.run([bin_dir / "fermata-worker", "--models", cluster.models, "--metrics-address", ANY_PORT, "--loader", "/nowhere/loader"],
                         capture_output=True, text=True, timeout=60)
    assert got.returncode == 1 and "/nowhere/loader: No such file or directory" in got.stderr, got.stderr


def test_a_profile_is_of_a_model_that_was_tried(bin_dir, tmp_path):
    write_model(tmp_path, "relus", many_relus())
    got = subprocess.run([bin_dir / "fermata", "profile", "--engine", "onednn", "--memory-limit", "128MiB", tmp_path / "relus"],
                         capture_output=True, text=True, timeout=60)
    assert got.returncode == 1 and re.search(r"the loader ran out of the 12\d MiB that cpu0 has left", got.stderr), got.stderr


def test_the_loader_is_not_for_people(bin_dir):
    got = subprocess.run([bin_dir / "fermata-loader", "model.onnx"], capture_output=True, text=True, timeout=60)
    assert got.returncode == 2 and "docs/security.md" in got.stderr, got.stderr
