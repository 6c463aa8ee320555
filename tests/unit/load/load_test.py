"""`fermata-load` at a terminal and without one, against a server of the test that answers at once.

    load_test.py PATH_OF_FERMATA_LOAD [unittest arguments]

Waiting is always for the end of the program, never for a time.
"""

import fcntl
import http.server
import json
import os
import pathlib
import pty
import struct
import subprocess
import sys
import termios
import threading
import unittest

LOAD = pathlib.Path(sys.argv.pop(1)).resolve()
PATIENCE_S = 120


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, body):
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.reply({"name": "m", "versions": ["1"], "platform": "onnx", "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 1]}],
                    "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 1]}]})

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.reply({"model_name": "m", "outputs": [{"name": "y", "datatype": "FP32", "shape": [1, 1], "data": [1.0]}]})

    def log_message(self, *_):
        pass


class Load(unittest.TestCase):
    def setUp(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def words(self, *flags):
        return [LOAD, "--address", f"127.0.0.1:{self.server.server_address[1]}", "--model", "m:50", "--connections", "2", "--duration", "600ms", *flags]

    def on_terminal(self, columns, *flags, **environment):
        """What the program writes to a terminal on stderr, and to a pipe on stdout."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        load = subprocess.Popen(self.words(*flags), stdout=subprocess.PIPE, stderr=slave, env={**os.environ, "TERM": "xterm", **environment})
        os.close(slave)
        drawn = b""
        while True:
            try:
                piece = os.read(master, 4096)
            except OSError:  # the program has ended
                break
            drawn += piece
        os.close(master)
        report, _ = load.communicate(timeout=PATIENCE_S)
        self.assertEqual(load.returncode, 0, drawn)
        return drawn.decode(), report.decode()

    def report_on_terminal(self, columns):
        """What the program writes to a terminal on stdout."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        subprocess.run(self.words(), stdout=slave, stderr=subprocess.DEVNULL, timeout=PATIENCE_S, check=True)
        os.close(slave)
        report = b""
        while piece := self.piece_of(master):
            report += piece
        os.close(master)
        return report.decode().splitlines()

    @staticmethod
    def piece_of(master):
        try:
            return os.read(master, 4096)
        except OSError:  # nobody holds the other end
            return b""

    def test_the_report_fits_the_terminal(self):
        headings = {columns: next(line for line in self.report_on_terminal(columns) if line.startswith("model")) for columns in (40, 200)}
        self.assertEqual(headings[40].split(), ["model", "offered/s", "served/s", "good/s"])
        self.assertEqual(headings[200].split()[-2:], ["max", "batch"])
        for line in self.report_on_terminal(80):
            self.assertLessEqual(len(line), 80, line)

    @staticmethod
    def lines_of(drawn):
        return [line.removesuffix("\x1b[K\x1b[J") for line in drawn.split("\r") if line.endswith("\x1b[K\x1b[J")]

    def test_a_line_tells_how_the_run_goes_and_is_gone_at_its_end(self):
        for columns in (40, 80, 200):
            with self.subTest(columns=columns):
                drawn, report = self.on_terminal(columns, NO_COLOR="1")
                lines = self.lines_of(drawn)
                self.assertTrue(lines, drawn)
                self.assertNotIn("\n", drawn)
                self.assertTrue(all(len(line) < columns for line in lines), lines)
                self.assertTrue(any("1 s left" in line and "/s sent" in line for line in lines), lines)
                if columns >= 80:
                    self.assertTrue(any("/s good  p99 " in line and "#" in line for line in lines), lines)
                self.assertTrue(drawn.endswith("\r\x1b[J"), drawn)
                self.assertIn("good/s", report)

    def test_nothing_is_drawn_for_programs(self):
        drawn, report = self.on_terminal(80, "--json")
        self.assertEqual(drawn, "")
        json.loads(report)
        self.assertEqual(self.on_terminal(80, TERM="dumb")[0], "")

    def test_nothing_is_drawn_without_a_terminal(self):
        got = subprocess.run(self.words(), capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual((got.returncode, got.stderr), (0, ""))

    def test_an_output_that_is_closed_early_is_borne(self):
        read, write = os.pipe()
        os.close(read)
        got = subprocess.run(self.words(), stdout=write, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S)
        os.close(write)
        self.assertEqual((got.returncode, got.stderr), (0, ""))

    def test_a_full_disk_is_told(self):
        with open("/dev/full", "w") as full:
            got = subprocess.run(self.words(), stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S)
        self.assertEqual((got.returncode, got.stderr), (1, "fermata-load: cannot write the report: No space left on device\n"))


if __name__ == "__main__":
    unittest.main()
