"""Triton's own load generator, as it comes, against every way of inferring."""

import csv
import subprocess

import pytest

from system import ROOT

PERF_ANALYZER = ROOT / "build" / "perf-analyzer" / "perf_analyzer"
RUN_S = 120

WAYS = {
    "rest": ["-i", "http", "--concurrency-range", "2"],
    "rest, binary, batches of 8, asynchronous": ["-i", "http", "--concurrency-range", "4", "-b", "8", "--async"],
    "grpc": ["-i", "grpc", "--concurrency-range", "2"],
    "grpc, batches of 8, asynchronous": ["-i", "grpc", "--concurrency-range", "4", "-b", "8", "--async"],
    "grpc stream": ["-i", "grpc", "--concurrency-range", "4", "--streaming", "--async"],
    "open loop": ["-i", "grpc", "--request-rate-range", "200", "--request-distribution", "poisson"],
}


def analyze(up, out, *flags):
    protocol = flags[flags.index("-i") + 1]
    address = up.http if protocol == "http" else up.grpc
    # Until three windows in a row are steady to -s percent, at most -r times: how steady is nothing to fail for, and a window in which a
    # busy machine answered nothing is followed by others.
    command = [PERF_ANALYZER, "-m", "digits", "-u", address, "--measurement-mode", "time_windows", "--measurement-interval", "300",
               "-s", "999", "-r", "200", "--verbose-csv", "-f", out, *flags]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=RUN_S)


# Over UCX, too, what keeps many rows on their way at once.
ASKING = [pytest.param(name, marks=[pytest.mark.data_plane] if "--async" in words else []) for name, words in WAYS.items()]


@pytest.mark.parametrize("asking", ASKING)
def test_it_measures(up, tmp_path, asking):
    out = tmp_path / "figures.csv"
    got = analyze(up, out, *WAYS[asking])
    assert got.returncode == 0, got.stdout + got.stderr
    (row,) = csv.DictReader(out.open())
    assert float(row["Inferences/Second"]) > 0
    # From ModelStatistics: what the server says about the same time.
    assert 0 < int(row["Server Compute Infer"]) < int(row["Avg latency"])
    assert int(row["Server Queue"]) < int(row["Avg latency"])


def test_it_reads_the_metrics(up, tmp_path):
    got = analyze(up, tmp_path / "figures.csv", "-i", "http", "--collect-metrics", "--metrics-url", f"{up.gateways[0]['metrics']}/metrics",
                  "--metrics-interval", "100")
    assert got.returncode == 0, got.stdout + got.stderr


def test_what_the_server_refuses_is_told(up, tmp_path):
    got = analyze(up, tmp_path / "figures.csv", "-i", "grpc", "-b", "64")
    assert got.returncode != 0
    assert "1 to 32 are possible" in got.stdout + got.stderr
