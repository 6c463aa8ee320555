"""The parts of tests/gpu/run that run Fermata's own programs, each in a process of its own."""
import collections
import contextlib
import glob
import json
import math
import os
import subprocess
import sys
import tarfile
import threading
import traceback

import pytorch

HERE = os.path.dirname(os.path.abspath(__file__))
NETWORKS = ["resnet50", "bert_base"]
BATCHES = [1, 8, 32, 64]
STOP_BATCHES = [8, 32]
PRECISIONS = ["fp32", "tf32", "fp16", "bf16"]
PRECISION = "fp16"  # of what is timed
# Largest error against float32 on the CPU, relative to the largest output.
TOLERANCE = {"fp32": 1e-4, "tf32": 1e-2, "fp16": 2e-2, "bf16": 1e-1}
EXITS = 12  # of the batches that are stopped
MODES_BATCH = 16  # max_batch of the models whose modes are tried
OVERLAP_GROUPS = 1500


def log(text):
    print(text, file=sys.stderr, flush=True)


def listen(stream, said):
    for line in stream:
        said.append(line.rstrip("\n"))
        log(line.rstrip("\n"))


def say(text):
    print(text, flush=True)


def extract(archive, folder):
    with tarfile.open(archive) as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has none yet
        tar.extractall(folder)


class Part:
    """What a part finds, kept in a file after each finding."""

    def __init__(self, o):
        self.o, self.found, self.wrong = o, {}, []
        self.env = dict(os.environ, LD_LIBRARY_PATH=library_path(o.bundle))

    def keep(self, **found):
        self.found.update(found)
        path = os.path.join(self.o.work, self.o.part + ".json")
        with open(path + ".new", "w") as file:
            json.dump({**self.found, "wrong": self.wrong}, file)
        os.replace(path + ".new", path)

    def fail(self, text):
        self.wrong.append(text)
        self.keep()

    def earlier(self, part):
        """What an earlier part found; nothing when it did not run."""
        try:
            with open(os.path.join(self.o.work, part + ".json")) as file:
                return json.load(file)
        except OSError:
            return {}

    @contextlib.contextmanager
    def running(self, name, *arguments):
        """The program, whose output is the caller's; what it says beside that goes to the log. In the end it is waited for; raises
        with its last words."""
        command = [os.path.join(self.o.bundle, "bin", name), *map(str, arguments)]
        log("$ " + " ".join(command))
        child = subprocess.Popen(command, env=self.env, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        said = collections.deque(maxlen=20)
        listener = threading.Thread(target=listen, args=(child.stderr, said))
        listener.start()
        try:
            yield child
        finally:
            code = child.wait()
            listener.join()
        if code:
            last = [line for line in said if line.strip() and " INFO " not in line]
            raise RuntimeError(f"{name} ended with {code}: {last[-1] if last else ''}")

    def program(self, name, *arguments, take=None):
        """Its lines of output, each given to `take` as it comes."""
        lines = []
        with self.running(name, *arguments) as child:
            for line in child.stdout:
                lines.append(line.rstrip("\n"))
                if take:
                    take(lines[-1])
        return lines

    def bench(self, model, *arguments, take=None):
        """Rows of gpu-bench, each given to `take` as it comes."""
        lines = self.program("gpu-bench", "--engine", self.o.engine, "--model", model, *arguments,
                             take=take and (lambda line: take(json.loads(line))))
        return [json.loads(line) for line in lines]

    def model(self, name):
        """The network as a file, which the part `place` has made."""
        path = os.path.join(self.o.work, name + ".onnx")
        if not os.path.exists(path):
            raise RuntimeError(f"{name} was not made: that takes PyTorch (part place)")
        return path

    def folder(self, name, root="models", max_batch=None, slo_ms=1000):
        """The same as a model of a repository, in half precision."""
        folder = os.path.join(self.o.work, root, name)
        if not os.path.exists(folder):
            network = self.model(name)
            os.makedirs(os.path.join(folder, "1"))
            os.link(network, os.path.join(folder, "1", "model.onnx"))
            with open(os.path.join(folder, "config.yaml"), "w") as file:
                file.write(f"max_batch: {max_batch or MODES_BATCH}\nslo_ms: {slo_ms}\nprecision: {PRECISION}\n")
        return folder


def library_path(bundle):
    """Our own libraries, and the folders in which PyTorch's wheels keep cuDNN and cuBLASLt."""
    folders = [os.path.join(bundle, "lib")]
    for site in sys.path:
        folders += sorted(glob.glob(os.path.join(site, "nvidia", "*", "lib"))) + glob.glob(os.path.join(site, "torch", "lib"))
    return ":".join(folders + ["/usr/local/cuda/lib64", os.environ.get("LD_LIBRARY_PATH", "")])


# ---- where we are ----

def place(part):
    def ask(*command):
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=30).stdout.strip()
        except (OSError, subprocess.TimeoutExpired) as e:
            return str(e)
    found = {"python": sys.version.split()[0], "libc": ask("ldd", "--version").splitlines()[:1],
             "nvidia_smi": ask("nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.sm", "--format=csv,noheader"),
             "libraries": part.env["LD_LIBRARY_PATH"].split(":")}
    part.keep(**found)
    missing = []
    for folder in ("bin", "lib"):
        for name in sorted(os.listdir(os.path.join(part.o.bundle, folder))):
            path = os.path.join(part.o.bundle, folder, name)
            needs = subprocess.run(["ldd", path], capture_output=True, text=True, env=part.env).stdout
            missing += [f"{name} wants {line.split()[0]}" for line in needs.splitlines() if "not found" in line]
    part.keep(missing=missing)
    for text in missing:
        part.fail(f"place: {text}, which is neither in the bundle nor here")
    part.keep(**pytorch.describe())
    if part.found["torch"]:
        export(part)
    say(f"GPU {found['nvidia_smi'] or 'none'}; python {found['python']}, torch {part.found.get('torch')}, "
        f"cuDNN {part.found.get('cudnn')}, {found['libc'][0] if found['libc'] else ''}")


