"""Play the scenes of `tests/screens`, and compare what is seen with the kept pictures.

    python -m tools.screens                       show what differs from the kept pictures
    python -m tools.screens --write               keep what is seen now; `git diff` shows the changes
    python -m tools.screens --write run status    only these

A picture is a text file, `SCREEN.txt`: what a terminal of 80 columns shows, with colours, in UTF-8.
Colours are written as `{green}…{/}`; a row that the terminal itself had to break ends in `⏎`.  Times,
dates, pids and paths are always the same.  What other terminals show follows from the picture by
rules, which `tests/screens/test_screens.py` checks.

Not here: what is played (`tests.screens.scenes`), setting a stage (`sessions`).
"""

from __future__ import annotations

import argparse
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from difflib import unified_diff
from functools import partial
from typing import NamedTuple

from tests.screens.scenes import SCENES, STAGE, Scene
from tools.pages import ROOT
from tools.picture import Cell, Screen
from tools.sessions import DEADLINE_S, SHOWN_PROJECT, Stage

KEPT = os.path.join(ROOT, "tests", "screens", "snapshots")
PROGRAMS = ("bash", "sh", "cat", "cp", "env", "git", "grep", "head", "rm", "sleep", "tail", "touch")
AT_ONCE = 4
ROWS = 40
QUIET_S = 0.05
# Who begins a session and opens a terminal is under its control from then on: Ctrl-C works.
ON_ITS_TERMINAL = 'exec bash -c "$2" <>"$1" >&0 2>&0'
BROKEN = "⏎"


class Variant(NamedTuple):
    """A kind of terminal."""

    width: int
    colour: bool
    utf8: bool

    @property
    def name(self) -> str:
        colour = "colour" if self.colour else "plain"
        return f"{self.width}.{colour}.{'utf8' if self.utf8 else 'ascii'}"

    @property
    def environ(self) -> dict[str, str]:
        environment = {"TERM": "xterm-256color"}
        environment |= {} if self.colour else {"NO_COLOR": "1"}
        return environment | ({} if self.utf8 else {"PYTHONIOENCODING": "ascii"})


TERMINALS = tuple(
    Variant(width, colour, utf8)
    for width in (80, 120, 50)
    for colour in (True, False)
    for utf8 in (True, False)
)
PICTURED = TERMINALS[0]
PIPES = (Variant(80, False, True), Variant(80, False, False))


def variants(scene: Scene) -> Sequence[Variant]:
    """The kinds of terminal a scene is played on: first that of its picture, last the barest."""
    return PIPES if scene.piped else TERMINALS


# ── the same every time ────────────────────────────────────────────────────────────────────────

NORMAL: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\d{8}T\d{6}-[0-9a-f]{8}"), "20261115T103000-0a1b2c3d"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d"), "2026-11-15T10-30-00"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d\b"), "2026-11-15 10:30"),
    (re.compile(r"\d{4}-\d\d-\d\d"), "2026-11-15"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "10:30:00"),
    (re.compile(r"\bpid(\s+)\d{4,}"), r"pid\g<1>4242"),
    # A row must not become longer than it was.
    (re.compile(r"\bpid(\s+)\d{3}\b"), r"pid\g<1>424"),
    (re.compile(r"\bpid(\s+)\d{2}\b"), r"pid\g<1>42"),
    (re.compile(r"\bpython \d+\.\d+\.\d+"), "python 3.12.1"),
    (re.compile(r"\bll-loop \d[\w.]*"), "ll-loop 1.0.0"),
    (re.compile(r"\btree(\s+)[0-9a-f]{6,}"), r"tree\g<1>5eaf1e"),
    (re.compile(r"[\d.]+ GB"), "76.8 GB"),
    (re.compile(r"locks work on \w+"), "locks work on ext4"),
    (re.compile(r"\b\d+s(?= ago| ·| -|\))"), "0s"),
    (re.compile(r"(?<=running )\d+s"), "0s"),
    (re.compile("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]"), "⠋"),
    (re.compile(r"[-\\|/](?= {6}\d+s)"), "|"),
    (re.compile(r"(?<=[⠋|] {6})\d+s"), "0s"),
)
SHORT_PID = re.compile(r"\bpid(\s+)424?\b")
ELAPSED = re.compile(r" *(?<![\d.])\d+\.\ds\b")


