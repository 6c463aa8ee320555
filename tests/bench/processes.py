"""What a process has used, for benchmarks."""

import contextlib
import os
import pathlib

TICKS = os.sysconf("SC_CLK_TCK")


def fields_of(pid):
    """Of /proc/PID/stat, behind the name: 1 is the parent, 11 and 12 are processor time."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def cpu_of(fields):
    return sum(map(int, fields[11:13])) / TICKS


def cpu_s(pid):
    """Processor time so far."""
    return cpu_of(fields_of(pid))


def cpu_with_children_s(parent):
    """Of a process and its children, all of which go on."""
    spent = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                fields = fields_of(name)
                spent += cpu_of(fields) if parent in (int(name), int(fields[1])) else 0
    return spent
