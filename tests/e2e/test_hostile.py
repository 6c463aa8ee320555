"""Peers that lie (tests/hostile/rogue.py), beside those who mean well."""

import contextlib
import http.client
import json
import shutil
import socket
import struct
import subprocess

import pytest

import bombs
import malformed
import rogue
from client import get, pictures, post, wait_served_by
from system import Cluster, patient_models, wait_until
from test_emulated import infer_request
from test_modes import metric


ANSWERS = {"ok": rogue.ok, "failed_rows": rogue.failed_rows, "cancelled": rogue.cancelled, "internal": rogue.internal}


@pytest.fixture(scope="module")
def emulated(bin_dir, tmp_path_factory):
    """Scheduler, gateway and worker; `quick` takes 1.1 ms for a row, its SLO is 200 ms; models named after answers have
    the time that a busy machine needs: what fails or is not delivered is tried elsewhere."""
    folder = tmp_path_factory.mktemp("hostile")
    profile = folder / "profile.csv"
    profile.write_text("name,alpha_ms,beta_ms,slo_ms,max_batch\nquick,0.1,1,200,8\n" + "".join(f"{name},0.1,1,20000,8\n" for name in ANSWERS))
    cluster = Cluster(bin_dir, folder, models=folder)
    cluster.one = cluster.scheduler()
    cluster.front = cluster.gateway(cluster.one)
    cluster.back = cluster.worker(cluster.one, "--engine", "emulated", "--profile", profile)
    wait_until(lambda: get(cluster.front.http, "/v2/models/quick/ready").status == 200, "the model is served", 30)
    yield cluster
    assert set(cluster.stop()) == {0}


def state(cluster):
    return get(cluster.one.http, "/state").json()


@pytest.mark.data_plane
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_the_rogues_are_taken_for_peers(emulated, answer):
    """What the other tests rest on: a rogue worker is granted what a rogue gateway asks for, and its answers count."""
    with rogue.Spy(emulated.one.grpc) as gateway, rogue.RogueWorker(emulated.one.grpc, answer) as worker:
        like = gateway.described("quick")
        worker.report(like, name="rogue")
        gateway.described("rogue")
        ids = gateway.submit("rogue")
        wait_until(lambda: worker.grants, "the rogue worker is granted something", 10)
        rows = rogue.rows_of(worker.grants[0])
        assert [(row.task, row.handle_hi) for row in rows] == [(ids[0], gateway.hello.instance_id)]
        assert worker.gateways[rows[0].gateway].data_address == gateway.silence.address
        if answer in (rogue.failed_rows, rogue.internal):
            wait_until(lambda: gateway.drops, "the failure is told", 10)
            assert [drop[0] for drop in gateway.drops] == ids
        assert {"rogue-gateway", "rogue-worker"} <= {peer["name"] for kind in ("gateways", "workers") for peer in state(emulated)[kind]}
    wait_until(lambda: len(state(emulated)["workers"]) == 1, "the rogue is gone", 10)


# ---- who lies is left out


# What it is told to have done, and what counts it.
WHY = {"ok": "results that it reported did not arrive, and others' did", "failed_rows": "ran well elsewhere", "cancelled": "ran well elsewhere", "internal": "batches failed"}
STRIKES = {"ok": "unshown", "failed_rows": "rows", "cancelled": "rows", "internal": "failed"}


def ask(cluster, model):
    request = infer_request(cluster.front, model)
    return lambda: post(cluster.front.http, f"/v2/models/{model}/infer", request).status


def doubted(cluster, model):
    return [doubt for doubt in state(cluster)["doubts"] if doubt["model"] == model]


