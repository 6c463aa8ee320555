"""`scripts/quietly` at a terminal and without one: quietly_test.py PATH_OF_IT [unittest arguments]"""

import fcntl
import os
import pathlib
import pty
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

QUIETLY = pathlib.Path(sys.argv.pop(1)).resolve()
PATIENCE_S = 60
STEPS = "for i in 1 2 3; do echo \"[$i/3] step $i\"; read -r -t 0.3 _ <> <(:); done; echo broken >&2; exit %d"


def all_of(master):
    """What was written to a terminal that nobody holds any more; one read may get only a part of it."""
    seen = b""
    try:
        while more := os.read(master, 65536):
            seen += more
    except OSError:  # EIO: that was all
        pass
    return seen


class Quietly(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.log = pathlib.Path(folder.name) / "deep" / "build.log"

    def words(self, code):
        return [QUIETLY, self.log, "Programs", "bash", "-c", STEPS % code]

    def test_the_output_is_in_the_file_alone(self):
        got = subprocess.run(self.words(0), capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual((got.returncode, got.stderr), (0, ""))
        self.assertRegex(got.stdout, rf"^  Programs: done in \d+ s \(all it printed: {self.log}\)\n$")
        self.assertEqual(self.log.read_text(), "[1/3] step 1\n[2/3] step 2\n[3/3] step 3\nbroken\n")

    def test_a_failure_shows_the_end_and_the_file(self):
        got = subprocess.run(self.words(7), capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual((got.returncode, got.stdout), (7, ""))
        self.assertIn(f"failed with exit code 7", got.stderr)
        self.assertIn(str(self.log), got.stderr)
        self.assertIn("    broken\n", got.stderr)

    def test_a_terminal_sees_one_line_as_wide_as_it_is(self):
        for columns in (40, 200):
            master, slave = pty.openpty()
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            with subprocess.Popen(self.words(0), stdout=subprocess.PIPE, stderr=slave, env={**os.environ, "TERM": "xterm"}) as quiet:
                os.close(slave)
                self.assertIn(b"done in", quiet.communicate(timeout=PATIENCE_S)[0])
            drawn = all_of(master).decode()
            os.close(master)
            lines = [line.removesuffix("\x1b[K") for line in drawn.split("\r")]
            self.assertNotIn("\n", drawn)
            self.assertTrue(any(line.startswith("  Programs  [###") for line in lines), lines)
            self.assertTrue(all(len(line) < columns for line in lines), lines)
            self.assertEqual(lines[-1], "")

    def test_a_file_that_cannot_be_written_is_told(self):
        got = subprocess.run([QUIETLY, "/proc/nothing/log", "Programs", "true"], capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual(got.returncode, 1)
        self.assertIn("/proc/nothing", got.stderr)


if __name__ == "__main__":
    unittest.main()