def normal(written: str, stage: Stage) -> str:
    """What was sent to the terminal, without what differs from run to run."""
    written = written.replace(stage.root, SHOWN_PROJECT).replace(stage.home, "/home/you")
    written = written.replace(os.path.dirname(sys.executable), "/home/you/bin")
    for pattern, replacement in NORMAL:
        written = pattern.sub(replacement, written)
    # Right where it stood, so that a column of times stays one.
    return ELAPSED.sub(lambda found: "0.1s".rjust(len(found[0])), written)


# ── playing ────────────────────────────────────────────────────────────────────────────────────


class Theatre(Stage):
    """A stage with few programs: what a screen shows must not depend on the machine's own."""

    def __init__(self, place: str) -> None:
        super().__init__(place, STAGE)
        for name in PROGRAMS:
            found = shutil.which(name)
            if found is not None and not os.path.lexists(os.path.join(self.bin, name)):
                os.symlink(found, os.path.join(self.bin, name))

    @property
    def environ(self) -> dict[str, str]:
        environment = {**super().environ, "PATH": self.bin, "PYTHONDONTWRITEBYTECODE": "1"}
        del environment["COLUMNS"]
        return environment

    def prepare(self, script: str) -> None:
        """Run a script that nobody sees."""
        subprocess.run(
            ["bash", "-c", script],
            cwd=self.root,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        )

    def piped(self, command: str, variant: Variant) -> tuple[str, int]:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.root,
            env={**self.environ, **variant.environ, "TERM": "dumb"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=DEADLINE_S,
            check=False,
        )
        return done.stdout.decode("utf-8").replace("\n", "\r\n"), done.returncode

    def shown(self, command: str, scene: Scene, variant: Variant) -> tuple[str, int]:
        """What a terminal is sent up to the moment of the scene, and the exit code of the end."""
        ours, theirs = os.openpty()
        termios.tcsetwinsize(theirs, (ROWS, variant.width))
        child = subprocess.Popen(
            ["bash", "-c", ON_ITS_TERMINAL, "-", os.ttyname(theirs), command],
            cwd=self.root,
            env={**self.environ, **variant.environ},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return self._watched(child, ours, scene)
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
            # Not before: what the last to close it had written would be lost on some systems.
            os.close(theirs)
            os.close(ours)

    def _watched(
        self, child: subprocess.Popen[bytes], terminal: int, scene: Scene
    ) -> tuple[str, int]:
        answers = list(scene.answers)
        deadline = time.monotonic() + DEADLINE_S
        raw, picture = b"", None
        has_ended = False
        while (piece := _read(terminal)) or not has_ended:
            # Asked after a look that found nothing, so there is one more look after the end.
            has_ended = child.poll() is not None
            assert time.monotonic() < deadline, f"{scene.name} does not end; it shows {raw!r}"
            raw += piece
            written = raw.decode("utf-8", "ignore")
            seen = "\n".join(screen_of(normal(written, self), None).text()).rstrip("\n")
            if answers and re.search(answers[0][0], seen):
                os.write(terminal, answers.pop(0)[1].encode())
            if picture is None and scene.at is not None and re.search(scene.at, seen):
                picture = written
                self.prepare(scene.after)
        assert not answers, f"{scene.name} never showed {answers[0][0]!r} but {raw!r}"
        assert scene.at is None or picture is not None, f"{scene.name} showed {raw!r}"
        return (raw.decode("utf-8"), child.returncode) if picture is None else (picture, 0)


def _read(terminal: int) -> bytes:
    """What has come since, if anything comes at all."""
    return os.read(terminal, 65536) if select.select([terminal], [], [], QUIET_S)[0] else b""


@contextmanager
def staged(scene: Scene) -> Iterator[Theatre]:
    """A theatre where all is done that comes before the scene; nothing is left of it afterwards."""
    with tempfile.TemporaryDirectory(prefix="ll-screen-", ignore_cleanup_errors=True) as place:
        theatre = Theatre(os.path.realpath(place))
        try:
            theatre.prepare(scene.before)
            yield theatre
            theatre.prepare(scene.after)
        finally:
            theatre.end()


def seen(scene: Scene, variant: Variant, theatre: Theatre) -> str:
    """The picture of a scene on one kind of terminal."""
    shown = ""
    for command in scene.types:
        if scene.piped:
            written, code = theatre.piped(command, variant)
        else:
            written, code = theatre.shown(command, scene, variant)
        left = f"{{exit {code}}}\r\n" if code else ""
        shown += f"$ {command}\r\n{normal(written, theatre)}{left}"
    return picture_of(screen_of(shown, None if scene.piped else variant.width))


def screen_of(written: str, width: int | None) -> Screen:
    screen = Screen(width)
    screen.write(written)
    return screen


# ── a picture as text ──────────────────────────────────────────────────────────────────────────

COLOURS = {
    "1": "bold",
    "2": "dim",
    "31": "red",
    "32": "green",
    "33": "yellow",
    "34": "blue",
    "36": "cyan",
}
CODE = re.compile(r"\x1b\[([0-9;]*)m")


def picture_of(screen: Screen) -> str:
    rows = [
        _row(cells) + (BROKEN if number in screen.broken else "")
        for number, cells in enumerate(screen.rows)
    ]
    return "\n".join(rows).rstrip("\n") + "\n"


def _row(cells: Sequence[Cell]) -> str:
    text, style = "", ""
    for cell in cells:
        if cell.style != style:
            text += ("{/}" if style else "") + (_named(cell.style) if cell.style else "")
            style = cell.style
        text += cell.char
    return (text + ("{/}" if style else "")).rstrip()


def _named(style: str) -> str:
    codes = ";".join(CODE.findall(style)).split(";")
    return "{" + " ".join(COLOURS.get(code, code) for code in codes) + "}"


# ── keeping ────────────────────────────────────────────────────────────────────────────────────


def path_of(scene: Scene) -> str:
    return os.path.join(KEPT, f"{scene.name}.txt")


def kept(scene: Scene) -> str:
    try:
        with open(path_of(scene), encoding="utf-8") as stream:
            return stream.read()
    except FileNotFoundError:
        return ""


def played(scene: Scene, kinds: Sequence[Variant]) -> list[str]:
    """What each kind of terminal shows of a scene; some are played at a time."""

    def alone(kind: Variant) -> str:
        with staged(scene) as theatre:
            return seen(scene, kind, theatre)

    with ExitStack() as stack, ThreadPoolExecutor(AT_ONCE) as pool:
        theatre = None if scene.changes else stack.enter_context(staged(scene))
        play = alone if theatre is None else partial(seen, scene, theatre=theatre)
        return list(pool.map(play, kinds))


def pictured(scene: Scene) -> str:
    return played(scene, variants(scene)[:1])[0]


def is_same(was: str, now: str) -> bool:
    """How many digits a pid has decides where a row ends, and differs from machine to machine."""
    was, now = with_long_pids(was), with_long_pids(now)
    return was == now or (bool(re.search(r"pid\s+4242", was)) and was.split() == now.split())


def with_long_pids(text: str) -> str:
    return SHORT_PID.sub(r"pid\g<1>4242", text)


def difference(scene: Scene, now: str) -> str:
    """How a picture differs from the kept one; empty if it does not."""
    was = kept(scene)
    if is_same(was, now):
        return ""
    name = os.path.relpath(path_of(scene), ROOT)
    lines = unified_diff(was.splitlines(), now.splitlines(), name, "seen now", lineterm="")
    return "\n".join(lines)


def keep(scene: Scene, now: str) -> None:
    os.makedirs(KEPT, exist_ok=True)
    with open(path_of(scene), "w", encoding="utf-8") as stream:
        stream.write(now)


def forget_strays() -> None:
    """Remove the pictures of scenes that are no more."""
    wanted = {path_of(scene) for scene in SCENES.values()}
    for name in os.listdir(KEPT):
        if os.path.join(KEPT, name) not in wanted:
            os.unlink(os.path.join(KEPT, name))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.screens", description=__doc__)
    parser.add_argument("scenes", nargs="*", metavar="SCREEN")
    parser.add_argument("--write", action="store_true", help="keep what is seen now")
    args = parser.parse_args(argv)
    found: list[str] = []
    scenes = [SCENES[name] for name in args.scenes or SCENES]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for scene, now in zip(scenes, pool.map(pictured, scenes), strict=True):
            if args.write:
                keep(scene, now)
            elif changed := difference(scene, now):
                found.append(changed)
    if args.write and not args.scenes:
        forget_strays()
    print("\n\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