def export(part):
    """The networks as files, once for all parts: the others do without PyTorch."""
    import networks
    for kind in networks.KINDS:
        networks.make(kind).export(os.path.join(part.o.work, kind.name + ".onnx"))


def smoke(part):
    """One small batch: does the engine open at all? If not, which libraries were looked for where."""
    import tiny
    model = os.path.join(part.o.work, "tiny.onnx")
    tiny.save(model)
    try:
        rows = part.bench(model, "--precision", "fp32")
    except RuntimeError as e:
        env = dict(part.env, LD_DEBUG="libs")
        command = [os.path.join(part.o.bundle, "bin", "gpu-bench"), "--engine", part.o.engine, "--model", model]
        traced = subprocess.run(command, env=env, text=True, errors="replace", capture_output=True)
        wanted = ("cudnn", "cublas", "libcuda", "engine-cuda", "nvrtc")
        log("\n".join(line for line in traced.stderr.splitlines() if any(word in line for word in wanted))[-20000:])
        raise RuntimeError(f"the engine does not run (log.txt has its search for libraries): {e}") from None
    part.keep(rows=rows)
    say(f"smoke        the engine opens in {rows[0]['open_ms']:.0f} ms and runs")


# ---- right numbers ----

def equal(part):
    """The unit tests of segments, streams and shapes on this engine: every cut, every row equal to the whole batch."""
    for program in ("gpu-shapes", "gpu-segment-shapes", "gpu-segments"):
        lines = []

        def take(line):
            lines.append(line)
            part.keep(**{program: lines})
            if not line.startswith("ok "):
                part.fail(f"equal: {line} (log.txt)")
        try:
            part.program(program, part.o.engine, take=take)
        except RuntimeError as e:
            if all(line.startswith("ok ") for line in lines):
                part.fail(f"equal: {e}")
        say(f"equal        {program}: {sum(line.startswith('ok ') for line in lines)} of {len(lines)} tests")


