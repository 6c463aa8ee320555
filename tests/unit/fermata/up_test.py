"""`fermata up` with fake services: what it says, how it ends, and that it leaves nothing behind.

    up_test.py PATH_OF_FERMATA [unittest arguments]

The fakes are scripts in a folder of each test. Waiting is always for a line or for the end, never for a time.
"""

import fcntl
import json
import os
import pathlib
import pty
import queue
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest

FERMATA = pathlib.Path(sys.argv.pop(1)).resolve()
PATIENCE_S = 60

SERVICE = """#!/bin/sh
# A service that says it is ready and waits for its end (in a read that never returns: no child of its own).
name=${0##*/fermata-}
echo "$@" > "%(folder)s/$name-$$.args"
trap 'echo "$name" >> "%(folder)s/stopped"; exit 0' TERM
echo "$name speaks" >&2
echo "ready {\\"service\\":\\"$name\\",\\"http\\":\\"127.0.0.1:1\\",\\"grpc\\":\\"127.0.0.1:2\\",\\"metrics\\":\\"127.0.0.1:3\\",\\"pid\\":$$}"
mkfifo "%(folder)s/$$.never" && exec 3<>"%(folder)s/$$.never"
while :; do read -r nothing <&3; done
"""

GATEWAY = """#!/usr/bin/env python3
import http.server, json, os, pathlib, signal, sys
folder = pathlib.Path("%(folder)s")
MODELS = %(models)s

class Handler(http.server.BaseHTTPRequestHandler):
    def reply(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        if self.path == "/v2/health/ready":
            self.reply(200, {})
        elif self.path == "/v2/models/digits":
            self.reply(200, {"name": "digits", "versions": ["1"], "platform": "onnx",
                             "inputs": [{"name": "image", "datatype": "FP32", "shape": [-1, 8]}], "outputs": []})
        elif self.path == "/v2/models/digits/ready":
            self.reply(200, {})
        else:
            self.reply(404, {"error": "unknown model 'nothing'"})

    def do_POST(self):
        self.reply(200, MODELS)

    def log_message(self, *words):
        pass

def stop(*_):
    (folder / "stopped").open("a").write("gateway\\n")
    os._exit(0)

signal.signal(signal.SIGTERM, stop)
(folder / f"gateway-{os.getpid()}.args").write_text(" ".join(sys.argv[1:]))
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print("ready " + json.dumps({"service": "gateway", "http": "127.0.0.1:%%d" %% server.server_port, "grpc": "127.0.0.1:4",
                             "pid": os.getpid()}), flush=True)
server.serve_forever()
"""

READY = [{"name": "digits", "version": "1", "state": "READY", "reason": ""}]


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(condition):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.01)


