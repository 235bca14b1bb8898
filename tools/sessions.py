"""Run the sessions of a page, and compare or record their output.

    python -m tools.sessions docs/tutorial.md     print the differences
    python -m tools.sessions --write README.md    record the output in the page

Each page has its own project and home directory in a temporary directory.  Files are written in the
order of the page, and commands run one after the other in a real shell with the real `ll-loop`; only
agents are replaced by the stand-ins in `tests/docs/stand_ins`.  Times, pids, dates and run ids are
not compared.

Not here: the structure of a page (`pages`).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import unified_diff
from typing import NamedTuple

from tools.pages import ROOT, Block, read_page

STAND_INS = os.path.join(ROOT, "tests", "docs", "stand_ins")
DEADLINE_S = 60.0
POLL_S = 0.02
ANY_LINES = "…"
CUTS = {"^C": signal.SIGINT, "Killed": signal.SIGKILL}
SHOWN_PROJECT = "/home/you/project"


class Command(NamedTuple):
    """One command of a session, and the lines that the page shows for it."""

    text: str
    expected: tuple[str, ...]


class Difference(Exception):
    """A session does not match its page."""


# ── reading ────────────────────────────────────────────────────────────────────────────────────


def commands(block: Block) -> list[Command]:
    found: list[tuple[str, list[str]]] = []
    goes_on = False
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
            goes_on = True
        elif not found:
            raise ValueError(f"line {block.line}: a session begins with a command")
        elif goes_on and line.startswith("> "):
            found[-1] = (f"{found[-1][0]}\n{line[2:]}", [])
        else:
            goes_on = False
            found[-1][1].append(line)
    return [Command(text, tuple(lines)) for text, lines in found]


# ── comparing ──────────────────────────────────────────────────────────────────────────────────

NUMBER = r"\d+(?:\.\d+)?"
NORMAL = (
    (re.compile(r"\d{8}T\d{6}-[0-9a-f]{8}"), "RUN"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d[-:]\d\d(?:[-:]\d\d)?(?:\.\d+)?Z?"), "STAMP"),
    (re.compile(r"\d{4}-\d\d-\d\d"), "DATE"),
    (re.compile(r"\b\d{1,2} [A-Z][a-z]{2} \d{4}\b"), "DATE"),
    (re.compile(r"\b(committed|tree) [0-9a-f]{6,}"), r"\1 HASH"),
    (re.compile(r"\bsess_\d+_[0-9a-f]+"), "SESSION"),
    (re.compile(r"\bpid \d+"), "pid N"),
    (re.compile(r'"pid": \d+'), '"pid": N'),
    (re.compile(rf"\b(?:{NUMBER}[dhm] ?)*{NUMBER}m?s\b"), "TIME"),
    (re.compile(r"\bTIME ago|\bjust now"), "AGO"),
    (re.compile(r'"(\w+_ms|ran_ms)": \d+'), r'"\1": N'),
    (re.compile(r" {2,}"), "  "),
    (re.compile(r" +$"), ""),
)


def normal(line: str) -> str:
    """The line without the parts that differ from run to run."""
    for pattern, replacement in NORMAL:
        line = pattern.sub(replacement, line)
    return line


def matches(expected: Sequence[str], printed: Sequence[str]) -> bool:
    """Whether the lines are as expected; `…` matches any number of lines."""
    if not expected:
        return not printed
    first, rest = expected[0], expected[1:]
    if first == ANY_LINES:
        return any(matches(rest, printed[at:]) for at in range(len(printed) + 1))
    return bool(printed) and normal(first) == normal(printed[0]) and matches(rest, printed[1:])


# ── running ────────────────────────────────────────────────────────────────────────────────────


class Stage:
    """Where the sessions of a page run: a project, a home directory, and programs."""

    def __init__(self, place: str, props: str) -> None:
        self.root = os.path.join(place, "project")
        self.bin = os.path.join(place, "bin")
        self.home = os.path.join(place, "home")
        for folder in (self.root, self.bin, self.home):
            os.makedirs(folder)
        self.exit_code = 0
        self.cwd = self.root
        self._left_in = os.path.join(place, "cwd")
        self._program("ll-loop", f'exec "{sys.executable}" -P -m little_loops "$@"')
        self._program("python3", f'exec "{sys.executable}" "$@"')
        self._furnish(props)

    def _furnish(self, props: str) -> None:
        """Copy the stand-in programs to `bin` and files to `project`."""
        for name, target in (("bin", self.bin), ("project", self.root)):
            if os.path.isdir(os.path.join(props, name)):
                shutil.copytree(os.path.join(props, name), target, dirs_exist_ok=True)
        if os.path.exists(os.path.join(self.bin, "agent.sh")):
            shutil.copy(os.path.join(STAND_INS, "claude"), self.bin)
        for folder, _, names in [*os.walk(self.bin), *os.walk(self.root)]:
            for name in names:
                path = os.path.join(folder, name.removesuffix(".txt"))
                # Python files of an example project are stored as `.txt`, so that no tool reads them.
                os.rename(os.path.join(folder, name), path)
                _make_runnable(path)
        if os.path.exists(os.path.join(props, "git")):
            self._commit()

    def _commit(self) -> None:
        """Make the project a git repository that contains all its files."""
        for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "Begin"]):
            allowed = ["--allow-empty"] if words[0] == "commit" else []
            subprocess.run(["git", *words, *allowed], cwd=self.root, env=self.environ, check=True)

    def _program(self, name: str, script: str) -> None:
        path = os.path.join(self.bin, name)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(f"#!/bin/sh\n{script}\n")

    @property
    def environ(self) -> dict[str, str]:
        path = os.pathsep.join([self.bin, os.environ.get("PATH", os.defpath)])
        source = os.path.join(ROOT, "src")
        return {
            "PATH": path,
            "HOME": self.home,
            "PYTHONPATH": source,
            # Otherwise Python's cache would not notice a change within the same second.
            "PYTHONDONTWRITEBYTECODE": "1",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "COLUMNS": "80",
            "IS_SANDBOX": "1",
            # A chore takes five seconds by default, so that readers have time to interrupt it.
            "CHORE_SECONDS": "3",
            "GIT_CONFIG_GLOBAL": os.path.join(self.home, "gitconfig"),
            "GIT_AUTHOR_NAME": "you",
            "GIT_AUTHOR_EMAIL": "you@example.com",
            "GIT_COMMITTER_NAME": "you",
            "GIT_COMMITTER_EMAIL": "you@example.com",
        }

    def write(self, block: Block) -> None:
        """Write the file that a block contains."""
        assert block.file is not None, "a block that names a file"
        path = os.path.join(self.root, block.file)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(block.text)
        _make_runnable(path)

    def run(self, command: Command) -> list[str]:
        """What the command prints; it is interrupted where the page shows that."""
        # `$?` and the directory carry over from the previous command, as in a terminal.
        script = f"trap 'pwd > {self._left_in}' EXIT\n(exit {self.exit_code})\n{command.text}\n"
        with tempfile.TemporaryFile() as output:
            child = subprocess.Popen(
                ["bash", "-c", script],
                cwd=self.cwd,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                self._see_through(child, command, output.fileno())
            finally:
                if child.poll() is None:
                    os.killpg(child.pid, signal.SIGKILL)
                    child.wait()
            self.exit_code = child.returncode if child.returncode >= 0 else 128 - child.returncode
            self.cwd = self._directory() or self.cwd
            return self._lines(output.fileno())

    def _directory(self) -> str | None:
        """The shell's directory after the command; None if it was killed."""
        try:
            with open(self._left_in, encoding="utf-8") as stream:
                return stream.read().rstrip("\n")
        except OSError:
            return None

    def _see_through(self, child: subprocess.Popen[bytes], command: Command, output: int) -> None:
        deadline = time.monotonic() + DEADLINE_S
        cut = next((line for line in command.expected if line in CUTS), None)
        if cut is not None:
            before = command.expected[: command.expected.index(cut)]
            while not matches(before, self._lines(output)):
                if child.poll() is not None or time.monotonic() > deadline:
                    return
                time.sleep(POLL_S)
            os.write(output, f"{cut}\n".encode())
            os.killpg(child.pid, CUTS[cut])
            if CUTS[cut] == signal.SIGKILL:
                # The action has a session of its own, and may or may not have started by now.
                child.wait()
                self.end()
        try:
            child.wait(max(deadline - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            raise Difference(f"`{command.text}` does not end") from None

    def _lines(self, output: int) -> list[str]:
        size = os.fstat(output).st_size
        text = os.pread(output, size, 0).decode("utf-8", "replace")
        return text.replace(self.root, SHOWN_PROJECT).replace(self.home, "/home/you").splitlines()

    def end(self) -> None:
        """End all processes that the page left running."""
        import psutil  # only needed here

        for process in psutil.process_iter():
            try:
                environment = process.environ()
            except psutil.Error:
                continue
            if environment.get("HOME") == self.home and process.pid != os.getpid():
                process.kill()


def _make_runnable(path: str) -> None:
    if not os.path.isfile(path):
        return
    with open(path, "rb") as stream:
        begins = stream.read(2)
    if begins == b"#!" or path.endswith(".sh"):
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)


def page_name(path: str) -> str:
    """The folder of a page's stand-ins: `howto-recover` for `docs/howto/recover.md`."""
    shown = os.path.splitext(path)[0].removeprefix("docs" + os.sep)
    return shown.replace(os.sep, "-").lower()


@contextmanager
def staged(props: str) -> Iterator[Stage]:
    """A stage with the stand-ins in this directory."""
    with tempfile.TemporaryDirectory(prefix="ll-page-", ignore_cleanup_errors=True) as place:
        stage = Stage(os.path.realpath(place), props)
        try:
            yield stage
        finally:
            stage.end()


class Played(NamedTuple):
    """A block of a page, and the output of each command in it."""

    block: Block
    printed: tuple[tuple[Command, list[str]], ...]


def play(page: str) -> Iterator[Played]:
    """Run the blocks of a page from top to bottom."""
    with staged(os.path.join(STAND_INS, page_name(page))) as stage:
        blocks = read_page(page).blocks
        for block, after in zip(blocks, [*blocks[1:], NOTHING], strict=True):
            if block.language == "console" and block.not_run is None:
                yield Played(block, tuple((one, stage.run(one)) for one in commands(block)))
            elif is_typed(block):
                shown = after if "printed" in after.words else NOTHING
                command = Command(block.text.rstrip("\n"), tuple(shown.text.splitlines()))
                yield Played(shown if shown.line else block, ((command, stage.run(command)),))
            elif block.file is not None and block.language != "console":
                stage.write(block)


NOTHING = Block("", (), "", 0)


def is_typed(block: Block) -> bool:
    return block.language == "sh" and "typed" in block.words


# ── reporting ──────────────────────────────────────────────────────────────────────────────────


def differences(page: str) -> list[str]:
    """The differences between a page and its sessions."""
    found = []
    for played in play(page):
        for command, printed in played.printed:
            if not matches(command.expected, printed):
                found.append(_difference(page, played.block, command, printed))
    return found


def _difference(page: str, block: Block, command: Command, printed: Sequence[str]) -> str:
    diff = unified_diff(
        [normal(line) for line in command.expected],
        [normal(line) for line in printed],
        *("the page", "printed"),
        lineterm="",
    )
    return "\n".join([f"{page}:{block.line}: $ {command.text}", *diff])


def written(page: str) -> str:
    """The page with the output of its sessions, where that differs."""
    lines = read_page(page).text.splitlines()
    for played in reversed(list(play(page))):
        if is_typed(played.block):
            continue  # the page does not show its output
        text = "".join(_as_shown(pair, played.block) for pair in played.printed).splitlines()
        began = played.block.line
        lines[began : began + len(played.block.text.splitlines())] = text
    return "\n".join(lines) + "\n"


def _as_shown(pair: tuple[Command, list[str]], block: Block) -> str:
    command, printed = pair
    typed = command.text.replace("\n", "\n> ")
    first = [f"$ {typed}"] if block.language == "console" else []
    lines = command.expected if matches(command.expected, printed) else printed
    return "".join(f"{line}\n" for line in [*first, *lines])


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.sessions", description=__doc__)
    parser.add_argument("pages", nargs="+", metavar="PAGE")
    parser.add_argument("--write", action="store_true", help="record the output in the pages")
    args = parser.parse_args(argv)
    found = []
    for page in (os.path.relpath(os.path.abspath(each), ROOT) for each in args.pages):
        if args.write:
            text = written(page)
            with open(os.path.join(ROOT, page), "w", encoding="utf-8") as stream:
                stream.write(text)
        else:
            found += differences(page)
    print("\n\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
