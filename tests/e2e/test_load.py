"""The load generator against the real thing."""

import json
import subprocess

import pytest

from system import PICTURES

pytestmark = pytest.mark.alone


def load(bin_dir, up, protocol, *flags):
    address = up.http if protocol == "rest" else up.grpc
    got = subprocess.run([bin_dir / "fermata-load", "--protocol", protocol, "--address", address, "--model", "digits", "--json", *flags],
                         capture_output=True, text=True, timeout=120)
    assert got.returncode == 0, got.stderr
    return json.loads(got.stdout)


@pytest.mark.parametrize("protocol", ["rest", "grpc"])
def test_open_loop(bin_dir, up, protocol):
    report = load(bin_dir, up, protocol, "--rate", "200", "--arrivals", "uniform", "--duration", "1s")
    total = report["total"]
    assert abs(total["offered"] - 200) <= 1
    assert sum(total["outcomes"].values()) == total["offered"]
    assert total["outcomes"].get("ok", 0) >= 0.9 * total["offered"], total
    assert sum(total["batch_sizes"].values()) == total["outcomes"]["ok"]
    assert total["latency_us"]["p50"] <= total["latency_us"]["p99_9"] <= total["latency_us"]["max"]


@pytest.mark.parametrize("protocol", ["rest", "grpc"])
def test_each_picture_once(bin_dir, up, protocol, tmp_path):
    count = len(list(PICTURES.glob("digit-*")))
    results = tmp_path / "results.jsonl"
    load(bin_dir, up, protocol, "--pictures", PICTURES, "--concurrency", "1", "--requests", str(count), "--classes", "1", "--results", results)
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    assert [line["request"] for line in lines] == sorted(path.name for path in PICTURES.glob("digit-*"))
    for line in lines:
        assert line["outputs"]["scores"][0].split(":")[2] == line["request"].split("-")[1], line


def test_unknown_model_is_a_failure_with_a_reason(bin_dir, up):
    got = subprocess.run([bin_dir / "fermata-load", "--address", up.http, "--model", "nothing"], capture_output=True, text=True, timeout=30)
    assert got.returncode == 1 and "nothing" in got.stderr


def test_nobody_listens(bin_dir):
    got = subprocess.run([bin_dir / "fermata-load", "--address", "127.0.0.1:1", "--model", "digits"], capture_output=True, text=True, timeout=30)
    assert got.returncode == 1 and "connection" in got.stderr
