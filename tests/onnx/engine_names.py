"""What /state and `fermata profile` say of the engines of a model (docs/engines.md, The choice)."""

import re


def at_batch(running, batch):
    """Of "openvino:2+onednn" OpenVINO runs batches of up to two rows."""
    small, plus, large = running.partition("+")
    engine, _, rows = small.partition(":")
    return engine if not plus or batch <= int(rows) else large


def measured(engines):
    """Of "onnxruntime: 1: 20.8, 4: 72.1 ms; onednn: it describes the model otherwise" {"onnxruntime": {1: 20.8, 4: 72.1}}."""
    found = {}
    for part in engines.split("; "):
        name, _, figures = part.partition(": ")
        if re.fullmatch(r"\d+: .* ms", figures):
            found[name] = {int(batch): float(ms) for batch, ms in re.findall(r"(\d+): ([^ ,]+)", figures)}
    return found


def ratios(running, engines):
    """How many times longer the better of onnxruntime and OpenVINO takes than what runs the model, at each batch that all were measured at; {}: it is alone."""
    found = measured(engines)
    others = [found[name] for name in ("onnxruntime", "openvino") if name in found]
    ratio = {}
    for batch in sorted(set.intersection(*map(set, found.values()))) if len(found) > 1 and others else []:
        ratio[batch] = min(other[batch] for other in others) / found[at_batch(running, batch)][batch]
    return ratio
