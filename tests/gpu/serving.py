"""The whole system on this GPU: `fermata-serve` with the networks in half precision, asked over REST and gRPC."""
import contextlib
import json
import os
import threading

import parts

MAX_BATCH, SLO_MS = 32, 25
LOADS = [.3, .6, .8, .9]  # of what it takes in the closed loop
CLIENTS = 256  # of the closed loop that fills it
SECONDS = 2.5  # of one try
READY_S = 100
ANY = "127.0.0.1:0"


def repository(part):
    """Both networks; without PyTorch, which makes them, a tiny one."""
    names = [name for name in parts.NETWORKS if os.path.exists(os.path.join(part.o.work, name + ".onnx"))]
    if not names:
        import tiny
        tiny.save(os.path.join(part.o.work, "tiny.onnx"))
        names = ["tiny"]
    for name in names:
        folder = part.folder(name, "served", MAX_BATCH, SLO_MS)
    return os.path.dirname(folder), names


@contextlib.contextmanager
def served(part, root, policy):
    """What it says when it is ready."""
    flags = ["--models", root, "--engine", part.o.engine, "--policy", policy, "--http-address", ANY, "--grpc-address", ANY,
             "--metrics-address", ANY, "--data-address", ANY, "--gateway-threads", "4", "--devices", "1", "--json"]
    with part.running("fermata-serve", *flags) as child:
        late = threading.Timer(READY_S, child.kill)
        late.start()
        try:
            line = child.stdout.readline()
            late.cancel()
            if line:
                yield json.loads(line)
        finally:
            late.cancel()
            child.terminate()
    if not line:
        raise RuntimeError("fermata-serve ended before it was ready")


def ask(part, address, *arguments):
    lines = part.program("fermata-load", "--address", address, "--duration", f"{SECONDS}s", "--warmup", "500ms", "--json", *arguments)
    return json.loads("\n".join(lines))


def alone(part, ready, name):
    """One client, one request at a time: what the way costs beside the engine."""
    gateway = ready["gateways"][0]
    for protocol, address in (("rest", gateway["http"]), ("grpc", gateway["grpc"])):
        total = ask(part, address, "--protocol", protocol, "--model", name, "--concurrency", 1)["total"]
        part.keep(**{f"{name} {protocol} alone": total})
        parts.say(f"serve        {name:10} one client by {protocol}: p50 {total['latency_us']['p50'] / 1e3:.3f} ms, p99 "
                  f"{total['latency_us']['p99'] / 1e3:.3f}; of that {total['compute_us']['p50'] / 1e3:.3f} on the GPU")
        all_well(part, f"{name} alone", total)


def all_well(part, what, total):
    """A closed loop has no deadline: nothing may be missing."""
    bad = {kind: count for kind, count in total["outcomes"].items() if kind != "ok"}
    if bad or not total["served_per_s"]:
        part.fail(f"serve {what}: {bad or 'nothing was served'}")


def engine_rate(part, name):
    """Rows a second of the bare engine, of the part `speed`, queued in batches of that size."""
    row = part.earlier("speed").get(name, {}).get(str(MAX_BATCH))
    return row and MAX_BATCH / row["queued_ms"] * 1e3


def peak(part, ready, policy, name):
    total = ask(part, ready["gateways"][0]["http"], "--model", name, "--concurrency", CLIENTS)["total"]
    bare = engine_rate(part, name)
    part.keep(**{f"{name} {policy} peak": total})
    parts.say(f"serve        {name:10} {policy}, {CLIENTS} clients: {total['served_per_s']:.0f}/s in batches of {total['mean_batch']:.1f}"
              + (f", {total['served_per_s'] / bare:.2f} of the bare engine" if bare else ""))
    all_well(part, f"{name} {CLIENTS} clients", total)
    return total["served_per_s"]


def at_load(part, ready, policy, rates):
    """Open loop, Poisson, with these models at their rates; late answers count for nothing."""
    models = [word for name, rate in rates.items() for word in ("--model", f"{name}:{rate:.0f}")]
    report = ask(part, ready["gateways"][0]["http"], "--deadline", f"{SLO_MS}ms", *models)
    for model in report["models"]:
        part.keep(**{f"{model['name']} {policy} {'+'.join(rates)} {rates[model['name']]:.0f}": model})
        parts.say(f"serve        {model['name']:10} {policy}, {'with others, ' if len(rates) > 1 else ''}{model['offered_per_s']:.0f}/s offered: "
                  f"{100 * model['goodput_per_s'] / model['offered_per_s']:.2f} % within {SLO_MS} ms, p50 {model['latency_us']['p50'] / 1e3:.2f}, "
                  f"p99 {model['latency_us']['p99'] / 1e3:.2f}, batches of {model['mean_batch']:.1f}; sent late by "
                  f"{report['send_lag_us']['p99'] / 1e3:.2f} ms (p99)")


def serve(part):
    root, names = repository(part)
    for policy in ("fermata", "eager"):
        with served(part, root, policy) as ready:
            part.keep(**{f"ready {policy}": ready["models"]})
            unready = [m["name"] for m in ready["models"] if m["state"] != "ready"]
            if unready:
                part.fail(f"serve: not ready: {', '.join(unready)}")
            peaks = {}
            for name in names:
                if policy == "fermata":
                    alone(part, ready, name)
                peaks[name] = peak(part, ready, policy, name)
            for name in names:
                for load in LOADS if policy == "fermata" else LOADS[-2:]:
                    at_load(part, ready, policy, {name: load * peaks[name]})
            if len(names) > 1:
                at_load(part, ready, policy, {name: .4 * peaks[name] for name in names})
