import pathlib

import pytest

import system


def pytest_addoption(parser):
    parser.addoption("--bin", default=str(system.ROOT / "build" / "release" / "bin"), help="folder with the programs")


@pytest.fixture(scope="session")
def bin_dir(request):
    return pathlib.Path(request.config.getoption("--bin")).resolve()


# How Fermata can run on one machine: whoever adds a way adds it here, and every test that only asks is run with it.
WAYS = {"up": system.Up, "serve": system.Serve, "hand": system.ByHand}


@pytest.fixture(scope="session", params=[pytest.param(way, id=name, marks=[pytest.mark.one_process] if way is system.Serve else [])
                                         for name, way in WAYS.items()])
def way(request):
    """For tests that only ask, of models of their own: way(bin_dir, log_path, models=folder)."""
    return request.param


@pytest.fixture(scope="session")
def up(way, bin_dir, tmp_path_factory):
    """The digits model behind one gateway, one scheduler and one worker, in each of the ways that there are, for every test that only
    asks."""
    folder = tmp_path_factory.mktemp("up")
    running = way(bin_dir, folder / "up.log", models=system.patient_models(folder))
    yield running
    assert running.stop() == 0, running.log()[-4000:]


@pytest.fixture
def cluster(bin_dir, tmp_path):
    running = system.Cluster(bin_dir, tmp_path)
    yield running
    for service in reversed(running.running):
        service.stop()
