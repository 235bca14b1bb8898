"""Kill an action before each thing it does to a file or asks of git, then run it again, as a resume does.

n = 1, 2, 3 … until the action no longer comes so far.  Whatever the moment, the relay ends as if
nothing had happened: each turn's work is in one commit, and nothing is left lying about.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from little_loops.fsm.endings import COMPLETED
from little_loops.relay.run_end import close_relay
from little_loops.relay.turns import perform
from tests.relay.conftest import Project, call_in
from tests.simulation.command import in_memory

METADATA = "specs/886/.return-meta.json"
INPUTS = {"metadata": METADATA, "plan": "specs/886/plan.md", "session": "sess_1"}
TASK = {"task_id": "886", "task_state": "specs/state.json", "task_todo": "TODO.md", "checked": True}
TURNS = {1: ("partial", "parser.py"), 2: ("implemented", "printer.py")}
GONE = 9
CHANGES = ("os.rename", "os.remove", "os.mkdir", "subprocess.Popen")


class Story:
    """A relay of two turns in a separate git repository."""

    def __init__(self, place: Path) -> None:
        self.run_dir = place / "run"
        self.run_dir.mkdir(parents=True)
        self.prepared: dict[str, object] = {}
        self.project = Project(place / "project")
        self.project.write("specs/886/plan.md", "1. parser\n2. printer\n")
        self.project.write("specs/state.json", '{"id": 886, "status": "planned"}\n')
        self.project.write("TODO.md", "- 886\n")
        self.project.git("init", "--quiet", "--initial-branch=main")
        self.project.git("add", ".")
        self.project.git("commit", "--quiet", "--message=Begin")

    def play(self, dies: tuple[int, str, int] | None = None) -> bool:
        """Both turns; `dies` is the turn, the action and before which operation it does, once."""
        died = False
        for number, (status, file) in TURNS.items():
            for name in (
                "prepare",
                "settle",
                *(["report", "close"] if number == len(TURNS) else []),
            ):
                if dies is not None and dies[:2] == (number, name):
                    died = self.act(name, number, dies[2]) == GONE
                assert self.act(name, number) == 0
                if name == "prepare":
                    self.work(number, status, file)
        return died

    def work(self, number: int, status: str, file: str) -> None:
        self.project.write(file, "x\n")
        progress = {"phases_completed": number, "phases_total": len(TURNS)}
        told = json.dumps({"status": status, "partial_progress": progress})
        self.project.write(METADATA, told)

    def act(self, name: str, number: int, dies_at: int = 0) -> int:
        """Run an action in a child of ours; its exit code.  What it gives back is remembered."""
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os._exit(self._in_child(name, number, dies_at, write_end))
            finally:
                os._exit(70)
        os.close(write_end)
        with open(read_end, "rb") as stream:
            self.prepared.update(json.loads(stream.read() or "{}"))
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def _in_child(self, name: str, number: int, dies_at: int, write_end: int) -> int:
        os.chdir("/")
        if dies_at:
            sys.addaudithook(Killer(str(self.run_dir.parent), dies_at))
        if name == "close":
            place, run_dir = str(self.project.root), str(self.run_dir)
            return len(close_relay("implement", place, run_dir, COMPLETED).warnings)
        inputs = {**INPUTS, **TASK, "started_ns": self.prepared.get("started_ns", "")}
        run_dir, more = str(self.run_dir), {"loop": "implement", "iteration": number}
        done = perform(f"relay.{name}", call_in(self.project.root, run_dir, inputs=inputs, **more))
        os.write(write_end, json.dumps(done.structured or {}).encode())
        return done.exit_code

    def told(self) -> dict[str, object]:
        """All that is left of a relay, without what is never the same twice."""
        report = (self.run_dir / "relay-report.txt").read_text()
        for name in self.project.git("log", "--format=%h").splitlines():
            report = report.replace(name, "COMMIT")
        return {
            "log": self.project.git("log", "--reverse", "--stat", "--format=%B"),
            "status": self.project.status(),
            "beside": sorted(os.listdir(self.project.root / "specs/886")),
            "run": sorted(name for name in os.listdir(self.run_dir) if name.endswith(".tmp")),
            "report": report,
        }


class Killer:
    """Ends this process before its n-th change of a file below `place`, or call of git."""

    def __init__(self, place: str, number: int) -> None:
        self.place = place
        self.left = number

    def __call__(self, what: str, arguments: tuple[object, ...]) -> None:
        if not self.is_change(what, arguments):
            return
        self.left -= 1
        if self.left == 0:
            os._exit(GONE)

    def is_change(self, what: str, arguments: tuple[object, ...]) -> bool:
        if what == "open":
            flags = arguments[2]
            if not isinstance(flags, int) or not flags & (os.O_WRONLY | os.O_RDWR):
                return False
        elif what not in CHANGES:
            return False
        path = str(arguments[0])
        return what == "subprocess.Popen" or not os.path.isabs(path) or path.startswith(self.place)


@pytest.fixture
def places(home: Path) -> Iterator[Iterator[Path]]:
    with in_memory() as place:
        yield (place / str(number) for number in count())


@pytest.mark.parametrize("each", [3, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize(
    ("turn", "name"),
    [
        *((turn, name) for turn in TURNS for name in ("prepare", "settle")),
        (2, "report"),
        (2, "close"),
    ],
)
def test_killed_anywhere_and_run_again(places: Iterator[Path], turn: int, name: str, each: int):
    plain = Story(next(places))
    plain.play()
    expected = plain.told()
    for number in count(1, each):
        story = Story(next(places))
        died = story.play((turn, name, number))
        assert story.told() == expected, f"killed before operation {number}"
        if not died:
            break
    assert number > (3 if name == "close" else 5)
