"""Every shell block of the README and of docs/ runs as it stands, or an HTML comment before it says why it does not.

A shell block is a fenced one of `sh` or `console`, or an indented one whose first line is a command. Each runs in a scratch folder with a copy of
`examples`, the programs in PATH and at `build/release/bin`, for a minute at most. The comments, on the line before the block or the empty line above it:

    <!-- not run: why -->              it is left out
    <!-- beside a server -->           a server of the example models runs; its addresses stand in for 127.0.0.1:8000 and 8001 (or localhost)
    <!-- with NAME -->                 the block is no command, but the content of this file, which the later blocks of the page find

A line `$ command` is run, what stands below it is what it printed once. Python blocks run where they are marked.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from system import ROOT, Serve

COMMAND = re.compile(r"(\$ |(fermata(-[a-z]+)?|curl|make|cmake|podman(-compose)?|docker|pip|python|sudo) |(scripts|tests|build|deploy)/|[A-Z_]+=\S+ )")
COMMENT = re.compile(r"<!-- (not run: .+|beside a server|with \S+) -->")
LIMIT_S = 60


class Block:
    def __init__(self, page, line, kind, text, comment):
        self.page, self.line, self.kind, self.text, self.comment = page, line, kind, text, comment

    def __str__(self):
        return f"{self.page}:{self.line}"

    @property
    def file(self):
        return self.comment.removeprefix("with ") if self.comment.startswith("with ") else None

    @property
    def runs(self):
        return not self.comment.startswith("not run") and not self.file and (
            self.kind in ("sh", "console") or self.kind == "indented" and COMMAND.match(self.text) or self.kind == "python" and self.comment)

    @property
    def script(self):
        lines = self.text.splitlines()
        if any(line.startswith("$ ") for line in lines):
            return "\n".join(line[2:] for line in lines if line.startswith("$ "))
        return self.text


def comment_before(lines, at):
    before = [line for line in lines[max(0, at - 2):at] if line.strip()]
    found = COMMENT.fullmatch(before[-1].strip()) if before else None
    return found[1] if found else ""


def blocks_of(page, root=ROOT):
    lines = page.read_text(encoding="utf-8").splitlines()
    name, at, found = page.relative_to(root), 0, []
    while at < len(lines):
        start, line = at, lines[at]
        at += 1
        if line.startswith("```"):
            while not lines[at].startswith("```"):
                at += 1
            found.append(Block(name, start + 1, line[3:].strip(), "\n".join(lines[start + 1:at]), comment_before(lines, start)))
            at += 1
        elif line.startswith("    ") and line.strip() and (start == 0 or not lines[start - 1].strip()):
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at].strip()):
                at += 1
            text = "\n".join(part[4:] for part in lines[start:at]).rstrip()
            found.append(Block(name, start + 1, "indented", text, comment_before(lines, start)))
    return found


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = {page: blocks_of(page) for page in PAGES}


@pytest.fixture(scope="module")
def scratch(tmp_path_factory, bin_dir):
    """As a clone in which the programs were built: for what blocks write, the tree itself is none of their business."""
    folder = tmp_path_factory.mktemp("docs")
    shutil.copytree(ROOT / "examples", folder / "examples")
    (folder / "build" / "release").mkdir(parents=True)
    (folder / "build" / "release" / "bin").symlink_to(pathlib.Path(bin_dir).resolve())
    for name in ("scripts", "tests"):
        (folder / name).symlink_to(ROOT / name)
    return folder


@pytest.fixture(scope="module")
def server(scratch, bin_dir):
    running = Serve(bin_dir, scratch / "serve.log", models=scratch / "examples" / "models")
    yield running
    assert running.stop() == 0


def run(block, scratch, bin_dir, server=None):
    script, environment = block.script, {**os.environ, "PATH": f"{bin_dir}:{os.environ['PATH']}"}
    if server:
        script = re.sub(r"(127\.0\.0\.1|localhost):8000", server.http, script)
        script = re.sub(r"(127\.0\.0\.1|localhost):8001", server.grpc, script)
        environment["FERMATA_ADDRESS"] = server.http
    command = [sys.executable, "-c", script] if block.kind == "python" else ["bash", "-euo", "pipefail", "-c", script]
    got = subprocess.run(command, cwd=scratch, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S)
    assert got.returncode == 0, f"{block}:\n{script}\n{got.stdout}\n{got.stderr}"
    return got.stdout


@pytest.mark.parametrize("block", [block for page in PAGES for block in BLOCKS[page] if block.runs], ids=str)
def test_it_runs_as_it_stands(block, scratch, bin_dir, request):
    for other in BLOCKS[ROOT / block.page]:
        if other.file:
            (scratch / other.file).write_text(other.text + "\n")
    run(block, scratch, bin_dir, request.getfixturevalue("server") if block.comment == "beside a server" else None)


def test_the_test_sees_blocks_and_their_failures(scratch, bin_dir, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a\n\n```sh\nfalse\n```\n\n<!-- not run: it never ends -->\n\n    fermata up\n\nc\n\n    $ fermata version\n    fermata 1\n\nb\n    no block\n")
    found = blocks_of(page, tmp_path)
    assert [(block.line, bool(block.runs)) for block in found] == [(3, True), (9, False), (13, True)]
    assert run(found[2], scratch, bin_dir).startswith("fermata ")
    with pytest.raises(AssertionError, match="page.md:3"):
        run(found[0], scratch, bin_dir)


def test_comments_are_understood():
    for page in PAGES:
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            assert "<!--" not in line or COMMENT.search(line) or "not a block" in line, f"{page}:{number}: {line}"
