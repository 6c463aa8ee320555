"""Each malformed request of tests/hostile/malformed.py is refused as the client's mistake, and the next good one is answered."""

import grpc
import pytest

import malformed
from client import good

CLIENTS_MISTAKES = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNIMPLEMENTED}
HTTP = {f"{kind}-{name}": data for kind, cases in malformed.HTTP.items() for name, data in cases.items()}


@pytest.fixture(autouse=True)
def lives_on(up):
    yield
    good(up.http)


@pytest.mark.parametrize("data", HTTP.values(), ids=HTTP)
def test_http(up, data):
    assert malformed.send_http(up.http, data) in (400, 404)


@pytest.mark.parametrize("case", malformed.MESSAGES.values(), ids=malformed.MESSAGES)
def test_a_message_of_grpc(up, case):
    assert malformed.send_grpc(up.grpc, case) in CLIENTS_MISTAKES


@pytest.mark.parametrize("case", malformed.FRAMES.values(), ids=malformed.FRAMES)
def test_frames_of_grpc(up, case):
    assert malformed.send_grpc(up.grpc, case) in {*CLIENTS_MISTAKES, "closed"}


def test_the_cases_are_as_many_as_were_counted():
    counted = {kind: len(cases) for kind, cases in {**malformed.HTTP, "grpc": malformed.GRPC, "report": malformed.REPORTS}.items()}
    assert counted == {"json": 26, "binary": 15, "path": 15, "grpc": 31, "report": 33}
