"""Accidents that once broke a promise, each told as the story it was found in."""

from __future__ import annotations

import errno
import os
import random

import pytest

from little_loops.fsm.schema import FSMLoop
from little_loops.runs.history import past_files
from little_loops.runs.layout import RunFiles
from little_loops.runs.stored_run import find
from little_loops.system.files import SYNC, WRITE
from tests.simulation.child import in_child
from tests.simulation.disk import Disk, Fault, Killed, PowerCut, heard
from tests.simulation.engine import NAME, Cue, Simulation
from tests.simulation.histories import completions, log_of
from tests.simulation.machines import Deed, Key

TWO_STEPS = FSMLoop.from_dict(
    {
        "name": NAME,
        "initial": "a",
        "states": {
            "a": {"action": "x", "next": "b"},
            "b": {"action": "x", "next": "done"},
            "done": {"terminal": True},
        },
    }
)


class Story:
    """A run of two steps on a disk of its own."""

    def __init__(self, memory: str) -> None:
        self.memory = memory
        self.cuts = 0
        self.fails_in = 0
        os.mkdir(os.path.join(memory, "0"))
        self.world = Simulation(TWO_STEPS, self._deed, Disk(os.path.join(memory, "0")))

    def _deed(self, key: Key) -> Deed:
        return Deed(2 if key.step == self.fails_in else 0, "", 10)

    @property
    def root(self) -> str:
        return self.world.disk.root

    def lose_power(self, *, least: bool = True) -> None:
        """As little as may be left is left, or as much."""
        self.cuts += 1
        place = os.path.join(self.memory, str(self.cuts))
        self.world.disk = self.world.disk.after_power_cut(_Luck(least), place)

    def complete(self) -> list[int]:
        return [key.step for key, _, _ in completions(log_of(self.root))]


class _Luck(random.Random):
    """Takes the first of what there is to choose from, or the last."""

    def __init__(self, least: bool) -> None:
        super().__init__(0)
        self.least = least

    def choice(self, seq):
        return seq[0] if self.least else seq[1]

    def randint(self, a: int, b: int) -> int:
        return a if self.least else b

    def random(self) -> float:
        return 1.0


def when(kind: str, text: str, happens: BaseException, disk: Disk) -> Fault:
    """Something happens before the first operation of a kind that names or writes this text."""

    def fault(what: str, arguments: tuple[object, ...]) -> None:
        if what == kind and text in str(arguments):
            if isinstance(happens, (Killed, PowerCut)):
                disk.kill(type(happens))
            raise happens

    return fault


def test_a_run_killed_on_its_way_into_the_history_can_be_found(memory):
    """Nothing is lost: its directory had moved and its state had not, and `run` and `resume` gave up."""

    def story() -> None:
        told = Story(memory)
        disk = told.world.disk
        fault = when("os.rename", f"'{NAME}.events.jsonl'", Killed(), disk)
        assert told.world.segment(is_resume=False, fault=fault).gone is Killed
        assert not os.path.exists(RunFiles(told.root, NAME).data)
        with heard(disk):
            assert find(told.root, NAME).run.status == "completed"
        assert told.complete() == [1, 2]
        assert told.world.begin_anew().ran is not None
        assert len(past_files(told.root, NAME)) == 2

    in_child(story)


@pytest.mark.parametrize("name", [".loops", ".running", f"{NAME}.d"])
def test_nothing_complete_is_lost_though_the_first_start_failed(memory, name):
    """A directory made by a start that failed was never synced by the one that came after."""

    def story() -> None:
        told = Story(memory)
        made: list[str] = []

        def fault(what: str, arguments: tuple[object, ...]) -> None:
            if what == "os.mkdir":
                made.append(str(arguments[0]))
            if what == SYNC and made[-1:] == [name]:
                raise OSError(errno.EIO, "the disk is not well")

        assert told.world.segment(is_resume=False, fault=fault).error is not None
        ended = told.world.segment(is_resume=False, cue=Cue(2, PowerCut))
        assert ended.gone is PowerCut
        told.lose_power()
        assert told.complete() == [1]
        ended = told.world.segment(is_resume=True)
        assert ended.ran is not None
        assert told.complete() == [1, 2]

    in_child(story)


def test_a_failed_run_can_be_resumed_though_a_later_start_was_cut_in_its_first_line(memory):
    """The torn beginning of an event was taken for a run that stood in the way."""

    def story() -> None:
        told = Story(memory)
        told.fails_in = 2
        ended = told.world.segment(is_resume=False)
        assert ended.ran is not None
        assert ended.ran.run.status == "failed"

        def tear(what: str, arguments: tuple[object, ...]) -> None:
            if what == WRITE and b"loop_start" in bytes(arguments[1]):  # type: ignore[call-overload]
                os.write(int(str(arguments[0])), b'{"event":"loop_st')
                told.world.disk.kill(Killed)

        assert told.world.segment(is_resume=False, fault=tear).gone is Killed
        for _ in range(2):  # the second time it comes from the history, where the torn one is too
            ended = told.world.segment(is_resume=True)
            assert ended.ran is not None, ended
            assert ended.ran.run.status == "failed"
        told.fails_in = 0
        ended = told.world.segment(is_resume=True)
        assert ended.ran is not None
        assert ended.ran.run.status == "completed"

    in_child(story)