@pytest.mark.data_plane
@pytest.mark.parametrize("kind", ANSWERS)
def test_a_worker_that_lies_is_shunned_and_costs_its_clients_little(emulated, bin_dir, kind):
    """It has the model too, and is always idle. What it fails or does not deliver is run by the other."""
    infer = ask(emulated, kind)
    with rogue.Spy(emulated.one.grpc) as gateway, rogue.RogueWorker(emulated.one.grpc, ANSWERS[kind], kind="emulated") as worker:
        worker.report(gateway.described(kind))
        wait_until(lambda: gateway.models[kind].workers == 2, "two workers have it", 10)
        with contextlib.ExitStack() as traffic:  # so many that the other is busy, and the rogue is granted something
            clients = [traffic.enter_context(rogue.Steady(infer, 60)) for _ in range(6)]
            wait_until(lambda: doubted(emulated, kind), "the rogue is found out", 60)
            before = [len(client.results) for client in clients]
            wait_until(lambda: all(len(client.results) > had + 20 for client, had in zip(clients, before)), "clients go on", 60)
        doubt, = doubted(emulated, kind)
        assert doubt["peer"] == "rogue-worker" and WHY[kind] in doubt["reason"] and doubt["strikes"] >= 1, doubt
        status = subprocess.run([bin_dir / "fermata", "cluster", "status", "--scheduler", emulated.one.grpc], capture_output=True, text=True, timeout=60)
        assert "NOT BELIEVED" in status.stdout and WHY[kind] in status.stdout, status.stdout
        assert metric(emulated.one.http, "fermata_scheduler_strikes_total", model=kind, reason=STRIKES[kind]) >= 1
        assert {status for client in clients for status in client.results} == {200}
    wait_until(lambda: len(state(emulated)["workers"]) == 1, "the rogue is gone", 10)
    assert infer() == 200 and not doubted(emulated, kind)


@pytest.mark.parametrize("kind", ["ok", "internal"])
def test_a_strangers_version_does_not_take_all_at_once(emulated, kind):
    """Version 999 on a new worker that does not work: a share of those who name none, until it is refused; then nothing."""
    infer = ask(emulated, "quick")

    def entry():
        return next((model for model in state(emulated)["models"] if model["name"] == "quick" and model["version"] == 999), {})

    with rogue.Spy(emulated.one.grpc) as gateway, rogue.RogueWorker(emulated.one.grpc, ANSWERS[kind], kind="emulated") as worker:
        worker.report(gateway.described("quick"), version=999)
        wait_until(lambda: entry().get("trial") == "tried", "it is on trial", 10)
        statuses = []
        while entry().get("trial") == "tried" and len(statuses) < 400:
            statuses.append(infer())
        assert entry()["trial"] == "refused", statuses
        assert statuses.count(200) >= len(statuses) * 3 // 4, statuses
        had = worker.rows_granted()
        assert [infer() for _ in range(24)] == [200] * 24 and worker.rows_granted() == had
        assert post(emulated.front.http, "/v2/models/quick/versions/999/infer", {}).status == 400  # who names it is heard
    wait_until(lambda: len(state(emulated)["workers"]) == 1, "the rogue is gone", 10)
    assert infer() == 200


def test_what_runs_for_an_hour_by_its_profile_does_not_count(emulated):
    infer = ask(emulated, "quick")
    with rogue.Spy(emulated.one.grpc) as gateway, rogue.RogueWorker(emulated.one.grpc, rogue.silent, kind="emulated") as worker:
        worker.report(gateway.described("quick"), beta_ns=3.5e12)
        wait_until(lambda: gateway.models["quick"].workers == 2, "two workers have it", 10)
        assert [infer() for _ in range(20)] == [200] * 20
        assert not worker.grants
    wait_until(lambda: len(state(emulated)["workers"]) == 1, "the rogue is gone", 10)


def test_an_epoch_of_a_far_future_deafens_nobody(emulated):
    before = state(emulated)["epoch"]
    worker = rogue.RogueWorker(emulated.one.grpc, rogue.ok)
    worker.epoch = 2**63 - 2
    with pytest.raises(rogue.grpc.RpcError) as refused:
        worker.connect()
    worker.close()
    assert "more than a day ahead" in refused.value.details()
    assert state(emulated)["epoch"] == before
    assert ask(emulated, "quick")() == 200


@pytest.mark.parametrize("report", malformed.REPORTS.values(), ids=malformed.REPORTS)
def test_what_a_worker_says_that_means_nothing_costs_nobody_an_answer(emulated, report):
    """It may be sent away for it; what it has to do is done while it is heard, or has gone."""
    with rogue.RogueWorker(emulated.one.grpc, rogue.ok) as worker:
        worker.send(**report)
        worker.send(ping=rogue.message("Ping", sent_ns=77))
        wait_until(lambda: worker.ended or any(frame.pong.sent_ns == 77 for frame in worker.heard), "it was heard", 10)
        assert ask(emulated, "quick")() == 200
    wait_until(lambda: [model["name"] for model in state(emulated)["models"] if model["ready"]] == ["quick", *ANSWERS], "nothing is left of it", 10)