class Up:
    """`fermata up` with its two streams as queues of lines."""

    def __init__(self, folder, *flags):
        command = [FERMATA, "up", "--bin-dir", folder, "--models", folder, "--any-port", *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines = queue.Queue()
        self.said = ""
        self.threads = [threading.Thread(target=self.read, args=(stream,), daemon=True)
                        for stream in (self.process.stdout, self.process.stderr)]
        for thread in self.threads:
            thread.start()

    def read(self, stream):
        for line in stream:
            self.lines.put(line)
        self.lines.put(None)

    def wait_for(self, part):
        while True:
            line = self.lines.get(timeout=PATIENCE_S)
            assert line is not None, f"it ended without saying {part!r}:\n{self.said}"
            self.said += line
            if part in line:
                return line

    def end(self):
        """The exit code; after it, `said` has everything."""
        code = self.process.wait(PATIENCE_S)
        for thread in self.threads:
            thread.join(PATIENCE_S)
        while not self.lines.empty():
            self.said += self.lines.get() or ""
        self.process.stdout.close()
        self.process.stderr.close()
        return code


class UpTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        (self.folder / "digits").mkdir()
        self.fake("scheduler", SERVICE)
        self.fake("worker", SERVICE)
        self.fake("gateway", GATEWAY, models=READY)

    def tearDown(self):
        self.temporary.cleanup()

    def fake(self, name, script, **values):
        path = self.folder / f"fermata-{name}"
        path.write_text(script % {"folder": self.folder, **values} if "%(" in script else script)
        path.chmod(0o755)

    def args_of(self, name):
        return [path.read_text() for path in self.folder.glob(f"{name}-*.args")]

    def start_json(self, *flags):
        up = Up(self.folder, "--json", *flags)
        ready = json.loads(up.wait_for('{"scheduler"'))
        return up, ready

    def pids(self, ready):
        return [service["pid"] for service in [ready["scheduler"], *ready["gateways"], *ready["workers"]]]

    def expect_all_gone(self, pids):
        self.assertEqual([pid for pid in pids if alive(pid)], [])

    def test_ready_report_and_clean_stop_in_order(self):
        for sig in (signal.SIGTERM, signal.SIGINT):
            (self.folder / "stopped").unlink(missing_ok=True)
            up, ready = self.start_json("--gateways", "2", "--workers", "2")
            pids = self.pids(ready)
            self.assertEqual(len(pids), 5)
            self.assertTrue(all(alive(pid) for pid in pids))
            self.assertEqual(ready["models"], [{"name": "digits", "version": "1", "state": "ready", "reason": "", "engine": "", "mode": "", "mode_reason": "",
                                            "stages": 0, "exit_points": 0, "latency_ms": 0, "measured": 0, "measured_up_to": 0, "doubt": 0}])  # the fake scheduler tells nothing
            self.assertNotEqual(ready["gateways"][0]["http"], ready["gateways"][1]["http"])
            up.process.send_signal(sig)
            self.assertEqual(up.end(), 0, up.said)
            self.expect_all_gone(pids)
            self.assertEqual((self.folder / "stopped").read_text().split(), ["gateway"] * 2 + ["worker"] * 2 + ["scheduler"])
            self.assertIn("[worker-0] worker speaks", up.said)

    def test_text_report_has_a_line_to_copy(self):
        up = Up(self.folder)
        up.wait_for("curl -s http://127.0.0.1:")
        up.wait_for("Ctrl-C stops everything")
        up.process.terminate()
        self.assertEqual(up.end(), 0, up.said)
        self.assertRegex(up.said, r"\n  digits +1 +ready\n")

    def test_services_get_their_flags(self):
        up, _ = self.start_json("--policy", "eager", "--engine", "emulated", "--gpus", "3")
        up.process.terminate()
        up.end()
        self.assertIn("--policy eager", self.args_of("scheduler")[0])
        self.assertIn("--scheduler 127.0.0.1:2 --name worker-0", self.args_of("worker")[0])
        self.assertIn("--engine emulated --devices 3", self.args_of("worker")[0])

    def test_a_service_that_fails_at_start(self):
        self.fake("worker", "#!/bin/sh\necho 'no such device' >&2\nexit 3\n")
        up = Up(self.folder)
        self.assertEqual(up.end(), 1)
        self.assertIn("[worker-0] no such device", up.said)
        self.assertRegex(up.said, r"fermata up: worker-0 \(pid \d+\) exited with status 3 before it was ready; stopping everything")

    def test_a_program_that_is_not_there(self):
        (self.folder / "fermata-scheduler").unlink()
        up = Up(self.folder)
        self.assertEqual(up.end(), 1)
        self.assertIn("fermata: cannot run", up.said)
        self.assertIn("scheduler (pid", up.said)

    def test_a_service_that_never_gets_ready(self):
        self.fake("gateway", "#!/bin/sh\nexec sleep 1000\n")
        up = Up(self.folder, "--ready-timeout", "4s")
        self.assertEqual(up.end(), 1)
        self.assertRegex(up.said, r"not ready within 4s: gateway-0 \(pid \d+\) has not printed its ready line")

    def test_a_model_that_never_gets_ready(self):
        self.fake("gateway", GATEWAY, models=[{"name": "slow", "version": "1", "state": "LOADING"}])
        up = Up(self.folder, "--ready-timeout", "4s")
        self.assertEqual(up.end(), 1)
        self.assertRegex(up.said, r"not ready within 4s: waiting for the gateway at 127.0.0.1:\d+: model slow is loading")

    def test_every_gateway_is_waited_for(self):
        models = f'{READY!r} if "gateway-0" in sys.argv else [{{"name": "slow", "version": "1", "state": "LOADING"}}]'
        self.fake("gateway", GATEWAY, models=models)
        up = Up(self.folder, "--gateways", "2", "--ready-timeout", "4s")
        self.assertEqual(up.end(), 1)
        self.assertIn("model slow is loading", up.said)

    def test_a_pipe_that_outlives_its_service_delays_nothing(self):
        held = 'sleep 300 & echo $! > "%(folder)s/holder"; exec 1>&- 2>&-\n'
        self.fake("worker", SERVICE.replace("mkfifo", held + "mkfifo"))
        up, ready = self.start_json()
        holder = self.folder / "holder"
        while not (holder.exists() and holder.read_text().endswith("\n")):  # it says ready before
            time.sleep(0.01)
        os.kill(ready["workers"][0]["pid"], signal.SIGKILL)
        up.wait_for("worker-0 (pid")
        up.process.terminate()
        self.assertEqual(up.end(), 0)
        os.kill(int(holder.read_text()), signal.SIGKILL)

    def test_a_broken_model_is_told_and_the_others_serve(self):
        broken = {"name": "broken", "version": "1", "state": "UNAVAILABLE", "reason": "node 'x': unknown operator Foo"}
        self.fake("gateway", GATEWAY, models=[broken, *READY])
        up, ready = self.start_json()
        up.process.terminate()
        self.assertEqual(up.end(), 0)
        self.assertIn("model broken is not ready: node 'x': unknown operator Foo", up.said)
        self.assertEqual([model["state"] for model in ready["models"]], ["failed", "ready"])
        self.fake("gateway", GATEWAY, models=[broken])
        up = Up(self.folder)
        self.assertEqual(up.end(), 1)
        self.assertIn("no model could be loaded", up.said)

    def test_the_rest_goes_on_when_a_service_dies_later(self):
        up, ready = self.start_json("--workers", "2")
        dead = ready["workers"][0]["pid"]
        os.kill(dead, signal.SIGKILL)
        up.wait_for(f"worker-0 (pid {dead}) was killed by signal 9 (Killed); the rest goes on")
        for pid in self.pids(ready):
            if pid != dead:
                os.kill(pid, 0)
        up.process.terminate()
        self.assertEqual(up.end(), 0)
        self.expect_all_gone(self.pids(ready))

    def test_it_ends_with_1_when_nothing_is_left(self):
        up, ready = self.start_json()
        for pid in self.pids(ready):
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(up.end(), 1)
        self.assertIn("; stopping everything", up.said)

    def test_restart_is_loud_and_keeps_the_address(self):
        up, ready = self.start_json("--restart")
        gateway = ready["gateways"][0]
        os.kill(gateway["pid"], signal.SIGKILL)
        up.wait_for("was killed by signal 9 (Killed); starting it again")
        up.wait_for("gateway-0 (pid")
        up.process.terminate()
        self.assertEqual(up.end(), 0, up.said)
        self.assertRegex(up.said, r"gateway-0 \(pid \d+\) runs again")
        self.assertTrue(any(f"--http-address {gateway['http']}" in args for args in self.args_of("gateway")))

    def test_a_stubborn_service_is_killed(self):
        self.fake("worker", SERVICE.replace("exit 0' TERM", "' TERM"))
        up, ready = self.start_json("--grace", "300ms")
        up.process.terminate()
        self.assertEqual(up.end(), 1)
        self.assertRegex(up.said, r"worker-0 \(pid \d+\) did not stop within 300ms: killing it")
        self.expect_all_gone(self.pids(ready))

    def test_a_bad_end_at_the_stop_is_told(self):
        self.fake("worker", SERVICE.replace("exit 0' TERM", "exit 7' TERM"))
        up, _ = self.start_json()
        up.process.terminate()
        self.assertEqual(up.end(), 1)
        self.assertRegex(up.said, r"worker-0 \(pid \d+\) exited with status 7")

    def test_nothing_outlives_a_killed_up(self):
        up, ready = self.start_json()
        pids = self.pids(ready)
        up.process.kill()
        up.process.wait()
        wait_until(lambda: not any(alive(pid) for pid in pids))
        up.end()

    def test_log_files(self):
        logs = self.folder / "logs"
        logs.mkdir()
        up, _ = self.start_json("--log-dir", logs)
        up.process.terminate()
        self.assertEqual(up.end(), 0)
        self.assertEqual((logs / "worker-0.log").read_text(), "worker speaks\n")
        self.assertNotIn("worker speaks", up.said)

    def on_terminal(self, columns, *flags, **environment):
        """All that a terminal of so many columns gets of a start and a clean stop, and the folder of its logs."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        temporary = self.folder / "temporary"
        temporary.mkdir(exist_ok=True)
        up = subprocess.Popen([FERMATA, "up", "--bin-dir", self.folder, "--models", self.folder, "--any-port", *flags], stdout=slave, stderr=slave,
                              env={**os.environ, "TERM": "xterm", "TMPDIR": str(temporary), **environment})
        os.close(slave)
        seen, told = b"", False
        while True:
            try:
                seen += os.read(master, 4096)
            except OSError:  # all that held the terminal has ended
                break
            if b"Ctrl-C stops everything" in seen and not told:
                told = True
                up.terminate()
        os.close(master)
        return up.wait(PATIENCE_S), seen.decode(), temporary

    def slow_start(self, models):
        loading = [{"name": model["name"], "version": "1", "state": "LOADING"} for model in models]
        slowly = f"ASKED.append(1)\n        self.reply(200, MODELS if len(ASKED) > 20 else {loading!r})"
        self.fake("gateway", GATEWAY.replace("self.reply(200, MODELS)", slowly).replace("MODELS = ", "ASKED = []\nMODELS = "), models=models)

    def test_a_calm_screen(self):
        broken = {"name": "broken", "version": "1", "state": "UNAVAILABLE", "reason": "node 'x': " + "a long reason, " * 30 + "its end"}
        self.slow_start([broken, *READY])
        for columns in (40, 80, 200):
            code, seen, temporary = self.on_terminal(columns, NO_COLOR="1")
            self.assertEqual(code, 0, seen)
            self.assertRegex(seen, r"Starting, \d+ s: \w")
            self.assertRegex(seen, r"Loading models: 0 of 2 ready.*\x1b\[K\r\n  broken  loading\s*\x1b\[K\r\n  digits  loading\s*\x1b\[K\r\nLogs: ")
            self.assertNotIn("speaks", seen)
            self.assertNotRegex(seen, r"\x1b\[[0-9;]*m")  # no colour
            stays = seen[seen.index("Fermata is up"):]
            self.assertNotIn("\x1b", stays)
            self.assertEqual((seen.count("its end"), stays.count("its end")), (1, 1), seen)
            self.assertRegex(stays, r"logs +" + re.escape(str(temporary)) + r"/fermata-up-\w{6}/\r\n")
            rows = stays[stays.index("Models:"):stays.index("Try:")].split("\r\n")
            self.assertTrue(all(len(row) <= columns for row in rows), rows)
        folders = list(temporary.iterdir())
        self.assertEqual(len(folders), 3)
        self.assertEqual((folders[0] / "worker-0.log").read_text(), "worker speaks\n")

    def test_colours_unless_they_are_unwanted(self):
        self.assertIn("\x1b[32mready\x1b[0m", self.on_terminal(80, NO_COLOR="")[1])

    def test_logs_on_the_terminal_when_asked_for(self):
        _, seen, temporary = self.on_terminal(80, "--log-to", "stderr")
        self.assertIn("[worker-0] worker speaks", seen)
        self.assertEqual(list(temporary.iterdir()), [])
        self.assertNotIn("\x1b[K", seen)

    def test_a_service_that_fails_says_why_on_the_screen(self):
        self.fake("worker", "#!/bin/sh\necho 'first' >&2\necho 'no such device' >&2\nexit 3\n")
        code, seen, temporary = self.on_terminal(80)
        self.assertEqual(code, 1)
        self.assertRegex(seen, r"worker-0 \(pid \d+\) exited with status 3 before it was ready; stopping everything")
        self.assertIn(f"{next(temporary.iterdir())}/worker-0.log ends: no such device", seen)

    def test_a_full_disk_under_the_logs_is_borne(self):
        logs = self.folder / "logs"
        logs.mkdir()
        for name in ("scheduler", "gateway-0", "worker-0"):
            (logs / f"{name}.log").symlink_to("/dev/full")
        up, _ = self.start_json("--log-dir", logs)
        up.process.terminate()
        self.assertEqual(up.end(), 0)

    def test_a_folder_for_logs_that_cannot_be(self):
        code, seen, _ = self.on_terminal(80, TMPDIR="/nowhere")
        self.assertEqual(code, 1)
        self.assertRegex(seen, r"fermata up: cannot make a folder for logs in /nowhere: No such file or directory \(--log-to stderr does without\)")

    def test_an_output_that_is_closed_early_is_borne(self):
        read, write = os.pipe()
        os.close(read)
        up = subprocess.Popen([FERMATA, "up", "--bin-dir", self.folder, "--models", self.folder, "--any-port"], stdout=write,
                              stderr=subprocess.PIPE, text=True)
        os.close(write)
        wait_until(lambda: self.args_of("worker"))
        up.terminate()
        self.assertEqual(up.communicate(timeout=PATIENCE_S)[1].count("stopping everything"), 0)
        self.assertEqual(up.returncode, 0)

    def test_model_commands(self):
        up, ready = self.start_json()
        url = "http://" + ready["gateways"][0]["http"]

        def model(*words):
            return subprocess.run([FERMATA, "model", *words], capture_output=True, text=True, timeout=PATIENCE_S)

        listed = model("list", "--url", url)
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.assertRegex(listed.stdout, r"digits +1 +ready")
        shown = model("status", "digits", "--url", url)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("image FP32 [-1,8]", shown.stdout)
        self.assertIn("state    ready", shown.stdout)
        missing = model("status", "nothing", "--url", url)
        self.assertEqual((missing.returncode, missing.stderr), (1, "fermata model: unknown model 'nothing'\n"))
        self.assertEqual(model("status", "a/b", "--url", url).returncode, 1)
        self.assertEqual(model("dance").returncode, 2)
        up.process.terminate()
        self.assertEqual(up.end(), 0)
        gone = model("list", "--url", url)
        self.assertEqual(gone.returncode, 1)
        self.assertIn(ready["gateways"][0]["http"], gone.stderr)

    def test_usage(self):
        def run(*words):
            got = subprocess.run([FERMATA, *words], capture_output=True, text=True, timeout=PATIENCE_S)
            return got.returncode, got.stdout, got.stderr

        self.assertEqual(run()[0], 2)
        self.assertEqual(run("dance"), (2, "", "fermata: unknown command dance (see fermata --help)\n"))
        self.assertIn("fermata up", run("up", "--help")[1])
        self.assertIn("up ", run("--help")[1])
        self.assertRegex(run("--version")[1], r"^fermata \d+\.\d+\.\d+\n$")
        self.assertEqual(run("version"), run("--version"))
        code, _, stderr = run("up")
        self.assertEqual((code, stderr), (2, "fermata up: flag --models is required (or --profile with --engine emulated)\n"))
        code, _, stderr = run("up", "--models", "/nowhere")
        self.assertEqual((code, stderr), (2, "fermata up: flag --models: /nowhere: No such file or directory\n"))
        with tempfile.TemporaryDirectory() as empty:
            code, _, stderr = run("up", "--models", empty)
            self.assertEqual((code, stderr), (2, f"fermata up: flag --models: {empty} holds no MODEL/VERSION/model.onnx\n"))
        self.assertEqual(run("up", "--models", "/", "--workers", "0")[0], 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
