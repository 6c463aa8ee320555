"""The `fermata` program itself: its commands, their help, and what it says of what it does not know."""

import socket
import subprocess

import pytest

COMMANDS = ("up", "model", "cluster", "plan", "profile")


@pytest.fixture
def fermata(bin_dir):
    def run(*words):
        return subprocess.run([bin_dir / "fermata", *words], capture_output=True, text=True, timeout=60)

    return run


def test_help_lists_the_commands(fermata):
    shown = fermata("help")
    assert shown.returncode == 0 and shown.stderr == ""
    for name in (*COMMANDS, "version", "help"):
        assert f"\n  {name} " in shown.stdout, name
    assert "child-exec" not in shown.stdout
    assert fermata("--help").stdout == shown.stdout == fermata("-h").stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_is_what_it_says_of_itself(fermata, name):
    shown, own = fermata("help", name), fermata(name, "--help")
    assert (shown.returncode, own.returncode) == (0, 0)
    assert shown.stdout == own.stdout
    assert shown.stdout.startswith("Usage: fermata " + name), shown.stdout[:80]


@pytest.mark.parametrize("words", [("clustr",), ("help", "clustr")])
def test_an_unknown_command_is_told_what_it_may_have_meant(fermata, words):
    told = fermata(*words)
    assert told.returncode == 2 and told.stdout == ""
    assert told.stderr == "fermata: unknown command clustr, did you mean cluster? (see fermata --help)\n"


def test_words_far_from_any_command_are_only_told_to_be_unknown(fermata):
    told = fermata("frobnicate")
    assert told.returncode == 2 and told.stdout == ""
    assert told.stderr == "fermata: unknown command frobnicate (see fermata --help)\n"


def test_no_command_names_them_all(fermata):
    told = fermata()
    assert told.returncode == 2 and told.stdout == ""
    for name in COMMANDS:
        assert f" {name}" in told.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unknown_option_is_one_line_and_no_output(fermata, name):
    told = fermata(name, "--no-such-thing")
    assert told.returncode == 2 and told.stdout == ""
    assert "no-such-thing" in told.stderr and len(told.stderr.splitlines()) == 1, told.stderr


def test_version(fermata):
    assert fermata("version").stdout == fermata("--version").stdout
    assert fermata("version").stdout.startswith("fermata ")


def test_where_no_scheduler_is_the_words_are_the_users(fermata):
    with socket.socket() as taken:  # bound, and nobody listens there
        taken.bind(("127.0.0.1", 0))
        at = "127.0.0.1:%d" % taken.getsockname()[1]
        told = fermata("cluster", "status", "--scheduler", at)
    assert told.returncode == 1 and told.stdout == ""
    assert told.stderr == (f"fermata cluster: no scheduler at {at}: Connection refused "
                           "(--scheduler names it; of `fermata serve` the gRPC port)\n")


HELPS = [*(["fermata", "help", name] for name in (*COMMANDS, "serve", "key", "cert", "help")),
         *([f"fermata-{name}", "--help"] for name in ("gateway", "scheduler", "worker", "load", "sim")), ["fermata-sim", "mode", "--help"]]


@pytest.mark.parametrize("words", HELPS, ids=" ".join)
def test_help_fits_a_terminal(bin_dir, words):
    shown = subprocess.run([bin_dir / words[0], *words[1:]], capture_output=True, text=True, timeout=60, check=True).stdout
    assert [line for line in shown.splitlines() if len(line) > 80] == []
