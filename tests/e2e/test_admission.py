"""One client slows down himself only: limits of addresses and models, shares of a model that has too much to do."""

import concurrent.futures
import json
import math
import os
import re
import subprocess

import pytest

from client import INFER, digit_tensor, post, request, tensor_request
from system import ANY_PORT, Cluster, Serve, patient_models, wait_until

REQUEST = tensor_request(digit_tensor())


def serve(bin_dir, folder, *flags):
    return Serve(bin_dir, folder / "serve.log", *flags, models=patient_models(folder))


def test_an_address_over_its_limit_is_told_so(bin_dir, tmp_path):
    served = serve(bin_dir, tmp_path, "--address-limits", "rate=0.001,burst=2", "--gateway-threads", 2)
    answers = [post(served.http, INFER, REQUEST) for _ in range(4)]
    assert [answer.status for answer in answers] == [200, 200, 429, 429], answers
    assert int(answers[2].headers["Retry-After"]) > 600 and "this address" in answers[2].error()
    assert request(served.http, "GET", "/v2/health/ready").status == 200
    assert served.stop() == 0


def test_a_model_over_its_limit_is_the_clusters_affair(bin_dir, tmp_path):
    served = serve(bin_dir, tmp_path, "--model-limits", "digits:rate=0.001,burst=1")
    assert post(served.http, INFER, REQUEST).status == 200
    answer = post(served.http, INFER, REQUEST)
    assert answer.status == 503 and "this model" in answer.error() and int(answer.headers["Retry-After"]) > 600
    assert served.stop() == 0


@pytest.mark.parametrize("flags,reason", [(["--address-limits", "rates=1"], "'rates=1' is no limit"),
                                          (["--model-limits", "digits"], "'digits' is no limit of a model")])
def test_wrong_limits_are_no_start(bin_dir, tmp_path, flags, reason):
    done = subprocess.run([bin_dir / "fermata-gateway", *flags, *(word for name in ("http", "grpc", "metrics", "data")
                                                                  for word in (f"--{name}-address", "127.0.0.1:0"))],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and reason in done.stderr, done.stderr


def make_key(bin_dir, keys, name):
    return subprocess.run([bin_dir / "fermata", "key", "new", name, "--keys", keys], capture_output=True, text=True, timeout=20, check=True).stdout.strip()


def load(bin_dir, address, key, rate):
    return subprocess.Popen([bin_dir / "fermata-load", "--model", "slow", "--address", address, "--rate", str(rate), "--duration", "8s", "--json",
                             "--deadline", "300ms"], env=os.environ | {"FERMATA_API_KEY": key}, stdout=subprocess.PIPE, text=True)


def test_a_flood_is_held_and_the_others_are_not(bin_dir, tmp_path):
    """How much of theirs the others keep depends on the machine (tests/bench/bench-fair); that the flood is worse off does not."""
    profile, keys = tmp_path / "slow.csv", tmp_path / "keys"
    profile.write_text("name,alpha_ms,beta_ms,slo_ms,max_batch\nslow,10,0,300,4\n")
    texts = [make_key(bin_dir, keys, f"client{i}") for i in range(4)]
    served = Serve(bin_dir, tmp_path / "serve.log", "--engine", "emulated", "--profile", profile, "--devices", 1, "--keys", keys, models=None)
    loads = [load(bin_dir, served.http, text, 600 if i == 0 else 15) for i, text in enumerate(texts)]
    parts = [json.loads(child.communicate(timeout=120)[0])["total"] for child in loads]
    good = [part["outcomes"].get("ok", 0) / part["offered"] for part in parts]
    assert all(one > 2 * good[0] for one in good[1:]), good
    metrics = request(served.gateways[0]["metrics"], "GET", "/metrics").body.decode()
    assert 'fermata_gateway_admission_refused_total{reason="share"}' in metrics
    assert served.stop() == 0


def refused_early(served, reason):
    return refused_by(served.gateways[0]["metrics"], reason)


def refused_by(metrics, reason):
    text = request(metrics, "GET", "/metrics").body.decode()
    found = re.search(rf'^fermata_gateway_refused_early_total{{reason="{reason}"}} (\d+)$', text, re.MULTILINE)
    return int(found.group(1)) if found else 0


def test_what_nobody_could_keep_is_answered_by_the_gateway(bin_dir, tmp_path):
    """Once the scheduler has answered some."""
    served = serve(bin_dir, tmp_path)
    hopeless = {**REQUEST, "parameters": {"timeout": 1}}

    def ask():
        answer = post(served.http, INFER, hopeless)
        assert answer.status == 504, answer
        return "on an idle device" in answer.error()

    wait_until(ask, "the gateway answers by itself")
    assert refused_early(served, "deadline") > 0
    assert post(served.http, INFER, REQUEST).status == 200
    assert served.stop() == 0


def test_the_lower_of_two_priorities_is_refused_by_the_gateway(bin_dir, tmp_path):
    profile = tmp_path / "slow.csv"
    profile.write_text("name,alpha_ms,beta_ms,slo_ms,max_batch\nslow,10,0,300,4\n")
    served = Serve(bin_dir, tmp_path / "serve.log", "--engine", "emulated", "--profile", profile, "--devices", 1, models=None)
    spec = request(served.http, "GET", "/v2/models/slow").json()["inputs"][0]
    flood = subprocess.Popen([bin_dir / "fermata-load", "--model", "slow", "--address", served.http, "--rate", "400", "--duration", "60s", "--deadline", "300ms"],
                             stdout=subprocess.DEVNULL)
    shape = [1, *(size for size in spec["shape"][1:])]
    urgent = {"parameters": {"priority": 5}, "inputs": [{"name": spec["name"], "datatype": spec["datatype"], "shape": shape, "data": [0] * math.prod(shape)}]}

    def ask():
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: post(served.http, "/v2/models/slow/infer", urgent), range(16)))
        return refused_early(served, "overload") > 0

    wait_until(ask, "the gateway refuses some", 50)
    flood.terminate()
    flood.wait(30)
    assert served.stop() == 0