def test_done_messages_of_what_others_were_granted_count_for_nothing(emulated):
    """5,000, of the numbers that batches have beside it, with statuses good and bad."""
    infer = ask(emulated, "quick")
    with rogue.RogueWorker(emulated.one.grpc, rogue.ok) as worker:
        with rogue.Steady(infer, 100) as client:
            for number in range(5000):
                worker.send(done=[rogue.message("BatchDone", batch_id=number, status=number % 12, exec_ns=1)])
            worker.send(ping=rogue.message("Ping", sent_ns=5000))
            wait_until(lambda: any(frame.pong.sent_ns == 5000 for frame in worker.heard) and len(client.results) >= 100, "all were heard", 60)
    assert set(client.results) == {200}, client.results
    assert not state(emulated)["doubts"]


@pytest.mark.data_plane
def test_handles_are_not_guessed(emulated):
    """Who has greeted as a worker and asks for what a client has sent, without being told its handle, gets nothing of it."""
    infer = ask(emulated, "quick")
    own = rogue.instance_at(emulated.one.grpc, emulated.front.data)
    with rogue.Steady(infer, 100) as client, rogue.data_connection(emulated.front.data, own) as connection:
        for seq in range(16):
            items = b"".join(struct.pack("<QQQQ", own if number % 2 else number, 1024 * seq + number, 0, 64) for number in range(1024))
            connection.sendall(rogue.data_frame(rogue.FETCH, items, seq=seq, count=1024))
            answer = rogue.read_exactly(connection, 16 + 1024 * 16)
            assert all(status != 0 and length == 0 for status, _, length in struct.iter_unpack("<IIQ", answer[16:]))
        wait_until(lambda: len(client.results) >= 50, "requests beside it", 60)
    assert set(client.results) == {200}, client.results


def test_names_of_models_leave_room_for_others_and_for_those_to_come(emulated):
    """More than there are places; a worker that comes then has one, and when both have gone the next can do the same."""
    def names(start):
        return [model["name"] for model in state(emulated)["models"] if model["name"].startswith(start)]

    with rogue.Spy(emulated.one.grpc) as gateway:
        reports = [rogue.message("ModelReport") for _ in range(1500)]
        for turn in ("first", "second", "third"):
            with rogue.RogueWorker(emulated.one.grpc, rogue.ok, kind="emulated") as liar, rogue.RogueWorker(emulated.one.grpc, rogue.ok, name="late") as late:
                for number, report in enumerate(reports):
                    report.CopyFrom(gateway.described("quick"))
                    report.name = f"{turn}-{number}"
                wait_until(lambda: liar.send(models=reports) or len(names(turn)) >= 512, "it has taken its part", 20)
                late.report(reports[0], name=f"honest-{turn}")
                gateway.described(f"honest-{turn}", 20)
                assert len(names("")) <= 1024
                assert [ask(emulated, "quick")() for _ in range(20)] == [200] * 20
            wait_until(lambda: len(state(emulated)["workers"]) == 1, "both have gone", 10)


@pytest.mark.data_plane
def test_tasks_of_another_gateway_take_nobodys_turn(emulated):
    """7,000 of handles that it did not publish: dropped when their inputs do not come, at the latest when they were due."""
    infer = ask(emulated, "ok")
    with rogue.RogueGateway(emulated.one.grpc, data_address=emulated.front.data) as gateway:
        wait_until(lambda: "quick" in gateway.models and gateway.models["quick"].ready, "the rogue knows the model", 10)
        ids = [*gateway.submit("quick", 3500), *gateway.submit("quick", 3500)]
        assert [infer() for _ in range(20)] == [200] * 20
        wait_until(lambda: len(gateway.drops) >= len(ids), "all are told", 30)
    assert {drop[0] for drop in gateway.drops} == set(ids)


def test_ids_of_processes_are_shown_to_nobody(emulated):
    with rogue.RogueWorker(emulated.one.grpc, rogue.ok) as worker:
        wait_until(lambda: len(state(emulated)["workers"]) == 2, "it is shown", 10)
        text = get(emulated.one.http, "/state").body.decode()
        own = worker.hello.instance_id
        assert str(own) not in text and f"{own:016x}" not in text and f"{own:x}" not in text
    wait_until(lambda: len(state(emulated)["workers"]) == 1, "the rogue is gone", 10)


def silent_gateways(cluster):
    return metric(cluster.back.metrics, "fermata_worker_gateway_breakers_total", to="open")


