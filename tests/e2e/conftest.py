import pathlib

import pytest

import system


def pytest_addoption(parser):
    parser.addoption("--bin", default=str(system.ROOT / "build" / "release" / "bin"), help="folder with the programs")


@pytest.fixture(scope="session")
def bin_dir(request):
    return pathlib.Path(request.config.getoption("--bin")).resolve()


@pytest.fixture(scope="session", params=[system.Up, system.Serve], ids=["up", "serve"])
def up(request, bin_dir, tmp_path_factory):
    """The digits model behind one gateway, one scheduler and one worker, of a process each and of one, for every test that only
    asks."""
    folder = tmp_path_factory.mktemp("up")
    running = request.param(bin_dir, folder / "up.log", models=system.patient_models(folder))
    yield running
    assert running.stop() == 0, running.log()[-4000:]


@pytest.fixture
def cluster(bin_dir, tmp_path):
    running = system.Cluster(bin_dir, tmp_path)
    yield running
    for service in reversed(running.running):
        service.stop()
