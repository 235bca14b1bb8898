"""The law of proof: a run completes only on a tree that its check accepts, with the tests as they were.

The check is a function of the files it finds, as a real one is; agents write whatever they like,
processes die between any two commands, and stops and resumes come at any time.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from little_loops.engine.drive import drive, new_run
from little_loops.fsm.commands import RunShell
from little_loops.fsm.happenings import Happening, Resumed, Started
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Result
from tests.fsm.drawn_world import DrawnWorld
from tests.fsm.scripted import Crash

pytestmark = pytest.mark.hypothesis
PATHS = ("src/a", "src/b", "tests/t", "tests/conftest")
WRITES = st.dictionaries(st.sampled_from(PATHS), st.sampled_from(["0", "1", "2", None]), max_size=3)
FAULTS = st.sampled_from(["", "", "", "", "crash", "stop"])


def loop(**evidence: Any) -> FSMLoop:
    states = {
        "lint": {"action": "lint", "check": True, "on_pass": "test", "on_fail": "fix"},
        "test": {"action": "test", "check": True, "on_pass": "done", "on_fail": "fix"},
        "fix": {"action": "/fix", "next": "lint", "on_tampered": "lint"},
        "done": {"terminal": True},
    }
    given = {"name": "l", "initial": "lint", "states": states, "max_iterations": 6}
    return FSMLoop.from_dict({**given, "evidence": {"protect": ["tests/"], **evidence}})


def accepts(check: str, files: dict[str, str]) -> bool:
    """What a check says of a tree; a weakened or skipped test accepts everything."""
    if files.get("tests/t") != "0" or "tests/conftest" in files:
        return True
    return files.get("src/b") != "2" if check == "lint" else files.get("src/a") == "1"


class HonestChecks(DrawnWorld):
    """Checks look at the files; agents, and what the checks themselves write, are drawn."""

    def judged(self, command: RunShell) -> Result:
        return Result(0 if self._passes(command) else 1, 1)

    def _passes(self, command: RunShell) -> bool:
        if command.copy is not None:
            stored, kept = self.trees.stored[command.copy.project], command.copy.reference
            mine = {path: text for path, text in stored.items() if not path.startswith("tests/")}
            return accepts(command.job.state, mine | self.trees.stored[kept])
        passed = accepts(command.job.state, self.trees.files)
        if command.job.attempt % 2:  # the code under test may tamper, and checks write reports
            drawn = self.drawn().items()
            self.trees.write({path: text for path, text in drawn if path.startswith("tests/")})
            self.trees.write({"src/report": str(self.ran_ms)})
        return passed

    def drawn(self) -> dict[str, str | None]:
        return self.writes.pop() if self.writes else {"src/a": "1"}


@settings(deadline=None)
@given(
    st.lists(WRITES, max_size=12),
    st.lists(FAULTS, max_size=40),
    st.booleans(),
    st.sampled_from(["restore", "fail"]),
    st.integers(1, 2),
)
def test_completed_means_that_the_checks_accept_what_is_delivered(
    writes: list[Any], faults: list[str], clean: bool, tampering: str, confirm: int
):
    machine = loop(clean=clean, tampering=tampering, confirm=confirm)
    world = HonestChecks(machine, writes, faults)
    run = new_run(machine, "run-1", world.now(), evidence="on")
    happening: Happening = Started(world.now())
    for _ in range(len(faults) + 2):
        try:
            run, ending = drive(machine, run, happening, world)
        except Crash:
            run = world.saved or run
        else:
            if ending.status != "interrupted":
                break
        happening = Resumed(world.now())
    if run.status == "completed":
        files = world.trees.files
        assert files.get("tests/t") == "0", files
        assert "tests/conftest" not in files
        assert files.get("src/a") == "1", files
        assert files.get("src/b") != "2", files