@pytest.mark.data_plane
def test_a_gateway_whose_data_plane_is_silent_costs_the_others_a_second_at_most(emulated):
    """It asks for 200 rows a second and lets nobody have their inputs. The worker stops asking for them; the other gateway's requests are
    answered."""
    opened = silent_gateways(emulated)

    with rogue.RogueGateway(emulated.one.grpc) as gateway:
        wait_until(lambda: "quick" in gateway.models and gateway.models["quick"].ready, "the rogue knows the model", 10)
        with rogue.Steady(lambda: gateway.submit("quick", budget_ns=200 * rogue.NS_PER_MS), 200), rogue.Steady(ask(emulated, "quick"), 50) as client:
            wait_until(lambda: silent_gateways(emulated) > opened, "the worker has noticed", 5)
            settled = len(client.results)
            wait_until(lambda: len(client.results) >= settled + 400, "400 more requests", 60)
        answers = client.results[settled:]
        assert answers.count(200) >= 0.99 * len(answers), (client.results, emulated.back.log()[-2000:])
    log = emulated.back.log()
    assert log.count("gateway_silent") == 1 and gateway.silence.address in log, log[-2000:]


@pytest.mark.data_plane
def test_a_worker_finds_a_place_beside_idle_data_connections(cluster):
    """More than a gateway has places greet it as a worker does, and do nothing; a worker that comes then is the only one to serve."""
    profile = cluster.folder / "profile.csv"
    profile.write_text("name,alpha_ms,beta_ms,slo_ms,max_batch\nquick,0.1,1,5000,8\n")
    scheduler = cluster.scheduler()
    front = cluster.gateway(scheduler)
    own = rogue.instance_at(scheduler.grpc, front.data)
    with contextlib.ExitStack() as idle:
        for _ in range(1100):
            idle.enter_context(rogue.data_connection(front.data, own))
        cluster.worker(scheduler, "--engine", "emulated", "--profile", profile)
        wait_until(lambda: get(front.http, "/v2/models/quick/ready").status == 200, "the model is served", 30)
        request = infer_request(front, "quick")
        assert [post(front.http, "/v2/models/quick/infer", request).status for _ in range(50)] == [200] * 50
        assert metric(front.metrics, "fermata_data_connections") <= 1024
        assert metric(front.metrics, "fermata_data_connections_told_to_leave_total", why="crowded") >= 1100 - 768
    assert front.log().count("data_connections_full") >= 1
    assert cluster.stop() == [0] * 3


def reset_after_sending(address, path, document):
    """A client that is gone as soon as its request is."""
    body = json.dumps(document).encode()
    host, port = address.rsplit(":", 1)

    def once():
        with socket.create_connection((host, int(port)), timeout=30) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (path.encode(), len(body), body))
    return once


@pytest.mark.data_plane
def test_clients_that_reset_right_after_sending_are_held_against_no_worker(cluster):
    """Their rows are gone when a worker asks for them, or run for nobody: no worker has failed."""
    profile = cluster.folder / "profile.csv"
    profile.write_text("name,alpha_ms,beta_ms,slo_ms,max_batch\nquick,0.1,1,1000,8\n")
    scheduler = cluster.scheduler()
    front = cluster.gateway(scheduler)
    for _ in range(2):
        cluster.worker(scheduler, "--engine", "emulated", "--profile", profile)
    wait_served_by(scheduler, "quick", 2)
    path, request = "/v2/models/quick/infer", infer_request(front, "quick")
    resets = [rogue.Steady(reset_after_sending(front.http, path, request), 100) for _ in range(3)]
    with contextlib.ExitStack() as on:
        for reset in resets:
            on.enter_context(reset)
        client = on.enter_context(rogue.Steady(lambda: post(front.http, path, request).status, 50))
        wait_until(lambda: len(client.results) >= 200 and all(len(reset.results) >= 300 for reset in resets), "enough of both", 60)
    assert set(client.results) == {200}, client.results
    assert metric(scheduler.http, "fermata_scheduler_strikes_total", model="quick") == 0
    assert not get(scheduler.http, "/state").json()["doubts"]
    assert "batch_failed" not in scheduler.log(), scheduler.log()[-2000:]
    assert cluster.stop() == [0] * 4


@pytest.mark.data_plane
def test_whoever_does_not_know_the_gateway_is_no_worker(emulated):
    before = metric(emulated.front.metrics, "fermata_data_refused_total", reason="instance")
    with pytest.raises(AssertionError, match="instance that is looked for"):
        rogue.data_connection(emulated.front.data, 0)
    assert metric(emulated.front.metrics, "fermata_data_refused_total", reason="instance") == before + 1


# ---- pictures that cost more than they look


LARGE = 4096  # a side: 16 megapixels, as much as a model of 8 x 8 pixels takes