def burst(bin_dir, folder, *scheduler_flags):
    """Six times what one device can serve: which part of it is answered in time, and which its gateway has refused by itself."""
    folder.mkdir()
    profile = folder / "slow.csv"
    profile.write_text("name,alpha_ms,beta_ms,slo_ms,max_batch\nslow,10,0,500,4\n")
    cluster = Cluster(bin_dir, folder)
    scheduler = cluster.scheduler(*scheduler_flags)
    gateway = cluster.gateway(scheduler)
    cluster.start("worker", "--scheduler", scheduler.grpc, "--engine", "emulated", "--profile", profile, "--devices", 1, "--metrics-address", ANY_PORT)
    wait_until(lambda: request(gateway.http, "GET", "/v2/models/slow/ready").status == 200, "the model")
    done = subprocess.run([bin_dir / "fermata-load", "--model", "slow", "--address", gateway.http, "--rate", "600", "--duration", "8s",
                           "--connections", "1024", "--json"], capture_output=True, text=True, timeout=120, check=True)
    total = json.loads(done.stdout)["total"]
    early = refused_by(gateway.metrics, "backlog")
    assert cluster.stop() == [0, 0, 0]
    return total["outcomes"].get("ok", 0) / total["offered"], early / total["offered"]


def test_what_would_come_too_late_is_answered_by_the_gateway_and_as_much_is_served(bin_dir, tmp_path):
    """A scheduler whose cores are on threads says nothing of what waits, so there every request is sent."""
    good, early = burst(bin_dir, tmp_path / "told")
    good_untold, early_untold = burst(bin_dir, tmp_path / "untold", "--shards", 1)
    assert early > 0.2 and early_untold == 0, (early, early_untold)
    assert good > 0.75 * good_untold and good_untold > 0.05, (good, good_untold)