def conformance(part):
    cases = os.path.join(part.o.work, "cases")
    extract(os.path.join(part.o.bundle, "cases.tar.xz"), cases)
    command = [os.path.join(part.o.bundle, "bin", "gpu-onnx-test"), "--engine", part.o.engine, "--data", cases,
               "--list", os.path.join(HERE, "../onnx/required.txt")]
    path = os.path.join(part.o.out, "conformance.txt")
    with open(path, "w") as file:  # a file, so that what was done stays when time is over
        code = subprocess.run(command, env=part.env, stdout=file, stderr=subprocess.STDOUT).returncode
    with open(path, errors="replace") as file:
        last = (file.read().strip().splitlines() or ["nothing"])[-1]
    part.keep(summary=last, exit_code=code)
    say(f"conformance  fp32, TF32 off: {last}")
    if code:
        part.fail("conformance: a required case did not pass (conformance.txt)")


def write_inputs(tensors, folder):
    os.makedirs(folder, exist_ok=True)
    for i, t in enumerate(tensors):
        t.numpy().tofile(os.path.join(folder, f"{i}.bin"))


def judge(part, kind, precision, got, want):
    import numpy as np
    error = float(np.abs(got - want).max() / np.abs(want).max())
    rms = float(np.linalg.norm(got - want) / np.linalg.norm(want))
    good = math.isfinite(error) and error <= TOLERANCE[precision]
    part.keep(**{f"{kind.name} {precision}": {"max_relative": error, "rms_relative": rms, "ok": good}})
    say(f"accuracy     {kind.name:10} {precision}: max {error:.2e}, rms {rms:.2e}{'' if good else '  WRONG'}")
    if not good:
        part.fail(f"accuracy {kind.name} {precision}: {error:.2e} > {TOLERANCE[precision]:.0e}")


def accuracy(part):
    """All precisions in one process, so that cuDNN is searched once; the reference is PyTorch on the CPU in float32."""
    import numpy as np
    import torch
    import networks
    batch = 8
    for kind in networks.KINDS:
        folder = os.path.join(part.o.work, kind.name)
        inputs = kind.inputs(batch, np.random.default_rng(1))
        write_inputs(inputs, folder)
        with torch.no_grad():
            want = networks.make(kind)(*inputs).numpy()
        try:
            part.bench(part.model(kind.name), "--precision", ",".join(PRECISIONS), "--batches", batch, "--seconds", 0.1,
                       "--inputs", folder, "--outputs", folder)
        except RuntimeError as e:
            part.fail(f"accuracy {kind.name}: {e}")
            say(f"accuracy     {kind.name:10} {e}")
        for precision in PRECISIONS:
            path = os.path.join(folder, precision, "0.bin")
            if os.path.exists(path):
                judge(part, kind, precision, np.fromfile(path, np.float32).reshape(want.shape), want)


# ---- speed ----

def overhead(part):
    """A model of one small kernel: what a batch costs is the engine and the driver."""
    import tiny
    model = os.path.join(part.o.work, "tiny.onnx")
    tiny.save(model)
    row = part.bench(model, "--precision", "fp32", "--seconds", 1)[-1]
    part.keep(queued_us=row["queued_ms"] * 1e3, alone_us=row["latency_ms"] * 1e3)
    say(f"overhead     {row['queued_ms'] * 1e3:.1f} us per batch when queued, {row['latency_ms'] * 1e3:.1f} us alone (goal: 20 us)")


def speed(part):
    for name in NETWORKS:
        table = {}

        def take(row):
            if "batch" not in row:
                return
            table[row["batch"]] = row
            part.keep(**{name: table})
            say(f"speed        {name:10} {PRECISION} batch {row['batch']:2}: {row['latency_ms']:8.3f} ms alone, {row['queued_ms']:8.3f} ms "
                f"queued (prepared in {row['prepare_ms'] / 1e3:.1f} s, {row['memory_mib']:.0f} MiB)")
        part.bench(part.model(name), "--precision", PRECISION, "--batches", ",".join(map(str, BATCHES)), "--seconds", 0.6, take=take)