@pytest.fixture(scope="module")
def digits(bin_dir, tmp_path_factory):
    """`digits` as it is, and as `wide` for larger pictures; time enough for a sanitizer, and one thread for large ones."""
    folder = tmp_path_factory.mktemp("pictures")
    models = patient_models(folder)
    shutil.copytree(models / "digits", models / "wide")
    for name, more in (("digits", ""), ("wide", "  max_pixels: 70000000\n")):
        config = models / name / "config.yaml"
        config.write_text(config.read_text().replace("slo_ms: 3000\n", "slo_ms: 60000\n").replace("preprocess:\n", "preprocess:\n" + more))
    cluster = Cluster(bin_dir, folder, models=models)
    cluster.one = cluster.scheduler()
    cluster.front = cluster.gateway(cluster.one)
    cluster.back = cluster.worker(cluster.one)
    for name in ("digits", "wide"):
        wait_until(lambda: get(cluster.front.http, f"/v2/models/{name}/ready").status == 200, f"{name} is served", 180)
    yield cluster
    assert set(cluster.stop()) == {0}


def send_picture(cluster, model, picture, source="127.0.0.1"):
    """A connection over which the picture was sent, from an address of the test's choice: clients are told apart by it."""
    host, port = cluster.front.http.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=120, source_address=(source, 0))
    connection.request("POST", f"/v2/models/{model}/infer", picture, {"Content-Type": "image/png"})
    return connection


def picture_answer(*args, **more):
    with contextlib.closing(send_picture(*args, **more)) as connection:
        got = connection.getresponse()
        return got.status, got.read().decode()


@pytest.fixture(scope="module")
def small_picture():
    return pictures()[0][0].read_bytes()


def count_decoded(cluster, model):
    return metric(cluster.front.metrics, "fermata_gateway_preprocess_seconds_count", model=model)


def test_pictures_that_cost_more_than_the_model_can_use_are_refused_by_their_header(digits):
    tried = {"8192 x 8192": bombs.png(8192), "8000 x 8000": bombs.progressive_jpeg(8000, 400), "400 scans": bombs.progressive_jpeg(2000, 400),
             "11 scans": bombs.progressive_jpeg(LARGE, 11)}
    for says, picture in tried.items():
        status, text = picture_answer(digits, "digits", picture)
        assert status == 413 and says in text and "preprocess.max_pixels" in text, text
    assert count_decoded(digits, "digits") == 0
    assert picture_answer(digits, "digits", bombs.progressive_jpeg(600, 400))[0] == 200  # small, and scans enough for anybody


def test_a_model_may_ask_for_larger_ones(digits):
    assert picture_answer(digits, "wide", bombs.png(8192))[0] == 200
    status, text = picture_answer(digits, "wide", bombs.progressive_jpeg(8000, 400))
    assert status == 413 and "400 scans" in text


def test_what_was_given_up_is_not_decoded(digits, small_picture):
    """Twenty large pictures of somebody who leaves at once; the first of them may be in decoding."""
    large = bombs.png(LARGE)
    before = count_decoded(digits, "wide")
    for _ in range(20):
        send_picture(digits, "wide", large, source="127.0.0.2").close()
    wait_until(lambda: metric(digits.front.metrics, "fermata_gateway_preprocess_unwanted_total") + count_decoded(digits, "wide") - before == 20, "all are over", 60)
    assert metric(digits.front.metrics, "fermata_gateway_preprocess_unwanted_total", when="waiting") >= 10
    assert metric(digits.front.metrics, "fermata_gateway_preprocess_queue") == 0
    assert picture_answer(digits, "digits", small_picture)[0] == 200


@pytest.mark.parametrize("addresses", [1, 20])
def test_large_pictures_are_not_in_the_way_of_others(digits, small_picture, addresses):
    """Others have their answers while most of twenty large ones still wait, of one client or as many, of whichever model."""
    large = bombs.png(LARGE)
    before = count_decoded(digits, "wide")
    with contextlib.ExitStack() as sent:
        connections = [sent.enter_context(contextlib.closing(send_picture(digits, "wide", large, source=f"127.0.1.{1 + i % addresses}")))
                       for i in range(20)]
        wait_until(lambda: metric(digits.front.metrics, "fermata_gateway_preprocess_queue") > 10, "they wait", 60)
        assert [picture_answer(digits, model, small_picture)[0] for model in ("digits", "wide") for _ in range(3)] == [200] * 6
        assert count_decoded(digits, "wide") - 3 - before < 15
        assert [connection.getresponse().status for connection in connections] == [200] * 20
