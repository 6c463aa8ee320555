"""What Fermata is compared with: the same networks by PyTorch, eager, as a CUDA graph and by torch.compile."""
import math
import time

BATCHES = [1, 8, 32, 64]


def describe():
    try:
        import torch
    except ImportError as e:
        return {"torch": None, "why": str(e)}
    here = torch.cuda.is_available()
    return {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
            "gpu": torch.cuda.get_device_name(0) if here else None}


def timed(torch, step, seconds=0.5):
    """Median milliseconds of one call that is waited for, and the mean when they are queued back to back."""
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    alone, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        alone.append((time.perf_counter() - begin) * 1e3)
    median = sorted(alone)[len(alone) // 2]
    count = max(10, int(seconds * 1e3 / (median + 1e-3)))
    begin = time.perf_counter()
    for _ in range(count):
        step()
    torch.cuda.synchronize()
    return {"latency_ms": median, "queued_ms": (time.perf_counter() - begin) * 1e3 / count}


def cuda_graph(torch, net, inputs):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            net(*inputs)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        net(*inputs)
    return graph.replay


def on_gpu(torch, kind):
    """In half precision, with the channels last where there are any: as fast as PyTorch runs it without more ado."""
    import networks
    net = networks.make(kind).cuda().half()
    return net.to(memory_format=torch.channels_last) if kind is networks.ResNet50 else net


def inputs_of(torch, kind, batch):
    import networks
    import numpy as np
    inputs = [t.cuda() for t in kind.inputs(batch, np.random.default_rng(1))]
    inputs = [t.half() if t.is_floating_point() else t for t in inputs]
    if kind is networks.ResNet50:
        inputs = [t.contiguous(memory_format=torch.channels_last) for t in inputs]
    return inputs


def own(part, kind, batch):
    """Fermata's row from the part `speed`; its times hold the copies of inputs and outputs, PyTorch's do not."""
    return part.earlier("speed").get(kind.name, {}).get(str(batch))


def ratio(theirs, ours):
    return f"{theirs / ours:5.2f} x" if ours else "     -"


def eager(part):
    import networks
    import torch
    torch.backends.cudnn.benchmark = True
    say = print
    for kind in networks.KINDS:
        net, ratios, rows = on_gpu(torch, kind), [], {}
        for batch in BATCHES:
            inputs = inputs_of(torch, kind, batch)
            with torch.no_grad():
                row = {"eager": timed(torch, lambda: net(*inputs)), "cuda_graph": timed(torch, cuda_graph(torch, net, inputs))}
            rows[batch], mine = row, own(part, kind, batch)
            part.keep(**{kind.name: rows})
            if mine:
                ratios.append(row["cuda_graph"]["queued_ms"] / mine["queued_ms"])
            say(f"pytorch      {kind.name:10} fp16 batch {batch:2}: eager {row['eager']['latency_ms']:8.3f} ms "
                f"({ratio(row['eager']['latency_ms'], mine and mine['latency_ms'])} Fermata's alone), CUDA graph "
                f"{row['cuda_graph']['queued_ms']:8.3f} ms ({ratio(row['cuda_graph']['queued_ms'], mine and mine['queued_ms'])} "
                "Fermata's queued)", flush=True)
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            part.keep(**{f"{kind.name} geometric mean": mean})
            say(f"pytorch      {kind.name}: Fermata is {mean:.2f} x PyTorch's CUDA graph in the geometric mean (goal: 1.00)", flush=True)


def compiled(part):
    """Takes minutes, so it comes last, one batch size after the other."""
    import networks
    import torch
    torch.backends.cudnn.benchmark = True
    rows = {kind.name: {} for kind in networks.KINDS}
    nets = {}
    for batch in BATCHES:
        for kind in networks.KINDS:
            if kind not in nets:
                nets[kind] = torch.compile(on_gpu(torch, kind), mode="reduce-overhead", dynamic=False)
            inputs, mine = inputs_of(torch, kind, batch), own(part, kind, batch)
            with torch.no_grad():
                row = timed(torch, lambda: nets[kind](*inputs))
            rows[kind.name][batch] = row
            part.keep(**rows)
            print(f"compile      {kind.name:10} fp16 batch {batch:2}: {row['latency_ms']:8.3f} ms alone, {row['queued_ms']:8.3f} ms queued "
                  f"({ratio(row['queued_ms'], mine and mine['queued_ms'])} Fermata's)", flush=True)
    for name, found in rows.items():
        ours = part.earlier("speed").get(name, {})
        ratios = [row["queued_ms"] / ours[str(batch)]["queued_ms"] for batch, row in found.items() if str(batch) in ours]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(f"compile      {name}: Fermata is {mean:.2f} x torch.compile in the geometric mean (goal: 1.00)", flush=True)
