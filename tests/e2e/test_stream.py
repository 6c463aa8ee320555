"""ModelStreamInfer with the stock client: many requests on one stream."""

import queue
import time

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from tritonclient.utils import InferenceServerException

from client import digit_tensor
from shape_models import wide
from system import Up

pytestmark = pytest.mark.data_plane

ANSWER_S = 30


class Stream:
    """A stream of the stock client; answers arrive on its own thread."""

    def __init__(self, address, pause_s=0):
        """pause_s: what the callback takes for each answer."""
        self.client = grpcclient.InferenceServerClient(address)
        self.answers, self.pause_s = queue.Queue(), pause_s
        self.client.start_stream(self._take)

    def _take(self, result, error):
        self.answers.put((result, error))
        time.sleep(self.pause_s)

    def ask(self, model, tensor, name="image", **more):
        given = grpcclient.InferInput(name, tensor.shape, "FP32")
        given.set_data_from_numpy(tensor)
        self.client.async_stream_infer(model, [given], **more)

    def answer(self):
        return self.answers.get(timeout=ANSWER_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.stop_stream(cancel_requests=True)
        self.client.close()


def test_each_request_has_its_answer_in_order(up):
    with Stream(up.grpc) as stream:
        for i in range(200):
            stream.ask("digits", digit_tensor(str(i % 10)), request_id=str(i))
        for i in range(200):
            result, error = stream.answer()
            assert error is None, error
            assert result.get_response().id == str(i)
            assert int(np.argmax(result.as_numpy("scores"))) == i % 10


@pytest.fixture(scope="module")
def mixed(bin_dir, tmp_path_factory):
    """A model that takes 200 ms, and one that takes 1 ms."""
    folder = tmp_path_factory.mktemp("mixed")
    profile = folder / "profile.csv"
    profile.write_text("name,alpha_ms,beta_ms,slo_ms,max_batch\nslow,0,200,2000,1\nquick,0.1,1,2000,8\n")
    running = Up(bin_dir, folder / "up.log", "--engine", "emulated", "--profile", profile, "--workers", "2", models=None)
    yield running
    assert running.stop() == 0, running.log()[-4000:]


def test_a_quick_answer_waits_for_the_slow_one_before_it(mixed):
    client = grpcclient.InferenceServerClient(mixed.grpc)
    tensor = client.get_model_metadata("quick").inputs[0]
    client.close()
    ones = np.ones([1 if size < 0 else size for size in tensor.shape], dtype=np.float32)
    with Stream(mixed.grpc) as stream:
        for model in ("slow", "quick", "slow", "quick"):
            stream.ask(model, ones, name=tensor.name, request_id=model)
        answers = [stream.answer() for _ in range(4)]
    assert [error for _, error in answers] == [None] * 4
    assert [result.get_response().id for result, _ in answers] == ["slow", "quick", "slow", "quick"]


def test_a_bad_request_is_told_and_the_stream_goes_on(up):
    with Stream(up.grpc) as stream:
        stream.ask("digits", digit_tensor("1"), request_id="good")
        stream.ask("nothing", digit_tensor("1"), request_id="unknown")
        stream.ask("digits", digit_tensor("1")[:, :, :4, :], request_id="short")
        stream.ask("digits", digit_tensor("2"), request_id="good too")
        answers = [stream.answer() for _ in range(4)]
    assert [error is None for _, error in answers] == [True, False, False, True]
    assert isinstance(answers[1][1], InferenceServerException) and "nothing" in str(answers[1][1])
    assert "image" in str(answers[2][1])
    assert int(np.argmax(answers[3][0].as_numpy("scores"))) == 2


def test_what_was_asked_is_answered_after_the_client_has_said_all(up):
    stream = Stream(up.grpc)
    for _ in range(50):
        stream.ask("digits", digit_tensor("5"))
    stream.client.stop_stream()  # half-closes, and waits for the end
    stream.client.close()
    assert stream.answers.qsize() == 50
    assert all(error is None for _, error in stream.answers.queue)


def test_a_client_that_goes_away_in_mid_stream_harms_nobody(mixed, up):
    with Stream(up.grpc) as stream:
        for _ in range(100):
            stream.ask("digits", digit_tensor("5"))
    with Stream(up.grpc) as stream:
        stream.ask("digits", digit_tensor("6"))
        result, error = stream.answer()
        assert error is None and int(np.argmax(result.as_numpy("scores"))) == 6


def test_a_slow_client_gets_all_of_its_large_answers(way, bin_dir, tmp_path):
    """60 answers of 5 MB are far more than waits on the way; the client is slower than the model."""
    width, count = 1_250_000, 60
    models = tmp_path / "models"
    models.mkdir()
    wide(models, "wide", width)
    running = way(bin_dir, tmp_path / "up.log", models=models)
    with Stream(running.grpc, pause_s=0.02) as stream:
        for i in range(count):
            stream.ask("wide", np.full((1, 1), i, np.float32), name="x", request_id=str(i))
        for i in range(count):
            result, error = stream.answer()
            assert error is None, error
            y = result.as_numpy("y")
            assert result.get_response().id == str(i)
            assert y.shape == (1, width) and y[0, 0] == i and y[0, -1] == 2 * i
    assert running.stop() == 0, running.log()[-4000:]