def stop(part):
    """A batch with exits: what they cost, and how long it goes on when it is told to stop."""
    for name in NETWORKS:
        plain = {}

        def take(row):
            if "latency_ms" in row:
                plain[row["batch"]] = row
            if not row.get("exits"):
                return
            alone = plain[row["batch"]]["latency_ms"]
            cost = row["latency_exits_ms"] / alone - 1
            part.keep(**{f"{name} {row['batch']}": {**row, "latency_ms": alone, "overhead": cost}})
            say(f"stop         {name:10} batch {row['batch']:2}, {row['exits']} exits: {100 * cost:+.1f} % time; stopped "
                f"{row['stopped']} of {row['stops']}, goes on for {row['stop_median_ms']:.3f} ms in the median, "
                f"{row['stop_max_ms']:.3f} at most, of {alone:.3f}")
        part.bench(part.model(name), "--precision", PRECISION, "--batches", ",".join(map(str, STOP_BATCHES)), "--seconds", 0.6,
                   "--exits", EXITS, take=take)


# ---- modes, measured by `fermata profile` ----

def profile(part, *arguments):
    lines = part.program("gpu-profile", *arguments, "--engine", part.o.engine, "--no-keep", "--json")
    return json.loads("\n".join(lines))


def overlap(part):
    found = profile(part, "--overlap", *map(part.folder, NETWORKS), "--groups", OVERLAP_GROUPS,
                    "--out", os.path.join(part.o.work, "overlap.txt"))
    error = found["all"]
    part.keep(profile=found)
    say(f"overlap      {error['groups']} groups: off by {100 * error['mlp']:.1f} % (MLP; goal 6), {100 * error['linear']:.1f} % (line), "
        f"{100 * error['svm']:.1f} % (SVR); one group measured again differs by {100 * error['repeated']:.1f} %; "
        f"one prediction {found['predict_ns'] / 1e3:.1f} us")


def stages(part):
    for name in NETWORKS:
        found = profile(part, part.folder(name), "--stages", "--seconds", 1, "--batches", f"1,2,{MODES_BATCH}")
        tries = found["modes"]["stages"]
        part.keep(**{name: found})
        best = next((t for t in tries if t["taken"]), None)
        for t in [t for t in tries if t["mode"] != "staged"] + ([best] if best else []):
            say(f"stages       {name:10} {t['mode']:11} {t['stages']:2} stages: {t['avg_ms']:8.3f} ms on average, "
                f"{t['p99_ms']:8.3f} p99, {t['throughput_rps']:7.0f} rows/s")


def exit_points(part):
    for name in NETWORKS:
        found = profile(part, part.folder(name), "--exit-points", "--seconds", 0.3, "--batches", f"1,{MODES_BATCH}")
        part.keep(**{name: found})
        for e in found["modes"]["exit_points"]:
            say(f"exit_points  {name:10} {e['exit_points']:3}: {100 * e['overhead']:6.2f} % overhead, {100 * e['delay']:6.2f} % delay"
                f"{'  <- taken' if e['taken'] else ''}")


def shrink(part):
    """For a try without a GPU: seconds instead of minutes."""
    global BATCHES, STOP_BATCHES, MODES_BATCH, OVERLAP_GROUPS
    BATCHES, STOP_BATCHES, MODES_BATCH, OVERLAP_GROUPS = [1, 4], [4], 4, 50
    if part in ("place", "accuracy"):
        import networks
        networks.shrink()


def main(o):
    import serving
    part = Part(o)
    parts = {f.__name__: f for f in (place, smoke, equal, conformance, accuracy, overhead, speed, stop, overlap, stages, exit_points,
                                     serving.serve)}
    parts.update({"pytorch": pytorch.eager, "compile": pytorch.compiled})
    try:
        part.keep()
        if o.dry:
            shrink(o.part)
        parts[o.part](part)
    except Exception as e:
        traceback.print_exc()
        part.fail(f"{o.part}: {type(e).__name__}: {e}")
        say(f"{o.part}: {type(e).__name__}: {e}")
    return 0
